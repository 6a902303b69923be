/*
 * test_scrub.c - scrubbing finds damage with its place and goes on; and the levels of
 * options.verify.
 */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "storage/inspect.h"
#include "storage/store.h"
#include "tests/support/odd_entries.h"
#include "tests/support/store_fixture.h"

#define MANY 4000u

static char key_room[ODD_ROOM], value_room[ODD_ROOM];

static void put_all(struct fixture *f)
{
    struct ps_txn *txn = fixture_begin(f);
    ps_keep_whole(txn);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(ps_put(txn, f->tree, odd_key(i, key_room), odd_value(i, 'v', value_room)),
                         0);
    fixture_commit(txn);
    assert_int_equal(ps_checkpoint(f->store), 0);
}

/* The page of the leaf that a key is in, in the file. */
static page_ref leaf_of(struct fixture *f, unsigned i)
{
    const struct page *leaf;
    const struct tree_root *root = &f->store->file_state->trees[f->tree];
    assert_int_equal(tree_leaf(f->store, root, odd_key(i, key_room), &leaf), 0);
    return leaf->number;
}

static void flip(struct fixture *f, page_ref page, unsigned at)
{
    char path[STORE_DIR_PATH + 16];
    uint8_t byte;
    snprintf(path, sizeof path, "%s/pando.db", f->dir);
    int fd = open(path, O_RDWR);
    off_t offset = (off_t)(page * 4096 + at);
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
    if (IMAGE_ANONYMOUS)
        ((uint8_t *)(uintptr_t)f->store->base[0])[offset] ^= 1;
}

static void round_of(struct ps_scrub *scrub, uint64_t bytes, unsigned *steps)
{
    bool end = false;
    for (*steps = 0; !end; ++*steps) {
        assert_int_equal(ps_scrub_step(scrub, bytes, &end), 0);
        assert_true(*steps < 100000);
    }
}

static void a_round_reads_every_page_of_the_trees_in_steps(void **state)
{
    struct fixture *f = *state;
    put_all(f);
    struct ps_scrub *scrub;
    struct ps_scrub_report one, two;
    unsigned steps;
    assert_int_equal(ps_scrub_new(f->store, &scrub), 0);
    round_of(scrub, UINT64_MAX, &steps);
    assert_int_equal(steps, 1);
    ps_scrub_read(scrub, &one);
    struct ps_figures figures;
    assert_int_equal(ps_survey(f->store, NULL, NULL, &figures), 0);
    assert_int_equal(one.bytes / 4096, figures.leaves + figures.branches + figures.run_pages +
                                           figures.long_run_pages - one.findings);
    assert_int_equal(one.rounds, 1);
    round_of(scrub, 100000, &steps);
    ps_scrub_read(scrub, &two);
    assert_true(steps > 20 && two.bytes - one.bytes >= one.bytes);
    assert_int_equal(two.rounds, 2);
    assert_int_equal(two.findings, 0);
    ps_scrub_free(scrub);
}

static void damage_is_found_with_its_place_and_what_is_behind_it_too(void **state)
{
    struct fixture *f = *state;
    put_all(f);
    struct ps_scrub *scrub;
    struct ps_scrub_report report;
    unsigned steps;
    page_ref first = leaf_of(f, 100), second = leaf_of(f, 3000);
    assert_int_equal(ps_scrub_new(f->store, &scrub), 0);
    round_of(scrub, 50000, &steps);
    flip(f, second, 2000);
    round_of(scrub, 50000, &steps);
    ps_scrub_read(scrub, &report);
    assert_int_equal(report.findings, 1);
    assert_int_equal(report.fault.code, PS_CORRUPT);
    assert_int_equal(report.fault.offset, second * 4096);
    flip(f, first, 2000);
    round_of(scrub, 50000, &steps);
    ps_scrub_read(scrub, &report);
    assert_int_equal(report.findings, 3);
    flip(f, first, 2000);
    flip(f, second, 2000);
    ps_scrub_free(scrub);
}

static void its_thread_goes_round_and_stops(void **state)
{
    struct fixture *f = *state;
    put_all(f);
    struct ps_scrub *scrub;
    struct ps_scrub_report report = {0};
    assert_int_equal(ps_scrub_new(f->store, &scrub), 0);
    assert_int_equal(ps_scrub_start(scrub, 0), PS_INVALID);
    assert_int_equal(ps_scrub_start(scrub, UINT64_C(4) << 30), 0);
    assert_int_equal(ps_scrub_start(scrub, 1), PS_EXISTS);
    for (unsigned i = 0; report.rounds < 3; i++) {
        char key[16];
        snprintf(key, sizeof key, "new %06u", i);
        fixture_put(f, key, "value");
        ps_scrub_read(scrub, &report);
    }
    ps_scrub_stop(scrub);
    assert_int_equal(report.findings, 0);
    assert_int_equal(ps_scrub_start(scrub, 1), 0); /* rests for hours, and is stopped at once */
    ps_scrub_free(scrub);
}

/* ---- levels of verifying -----------------------------------------------------------------------
 */

static int get(struct fixture *f, unsigned i)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice value;
    int rc = ps_get(ps_snapshot_view(snap), f->tree, odd_key(i, key_room), &value);
    ps_snapshot_free(snap);
    return rc;
}

static void reopen_with(struct fixture *f, enum ps_verify verify)
{
    f->options.verify = verify;
    fixture_reopen(f, true);
}

static void on_first_use_later_damage_is_not_seen_but_damage_before_is(void **state)
{
    struct fixture *f = *state;
    put_all(f);
    page_ref leaf = leaf_of(f, 1000);
    reopen_with(f, PS_VERIFY_FIRST_USE);
    assert_int_equal(get(f, 1000), 0);
    uint64_t verified = atomic_load(&f->store->pages_verified);
    assert_int_equal(get(f, 1000), 0);
    assert_int_equal(atomic_load(&f->store->pages_verified), verified);
    flip(f, leaf, 30); /* 30: what nobody looks at but the checksum */
    assert_int_equal(get(f, 1000), 0);
    fixture_reopen(f, false);
    assert_int_equal(get(f, 1000), PS_CORRUPT);
    flip(f, leaf, 30);
}

static void always_means_at_every_use(void **state)
{
    struct fixture *f = *state;
    put_all(f);
    page_ref leaf = leaf_of(f, 1000);
    reopen_with(f, PS_VERIFY_ALWAYS);
    assert_int_equal(get(f, 1000), 0);
    uint64_t verified = atomic_load(&f->store->pages_verified);
    assert_int_equal(get(f, 1000), 0);
    assert_true(atomic_load(&f->store->pages_verified) > verified);
    flip(f, leaf, 30);
    assert_int_equal(get(f, 1000), PS_CORRUPT);
    flip(f, leaf, 30);
    assert_int_equal(get(f, 1000), 0);
    for (unsigned i = 0; i < MANY; i += 7)
        assert_int_equal(get(f, i), 0);
}

static void never_finds_no_damage_but_a_page_that_is_another(void **state)
{
    struct fixture *f = *state;
    put_all(f);
    page_ref leaf = leaf_of(f, 1000);
    reopen_with(f, PS_VERIFY_NEVER);
    flip(f, leaf, 30);
    assert_int_equal(get(f, 1000), 0);
    assert_int_equal(ps_check(f->store, NULL, NULL), PS_CORRUPT); /* which looks in any case */
    struct ps_scrub *scrub;
    struct ps_scrub_report report;
    unsigned steps;
    assert_int_equal(ps_scrub_new(f->store, &scrub), 0);
    round_of(scrub, UINT64_MAX, &steps);
    ps_scrub_read(scrub, &report);
    assert_int_equal(report.findings, 1);
    ps_scrub_free(scrub);
    flip(f, leaf, 30);
    for (unsigned i = 0; i < MANY; i += 7)
        assert_int_equal(get(f, i), 0);
    fixture_reopen(f, false);
    flip(f, leaf, 16); /* its birth: it is not the page that the one above means */
    assert_int_equal(get(f, 1000), PS_CORRUPT);
    flip(f, leaf, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_round_reads_every_page_of_the_trees_in_steps),
        STORE_TEST(damage_is_found_with_its_place_and_what_is_behind_it_too),
        STORE_TEST(its_thread_goes_round_and_stops),
        STORE_TEST(on_first_use_later_damage_is_not_seen_but_damage_before_is),
        STORE_TEST(always_means_at_every_use),
        STORE_TEST(never_finds_no_damage_but_a_page_that_is_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
