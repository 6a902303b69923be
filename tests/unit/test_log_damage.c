/* test_log_damage.c - torn tails are cut, damage is refused and named. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/log_fixture.h"

/* ---- torn tails -------------------------------------------------------------------------------
 */

enum tear { TEAR_TRUNCATE, TEAR_ZERO, TEAR_GARBAGE };

static void tear_at(struct memory_vfs *disk, uint64_t position, enum tear how)
{
    uint8_t *at = bytes_at(disk, position);
    size_t rest = SEGMENT - (size_t)(position % SEGMENT);

    if (how == TEAR_GARBAGE) {
        at[0] ^= 0xff;
        for (size_t i = 1; i < rest; i++)
            at[i] = (uint8_t)memory_vfs_random(disk, 256);
    } else if (how == TEAR_ZERO) {
        memset(at, 0, rest);
    } else {
        const struct ps_vfs *vfs = memory_vfs(disk);
        char path[64];
        int fd;

        path_of(path, sizeof(path), position);
        fd = vfs->open(vfs->ctx, path, 2, 0);
        assert_int_equal(vfs->ftruncate(vfs->ctx, fd, position % SEGMENT), 0);
        assert_int_equal(vfs->close(vfs->ctx, fd), 0);
    }
}

static void a_tail_torn_at_every_byte_of_the_last_record_is_cut(void **state)
{
    struct fixture *f = *state;
    struct memory_vfs *whole;
    struct log_pos last;

    make_log(f, 9, 1);
    whole = f->disk;
    last = f->ends[9];
    for (uint64_t at = record_of(f, 9); at < last.position; at++)
        for (enum tear how = TEAR_TRUNCATE; how <= TEAR_GARBAGE; how++) {
            struct log_pos end;
            uint64_t torn;

            close_log(f);
            f->disk = memory_vfs_copy(whole);
            f->ends[9] = last;
            tear_at(f->disk, at, how);
            assert_int_equal(open_log(f), 0);
            assert_int_equal(scan(f, &beginning, &end, &torn), 0);
            assert_same_position(&end, &f->ends[8]);
            if (at >= last.position - LEN)
                assert_int_equal(torn, log_record_size(LEN));
            f->last = 8; /* and the log goes on */
            start(f, &end);
            append(f, LEN, 8);
            flush(f);
            expect_end(f, &beginning, 9);
            close_log(f);
            memory_vfs_free(f->disk);
        }
    f->disk = whole;
}

static void a_commit_whose_last_piece_is_missing_is_cut_whole(void **state)
{
    struct fixture *f = *state;
    struct log_pos end;
    uint64_t torn;

    make_log(f, 5, 1);
    append(f, 3 * SEGMENT, 5);
    flush(f);
    tear_at(f->disk, f->ends[6].position - 8, TEAR_ZERO);
    assert_int_equal(open_log(f), 0);
    assert_int_equal(scan(f, &beginning, &end, &torn), 0);
    assert_same_position(&end, &f->ends[5]);
    assert_int_equal(torn, f->ends[6].position - f->ends[5].position);
}

static void damage_above_the_durable_mark_is_cut(void **state)
{
    struct fixture *f = *state;
    struct log_pos end;
    uint64_t torn;

    make_log(f, 100, 101);
    bytes_at(f->disk, record_of(f, 4))[50] ^= 1;
    assert_int_equal(open_log(f), 0);
    assert_int_equal(scan(f, &beginning, &end, &torn), 0);
    assert_same_position(&end, &f->ends[3]);
    assert_int_equal(torn, f->ends[100].position - f->ends[3].position);
}

/* ---- damage -----------------------------------------------------------------------------------
 */

static void damage_of_any_byte_below_the_durable_mark_is_refused(void **state)
{
    struct fixture *f = *state;

    make_log(f, 60, 1); /* over several segments; the last says that 59 are durable */
    for (uint64_t seq = 1; seq <= 59; seq++)
        for (uint64_t at = record_of(f, seq); at < f->ends[seq].position; at += seq % 5 + 1) {
            uint8_t *byte = bytes_at(f->disk, at);

            *byte ^= 0x10;
            expect_refused(f, &beginning, record_of(f, seq));
            *byte ^= 0x10;
        }
    bytes_at(f->disk, record_of(f, 60))[45] ^= 1;
    expect_end(f, &beginning, 59);
}

static void a_large_record_proves_damage_as_well(void **state)
{
    struct fixture *f = *state;

    make_log(f, 3, 4); /* without marks */
    append(f, 3000, 3);
    flush(f);
    bytes_at(f->disk, record_of(f, 2))[45] ^= 1;
    expect_refused(f, &beginning, record_of(f, 2));
}

static void damage_before_a_later_epoch_is_refused(void **state)
{
    struct fixture *f = *state;

    make_log(f, 10, 11); /* no mark at all */
    start(f, &f->ends[10]);
    for (uint64_t seq = 1; seq <= 10; seq++) {
        bytes_at(f->disk, record_of(f, seq))[45] ^= 1;
        expect_refused(f, &beginning, record_of(f, seq));
        bytes_at(f->disk, record_of(f, seq))[45] ^= 1;
    }
    expect_end(f, &beginning, 10);
}

static void damage_of_any_byte_of_a_header_is_refused(void **state)
{
    struct fixture *f = *state;
    uint64_t first, second;

    make_log(f, 10, 1);
    first = SEGMENT;
    start(f, &f->ends[10]);
    for (int i = 0; i < 40; i++)
        append(f, LEN, f->last);
    flush(f);
    second = f->ends[11].position / SEGMENT * SEGMENT;
    for (size_t i = 0; i < LOG_HEADER_BYTES; i++) {
        bytes_at(f->disk, first)[i] ^= 0x40;
        assert_int_equal(open_log(f), 0);
        assert_int_equal(log_scan(f->log, &beginning, &f->ends[0], &f->replayed, &f->fault),
                         PS_CORRUPT);
        bytes_at(f->disk, first)[i] ^= 0x40;
        f->ends[0] = beginning;
        bytes_at(f->disk, second)[i] ^= 0x40;
        assert_int_equal(open_log(f), 0);
        assert_int_equal(log_scan(f->log, &beginning, &f->ends[0], &f->replayed, &f->fault),
                         PS_CORRUPT);
        bytes_at(f->disk, second)[i] ^= 0x40;
        f->ends[0] = beginning;
    }
    expect_end(f, &beginning, 50);
}

static void a_lone_epoch_with_a_lost_header_is_refused(void **state)
{
    struct fixture *f = *state;
    uint64_t header;

    make_log(f, 10, 1);
    start(f, &f->ends[10]);
    append(f, LEN, 10);
    flush(f);
    header = f->ends[11].position / SEGMENT * SEGMENT;
    for (size_t i = 0; i < LOG_HEADER_BYTES; i++) {
        bytes_at(f->disk, header)[i] ^= 0x40;
        expect_refused(f, &beginning, header);
        bytes_at(f->disk, header)[i] ^= 0x40;
    }
    memset(bytes_at(f->disk, header), 0, LOG_HEADER_BYTES);
    expect_refused(f, &beginning, header);
}

/* Beyond its end the epoch before goes on with dead commits, which must not be read instead. */
static void a_lost_header_does_not_bring_dead_commits_back(void **state)
{
    struct fixture *f = *state;
    uint64_t header;

    make_log(f, 20, 21);
    start(f, &f->ends[10]);
    append(f, LEN + 8, 10);
    flush(f);
    header = f->ends[11].position / SEGMENT * SEGMENT;
    for (size_t i = 0; i < LOG_HEADER_BYTES; i++) {
        bytes_at(f->disk, header)[i] ^= 0x40;
        expect_refused(f, &beginning, header);
        bytes_at(f->disk, header)[i] ^= 0x40;
    }
    memset(bytes_at(f->disk, header), 0, LOG_HEADER_BYTES);
    expect_refused(f, &beginning, header);
}

/* Cuts the header, and a byte of the record's payload, but not the record's own header: what a torn
 * first sector leaves of a segment that was not synced. */
static void tear_segment(struct fixture *f, uint64_t position)
{
    uint64_t header = position / SEGMENT * SEGMENT;

    memset(bytes_at(f->disk, header), 0, LOG_HEADER_BYTES);
    bytes_at(f->disk, header + LOG_HEADER_BYTES)[LOG_RECORD_BYTES + 8] ^= 1;
}

/* It does not validate under its epoch, and yet proves no other one. */
static void a_torn_first_sector_of_a_segment_that_was_not_synced_is_cut(void **state)
{
    struct fixture *f = *state;

    make_log(f, 3, 1);
    append(f, 3 * SEGMENT, 3); /* pieces in several segments */
    flush(f);
    tear_segment(f, f->ends[3].position + 2 * SEGMENT);
    expect_end(f, &beginning, 3);
}

static void a_torn_commit_that_begins_a_segment_is_cut(void **state)
{
    struct fixture *f = *state;
    uint64_t seq = 3;

    make_log(f, seq, 1);
    do {
        append(f, LEN, seq);
        seq++;
    } while (record_of(f, seq) % SEGMENT != LOG_HEADER_BYTES);
    flush(f);
    tear_segment(f, record_of(f, seq));
    expect_end(f, &beginning, seq - 1);
}

static void a_missing_segment_is_refused(void **state)
{
    struct fixture *f = *state;
    const struct ps_vfs *vfs = memory_vfs(f->disk);
    struct log_pos end;
    uint64_t torn;

    make_log(f, 100, 1);
    assert_int_equal(vfs->unlink(vfs->ctx, "log/log-0000000000000002"), 0);
    expect_refused(f, &beginning, 2 * SEGMENT);
    expect_refused(f, &f->ends[40], f->ends[40].position);
    assert_int_equal(vfs->unlink(vfs->ctx, "log/log-0000000000000001"), 0);
    assert_int_equal(open_log(f), 0);
    assert_int_equal(log_scan(f->log, &beginning, &end, &torn, &f->fault), PS_CORRUPT);
    expect_end(f, &f->ends[90], 100);
}

/* Payloads full of what looks like large records of this log must not make the scan slow: each
 * would cost a checksum of its own otherwise. The bound is in steps, not in time: the scan ends. */
static void records_imitated_in_payloads_prove_nothing(void **state)
{
    struct fixture *f = *state;
    struct log_record imitation = {
        .type = LOG_COMMIT, .flags = 3, .len = 2000, .seq = 900, .durable = 800};
    static uint8_t payload[3600], zeros[2000];
    uint8_t record[2048];
    struct log_pos end;
    uint64_t torn;

    make_log(f, 2, 1);
    log_record_encode(&imitation, 12345, zeros, record);
    for (size_t at = 0; at + 40 <= sizeof(payload); at += 40)
        memcpy(payload + at, record, 40);
    for (uint64_t seq = 3; seq <= 9; seq++)
        assert_int_equal(log_append(f->log, seq, 0, 2, payload, sizeof(payload), &f->ends[seq]), 0);
    flush(f);
    bytes_at(f->disk, f->ends[2].position)[1] ^= 1;
    assert_int_equal(open_log(f), 0);
    assert_int_equal(log_scan(f->log, &beginning, &end, &torn, &f->fault), 0);
    assert_int_equal(end.seq, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_tail_torn_at_every_byte_of_the_last_record_is_cut),
        TEST(a_commit_whose_last_piece_is_missing_is_cut_whole),
        TEST(damage_above_the_durable_mark_is_cut),
        TEST(damage_of_any_byte_below_the_durable_mark_is_refused),
        TEST(a_large_record_proves_damage_as_well),
        TEST(damage_before_a_later_epoch_is_refused),
        TEST(damage_of_any_byte_of_a_header_is_refused),
        TEST(a_lone_epoch_with_a_lost_header_is_refused),
        TEST(a_lost_header_does_not_bring_dead_commits_back),
        TEST(a_torn_first_sector_of_a_segment_that_was_not_synced_is_cut),
        TEST(a_torn_commit_that_begins_a_segment_is_cut),
        TEST(a_missing_segment_is_refused),
        TEST(records_imitated_in_payloads_prove_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
