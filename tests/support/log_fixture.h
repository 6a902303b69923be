/*
 * log_fixture.h - a log on a disk in memory, whose commits are known, for the tests of the log.
 *
 * Commit number seq has the payload log_fixture_fill() makes and the stamp 10 * seq. Functions
 * assert (cmocka) what is not what the caller tests.
 */
#ifndef PANDO_TESTS_SUPPORT_LOG_FIXTURE_H
#define PANDO_TESTS_SUPPORT_LOG_FIXTURE_H

#include "storage/log.h"
#include "storage/log_format.h"
#include "tests/support/memory_vfs.h"

#define SEGMENT 4096u
#define LEN     104u /* of an ordinary commit: a record without padding */
#define MOST    4000

extern const struct log_pos beginning;

struct fixture {
    struct memory_vfs *disk;
    struct log *log;
    struct log_pos ends[MOST]; /* by sequence */
    size_t lens[MOST];
    uint64_t last, replayed;
    struct ps_fault fault;
};

/* For cmocka: *state is the fixture. */
int set_up(void **state);
int tear_down(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

void assert_same_position(const struct log_pos *a, const struct log_pos *b);
void fill(uint8_t *bytes, uint64_t seq, size_t len);

/* Closes the log if it is open. */
int open_log(struct fixture *f);
void close_log(struct fixture *f);
void start(struct fixture *f, const struct log_pos *from);
void append(struct fixture *f, size_t len, uint64_t durable);
void flush(struct fixture *f);
/* Commits of LEN bytes in one epoch; each says that those up to `behind` before it are durable. */
void make_log(struct fixture *f, uint64_t commits, uint64_t behind);

/* Scans from `from`; then replays and compares. What scanning said. */
int scan(struct fixture *f, const struct log_pos *from, struct log_pos *end, uint64_t *torn);
/* Opens, scans, and expects the last commit to be this. */
void expect_end(struct fixture *f, const struct log_pos *from, uint64_t seq);
/* Opens, scans, and expects damage at this position. */
void expect_refused(struct fixture *f, const struct log_pos *from, uint64_t position);

void path_of(char *path, size_t size, uint64_t position);
/* Where the record of a commit of one piece begins. */
uint64_t record_of(const struct fixture *f, uint64_t seq);
/* The segment's bytes from a position on. */
uint8_t *bytes_at(struct memory_vfs *disk, uint64_t position);

#endif
