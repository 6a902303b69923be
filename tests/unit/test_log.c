/* test_log.c - what the log promises while nothing is damaged: round trips, epochs, space, failing
 * calls. The disk is in memory. */
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

/* ---- round trips ------------------------------------------------------------------------------
 */

static void commits_of_every_size_come_back_from_every_position(void **state)
{
    static const size_t sizes[] = {0, 1, 7, 8, 39, 100, 1000, 3000, 3900, 4000, 5000, 20000};
    struct fixture *f = *state;

    assert_int_equal(open_log(f), 0);
    start(f, &beginning);
    for (size_t i = 0; i < 300; i++) {
        append(f, sizes[i * 7 % 12] + i % 5, f->last);
        if (i % 3 == 0)
            flush(f);
    }
    flush(f);
    for (uint64_t from = 0; from <= 300; from++)
        expect_end(f, &f->ends[from], 300);
}

static void a_commit_of_many_pieces_is_whole(void **state)
{
    struct fixture *f = *state;
    struct log_stats stats;

    assert_int_equal(log_open(memory_vfs(f->disk), "log", 1 << 20, &f->log, &f->fault), 0);
    start(f, &beginning);
    append(f, 5 << 20, 0);
    append(f, 3, 0);
    flush(f);
    log_get_stats(f->log, &stats);
    assert_true(stats.pieces >= 5 && stats.segments >= 6);
    expect_end(f, &beginning, 2);
    assert_int_equal(log_segment_size(f->log), 1 << 20); /* not what it was opened with */
}

static void an_empty_log_ends_where_it_begins(void **state)
{
    struct fixture *f = *state;
    struct log_pos far = {.position = 5 * SEGMENT + 200, .epoch = 9, .seq = 77, .crc = 5}, end;
    uint64_t torn;

    assert_int_equal(open_log(f), 0);
    assert_int_equal(scan(f, &far, &end, &torn), 0);
    assert_same_position(&end, &far);
    assert_int_equal(torn, 0);
    start(f, &far);
    append(f, LEN, 77);
    flush(f);
    expect_end(f, &far, 78);
}

static void epochs_follow_one_another(void **state)
{
    struct fixture *f = *state;

    make_log(f, 10, 1);
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        struct log_pos end;
        uint64_t torn;

        assert_int_equal(open_log(f), 0);
        assert_int_equal(scan(f, &f->ends[epoch], &end, &torn), 0);
        assert_int_equal(end.seq, 10 + epoch - epoch / 5);
        assert_int_equal(torn, 0);
        assert_int_equal(log_start(f->log, &end, &f->fault), 0);
        if (epoch % 5 == 4)
            continue; /* an epoch without commits */
        append(f, LEN, f->last);
        flush(f);
    }
}

static void what_an_epoch_holds_beyond_its_end_is_dead(void **state)
{
    struct fixture *f = *state;
    struct log_pos dropped;

    make_log(f, 40, 41);
    dropped = f->ends[40];
    start(f, &f->ends[20]);
    expect_end(f, &beginning, 20);
    start(f, &f->ends[20]);
    append(f, LEN + 8, 20);
    flush(f);
    expect_end(f, &beginning, 21);
    expect_end(f, &f->ends[20], 21);
    expect_refused(f, &dropped, dropped.position);
}

/* The dead commit and the checkpoint follow the same commit, and the dead one is the first thing in
 * its file: nothing but the file's new number tells that it is not the checkpoint's next. */
static void a_dead_commit_in_a_recycled_segment_is_not_taken_for_a_lost_one(void **state)
{
    struct fixture *f = *state;
    struct log_pos kept, end;
    struct log_stats stats;
    uint64_t torn;

    make_log(f, 10, 1);
    start(f, &f->ends[10]);
    append(f, LEN, 10);
    flush(f);
    start(f, &f->ends[10]);
    assert_int_equal(open_log(f), 0);
    assert_int_equal(scan(f, &beginning, &kept, &torn), 0);
    assert_int_equal(kept.seq, 10);
    log_recycle(f->log, &kept);
    start(f, &kept);
    assert_int_equal(log_reserve(f->log, 1, 3 * SEGMENT, &f->fault), 0);
    log_get_stats(f->log, &stats);
    assert_true(stats.segments_recycled >= 2); /* the dead commit's among them */
    assert_int_equal(open_log(f), 0);
    assert_int_equal(scan(f, &kept, &end, &torn), 0);
    assert_int_equal(end.seq, 10);
}

static void sequences_that_do_not_rise_by_one_are_refused(void **state)
{
    struct fixture *f = *state;
    struct log_record record = {.type = LOG_COMMIT, .flags = LOG_FIRST | LOG_LAST, .len = 8};
    struct log_pos end;
    uint64_t torn;

    make_log(f, 3, 1);
    record.seq = 5;
    record.prev_crc = f->ends[3].crc;
    log_record_encode(&record, f->ends[3].epoch, "missing4",
                      bytes_at(f->disk, f->ends[3].position));
    memory_vfs_settle(f->disk);
    expect_refused(f, &beginning, f->ends[3].position);
    record.seq = 2; /* of a store that went on without a log */
    log_record_encode(&record, f->ends[3].epoch, "passed02",
                      bytes_at(f->disk, f->ends[3].position));
    expect_end(f, &beginning, 3);
    record.seq = 4;
    record.flags = LOG_LAST; /* of pieces that are not there */
    log_record_encode(&record, f->ends[3].epoch, "piece 4b",
                      bytes_at(f->disk, f->ends[3].position));
    assert_int_equal(open_log(f), 0);
    assert_int_equal(log_scan(f->log, &beginning, &end, &torn, &f->fault), PS_CORRUPT);
}

static void the_checksum_of_a_record_depends_on_its_epoch(void **state)
{
    struct log_record record = {.type = LOG_COMMIT, .flags = 3, .len = 8, .seq = 1};
    uint8_t bytes[48];

    (void)state;
    log_record_encode(&record, 1, "12345678", bytes);
    assert_int_equal(log_record_crc(bytes, 0, 1, 8), record.crc);
    assert_true(log_record_crc(bytes, 0, 2, 8) != record.crc);
    assert_true(log_record_crc(bytes, 1, 1, 8) != record.crc);
}

/* ---- space and failures -----------------------------------------------------------------------
 */

static void segments_before_the_kept_position_are_used_again(void **state)
{
    struct fixture *f = *state;
    struct log_stats stats;

    make_log(f, 1, 1);
    for (int i = 0; i < 1000; i++) {
        append(f, LEN, f->last);
        flush(f);
        if (i % 50 == 0)
            log_recycle(f->log, &f->ends[f->last]);
    }
    log_get_stats(f->log, &stats);
    assert_true(stats.segments_made < 12);
    assert_true(stats.segments_recycled > 20);
    assert_int_equal(memory_vfs_files(f->disk), stats.segments);
    expect_end(f, &f->ends[960], 1001);
}

static void many_dead_segments_are_removed_in_the_end(void **state)
{
    struct fixture *f = *state;
    struct log_stats stats;

    make_log(f, 1, 1);
    append(f, 100 * SEGMENT, 1);
    flush(f);
    for (int i = 0; i < 1500; i++) {
        append(f, LEN, f->last);
        flush(f);
        log_recycle(f->log, &f->ends[f->last]);
    }
    log_get_stats(f->log, &stats);
    assert_true(stats.segments < 12);
    expect_end(f, &f->ends[f->last], f->last);
}

static void a_full_disk_is_refused_before_anything_is_appended(void **state)
{
    struct fixture *f = *state;
    struct log_stats before, after;

    make_log(f, 3, 1);
    memory_vfs_space(f->disk, 3 * SEGMENT);
    log_get_stats(f->log, &before);
    assert_int_equal(log_reserve(f->log, 1, 4 * SEGMENT, &f->fault), PS_NOSPACE);
    assert_int_equal(f->fault.code, PS_NOSPACE);
    assert_int_equal(f->fault.sys_errno, ENOSPC);
    assert_string_equal(f->fault.file, "log/log-new");
    assert_int_equal(log_write(f->log, &f->fault), 0);
    log_get_stats(f->log, &after);
    assert_int_equal(before.bytes_written, after.bytes_written);
    append(f, LEN, 3); /* what fits still goes */
    flush(f);
    memory_vfs_space(f->disk, 100 * SEGMENT);
    assert_int_equal(log_reserve(f->log, 1, 4 * SEGMENT, &f->fault), 0);
    memory_vfs_space(f->disk, 0);
    append(f, 4 * SEGMENT, 4); /* as reserved: no space is needed any more */
    flush(f);
    expect_end(f, &beginning, 5);
}

static void what_was_reserved_can_be_appended_without_space(void **state)
{
    struct fixture *f = *state;

    make_log(f, 1, 1);
    for (int round = 0; round < 60; round++) {
        uint64_t commits = 1 + memory_vfs_random(f->disk, 40);
        uint64_t len = memory_vfs_random(f->disk, 2) ? memory_vfs_random(f->disk, 200)
                                                     : memory_vfs_random(f->disk, 9000);

        memory_vfs_space(f->disk, UINT64_MAX);
        assert_int_equal(log_reserve(f->log, commits, commits * len, &f->fault), 0);
        memory_vfs_space(f->disk, 0);
        for (uint64_t i = 0; i < commits; i++)
            append(f, len, 1);
        flush(f);
        log_recycle(f->log, &f->ends[f->last]);
    }
    expect_end(f, &f->ends[f->last], f->last);
}

/* The script of the next test: commits, some over several segments, until a call fails. Durable
 * is the last that was synced. The error is returned. */
static int run_until_error(struct fixture *f, uint64_t *durable)
{
    uint8_t payload[2 * SEGMENT] = {0};
    int rc = log_start(f->log, &beginning, &f->fault);

    *durable = 0;
    f->last = 0;
    for (uint64_t seq = 1; rc == 0 && seq <= 8; seq++) {
        size_t len = seq % 3 == 0 ? sizeof(payload) : LEN;

        fill(payload, seq, len);
        rc = log_reserve(f->log, 1, len, &f->fault);
        if (rc == 0)
            rc = log_append(f->log, seq, seq * 10, *durable, payload, len, &f->ends[seq]);
        f->lens[seq] = len;
        if (rc == 0)
            rc = log_write(f->log, &f->fault);
        if (rc == 0)
            rc = log_sync(f->log, &f->fault);
        if (rc == 0)
            *durable = seq;
        if (rc == 0 && seq == 5)
            rc = log_prepare(f->log, &f->fault);
    }
    return rc;
}

static void check_failing_calls(struct fixture *f, unsigned calls, int err, int code)
{
    uint64_t number = 0, durable, torn;
    bool failed;

    do {
        struct log_pos end;
        int rc;

        memory_vfs_free(f->disk);
        f->disk = memory_vfs_new(++number);
        assert_int_equal(open_log(f), 0);
        memory_vfs_fail(f->disk, calls, number, err, false);
        rc = run_until_error(f, &durable);
        failed = memory_vfs_failed(f->disk);
        assert_int_equal(rc, failed ? code : 0);
        if (failed) {
            assert_int_equal(f->fault.code, code);
            assert_int_equal(f->fault.sys_errno, err);
            assert_int_equal(strncmp(f->fault.file, "log", 3), 0);
            assert_true(f->fault.what[0] != '\0');
        }
        close_log(f);
        memory_vfs_crash(f->disk);
        assert_int_equal(open_log(f), 0);
        assert_int_equal(scan(f, &beginning, &end, &torn), 0);
        assert_true(end.seq >= durable);
        close_log(f);
    } while (failed);
    assert_true(number > 4);
}

static void a_failing_call_is_an_error_and_loses_nothing_durable(void **state)
{
    struct fixture *f = *state;

    check_failing_calls(f, MEMORY_PWRITE, EIO, PS_IO);
    check_failing_calls(f, MEMORY_FALLOCATE, ENOSPC, PS_NOSPACE);
    check_failing_calls(f, MEMORY_SYNC, EIO, PS_IO);
    check_failing_calls(f, MEMORY_SYNC_DIR, EIO, PS_IO);
    check_failing_calls(f, MEMORY_RENAME, EIO, PS_IO);
}

static void a_failing_read_is_an_error_not_damage(void **state)
{
    struct fixture *f = *state;
    struct log_pos end;
    uint64_t torn;

    make_log(f, 60, 1);
    for (uint64_t number = 1;; number++) {
        int rc;

        close_log(f);
        memory_vfs_fail(f->disk, MEMORY_PREAD, number, EIO, false);
        rc = log_open(memory_vfs(f->disk), "log", SEGMENT, &f->log, &f->fault);
        if (rc == 0)
            rc = log_scan(f->log, &beginning, &end, &torn, &f->fault);
        if (!memory_vfs_failed(f->disk))
            break;
        assert_int_equal(rc, PS_IO);
        assert_int_equal(f->fault.sys_errno, EIO);
        assert_string_equal(f->fault.what, "pread");
    }
    assert_int_equal(end.seq, 60);
}

static void after_a_failed_write_the_log_goes_on_in_a_new_epoch(void **state)
{
    struct fixture *f = *state;
    struct log_pos end;

    make_log(f, 5, 1);
    append(f, LEN, 5);
    memory_vfs_fail(f->disk, MEMORY_PWRITE, 1, EIO, false);
    assert_int_equal(log_write(f->log, &f->fault), PS_IO);
    assert_int_equal(log_append(f->log, 7, 0, 5, "x", 1, &end), PS_IO);
    assert_int_equal(log_write(f->log, &f->fault), PS_IO);
    assert_int_equal(log_sync(f->log, &f->fault), PS_IO);
    start(f, &f->ends[5]);
    append(f, LEN + 8, 5);
    flush(f);
    expect_end(f, &beginning, 6);
}

static void after_a_failed_sync_no_epoch_can_begin(void **state)
{
    struct fixture *f = *state;

    make_log(f, 5, 1);
    append(f, LEN, 5);
    assert_int_equal(log_write(f->log, &f->fault), 0);
    memory_vfs_fail(f->disk, MEMORY_SYNC, 1, EIO, false);
    assert_int_equal(log_sync(f->log, &f->fault), PS_IO);
    assert_int_equal(log_start(f->log, &f->ends[5], &f->fault), PS_POISONED);
}

static void sizes_out_of_range_and_other_versions_are_refused(void **state)
{
    struct fixture *f = *state;
    struct log *log;

    assert_int_equal(log_open(memory_vfs(f->disk), "log", 100, &log, &f->fault), PS_INVALID);
    assert_int_equal(log_open(memory_vfs(f->disk), "log", SEGMENT + 1, &log, &f->fault),
                     PS_INVALID);
    assert_null(log);
}

static void what_a_failed_sync_lost_is_on_the_device_before_it_is_served(void **state)
{
    struct fixture *f = *state;
    struct log_pos end;
    uint64_t torn;

    make_log(f, 60, 60);
    append(f, LEN, 0);
    assert_int_equal(log_write(f->log, &f->fault), 0);
    memory_vfs_fail(f->disk, MEMORY_SYNC, 1, EIO, false);
    assert_int_not_equal(log_sync(f->log, &f->fault), 0);
    close_log(f);
    assert_int_equal(open_log(f), 0);
    assert_int_equal(scan(f, &beginning, &end, &torn), 0);
    assert_int_equal(end.seq, 61); /* the system shows it, and believes it clean */
    assert_int_equal(log_sync_range(f->log, &beginning, &end, &f->fault), 0);
    close_log(f);
    memory_vfs_crash(f->disk);
    expect_end(f, &beginning, 61);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(commits_of_every_size_come_back_from_every_position),
        TEST(a_commit_of_many_pieces_is_whole),
        TEST(an_empty_log_ends_where_it_begins),
        TEST(epochs_follow_one_another),
        TEST(what_an_epoch_holds_beyond_its_end_is_dead),
        TEST(a_dead_commit_in_a_recycled_segment_is_not_taken_for_a_lost_one),
        TEST(sequences_that_do_not_rise_by_one_are_refused),
        TEST(the_checksum_of_a_record_depends_on_its_epoch),
        TEST(segments_before_the_kept_position_are_used_again),
        TEST(many_dead_segments_are_removed_in_the_end),
        TEST(a_full_disk_is_refused_before_anything_is_appended),
        TEST(what_was_reserved_can_be_appended_without_space),
        TEST(a_failing_call_is_an_error_and_loses_nothing_durable),
        TEST(a_failing_read_is_an_error_not_damage),
        TEST(after_a_failed_write_the_log_goes_on_in_a_new_epoch),
        TEST(after_a_failed_sync_no_epoch_can_begin),
        TEST(what_a_failed_sync_lost_is_on_the_device_before_it_is_served),
        TEST(sizes_out_of_range_and_other_versions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
