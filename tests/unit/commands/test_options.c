/*
 * Option words and numbers: what redis-server 7.0.15 takes and refuses (asked of it, not
 * remembered).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/commands/options.h"

#define NOW      1000000
#define MAX_ARGS 12

/* A call "SET k v EX 10", split at blanks; its answer so far. */
struct call {
    struct command_ctx ctx;
    struct command command;
    struct resp_out out;
    struct ps_slice argv[MAX_ARGS];
    char text[256];
};

static void call_begin(struct call *call, const char *line)
{
    char *rest;

    memset(call, 0, sizeof(*call));
    snprintf(call->text, sizeof(call->text), "%s", line);
    resp_out_init(&call->out);
    call->ctx.argv = call->argv;
    call->ctx.out = &call->out;
    call->ctx.command = &call->command;
    call->ctx.now_ms = NOW;
    for (char *word = strtok_r(call->text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        call->argv[call->ctx.argc++] = (struct ps_slice){word, strlen(word)};
    call->command.name = call->text;
}

/* Ends a call whose answer must be this ("" for none). */
static void call_end(struct call *call, const char *answer)
{
    assert_int_equal(call->out.len, strlen(answer));
    if (call->out.len > 0)
        assert_memory_equal(call->out.buf, answer, call->out.len);
    resp_out_free(&call->out);
}

#define SYNTAX  "-ERR syntax error\r\n"
#define NOT_INT "-ERR value is not an integer or out of range\r\n"

static void set_takes(const char *line, unsigned flags, const char *expire)
{
    struct expire_options options;
    struct call call;

    call_begin(&call, line);
    assert_true(options_of_set(&call.ctx, &options));
    assert_int_equal(options.flags, flags);
    assert_int_equal(options.expire.len, strlen(expire));
    if (options.expire.len > 0)
        assert_memory_equal(options.expire.data, expire, options.expire.len);
    call_end(&call, "");
}

static void set_refuses(const char *line)
{
    struct expire_options options;
    struct call call;

    call_begin(&call, line);
    assert_false(options_of_set(&call.ctx, &options));
    call_end(&call, SYNTAX);
}

static void set_takes_its_options_in_any_order_and_case(void **state)
{
    (void)state;
    set_takes("set k v", 0, "");
    set_takes("set k v NX", OPT_NX, "");
    set_takes("set k v nx Get", OPT_NX | OPT_GET, "");
    set_takes("set k v xx keepttl get", OPT_XX | OPT_KEEPTTL | OPT_GET, "");
    set_takes("set k v eX 10 Nx", OPT_NX | OPT_EX, "10");
    set_takes("set k v get PXAT 77", OPT_GET | OPT_PXAT, "77");
    set_takes("set k v EX 10 EX 20", OPT_EX, "20");
    set_takes("set k v GET GET", OPT_GET, "");
    set_takes("set k v EX NX", OPT_EX, "NX");
}

static void set_refuses_what_does_not_go_together(void **state)
{
    (void)state;
    set_refuses("set k v NX XX");
    set_refuses("set k v XX GET NX");
    set_refuses("set k v EX 10 PX 10");
    set_refuses("set k v EXAT 10 PXAT 10");
    set_refuses("set k v KEEPTTL EX 10");
    set_refuses("set k v EX 10 KEEPTTL");
    set_refuses("set k v EX");
    set_refuses("set k v PERSIST");
    set_refuses("set k v EXX 10");
    set_refuses("set k v 10");
}

static void getex_takes_one_time_or_persist(void **state)
{
    (void)state;
    static const char *const good[] = {"getex k", "getex k persist", "getex k EX 1",
                                       "getex k pxat 1", "getex k PX 1 PX 2"};
    static const char *const bad[] = {"getex k NX",          "getex k KEEPTTL",      "getex k EX",
                                      "getex k EX 1 PX 1",   "getex k EX 1 PERSIST", "getex k GET",
                                      "getex k PERSIST EX 1"};
    struct expire_options options;
    struct call call;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        call_begin(&call, good[i]);
        assert_true(options_of_getex(&call.ctx, &options));
        call_end(&call, "");
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        call_begin(&call, bad[i]);
        assert_false(options_of_getex(&call.ctx, &options));
        call_end(&call, SYNTAX);
    }
}

static void a_word_ends_at_a_nul(void **state)
{
    (void)state;
    assert_true(option_is((struct ps_slice){"NX\0more", 7}, "nx"));
    assert_false(option_is((struct ps_slice){"NXmore", 6}, "nx"));
    assert_false(option_is((struct ps_slice){"N", 1}, "nx"));
    assert_false(option_is((struct ps_slice){"", 0}, "nx"));
}

static void expire_answers(const char *line, const char *answer)
{
    struct call call;
    unsigned flags;

    call_begin(&call, line);
    assert_int_equal(options_of_expire(&call.ctx, &flags), answer[0] == '\0');
    call_end(&call, answer);
}

static void expire_takes_conditions_that_can_hold_together(void **state)
{
    (void)state;
    const char *nx = "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n";
    const char *gt = "-ERR GT and LT options at the same time are not compatible\r\n";

    expire_answers("expire k 1", "");
    expire_answers("expire k 1 NX", "");
    expire_answers("expire k 1 xx Gt", "");
    expire_answers("expire k 1 LT xx LT", "");
    expire_answers("expire k 1 NX XX", nx);
    expire_answers("expire k 1 GT NX LT", nx);
    expire_answers("expire k 1 GT LT", gt);
    expire_answers("expire k 1 XX foo", "-ERR Unsupported option foo\r\n");
}

static void time_is(unsigned unit, const char *text, int64_t expected)
{
    struct call call;
    int64_t ms = -1;

    call_begin(&call, "setex");
    assert_true(option_expire_time(&call.ctx, (struct ps_slice){text, strlen(text)}, unit, &ms));
    assert_true(ms == expected);
    call_end(&call, "");
}

static void time_fails(unsigned unit, const char *text, const char *answer)
{
    struct call call;
    int64_t ms;

    call_begin(&call, "setex");
    assert_false(option_expire_time(&call.ctx, (struct ps_slice){text, strlen(text)}, unit, &ms));
    call_end(&call, answer);
}

static void times_are_computed_in_their_unit_without_overflow(void **state)
{
    (void)state;
    const char *invalid = "-ERR invalid expire time in 'setex' command\r\n";

    time_is(OPT_EX, "10", NOW + 10000);
    time_is(OPT_PX, "10", NOW + 10);
    time_is(OPT_EXAT, "10", 10000);
    time_is(OPT_PXAT, "9223372036854775807", INT64_MAX);
    time_fails(OPT_EX, "0", invalid);
    time_fails(OPT_PX, "-1", invalid);
    time_fails(OPT_EXAT, "9223372036854776", invalid);
    time_fails(OPT_EX, "9223372036854775", invalid);
    time_fails(OPT_PX, "9223372036854775807", invalid);
    time_fails(OPT_PX, "9223372036854775808", NOT_INT);
    time_fails(OPT_PX, "1.5", NOT_INT);
    time_fails(OPT_PX, "", NOT_INT);
}

static void cursor_is(const char *text, bool valid, uint64_t expected)
{
    struct call call;
    uint64_t cursor = 0;

    call_begin(&call, "scan");
    assert_int_equal(option_cursor(&call.ctx, (struct ps_slice){text, strlen(text)}, &cursor),
                     valid);
    if (valid)
        assert_true(cursor == expected);
    call_end(&call, valid ? "" : "-ERR invalid cursor\r\n");
}

static void a_cursor_is_what_strtoul_takes_whole(void **state)
{
    (void)state;
    cursor_is("0", true, 0);
    cursor_is("123456789012", true, 123456789012);
    cursor_is("", true, 0);
    cursor_is("+7", true, 7);
    cursor_is("-1", true, UINT64_MAX);
    cursor_is("18446744073709551615", true, UINT64_MAX);
    cursor_is("18446744073709551616", false, 0);
    cursor_is(" 1", false, 0);
    cursor_is("1 ", false, 0);
    cursor_is("x", false, 0);
}

static void scan_answers(const char *line, const char *answer)
{
    struct scan_options options;
    struct call call;

    call_begin(&call, line);
    assert_int_equal(options_of_scan(&call.ctx, 2, &options), answer[0] == '\0');
    call_end(&call, answer);
}

static void scan_takes_pairs_of_words(void **state)
{
    (void)state;
    struct scan_options options;
    struct call call;

    call_begin(&call, "scan 0 MATCH a* count 5 Type string COUNT 7");
    assert_true(options_of_scan(&call.ctx, 2, &options));
    assert_int_equal(options.count, 7);
    assert_memory_equal(options.pattern.data, "a*", 2);
    assert_memory_equal(options.type.data, "string", 6);
    call_end(&call, "");
    scan_answers("scan 0", "");
    scan_answers("scan 0 COUNT", SYNTAX);
    scan_answers("scan 0 COUNT 0", SYNTAX);
    scan_answers("scan 0 COUNT -1", SYNTAX);
    scan_answers("scan 0 COUNT x", NOT_INT);
    scan_answers("scan 0 FOO 1", SYNTAX);
    scan_answers("scan 0 MATCH", SYNTAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_takes_its_options_in_any_order_and_case),
        cmocka_unit_test(set_refuses_what_does_not_go_together),
        cmocka_unit_test(getex_takes_one_time_or_persist),
        cmocka_unit_test(a_word_ends_at_a_nul),
        cmocka_unit_test(expire_takes_conditions_that_can_hold_together),
        cmocka_unit_test(times_are_computed_in_their_unit_without_overflow),
        cmocka_unit_test(a_cursor_is_what_strtoul_takes_whole),
        cmocka_unit_test(scan_takes_pairs_of_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
