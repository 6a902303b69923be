/*
 * self_test.c - every fault is caught, the same stream passes without it, and shrinking leaves a
 * short stream of which both is true.
 */
#include "tests/lmdb/self_test.h"

#include "tests/lmdb/shrink.h"

#include <stdio.h>

#define LENGTH       1200 /* operations in a round */
#define ROUNDS       20   /* until a fault must have been caught */
#define SHORT_ENOUGH 12   /* operations that a shrunk stream may have */

/* The first round in which the fault shows. */
static bool find_round(struct child *c, enum fault fault, uint64_t seed, struct stream *stream,
                       uint64_t *round)
{
    for (*round = 0; *round < ROUNDS; ++*round) {
        if (stream_random(stream, seed, *round, LENGTH))
            return false;
        if (!child_run(c, stream, fault, true))
            return true;
        stream_free(stream);
    }
    return false;
}

static bool check_fault(const char *program, struct child *c, enum fault fault, uint64_t seed)
{
    struct stream stream;
    struct shrunk s;
    uint64_t round;
    printf("fault %s: %s\n", fault_names[fault], fault_texts[fault]);
    if (!find_round(c, fault, seed, &stream, &round)) {
        printf("FAILED it was not caught in %d rounds of seed %llu\n", ROUNDS,
               (unsigned long long)seed);
        return false;
    }
    size_t at = c->report->operations;
    printf("  caught: seed %llu round %llu operation %zu, assertion '%s'\n  %s\n",
           (unsigned long long)seed, (unsigned long long)round, at, c->report->assertion,
           c->report->text);
    printf("  again: %s --seed %llu --round %llu --length %d --fault %s\n", program,
           (unsigned long long)seed, (unsigned long long)round, LENGTH, fault_names[fault]);
    bool passes = child_run(c, &stream, FAULT_none, false);
    shrink(&s, c, &stream, at, fault);
    bool short_passes = child_run(c, &s.stream, FAULT_none, false);
    printf("  without the fault that seed %s\n  shrunk in %u runs to %zu operations, assertion "
           "'%s'; without the fault they %s:\n",
           passes ? "passes" : "FAILS", s.tries, s.stream.n, s.assertion,
           short_passes ? "pass" : "FAIL");
    shrunk_print(&s);
    bool good = passes && s.again && short_passes && s.stream.n <= SHORT_ENOUGH;
    if (!good)
        printf("FAILED at least one of these is not as it must be (at most %d operations)\n",
               SHORT_ENOUGH);
    shrunk_free(&s);
    stream_free(&stream);
    return good;
}

int run_self_test(const char *program, const char *base, uint64_t seed)
{
    struct child c;
    unsigned passed = 0, failed = 0;
    child_open(&c, base, 0);
    for (int fault = FAULT_none + 1; fault < FAULT_COUNT; fault++) {
        if (check_fault(program, &c, (enum fault)fault, seed))
            passed++;
        else
            failed++;
    }
    child_close(&c);
    printf("SUITE lmdb-self-test required=%d executed=%u passed=%u failed=%u skipped=0\n",
           FAULT_COUNT - 1, passed + failed, passed, failed);
    return failed ? 1 : 0;
}
