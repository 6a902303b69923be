/*
 * Deadlines of connections: everyone is looked at in time, and nobody more often than needed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "server/net/conn.h"
#include "server/net/deadlines.h"

#define MANY  1000
#define START INT64_C(1700000000000)

struct world {
    struct deadlines deadlines;
    struct conn *conns; /* MANY */
    int64_t now;
    int64_t again; /* ms after which who was looked at is looked at again; 0: not */
    unsigned looks[MANY];
    int64_t last[MANY];
};

static int make_world(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    world->conns = calloc(MANY, sizeof(*world->conns));
    world->now = START;
    deadlines_init(&world->deadlines, world->now);
    *state = world;
    return 0;
}

static int free_world(void **state)
{
    struct world *world = *state;
    free(world->conns);
    free(world);
    return 0;
}

static void look(void *arg, struct conn *conn)
{
    struct world *world = arg;
    size_t i = (size_t)(conn - world->conns);
    assert_int_equal(conn->due_second, 0);
    world->looks[i]++;
    world->last[i] = world->now;
    if (world->again > 0) {
        deadlines_set(&world->deadlines, conn, world->now + world->again);
    }
}

static void pass(struct world *world, int64_t ms)
{
    world->now += ms;
    deadlines_tick(&world->deadlines, world->now, look, world);
}

static void each_is_looked_at_once_in_the_second_after_its_moment(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < MANY; i++) {
        deadlines_set(&world->deadlines, &world->conns[i], START + i * 200);
    }
    for (int second = 0; second < MANY / 5 + 2; second++) {
        pass(world, 1000);
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(world->looks[i], 1);
        assert_in_range(world->last[i], START + i * 200, START + i * 200 + 1999);
    }
}

static void a_far_moment_is_looked_at_once_in_a_turn_of_the_wheel(void **state)
{
    struct world *world = *state;
    world->again = INT64_C(1000) * 3600;
    deadlines_set(&world->deadlines, &world->conns[0], START + world->again);
    for (int second = 0; second < DEADLINES_SECONDS * 4; second++) {
        pass(world, 1000);
    }
    assert_in_range(world->looks[0], 3, 5);
}

static void what_is_dropped_or_moved_is_not_looked_at_in_its_old_place(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < 3; i++) {
        deadlines_set(&world->deadlines, &world->conns[i], START + 5000);
    }
    deadlines_drop(&world->deadlines, &world->conns[0]);
    deadlines_drop(&world->deadlines, &world->conns[0]);
    deadlines_set(&world->deadlines, &world->conns[1], START + 9000);
    deadlines_hasten(&world->deadlines, &world->conns[2], START + 8000); /* later: no change */
    deadlines_hasten(&world->deadlines, &world->conns[3], START + 8000); /* not filed yet */
    deadlines_hasten(&world->deadlines, &world->conns[1], START + 7000);
    for (int second = 0; second < 20; second++) {
        pass(world, 1000);
    }
    assert_int_equal(world->looks[0], 0);
    assert_in_range(world->last[1], START + 7000, START + 8000);
    assert_in_range(world->last[2], START + 5000, START + 6000);
    assert_in_range(world->last[3], START + 8000, START + 9000);
}

static void a_clock_that_jumps_loses_nobody(void **state)
{
    static const int64_t jumps[] = {INT64_C(86400000), INT64_C(-86400000), 1, -5000, 300000};
    struct world *world = *state;
    world->again = 10000;
    for (int i = 0; i < MANY; i++) {
        deadlines_set(&world->deadlines, &world->conns[i], START + i * 10);
    }
    for (size_t j = 0; j < sizeof(jumps) / sizeof(jumps[0]); j++) {
        pass(world, jumps[j]);
        memset(world->looks, 0, sizeof(world->looks));
        for (int second = 0; second < DEADLINES_SECONDS + 10; second++) {
            pass(world, 1000);
        }
        for (int i = 0; i < MANY; i++) {
            assert_in_range(world->looks[i], 1, DEADLINES_SECONDS / 10 + 3);
        }
    }
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, make_world, free_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(each_is_looked_at_once_in_the_second_after_its_moment),
        IN_A_WORLD(a_far_moment_is_looked_at_once_in_a_turn_of_the_wheel),
        IN_A_WORLD(what_is_dropped_or_moved_is_not_looked_at_in_its_old_place),
        IN_A_WORLD(a_clock_that_jumps_loses_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
