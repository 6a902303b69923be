/*
 * test_log_crash.c - the log against a model, through power losses at any call.
 *
 * Each round is one log in memory that lives many lives. A life opens, scans from the checkpoint,
 * replays, and compares with what may and must be there; then it appends, writes, syncs, recycles,
 * meets failing calls, and ends: closed, killed (what was written stays), or by power loss, after
 * any system call. Commits carry a random tag, so that a dead commit which came back under the same
 * sequence would be seen.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/log.h"
#include "tests/support/log_whole.h"
#include "tests/support/memory_vfs.h"

#define COMMITS_MAX 20000

struct commit {
    uint64_t tag;
    size_t len;
    struct log_pos end;
};

struct world {
    struct memory_vfs *disk;
    struct log *log;
    uint64_t segment_size;
    struct commit commits[COMMITS_MAX]; /* by sequence; the current line */
    uint64_t appended, written, durable;
    uint64_t seen;       /* the next scan must find so much */
    uint64_t possible;   /* highest sequence that a scan may find */
    struct log_pos base; /* position of `written` if the log was started there */
    struct log_pos meta; /* the checkpoint */
    uint8_t *payload;
    uint64_t lives, power_losses, failures, restarts, cut, recycled;
};

static uint64_t pick(struct world *w, uint64_t below)
{
    return memory_vfs_random(w->disk, below);
}

/* Bytes that follow from the tag. */
static void fill(uint8_t *payload, size_t len, uint64_t tag)
{
    for (size_t i = 0; i < len; i++) {
        tag = tag * 6364136223846793005u + 1442695040888963407u;
        payload[i] = (uint8_t)(tag >> 56);
    }
}

static int check_commit(void *arg, uint64_t seq, uint64_t stamp, const void *payload, size_t len,
                        const struct log_pos *after)
{
    struct world *w = arg;
    struct commit *commit = &w->commits[seq];

    assert_true(seq <= w->possible);
    assert_int_equal(len, commit->len);
    assert_int_equal(stamp, commit->tag);
    fill(w->payload, len, commit->tag);
    assert_memory_equal(payload, w->payload, len);
    assert_int_equal(after->position, commit->end.position);
    assert_int_equal(after->crc, commit->end.crc);
    assert_int_equal(after->epoch, commit->end.epoch);
    w->appended++;
    return 0;
}

static struct log_pos position_of(const struct world *w, uint64_t seq)
{
    return seq > w->base.seq ? w->commits[seq].end : w->base;
}

/* Opens and compares. False: a call failed, as it was told to. */
static bool open_life(struct world *w)
{
    struct ps_fault fault = {0};
    struct log_pos end;
    uint64_t torn;
    int rc;

    assert_int_equal(log_open(memory_vfs(w->disk), "log", w->segment_size, &w->log, &fault), 0);
    rc = log_scan(w->log, &w->meta, &end, &torn, &fault);
    if (rc != 0)
        fail_msg("%s at %s:%llu", fault.what, fault.file, (unsigned long long)fault.offset);
    assert_true(end.seq >= w->seen);
    assert_true(end.seq <= w->possible);
    w->cut += torn != 0;
    w->appended = w->meta.seq;
    assert_int_equal(log_replay_whole(w->log, &w->meta, &end, check_commit, w, &fault), 0);
    assert_int_equal(w->appended, end.seq);
    w->written = end.seq;
    w->possible = end.seq;
    w->base = end;
    if (log_sync_range(w->log, &w->meta, &end, &fault) != 0)
        return false;
    w->durable = end.seq;
    log_recycle(w->log, &w->meta);
    return log_start(w->log, &end, &fault) == 0;
}

/* After a failed write: what was not published is dropped, and a new epoch begins. */
static bool restart(struct world *w)
{
    struct log_pos from = position_of(w, w->written);
    struct ps_fault fault = {0};

    for (int tries = 0; tries < 3; tries++)
        if (log_start(w->log, &from, &fault) == 0) {
            w->restarts++;
            w->appended = w->possible = w->durable = w->written;
            w->base = from;
            return true;
        }
    return false;
}

static bool append(struct world *w)
{
    uint64_t seq = w->appended + 1;
    struct commit *commit = &w->commits[seq];
    struct commit made = {.tag = pick(w, 0)};
    int rc;

    made.len = pick(w, 10) != 0 ? pick(w, 300) : pick(w, 3 * w->segment_size);
    if (seq >= COMMITS_MAX)
        return true;
    if (pick(w, 2) && log_reserve(w->log, 1, made.len, NULL) != 0)
        return false;
    fill(w->payload, made.len, made.tag);
    rc = log_append(w->log, seq, made.tag, w->durable, w->payload, made.len, &made.end);
    if (rc != 0)
        return false;
    *commit = made;
    w->appended = seq;
    return true;
}

static bool write_out(struct world *w)
{
    struct ps_fault fault = {0};

    if (w->appended > w->possible)
        w->possible = w->appended;
    if (log_write(w->log, &fault) != 0) {
        w->failures++;
        return restart(w);
    }
    w->written = w->appended;
    return true;
}

static bool sync_out(struct world *w)
{
    if (log_sync(w->log, NULL) != 0)
        return false; /* the store would be poisoned: this life ends */
    w->durable = w->written;
    return true;
}

static void checkpoint(struct world *w)
{
    uint64_t back = pick(w, 4);
    struct log_pos pos = position_of(w, w->durable > back ? w->durable - back : 0);

    if (pos.position < w->meta.position)
        return;
    w->meta = pos;
    log_recycle(w->log, &w->meta);
}

static bool step(struct world *w)
{
    switch (pick(w, 12)) {
    case 0:
    case 1:
        return write_out(w);
    case 2:
    case 3:
        return write_out(w) && sync_out(w);
    case 4:
        return log_prepare(w->log, NULL) == 0;
    case 5:
        checkpoint(w);
        return true;
    case 6:
        return pick(w, 6) != 0 || restart(w);
    default:
        return append(w);
    }
}

/* Failures of this life: none, one failing call, or the end of all changes after some call. */
static void plan_failures(struct world *w)
{
    bool freeze = pick(w, 3) == 0;

    if (freeze || pick(w, 3) == 0)
        memory_vfs_fail(w->disk, MEMORY_CHANGES, 1 + pick(w, pick(w, 4) ? 60 : 8), EIO, freeze);
    else
        memory_vfs_fail(w->disk, 0, 0, 0, false);
}

static void live(struct world *w)
{
    struct log_stats stats;
    bool alive;

    plan_failures(w);
    alive = open_life(w);
    for (uint64_t steps = pick(w, 60); alive && steps > 0; steps--)
        alive = step(w);
    log_get_stats(w->log, &stats);
    w->recycled += stats.segments_recycled;
    log_close(w->log);
    w->lives++;
    /* What a failed sync left unwritten can be seen until the machine goes down: poisoned stores
     * are opened again on another view of the disk. */
    if (pick(w, 2) || memory_vfs_failed(w->disk)) {
        memory_vfs_crash(w->disk);
        w->power_losses++;
        w->seen = w->durable;
    } else {
        w->seen = w->written; /* killed: the operating system has it */
    }
}

static void run_rounds(uint64_t segment_size, unsigned rounds, unsigned lives)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    w->payload = malloc(3 * segment_size + 1);
    w->segment_size = segment_size;
    for (unsigned round = 0; round < rounds; round++) {
        w->disk = memory_vfs_new(round * 7919 + segment_size);
        memset(&w->base, 0, sizeof(w->base));
        memset(&w->meta, 0, sizeof(w->meta));
        w->appended = w->written = w->durable = w->seen = w->possible = 0;
        for (unsigned i = 0; i < lives; i++)
            live(w);
        memory_vfs_free(w->disk);
    }
    print_message(
        "lives %llu, power losses %llu, failed writes %llu, new epochs within a life %llu,"
        " torn tails %llu, segments recycled %llu\n",
        (unsigned long long)w->lives, (unsigned long long)w->power_losses,
        (unsigned long long)w->failures, (unsigned long long)w->restarts,
        (unsigned long long)w->cut, (unsigned long long)w->recycled);
    assert_true(w->failures > 0 && w->restarts > 0 && w->cut > 0 && w->recycled > 0);
    free(w->payload);
    free(w);
}

static void crashes_lose_nothing_durable_and_bring_nothing_dead_back(void **state)
{
    (void)state;
    run_rounds(4096, 60, 60);
}

static void the_same_holds_with_larger_segments(void **state)
{
    (void)state;
    run_rounds(32768, 15, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crashes_lose_nothing_durable_and_bring_nothing_dead_back),
        cmocka_unit_test(the_same_holds_with_larger_segments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
