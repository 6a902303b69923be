/*
 * Dispatch and units on a real store: where commands belong, MULTI, and units that run again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/commands/session.h"
#include "server/config/config.h"
#include "server/exec/dispatch.h"
#include "server/exec/unit.h"
#include "tests/support/keyspace_fixture.h"

#define NOW       1000000
#define MAX_WORDS 16

/* A session with what a thread needs to run its commands. */
struct runner {
    struct fixture *f;
    struct exec_env env;
    struct executor x;
    struct session session;
    struct resp_out out;
};

static void runner_begin(struct runner *r, void **state)
{
    memset((void *)r, 0, sizeof(*r));
    r->f = *state;
    r->env.config = config_new();
    r->env.store = r->f->store;
    r->env.keyspace = r->f->ks;
    executor_init(&r->x, &r->env);
    session_init(&r->session, 1, true);
    resp_out_init(&r->out);
    fixture_begin(r->f);
    r->x.ctx.txn = r->f->txn;
    r->x.ctx.view = fixture_view(r->f);
    r->x.ctx.now_ms = NOW;
    r->x.ctx.out = &r->out;
}

static void runner_end(struct runner *r)
{
    fixture_commit(r->f);
    session_clear(&r->session);
    resp_out_free(&r->out);
    config_free(r->env.config);
}

static size_t split(char *line, struct ps_slice *words)
{
    char *rest;
    size_t n = 0;
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        words[n++] = (struct ps_slice){word, strlen(word)};
    }
    return n;
}

/* Runs a command line and compares its reply. */
static void expect(struct runner *r, const char *line, const char *reply)
{
    char text[256];
    struct ps_slice words[MAX_WORDS];
    size_t n;
    snprintf(text, sizeof(text), "%s", line);
    n = split(text, words);
    resp_out_begin(&r->out, session_resp(&r->session), SIZE_MAX);
    assert_int_equal(dispatch_run(&r->x, &r->session, dispatch_resolve(n, words), n, words, NULL),
                     0);
    assert_int_equal(r->out.len, strlen(reply));
    assert_memory_equal(r->out.buf, reply, r->out.len);
}

static enum dispatch_place place(struct runner *r, const char *line)
{
    char text[256];
    struct ps_slice words[MAX_WORDS];
    size_t n;
    snprintf(text, sizeof(text), "%s", line);
    n = split(text, words);
    return dispatch_place(&r->session, dispatch_resolve(n, words), n, words);
}

static void commands_belong_where_their_cost_says(void **state)
{
    struct runner r;
    runner_begin(&r, state);
    assert_int_equal(place(&r, "PING"), PLACE_HERE);
    assert_int_equal(place(&r, "GET a"), PLACE_HERE);
    assert_int_equal(place(&r, "SET a 1"), PLACE_WRITER);
    assert_int_equal(place(&r, "KEYS *"), PLACE_POOL);
    assert_int_equal(place(&r, "NOSUCH"), PLACE_HERE);
    runner_end(&r);
}

static void in_multi_everything_is_only_queued_and_exec_belongs_where_the_queue_does(void **state)
{
    struct runner r;
    runner_begin(&r, state);
    expect(&r, "MULTI", "+OK\r\n");
    assert_int_equal(place(&r, "SET a 1"), PLACE_HERE);
    expect(&r, "GET a", "+QUEUED\r\n");
    assert_int_equal(place(&r, "EXEC"), PLACE_HERE);
    expect(&r, "KEYS *", "+QUEUED\r\n");
    assert_int_equal(place(&r, "EXEC"), PLACE_POOL);
    expect(&r, "SET a 1", "+QUEUED\r\n");
    assert_int_equal(place(&r, "EXEC"), PLACE_WRITER);
    expect(&r, "EXEC", "*3\r\n$-1\r\n*0\r\n+OK\r\n");
    expect(&r, "GET a", "$1\r\n1\r\n");
    runner_end(&r);
}

static void a_refused_command_makes_exec_fail_and_nothing_of_it_happens(void **state)
{
    struct runner r;
    runner_begin(&r, state);
    expect(&r, "MULTI", "+OK\r\n");
    expect(&r, "SET a 1", "+QUEUED\r\n");
    expect(&r, "GET", "-ERR wrong number of arguments for 'get' command\r\n");
    assert_int_equal(place(&r, "EXEC"), PLACE_HERE);
    expect(&r, "EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
    expect(&r, "GET a", "$-1\r\n");
    expect(&r, "EXEC", "-ERR EXEC without MULTI\r\n");
    runner_end(&r);
}

static void a_failing_command_in_exec_does_not_stop_the_rest(void **state)
{
    struct runner r;
    runner_begin(&r, state);
    expect(&r, "SET a x", "+OK\r\n");
    expect(&r, "MULTI", "+OK\r\n");
    expect(&r, "INCR a", "+QUEUED\r\n");
    expect(&r, "SET b 2", "+QUEUED\r\n");
    expect(&r, "EXEC", "*2\r\n-ERR value is not an integer or out of range\r\n+OK\r\n");
    expect(&r, "GET b", "$1\r\n2\r\n");
    runner_end(&r);
}

static void discard_and_reset_empty_the_queue(void **state)
{
    struct runner r;
    runner_begin(&r, state);
    expect(&r, "MULTI", "+OK\r\n");
    expect(&r, "SET a 1", "+QUEUED\r\n");
    expect(&r, "DISCARD", "+OK\r\n");
    assert_null(r.session.queue.head);
    expect(&r, "GET a", "$-1\r\n");
    runner_end(&r);
}

static void without_a_password_given_only_auth_hello_and_the_like_run(void **state)
{
    struct runner r;
    runner_begin(&r, state);
    r.session.authenticated = false;
    expect(&r, "GET a", "-NOAUTH Authentication required.\r\n");
    expect(&r, "EXEC",
           "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n");
    assert_int_equal(place(&r, "SET a 1"), PLACE_HERE);
    runner_end(&r);
}

static void a_browser_is_turned_away_without_an_answer(void **state)
{
    struct runner r;
    runner_begin(&r, state);
    expect(&r, "POST / HTTP/1.1", "");
    assert_true(r.session.closing);
    runner_end(&r);
}

/* ---- units ---------------------------------------------------------------------------------- */

/* A unit of several lines for the session. */
static struct unit *make_unit(struct runner *r, const char *const *lines, size_t n,
                              struct unit_stock *stock)
{
    static char text[8][256];
    static struct ps_slice words[8 * MAX_WORDS];
    struct unit_source sources[8];
    uint32_t used = 0;
    struct unit *unit;
    for (size_t i = 0; i < n; i++) {
        snprintf(text[i], sizeof(text[i]), "%s", lines[i]);
        sources[i].first = used;
        sources[i].argc = (uint32_t)split(text[i], words + used);
        sources[i].row = dispatch_resolve(sources[i].argc, words + used);
        used += sources[i].argc;
    }
    unit = unit_new(stock, &r->session, sources, n, words, NULL, SIZE_MAX);
    assert_non_null(unit);
    memset(text, 'x', sizeof(text)); /* the unit has its own copies */
    return unit;
}

/* Executes a unit as the writer does. */
static void run_unit(struct runner *r, struct unit *unit)
{
    r->x.ctx.out = &unit->out;
    r->session.keep = &unit->spent;
    for (; unit->done < unit->count; unit->done++) {
        struct unit_command *c = &unit->commands[unit->done];
        assert_int_equal(
            dispatch_run(&r->x, &r->session, c->row, c->argc, unit->argv + c->first, NULL), 0);
    }
    r->session.keep = NULL;
    r->x.ctx.out = &r->out;
}

/* HELLO's reply, which is long and not the matter here, stands before. */
static void assert_replies_end(const struct unit *unit, const char *replies)
{
    assert_true(unit->out.len > strlen(replies));
    assert_memory_equal(unit->out.buf + unit->out.len - strlen(replies), replies, strlen(replies));
}

static void assert_replies(const struct unit *unit, const char *replies)
{
    assert_int_equal(unit->out.len, strlen(replies));
    assert_memory_equal(unit->out.buf, replies, unit->out.len);
}

static void a_unit_that_is_rewound_runs_again_with_the_session_it_had(void **state)
{
    static const char *const lines[] = {"HELLO 3", "SET a 1", "MULTI",  "SET b 2",
                                        "EXEC",    "MULTI",   "SET c 3"};
    static const char replies[] = "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n+OK\r\n+QUEUED\r\n";
    struct runner r;
    struct unit_stock stock = {0};
    struct unit *unit;
    runner_begin(&r, state);
    unit = make_unit(&r, lines, 7, &stock);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(session_resp(&r.session), 2);
        assert_int_equal(unit->out.version, 2);
        assert_false(session_in_multi(&r.session));
        run_unit(&r, unit);
        assert_replies_end(unit, replies);
        assert_int_equal(session_resp(&r.session), 3);
        assert_int_equal(r.session.queue.count, 1);
        unit_rewind(unit);
    }
    unit_release(&stock, unit);
    unit_stock_free(&stock);
    runner_end(&r);
}

static void a_queue_that_was_there_before_the_unit_is_there_after_rewinding(void **state)
{
    static const char *const lines[] = {"SET b 2", "EXEC",  "MULTI",   "SET c 3",
                                        "EXEC",    "MULTI", "SET d 4", "DISCARD"};
    static const char replies[] = "+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n"
                                  "+OK\r\n+QUEUED\r\n+OK\r\n";
    struct runner r;
    struct unit_stock stock = {0};
    struct unit *unit;
    runner_begin(&r, state);
    expect(&r, "MULTI", "+OK\r\n");
    expect(&r, "SET a 1", "+QUEUED\r\n");
    unit = make_unit(&r, lines, 8, &stock);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(r.session.queue.count, 1);
        run_unit(&r, unit);
        assert_replies(unit, replies);
        assert_int_equal(r.session.queue.count, 0);
        unit_rewind(unit);
    }
    unit_release(&stock, unit);
    unit_stock_free(&stock);
    runner_end(&r);
}

static void after_a_mark_only_what_follows_it_is_taken_back(void **state)
{
    static const char *const lines[] = {"SET a 1", "GET a", "HELLO 3", "SET b 1"};
    struct runner r;
    struct unit_stock stock = {0};
    struct unit *unit;
    runner_begin(&r, state);
    unit = make_unit(&r, lines, 4, &stock);
    unit->count = 2;
    run_unit(&r, unit);
    unit_mark(unit);
    unit->count = 4;
    run_unit(&r, unit);
    unit_rewind(unit);
    assert_int_equal(session_resp(&r.session), 2);
    assert_int_equal(unit->done, 2);
    assert_replies(unit, "+OK\r\n$1\r\n1\r\n");
    unit_release(&stock, unit);
    unit_stock_free(&stock);
    runner_end(&r);
}

static void a_unit_that_failed_answers_one_error_for_each_command(void **state)
{
    static const char *const lines[] = {"SET a 1", "GET a", "HELLO 3"};
    struct runner r;
    struct unit_stock stock = {0};
    struct unit *unit;
    const char *at;
    runner_begin(&r, state);
    unit = make_unit(&r, lines, 3, &stock);
    run_unit(&r, unit);
    unit_fail(unit, PS_UNKNOWN);
    at = unit->out.buf;
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(at, "-UNKNOWN ", 9);
        at = strstr(at, "\r\n") + 2;
    }
    assert_ptr_equal(at, unit->out.buf + unit->out.len);
    assert_int_equal(session_resp(&r.session), 2);
    unit_release(&stock, unit);
    unit_stock_free(&stock);
    runner_end(&r);
}

static void an_exec_that_failed_ends_its_multi(void **state)
{
    static const char *const lines[] = {"EXEC", "GET a"};
    struct runner r;
    struct unit_stock stock = {0};
    struct unit *unit;
    runner_begin(&r, state);
    for (int executed = 0; executed < 2; executed++) {
        expect(&r, "MULTI", "+OK\r\n");
        expect(&r, "SET a 1", "+QUEUED\r\n");
        unit = make_unit(&r, lines, 2, &stock);
        if (executed) {
            run_unit(&r, unit);
        }
        unit_fail(unit, PS_UNKNOWN);
        assert_false(session_in_multi(&r.session));
        assert_int_equal(r.session.queue.count, 0);
        unit_release(&stock, unit);
    }
    unit_stock_free(&stock);
    runner_end(&r);
}

static void what_follows_a_multi_that_failed_is_not_executed(void **state)
{
    static const char *const lines[] = {"SET a 1", "MULTI", "SET b 1"};
    struct runner r;
    struct unit_stock stock = {0};
    struct unit *unit;
    runner_begin(&r, state);
    unit = make_unit(&r, lines, 3, &stock);
    run_unit(&r, unit);
    unit_fail(unit, PS_UNKNOWN);
    expect(&r, "SET c 1", "+QUEUED\r\n");
    expect(&r, "EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
    unit_release(&stock, unit);
    unit_stock_free(&stock);
    runner_end(&r);
}

static void after_a_quit_that_failed_nothing_is_answered(void **state)
{
    static const char *const lines[] = {"SET a 1", "QUIT", "SET b 1"};
    struct runner r;
    struct unit_stock stock = {0};
    struct unit *unit;
    runner_begin(&r, state);
    unit = make_unit(&r, lines, 3, &stock);
    unit_fail(unit, PS_IO);
    assert_int_equal(unit->done, 2);
    assert_true(r.session.closing);
    unit_release(&stock, unit);
    unit_stock_free(&stock);
    runner_end(&r);
}

static void a_unit_from_the_stock_is_as_good_as_new(void **state)
{
    static const char *const lines[] = {"SET a 1", "GET a"};
    struct runner r;
    struct unit_stock stock = {0};
    struct unit *first, *second;
    runner_begin(&r, state);
    first = make_unit(&r, lines, 2, &stock);
    run_unit(&r, first);
    unit_release(&stock, first);
    second = make_unit(&r, lines + 1, 1, &stock);
    assert_ptr_equal(first, second);
    run_unit(&r, second);
    assert_replies(second, "$1\r\n1\r\n");
    unit_release(&stock, second);
    unit_stock_free(&stock);
    runner_end(&r);
}

static void the_rest_of_a_unit_can_be_written_as_it_was_sent(void **state)
{
    static const char *const lines[] = {"SET a 1", "KEYS *", "PING"};
    struct runner r;
    struct unit_stock stock = {0};
    struct unit *unit;
    runner_begin(&r, state);
    unit = make_unit(&r, lines, 3, &stock);
    unit->done = 1;
    resp_out_begin(&r.out, 2, SIZE_MAX);
    unit_write_rest(unit, &r.out);
    assert_int_equal(r.out.len, strlen("*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n*1\r\n$4\r\nPING\r\n"));
    assert_memory_equal(r.out.buf, "*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n*1\r\n$4\r\nPING\r\n",
                        r.out.len);
    unit_release(&stock, unit);
    unit_stock_free(&stock);
    runner_end(&r);
}

#define ON_STORE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STORE(commands_belong_where_their_cost_says),
        ON_STORE(in_multi_everything_is_only_queued_and_exec_belongs_where_the_queue_does),
        ON_STORE(a_refused_command_makes_exec_fail_and_nothing_of_it_happens),
        ON_STORE(a_failing_command_in_exec_does_not_stop_the_rest),
        ON_STORE(discard_and_reset_empty_the_queue),
        ON_STORE(without_a_password_given_only_auth_hello_and_the_like_run),
        ON_STORE(a_browser_is_turned_away_without_an_answer),
        ON_STORE(a_unit_that_is_rewound_runs_again_with_the_session_it_had),
        ON_STORE(a_queue_that_was_there_before_the_unit_is_there_after_rewinding),
        ON_STORE(after_a_mark_only_what_follows_it_is_taken_back),
        ON_STORE(a_unit_that_failed_answers_one_error_for_each_command),
        ON_STORE(an_exec_that_failed_ends_its_multi),
        ON_STORE(what_follows_a_multi_that_failed_is_not_executed),
        ON_STORE(after_a_quit_that_failed_nothing_is_answered),
        ON_STORE(a_unit_from_the_stock_is_as_good_as_new),
        ON_STORE(the_rest_of_a_unit_can_be_written_as_it_was_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
