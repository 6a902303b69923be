/* test_log_parts.c - commits that are written in parts while their transaction still runs. The disk
 * is in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/log_fixture.h"

/* The first `count` of the parts of the next commit, each with a stamp below the last one's. */
static void append_parts(struct fixture *f, const size_t *lens, size_t count, size_t of)
{
    uint64_t seq = f->last + 1;
    size_t total = 0, at = 0;

    for (size_t i = 0; i < of; i++)
        total += lens[i];
    uint8_t *payload = malloc(total + 1);
    fill(payload, seq, total);
    f->lens[seq] = total;
    for (size_t i = 0; i < count; i++) {
        uint64_t stamp = seq * 10 - (of - 1 - i > 9 ? 9 : of - 1 - i);
        if (i + 1 < of)
            assert_int_equal(log_append_part(f->log, seq, stamp, 0, payload + at, lens[i]), 0);
        else
            assert_int_equal(
                log_append(f->log, seq, stamp, 0, payload + at, lens[i], &f->ends[seq]), 0);
        at += lens[i];
    }
    free(payload);
    f->last += count == of;
}

static void parts_and_a_last_one_are_one_commit(void **state)
{
    static const size_t lens[] = {1, 0, 100, 5000, 40, 12000, 8, 3};
    struct fixture *f = *state;

    assert_int_equal(open_log(f), 0);
    start(f, &beginning);
    append(f, LEN, 0);
    append_parts(f, lens, 8, 8);
    append(f, LEN, 0);
    append_parts(f, lens, 3, 3);
    append_parts(f, lens + 1, 2, 2); /* nothing at all, but for the last */
    flush(f);
    for (uint64_t from = 0; from <= 5; from++)
        expect_end(f, &f->ends[from], 5);
}

static void parts_may_be_written_and_synced_long_before_the_last(void **state)
{
    static const size_t lens[] = {3000, 3000, 3000, 3000};
    struct fixture *f = *state;
    struct log_pos end;
    uint8_t payload[12000];

    assert_int_equal(open_log(f), 0);
    start(f, &beginning);
    append(f, LEN, 0);
    fill(payload, 2, sizeof payload);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(log_append_part(f->log, 2, 11 + i, 0, payload + i * 3000, lens[i]), 0);
        flush(f);
        log_end(f->log, &end);
        assert_int_equal(end.seq, 1);
    }
    assert_int_equal(log_append(f->log, 2, 20, 0, payload + 9000, 3000, &f->ends[2]), 0);
    f->lens[2] = sizeof payload;
    flush(f);
    expect_end(f, &beginning, 2);
}

static void parts_without_a_last_one_are_a_torn_tail(void **state)
{
    static const size_t lens[] = {300, 9000, 200, 100};
    struct fixture *f = *state;
    struct log_pos end;
    uint64_t torn;

    assert_int_equal(open_log(f), 0);
    start(f, &beginning);
    append(f, LEN, 0);
    append_parts(f, lens, 3, 4);
    flush(f);
    assert_int_equal(open_log(f), 0);
    assert_int_equal(scan(f, &beginning, &end, &torn), 0);
    assert_int_equal(end.seq, 1);
    assert_true(torn > 9500);
    start(f, &end);
    append(f, LEN, 0);
    flush(f);
    expect_end(f, &beginning, 2);
}

static void a_new_epoch_before_the_first_part_makes_them_dead_and_frees_their_segments(void **state)
{
    static const size_t lens[] = {300, 40000, 100};
    struct fixture *f = *state;
    struct log_stats before, after;
    struct log_pos from;

    assert_int_equal(open_log(f), 0);
    start(f, &beginning);
    append(f, LEN, 0);
    flush(f);
    for (unsigned i = 0; i < 20; i++) {
        log_get_stats(f->log, &before);
        from = f->ends[f->last];
        append_parts(f, lens, 2, 3);
        flush(f);
        start(f, &from);
        append(f, LEN, f->last);
        flush(f);
        log_recycle(f->log, &beginning); /* nothing before was given up */
        log_get_stats(f->log, &after);
        assert_true(i < 3 || after.segments <= before.segments + 2);
    }
    assert_true(after.segments_recycled > 100);
    expect_end(f, &beginning, 21);
    expect_end(f, &f->ends[9], 21);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(parts_and_a_last_one_are_one_commit),
        TEST(parts_may_be_written_and_synced_long_before_the_last),
        TEST(parts_without_a_last_one_are_a_torn_tail),
        TEST(a_new_epoch_before_the_first_part_makes_them_dead_and_frees_their_segments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
