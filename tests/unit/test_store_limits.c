/*
 * test_store_limits.c - every limit of the header: at it works, one past it is an error.
 */
#include "storage/image.h"
#include "storage/page.h"
#include "tests/support/store_fixture.h"

static void *filled(size_t len, int byte)
{
    void *memory = malloc(len);
    assert_non_null(memory);
    memset(memory, byte, len);
    return memory;
}

/* Without a log and without reopening: half a GiB of memory and of page cache, written once. */
static void the_longest_value_works_and_one_more_byte_is_too_big(void **state)
{
    struct fixture *f = *state;
    fixture_close(f, true);
    f->options.durability = PS_NONE;
    fixture_open(f);
    unsigned char *bytes = filled((size_t)PS_MAX_VALUE + 1, 'x');
    memcpy(bytes + PS_MAX_VALUE - 8, "the end", 8);
    struct ps_slice value = {bytes, PS_MAX_VALUE}, got, key = {bytes, (size_t)PS_MAX_KEY + 1};
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, key, text("v")), PS_TOOBIG);
    value.len++;
    assert_int_equal(ps_put(txn, f->tree, text("k"), value), PS_TOOBIG);
    value.len--;
    assert_false(ps_txn_changed(txn));
    assert_int_equal(ps_put(txn, f->tree, text("k"), value), 0);
    fixture_commit(txn);
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("k"), &got), 0);
    assert_int_equal(got.len, PS_MAX_VALUE);
    assert_memory_equal(got.data, bytes, PS_MAX_VALUE);
    ps_snapshot_free(snap);
    free(bytes);
}

static void the_longest_key_works_and_one_more_byte_is_too_big(void **state)
{
    struct fixture *f = *state;
    fixture_close(f, true);
    f->options.durability = PS_NONE;
    fixture_open(f);
    unsigned char *bytes = filled((size_t)PS_MAX_KEY + 1, 'x');
    struct ps_slice key = {bytes, (size_t)PS_MAX_KEY + 1}, got;
    uint64_t rank;
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, key, text("v")), PS_TOOBIG);
    key.len--;
    assert_int_equal(ps_put(txn, f->tree, key, text("v")), 0);
    assert_int_equal(ps_put(txn, f->tree, text("y"), text("after it")), 0);
    fixture_commit(txn);
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, key, &got), 0);
    assert_slice(got, "v");
    assert_int_equal(ps_rank(ps_snapshot_view(snap), f->tree, text("y"), &rank), 0);
    assert_int_equal(rank, 1);
    ps_snapshot_free(snap);
    txn = fixture_begin(f);
    assert_int_equal(ps_delete(txn, f->tree, key), 0);
    fixture_commit(txn);
    fixture_put(f, "z", "the store works on");
    free(bytes);
}

static void a_key_past_the_limit_is_found_nowhere(void **state)
{
    struct fixture *f = *state;
    unsigned char *bytes = filled(PS_MAX_KEY + 1, 'x');
    struct ps_slice key = {bytes, PS_MAX_KEY + 1}, value;
    fixture_put(f, "a", "1");
    struct ps_snapshot *snap = fixture_snapshot(f);
    int rc = ps_get(ps_snapshot_view(snap), f->tree, key, &value);
    assert_true(rc == PS_NOTFOUND || rc == PS_TOOBIG);
    ps_snapshot_free(snap);
    free(bytes);
}

static void long_keys_that_differ_in_the_last_byte_are_kept_apart(void **state)
{
    struct fixture *f = *state;
    enum { LONG = 65536 + 64 }; /* about the longest that pages in memory hold */
    unsigned char *bytes = filled(LONG, 'x');
    struct ps_slice key = {bytes, LONG}, value;
    uint64_t rank = 0;
    for (int i = 0; i < 60; i++) {
        struct ps_txn *txn = fixture_begin(f);
        bytes[LONG - 1] = (unsigned char)(i * 7 % 60);
        assert_int_equal(ps_put(txn, f->tree, key, (struct ps_slice){bytes + LONG - 1, 1}), 0);
        fixture_commit(txn);
    }
    assert_int_equal(ps_checkpoint(f->store), 0);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    struct ps_snapshot *snap = fixture_snapshot(f);
    for (int i = 0; i < 60; i++) {
        bytes[LONG - 1] = (unsigned char)i;
        assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, key, &value), 0);
        assert_int_equal(*(const unsigned char *)value.data, i);
        assert_int_equal(ps_rank(ps_snapshot_view(snap), f->tree, key, &rank), 0);
        assert_int_equal(rank, i);
    }
    ps_snapshot_free(snap);
    free(bytes);
}

static void values_of_every_size_about_the_parts_of_a_page_come_back(void **state)
{
    struct fixture *f = *state;
    unsigned char *bytes = filled(8192, 'y');
    for (int halves = 1; halves <= 4; halves++) {
        size_t around = 8192u >> halves;
        struct ps_txn *txn = fixture_begin(f);
        for (size_t len = around - 64; len < around + 64; len++) {
            struct ps_slice key = {&len, sizeof len}, value = {bytes, len};
            int rc = ps_put(txn, f->tree, key, value);
            if (rc == PS_BUSY) {
                fixture_commit(txn);
                txn = fixture_begin(f);
                rc = ps_put(txn, f->tree, key, value);
            }
            assert_int_equal(rc, 0);
        }
        fixture_commit(txn);
        struct ps_snapshot *snap = fixture_snapshot(f);
        for (size_t len = around - 64; len < around + 64; len++) {
            struct ps_slice key = {&len, sizeof len}, value;
            assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, key, &value), 0);
            assert_int_equal(value.len, len);
            assert_memory_equal(value.data, bytes, len);
        }
        ps_snapshot_free(snap);
    }
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    free(bytes);
}

static void names_have_one_to_255_bytes(void **state)
{
    struct fixture *f = *state;
    char *bytes = filled(PS_MAX_TREE_NAME + 1, 'n');
    struct ps_txn *txn = fixture_begin(f);
    ps_tree tree, found;
    struct ps_slice longest = {bytes, PS_MAX_TREE_NAME}, longer = {bytes, PS_MAX_TREE_NAME + 1};
    assert_int_equal(ps_tree_create(txn, text(""), &tree), PS_INVALID);
    assert_int_equal(ps_tree_create(txn, longer, &tree), PS_TOOBIG);
    assert_int_equal(ps_tree_create(txn, longest, &tree), 0);
    assert_int_equal(ps_tree_create(txn, (struct ps_slice){"\0\0", 2}, &found), 0);
    fixture_commit(txn);
    fixture_reopen(f, true);
    txn = fixture_begin(f);
    assert_int_equal(ps_tree_find(ps_txn_view(txn), longest, &found), 0);
    assert_int_equal(found, tree);
    assert_int_equal(ps_tree_find(ps_txn_view(txn), (struct ps_slice){"\0", 1}, &found),
                     PS_NOTFOUND);
    ps_abort(txn);
    free(bytes);
}

static void there_may_be_4096_trees_and_no_more(void **state)
{
    struct fixture *f = *state;
    char name[16];
    ps_tree tree;
    struct ps_txn *txn = fixture_begin(f);
    for (unsigned i = 1; i < PS_MAX_TREES; i++) { /* one is there already */
        snprintf(name, sizeof name, "tree %u", i);
        int rc = ps_tree_create(txn, text(name), &tree);
        if (rc == PS_BUSY) {
            fixture_commit(txn);
            txn = fixture_begin(f);
            rc = ps_tree_create(txn, text(name), &tree);
        }
        assert_int_equal(rc, 0);
    }
    assert_int_equal(ps_tree_create(txn, text("one more"), &tree), PS_LIMIT);
    assert_int_equal(ps_tree_create(txn, text("tree 1"), &tree), 0);
    assert_int_equal(ps_put(txn, tree, text("k"), text("v")), 0);
    fixture_commit(txn);
    fixture_reopen(f, true);
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    assert_int_equal(stat.trees, PS_MAX_TREES);
    txn = fixture_begin(f);
    assert_int_equal(ps_tree_drop(txn, f->tree), 0);
    assert_int_equal(ps_tree_create(txn, text("one more"), &tree), 0);
    fixture_commit(txn);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void there_may_be_64_savepoints_and_no_more(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn = fixture_begin(f);
    struct ps_slice value;
    char text_of[16];
    for (unsigned i = 0; i < PS_MAX_SAVEPOINTS; i++) {
        snprintf(text_of, sizeof text_of, "%u", i);
        assert_int_equal(ps_put(txn, f->tree, text("k"), text(text_of)), 0);
        assert_int_equal(ps_savepoint(txn), 0);
    }
    assert_int_equal(ps_savepoint(txn), PS_LIMIT);
    assert_int_equal(ps_put(txn, f->tree, text("k"), text("last")), 0);
    for (unsigned i = PS_MAX_SAVEPOINTS; i-- > 0;) {
        snprintf(text_of, sizeof text_of, "%u", i);
        assert_int_equal(ps_savepoint_rollback(txn), 0);
        assert_int_equal(ps_get(ps_txn_view(txn), f->tree, text("k"), &value), 0);
        assert_slice(value, text_of);
    }
    assert_int_equal(ps_savepoint(txn), 0);
    ps_abort(txn);
}

static void there_may_be_1024_snapshots_and_no_more(void **state)
{
    struct fixture *f = *state;
    static struct ps_snapshot *snaps[PS_MAX_SNAPSHOTS];
    struct ps_snapshot *more = NULL;
    for (unsigned i = 0; i < PS_MAX_SNAPSHOTS; i++) {
        assert_int_equal(ps_snapshot_new(f->store, &snaps[i]), 0);
        ps_snapshot_renew(snaps[i]);
    }
    assert_int_equal(ps_snapshot_new(f->store, &more), PS_LIMIT);
    ps_snapshot_free(snaps[500]);
    assert_int_equal(ps_snapshot_new(f->store, &snaps[500]), 0);
    for (unsigned i = 0; i < PS_MAX_SNAPSHOTS; i++)
        ps_snapshot_free(snaps[i]);
}

static void a_transaction_that_fills_its_share_of_the_dirty_memory_goes_on_in_the_file(void **state)
{
    struct fixture *f = *state;
    f->options.dirty_memory = 128 * 4096;
    fixture_reopen(f, true);
    struct ps_txn *txn = fixture_begin(f);
    char key[16];
    for (unsigned i = 0; i < 50000; i++) {
        snprintf(key, sizeof key, "key %05u", i);
        assert_int_equal(ps_put(txn, f->tree, text(key), text("a value of a few bytes")), 0);
    }
    fixture_commit(txn);
    uint64_t count = 0;
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_int_equal(ps_count(ps_snapshot_view(snap), f->tree, &count), 0);
    assert_int_equal(count, 50000);
    ps_snapshot_free(snap);
}

static void a_reservation_larger_than_the_dirty_memory_makes_a_transaction_that_spills(void **state)
{
    struct fixture *f = *state;
    f->options.dirty_memory = 128 * 4096;
    fixture_reopen(f, true);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_reserve(txn, 1, 128 * 4096), 0);
    assert_int_equal(ps_reserve(txn, 100000, 0), 0);
    assert_true(ps_txn_changed(txn) == false);
    assert_int_equal(ps_put(txn, f->tree, text("k"), text("v")), 0);
    assert_int_equal(ps_reserve(txn, 100000, 100 << 20), 0);
    fixture_commit(txn);
}

static void one_operation_that_the_dirty_memory_cannot_hold_is_told_so(void **state)
{
    struct fixture *f = *state;
    f->options.dirty_memory = 64 * 4096;
    fixture_reopen(f, true);
    unsigned char *bytes = calloc(1, RUN_ARENA_MAX);
    struct ps_slice key = {bytes, 65536}, value = {bytes, RUN_ARENA_MAX};
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, key, text("v")), 0); /* from now on, keys may be long */
    assert_int_equal(ps_put(txn, f->tree, key, value), PS_TXNFULL);
    assert_int_equal(ps_put(txn, f->tree, text("k"), text("v")), 0);
    fixture_commit(txn);
    free(bytes);
}

static void what_was_reserved_fits(void **state)
{
    struct fixture *f = *state;
    f->options.dirty_memory = 256 * 4096;
    fixture_reopen(f, true);
    char key[24];
    for (unsigned round = 0; round < 200; round++) {
        struct ps_txn *txn = fixture_begin(f);
        assert_int_equal(ps_reserve(txn, 8, 8 * 1000), 0);
        for (unsigned i = 0; i < 8; i++) {
            unsigned char value[980];
            memset(value, (int)i, sizeof value);
            snprintf(key, sizeof key, "%06u", (round * 8 + i) * 7919 % 1600);
            assert_int_equal(ps_put(txn, f->tree, text(key), (struct ps_slice){value, 980}), 0);
        }
        fixture_commit(txn);
    }
}

/* One put or delete, committed; PS_BUSY is answered by beginning again. */
static int change_alone(struct fixture *f, unsigned i, bool put)
{
    static const char value[4000];
    char key[16];
    int n = snprintf(key, sizeof key, "%08u", i);
    struct ps_txn *txn = fixture_begin(f);
    struct ps_slice k = {key, (size_t)n};
    int rc = put ? ps_put(txn, f->tree, k, (struct ps_slice){value, sizeof value})
                 : ps_delete(txn, f->tree, k);
    if (rc != 0) {
        ps_abort(txn);
        return rc;
    }
    return ps_commit(txn, PS_NONE, NULL);
}

static void a_full_file_refuses_puts_goes_on_deleting_and_takes_puts_again(void **state)
{
    struct fixture *f = *state;
    f->options.map_size = UINT64_C(64) << 20; /* the file cannot grow beyond it */
    f->options.dirty_memory = UINT64_C(4) << 20;
    f->options.durability = PS_EVERYSEC;
    fixture_reopen(f, true);
    unsigned n = 0;
    int rc;
    while ((rc = change_alone(f, n, true)) == 0)
        assert_true(++n < 20000);
    assert_int_equal(rc, PS_NOSPACE);
    assert_true(n > 5000);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(change_alone(f, i, false), 0);
    unsigned again = 0;
    for (unsigned tries = 0; again < n / 2; tries++) {
        rc = change_alone(f, again, true);
        assert_true(rc == 0 || (rc == PS_NOSPACE && tries < 1000000)); /* refused for a while */
        again += rc == 0;
    }
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    assert_true(stat.full_disk_checkpoints > 0);
    fixture_reopen(f, false);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

/* ---- options --------------------------------------------------------------------------------- */

/* Opens a new store with the options as they are, and uses it. */
static void works(struct fixture *f)
{
    store_dir_remove(f->dir);
    fixture_open(f);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_tree_create(txn, text("tree"), &f->tree), 0);
    fixture_commit(txn);
    fixture_fill(f, 0, 500, 100);
    fixture_reopen(f, false);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_close(f, true);
}

/* Opening is refused, with a reason, and leaves what is there as it was. */
static void is_refused(struct fixture *f)
{
    struct ps_fault fault;
    struct ps_store *store;
    assert_int_equal(ps_open(f->dir, &f->options, &store, NULL, &fault), PS_INVALID);
    assert_null(store);
    assert_int_not_equal(strlen(fault.what), 0);
}

static void pages_have_4096_to_65536_bytes(void **state)
{
    struct fixture *f = *state;
    static const uint32_t refused[] = {PS_MIN_PAGE_SIZE / 2, PS_MIN_PAGE_SIZE - 1,
                                       PS_MIN_PAGE_SIZE + 1, PS_MAX_PAGE_SIZE - 1,
                                       PS_MAX_PAGE_SIZE * 2};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        f->options.page_size = refused[i];
        is_refused(f);
    }
    f->options.page_size = PS_MIN_PAGE_SIZE;
    works(f);
    f->options.page_size = PS_MAX_PAGE_SIZE;
    works(f);
}

/* So much memory is only reserved; a machine, or a sanitizer, may not have the addresses. */
static void dirty_memory_has_64_pages_to_8_tib(void **state)
{
    struct fixture *f = *state;
    struct ps_fault fault;
    struct ps_stat stat;
    static const uint64_t refused[] = {PS_MAX_DIRTY_MEMORY + 1, UINT64_C(1) << 62, UINT64_MAX};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        f->options.dirty_memory = refused[i];
        is_refused(f);
    }
    f->options.dirty_memory = PS_MAX_DIRTY_MEMORY;
    int rc = ps_open(f->dir, &f->options, &f->store, NULL, &fault);
    assert_true(rc == 0 || rc == PS_NOMEM);
    if (rc == 0)
        fixture_close(f, true);
    f->options.dirty_memory = 1;
    works(f);
    fixture_open(f);
    ps_stats(f->store, &stat);
    assert_int_equal(stat.arena_slots, 64);
}

/* A level past the highest is none at all: it must not be taken for less than was asked. */
static void there_are_three_levels_of_durability(void **state)
{
    struct fixture *f = *state;
    static const enum ps_durability levels[] = {PS_ALWAYS + 1, 1000, -1};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        f->options.durability = levels[i];
        is_refused(f);
    }
    for (enum ps_durability level = PS_NONE; level <= PS_ALWAYS; level++) {
        f->options.durability = level;
        works(f);
    }
    fixture_open(f);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        struct ps_txn *txn = fixture_begin(f);
        assert_int_equal(ps_set_durability(f->store, levels[i]), PS_INVALID);
        assert_int_equal(ps_put(txn, f->tree, text("a"), text("1")), 0);
        assert_int_equal(ps_commit(txn, levels[i], NULL), PS_INVALID);
    }
    assert_int_equal(ps_get_durability(f->store), PS_ALWAYS);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice value;
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("a"), &value), PS_NOTFOUND);
    ps_snapshot_free(snap);
}

static void the_mapping_has_64_mib_or_what_there_is(void **state)
{
    struct fixture *f = *state;
    f->options.map_size = PS_MIN_MAP_SIZE - 1;
    is_refused(f);
    f->options.map_size = PS_MIN_MAP_SIZE;
    works(f);
    f->options.map_size = UINT64_MAX;
    works(f);
}

/* The largest segments are filled with zeros before they are used: here they are only refused or
 * taken (see test_log.c for what a log does with its segments). */
static void segments_of_the_log_have_4_kib_to_1_gib(void **state)
{
    struct fixture *f = *state;
    static const uint64_t refused[] = {PS_MIN_LOG_SEGMENT - 1024, PS_MIN_LOG_SEGMENT + 1,
                                       PS_MAX_LOG_SEGMENT + 1024, UINT64_MAX};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        f->options.log_segment_size = refused[i];
        is_refused(f);
    }
    f->options.log_segment_size = PS_MIN_LOG_SEGMENT;
    works(f);
}

/* With a sanitizer, a data file in memory each, fewer may be all that fit: PS_NOMEM then. */
static void there_may_be_256_stores_in_a_process_and_no_more(void **state)
{
    struct fixture *f = *state;
    static struct ps_store *stores[PS_MAX_STORES];
    char dir[STORE_DIR_PATH + 16];
    struct ps_store *more;
    struct ps_options options = {.map_size = PS_MIN_MAP_SIZE,
                                 .dirty_memory = 1,
                                 .log_segment_size = PS_MIN_LOG_SEGMENT,
                                 .manual_checkpoint = true,
                                 .durability = PS_NONE};
    unsigned n = 0;
    int rc = 0;
    while (rc == 0 && n < PS_MAX_STORES) {
        snprintf(dir, sizeof dir, "%s/%u", f->dir, n);
        rc = ps_open(dir, &options, &stores[n], NULL, NULL);
        n += rc == 0;
    }
    assert_true(rc == 0 || (IMAGE_ANONYMOUS && rc == PS_NOMEM));
    snprintf(dir, sizeof dir, "%s/more", f->dir);
    assert_int_equal(ps_open(dir, &options, &more, NULL, NULL), rc == 0 ? PS_LIMIT : PS_NOMEM);
    if (rc == 0) {
        assert_int_equal(ps_close(stores[7], false), 0);
        assert_int_equal(ps_open(dir, &options, &stores[7], NULL, NULL), 0);
    }
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(ps_close(stores[i], false), 0);
}

static int take_operand(void *arg, const struct ps_slice *old, struct ps_slice operand,
                        struct ps_merged *result)
{
    (void)arg;
    (void)old;
    memcpy(ps_merged_room(result, operand.len), operand.data, operand.len);
    return 0;
}

/* Those that are built in are among them. */
static void there_may_be_64_operators_with_names_of_63_bytes(void **state)
{
    struct fixture *f = *state;
    char name[PS_MAX_MERGE_NAME + 2];
    unsigned made = 0;
    int rc = 0;
    memset(name, 'n', sizeof name);
    name[PS_MAX_MERGE_NAME + 1] = 0;
    assert_int_equal(ps_merge_register(f->store, name, take_operand, NULL), PS_INVALID);
    name[PS_MAX_MERGE_NAME] = 0;
    for (; rc == 0; made += rc == 0) {
        snprintf(name, 5, "%04u", made);
        name[4] = 'n';
        rc = ps_merge_register(f->store, name, take_operand, NULL);
    }
    assert_int_equal(rc, PS_LIMIT);
    assert_int_equal(made + 6, PS_MAX_MERGES);
    struct ps_txn *txn = fixture_begin(f);
    struct ps_tree_options options = {.merge = "one-too-many"};
    struct ps_slice got;
    assert_int_equal(ps_tree_set(txn, f->tree, &options), PS_LIMIT);
    memcpy(options.merge, name, sizeof options.merge);
    memcpy(options.merge, "0000", 4);
    assert_int_equal(ps_tree_set(txn, f->tree, &options), 0);
    assert_int_equal(ps_merge(txn, f->tree, text("k"), text("v")), 0);
    assert_int_equal(ps_get(ps_txn_view(txn), f->tree, text("k"), &got), 0);
    assert_slice(got, "v");
    fixture_commit(txn);
}

/* ---- none is forgotten ----------------------------------------------------------------------- */

static const struct {
    const char *name; /* in the header */
    CMUnitTestFunction test;
} limits[] = {
    {"PS_MAX_TREES", there_may_be_4096_trees_and_no_more},
    {"PS_MAX_TREE_NAME", names_have_one_to_255_bytes},
    {"PS_MAX_KEY", the_longest_key_works_and_one_more_byte_is_too_big},
    {"PS_MAX_VALUE", the_longest_value_works_and_one_more_byte_is_too_big},
    {"PS_MAX_SAVEPOINTS", there_may_be_64_savepoints_and_no_more},
    {"PS_MAX_SNAPSHOTS", there_may_be_1024_snapshots_and_no_more},
    {"PS_MAX_MERGES", there_may_be_64_operators_with_names_of_63_bytes},
    {"PS_MAX_MERGE_NAME", there_may_be_64_operators_with_names_of_63_bytes},
    {"PS_MAX_STORES", there_may_be_256_stores_in_a_process_and_no_more},
    {"PS_MIN_PAGE_SIZE", pages_have_4096_to_65536_bytes},
    {"PS_MAX_PAGE_SIZE", pages_have_4096_to_65536_bytes},
    {"PS_MAX_DIRTY_MEMORY", dirty_memory_has_64_pages_to_8_tib},
    {"PS_MIN_MAP_SIZE", the_mapping_has_64_mib_or_what_there_is},
    {"PS_MIN_LOG_SEGMENT", segments_of_the_log_have_4_kib_to_1_gib},
    {"PS_MAX_LOG_SEGMENT", segments_of_the_log_have_4_kib_to_1_gib},
};

#define LIMITS (sizeof limits / sizeof *limits)

static void every_limit_of_the_header_has_its_test(void **state);

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_limit_of_the_header_has_its_test),
    DIRECTORY_TEST(pages_have_4096_to_65536_bytes),
    DIRECTORY_TEST(dirty_memory_has_64_pages_to_8_tib),
    DIRECTORY_TEST(there_are_three_levels_of_durability),
    DIRECTORY_TEST(the_mapping_has_64_mib_or_what_there_is),
    DIRECTORY_TEST(segments_of_the_log_have_4_kib_to_1_gib),
    DIRECTORY_TEST(there_may_be_256_stores_in_a_process_and_no_more),
    STORE_TEST(the_longest_value_works_and_one_more_byte_is_too_big),
    STORE_TEST(the_longest_key_works_and_one_more_byte_is_too_big),
    STORE_TEST(a_key_past_the_limit_is_found_nowhere),
    STORE_TEST(long_keys_that_differ_in_the_last_byte_are_kept_apart),
    STORE_TEST(values_of_every_size_about_the_parts_of_a_page_come_back),
    STORE_TEST(names_have_one_to_255_bytes),
    STORE_TEST(there_may_be_4096_trees_and_no_more),
    STORE_TEST(there_may_be_64_savepoints_and_no_more),
    STORE_TEST(there_may_be_1024_snapshots_and_no_more),
    STORE_TEST(there_may_be_64_operators_with_names_of_63_bytes),
    STORE_TEST(a_transaction_that_fills_its_share_of_the_dirty_memory_goes_on_in_the_file),
    STORE_TEST(a_reservation_larger_than_the_dirty_memory_makes_a_transaction_that_spills),
    STORE_TEST(one_operation_that_the_dirty_memory_cannot_hold_is_told_so),
    STORE_TEST(what_was_reserved_fits),
    STORE_TEST(a_full_file_refuses_puts_goes_on_deleting_and_takes_puts_again),
};

/* Programs of tests run in the repository's root. */
static void every_limit_of_the_header_has_its_test(void **state)
{
    char line[256], name[64];
    size_t found = 0;
    (void)state;
    FILE *header = fopen("storage/pandostore.h", "r");
    assert_non_null(header);
    while (fgets(line, sizeof line, header)) {
        if (sscanf(line, "#define %63s", name) != 1 ||
            (strncmp(name, "PS_MAX_", 7) != 0 && strncmp(name, "PS_MIN_", 7) != 0))
            continue;
        size_t i = 0, k = 0;
        while (i < LIMITS && strcmp(limits[i].name, name) != 0)
            i++;
        if (i == LIMITS)
            fail_msg("%s has no test", name);
        while (k < sizeof tests / sizeof *tests && tests[k].test_func != limits[i].test)
            k++;
        if (k == sizeof tests / sizeof *tests)
            fail_msg("the test of %s is not run", name);
        found++;
    }
    fclose(header);
    assert_int_equal(found, LIMITS);
}

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
