/*
 * test_resident.c - reading without waiting for the disk: which pages are asked for, and what
 * follows from the answers. The operating system's answer is replaced by one that a test chooses.
 */
#include "storage/vfs.h"
#include "tests/support/store_fixture.h"

#define ASKED_MAX 256

/* What was asked, and what is answered: nothing below `from` of question `absent` is in memory. */
static struct {
    const void *asked[ASKED_MAX];
    unsigned n;
    unsigned absent; /* number of the question whose answer is no; ASKED_MAX: none */
    unsigned page;   /* of the operating system, in what is asked about */
    unsigned prefetched;
} os;

static int resident(void *ctx, const void *address, size_t len, unsigned char *there)
{
    (void)ctx;
    memset(there, 1, (len + 4095) / 4096);
    if (os.n == os.absent)
        there[os.page] = 0;
    assert_true(os.n < ASKED_MAX);
    os.asked[os.n++] = address;
    return 0;
}

static void prefetch(void *ctx, const void *address, size_t len)
{
    ps_vfs_posix()->prefetch(ctx, address, len);
    os.prefetched++;
}

struct place {
    struct fixture *f;
    struct ps_vfs vfs;
    struct ps_snapshot *snap;
    struct ps_view *view;
    struct ps_residency *residency;
    int64_t clock;
};

static void answer(struct place *p, unsigned absent, unsigned page)
{
    os.n = 0;
    os.absent = absent;
    os.page = page;
    os.prefetched = 0;
    p->clock += 10000;
    ps_residency_renew(p->residency, p->clock);
}

static int setup_size(void **state, uint32_t page_size)
{
    struct place *p = calloc(1, sizeof *p);
    *state = p;
    p->f = fixture_directory();
    p->vfs = *ps_vfs_posix();
    p->vfs.resident = resident;
    p->vfs.prefetch = prefetch;
    p->f->options.vfs = &p->vfs;
    p->f->options.page_size = page_size;
    p->f->options.manual_checkpoint = true;
    fixture_open(p->f);
    struct ps_txn *txn = fixture_begin(p->f);
    assert_int_equal(ps_tree_create(txn, text("tree"), &p->f->tree), 0);
    fixture_commit(txn);
    return 0;
}

static int setup(void **state)
{
    return setup_size(state, 4096);
}

static int setup_16k(void **state)
{
    return setup_size(state, 16384);
}

static int teardown(void **state)
{
    struct place *p = *state;
    ps_residency_free(p->residency);
    ps_snapshot_free(p->snap);
    void *f = p->f;
    fixture_teardown(&f);
    free(p);
    return 0;
}

/* Everything goes to the file; a snapshot of it. */
static void settle(struct place *p)
{
    fixture_reopen(p->f, true);
    p->snap = fixture_snapshot(p->f);
    p->view = ps_snapshot_view(p->snap);
    assert_int_equal(ps_residency_new(p->f->store, &p->residency), 0);
    answer(p, ASKED_MAX, 0);
}

static int probe(struct place *p, const char *key, size_t write)
{
    struct ps_slice value;
    return ps_probe(p->view, p->f->tree, text(key), write, p->residency, &value);
}

static struct ps_stat stat_of(struct place *p)
{
    struct ps_stat stat;
    ps_stats(p->f->store, &stat);
    return stat;
}

static void probing_answers_as_reading_does_when_all_is_in_memory(void **state)
{
    struct place *p = *state;
    fixture_fill(p->f, 0, 5000, 100);
    settle(p);
    for (unsigned i = 0; i < 5100; i += 7) {
        char key[32];
        snprintf(key, sizeof key, "key %05u", i);
        struct ps_slice expected = {0}, value = {0};
        int rc = ps_get(p->view, p->f->tree, text(key), &expected);
        os.n = 0;
        assert_int_equal(ps_probe(p->view, p->f->tree, text(key), 0, p->residency, &value), rc);
        assert_int_equal(rc, i < 5000 ? 0 : PS_NOTFOUND);
        assert_int_equal(value.len, expected.len);
        assert_ptr_equal(value.data, expected.data);
    }
    assert_int_equal(ps_probe(p->view, 77, text("x"), 0, p->residency, &(struct ps_slice){0}),
                     PS_NOTFOUND);
}

static void every_page_of_a_path_is_asked_for_and_ends_the_probe_where_it_is_absent(void **state)
{
    struct place *p = *state;
    fixture_fill(p->f, 0, 20000, 100);
    settle(p);
    assert_int_equal(probe(p, "key 07777", 0), 0);
    unsigned levels = os.n;
    assert_true(levels >= 3);
    for (unsigned i = 0; i < levels; i++) {
        answer(p, i, 0);
        assert_int_equal(probe(p, "key 07777", 0), PS_WOULDWAIT);
        assert_int_equal(os.n, i + 1);
        struct ps_lookup one = {.tree = p->f->tree, .key = text("key 07777")};
        answer(p, i, 0);
        ps_get_many_resident(p->view, &one, 1, p->residency);
        assert_int_equal(one.rc, PS_WOULDWAIT);
        assert_int_equal(os.n, i + 1);
    }
    assert_int_equal(stat_of(p).probes_would_wait, 2 * levels);
}

static void lookups_beside_one_that_would_wait_are_answered(void **state)
{
    struct place *p = *state;
    enum { MANY = 40 };
    struct ps_lookup lookups[MANY];
    char keys[MANY][32];
    unsigned waiting = 0;
    fixture_fill(p->f, 0, 20000, 100);
    settle(p);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(keys[i], sizeof keys[i], "key %05u", i * 499);
        lookups[i] = (struct ps_lookup){.tree = p->f->tree, .key = text(keys[i])};
    }
    answer(p, 30, 0);
    ps_get_many_resident(p->view, lookups, MANY, p->residency);
    for (unsigned i = 0; i < MANY; i++) {
        waiting += lookups[i].rc == PS_WOULDWAIT;
        if (lookups[i].rc != PS_WOULDWAIT) {
            char number[16];
            snprintf(number, sizeof number, "%014u", i * 499);
            assert_int_equal(lookups[i].rc, 0);
            assert_memory_equal(lookups[i].value.data, number, 14);
        }
    }
    assert_int_equal(waiting, 1);
}

static void dirty_memory_is_not_asked_for(void **state)
{
    struct place *p = *state;
    settle(p);
    fixture_fill(p->f, 0, 2000, 100);
    ps_snapshot_renew(p->snap);
    answer(p, 0, 0);
    assert_int_equal(probe(p, "key 00777", 1000), 0);
    assert_int_equal(os.n, 0);
}

static void what_was_found_in_memory_is_asked_for_again_only_after_a_while(void **state)
{
    struct place *p = *state;
    fixture_fill(p->f, 0, 5000, 100);
    settle(p);
    assert_int_equal(probe(p, "key 00777", 0), 0);
    unsigned levels = os.n;
    assert_int_equal(probe(p, "key 00777", 0), 0);
    ps_residency_renew(p->residency, p->clock + 20);
    assert_int_equal(probe(p, "key 00777", 0), 0);
    assert_int_equal(os.n, levels);
    ps_residency_renew(p->residency, p->clock + 100);
    assert_int_equal(probe(p, "key 00777", 0), 0);
    assert_int_equal(os.n, 2 * levels);
    assert_int_equal(stat_of(p).residency_checks, 2 * levels);
}

static void a_large_page_is_in_memory_when_all_of_it_is(void **state)
{
    struct place *p = *state;
    fixture_fill(p->f, 0, 5000, 100);
    settle(p);
    for (unsigned page = 0; page < 4; page++) {
        answer(p, 0, page);
        assert_int_equal(probe(p, "key 00777", 0), PS_WOULDWAIT);
    }
}

static void a_long_value_is_in_memory_when_all_of_its_pages_are(void **state)
{
    struct place *p = *state;
    fixture_fill(p->f, 0, 100, 100);
    fixture_fill(p->f, 50, 51, 60000);
    settle(p);
    assert_int_equal(probe(p, "key 00050", 0), 0);
    unsigned last = os.n - 1;
    for (unsigned page = 0; page < 15; page += 7) {
        struct ps_lookup one = {.tree = p->f->tree, .key = text("key 00050")};
        answer(p, last, page);
        assert_int_equal(probe(p, "key 00050", 0), PS_WOULDWAIT);
        answer(p, last, page);
        ps_get_many_resident(p->view, &one, 1, p->residency);
        assert_int_equal(one.rc, PS_WOULDWAIT);
    }
    answer(p, last, 0);
    assert_int_equal(probe(p, "key 00051", 0), 0);
    struct ps_slice value;
    assert_int_equal(ps_touch(p->view, p->f->tree, text("key 00050"), 0, &value), 0);
    assert_int_equal(value.len, 60000);
    assert_memory_equal(value.data, "00000000000050", 14);
    assert_true(os.prefetched > 0);
}

static void a_long_key_is_compared_only_when_it_is_in_memory(void **state)
{
    struct place *p = *state;
    char key[2000];
    memset(key, 'k', sizeof key);
    struct ps_txn *txn = fixture_begin(p->f);
    assert_int_equal(ps_put(txn, p->f->tree, (struct ps_slice){key, sizeof key}, text("v")), 0);
    assert_int_equal(ps_put(txn, p->f->tree, text("other"), text("w")), 0);
    fixture_commit(txn);
    settle(p);
    struct ps_slice value;
    struct ps_lookup one = {.tree = p->f->tree, .key = {key, sizeof key}};
    assert_int_equal(ps_probe(p->view, one.tree, one.key, 0, p->residency, &value), 0);
    unsigned last = os.n - 1;
    answer(p, last, 0);
    assert_int_equal(ps_probe(p->view, one.tree, one.key, 0, p->residency, &value), PS_WOULDWAIT);
    answer(p, last, 0);
    ps_get_many_resident(p->view, &one, 1, p->residency);
    assert_int_equal(one.rc, PS_WOULDWAIT);
    assert_int_equal(ps_touch(p->view, one.tree, one.key, 0, &value), 0);
    assert_slice(value, "v");
}

static void a_put_that_does_not_fit_into_its_leaf_needs_the_neighbours(void **state)
{
    struct place *p = *state;
    fixture_fill(p->f, 0, 5000, 100);
    settle(p);
    assert_int_equal(probe(p, "key 02500", 0), 0);
    unsigned levels = os.n;
    answer(p, ASKED_MAX, 0);
    assert_int_equal(probe(p, "key 02500", 108), 0); /* of the same size as what is there */
    assert_int_equal(os.n, levels);
    answer(p, ASKED_MAX, 0);
    assert_int_equal(probe(p, "key 02500", 3000), 0);
    assert_int_equal(os.n, levels + 2);
    for (unsigned i = levels; i < levels + 2; i++) {
        answer(p, i, 0);
        assert_int_equal(probe(p, "key 02500", 3000), PS_WOULDWAIT);
    }
    struct ps_slice value;
    assert_int_equal(ps_touch(p->view, p->f->tree, text("key 02500"), 3000, &value), 0);
    assert_memory_equal(value.data, "00000000002500", 14);
    assert_int_equal(stat_of(p).neighbours_touched, 2);
    assert_int_equal(stat_of(p).paths_touched, 1);
}

static void a_deletion_that_leaves_little_needs_the_neighbours(void **state)
{
    struct place *p = *state;
    fixture_fill(p->f, 0, 5000, 100);
    struct ps_txn *txn = fixture_begin(p->f);
    for (unsigned i = 1000; i < 4000; i++) {
        char key[32];
        snprintf(key, sizeof key, "key %05u", i);
        if (i % 4 != 0)
            assert_int_equal(ps_delete(txn, p->f->tree, text(key)), 0);
    }
    fixture_commit(txn);
    settle(p);
    unsigned least = ASKED_MAX, most = 0;
    for (unsigned i = 1000; i < 4000; i += 4) {
        char key[32];
        snprintf(key, sizeof key, "key %05u", i);
        answer(p, ASKED_MAX, 0);
        assert_int_equal(probe(p, key, 1), 0);
        least = os.n < least ? os.n : least;
        most = os.n > most ? os.n : most;
    }
    assert_int_equal(most, least + 2);
}

static void the_file_has_as_many_bytes_as_the_statistics_say(void **state)
{
    struct place *p = *state;
    fixture_fill(p->f, 0, 5000, 100);
    settle(p);
    assert_true(ps_file_bytes(p->f->store) > 500000);
    assert_int_equal(ps_file_bytes(p->f->store), stat_of(p).file_bytes);
}

#define TEST(name)     cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_16K(name) cmocka_unit_test_setup_teardown(name, setup_16k, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(probing_answers_as_reading_does_when_all_is_in_memory),
        TEST(every_page_of_a_path_is_asked_for_and_ends_the_probe_where_it_is_absent),
        TEST(lookups_beside_one_that_would_wait_are_answered),
        TEST(dirty_memory_is_not_asked_for),
        TEST(what_was_found_in_memory_is_asked_for_again_only_after_a_while),
        TEST_16K(a_large_page_is_in_memory_when_all_of_it_is),
        TEST(a_long_value_is_in_memory_when_all_of_its_pages_are),
        TEST(a_long_key_is_compared_only_when_it_is_in_memory),
        TEST(a_put_that_does_not_fit_into_its_leaf_needs_the_neighbours),
        TEST(a_deletion_that_leaves_little_needs_the_neighbours),
        TEST(the_file_has_as_many_bytes_as_the_statistics_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
