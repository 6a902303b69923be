/*
 * The request parser: outcomes and limits, each for the whole input, cut at every byte, and a byte
 * at a time.
 *
 * The expected outcomes of malformed input are what redis-server 7.0.15 answered to the same bytes
 * (--save ''; the unauthenticated ones with --requirepass).
 */
#include "tests/unit/resp_feed.h"

#define COUNT_ERROR  "!Protocol error: invalid multibulk length"
#define BULK_ERROR   "!Protocol error: invalid bulk length"
#define QUOTES_ERROR "!Protocol error: unbalanced quotes in request"

/* ---- outcomes ----------------------------------------------------------------------------------
 */

static void a_request_is_an_array_of_bulks_of_any_bytes(void **state)
{
    (void)state;
    static const struct example examples[] = {
        EXAMPLE("*1\r\n$4\r\nPING\r\n", "(PING)~"),
        EXAMPLE("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n", "(SET|k|)~"),
        EXAMPLE("*2\r\n$4\r\nECHO\r\n$6\r\n\r\n\0*$\r\r\n", "(ECHO|\r\n\0*$\r)~"),
        EXAMPLE("*1\r\n$12\r\nabcdefghijkl\r\n*1\r\n$1\r\nx\r\n", "(abcdefghijkl)(x)~"),
        EXAMPLE(
            "*10\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n$1\r\n6\r\n"
            "$1\r\n7\r\n$1\r\n8\r\n$1\r\n9\r\n",
            "(0|1|2|3|4|5|6|7|8|9)~"),
        EXAMPLE("*1\r\n$0\r\n\r\nPING\r\n", "()(PING)~"),
        EXAMPLE("", "~"),
    };
    struct resp_limits limits;
    resp_limits_init(&limits);
    CHECK_EXAMPLES(&limits, examples);
}

static void lines_and_arrays_may_be_mixed_in_one_pipeline(void **state)
{
    (void)state;
    static const struct example examples[] = {
        EXAMPLE("PING\r\n*1\r\n$4\r\nPING\r\nECHO a\n*1\r\n$1\r\nx\r\n",
                "(PING)(PING)(ECHO|a)(x)~"),
        EXAMPLE("PING\r\n*1\r\nbad\r\nPING\r\n", "(PING)!Protocol error: expected '$', got 'b'"),
    };
    struct resp_limits limits;
    resp_limits_init(&limits);
    CHECK_EXAMPLES(&limits, examples);
}

static void empty_requests_are_ignored(void **state)
{
    (void)state;
    static const struct example examples[] = {
        EXAMPLE("*0\r\nPING\r\n", "(PING)~"),
        EXAMPLE("*-1\r\nPING\r\n", "(PING)~"),
        EXAMPLE("*-9223372036854775808\r\nPING\r\n", "(PING)~"),
        EXAMPLE("\r\n\n  \r\nPING\r\n", "(PING)~"),
        EXAMPLE("*0\r\n*0\r\n\r\n*0\r\n", "~"),
    };
    struct resp_limits limits;
    resp_limits_init(&limits);
    CHECK_EXAMPLES(&limits, examples);
}

static void a_bad_multibulk_length_is_refused(void **state)
{
    (void)state;
    static const struct example examples[] = {
        EXAMPLE("*\r\n", COUNT_ERROR),
        EXAMPLE("*-0\r\n", COUNT_ERROR),
        EXAMPLE("*01\r\n", COUNT_ERROR),
        EXAMPLE("*00\r\n", COUNT_ERROR),
        EXAMPLE("*+1\r\n", COUNT_ERROR),
        EXAMPLE("* 1\r\n", COUNT_ERROR),
        EXAMPLE("*1 \r\n", COUNT_ERROR),
        EXAMPLE("*x\r\n", COUNT_ERROR),
        EXAMPLE("*1x\r\n", COUNT_ERROR),
        EXAMPLE("*2147483648\r\n", COUNT_ERROR),
        EXAMPLE("*9223372036854775808\r\n", COUNT_ERROR),
        EXAMPLE("*-9223372036854775809\r\n", COUNT_ERROR),
        EXAMPLE("*111111111111111111111111111111\r\n", COUNT_ERROR),
    };
    struct resp_limits limits;
    resp_limits_init(&limits);
    CHECK_EXAMPLES(&limits, examples);
}

static void a_bulk_must_begin_with_a_dollar(void **state)
{
    (void)state;
    static const struct example examples[] = {
        EXAMPLE("*1\r\nPING\r\n", "!Protocol error: expected '$', got 'P'"),
        EXAMPLE("*1\r\n\r\n", "!Protocol error: expected '$', got '\r'"),
        EXAMPLE("*1\r\n\n\r\n", "!Protocol error: expected '$', got '\n'"),
        EXAMPLE("*1\r\n\xff\r\n", "!Protocol error: expected '$', got '\xff'"),
        EXAMPLE("*2\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n",
                "!Protocol error: expected '$', got '*'"),
        /* Nothing is said before the line is complete. */
        EXAMPLE("*1\r\nx", "~"),
        EXAMPLE("*1\r\nx\r", "~"),
    };
    struct resp_limits limits;
    resp_limits_init(&limits);
    CHECK_EXAMPLES(&limits, examples);
}

static void a_bad_bulk_length_is_refused(void **state)
{
    (void)state;
    static const struct example examples[] = {
        EXAMPLE("*1\r\n$-1\r\n", BULK_ERROR),
        EXAMPLE("*1\r\n$\r\n", BULK_ERROR),
        EXAMPLE("*1\r\n$04\r\nPING\r\n", BULK_ERROR),
        EXAMPLE("*1\r\n$4 \r\nPING\r\n", BULK_ERROR),
        EXAMPLE("*1\r\n$536870913\r\n", BULK_ERROR),
        EXAMPLE("*1\r\n$9223372036854775807\r\n", BULK_ERROR),
        EXAMPLE("*1\r\n$11111111111111111111\r\n", BULK_ERROR),
        EXAMPLE("*1\r\n$111111111111111111111111111111\r\n", BULK_ERROR),
        EXAMPLE("*2\r\n$1\r\na\r\n$-2\r\n", BULK_ERROR),
        EXAMPLE("*1\r\n$536870912\r\n", "~"),
    };
    struct resp_limits limits;
    resp_limits_init(&limits);
    CHECK_EXAMPLES(&limits, examples);
}

static void line_ends_are_taken_as_loosely_as_redis_takes_them(void **state)
{
    (void)state;
    static const struct example examples[] = {
        EXAMPLE("*1\rX$4\rYPINGZZ", "(PING)~"),
        EXAMPLE("*1\r\0$4\r\0PING\0\0", "(PING)~"),
        EXAMPLE("*1\n$4\nPING\n", "~"),
        EXAMPLE("PING\n", "(PING)~"),
        EXAMPLE("PING\r\r\n", "(PING)~"),
        EXAMPLE("PING a\0b\r\n", "~"), /* a NUL hides the line's end */
        EXAMPLE("*1\0\r\n$4\r\nPING\r\n", "~"),
        EXAMPLE("*1\r\n\0\r\n", "~"),
        EXAMPLE("*1\r\n$4\0\r\nPING\r\n", "~"),
        EXAMPLE("\0", "~"),
    };
    struct resp_limits limits;
    resp_limits_init(&limits);
    CHECK_EXAMPLES(&limits, examples);
}

static void inline_requests_follow_the_quoting_rules(void **state)
{
    (void)state;
    static const struct example examples[] = {
        EXAMPLE("SET k v\r\n", "(SET|k|v)~"),
        EXAMPLE("PING ab\"cd\"\n", "(PING|abcd)~"),
        EXAMPLE("PING\t\"x\"\v\r\n", "(PING|x)~"),
        EXAMPLE("PING \"a\rb\"\r\n", "(PING|a\rb)~"),
        EXAMPLE("\"\"\r\n", "()~"),
        EXAMPLE("PING \"a\n", QUOTES_ERROR),
        EXAMPLE("PING 'a\n", QUOTES_ERROR),
        EXAMPLE("PING \"a\"b\n", QUOTES_ERROR),
        EXAMPLE("GET x\nPING \"a\nGET x\n", "(GET|x)" QUOTES_ERROR),
    };
    struct resp_limits limits;
    resp_limits_init(&limits);
    CHECK_EXAMPLES(&limits, examples);
}

/* ---- limits ------------------------------------------------------------------------------------
 */

static void before_authentication_arrays_are_small(void **state)
{
    (void)state;
    static const struct example examples[] = {
        EXAMPLE("*10\r\n", "~"),
        EXAMPLE("*11\r\n", "!Protocol error: unauthenticated multibulk length"),
        EXAMPLE("*1048576\r\n", "!Protocol error: unauthenticated multibulk length"),
        EXAMPLE("*2147483648\r\n", COUNT_ERROR),
        EXAMPLE("*1\r\n$16384\r\n", "~"),
        EXAMPLE("*1\r\n$16385\r\n", "!Protocol error: unauthenticated bulk length"),
        EXAMPLE("*1\r\n$536870913\r\n", BULK_ERROR),
        EXAMPLE("a b c d e f g h i j k l\n", "(a|b|c|d|e|f|g|h|i|j|k|l)~"),
    };
    struct resp_limits limits;
    resp_limits_init(&limits);
    limits.authenticated = false;
    CHECK_EXAMPLES(&limits, examples);
}

static void limits_hold_exactly(void **state)
{
    (void)state;
    static const struct example examples[] = {
        EXAMPLE("*2\r\n$3\r\nabc\r\n$1\r\nx\r\n", "(abc|x)~"),  /* 20 bytes */
        EXAMPLE("*2\r\n$3\r\nabc\r\n$2\r\nxy\r\n", "!size"),    /* 21 */
        EXAMPLE("*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\n", "!size"), /* declares 25 */
        EXAMPLE("*4\r\n", COUNT_ERROR),
        EXAMPLE("*1\r\n$4\r\n", BULK_ERROR),
        EXAMPLE("1234567890123456789\n", "(1234567890123456789)~"), /* 20 */
        EXAMPLE("12345678901234567890\n", "!size"),
    };
    struct resp_limits limits = {
        .max_bulk = 3, .max_args = 3, .max_request = 20, .authenticated = true};
    CHECK_EXAMPLES(&limits, examples);
}

static void the_default_limits_are_those_of_redis(void **state)
{
    (void)state;
    struct resp_limits limits;
    resp_limits_init(&limits);
    assert_int_equal(limits.max_bulk, 512ll << 20);
    assert_int_equal(limits.max_args, 1024 * 1024);
    assert_int_equal(limits.max_request, 1ll << 30);
    assert_true(limits.authenticated);
    check_splits(&limits, "*1048576\r\n", 10, "~", 1);
    check_splits(&limits, "*1048577\r\n", 10, COUNT_ERROR, sizeof(COUNT_ERROR) - 1);
    limits.max_args = UINT64_MAX; /* a count is below 2^31 all the same */
    check_splits(&limits, "*2147483647\r\n", 13, "~", 1);
    check_splits(&limits, "*2147483648\r\n", 13, COUNT_ERROR, sizeof(COUNT_ERROR) - 1);
}

/* head, then fill repeated up to total bytes, then tail; cut where something might change. */
static void check_long(const char *head, char fill, size_t total, const char *tail,
                       const char *expect)
{
    struct resp_limits limits;
    resp_limits_init(&limits);
    struct text input = {0};
    text_add(&input, head, strlen(head));
    while (input.len < total)
        text_add(&input, &fill, 1);
    text_add(&input, tail, strlen(tail));
    struct feed f;
    static const size_t places[] = {0, 1, 3, 4, 5, 1000, 16384, 65535, 65536, 65537, 65540, 65541};
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        feed_init(&f, &limits);
        size_t cut = places[i] < input.len ? places[i] : input.len;
        feed_chunk(&f, input.at, cut);
        for (size_t from = cut; from < input.len; from += 8192)
            feed_chunk(&f, input.at + from, input.len - from < 8192 ? input.len - from : 8192);
        feed_end(&f);
        char last[80];
        size_t keep = f.outcome.len < sizeof(last) - 1 ? f.outcome.len : sizeof(last) - 1;
        memcpy(last, f.outcome.at + f.outcome.len - keep, keep);
        last[keep] = '\0';
        const char *got = strrchr(last, ')') != NULL ? strrchr(last, ')') : last;
        assert_string_equal(got, expect);
        feed_free(&f);
    }
    free(input.at);
}

static void a_line_may_have_64_kib_before_its_end(void **state)
{
    (void)state;
    check_long("", 'A', 65536, "", "~");
    check_long("", 'A', 65537, "", "!Protocol error: too big inline request");
    check_long("PING ", 'A', 65535, "\n", ")~");
    check_long("PING ", 'A', 65536, "\n", ")~");
    check_long("PING ", 'A', 65537, "\n", "!Protocol error: too big inline request");
    check_long("PING ", 'A', 65535, "\r\n", ")~");
    check_long("*", '1', 65536, "", "~");
    check_long("*", '1', 65537, "", "!Protocol error: too big mbulk count string");
    check_long("*", '1', 65536, "\r\n", COUNT_ERROR);
    check_long("*", '1', 65537, "\r\n", "!Protocol error: too big mbulk count string");
    check_long("*1\r\n", '$', 65540, "", "~");
    check_long("*1\r\n", '$', 65541, "", "!Protocol error: too big bulk count string");
    check_long("*1\r\n", 'x', 65541, "", "!Protocol error: too big bulk count string");
    check_long("*1\r\n", 'x', 65540, "\r\n", "!Protocol error: expected '$', got 'x'");
}

static void a_line_with_a_nul_runs_into_the_64_kib_limit(void **state)
{
    (void)state;
    struct resp_limits limits;
    resp_limits_init(&limits);
    static const struct example heads[] = {
        EXAMPLE("PING\0\n", "!Protocol error: too big inline request"),
        EXAMPLE("*1\0\r\n", "!Protocol error: too big mbulk count string"),
        EXAMPLE("*1\r\n$4\0\r\nPING\r\n", "!Protocol error: too big bulk count string"),
        EXAMPLE("*1\r\n\0\r\n", "!Protocol error: too big bulk count string"),
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
        struct text input = {0};
        text_add(&input, heads[i].input, heads[i].len);
        while (input.len < 65536 + 64)
            text_add(&input, "A", 1);
        for (size_t cut = 0; cut < 32; cut++)
            check_cuts(&limits, input.at, input.len, &cut, 1, heads[i].expect, heads[i].expect_len);
        free(input.at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_an_array_of_bulks_of_any_bytes),
        cmocka_unit_test(lines_and_arrays_may_be_mixed_in_one_pipeline),
        cmocka_unit_test(empty_requests_are_ignored),
        cmocka_unit_test(a_bad_multibulk_length_is_refused),
        cmocka_unit_test(a_bulk_must_begin_with_a_dollar),
        cmocka_unit_test(a_bad_bulk_length_is_refused),
        cmocka_unit_test(line_ends_are_taken_as_loosely_as_redis_takes_them),
        cmocka_unit_test(inline_requests_follow_the_quoting_rules),
        cmocka_unit_test(before_authentication_arrays_are_small),
        cmocka_unit_test(limits_hold_exactly),
        cmocka_unit_test(the_default_limits_are_those_of_redis),
        cmocka_unit_test(a_line_may_have_64_kib_before_its_end),
        cmocka_unit_test(a_line_with_a_nul_runs_into_the_64_kib_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
