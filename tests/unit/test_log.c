/* test_log.c - what the log promises, on a disk in memory and on a real one. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/log.h"
#include "storage/log_format.h"
#include "storage/vfs.h"
#include "tests/support/memory_vfs.h"

#define SEGMENT 4096u
#define LEN     104u /* of an ordinary commit: a record without padding */
#define MOST    4000

static const struct log_pos beginning;

struct fixture {
    struct memory_vfs *disk;
    struct log *log;
    struct log_pos ends[MOST]; /* by sequence */
    size_t lens[MOST];
    uint64_t last, replayed;
    struct ps_fault fault;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    f->disk = memory_vfs_new(1);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    log_close(f->log);
    memory_vfs_free(f->disk);
    free(f);
    return 0;
}

static void assert_same_position(const struct log_pos *a, const struct log_pos *b)
{
    assert_int_equal(a->position, b->position);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->seq, b->seq);
    assert_int_equal(a->crc, b->crc);
}

static void fill(uint8_t *bytes, uint64_t seq, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(1 + (seq * 31 + i * 7) % 255);
}

static int open_log(struct fixture *f)
{
    log_close(f->log);
    memset(&f->fault, 0, sizeof(f->fault));
    return log_open(memory_vfs(f->disk), "log", SEGMENT, &f->log, &f->fault);
}

static void start(struct fixture *f, const struct log_pos *from)
{
    assert_int_equal(log_start(f->log, from, &f->fault), 0);
    f->last = from->seq;
    f->ends[from->seq] = *from;
}

static void append(struct fixture *f, size_t len, uint64_t durable)
{
    uint8_t *payload = malloc(len + 1);
    uint64_t seq = ++f->last;

    fill(payload, seq, len);
    f->lens[seq] = len;
    assert_int_equal(log_append(f->log, seq, seq * 10, durable, payload, len, &f->ends[seq]), 0);
    free(payload);
}

static void flush(struct fixture *f)
{
    assert_int_equal(log_write(f->log, &f->fault), 0);
    assert_int_equal(log_sync(f->log, &f->fault), 0);
}

static int check_commit(void *arg, uint64_t seq, uint64_t stamp, const void *payload, size_t len,
                        const struct log_pos *after)
{
    struct fixture *f = arg;
    uint8_t *want = malloc(len + 1);

    assert_int_equal(seq, ++f->replayed);
    assert_int_equal(stamp, seq * 10);
    assert_int_equal(len, f->lens[seq]);
    fill(want, seq, len);
    assert_memory_equal(payload, want, len);
    assert_same_position(after, &f->ends[seq]);
    free(want);
    return 0;
}

/* Scans from `from`; then replays and compares. What scanning said. */
static int scan(struct fixture *f, const struct log_pos *from, struct log_pos *end, uint64_t *torn)
{
    int rc = log_scan(f->log, from, end, torn, &f->fault);

    if (rc != 0)
        return rc;
    f->replayed = from->seq;
    assert_int_equal(log_replay(f->log, from, end, check_commit, f, &f->fault), 0);
    assert_int_equal(f->replayed, end->seq);
    return 0;
}

static void expect_end(struct fixture *f, const struct log_pos *from, uint64_t seq)
{
    struct log_pos end;
    uint64_t torn;

    assert_int_equal(open_log(f), 0);
    assert_int_equal(scan(f, from, &end, &torn), 0);
    assert_int_equal(end.seq, seq);
}

/* Commits of LEN bytes in one epoch; each says that `behind` fewer than itself are durable. */
static void make_log(struct fixture *f, uint64_t commits, uint64_t behind)
{
    assert_int_equal(open_log(f), 0);
    start(f, &beginning);
    for (uint64_t i = 1; i <= commits; i++)
        append(f, LEN, i > behind ? i - behind : 0);
    flush(f);
}

static void path_of(char *path, size_t size, uint64_t position)
{
    snprintf(path, size, "log/log-%016" PRIx64, position / SEGMENT);
}

/* Where the record of a commit of one piece begins. */
static uint64_t record_of(const struct fixture *f, uint64_t seq)
{
    return f->ends[seq].position - log_record_size(f->lens[seq]);
}

static uint8_t *bytes_at(struct memory_vfs *disk, uint64_t position)
{
    char path[64];
    size_t len;
    uint8_t *bytes;

    path_of(path, sizeof(path), position);
    bytes = memory_vfs_bytes(disk, path, &len);
    assert_non_null(bytes);
    return bytes + position % SEGMENT;
}

static void expect_refused(struct fixture *f, const struct log_pos *from, uint64_t position)
{
    struct log_pos end;
    uint64_t torn;
    char path[64];

    path_of(path, sizeof(path), position);
    assert_int_equal(open_log(f), 0);
    assert_int_equal(log_scan(f->log, from, &end, &torn, &f->fault), PS_CORRUPT);
    assert_int_equal(f->fault.code, PS_CORRUPT);
    assert_string_equal(f->fault.file, path);
    assert_int_equal(f->fault.offset, position % SEGMENT);
    assert_true(f->fault.what[0] != '\0');
}

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

            log_close(f->log);
            f->log = NULL;
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
            log_close(f->log);
            f->log = NULL;
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

    make_log(f, 3, 1);
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
    memset(bytes_at(f->disk, header), 0, 512 - 448);
    expect_refused(f, &beginning, header);
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
        log_close(f->log);
        f->log = NULL;
        memory_vfs_crash(f->disk);
        assert_int_equal(open_log(f), 0);
        assert_int_equal(scan(f, &beginning, &end, &torn), 0);
        assert_true(end.seq >= durable);
        log_close(f->log);
        f->log = NULL;
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

        log_close(f->log);
        f->log = NULL;
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(commits_of_every_size_come_back_from_every_position),
        TEST(a_commit_of_many_pieces_is_whole),
        TEST(an_empty_log_ends_where_it_begins),
        TEST(epochs_follow_one_another),
        TEST(what_an_epoch_holds_beyond_its_end_is_dead),
        TEST(sequences_that_do_not_rise_by_one_are_refused),
        TEST(the_checksum_of_a_record_depends_on_its_epoch),
        TEST(a_tail_torn_at_every_byte_of_the_last_record_is_cut),
        TEST(a_commit_whose_last_piece_is_missing_is_cut_whole),
        TEST(damage_above_the_durable_mark_is_cut),
        TEST(damage_of_any_byte_below_the_durable_mark_is_refused),
        TEST(a_large_record_proves_damage_as_well),
        TEST(damage_before_a_later_epoch_is_refused),
        TEST(damage_of_any_byte_of_a_header_is_refused),
        TEST(a_lone_epoch_with_a_lost_header_is_refused),
        TEST(a_missing_segment_is_refused),
        TEST(records_imitated_in_payloads_prove_nothing),
        TEST(segments_before_the_kept_position_are_used_again),
        TEST(many_dead_segments_are_removed_in_the_end),
        TEST(a_full_disk_is_refused_before_anything_is_appended),
        TEST(what_was_reserved_can_be_appended_without_space),
        TEST(a_failing_call_is_an_error_and_loses_nothing_durable),
        TEST(a_failing_read_is_an_error_not_damage),
        TEST(after_a_failed_write_the_log_goes_on_in_a_new_epoch),
        TEST(after_a_failed_sync_no_epoch_can_begin),
        TEST(sizes_out_of_range_and_other_versions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
