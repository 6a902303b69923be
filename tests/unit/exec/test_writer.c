/*
 * test_writer.c - the writer thread on a real store whose files fail: what a unit is told is true.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/commands/session.h"
#include "server/config/config.h"
#include "server/exec/dispatch.h"
#include "server/exec/stage.h"
#include "server/exec/writer.h"
#include "server/keyspace/keyspace.h"
#include "server/observe/metrics.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/keyspace_fixture.h"
#include "tests/support/store_dir.h"

#define WATCHDOG_S 300
#define SETS       5u      /* in a unit; the last is of a value that is sent in pieces */
#define SMALL      100u    /* bytes of the other values */
#define LARGE      200000u /* and of the last */

struct world {
    char dir[STORE_DIR_PATH];
    struct fault_vfs *files;
    struct exec_env env;
    struct mailbox box;
    struct session session;
    struct unit_stock stock;
};

static int set_up_with(void **state, uint64_t dirty_memory)
{
    struct world *w = calloc(1, sizeof(*w));
    struct config_error error;
    assert_non_null(w);
    store_dir_make(w->dir, "pando-writer");
    w->files = fault_vfs_new();
    struct ps_options options = {
        .dirty_memory = dirty_memory,
        .map_size = 1 << 30,
        .log_segment_size = 8 << 20,
        .durability = PS_ALWAYS,
        .on_publish = writer_published,
        .arg = &w->env,
        .vfs = fault_vfs(w->files),
    };
    alarm(WATCHDOG_S);
    w->env.config = config_new();
    assert_int_equal(config_load_args(w->env.config, 0, NULL, &error), 0);
    config_settle(w->env.config);
    w->env.metrics = metrics_new();
    assert_int_equal(ps_open(w->dir, &options, &w->env.store, NULL, NULL), 0);
    assert_int_equal(keyspace_open(w->env.store, 1, &w->env.keyspace), 0);
    assert_int_equal(writer_start(&w->env), 0);
    assert_int_equal(mailbox_init(&w->box), 0);
    session_init(&w->session, 1, true);
    *state = w;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, 8 << 20);
}

/* A step of a value is a small part. */
static int set_up_roomy(void **state)
{
    return set_up_with(state, 64 << 20);
}

static int set_up_medium(void **state)
{
    return set_up_with(state, 16 << 20);
}

static int tear_down(void **state)
{
    struct world *w = *state;
    struct writer *writer = w->env.writer;
    writer_stop(writer);
    keyspace_close(w->env.keyspace);
    (void)ps_close(w->env.store, false);
    writer_free(writer);
    metrics_free(w->env.metrics);
    config_free(w->env.config);
    mailbox_destroy(&w->box);
    session_clear(&w->session);
    unit_stock_free(&w->stock);
    store_dir_remove(w->dir);
    fault_vfs_free(w->files);
    free(w);
    alarm(0);
    return 0;
}

static struct unit *come_home(struct world *w)
{
    struct mail *mail;
    while ((mail = mailbox_take(&w->box)) == NULL) {
        struct pollfd fd = {w->box.fd, POLLIN, 0};
        if (mailbox_sleep(&w->box)) {
            if (poll(&fd, 1, -1) > 0) {
                mailbox_clear(&w->box);
            }
            mailbox_awake(&w->box);
        }
    }
    return (struct unit *)mail;
}

/* SET key:0 to key:SETS-1 and GETDEL of the last in one unit. What GETDEL answers is read from a
 * published state: the group is committed between the two. */
static struct unit *set_all(struct world *w)
{
    static char value[LARGE];
    char keys[SETS][16];
    struct ps_slice argv[SETS * 3 + 2];
    struct unit_source commands[SETS + 1];
    for (uint32_t i = 0; i < SETS; i++) {
        snprintf(keys[i], sizeof(keys[i]), "key:%u", i);
        argv[3 * i] = (struct ps_slice){"SET", 3};
        argv[3 * i + 1] = (struct ps_slice){keys[i], strlen(keys[i])};
        argv[3 * i + 2] = (struct ps_slice){value, i + 1 < SETS ? SMALL : LARGE};
        commands[i] = (struct unit_source){dispatch_resolve(3, argv + 3 * i), 3 * i, 3};
    }
    argv[3 * SETS] = (struct ps_slice){"GETDEL", 6};
    argv[3 * SETS + 1] = argv[3 * SETS - 2];
    commands[SETS] = (struct unit_source){dispatch_resolve(2, argv + 3 * SETS), 3 * SETS, 2};
    struct unit *unit =
        unit_new(&w->stock, &w->session, commands, SETS + 1, argv, NULL, (size_t)1 << 20);
    assert_non_null(unit);
    unit->home = &w->box;
    writer_submit(w->env.writer, unit);
    writer_wake(w->env.writer);
    assert_ptr_equal(come_home(w), unit);
    assert_int_equal(unit->done, SETS + 1);
    return unit;
}

static bool exists(struct world *w, uint32_t i)
{
    char key[16];
    struct ps_snapshot *snap;
    struct key_entry entry;
    snprintf(key, sizeof(key), "key:%u", i);
    assert_int_equal(ps_snapshot_new(w->env.store, &snap), 0);
    ps_snapshot_renew(snap);
    assert_int_equal(keyspace_find(w->env.keyspace, ps_snapshot_view(snap), 0,
                                   (struct ps_slice){key, strlen(key)}, exec_now(&w->env), &entry),
                     0);
    ps_snapshot_free(snap);
    return entry.state != KEY_ABSENT;
}

/* The replies to SET are +OK, or errors; +OK stands for a key that is there, unless GETDEL removed
 * it, which one with an error did not. */
static unsigned check_replies(struct world *w, const struct unit *unit)
{
    const char *at = unit->out.buf, *end = at + unit->out.len;
    unsigned oks = 0;
    for (uint32_t i = 0; i < SETS; i++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        assert_non_null(stop);
        assert_true(at[0] == '+' || at[0] == '-');
        assert_int_equal(exists(w, i), at[0] == '+' && !(i + 1 == SETS && unit->holes.n == 1));
        oks += at[0] == '+';
        at = stop + 1;
    }
    assert_int_equal(*at, unit->holes.n == 1 ? '$' : '-');
    return oks;
}

/* The segment of the log that is made ahead is written with calls of its own. */
static void await_spare_segment(struct world *w)
{
    struct ps_stat stat;
    do {
        sched_yield();
        ps_stats(w->env.store, &stat);
    } while (stat.log_segments < 2);
}

static void a_unit_may_be_written_in_parts(void **state)
{
    struct world *w = *state;
    struct writer_statistics s;
    struct unit *unit = set_all(w);
    assert_int_equal(unit->holes.n, 1);
    assert_int_equal(check_replies(w, unit), SETS);
    writer_statistics(w->env.writer, &s);
    assert_int_equal(s.splits, 1);
    unit_release(&w->stock, unit);
}

static void no_part_of_a_unit_is_acknowledged_that_was_dropped(void **state)
{
    struct world *w = *state;
    struct writer_statistics s;
    struct ps_stat stat;
    await_spare_segment(w);
    fault_vfs_fail(w->files, FAULT_PWRITE, FAULT_LOG, 1, EIO, false);
    struct unit *unit = set_all(w);
    writer_statistics(w->env.writer, &s);
    assert_int_equal(s.splits, 1);
    assert_int_equal(check_replies(w, unit), 0);
    unit_release(&w->stock, unit);
    unit = set_all(w);
    assert_int_equal(check_replies(w, unit), SETS);
    unit_release(&w->stock, unit);
    ps_stats(w->env.store, &stat);
    assert_true(stat.states_dropped > 0);
}

/* ---- a value that is written in steps ------------------------------------------------------- */

#define STEPS 6u

/* COMMAND key value, which is all zeros, on its way to the writer. */
static struct unit *begin(struct world *w, struct session *session, const char *name, size_t len)
{
    char *value = calloc(1, len);
    struct ps_slice argv[] = {{name, strlen(name)}, {"staged", 6}, {value, len}};
    struct unit_source command = {dispatch_resolve(3, argv), 0, 3};
    struct unit *unit = unit_new(&w->stock, session, &command, 1, argv, NULL, (size_t)1 << 20);
    assert_non_null(unit);
    free(value);
    unit->home = &w->box;
    writer_submit(w->env.writer, unit);
    writer_wake(w->env.writer);
    return unit;
}

static struct unit *store(struct world *w, const char *name, size_t len)
{
    struct unit *unit = begin(w, &w->session, name, len);
    assert_ptr_equal(come_home(w), unit);
    return unit;
}

/* No row is of an object that neither a record nor `garbage` has. */
static void check_rows(struct world *w)
{
    struct fixture f = {.store = w->env.store, .ks = w->env.keyspace};
    fixture_begin(&f);
    fixture_check_rows(&f);
    ps_abort(f.txn);
}

/* The log fails under each of the first steps, while the writer is at the next ones. */
static void a_value_whose_steps_were_dropped_leaves_no_rows_behind(void **state)
{
    struct world *w = *state;
    await_spare_segment(w);
    for (uint64_t number = 1; number <= STEPS; number++) {
        fault_vfs_fail(w->files, FAULT_PWRITE, FAULT_LOG, number, EIO, false);
        unit_release(&w->stock, store(w, "SET", STEPS * STAGE_STEP));
        fault_vfs_fail(w->files, FAULT_PWRITE, FAULT_LOG, 0, EIO, false);
        check_rows(w);
    }
}

/* The state that has the old value keeps slots which the new one needs. */
static void an_old_value_is_answered_from_a_state_that_is_kept_when_there_is_room(void **state)
{
    struct world *w = *state;
    unit_release(&w->stock, store(w, "SET", 1000000));
    for (unsigned i = 0; i < 30; i++) {
        struct unit *unit = store(w, "GETSET", 1000000);
        assert_int_equal(unit->holes.n, 1);
        unit_release(&w->stock, unit);
    }
}

/* What a step has changed in the transaction is committed when a command needs the room. */
static void a_command_gets_its_room_beside_the_steps_of_a_value(void **state)
{
    struct world *w = *state;
    struct session other;
    bool ended = false;
    session_init(&other, 2, true);
    struct unit *staged = begin(w, &w->session, "SET", 2 * STEPS * STAGE_STEP);
    while (!ended) {
        struct unit *unit = begin(w, &other, "APPEND", 3 * STAGE_STEP); /* not in steps */
        bool back = false;
        while (!back) {
            for (struct unit *home = come_home(w); home; home = (struct unit *)home->mail.next) {
                back |= home == unit;
                ended |= home == staged;
            }
        }
        assert_int_equal(unit->out.buf[0], ':');
        unit_release(&w->stock, unit);
    }
    assert_int_equal(staged->out.buf[0], '+');
    unit_release(&w->stock, staged);
    session_clear(&other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_unit_may_be_written_in_parts),
        TEST(no_part_of_a_unit_is_acknowledged_that_was_dropped),
        cmocka_unit_test_setup_teardown(a_value_whose_steps_were_dropped_leaves_no_rows_behind,
                                        set_up_roomy, tear_down),
        cmocka_unit_test_setup_teardown(a_command_gets_its_room_beside_the_steps_of_a_value,
                                        set_up_medium, tear_down),
        TEST(an_old_value_is_answered_from_a_state_that_is_kept_when_there_is_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
