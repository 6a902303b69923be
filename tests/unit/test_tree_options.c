/*
 * test_tree_options.c - options of trees: part of the state, in catalogue and log.
 */
#include "storage/tree_options.h"

#include "storage/inspect.h"
#include "tests/support/store_fixture.h"

static const struct ps_tree_options some = {
    .compression = PS_ZSTD, .compress_over = 1234, .merge = "add-saturating"};
static const struct ps_tree_options others = {.merge = "of-the-program"};
static const struct ps_tree_options none;

static void assert_options(struct ps_view *view, ps_tree tree,
                           const struct ps_tree_options *expected)
{
    struct ps_tree_options found;
    assert_int_equal(ps_tree_options(view, tree, &found), 0);
    assert_int_equal(found.compression, expected->compression);
    assert_int_equal(found.compress_over, expected->compress_over);
    assert_string_equal(found.merge, expected->merge);
}

static void expect(struct fixture *f, const struct ps_tree_options *expected)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_options(ps_snapshot_view(snap), f->tree, expected);
    ps_snapshot_free(snap);
}

static void set(struct fixture *f, const struct ps_tree_options *options)
{
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_tree_set(txn, f->tree, options), 0);
    assert_options(ps_txn_view(txn), f->tree, options);
    fixture_commit(txn);
}

static void they_survive_replay_and_checkpoint(void **state)
{
    struct fixture *f = *state;
    expect(f, &none);
    set(f, &some);
    fixture_reopen(f, false);
    expect(f, &some);
    fixture_reopen(f, true);
    assert_int_equal(f->recovery.replayed_commits, 0);
    expect(f, &some);
    set(f, &others);
    fixture_reopen(f, true);
    expect(f, &others);
    set(f, &none);
    fixture_reopen(f, true);
    expect(f, &none);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void they_belong_to_the_transaction_and_the_state(void **state)
{
    struct fixture *f = *state;
    set(f, &some);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(ps_tree_set(txn, f->tree, &others), 0);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_options(ps_txn_view(txn), f->tree, &some);
    assert_int_equal(ps_tree_set(txn, f->tree, &none), 0);
    ps_abort(txn);
    expect(f, &some);
    set(f, &others);
    assert_options(ps_snapshot_view(snap), f->tree, &some); /* what that state had */
    ps_snapshot_free(snap);
    expect(f, &others);
}

static void clearing_keeps_them_and_dropping_does_not(void **state)
{
    struct fixture *f = *state;
    set(f, &some);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("a"), text("b")), 0);
    assert_int_equal(ps_clear(txn, f->tree), 0);
    assert_options(ps_txn_view(txn), f->tree, &some);
    assert_int_equal(ps_tree_drop(txn, f->tree), 0);
    struct ps_tree_options found;
    assert_int_equal(ps_tree_options(ps_txn_view(txn), f->tree, &found), PS_NOTFOUND);
    assert_int_equal(ps_tree_set(txn, f->tree, &some), PS_NOTFOUND);
    assert_int_equal(ps_tree_create(txn, text("tree"), &f->tree), 0);
    assert_options(ps_txn_view(txn), f->tree, &none);
    fixture_commit(txn);
    fixture_reopen(f, false);
    expect(f, &none);
}

static void what_cannot_be_is_refused(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    struct ps_tree_options bad = {.compression = 3};
    assert_int_equal(ps_tree_set(txn, f->tree, &bad), PS_INVALID);
    bad = (struct ps_tree_options){.merge = "two words"};
    assert_int_equal(ps_tree_set(txn, f->tree, &bad), PS_INVALID);
    memset(bad.merge, 'm', sizeof bad.merge);
    assert_int_equal(ps_tree_set(txn, f->tree, &bad), PS_INVALID);
    bad.merge[PS_MAX_MERGE_NAME] = 0;
    assert_int_equal(ps_tree_set(txn, f->tree, &bad), 0);
    fixture_commit(txn);
    fixture_reopen(f, true);
    expect(f, &bad);
}

static void bytes_that_no_options_are_written_as_are_damage(void **state)
{
    struct ps_tree_options found;
    uint8_t bytes[OPTIONS_MOST + 1] = {PS_LZ4, 1, 0, 0, 0, 'm', 'a', 'x'};
    (void)state;
    assert_int_equal(tree_options_parse((struct ps_slice){bytes, 8}, &found), 0);
    assert_int_equal(found.compress_over, 1);
    assert_string_equal(found.merge, "max");
    assert_int_equal(tree_options_parse((struct ps_slice){bytes, 4}, &found), PS_CORRUPT);
    bytes[5] = ' ';
    assert_int_equal(tree_options_parse((struct ps_slice){bytes, 8}, &found), PS_CORRUPT);
    bytes[5] = 'm';
    bytes[0] = 3;
    assert_int_equal(tree_options_parse((struct ps_slice){bytes, 8}, &found), PS_CORRUPT);
    memset(bytes, 'm', sizeof bytes);
    bytes[0] = 0;
    assert_int_equal(tree_options_parse((struct ps_slice){bytes, OPTIONS_MOST + 1}, &found),
                     PS_CORRUPT);
    assert_int_equal(tree_options_parse((struct ps_slice){bytes, OPTIONS_MOST}, &found), 0);
}

struct listed {
    unsigned compressed, options;
    size_t value_len;
};

static void list(void *arg, const struct ps_log_op *op)
{
    struct listed *l = arg;
    if (strcmp(op->name, "put-compressed") == 0) {
        l->compressed++;
        l->value_len = op->value.len;
    }
    if (strcmp(op->name, "options") == 0) {
        assert_slice(op->key, "compression=zstd over=1234 merge=add-saturating");
        l->options++;
    }
}

static void the_log_lists_options_and_what_was_put_compressed(void **state)
{
    struct fixture *f = *state;
    char value[3000] = {0};
    struct listed listed = {0};
    struct ps_log_watch watch = {.op = list, .arg = &listed};
    struct ps_log_report report;
    struct ps_fault fault;
    set(f, &some);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("zeros"), (struct ps_slice){value, 3000}), 0);
    fixture_commit(txn);
    fixture_close(f, false);
    assert_int_equal(ps_log_read(f->dir, NULL, &watch, &report, &fault), 0);
    assert_int_equal(listed.options, 1);
    assert_int_equal(listed.compressed, 1);
    assert_int_equal(listed.value_len, 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(they_survive_replay_and_checkpoint),
        STORE_TEST(they_belong_to_the_transaction_and_the_state),
        STORE_TEST(clearing_keeps_them_and_dropping_does_not),
        STORE_TEST(what_cannot_be_is_refused),
        cmocka_unit_test(bytes_that_no_options_are_written_as_are_damage),
        STORE_TEST(the_log_lists_options_and_what_was_put_compressed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
