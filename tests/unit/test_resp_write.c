/*
 * The reply writer. Expected bytes of each kind are what redis-server 7.0.15 sends for DEBUG
 * PROTOCOL in RESP2 and RESP3.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/resp.h"

static void check(struct resp_out *out, const char *expect, size_t len)
{
    assert_int_equal(out->status, 0);
    assert_int_equal(out->len, len);
    assert_memory_equal(out->buf, expect, len);
    resp_out_begin(out, out->version, SIZE_MAX);
}

#define CHECK(out, expect) check(out, expect, sizeof(expect) - 1)

static void scalars_of_both_versions_are_written_alike(void **state)
{
    (void)state;
    struct resp_out out;
    resp_out_init(&out);
    for (int version = 2; version <= 3; version++) {
        resp_out_begin(&out, version, SIZE_MAX);
        resp_write_ok(&out);
        CHECK(&out, "+OK\r\n");
        resp_write_simple(&out, "PONG");
        CHECK(&out, "+PONG\r\n");
        resp_write_simple_n(&out, "a\r\nb", 4);
        CHECK(&out, "+a  b\r\n");
        resp_write_int(&out, 0);
        resp_write_int(&out, 1);
        resp_write_int(&out, 12345);
        resp_write_int(&out, -1);
        resp_write_int(&out, INT64_MAX);
        resp_write_int(&out, INT64_MIN);
        CHECK(&out, ":0\r\n:1\r\n:12345\r\n:-1\r\n:9223372036854775807\r\n"
                    ":-9223372036854775808\r\n");
        resp_write_bulk(&out, "a\r\n\0b", 5);
        resp_write_bulk(&out, NULL, 0);
        resp_write_bulk_str(&out, "Hello World");
        resp_write_bulk_int(&out, -42);
        CHECK(&out, "$5\r\na\r\n\0b\r\n$0\r\n\r\n$11\r\nHello World\r\n$3\r\n-42\r\n");
        resp_write_array(&out, 0);
        resp_write_array(&out, 3);
        resp_write_array(&out, 1048576);
        CHECK(&out, "*0\r\n*3\r\n*1048576\r\n");
        resp_write_raw(&out, ":7\r\n", 4);
        resp_write_raw(&out, NULL, 0);
        CHECK(&out, ":7\r\n");
    }
    resp_out_free(&out);
}

static void write_version_dependent(struct resp_out *out)
{
    resp_write_null(out);
    resp_write_null_array(out);
    resp_write_bool(out, true);
    resp_write_bool(out, false);
    resp_write_double(out, 3.141);
    resp_write_double(out, -INFINITY);
    resp_write_double(out, NAN);
    resp_write_double(out, 10);
    resp_write_bignum(out, "1234567999999999999999999999999999999", 37);
    resp_write_verbatim(out, "txt", "This is a verbatim\nstring", 25);
    resp_write_verbatim(out, "mkd", NULL, 0);
    resp_write_map(out, 3);
    resp_write_set(out, 3);
    resp_write_push(out, 2);
}

static void version_two_knows_only_its_five_kinds(void **state)
{
    (void)state;
    struct resp_out out;
    resp_out_init(&out);
    write_version_dependent(&out);
    CHECK(&out, "$-1\r\n*-1\r\n:1\r\n:0\r\n$5\r\n3.141\r\n$4\r\n-inf\r\n$3\r\nnan\r\n$2\r\n10\r\n"
                "$37\r\n1234567999999999999999999999999999999\r\n"
                "$25\r\nThis is a verbatim\nstring\r\n$0\r\n\r\n*6\r\n*3\r\n*2\r\n");
    resp_out_free(&out);
}

static void version_three_has_kinds_of_its_own(void **state)
{
    (void)state;
    struct resp_out out;
    resp_out_init(&out);
    resp_out_begin(&out, 3, SIZE_MAX);
    write_version_dependent(&out);
    CHECK(&out, "_\r\n_\r\n#t\r\n#f\r\n,3.141\r\n,-inf\r\n,nan\r\n,10\r\n"
                "(1234567999999999999999999999999999999\r\n"
                "=29\r\ntxt:This is a verbatim\nstring\r\n=4\r\nmkd:\r\n%3\r\n~3\r\n>2\r\n");
    resp_out_free(&out);
}

static void an_error_cannot_break_the_framing(void **state)
{
    (void)state;
    struct resp_out out;
    resp_out_init(&out);
    resp_write_error(&out, "syntax error");
    CHECK(&out, "-ERR syntax error\r\n");
    resp_write_error(&out, "-NOAUTH Authentication required.");
    CHECK(&out, "-NOAUTH Authentication required.\r\n");
    resp_write_error(&out, "\r\na\r\nb\n");
    CHECK(&out, "-ERR a  b\r\n");
    resp_write_error_n(&out, "a\0b", 3);
    CHECK(&out, "-ERR a\0b\r\n");
    resp_write_error(&out, "");
    CHECK(&out, "-ERR \r\n");
    resp_write_errorf(&out, "unknown command '%s', %d", "x\ny", 5);
    CHECK(&out, "-ERR unknown command 'x y', 5\r\n");
    resp_write_errorf(&out, "-WRONGTYPE %c", 'x');
    CHECK(&out, "-WRONGTYPE x\r\n");
    resp_out_free(&out);
}

static void a_long_formatted_error_is_cut(void **state)
{
    (void)state;
    struct resp_out out;
    resp_out_init(&out);
    resp_write_errorf(&out, "%2000d", 1);
    assert_int_equal(out.len, 5 + 1023 + 2);
    assert_memory_equal(out.buf + out.len - 3, " \r\n", 3);
    resp_out_free(&out);
}

static void a_protocol_error_is_answered_in_redis_words(void **state)
{
    (void)state;
    struct resp_out out;
    resp_out_init(&out);
    struct resp_limits limits;
    resp_limits_init(&limits);
    struct resp_parser p = {0};
    struct resp_args args = {0};
    struct resp_request req;
    size_t used;
    assert_int_equal(resp_parse(&p, &limits, "*1\r\n\r\n", 6, &args, &req, &used), RESP_EPROTO);
    resp_write_protocol_error(&out, &p);
    CHECK(&out, "-ERR Protocol error: expected '$', got ' '\r\n");
    resp_parser_reset(&p);
    assert_int_equal(resp_parse(&p, &limits, "'\n", 2, &args, &req, &used), RESP_EPROTO);
    resp_write_protocol_error(&out, &p);
    CHECK(&out, "-ERR Protocol error: unbalanced quotes in request\r\n");
    resp_args_free(&args);
    resp_out_free(&out);
}

static void a_deferred_length_gives_the_same_bytes_as_a_known_one(void **state)
{
    (void)state;
    struct resp_out out;
    resp_out_init(&out);
    static const unsigned sizes[] = {0, 1, 9, 10, 99, 100, 12345};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        for (int version = 2; version <= 3; version++) {
            struct resp_out direct;
            resp_out_init(&direct);
            resp_out_begin(&direct, version, SIZE_MAX);
            resp_out_begin(&out, version, SIZE_MAX);
            resp_write_map(&direct, sizes[i]);
            size_t mark = resp_defer(&out);
            for (unsigned n = 0; n < sizes[i]; n++) {
                resp_write_int(&direct, n);
                resp_write_array(&direct, 11);
                resp_write_int(&out, n);
                size_t inner = resp_defer(&out);
                for (int k = 0; k < 11; k++) {
                    resp_write_ok(&direct);
                    resp_write_ok(&out);
                }
                resp_defer_array(&out, inner, 11);
            }
            resp_defer_map(&out, mark, sizes[i]);
            check(&out, direct.buf, direct.len);
            resp_out_free(&direct);
        }
    }
    resp_out_begin(&out, 3, SIZE_MAX);
    size_t mark = resp_defer(&out);
    resp_write_ok(&out);
    resp_defer_set(&out, mark, 1);
    CHECK(&out, "~1\r\n+OK\r\n");
    resp_out_begin(&out, 2, SIZE_MAX);
    mark = resp_defer(&out);
    resp_defer_set(&out, mark, 0);
    CHECK(&out, "*0\r\n");
    resp_out_free(&out);
}

/* Under the address sanitizer a byte too many would be seen. */
static void closing_an_aggregate_may_fill_the_buffer_to_its_last_byte(void **state)
{
    (void)state;
    struct resp_out out;
    resp_out_init(&out);
    size_t mark = resp_defer(&out), cap = out.cap;
    static char filler[100000];
    assert_true(cap < sizeof(filler));
    resp_write_raw(&out, filler, cap - 4 - 2);
    resp_defer_array(&out, mark, 100);
    assert_int_equal(out.len, cap);
    assert_int_equal(out.cap, cap);
    assert_memory_equal(out.buf, "*100\r\n", 6);
    resp_out_free(&out);
}

static void a_bulk_can_be_filled_in_place(void **state)
{
    (void)state;
    struct resp_out out;
    resp_out_init(&out);
    char *space = resp_write_bulk_space(&out, 5);
    assert_non_null(space);
    memcpy(space, "abcde", 5);
    assert_non_null(resp_write_bulk_space(&out, 0));
    CHECK(&out, "$5\r\nabcde\r\n$0\r\n\r\n");
    resp_out_free(&out);
}

/* Every writer once, by number; false: no such number. */
static bool write_kind(struct resp_out *out, int kind)
{
    switch (kind) {
    case 0:
        resp_write_ok(out);
        return true;
    case 1:
        resp_write_simple(out, "PONG");
        return true;
    case 2:
        resp_write_int(out, -12345);
        return true;
    case 3:
        resp_write_int(out, 12345);
        return true;
    case 4:
        resp_write_bulk(out, "0123456789", 10);
        return true;
    case 5:
        resp_write_double(out, 0.1);
        return true;
    case 6:
        resp_write_verbatim(out, "txt", "0123456789", 10);
        return true;
    case 7:
        resp_write_error(out, "no");
        return true;
    case 8:
        resp_write_map(out, 77);
        return true;
    case 9:
        resp_write_null_array(out);
        return true;
    default:
        return false;
    }
}

static void a_limit_refuses_whole_writes_and_stays_refused(void **state)
{
    (void)state;
    for (int version = 2; version <= 3; version++) {
        struct resp_out free_out;
        resp_out_init(&free_out);
        resp_out_begin(&free_out, version, SIZE_MAX);
        for (int kind = 0; write_kind(&free_out, kind); kind++) {
            size_t size = free_out.len;
            resp_out_begin(&free_out, version, SIZE_MAX);
            for (size_t limit = 0; limit <= size; limit++) {
                struct resp_out out;
                resp_out_init(&out);
                resp_out_begin(&out, version, limit);
                write_kind(&out, kind);
                assert_int_equal(out.status, limit < size ? RESP_EOUT_LIMIT : 0);
                assert_int_equal(out.len, limit < size ? 0 : size);
                resp_out_free(&out);
            }
        }
        resp_out_free(&free_out);
    }
    struct resp_out out;
    resp_out_init(&out);
    resp_out_begin(&out, 2, 12);
    resp_write_ok(&out);
    assert_int_equal(resp_out_room(&out), 7);
    resp_write_bulk(&out, "abc", 3);
    assert_int_equal(out.status, RESP_EOUT_LIMIT);
    assert_int_equal(resp_out_room(&out), 0);
    resp_write_ok(&out); /* would fit, but the reply before it is missing */
    assert_int_equal(out.len, 5);
    resp_out_truncate(&out, 0);
    resp_write_ok(&out);
    CHECK(&out, "+OK\r\n");
    resp_out_free(&out);
}

static void a_limit_holds_in_a_buffer_that_is_larger(void **state)
{
    (void)state;
    struct resp_out out;
    resp_out_init(&out);
    for (int i = 0; i < 100000; i++)
        resp_write_ok(&out);
    assert_int_equal(out.len, 500000);
    resp_out_begin(&out, 2, 9);
    resp_write_ok(&out);
    resp_write_ok(&out);
    assert_int_equal(out.status, RESP_EOUT_LIMIT);
    assert_int_equal(out.len, 5);
    resp_out_free(&out);
}

static void a_failed_aggregate_can_be_taken_back(void **state)
{
    (void)state;
    struct resp_out out;
    resp_out_init(&out);
    resp_out_begin(&out, 2, 40);
    resp_write_ok(&out);
    size_t start = out.len, mark = resp_defer(&out);
    for (int i = 0; i < 10; i++)
        resp_write_ok(&out);
    resp_defer_array(&out, mark, 10);
    assert_int_equal(out.status, RESP_EOUT_LIMIT);
    resp_out_truncate(&out, start);
    resp_write_error(&out, "too big");
    CHECK(&out, "+OK\r\n-ERR too big\r\n");
    /* The header is what no longer fits. */
    resp_out_begin(&out, 2, 44);
    mark = resp_defer(&out);
    for (int i = 0; i < 10; i++)
        resp_write_int(&out, 1);
    resp_defer_array(&out, mark, 10);
    assert_int_equal(out.status, RESP_EOUT_LIMIT);
    resp_out_free(&out);
}

static void a_huge_length_is_refused_without_arithmetic_accidents(void **state)
{
    (void)state;
    struct resp_out out;
    resp_out_init(&out);
    resp_out_begin(&out, 2, 1000);
    assert_null(resp_write_bulk_space(&out, SIZE_MAX / 2 - 30));
    assert_int_equal(out.status, RESP_EOUT_LIMIT);
    resp_out_begin(&out, 2, 1000);
    assert_null(resp_write_bulk_space(&out, SIZE_MAX));
    assert_int_equal(out.status, RESP_EOUT_LIMIT);
    assert_int_equal(out.len, 0);
    resp_out_free(&out);
}

static void a_buffer_gives_memory_back(void **state)
{
    (void)state;
    struct resp_out out;
    resp_out_init(&out);
    for (int i = 0; i < 100000; i++)
        resp_write_ok(&out);
    resp_out_shrink(&out, 16384); /* what is held stays */
    assert_int_equal(out.cap, 500000);
    assert_memory_equal(out.buf + out.len - 5, "+OK\r\n", 5);
    resp_out_begin(&out, 2, SIZE_MAX);
    resp_out_shrink(&out, 16384);
    assert_int_equal(out.cap, 16384);
    resp_write_ok(&out);
    CHECK(&out, "+OK\r\n");
    resp_out_shrink(&out, 0);
    assert_null(out.buf);
    resp_write_ok(&out);
    CHECK(&out, "+OK\r\n");
    resp_out_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_of_both_versions_are_written_alike),
        cmocka_unit_test(version_two_knows_only_its_five_kinds),
        cmocka_unit_test(version_three_has_kinds_of_its_own),
        cmocka_unit_test(an_error_cannot_break_the_framing),
        cmocka_unit_test(a_long_formatted_error_is_cut),
        cmocka_unit_test(a_protocol_error_is_answered_in_redis_words),
        cmocka_unit_test(a_deferred_length_gives_the_same_bytes_as_a_known_one),
        cmocka_unit_test(closing_an_aggregate_may_fill_the_buffer_to_its_last_byte),
        cmocka_unit_test(a_bulk_can_be_filled_in_place),
        cmocka_unit_test(a_limit_refuses_whole_writes_and_stays_refused),
        cmocka_unit_test(a_limit_holds_in_a_buffer_that_is_larger),
        cmocka_unit_test(a_failed_aggregate_can_be_taken_back),
        cmocka_unit_test(a_huge_length_is_refused_without_arithmetic_accidents),
        cmocka_unit_test(a_buffer_gives_memory_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
