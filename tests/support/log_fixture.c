/* log_fixture.c - a log whose commits are known. See log_fixture.h. */
#include "tests/support/log_fixture.h"

#include "tests/support/log_whole.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const struct log_pos beginning;

int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    f->disk = memory_vfs_new(1);
    *state = f;
    return 0;
}

int tear_down(void **state)
{
    struct fixture *f = *state;

    close_log(f);
    memory_vfs_free(f->disk);
    free(f);
    return 0;
}

void assert_same_position(const struct log_pos *a, const struct log_pos *b)
{
    assert_int_equal(a->position, b->position);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->seq, b->seq);
    assert_int_equal(a->crc, b->crc);
}

void fill(uint8_t *bytes, uint64_t seq, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(1 + (seq * 31 + i * 7) % 255);
}

void close_log(struct fixture *f)
{
    log_close(f->log);
    f->log = NULL;
}

int open_log(struct fixture *f)
{
    close_log(f);
    memset(&f->fault, 0, sizeof(f->fault));
    return log_open(memory_vfs(f->disk), "log", SEGMENT, &f->log, &f->fault);
}

void start(struct fixture *f, const struct log_pos *from)
{
    assert_int_equal(log_start(f->log, from, &f->fault), 0);
    f->last = from->seq;
    f->ends[from->seq] = *from;
}

void append(struct fixture *f, size_t len, uint64_t durable)
{
    uint8_t *payload = malloc(len + 1);
    uint64_t seq = ++f->last;

    fill(payload, seq, len);
    f->lens[seq] = len;
    assert_int_equal(log_append(f->log, seq, seq * 10, durable, payload, len, &f->ends[seq]), 0);
    free(payload);
}

void flush(struct fixture *f)
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

int scan(struct fixture *f, const struct log_pos *from, struct log_pos *end, uint64_t *torn)
{
    int rc = log_scan(f->log, from, end, torn, &f->fault);

    if (rc != 0)
        return rc;
    f->replayed = from->seq;
    assert_int_equal(log_replay_whole(f->log, from, end, check_commit, f, &f->fault), 0);
    assert_int_equal(f->replayed, end->seq);
    return 0;
}

void expect_end(struct fixture *f, const struct log_pos *from, uint64_t seq)
{
    struct log_pos end;
    uint64_t torn;

    assert_int_equal(open_log(f), 0);
    assert_int_equal(scan(f, from, &end, &torn), 0);
    assert_int_equal(end.seq, seq);
}

void make_log(struct fixture *f, uint64_t commits, uint64_t behind)
{
    assert_int_equal(open_log(f), 0);
    start(f, &beginning);
    for (uint64_t i = 1; i <= commits; i++)
        append(f, LEN, i > behind ? i - behind : 0);
    flush(f);
}

void path_of(char *path, size_t size, uint64_t position)
{
    snprintf(path, size, "log/log-%016" PRIx64, position / SEGMENT);
}

uint64_t record_of(const struct fixture *f, uint64_t seq)
{
    return f->ends[seq].position - log_record_size(f->lens[seq]);
}

uint8_t *bytes_at(struct memory_vfs *disk, uint64_t position)
{
    char path[64];
    size_t len;
    uint8_t *bytes;

    path_of(path, sizeof(path), position);
    bytes = memory_vfs_bytes(disk, path, &len);
    assert_non_null(bytes);
    return bytes + position % SEGMENT;
}

void expect_refused(struct fixture *f, const struct log_pos *from, uint64_t position)
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
