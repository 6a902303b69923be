/*
 * Walks: SCAN's promise, patterns, counts, and random keys.
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

#define MAX 2000

/* How often each key "kN" was met. */
struct tally {
    unsigned met[MAX];
    unsigned others, expired;
    char last[32];
};

static bool tally_key(void *arg, struct ps_slice key, const struct key_entry *entry)
{
    struct tally *t = arg;
    unsigned n;

    assert_true(key.len < sizeof(t->last));
    memcpy(t->last, key.data, key.len);
    t->last[key.len] = '\0';
    if (entry->state == KEY_EXPIRED)
        t->expired++;
    else if (sscanf(t->last, "k%u", &n) == 1 && n < MAX)
        t->met[n]++;
    else
        t->others++;
    return true;
}

static void put_number(struct fixture *f, unsigned n, int64_t expire_ms)
{
    char key[16];

    snprintf(key, sizeof(key), "k%u", n);
    fixture_put(f, 0, key, "v", expire_ms, 1);
}

static void delete_number(struct fixture *f, unsigned n)
{
    char key[16];

    snprintf(key, sizeof(key), "k%u", n);
    if (fixture_find(f, 0, key, 1).state != KEY_ABSENT)
        fixture_delete(f, 0, key, 1);
}

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* Even numbers stay, odd ones come and go between the steps. */
static void what_is_there_throughout_is_met_exactly_once(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 7;

    for (unsigned round = 0; round < 20; round++) {
        struct tally t = {.others = 0};
        struct keyspace_walk walk = {.now_ms = 1, .visit = tally_key, .arg = &t};
        uint64_t cursor = 0;
        fixture_begin(f);
        for (unsigned n = 0; n < 400; n += 2)
            put_number(f, n, 0);
        do {
            walk.limit = 1 + next_random(&seed) % 20;
            assert_int_equal(keyspace_walk_step(f->ks, fixture_view(f), &walk, &cursor), 0);
            assert_true(cursor < UINT64_C(1) << 53);
            for (unsigned i = 0; i < 20; i++) {
                unsigned odd = (unsigned)(next_random(&seed) % 200) * 2 + 1;
                if (next_random(&seed) % 2)
                    put_number(f, odd, 0);
                else
                    delete_number(f, odd);
            }
        } while (cursor != 0);
        for (unsigned n = 0; n < 400; n += 2)
            assert_int_equal(t.met[n], 1);
        for (unsigned n = 1; n < 400; n += 2)
            assert_true(t.met[n] <= 1);
        fixture_commit(f);
    }
}

static void a_forgotten_position_goes_on_by_its_rank(void **state)
{
    struct fixture *f = *state;
    struct tally t = {.others = 0};
    struct keyspace_walk walk = {.now_ms = 1, .limit = 7, .visit = tally_key, .arg = &t};
    uint64_t cursor = 0;

    fixture_begin(f);
    for (unsigned n = 0; n < 100; n++)
        put_number(f, n, 0);
    do {
        assert_int_equal(keyspace_walk_step(f->ks, fixture_view(f), &walk, &cursor), 0);
        cursor = scan_rank(cursor); /* as after a restart */
    } while (cursor != 0);
    for (unsigned n = 0; n < 100; n++)
        assert_int_equal(t.met[n], 1);
    cursor = 1000; /* behind the end */
    assert_int_equal(keyspace_walk_step(f->ks, fixture_view(f), &walk, &cursor), 0);
    assert_int_equal(cursor, 0);
    fixture_commit(f);
}

static unsigned walk_pattern(struct fixture *f, const char *pattern, uint64_t limit,
                             unsigned *steps)
{
    struct tally t = {.others = 0};
    struct keyspace_walk walk = {.now_ms = 1,
                                 .limit = limit,
                                 .visit = tally_key,
                                 .arg = &t,
                                 .pattern = {pattern, strlen(pattern)}};
    uint64_t cursor = 0;
    unsigned met = 0;

    *steps = 0;
    do {
        if (limit == 0)
            assert_int_equal(keyspace_walk_all(f->ks, fixture_view(f), &walk), 0);
        else
            assert_int_equal(keyspace_walk_step(f->ks, fixture_view(f), &walk, &cursor), 0);
        if (*steps % 2) /* every other step as if its position were forgotten */
            cursor = scan_rank(cursor);
        ++*steps;
    } while (cursor != 0);
    for (unsigned n = 0; n < MAX; n++)
        met += t.met[n];
    return met + t.others;
}

static void a_pattern_looks_only_at_keys_that_begin_as_it_does(void **state)
{
    struct fixture *f = *state;
    unsigned steps;

    fixture_begin(f);
    for (unsigned n = 0; n < 1000; n++)
        put_number(f, n, 0);
    fixture_put(f, 0, "a", "v", 0, 1);
    fixture_put(f, 0, "\xff\xff", "v", 0, 1);
    fixture_put(f, 0, "\xff\xff\xff", "v", 0, 1);
    assert_int_equal(walk_pattern(f, "k12*", 5, &steps), 11);
    assert_int_equal(steps, 3);
    assert_int_equal(walk_pattern(f, "k12*", 0, &steps), 11);
    assert_int_equal(walk_pattern(f, "k1?", 5, &steps), 10);
    assert_int_equal(walk_pattern(f, "*", 100, &steps), 1003);
    assert_int_equal(walk_pattern(f, "\xff*", 1, &steps), 2);
    assert_int_equal(walk_pattern(f, "\xff\xff", 1, &steps), 1);
    assert_int_equal(walk_pattern(f, "k999", 10, &steps), 1);
    assert_int_equal(steps, 1);
    assert_int_equal(walk_pattern(f, "zz*", 10, &steps), 0);
    assert_int_equal(walk_pattern(f, "", 100, &steps), 0);
    fixture_commit(f);
}

static void expired_keys_are_marked_and_not_counted(void **state)
{
    struct fixture *f = *state;
    struct tally t = {.others = 0};
    struct keyspace_walk walk = {.now_ms = 500, .visit = tally_key, .arg = &t};
    uint64_t count;

    fixture_begin(f);
    for (unsigned n = 0; n < 30; n++)
        put_number(f, n, n % 3 == 0 ? 0 : n % 3 == 1 ? 500 : 501);
    assert_int_equal(keyspace_walk_all(f->ks, fixture_view(f), &walk), 0);
    assert_int_equal(t.expired, 10);
    assert_int_equal(keyspace_count(f->ks, fixture_view(f), 0, 500, NULL, &count), 0);
    assert_int_equal(count, 20);
    assert_int_equal(keyspace_records(f->ks, fixture_view(f), 0, &count), 0);
    assert_int_equal(count, 30);
    struct keyspace_stat stat;
    assert_int_equal(keyspace_stat_db(f->ks, fixture_view(f), 0, 500, &stat), 0);
    assert_int_equal(stat.keys, 20);
    assert_int_equal(stat.expires, 10);
    fixture_commit(f);
}

static void a_random_key_is_any_live_one(void **state)
{
    struct fixture *f = *state;
    struct tally t = {.others = 0};

    fixture_begin(f);
    assert_int_equal(keyspace_random(f->ks, fixture_view(f), 0, 500, NULL, tally_key, &t),
                     PS_NOTFOUND);
    for (unsigned n = 0; n < 20; n++)
        put_number(f, n, n < 10 ? 0 : 500);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(keyspace_random(f->ks, fixture_view(f), 0, 500, NULL, tally_key, &t), 0);
    for (unsigned n = 0; n < 10; n++)
        assert_true(t.met[n] > 0); /* not met once in 1,000 draws: 1 in 10^45 */
    assert_int_equal(t.expired, 0);
    fixture_commit(f);
}

static void one_live_key_among_many_expired_ones_is_found(void **state)
{
    struct fixture *f = *state;
    struct tally t = {.others = 0};

    fixture_begin(f);
    for (unsigned n = 0; n < MAX; n++)
        put_number(f, n, n == 777 ? 0 : 500);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(keyspace_random(f->ks, fixture_view(f), 0, 500, NULL, tally_key, &t), 0);
    assert_int_equal(t.met[777], 20);
    delete_number(f, 777);
    assert_int_equal(keyspace_random(f->ks, fixture_view(f), 0, 500, NULL, tally_key, &t),
                     PS_NOTFOUND);
    fixture_commit(f);
}

struct pauses {
    unsigned calls, fail_at;
};

static int count_pause(void *arg)
{
    struct pauses *p = arg;
    return ++p->calls == p->fail_at ? PS_ENDED : 0;
}

/* Expired keys cost steps like live ones, so walks over many of them pause as well. */
static void walks_pause_at_every_step_and_end_with_the_error_of_a_pause(void **state)
{
    struct fixture *f = *state;
    struct tally t = {.others = 0};
    struct pauses p = {0};
    struct keyspace_pause pause = {count_pause, &p};
    struct keyspace_walk walk = {.now_ms = 500, .visit = tally_key, .arg = &t, .pause = &pause};
    uint64_t cursor = 0, count;

    fixture_begin(f);
    for (unsigned n = 0; n < 30; n++)
        put_number(f, n, 500);
    assert_int_equal(keyspace_walk_all(f->ks, fixture_view(f), &walk), 0);
    assert_int_equal(p.calls, 30);
    p = (struct pauses){.fail_at = 10};
    assert_int_equal(keyspace_walk_all(f->ks, fixture_view(f), &walk), PS_ENDED);
    assert_int_equal(p.calls, 10);
    p = (struct pauses){0};
    assert_int_equal(keyspace_walk_step(f->ks, fixture_view(f), &walk, &cursor), 0);
    assert_int_equal(p.calls, 30);
    p = (struct pauses){.fail_at = 3};
    assert_int_equal(keyspace_walk_step(f->ks, fixture_view(f), &walk, &cursor), PS_ENDED);
    p = (struct pauses){0};
    assert_int_equal(keyspace_count(f->ks, fixture_view(f), 0, 500, &pause, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(p.calls, 30);
    p = (struct pauses){.fail_at = 30};
    assert_int_equal(keyspace_count(f->ks, fixture_view(f), 0, 500, &pause, &count), PS_ENDED);
    p = (struct pauses){0};
    assert_int_equal(keyspace_random(f->ks, fixture_view(f), 0, 500, &pause, tally_key, &t),
                     PS_NOTFOUND);
    assert_true(p.calls >= 30);
    p = (struct pauses){.fail_at = 30};
    assert_int_equal(keyspace_random(f->ks, fixture_view(f), 0, 500, &pause, tally_key, &t),
                     PS_ENDED);
    fixture_commit(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_there_throughout_is_met_exactly_once),
        TEST(a_forgotten_position_goes_on_by_its_rank),
        TEST(a_pattern_looks_only_at_keys_that_begin_as_it_does),
        TEST(expired_keys_are_marked_and_not_counted),
        TEST(a_random_key_is_any_live_one),
        TEST(one_live_key_among_many_expired_ones_is_found),
        TEST(walks_pause_at_every_step_and_end_with_the_error_of_a_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
