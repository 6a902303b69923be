/*
 * test_pool.c - the reader pool on a real store, where snapshots have run out.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/config/config.h"
#include "server/exec/dispatch.h"
#include "server/exec/pool.h"
#include "server/observe/metrics.h"
#include "tests/support/keyspace_fixture.h"

#define WATCHDOG_S 300
#define NOW        1000000
#define LARGE      (REPLY_COPIED_BYTES + 1) /* is left to be sent in pieces */

struct place {
    struct fixture *f;
    struct exec_env env;
    struct mailbox box;
    struct session session;
    struct unit_stock stock;
    struct ps_snapshot *snapshots[PS_MAX_SNAPSHOTS + 1];
    size_t held;
};

static void put_large(struct fixture *f, const char *name)
{
    struct ps_slice key = {name, strlen(name)}, value = {calloc(1, LARGE), LARGE};
    struct key_entry old;
    struct record record = {.type = RECORD_STRING, .encoding = RECORD_ENC_RAW, .chunked = true};
    fixture_begin(f);
    assert_int_equal(keyspace_find(f->ks, fixture_view(f), 0, key, NOW, &old), 0);
    assert_int_equal(keyspace_chunks_new(f->ks, f->txn, &record.chunks), 0);
    assert_int_equal(keyspace_chunks_write(f->ks, f->txn, 0, &record.chunks, 0, value), 0);
    assert_int_equal(keyspace_put(f->ks, f->txn, 0, key, &old, &record, NOW), 0);
    fixture_commit(f);
    free((void *)value.data);
}

static int set_up(void **state)
{
    struct place *p = aligned_alloc(64, (sizeof(*p) + 63) / 64 * 64);
    void *fixture;
    memset((void *)p, 0, sizeof(*p));
    alarm(WATCHDOG_S);
    assert_int_equal(fixture_setup(&fixture), 0);
    p->f = fixture;
    put_large(p->f, "large");
    p->env.config = config_new();
    p->env.metrics = metrics_new();
    p->env.store = p->f->store;
    p->env.keyspace = p->f->ks;
    session_init(&p->session, 1, true);
    assert_int_equal(mailbox_init(&p->box), 0);
    assert_int_equal(pool_start(&p->env, 1, NULL), 0);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct place *p = *state;
    void *fixture = p->f;
    pool_stop(p->env.pool);
    while (p->held > 0) {
        ps_snapshot_free(p->snapshots[--p->held]);
    }
    unit_stock_free(&p->stock);
    session_clear(&p->session);
    mailbox_destroy(&p->box);
    metrics_free(p->env.metrics);
    config_free(p->env.config);
    int rc = fixture_teardown(&fixture);
    free(p);
    alarm(0);
    return rc;
}

static struct unit *run(struct place *p, const struct ps_slice *argv, size_t argc)
{
    struct unit_source command = {dispatch_resolve(argc, argv), 0, (uint32_t)argc};
    struct unit *unit = unit_new(&p->stock, &p->session, &command, 1, argv, NULL, SIZE_MAX);
    struct pollfd fd = {p->box.fd, POLLIN, 0};
    assert_non_null(unit);
    unit->home = &p->box;
    pool_submit(p->env.pool, unit);
    if (mailbox_sleep(&p->box)) {
        assert_int_equal(poll(&fd, 1, -1), 1);
        mailbox_clear(&p->box);
    }
    mailbox_awake(&p->box);
    assert_ptr_equal(mailbox_take(&p->box), &unit->mail);
    return unit;
}

static void take_all_snapshots(struct place *p)
{
    while (ps_snapshot_new(p->f->store, &p->snapshots[p->held]) == 0) {
        p->held++;
    }
}

static void queue(struct place *p, const char *name, const char *key)
{
    struct ps_slice argv[] = {{name, strlen(name)}, {key, strlen(key)}};
    p->session.multi = true;
    assert_int_equal(session_enqueue(&p->session, dispatch_resolve(2, argv), 2, argv), 0);
}

static void an_exec_that_gets_no_snapshot_fails_as_a_whole_and_ends_its_multi(void **state)
{
    struct place *p = *state;
    struct ps_slice exec = {"EXEC", 4};
    take_all_snapshots(p);
    for (int i = 0; i < 2; i++) {
        queue(p, "GET", "large");
        queue(p, "TYPE", "large");
        struct unit *unit = run(p, &exec, 1);
        assert_true(unit->out.len > 4 && memcmp(unit->out.buf, "-ERR", 4) == 0);
        assert_int_equal(unit->holes.n, 0);
        assert_false(session_in_multi(&p->session));
        assert_int_equal(p->session.queue.count, 0);
        unit_release(&p->stock, unit);
    }
}

static void a_get_that_gets_no_snapshot_is_answered_with_an_error_and_later_with_pieces(
    void **state)
{
    struct place *p = *state;
    struct ps_slice get[] = {{"GET", 3}, {"large", 5}};
    take_all_snapshots(p);
    struct unit *unit = run(p, get, 2);
    assert_true(unit->out.len > 4 && memcmp(unit->out.buf, "-ERR", 4) == 0);
    unit_release(&p->stock, unit);
    ps_snapshot_free(p->snapshots[--p->held]);
    unit = run(p, get, 2);
    assert_int_equal(unit->holes.n, 1);
    assert_int_equal(unit->out.buf[0], '$');
    unit_release(&p->stock, unit);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_exec_that_gets_no_snapshot_fails_as_a_whole_and_ends_its_multi),
        TEST(a_get_that_gets_no_snapshot_is_answered_with_an_error_and_later_with_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
