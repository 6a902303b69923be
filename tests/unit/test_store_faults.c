/*
 * test_store_faults.c - every file operation fails once, at every place where it is called: the
 * error is reported, what was published stays readable, and a store opened again has every
 * acknowledged commit and no half one.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/pandostore.h"
#include "tests/support/commits.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/store_dir.h"

#define WATCHDOG_S 300 /* a hang is a failure */
#define COMMITS    40u

/* Opening costs ten times as much under the thread sanitizer, which is here for the threads: there
 * every 50th place does. */
#if defined(__SANITIZE_THREAD__)
#define STEP 50u
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STEP 50u
#endif
#endif
#ifndef STEP
#define STEP 1u
#endif

struct world {
    char dir[STORE_DIR_PATH];
    struct fault_vfs *files;
    struct ps_options options;
    struct ps_store *store;
    uint64_t acked; /* newest acknowledged commit */
    uint64_t tried; /* newest that may survive: acknowledged, or unknown in a poisoned store */
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    store_dir_make_in_memory(w->dir, "pando-faults");
    w->files = fault_vfs_new();
    w->options = (struct ps_options){
        .dirty_memory = 128 * 4096,
        .map_size = 256 << 20,
        .log_segment_size = 8 << 20,
        .durability = PS_EVERYSEC,
        .manual_checkpoint = true,
        .vfs = fault_vfs(w->files),
    };
    alarm(WATCHDOG_S);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    store_dir_remove(w->dir);
    fault_vfs_free(w->files);
    free(w);
    alarm(0);
    return 0;
}

static int open_store(struct world *w)
{
    struct ps_fault fault;
    int rc = ps_open(w->dir, &w->options, &w->store, NULL, &fault);
    assert_true((rc == 0) == (w->store != NULL));
    if (rc != 0) {
        assert_int_equal(fault.code, rc);
        assert_true(fault.what[0] != '\0');
    }
    return rc;
}

static void must_open(struct world *w)
{
    struct ps_fault fault;
    int rc = ps_open(w->dir, &w->options, &w->store, NULL, &fault);
    if (rc != 0) {
        print_error("%d: %s: %s (%d)\n", rc, fault.file, fault.what, fault.sys_errno);
    }
    assert_int_equal(rc, 0);
}

static void print_finding(void *arg, const char *line)
{
    (void)arg;
    print_error("%s\n", line);
}

static void assert_sound(struct world *w)
{
    uint64_t n = commits_published(w->store);
    assert_in_range(n, w->acked, w->tried);
    assert_int_equal(ps_check(w->store, print_finding, NULL), 0);
}

static bool poisoned(struct world *w)
{
    struct ps_txn *txn;
    int rc = ps_begin(w->store, &txn);
    if (rc == 0) {
        ps_abort(txn);
    }
    assert_true(rc == 0 || rc == PS_POISONED);
    return rc != 0;
}

/* One commit; false when the store takes no more. */
static bool one_commit(struct world *w, uint64_t n)
{
    enum ps_durability level = n % 3 == 0 ? PS_ALWAYS : PS_EVERYSEC;
    int rc = commits_make(w->store, n, level);
    if (rc == 0) {
        w->acked = w->tried = n;
        return true;
    }
    if (poisoned(w)) {
        w->tried = rc == PS_UNKNOWN ? n : w->tried;
        assert_int_equal(commits_published(w->store), w->acked);
        return false;
    }
    assert_int_equal(commits_published(w->store), w->acked);
    return true;
}

/* A life: creation, commits at two levels, checkpoints, growth, an end without checkpoint,
 * recovery, more commits. Goes on after errors as long as the store does. */
static void live(struct world *w)
{
    w->acked = w->tried = 0;
    if (open_store(w) != 0) {
        return;
    }
    for (uint64_t n = 1; n <= COMMITS; n = w->acked + 1) {
        uint64_t before = w->acked;
        if (!one_commit(w, n)) {
            return;
        }
        if (w->acked == before && !one_commit(w, n)) { /* a fault is over at the second try */
            return;
        }
        assert_int_equal(w->acked, n);
        if (n % 7 == 0) {
            int rc = ps_checkpoint(w->store);
            assert_true(rc == 0 || rc == PS_NOSPACE || rc == PS_NOMEM || poisoned(w));
        }
        if (n == COMMITS / 2) {
            (void)ps_close(w->store, false);
            if (open_store(w) != 0) {
                return;
            }
            assert_in_range(commits_published(w->store), w->acked, w->tried);
        }
    }
}

/* What a process that ended here would leave: a copy, opened with nothing failing. */
static void crash_now(struct world *w)
{
    struct world copy = {.options = w->options, .acked = w->acked, .tried = w->tried};
    store_dir_make_in_memory(copy.dir, "pando-faults");
    store_dir_remove(copy.dir);
    store_dir_copy(w->dir, copy.dir);
    copy.options.vfs = NULL;
    must_open(&copy);
    assert_sound(&copy);
    assert_int_equal(ps_close(copy.store, false), 0);
    store_dir_remove(copy.dir);
}

/* After a life with a fault: without it the store is whole, and goes on. */
static void aftermath(struct world *w)
{
    if (w->store != NULL) {
        assert_in_range(commits_published(w->store), w->acked, w->acked);
        (void)ps_close(w->store, false);
    }
    fault_vfs_fail(w->files, FAULT_CALLS, 0, 0, 0, false);
    must_open(w);
    assert_sound(w);
    uint64_t n = commits_published(w->store) + 1;
    assert_int_equal(commits_make(w->store, n, PS_ALWAYS), 0);
    w->acked = w->tried = n;
    assert_int_equal(ps_close(w->store, true), 0);
    must_open(w);
    assert_sound(w);
    assert_int_equal(ps_close(w->store, false), 0);
}

static void fail_everywhere(struct world *w, enum fault_call call, int err)
{
    w->options.log_segment_size = 2 << 20; /* some come and go */
    fault_vfs_fail(w->files, call, FAULT_ANY, 0, 0, false);
    live(w);
    uint64_t calls = fault_vfs_calls(w->files);
    assert_int_equal(w->acked, COMMITS);
    aftermath(w);
    for (uint64_t n = 1; n <= calls; n += STEP) {
        store_dir_empty(w->dir);
        fault_vfs_fail(w->files, call, FAULT_ANY, n, err, false);
        live(w);
        aftermath(w);
    }
}

/* ---- what the engine promises about particular faults ---------------------------------------- */

static struct ps_stat stats(struct world *w)
{
    struct ps_stat stat;
    ps_stats(w->store, &stat);
    return stat;
}

static void begin(struct world *w, uint64_t commits)
{
    must_open(w);
    for (uint64_t n = 1; n <= commits; n++) {
        assert_int_equal(commits_make(w->store, n, PS_ALWAYS), 0);
    }
    w->acked = w->tried = commits;
}

/* Executes a commit and leaves it to the log thread. */
static void start_commit(struct world *w, uint64_t n)
{
    struct ps_txn *txn;
    assert_int_equal(ps_begin(w->store, &txn), 0);
    assert_int_equal(commits_apply(txn, n), 0);
    assert_int_equal(ps_commit_start(txn, PS_ALWAYS, false, NULL), 0);
}

/* The spare segment that opening asks for is written by the log thread, with calls of its own. */
static void await_spare_segment(struct world *w)
{
    while (stats(w).log_segments < 2) {
        sched_yield();
    }
}

/* The same; the log thread is stopped before it writes, and will fail if it is to. Room in the log
 * was made before. */
static void start_held_commit(struct world *w, uint64_t n, bool fails)
{
    await_spare_segment(w);
    struct ps_txn *txn;
    assert_int_equal(ps_begin(w->store, &txn), 0);
    assert_int_equal(commits_apply(txn, n), 0);
    fault_vfs_fail(w->files, FAULT_PWRITE, FAULT_LOG, fails, EIO, false);
    fault_vfs_hold(w->files, FAULT_PWRITE, FAULT_LOG);
    assert_int_equal(ps_commit_start(txn, PS_ALWAYS, false, NULL), 0);
    fault_vfs_await_held(w->files, 1);
}

static void await_nothing_unpublished(struct world *w)
{
    while (stats(w).groups_unpublished > 0) {
        sched_yield();
    }
}

static void a_failed_log_write_drops_all_in_flight_and_the_store_goes_on(void **state)
{
    struct world *w = *state;
    begin(w, 5);
    start_held_commit(w, 6, true);
    for (uint64_t n = 7; n <= 9; n++) {
        start_commit(w, n);
    }
    fault_vfs_release(w->files, FAULT_LOG);
    await_nothing_unpublished(w);
    assert_int_equal(commits_published(w->store), 5);
    assert_int_equal(commits_make(w->store, 6, PS_ALWAYS), 0);
    assert_int_equal(stats(w).states_dropped, 4);
    w->acked = w->tried = 6;
    assert_sound(w);
    aftermath(w);
}

static void what_saw_dropped_states_does_not_commit(void **state)
{
    struct world *w = *state;
    begin(w, 5);
    for (unsigned changed = 0; changed < 2; changed++) {
        struct ps_txn *txn;
        start_held_commit(w, 6, true);
        assert_int_equal(ps_begin(w->store, &txn), 0);
        assert_int_equal(commits_seen(ps_txn_view(txn)), 6);
        if (changed) {
            assert_int_equal(commits_apply(txn, 7), 0);
        }
        fault_vfs_release(w->files, FAULT_LOG);
        await_nothing_unpublished(w);
        assert_int_equal(ps_commit(txn, PS_ALWAYS, NULL), PS_IO);
        assert_int_equal(commits_published(w->store), 5);
    }
    aftermath(w);
}

static void *release_log(void *arg)
{
    struct world *w = arg;
    fault_vfs_release(w->files, FAULT_LOG);
    return NULL;
}

static int put_big(struct world *w, unsigned i)
{
    static uint8_t bytes[60000];
    struct ps_txn *txn;
    ps_tree tree;
    int rc = ps_begin(w->store, &txn);
    if (rc != 0) {
        return rc;
    }
    rc = ps_tree_create(txn, (struct ps_slice){"big", 3}, &tree);
    rc = rc == 0 ? ps_put(txn, tree, (struct ps_slice){&i, sizeof i},
                          (struct ps_slice){bytes, sizeof bytes})
                 : rc;
    if (rc != 0) {
        ps_abort(txn);
        return rc;
    }
    return ps_commit(txn, PS_EVERYSEC, NULL);
}

/* Making room waits, the transaction begins anew, and what it had read is gone. */
static void what_saw_dropped_states_gets_no_room(void **state)
{
    struct world *w = *state;
    begin(w, 5);
    for (unsigned fails = 0; fails < 2; fails++) {
        struct ps_txn *txn;
        pthread_t thread;
        for (unsigned i = 0; i < 4; i++) { /* half of dirty memory and a little */
            assert_int_equal(put_big(w, 4 * fails + i), 0);
        }
        uint64_t waits = stats(w).slot_waits;
        start_held_commit(w, 6 + fails, fails);
        assert_int_equal(ps_begin(w->store, &txn), 0);
        assert_int_equal(commits_seen(ps_txn_view(txn)), 6 + fails);
        assert_int_equal(pthread_create(&thread, NULL, release_log, w), 0);
        size_t ops = 1;
        int rc;
        while ((rc = ps_reserve(txn, ops, 0)) == 0 && stats(w).slot_waits == waits && ops < 100) {
            ops++;
        }
        /* Where the log failed before anybody waited, nobody has to. */
        assert_true(fails || stats(w).slot_waits > waits);
        assert_int_equal(rc, fails ? PS_IO : 0);
        pthread_join(thread, NULL);
        assert_int_equal(ps_commit(txn, PS_ALWAYS, NULL), fails ? PS_IO : 0);
        assert_int_equal(commits_published(w->store), 6);
    }
    w->acked = w->tried = 6;
    aftermath(w);
}

static void a_transaction_that_only_read_waits_for_what_it_saw(void **state)
{
    struct world *w = *state;
    begin(w, 5);
    for (unsigned fails = 0; fails < 2; fails++) {
        struct ps_txn *txn;
        pthread_t thread;
        start_held_commit(w, 6 + fails, fails);
        assert_int_equal(ps_begin(w->store, &txn), 0);
        assert_int_equal(pthread_create(&thread, NULL, release_log, w), 0);
        int rc = ps_commit(txn, PS_ALWAYS, NULL);
        assert_true(fails ? rc == PS_UNKNOWN || rc == PS_IO : rc == 0);
        assert_int_equal(commits_published(w->store), 6);
        pthread_join(thread, NULL);
    }
    w->acked = w->tried = 6;
    aftermath(w);
}

static void after_a_failed_sync_nothing_is_synced_again(void **state)
{
    struct world *w = *state;
    for (unsigned data = 0; data < 2; data++) {
        store_dir_empty(w->dir);
        begin(w, 5);
        fault_vfs_fail(w->files, FAULT_FDATASYNC, data ? FAULT_DATA : FAULT_LOG, 1, EIO, false);
        if (data) {
            assert_int_equal(ps_checkpoint(w->store), PS_POISONED);
        } else {
            assert_int_equal(commits_make(w->store, 6, PS_ALWAYS), PS_UNKNOWN);
        }
        w->tried = data ? 5 : 6;
        assert_true(poisoned(w));
        assert_int_equal(ps_checkpoint(w->store), PS_POISONED);
        assert_int_equal(ps_flush(w->store, 6), PS_POISONED);
        assert_int_equal(commits_published(w->store), 5);
        (void)ps_close(w->store, true);
        w->store = NULL;
        assert_int_equal(fault_vfs_calls(w->files), 1);
        aftermath(w);
    }
}

static void a_checkpoint_without_space_is_given_up_and_a_later_one_succeeds(void **state)
{
    struct world *w = *state;
    begin(w, 1);
    fault_vfs_fail(w->files, FAULT_PWRITE, FAULT_DATA, 1, ENOSPC, true);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ps_checkpoint(w->store), PS_NOSPACE);
        assert_int_equal(commits_make(w->store, 2 + i, PS_ALWAYS), 0);
    }
    fault_vfs_fail(w->files, FAULT_PWRITE, FAULT_DATA, 0, 0, false);
    assert_int_equal(ps_checkpoint(w->store), 0);
    w->acked = w->tried = 4;
    assert_sound(w);
    aftermath(w);
}

static int delete_big(struct world *w, unsigned i)
{
    struct ps_txn *txn;
    ps_tree tree;
    int rc = ps_begin(w->store, &txn);
    if (rc != 0) {
        return rc;
    }
    assert_int_equal(ps_tree_find(ps_txn_view(txn), (struct ps_slice){"big", 3}, &tree), 0);
    rc = ps_delete(txn, tree, (struct ps_slice){&i, sizeof i});
    if (rc != 0) {
        ps_abort(txn);
        return rc;
    }
    return ps_commit(txn, PS_EVERYSEC, NULL);
}

static void a_full_disk_refuses_puts_but_not_deletes_and_writing_resumes(void **state)
{
    struct world *w = *state;
    begin(w, 3);
    fault_vfs_full(w->files, true);
    unsigned stored = 0;
    int rc;
    while ((rc = put_big(w, stored)) == 0) {
        stored++;
    }
    assert_int_equal(rc, PS_NOSPACE);
    assert_true(stored > 2);
    assert_int_equal(commits_published(w->store), 3);
    for (unsigned i = 0; i < stored; i++) {
        assert_int_equal(delete_big(w, i), 0);
    }
    /* What was deleted comes back with checkpoints, on the full disk too. */
    assert_int_equal(ps_checkpoint(w->store), 0);
    assert_int_equal(ps_checkpoint(w->store), 0);
    assert_int_equal(put_big(w, 0), 0);
    fault_vfs_full(w->files, false);
    assert_int_equal(put_big(w, stored), 0);
    assert_sound(w);
    aftermath(w);
}

/* Each opening takes a segment of the log. Those that are ready are soon used up; what goes on is
 * one that a checkpoint of what was replayed has freed. */
static void a_store_whose_log_fills_the_disk_can_be_opened(void **state)
{
    struct world *w = *state;
    w->options.log_segment_size = 16384;
    begin(w, 30);
    fault_vfs_full(w->files, true);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(ps_close(w->store, false), 0);
        must_open(w);
        assert_int_equal(commits_published(w->store), 30);
    }
    fault_vfs_full(w->files, false);
    assert_sound(w);
    aftermath(w);
}

static void the_file_never_grows_beyond_what_is_mapped(void **state)
{
    struct world *w = *state;
    w->options.map_size = 64 << 20;
    begin(w, 3);
    unsigned stored = 0;
    int rc;
    while ((rc = put_big(w, stored)) == 0) {
        stored++;
    }
    assert_int_equal(rc, PS_NOSPACE);
    assert_true(stats(w).file_bytes <= w->options.map_size);
    assert_int_equal(commits_published(w->store), 3);
    assert_int_equal(ps_close(w->store, false), 0);
    w->store = NULL;
    w->options.map_size = 1 << 30;
    aftermath(w);
}

static void *checkpoint(void *arg)
{
    struct world *w = arg;
    return (void *)(intptr_t)ps_checkpoint(w->store);
}

static pthread_t start_checkpoint(struct world *w)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, checkpoint, w), 0);
    return thread;
}

static void finish_checkpoint(pthread_t thread)
{
    void *rc;
    pthread_join(thread, &rc);
    assert_int_equal((intptr_t)rc, 0);
}

/* A page written by a checkpoint dies, for good, before the checkpoint is complete; the page's own
 * death must not wait for a later group that is still in flight when the next checkpoint begins. */
static void a_death_passed_on_is_as_final_as_the_group_that_caused_it(void **state)
{
    struct world *w = *state;
    begin(w, 5);
    fault_vfs_hold(w->files, FAULT_FDATASYNC, FAULT_DATA);
    pthread_t first = start_checkpoint(w);
    fault_vfs_await_held(w->files, 1);
    assert_int_equal(commits_make(w->store, 6, PS_ALWAYS), 0);
    fault_vfs_hold(w->files, FAULT_FDATASYNC, FAULT_LOG);
    start_commit(w, 7);
    fault_vfs_await_held(w->files, 2);
    fault_vfs_release(w->files, FAULT_DATA);
    finish_checkpoint(first);
    fault_vfs_hold(w->files, FAULT_FDATASYNC, FAULT_DATA);
    pthread_t second = start_checkpoint(w);
    fault_vfs_await_held(w->files, 2);
    fault_vfs_release(w->files, FAULT_LOG);
    for (uint64_t n = 8; n <= 10; n++) {
        assert_int_equal(commits_make(w->store, n, PS_ALWAYS), 0);
    }
    fault_vfs_release(w->files, FAULT_DATA);
    finish_checkpoint(second);
    for (uint64_t n = 11; n <= 14; n++) {
        assert_int_equal(commits_make(w->store, n, PS_ALWAYS), 0);
    }
    assert_true(stats(w).deaths_passed > 0);
    w->acked = w->tried = 14;
    assert_sound(w);
    aftermath(w);
}

static void without_a_log_only_a_checkpoint_makes_durable(void **state)
{
    struct world *w = *state;
    w->options.durability = PS_NONE;
    must_open(w);
    assert_int_equal(commits_make(w->store, 1, PS_NONE), 0);
    w->tried = 1;
    assert_int_equal(ps_durable(w->store), 0);
    crash_now(w);
    assert_int_equal(commits_make(w->store, 2, PS_ALWAYS), 0);
    assert_int_equal(ps_durable(w->store), 2);
    w->acked = w->tried = 2;
    crash_now(w);
    start_commit(w, 3);
    assert_int_equal(ps_flush(w->store, 3), 0);
    w->acked = w->tried = 3;
    crash_now(w);
    fault_vfs_fail(w->files, FAULT_PWRITE, FAULT_DATA, 1, ENOSPC, true);
    assert_int_equal(commits_make(w->store, 4, PS_EVERYSEC), PS_UNKNOWN);
    assert_int_equal(commits_published(w->store), 4);
    fault_vfs_fail(w->files, FAULT_PWRITE, FAULT_DATA, 0, 0, false);
    w->acked = 3, w->tried = 4;
    crash_now(w);
    assert_int_equal(ps_close(w->store, true), 0);
    w->store = NULL, w->acked = 4;
    aftermath(w);
}

static void at_everysec_the_log_is_synced_though_nobody_asks_for_it(void **state)
{
    struct world *w = *state;
    begin(w, 1);
    assert_int_equal(ps_flush(w->store, 1), 0);
    fault_vfs_fail(w->files, FAULT_FDATASYNC, FAULT_LOG, 0, 0, false); /* they are counted */
    for (uint64_t n = 2; n <= 3; n++) {
        assert_int_equal(commits_make(w->store, n, PS_EVERYSEC), 0);
        while (ps_durable(w->store) < n) { /* or the watchdog ends it */
            sched_yield();
        }
        assert_true(fault_vfs_calls(w->files) >= n - 1);
    }
    w->acked = w->tried = 3;
    aftermath(w);
}

static void closing_without_a_checkpoint_syncs_the_log(void **state)
{
    struct world *w = *state;
    begin(w, 1);
    await_spare_segment(w);
    assert_int_equal(ps_flush(w->store, 1), 0);
    fault_vfs_fail(w->files, FAULT_FDATASYNC, FAULT_LOG, 0, 0, false); /* they are counted */
    assert_int_equal(commits_make(w->store, 2, PS_EVERYSEC), 0);
    assert_int_equal(ps_close(w->store, false), 0);
    w->store = NULL;
    assert_true(fault_vfs_calls(w->files) > 0);
    w->acked = w->tried = 2;
    aftermath(w);
}

/* The log thread takes all that wait at once: if any of them is to be on the device, all are. */
static void of_commits_written_together_the_highest_level_counts_for_all(void **state)
{
    struct world *w = *state;
    begin(w, 5);
    start_held_commit(w, 6, false);
    start_commit(w, 7);
    struct ps_txn *txn;
    assert_int_equal(ps_begin(w->store, &txn), 0);
    assert_int_equal(commits_apply(txn, 8), 0);
    assert_int_equal(ps_commit_start(txn, PS_EVERYSEC, false, NULL), 0);
    fault_vfs_release(w->files, FAULT_LOG);
    await_nothing_unpublished(w);
    assert_int_equal(ps_durable(w->store), 8);
    w->acked = w->tried = 8;
    assert_sound(w);
    aftermath(w);
}

static void levels_change_back_and_forth_without_losing_a_commit(void **state)
{
    struct world *w = *state;
    begin(w, 2);
    for (uint64_t n = 3; n <= 30; n += 3) {
        assert_int_equal(ps_set_durability(w->store, PS_NONE), 0);
        start_commit(w, n);
        assert_int_equal(ps_set_durability(w->store, n % 2 ? PS_ALWAYS : PS_EVERYSEC), 0);
        assert_int_equal(commits_make(w->store, n + 1, PS_ALWAYS), 0);
        w->acked = w->tried = n + 1;
        crash_now(w);
        assert_int_equal(commits_make(w->store, n + 2, PS_EVERYSEC), 0);
        w->acked = w->tried = n + 2;
        crash_now(w);
    }
    aftermath(w);
}

#define FAILURES(X)                                                           \
    X(a_failed_write_loses_nothing_acknowledged, FAULT_PWRITE, EIO)           \
    X(a_write_without_space_loses_nothing_acknowledged, FAULT_PWRITE, ENOSPC) \
    X(a_failed_allocation_of_file_space_loses_nothing, FAULT_FALLOCATE, EIO)  \
    X(an_allocation_without_space_loses_nothing, FAULT_FALLOCATE, ENOSPC)     \
    X(a_failed_fdatasync_loses_nothing_acknowledged, FAULT_FDATASYNC, EIO)    \
    X(a_failed_fsync_loses_nothing_acknowledged, FAULT_FSYNC, EIO)            \
    X(a_failed_sync_of_the_directory_loses_nothing, FAULT_SYNC_DIR, EIO)      \
    X(a_failed_open_loses_nothing, FAULT_OPEN, EMFILE)                        \
    X(a_failed_read_loses_nothing, FAULT_PREAD, EIO)                          \
    X(a_failed_rename_loses_nothing, FAULT_RENAME, EIO)                       \
    X(a_failed_unlink_loses_nothing, FAULT_UNLINK, EIO)                       \
    X(a_failed_mapping_loses_nothing, FAULT_MMAP, ENOMEM)                     \
    X(a_failed_size_loses_nothing, FAULT_SIZE, EIO)                           \
    X(a_failed_truncation_loses_nothing, FAULT_FTRUNCATE, EIO)                \
    X(a_failed_listing_loses_nothing, FAULT_LIST, EIO)                        \
    X(a_failed_lock_loses_nothing, FAULT_LOCK, EIO)

#define FAILS(what, call, err)              \
    static void what(void **state)          \
    {                                       \
        fail_everywhere(*state, call, err); \
    }

FAILURES(FAILS)

int main(void)
{
#define TEST(name)               cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define FAILING(what, call, err) TEST(what),
    const struct CMUnitTest tests[] = {
        TEST(a_failed_log_write_drops_all_in_flight_and_the_store_goes_on),
        TEST(what_saw_dropped_states_does_not_commit),
        TEST(what_saw_dropped_states_gets_no_room),
        TEST(a_transaction_that_only_read_waits_for_what_it_saw),
        TEST(after_a_failed_sync_nothing_is_synced_again),
        TEST(a_checkpoint_without_space_is_given_up_and_a_later_one_succeeds),
        TEST(a_full_disk_refuses_puts_but_not_deletes_and_writing_resumes),
        TEST(a_store_whose_log_fills_the_disk_can_be_opened),
        TEST(the_file_never_grows_beyond_what_is_mapped),
        TEST(a_death_passed_on_is_as_final_as_the_group_that_caused_it),
        TEST(without_a_log_only_a_checkpoint_makes_durable),
        TEST(at_everysec_the_log_is_synced_though_nobody_asks_for_it),
        TEST(closing_without_a_checkpoint_syncs_the_log),
        TEST(of_commits_written_together_the_highest_level_counts_for_all),
        TEST(levels_change_back_and_forth_without_losing_a_commit),
        FAILURES(FAILING)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
