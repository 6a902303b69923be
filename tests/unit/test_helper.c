/*
 * test_helper.c - the thread that works ahead of the writer: memory for the arena's slots.
 */
#include <sched.h>

#include "storage/store.h"
#include "tests/support/store_fixture.h"

#define MIB (UINT64_C(1) << 20)

static struct ps_stat stat_of(struct fixture *f)
{
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    return stat;
}

/* Until the helper has done all that it was asked for; the suite's time limit ends a wait in vain.
 */
static void await_helper(struct fixture *f)
{
    while (arena_wants(&f->store->arena)) {
        sched_yield();
    }
}

static void the_writer_finds_its_slots_populated(void **state)
{
    struct fixture *f = *state;
    fixture_close(f, true);
    f->options.dirty_memory = 16 * MIB;
    f->options.manual_checkpoint = true;
    fixture_open(f);
    await_helper(f);
    struct ps_stat stat = stat_of(f);
    assert_true(stat.slots_populated_ahead >= 4 * MIB / 4096);
    uint64_t asked = stat.helper_wakeups;
    for (unsigned i = 0; i < 40; i++) { /* about 3 MiB in all */
        fixture_fill(f, i * 30, i * 30 + 30, 2000);
        await_helper(f);
    }
    stat = stat_of(f);
    assert_true(stat.arena_slots_peak > 500);
    assert_int_equal(stat.slots_populated_late, 0);
    assert_true(stat.slots_populated_ahead > 4 * MIB / 4096); /* it went on */
    assert_true(stat.helper_wakeups <= asked + 1 + stat.arena_slots_peak / 256);
}

static void it_ends_with_the_capacity_of_a_tiny_arena(void **state)
{
    struct fixture *f = *state;
    fixture_close(f, true);
    f->options.dirty_memory = 64 * 4096;
    fixture_open(f);
    await_helper(f);
    assert_int_equal(stat_of(f).slots_populated_ahead, 64);
    for (unsigned i = 0; i < 100; i++) {
        fixture_fill(f, i * 5, i * 5 + 5, 1000);
    }
    struct ps_stat stat = stat_of(f);
    assert_int_equal(stat.slots_populated_ahead, 64);
    assert_int_equal(stat.slots_populated_late, 0);
}

/* While it cannot be had, the writer does it: as in recovery, which has no helper yet. */
static void without_it_the_writer_populates_by_itself(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, 500, 1000);
    f->options.manual_checkpoint = true;
    fixture_reopen(f, false);
    struct ps_stat stat = stat_of(f);
    assert_true(f->recovery.replayed_ops >= 500);
    assert_true(stat.slots_populated_late > 0);
    helper_stop(f->store);
    f->store->arena.ask_at = UINT64_MAX; /* nobody is there to ask */
    uint64_t ahead = stat_of(f).slots_populated_ahead;
    fixture_fill(f, 0, 2000, 2000);
    stat = stat_of(f);
    assert_int_equal(stat.slots_populated_ahead, ahead);
    assert_true(stat.slots_populated_late + ahead >= stat.arena_slots_peak);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(the_writer_finds_its_slots_populated),
        STORE_TEST(it_ends_with_the_capacity_of_a_tiny_arena),
        STORE_TEST(without_it_the_writer_populates_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
