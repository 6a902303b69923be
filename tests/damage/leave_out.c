/*
 * leave_out.c - see leave_out.h.
 */
#include "tests/damage/leave_out.h"

#include <string.h>

#include "storage/log_format.h"
#include "storage/store.h"

enum { LOG_CHECKSUM = 8 };

const struct left_out left_outs[CHECKS] = {
    {"checksum of pages", "checksum does not match", "plain"},
    {"birth and number of pages", "stale or misplaced page", "plain"},
    {"kind and level", "wrong kind or level", "plain"},
    {"cells within the page", "a cell is outside the page", "plain"},
    {"the header of a page", "impossible header", "plain"},
    {"checksum of runs", "checksum of an overflow run", "runs"},
    {"birth and length of runs", "stale or misplaced overflow run", "runs"},
    {"checksum of pieces", "checksum of piece", "runs"},
    [LOG_CHECKSUM] = {"checksum of log records", NULL, "log"},
};

static unsigned without = CHECKS;

void leave_out(unsigned check)
{
    without = check;
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __real_page_verify(struct ps_store *store, const struct child *child, unsigned level);
int __real_run_verify(struct ps_store *store, const struct run_ref *run);
int __real_run_verify_part(struct ps_store *store, const struct run_ref *run, uint64_t from,
                           uint64_t to);
uint32_t __real_log_record_crc(const uint8_t *in, uint32_t prev_crc, uint64_t epoch, uint32_t len);
int __wrap_page_verify(struct ps_store *store, const struct child *child, unsigned level);
int __wrap_run_verify(struct ps_store *store, const struct run_ref *run);
int __wrap_run_verify_part(struct ps_store *store, const struct run_ref *run, uint64_t from,
                           uint64_t to);
uint32_t __wrap_log_record_crc(const uint8_t *in, uint32_t prev_crc, uint64_t epoch, uint32_t len);

static int pass_over(struct ps_store *store, int rc)
{
    struct ps_fault fault;
    if (rc != PS_CORRUPT || without == CHECKS || left_outs[without].text == NULL) {
        return rc;
    }
    ps_last_fault(store, &fault);
    return strstr(fault.what, left_outs[without].text) != NULL ? 0 : rc;
}

int __wrap_page_verify(struct ps_store *store, const struct child *child, unsigned level)
{
    return pass_over(store, __real_page_verify(store, child, level));
}

int __wrap_run_verify(struct ps_store *store, const struct run_ref *run)
{
    return pass_over(store, __real_run_verify(store, run));
}

int __wrap_run_verify_part(struct ps_store *store, const struct run_ref *run, uint64_t from,
                           uint64_t to)
{
    return pass_over(store, __real_run_verify_part(store, run, from, to));
}

/* Whatever the record says itself. */
uint32_t __wrap_log_record_crc(const uint8_t *in, uint32_t prev_crc, uint64_t epoch, uint32_t len)
{
    uint32_t crc;
    memcpy(&crc, in, 4);
    return without == LOG_CHECKSUM ? crc : __real_log_record_crc(in, prev_crc, epoch, len);
}
/* NOLINTEND(bugprone-reserved-identifier) */
