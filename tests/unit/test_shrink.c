/*
 * test_shrink.c - online compaction: the file gets shorter, and nothing is lost by it: not for
 * readers beside it, not when it is stopped, killed, or the file cannot be cut off.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/store.h"
#include "tests/support/fault_fixture.h"
#include "tests/support/odd_entries.h"
#include "tests/support/store_fixture.h"

#define MANY 8000u

static char key_room[ODD_ROOM], value_room[ODD_ROOM];

static void put_range(struct fixture *f, unsigned from, unsigned to, char tag)
{
    struct ps_txn *txn = fixture_begin(f);
    ps_keep_whole(txn);
    for (unsigned i = from; i < to; i++)
        assert_int_equal(ps_put(txn, f->tree, odd_key(i, key_room), odd_value(i, tag, value_room)),
                         0);
    fixture_commit(txn);
}

/* Leaves one in `of`. */
static void thin_out(struct fixture *f, unsigned n, unsigned of)
{
    struct ps_txn *txn = fixture_begin(f);
    ps_keep_whole(txn);
    for (unsigned i = 0; i < n; i++)
        if (i % of != 0)
            assert_int_equal(ps_delete(txn, f->tree, odd_key(i, key_room)), 0);
    fixture_commit(txn);
}

static void assert_content(struct fixture *f, struct ps_snapshot *snap, unsigned n, unsigned of,
                           char tag)
{
    struct ps_view *view = ps_snapshot_view(snap);
    for (unsigned i = 0; i < n; i++) {
        struct ps_slice found;
        int rc = ps_get(view, f->tree, odd_key(i, key_room), &found);
        assert_int_equal(rc, i % of == 0 ? 0 : PS_NOTFOUND);
        if (rc == 0) {
            struct ps_slice v = odd_value(i, tag, value_room);
            assert_int_equal(found.len, v.len);
            assert_memory_equal(found.data, v.data, v.len);
        }
    }
}

static void assert_now(struct fixture *f, unsigned n, unsigned of, char tag)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_content(f, snap, n, of, tag);
    ps_snapshot_free(snap);
}

static uint64_t file_size(const struct fixture *f)
{
    char path[STORE_DIR_PATH + 16];
    struct stat st;
    snprintf(path, sizeof path, "%s/pando.db", f->dir);
    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

static uint64_t used_bytes(const struct fixture *f)
{
    return (space_pages(&f->store->space) - space_free_pages(&f->store->space)) * 4096;
}

static void the_file_gets_as_short_as_its_pages_and_keeps_them(void **state)
{
    struct fixture *f = *state;
    put_range(f, 0, MANY, 'a');
    assert_int_equal(ps_checkpoint(f->store), 0);
    thin_out(f, MANY, 5);
    uint64_t before = file_size(f), freed;
    assert_int_equal(ps_shrink(f->store, NULL, &freed), 0);
    uint64_t after = file_size(f);
    assert_int_equal(before - after, freed);
    assert_int_equal(ps_file_bytes(f->store), after);
    assert_true(after < before / 2);
    assert_true(after < used_bytes(f) + (2u << 20));
    assert_true(f->store->stat.shrink_moved > 50 && f->store->stat.shrink_cuts > 0);
    assert_now(f, MANY, 5, 'a');
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_reopen(f, false);
    assert_int_equal(ps_file_bytes(f->store), after);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    put_range(f, 0, MANY, 'b'); /* and it grows again */
    assert_now(f, MANY, 1, 'b');
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void a_store_without_free_pages_stays_as_it_is(void **state)
{
    struct fixture *f = *state;
    uint64_t freed;
    assert_int_equal(ps_shrink(f->store, NULL, &freed), 0);
    uint64_t moved = f->store->stat.shrink_moved, size = file_size(f);
    assert_int_equal(ps_shrink(f->store, NULL, &freed), 0);
    assert_int_equal(freed, 0);
    assert_int_equal(f->store->stat.shrink_moved, moved);
    assert_int_equal(file_size(f), size);
}

static void a_snapshot_keeps_what_it_sees_and_the_file_is_cut_when_it_ends(void **state)
{
    struct fixture *f = *state;
    put_range(f, 0, MANY, 'a');
    for (unsigned pinned = 0; pinned < 2; pinned++) {
        assert_int_equal(ps_checkpoint(f->store), 0);
        struct ps_snapshot *snap = fixture_snapshot(f);
        if (pinned)
            assert_int_equal(ps_snapshot_pin(snap), 0);
        thin_out(f, MANY, 7);
        assert_int_equal(ps_shrink(f->store, NULL, NULL), 0);
        uint64_t held = file_size(f);
        assert_content(f, snap, MANY, 1, 'a');
        ps_snapshot_free(snap);
        assert_int_equal(ps_shrink(f->store, NULL, NULL), 0);
        assert_true(file_size(f) < held / 2);
        assert_now(f, MANY, 7, 'a');
        put_range(f, 0, MANY, 'a');
    }
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static bool stop_after(void *arg, uint64_t done, uint64_t whole)
{
    assert_true(done <= whole);
    return --*(int *)arg > 0;
}

static void it_can_be_stopped_and_goes_on_later(void **state)
{
    struct fixture *f = *state;
    put_range(f, 0, MANY, 'a');
    assert_int_equal(ps_checkpoint(f->store), 0);
    thin_out(f, MANY, 3);
    uint64_t before = file_size(f);
    for (int round = 1;; round++) {
        int calls = round;
        struct ps_copy_watch watch = {stop_after, &calls};
        int rc = ps_shrink(f->store, &watch, NULL);
        assert_true(rc == 0 || rc == PS_ENDED);
        assert_now(f, MANY, 3, 'a');
        assert_int_equal(ps_check(f->store, NULL, NULL), 0);
        if (rc == 0)
            break;
        assert_true(round < 200);
    }
    assert_true(file_size(f) < before);
}

static void killed_at_any_step_nothing_is_lost(void **state)
{
    struct fixture *f = *state;
    put_range(f, 0, MANY, 'a');
    assert_int_equal(ps_checkpoint(f->store), 0);
    thin_out(f, MANY, 4);
    fixture_close(f, true);
    bool through = false;
    for (int at = 1; !through; at += 2) {
        pid_t child = fork();
        if (child == 0) {
            int calls = at;
            struct ps_copy_watch watch = {end_the_process, &calls};
            bool fine = ps_open(f->dir, &f->options, &f->store, NULL, NULL) == 0 &&
                        ps_shrink(f->store, &watch, NULL) == 0;
            _exit(fine ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 9 || WEXITSTATUS(status) == 0));
        through = WEXITSTATUS(status) == 0;
        fixture_open(f);
        assert_int_equal(ps_check(f->store, NULL, NULL), 0);
        assert_now(f, MANY, 4, 'a');
        fixture_close(f, false);
    }
    fixture_open(f);
}

static void a_file_that_cannot_be_cut_off_stays_longer_and_right(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = fixture_close_for_faults(f);
    fixture_open(f);
    put_range(f, 0, MANY, 'a');
    assert_int_equal(ps_checkpoint(f->store), 0);
    thin_out(f, MANY, 4);
    uint64_t before = file_size(f);
    fault_vfs_fail(files, FAULT_FTRUNCATE, FAULT_DATA, 1, 5, true);
    assert_int_equal(ps_shrink(f->store, NULL, NULL), PS_IO);
    fault_vfs_fail(files, FAULT_FTRUNCATE, FAULT_DATA, 0, 5, false);
    assert_true(file_size(f) >= before);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    put_range(f, 0, MANY, 'b'); /* what was cut in memory alone is taken again */
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    thin_out(f, MANY, 4);
    assert_int_equal(ps_shrink(f->store, NULL, NULL), 0);
    assert_true(file_size(f) < before);
    fixture_reopen(f, false);
    assert_now(f, MANY, 4, 'b');
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_close(f, true);
    f->options.vfs = NULL;
    fixture_open(f);
    fault_vfs_free(files);
}

struct beside {
    struct fixture *f;
    _Atomic bool stop;
    unsigned reads, writes;
};

static void *read_beside(void *arg)
{
    struct beside *b = arg;
    struct ps_snapshot *snap;
    char *room = malloc(ODD_ROOM), *values = malloc(ODD_ROOM);
    if (!room || !values || ps_snapshot_new(b->f->store, &snap) != 0)
        abort();
    while (!atomic_load(&b->stop)) {
        ps_snapshot_renew(snap);
        for (unsigned i = 0; i < 200; i++) {
            struct ps_slice found;
            unsigned k = (b->reads++ * 4u) % MANY;
            if (ps_get(ps_snapshot_view(snap), b->f->tree, odd_key(k, room), &found) != 0)
                abort();
            struct ps_slice v = odd_value(k, 'a', values);
            if (found.len != v.len || memcmp(found.data, v.data, v.len) != 0)
                abort();
        }
        if (ps_view_check(ps_snapshot_view(snap)) != 0)
            abort();
    }
    ps_snapshot_free(snap);
    free(room);
    free(values);
    return NULL;
}

static void *write_beside(void *arg)
{
    struct beside *b = arg;
    while (!atomic_load(&b->stop)) {
        struct ps_txn *txn;
        char key[16];
        int n = snprintf(key, sizeof key, "x%06u", b->writes++ % 3000);
        if (ps_begin(b->f->store, &txn) != 0 ||
            ps_put(txn, b->f->tree, (struct ps_slice){key, (size_t)n}, text("value")) != 0 ||
            ps_commit(txn, PS_EVERYSEC, NULL) != 0)
            abort();
    }
    return NULL;
}

static void readers_and_the_writer_go_on_beside_it(void **state)
{
    struct fixture *f = *state;
    put_range(f, 0, MANY, 'a');
    assert_int_equal(ps_checkpoint(f->store), 0);
    thin_out(f, MANY, 4);
    uint64_t before = file_size(f);
    struct beside b = {.f = f};
    pthread_t reader, writer;
    assert_int_equal(pthread_create(&reader, NULL, read_beside, &b), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_beside, &b), 0);
    assert_int_equal(ps_shrink(f->store, NULL, NULL), 0);
    atomic_store(&b.stop, true);
    pthread_join(reader, NULL);
    pthread_join(writer, NULL);
    assert_true(b.writes > 0 && b.reads > 0);
    assert_true(file_size(f) < before);
    assert_now(f, MANY, 4, 'a');
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(the_file_gets_as_short_as_its_pages_and_keeps_them),
        STORE_TEST(a_store_without_free_pages_stays_as_it_is),
        STORE_TEST(a_snapshot_keeps_what_it_sees_and_the_file_is_cut_when_it_ends),
        STORE_TEST(it_can_be_stopped_and_goes_on_later),
        STORE_TEST(killed_at_any_step_nothing_is_lost),
        STORE_TEST(a_file_that_cannot_be_cut_off_stays_longer_and_right),
        STORE_TEST(readers_and_the_writer_go_on_beside_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
