/*
 * test_store_reserve.c - what is let in on a full disk has its place in the file and in the log: it
 * is refused before it begins, or it can be carried through.
 */
#include <errno.h>

#include "storage/store.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/store_fixture.h"

#define MANY 4000u

struct full {
    struct fixture *f;
    struct fault_vfs *vfs;
};

static int setup(void **state)
{
    struct full *full = calloc(1, sizeof *full);
    assert_non_null(full);
    full->vfs = fault_vfs_new();
    full->f = fixture_directory();
    full->f->options.vfs = fault_vfs(full->vfs);
    full->f->options.log_segment_size = 64u << 10;
    full->f->options.manual_checkpoint = true;
    fixture_open(full->f);
    struct ps_txn *txn = fixture_begin(full->f);
    assert_int_equal(ps_tree_create(txn, text("tree"), &full->f->tree), 0);
    fixture_commit(txn);
    *state = full;
    return 0;
}

static int teardown(void **state)
{
    struct full *full = *state;
    void *f = full->f;
    (void)fixture_teardown(&f);
    fault_vfs_free(full->vfs);
    free(full);
    return 0;
}

/* Commits one put: what the put answers. A commit of one that was let in always works. */
static int put(struct fixture *f, unsigned number, size_t len)
{
    static char value[2000];
    char key[16];
    struct ps_txn *txn = fixture_begin(f);
    snprintf(key, sizeof key, "%08u", number);
    int rc = ps_put(txn, f->tree, text(key), (struct ps_slice){value, len});
    if (rc != 0) {
        ps_abort(txn);
        return rc;
    }
    assert_int_equal(ps_commit(txn, PS_NONE, NULL), 0);
    return 0;
}

static void every_page_that_a_full_disk_let_in_has_its_place_in_the_file(void **state)
{
    struct full *full = *state;
    int rc = 0;
    assert_int_equal(ps_set_durability(full->f->store, PS_NONE), 0);
    fault_vfs_full(full->vfs, true);
    for (unsigned i = 0; rc == 0 && i < MANY; i++)
        rc = put(full->f, i, 2000);
    assert_int_equal(rc, PS_NOSPACE);
    assert_int_equal(ps_checkpoint(full->f->store), 0);
    fault_vfs_full(full->vfs, false);
}

/* A slot that a checkpoint has found a place for needs no other: it is not counted, nor is it
 * forgotten when the checkpoint fails. */
static void checkpoints_between_take_no_place_away_from_what_is_let_in(void **state)
{
    struct full *full = *state;
    struct fixture *f = full->f;
    int rc = 0;
    assert_int_equal(ps_set_durability(f->store, PS_NONE), 0);
    for (unsigned i = 0; i < 400; i++) {
        assert_int_equal(put(f, i, 2000), 0);
    }
    fault_vfs_fail(full->vfs, FAULT_PWRITE, FAULT_DATA, 2, ENOSPC, false);
    assert_int_equal(ps_checkpoint(f->store), PS_NOSPACE);
    assert_int_equal(f->store->placed, 0);
    assert_int_equal(ps_checkpoint(f->store), 0);
    fault_vfs_full(full->vfs, true);
    for (unsigned i = 0; rc == 0 && i < MANY; i++) {
        rc = put(f, 2 * i, 2000);
        if (i % 16 == 0) {
            assert_int_equal(ps_checkpoint(f->store), 0);
            assert_int_equal(f->store->placed, 0);
        }
    }
    assert_int_equal(rc, PS_NOSPACE);
    assert_int_equal(ps_checkpoint(f->store), 0);
    assert_int_equal(f->store->placed, 0);
    fault_vfs_full(full->vfs, false);
}

static void every_commit_that_a_full_disk_let_in_has_its_place_in_the_log(void **state)
{
    struct full *full = *state;
    int rc = 0;
    fault_vfs_full(full->vfs, true);
    for (unsigned i = 0; rc == 0 && i < MANY; i++)
        rc = put(full->f, i % 8, 2000); /* the file has room for these */
    fault_vfs_full(full->vfs, false);
    assert_true(rc == 0 || rc == PS_NOSPACE);
}

#define FULL_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FULL_TEST(every_page_that_a_full_disk_let_in_has_its_place_in_the_file),
        FULL_TEST(checkpoints_between_take_no_place_away_from_what_is_let_in),
        FULL_TEST(every_commit_that_a_full_disk_let_in_has_its_place_in_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
