/*
 * Splitting a line into arguments. Expected values: what redis-server 7.0.15 echoed for
 * `PING <text>`, or its "unbalanced quotes in request".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/resp.h"

/* Splits line and compares with the expected arguments, written as "[a][b]"; NULL: refused. */
static void check(const char *line, size_t len, const char *expect, size_t expect_len)
{
    struct resp_args args = {0};
    char *copy = malloc(len > 0 ? len : 1); /* of exactly its size: overreads are seen */
    assert_non_null(copy);
    memcpy(copy, line, len);
    int rc = resp_split_line(copy, len, &args);
    if (expect == NULL) {
        assert_int_equal(rc, RESP_EPROTO);
        assert_int_equal(args.n, 0);
    } else {
        char got[256];
        size_t n = 0;
        assert_int_equal(rc, 0);
        for (size_t i = 0; i < args.n; i++) {
            assert_true(n + args.v[i].len + 2 <= sizeof(got));
            got[n++] = '[';
            memcpy(got + n, args.v[i].data, args.v[i].len);
            n += args.v[i].len;
            got[n++] = ']';
        }
        assert_int_equal(n, expect_len);
        assert_memory_equal(got, expect, n);
    }
    resp_args_free(&args);
    free(copy);
}

#define SPLITS(line, expect) check(line, sizeof(line) - 1, expect, sizeof(expect) - 1)
#define REFUSES(line)        check(line, sizeof(line) - 1, NULL, 0)

static void blanks_separate_arguments(void **state)
{
    (void)state;
    SPLITS("", "");
    SPLITS(" \t\r\n\v\f", "");
    SPLITS("a", "[a]");
    SPLITS("  a\tb \r c\n", "[a][b][c]");
    SPLITS("\va\v\fb c", "[a\v\fb][c]"); /* skipped before a word, kept in it */
    SPLITS("\x80\xff \xa0", "[\x80\xff][\xa0]");
    SPLITS("a\\x41 \\n", "[a\\x41][\\n]");
}

static void a_nul_ends_the_line(void **state)
{
    (void)state;
    SPLITS("a b\0c d", "[a][b]");
    SPLITS("'a' b\0'", "[a][b]");
    REFUSES("'a\0'");
}

static void double_quotes_take_escapes(void **state)
{
    (void)state;
    SPLITS("\"a b\"", "[a b]");
    SPLITS("\"\"", "[]");
    SPLITS("\"\" \"\"", "[][]");
    SPLITS("\"\\x41\\n\\r\\t\\b\\a\\q\\\"\\xZZ\"", "[A\n\r\t\b\aq\"xZZ]");
    SPLITS("\"\\x00\\xfF\\\\\"", "[\0\xff\\]");
    SPLITS("\"\\x4\"", "[x4]");
    SPLITS("\"it's\"", "[it's]");
    SPLITS("\"a\rb\"", "[a\rb]");
}

static void single_quotes_take_only_an_escaped_quote(void **state)
{
    (void)state;
    SPLITS("'a\\'b\\n'", "[a'b\\n]");
    SPLITS("'a\"b'", "[a\"b]");
    SPLITS("''", "[]");
    REFUSES("'\\\\'"); /* a backslash, then an escaped quote */
}

static void a_quote_may_open_within_a_word_but_must_close_it(void **state)
{
    (void)state;
    SPLITS("ab\"cd\" e", "[abcd][e]");
    SPLITS("ab'c d'\te", "[abc d][e]");
    SPLITS("\"x\"\v", "[x]");
    REFUSES("\"a\"b");
    REFUSES("'a'b");
    REFUSES("\"a\"\"b\"");
    REFUSES("'a'\"b\"");
}

static void unbalanced_quotes_are_refused(void **state)
{
    (void)state;
    REFUSES("\"a");
    REFUSES("'a");
    REFUSES("a b \"");
    REFUSES("\"abc\\\"");
    REFUSES("\"abc\\");
    REFUSES("'abc\\'");
    REFUSES("\"x\"\\");
    REFUSES("\"\\x4");
}

static void a_refused_line_leaves_earlier_arguments_alone(void **state)
{
    (void)state;
    struct resp_args args = {0};
    assert_int_equal(resp_split_line("a 'b c'", 7, &args), 0);
    assert_int_equal(args.n, 2);
    assert_int_equal(resp_split_line("d e \"f", 6, &args), RESP_EPROTO);
    assert_int_equal(args.n, 2);
    assert_memory_equal(args.v[1].data, "b c", 3);
    resp_args_free(&args);
    assert_null(args.v);
}

static void unquoted_text_stays_in_place_while_more_is_added(void **state)
{
    (void)state;
    struct resp_args args = {0};
    for (int i = 0; i < 1000; i++)
        assert_int_equal(resp_split_line("\"a\\x41\"", 7, &args), 0);
    for (int i = 0; i < 1000; i++)
        assert_memory_equal(args.v[i].data, "aA", 2);
    resp_args_reset(&args);
    assert_int_equal(args.n, 0);
    assert_true(args.cap >= 1000);
    assert_null(args.blocks);
    resp_args_free(&args);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blanks_separate_arguments),
        cmocka_unit_test(a_nul_ends_the_line),
        cmocka_unit_test(double_quotes_take_escapes),
        cmocka_unit_test(single_quotes_take_only_an_escaped_quote),
        cmocka_unit_test(a_quote_may_open_within_a_word_but_must_close_it),
        cmocka_unit_test(unbalanced_quotes_are_refused),
        cmocka_unit_test(a_refused_line_leaves_earlier_arguments_alone),
        cmocka_unit_test(unquoted_text_stays_in_place_while_more_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
