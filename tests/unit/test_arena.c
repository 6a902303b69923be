/* test_arena.c - slots and runs of the arena beside a list of what was given out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/arena.h"
#include "storage/pandostore.h"

#define CAPACITY 300u
#define LARGEST  32u

struct given {
    page_ref ref;
    uint32_t pages;
    uint8_t mark;
};

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static uint8_t *bytes_of(struct arena *a, page_ref ref)
{
    return a->memory + (ref << a->page_shift);
}

static void check(struct arena *a, const struct given *g)
{
    size_t len = (size_t)g->pages << a->page_shift;
    uint8_t *at = bytes_of(a, g->ref);
    assert_int_equal(at[0], g->mark);
    assert_int_equal(at[len - 1], g->mark);
    const struct slot_side *side = arena_side(a, g->ref);
    assert_int_equal(side->pages, g->pages);
    assert_int_equal(side->birth, g->mark + 1u);
    assert_true(side->death == 0 && side->file == 0);
}

static void what_is_given_is_given_to_nobody_else_and_the_capacity_is_exact(void **state)
{
    (void)state;
    for (uint32_t shift = 12; shift <= 16; shift += 4) {
        struct arena a;
        struct given given[CAPACITY];
        unsigned n = 0;
        uint64_t used = 0;
        uint32_t seed = shift;
        assert_int_equal(arena_open(&a, CAPACITY, CAPACITY, shift), 0);
        for (unsigned i = 0; i < 6000; i++) {
            if (n > 0 && next_random(&seed) % 2 == 0) {
                unsigned k = next_random(&seed) % n;
                check(&a, &given[k]);
                arena_free(&a, given[k].ref);
                used -= given[k].pages;
                given[k] = given[--n];
                continue;
            }
            uint32_t pages = next_random(&seed) % 3 ? 1 : 1 + next_random(&seed) % LARGEST;
            struct given g = {.pages = pages, .mark = (uint8_t)next_random(&seed)};
            int rc = arena_alloc(&a, pages, g.mark + 1u, &g.ref);
            assert_int_equal(rc, used + pages <= CAPACITY ? 0 : PS_TXNFULL);
            if (rc == 0) {
                assert_true(ref_in_arena(g.ref));
                memset(bytes_of(&a, g.ref), g.mark, (size_t)pages << shift);
                used += pages;
                given[n++] = g;
            }
            assert_int_equal(a.used, used);
            assert_in_range(used, 0, a.peak);
        }
        for (unsigned k = 0; k < n; k++) {
            check(&a, &given[k]);
        }
        arena_close(&a);
    }
}

static void every_size_can_fill_the_arena_after_any_other(void **state)
{
    struct arena a;
    page_ref refs[CAPACITY];
    (void)state;
    assert_int_equal(arena_open(&a, CAPACITY, CAPACITY, 12), 0);
    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t pages = 1; pages <= LARGEST; pages++) {
            unsigned n = 0;
            while (arena_alloc(&a, pages, 1, &refs[n]) == 0) {
                n++;
            }
            assert_int_equal(n, CAPACITY / pages);
            for (unsigned i = 0; i < n; i++) {
                arena_free(&a, refs[i]);
            }
            assert_int_equal(a.used, 0);
        }
    }
    arena_close(&a);
}

static void a_freed_slot_is_the_next_one_given(void **state)
{
    struct arena a;
    page_ref first, second, again;
    (void)state;
    assert_int_equal(arena_open(&a, CAPACITY, CAPACITY, 12), 0);
    assert_int_equal(arena_alloc(&a, 1, 5, &first), 0);
    assert_int_equal(arena_alloc(&a, 1, 5, &second), 0);
    arena_free(&a, second);
    arena_free(&a, first);
    assert_int_equal(arena_alloc(&a, 1, 6, &again), 0);
    assert_int_equal(again, first);
    assert_int_equal(arena_alloc(&a, 1, 6, &again), 0);
    assert_int_equal(again, second);
    arena_close(&a);
}

static void count_call(void *arg)
{
    ++*(unsigned *)arg;
}

static void memory_is_asked_for_ahead_once_per_some_hundred_slots(void **state)
{
    (void)state;
    enum { SLOTS = 8192, SOME_HUNDRED = 256 };
    struct arena a;
    page_ref ref;
    unsigned calls = 0;
    assert_int_equal(arena_open(&a, SLOTS, SLOTS, 12), 0);
    arena_ask_ahead(&a, count_call, &calls);
    assert_int_equal(calls, 1);
    for (unsigned i = 0; i < SLOTS; i++) {
        while (arena_wants(&a)) {
            arena_populate(&a);
        }
        assert_int_equal(arena_alloc(&a, 1, 1, &ref), 0);
    }
    assert_in_range(calls, 2, 1 + SLOTS / SOME_HUNDRED);
    assert_int_equal(a.populated_ahead, SLOTS); /* and no more than the capacity */
    assert_int_equal(a.populated_late, 0);
    arena_close(&a);
}

static void who_comes_first_takes_the_faults_himself(void **state)
{
    (void)state;
    struct arena a;
    page_ref ref;
    unsigned calls = 0;
    assert_int_equal(arena_open(&a, 1000, 1000, 12), 0);
    arena_ask_ahead(&a, count_call, &calls);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(arena_alloc(&a, 1, 1, &ref), 0); /* nobody answered the call */
    }
    assert_int_equal(a.populated_late, 1000);
    assert_int_equal(a.populated_ahead, 0);
    arena_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_is_given_to_nobody_else_and_the_capacity_is_exact),
        cmocka_unit_test(every_size_can_fill_the_arena_after_any_other),
        cmocka_unit_test(a_freed_slot_is_the_next_one_given),
        cmocka_unit_test(memory_is_asked_for_ahead_once_per_some_hundred_slots),
        cmocka_unit_test(who_comes_first_takes_the_faults_himself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
