/*
 * The expiry index: the rule of expiry.c, by its rows and by random use.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/keyspace/internal.h"
#include "tests/support/keyspace_fixture.h"

static void index_is(struct fixture *f, const char *expected)
{
    char text[1000];

    fixture_index(f, 0, text, sizeof(text));
    assert_string_equal(text, expected);
    fixture_check_index(f);
}

static void a_key_is_in_the_index_exactly_if_it_has_an_expiry(void **state)
{
    struct fixture *f = *state;

    fixture_begin(f);
    fixture_put(f, 0, "a", "1", 500, 100);
    fixture_put(f, 0, "b", "1", 300, 100);
    fixture_put(f, 0, "c", "1", 0, 100);
    index_is(f, "300:b 500:a");
    fixture_put(f, 0, "a", "2", 0, 100); /* SET without a time, or PERSIST */
    index_is(f, "300:b");
    fixture_delete(f, 0, "b", 100);
    index_is(f, "");
    fixture_commit(f);
}

static void moving_an_expiry_on_writes_no_row(void **state)
{
    struct fixture *f = *state;

    fixture_begin(f);
    fixture_put(f, 0, "a", "1", 500, 100);
    for (int64_t now = 101; now < 500; now++)
        fixture_put(f, 0, "a", "1", now + 400, now);
    index_is(f, "500:a");
    assert_true(fixture_find(f, 0, "a", 898).state == KEY_LIVE);
    assert_true(fixture_find(f, 0, "a", 899).state == KEY_EXPIRED);
    fixture_commit(f);
}

static void an_earlier_expiry_moves_the_row(void **state)
{
    struct fixture *f = *state;

    fixture_begin(f);
    fixture_put(f, 0, "a", "1", 500, 100);
    fixture_put(f, 0, "a", "1", 400, 100);
    index_is(f, "400:a");
    fixture_put(f, 0, "a", "1", 900, 100);
    index_is(f, "400:a");
    fixture_put(f, 0, "a", "1", 450, 100);
    index_is(f, "400:a");
    fixture_put(f, 0, "a", "1", 399, 100);
    index_is(f, "399:a");
    fixture_commit(f);
}

static void a_row_that_is_due_moves_when_its_key_is_written(void **state)
{
    struct fixture *f = *state;

    fixture_begin(f);
    fixture_put(f, 0, "a", "1", 500, 100);
    fixture_put(f, 0, "a", "1", 900, 500); /* expired at 500: a new key */
    index_is(f, "900:a");
    fixture_put(f, 0, "a", "1", 2000, 600);
    fixture_put(f, 0, "a", "1", 3000, 900); /* refreshed, and its row due at 900 */
    index_is(f, "3000:a");
    fixture_commit(f);
}

static void maintain(struct fixture *f, int64_t now_ms, size_t budget, size_t steps, bool left)
{
    size_t done;
    bool more;

    assert_int_equal(keyspace_maintain(f->ks, f->txn, now_ms, budget, &done, &more), 0);
    assert_int_equal(done, steps);
    assert_int_equal(more, left);
    fixture_check_index(f);
}

static void background_work_removes_the_expired_and_files_the_refreshed_again(void **state)
{
    struct fixture *f = *state;

    fixture_begin(f);
    fixture_put(f, 0, "gone", "1", 500, 100);
    fixture_put(f, 0, "kept", "value", 450, 100);
    uint64_t version = fixture_put(f, 0, "kept", "value", 900, 200);
    maintain(f, 449, 10, 0, false);
    maintain(f, 500, 10, 2, false);
    index_is(f, "900:kept");
    struct key_entry kept = fixture_find(f, 0, "kept", 500);
    assert_int_equal(kept.state, KEY_LIVE);
    assert_true(kept.record.version == version); /* nobody modified it */
    assert_int_equal(kept.record.payload.len, 5);
    assert_memory_equal(kept.record.payload.data, "value", 5);
    assert_int_equal(fixture_find(f, 0, "gone", 0).state, KEY_ABSENT);
    maintain(f, 900, 10, 1, false);
    index_is(f, "");
    fixture_commit(f);
}

static void background_work_goes_in_bounded_steps_through_all_databases(void **state)
{
    struct fixture *f = *state;
    char key[16];

    fixture_begin(f);
    for (unsigned i = 0; i < 30; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        fixture_put(f, i % 3, key, "1", 200 + i, 100);
    }
    maintain(f, 1000, 12, 12, true);
    maintain(f, 1000, 12, 12, true);
    maintain(f, 1000, 12, 6, false);
    maintain(f, 1000, 12, 0, false);
    fixture_commit(f);
    struct keyspace_counters counters;
    keyspace_counters(f->ks, &counters);
    assert_int_equal(counters.expired, 30);
}

static void a_hint_removes_an_expired_key_and_no_other(void **state)
{
    struct fixture *f = *state;
    struct ps_slice a = {"a", 1}, none = {"none", 4};

    fixture_begin(f);
    fixture_put(f, 0, "a", "1", 500, 100);
    assert_int_equal(keyspace_expire_key(f->ks, f->txn, 0, a, 499), 0);
    index_is(f, "500:a");
    assert_int_equal(keyspace_expire_key(f->ks, f->txn, 0, none, 500), 0);
    assert_int_equal(keyspace_expire_key(f->ks, f->txn, 0, a, 500), 0);
    index_is(f, "");
    assert_int_equal(fixture_find(f, 0, "a", 0).state, KEY_ABSENT);
    fixture_commit(f);
}

static void emptying_a_database_empties_its_index(void **state)
{
    struct fixture *f = *state;

    fixture_begin(f);
    fixture_put(f, 0, "a", "1", 500, 100);
    fixture_put(f, 1, "b", "1", 500, 100);
    assert_int_equal(ps_reserve(f->txn, 3, 0), 0);
    assert_int_equal(keyspace_flush(f->ks, f->txn, 0), 0);
    index_is(f, "");
    assert_int_equal(fixture_find(f, 0, "a", 100).state, KEY_ABSENT);
    assert_int_equal(fixture_find(f, 1, "b", 100).state, KEY_LIVE);
    fixture_commit(f);
}

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

#define KEYS 8

/* Some change at a time; `expires` is the truth: -1 no key, 0 no expiry. */
static void random_change(struct fixture *f, uint64_t *seed, int64_t now, int64_t expires[KEYS])
{
    unsigned k = next_random(seed) % KEYS;
    char key[8];
    size_t done;
    bool more;

    snprintf(key, sizeof(key), "k%u", k);
    bool there = expires[k] >= 0;
    switch (next_random(seed) % 6) {
    case 0:
        if (there)
            fixture_delete(f, 0, key, now);
        expires[k] = -1;
        break;
    case 1:
        fixture_put(f, 0, key, "v", 0, now);
        expires[k] = 0;
        break;
    case 2:
        assert_int_equal(keyspace_maintain(f->ks, f->txn, now, next_random(seed) % 3, &done, &more),
                         0);
        break;
    case 3:
        assert_int_equal(
            keyspace_expire_key(f->ks, f->txn, 0, (struct ps_slice){key, strlen(key)}, now), 0);
        break;
    default:
        expires[k] = now + 1 + (int64_t)(next_random(seed) % 40);
        fixture_put(f, 0, key, "v", expires[k], now);
        break;
    }
}

static void the_rule_holds_under_random_use(void **state)
{
    struct fixture *f = *state;
    int64_t expires[KEYS];
    uint64_t seed = 4101842887655102017ull, shown = 0;

    for (unsigned k = 0; k < KEYS; k++)
        expires[k] = -1;
    for (int64_t now = 1; now < 6000; now++) {
        fixture_begin(f);
        random_change(f, &seed, now, expires);
        uint64_t live = 0, count;
        for (unsigned k = 0; k < KEYS; k++) {
            char key[8];
            snprintf(key, sizeof(key), "k%u", k);
            bool expected = expires[k] == 0 || expires[k] > now;
            assert_int_equal(fixture_find(f, 0, key, now).state == KEY_LIVE, expected);
            live += expected;
            if (!expected && fixture_find(f, 0, key, now).state == KEY_ABSENT)
                expires[k] = -1;
        }
        assert_int_equal(keyspace_count(f->ks, fixture_view(f), 0, now, NULL, &count), 0);
        assert_int_equal(count, live);
        shown += live;
        fixture_check_index(f);
        fixture_commit(f);
    }
    assert_true(shown > 6000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_key_is_in_the_index_exactly_if_it_has_an_expiry),
        TEST(moving_an_expiry_on_writes_no_row),
        TEST(an_earlier_expiry_moves_the_row),
        TEST(a_row_that_is_due_moves_when_its_key_is_written),
        TEST(background_work_removes_the_expired_and_files_the_refreshed_again),
        TEST(background_work_goes_in_bounded_steps_through_all_databases),
        TEST(a_hint_removes_an_expired_key_and_no_other),
        TEST(emptying_a_database_empties_its_index),
        TEST(the_rule_holds_under_random_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
