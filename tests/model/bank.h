/*
 * bank.h - what a writer and its readers share (threads.c): the trees, the rules they keep, and how
 * often each kind of action was done.
 *
 * Threads: counters are atomic; the rest is set before the threads begin.
 */
#ifndef PANDO_TESTS_MODEL_BANK_H
#define PANDO_TESTS_MODEL_BANK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "storage/pandostore.h"
#include "tests/model/rng.h"

#define ACCOUNTS 300u
#define BALANCE  1000u
#define ROWS     200u

struct plan {
    uint32_t page_size;
    uint64_t slots;
    enum ps_durability level;
    unsigned transfers; /* in a transaction, at most */
};

/* What must have been done at the end; bank_act_names has a word for each. */
enum bank_act {
    ACT_HELD,
    ACT_PINNED,
    ACT_MOVED,
    ACT_GET_MANY,
    ACT_GET_PART,
    ACT_PROBED,
    ACT_PROBED_MANY,
    ACT_RESIDENT, /* probes that found what they looked for in memory */
    ACT_ROLLED_BACK,
    ACT_RELEASED,
    ACT_SPREES, /* transactions larger than some plans' share of dirty memory */
    ACT_LOG_FAULTS,
    ACT_DROPPED, /* commits that ended without being known to have happened */
    BANK_ACTS,
};

struct bank {
    const struct plan *plan;
    struct ps_store *store;
    struct fault_vfs *faults;
    ps_tree tree[4]; /* two of accounts, one of rows, one with a long value */
    uint64_t base;   /* sequence at which the counters are 0 */
    uint64_t seed, commits;
    atomic_ullong acknowledged;
    atomic_bool over;
    bool lost; /* the writer's: the open transaction can only be aborted */
    atomic_ullong reads, acts[BANK_ACTS];
};

struct reader {
    struct bank *bank;
    struct rng rng;
    struct ps_snapshot *snap;
    struct ps_residency *residency;
    int64_t now; /* of a clock of its own, for the residency */
    uint64_t seq;
    unsigned number;
    bool patient; /* stops in the middle of its next walk until it is asked to move */
};

struct name {
    char text[24];
};

void bank_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void bank_must(int rc, const char *call);
void bank_did(struct bank *b, enum bank_act act);

struct ps_slice bank_account(struct name *name, unsigned number);
struct ps_slice bank_row(struct name *name, uint64_t number);
struct ps_slice bank_counter_key(void);
struct ps_slice bank_long_key(void);
/* Byte i of the long value that commit `counter` wrote; the first 8 are that number. */
unsigned char bank_long_byte(uint64_t counter, uint64_t i);
uint64_t bank_number_in(struct ps_slice value);
uint64_t bank_read_number(struct ps_view *view, ps_tree tree, struct ps_slice key);

/* Verifies the snapshot that is held; the hash of its accounts. */
uint64_t bank_verify(struct reader *reader, bool forward);

#endif
