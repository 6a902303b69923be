/*
 * test_ahead.c - which commands would wait for the disk. Database 0 is empty; of database 1 the
 * operating system says that it is in memory, or that nothing of it is, as a test chooses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/config/config.h"
#include "server/exec/ahead.h"
#include "storage/vfs.h"
#include "tests/support/keyspace_fixture.h"

#define NOW          1000000
#define MAX_WORDS    300
#define MAX_COMMANDS 8

static bool absent;

static int resident(void *ctx, const void *address, size_t len, unsigned char *there)
{
    (void)ctx;
    (void)address;
    memset(there, !absent, (len + 4095) / 4096);
    return 0;
}

struct place {
    struct fixture *f;
    struct ps_vfs vfs;
    struct exec_env env;
    struct executor x;
    struct session session;
    struct ps_snapshot *snap;
    struct ps_residency *residency;
    int64_t clock;
};

static int setup(void **state)
{
    struct place *p = aligned_alloc(64, (sizeof(*p) + 63) / 64 * 64);
    void *fixture;
    memset((void *)p, 0, sizeof(*p));
    *state = p;
    assert_int_equal(fixture_setup(&fixture), 0);
    p->f = fixture;
    fixture_begin(p->f);
    fixture_put(p->f, 1, "a", "1", 0, NOW);
    fixture_put(p->f, 1, "b", "2", NOW + 1000, NOW);
    fixture_commit(p->f);
    assert_int_equal(ps_checkpoint(p->f->store), 0);
    p->vfs = *ps_vfs_posix();
    p->vfs.resident = resident;
    p->f->vfs = &p->vfs;
    fixture_reopen(p->f);
    p->env.config = config_new();
    p->env.store = p->f->store;
    p->env.keyspace = p->f->ks;
    executor_init(&p->x, &p->env);
    session_init(&p->session, 1, true);
    session_select(&p->session, 1);
    assert_int_equal(ps_snapshot_new(p->f->store, &p->snap), 0);
    assert_int_equal(ps_residency_new(p->f->store, &p->residency), 0);
    ps_snapshot_renew(p->snap);
    p->x.ctx.view = ps_snapshot_view(p->snap);
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    void *fixture = p->f;
    ps_residency_free(p->residency);
    ps_snapshot_free(p->snap);
    session_clear(&p->session);
    config_free(p->env.config);
    int rc = fixture_teardown(&fixture); /* the store uses p->vfs until it is closed */
    free(p);
    return rc;
}

static size_t split(char *line, struct ps_slice *words)
{
    char *rest;
    size_t n = 0;
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        assert_true(n < MAX_WORDS);
        words[n++] = (struct ps_slice){word, strlen(word)};
    }
    return n;
}

static void memory_is(struct place *p, bool there)
{
    absent = !there;
    ps_residency_renew(p->residency, p->clock += 10000);
}

static bool read_waits(struct place *p, const char *line)
{
    char text[256];
    struct ps_slice words[MAX_WORDS];
    snprintf(text, sizeof(text), "%s", line);
    size_t n = split(text, words);
    return ahead_read_waits(&p->x, &p->session, dispatch_resolve(n, words), n, words, p->residency);
}

/* Commands separated by ';', as one unit. */
static bool write_waits(struct place *p, const char *lines)
{
    char *text = strdup(lines), *rest;
    struct unit_source commands[MAX_COMMANDS];
    struct ps_slice words[MAX_WORDS];
    size_t n = 0;
    uint32_t used = 0;
    for (char *line = strtok_r(text, ";", &rest); line; line = strtok_r(NULL, ";", &rest)) {
        size_t argc = split(line, words + used);
        commands[n++] =
            (struct unit_source){dispatch_resolve(argc, words + used), used, (uint32_t)argc};
        used += (uint32_t)argc;
    }
    bool waits = ahead_write_waits(&p->x, &p->session, commands, n, words, p->residency);
    free(text);
    return waits;
}

static void enqueue(struct place *p, const char *line)
{
    char text[256];
    struct ps_slice words[MAX_WORDS];
    snprintf(text, sizeof(text), "%s", line);
    size_t n = split(text, words);
    p->session.multi = true;
    assert_int_equal(session_enqueue(&p->session, dispatch_resolve(n, words), n, words), 0);
}

static void reads_wait_for_the_pages_of_their_keys(void **state)
{
    struct place *p = *state;
    memory_is(p, true);
    assert_false(read_waits(p, "GET a"));
    assert_false(read_waits(p, "EXISTS a none b"));
    memory_is(p, false);
    assert_true(read_waits(p, "GET a"));
    assert_true(read_waits(p, "EXISTS none b"));
    assert_true(read_waits(p, "OBJECT ENCODING a"));
    session_select(&p->session, 0); /* an empty tree has no page */
    assert_false(read_waits(p, "GET a"));
}

static void what_reads_no_key_waits_if_it_reads_data_at_all(void **state)
{
    struct place *p = *state;
    memory_is(p, true);
    assert_true(read_waits(p, "SCAN 0"));
    assert_true(read_waits(p, "INFO"));
    memory_is(p, false);
    assert_false(read_waits(p, "PING"));
    assert_false(read_waits(p, "SELECT 1"));
    assert_false(read_waits(p, "NOSUCH a"));
    p->session.authenticated = false;
    assert_false(read_waits(p, "GET a"));
}

static void in_multi_only_exec_waits(void **state)
{
    struct place *p = *state;
    memory_is(p, false);
    enqueue(p, "PING");
    assert_false(read_waits(p, "GET a"));
    assert_false(read_waits(p, "EXEC"));
    enqueue(p, "GET a");
    assert_true(read_waits(p, "EXEC"));
    assert_false(read_waits(p, "DISCARD"));
    p->session.multi_dirty = true;
    assert_false(read_waits(p, "EXEC"));
}

static void writes_wait_for_the_pages_of_all_keys_of_their_unit(void **state)
{
    struct place *p = *state;
    memory_is(p, true);
    assert_false(write_waits(p, "SET a 1;GET b;DEL a b"));
    memory_is(p, false);
    assert_true(write_waits(p, "SET a 1"));
    assert_true(write_waits(p, "FLUSHDB;PING;GET a"));
    assert_false(write_waits(p, "FLUSHDB;PING;KEYS *;NOSUCH a;INFO"));
}

static void a_unit_is_followed_through_select(void **state)
{
    struct place *p = *state;
    memory_is(p, false);
    assert_false(write_waits(p, "SELECT 0;SET a 1"));
    assert_true(write_waits(p, "SELECT 0;SET a 1;SELECT 1;SET a 1"));
    assert_false(write_waits(p, "SELECT 0;SELECT 99;SET a 1"));
    session_select(&p->session, 0);
    assert_false(write_waits(p, "SET a 1"));
    assert_true(write_waits(p, "MULTI;SELECT 1;SET a 1;EXEC"));
}

static void what_multi_has_queued_is_written_too(void **state)
{
    struct place *p = *state;
    memory_is(p, false);
    enqueue(p, "SET a 1");
    assert_true(write_waits(p, "EXEC"));
    memory_is(p, true);
    assert_false(write_waits(p, "EXEC"));
}

static void many_keys_are_left_to_the_pool_unseen(void **state)
{
    struct place *p = *state;
    char line[2048] = "MSET";
    memory_is(p, true);
    for (int i = 0; i < 64; i++)
        strcat(line, " a 1");
    assert_false(write_waits(p, line));
    strcat(line, " a 1");
    assert_true(write_waits(p, line));
}

static void touching_says_whether_a_command_writes_and_follows_select(void **state)
{
    struct place *p = *state;
    struct ps_slice set[] = {{"SET", 3}, {"b", 1}, {"1", 1}};
    struct ps_slice select[] = {{"SELECT", 6}, {"1", 1}};
    struct ps_stat stat;
    unsigned db = 0;
    assert_int_equal(ahead_touch(&p->x, &db, dispatch_resolve(2, select), 2, select), 0);
    assert_int_equal(db, 1);
    assert_int_equal(ahead_touch(&p->x, &db, dispatch_resolve(3, set), 3, set), 1);
    ps_stats(p->f->store, &stat);
    assert_int_equal(stat.paths_touched, 2); /* the record's and, since it expires, its row's */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reads_wait_for_the_pages_of_their_keys),
        TEST(what_reads_no_key_waits_if_it_reads_data_at_all),
        TEST(in_multi_only_exec_waits),
        TEST(writes_wait_for_the_pages_of_all_keys_of_their_unit),
        TEST(a_unit_is_followed_through_select),
        TEST(what_multi_has_queued_is_written_too),
        TEST(many_keys_are_left_to_the_pool_unseen),
        TEST(touching_says_whether_a_command_writes_and_follows_select),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
