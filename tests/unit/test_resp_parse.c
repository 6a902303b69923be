/*
 * The request parser: outcomes, limits, and that splitting the input changes nothing.
 *
 * The expected outcomes of malformed input are what redis-server 7.0.15 answered to the same bytes
 * (--save ''; the unauthenticated ones with --requirepass). An outcome is written as a text: each
 * request as "(argument|argument)", then "!text" for a protocol error, "!size" for a request beyond
 * max_request, or "~" when more bytes are awaited.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/resp.h"

/* ---- feeding a parser as a connection would ----------------------------------------------------
 */

struct text {
    char *at;
    size_t len, cap;
};

static void text_add(struct text *t, const char *data, size_t len)
{
    if (t->len + len > t->cap) {
        t->cap = (t->len + len) * 2;
        t->at = realloc(t->at, t->cap);
        assert_non_null(t->at);
    }
    if (len > 0)
        memcpy(t->at + t->len, data, len);
    t->len += len;
}

struct feed {
    struct resp_limits limits;
    struct resp_parser parser;
    struct resp_args args;
    struct text left; /* bytes received and not used */
    struct text outcome;
    bool use_hint; /* parse only when resp_parser_need() bytes are there */
    bool ended;
};

static void feed_init(struct feed *f, const struct resp_limits *limits)
{
    *f = (struct feed){.limits = *limits};
}

static void feed_free(struct feed *f)
{
    resp_args_free(&f->args);
    free(f->left.at);
    free(f->outcome.at);
}

static void feed_record(struct feed *f, const struct resp_request *req)
{
    assert_int_equal(req->first + req->argc, f->args.n);
    for (size_t i = 0; i < req->argc; i++) {
        const struct resp_arg *arg = &f->args.v[req->first + i];
        text_add(&f->outcome, i == 0 ? "(" : "|", 1);
        text_add(&f->outcome, arg->data, arg->len);
    }
    text_add(&f->outcome, ")", 1);
}

static void feed_error(struct feed *f, int rc)
{
    char text[RESP_ERROR_TEXT_MAX] = "size";
    size_t len = 4;
    f->ended = true;
    text_add(&f->outcome, "!", 1);
    if (rc == RESP_EPROTO)
        len = resp_parser_error(&f->parser, text);
    else
        assert_int_equal(rc, RESP_EREQUEST_SIZE);
    assert_int_equal(len, strlen(text));
    text_add(&f->outcome, text, len);
}

/* Gives the parser a chunk behind what is left, in a block of exactly that size at a new place. */
static void feed_chunk(struct feed *f, const char *data, size_t len)
{
    if (f->ended)
        return;
    text_add(&f->left, data, len);
    if (f->use_hint && f->left.len < resp_parser_need(&f->parser))
        return;
    size_t total = f->left.len, off = 0;
    char *buf = malloc(total > 0 ? total : 1);
    assert_non_null(buf);
    if (total > 0)
        memcpy(buf, f->left.at, total);
    resp_args_reset(&f->args);
    for (;;) {
        struct resp_request req;
        size_t used, before = f->args.n;
        int rc = resp_parse(&f->parser, &f->limits, buf + off, total - off, &f->args, &req, &used);
        assert_true(used <= total - off);
        off += used;
        if (rc == RESP_OK) {
            feed_record(f, &req);
            continue;
        }
        assert_int_equal(f->args.n, before);
        if (rc != RESP_NEED_MORE)
            feed_error(f, rc);
        break;
    }
    if (off < total)
        memmove(f->left.at, f->left.at + off, total - off);
    f->left.len = total - off;
    free(buf);
}

static void feed_end(struct feed *f)
{
    if (!f->ended)
        text_add(&f->outcome, "~", 1);
}

/* Checks the outcome of input cut at the given places against expect. */
static void check_cuts(const struct resp_limits *limits, const char *input, size_t len,
                       const size_t *cuts, size_t ncuts, const char *expect, size_t expect_len)
{
    struct feed f;
    feed_init(&f, limits);
    size_t from = 0;
    for (size_t i = 0; i < ncuts; i++) {
        feed_chunk(&f, input + from, cuts[i] - from);
        from = cuts[i];
    }
    feed_chunk(&f, input + from, len - from);
    feed_end(&f);
    if (f.outcome.len != expect_len || memcmp(f.outcome.at, expect, expect_len) != 0)
        fail_msg("input %.60s (%zu bytes, first cut %zu): got %.*s, expected %.*s", input, len,
                 ncuts > 0 ? cuts[0] : len, (int)f.outcome.len, f.outcome.at, (int)expect_len,
                 expect);
    feed_free(&f);
}

/* The same, a byte at a time. */
static void check_bytes(const struct resp_limits *limits, const char *input, size_t len, bool hint,
                        const char *expect, size_t expect_len)
{
    struct feed f;
    feed_init(&f, limits);
    f.use_hint = hint;
    for (size_t i = 0; i < len; i++)
        feed_chunk(&f, input + i, 1);
    feed_end(&f);
    assert_int_equal(f.outcome.len, expect_len);
    assert_memory_equal(f.outcome.at, expect, expect_len);
    feed_free(&f);
}

/* Whole, cut at every byte, and a byte at a time. */
static void check_splits(const struct resp_limits *limits, const char *input, size_t len,
                         const char *expect, size_t expect_len)
{
    check_cuts(limits, input, len, NULL, 0, expect, expect_len);
    for (size_t cut = 0; cut <= len; cut++)
        check_cuts(limits, input, len, &cut, 1, expect, expect_len);
    check_bytes(limits, input, len, false, expect, expect_len);
    check_bytes(limits, input, len, true, expect, expect_len);
}

struct example {
    const char *input;
    size_t len;
    const char *expect;
    size_t expect_len;
};

#define EXAMPLE(input, expect)                               \
    {                                                        \
        input, sizeof(input) - 1, expect, sizeof(expect) - 1 \
    }

static void check_examples(const struct resp_limits *limits, const struct example *e, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check_splits(limits, e[i].input, e[i].len, e[i].expect, e[i].expect_len);
}

#define CHECK_EXAMPLES(limits, e) check_examples(limits, e, sizeof(e) / sizeof(*(e)))

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

/* ---- promises of the interface -----------------------------------------------------------------
 */

static void arguments_are_slices_of_the_input(void **state)
{
    (void)state;
    struct resp_limits limits;
    resp_limits_init(&limits);
    struct resp_parser p = {0};
    struct resp_args args = {0};
    struct resp_request req;
    size_t used;
    static const char input[] = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\nGET k\r\nGET \"k\"\r\n";
    size_t len = sizeof(input) - 1;
    assert_int_equal(resp_parse(&p, &limits, input, len, &args, &req, &used), RESP_OK);
    assert_ptr_equal(args.v[0].data, input + 8);
    assert_ptr_equal(args.v[1].data, input + 17);
    assert_int_equal(used, 20);
    assert_int_equal(resp_parse(&p, &limits, input + 20, len - 20, &args, &req, &used), RESP_OK);
    assert_int_equal(req.first, 2); /* behind those of the first request, which stay */
    assert_ptr_equal(args.v[3].data, input + 24);
    assert_ptr_equal(args.v[0].data, input + 8);
    assert_int_equal(resp_parse(&p, &limits, input + 27, len - 27, &args, &req, &used), RESP_OK);
    assert_int_equal(args.v[req.first + 1].len, 1);
    assert_int_equal(used, 9);
    resp_args_free(&args);
}

static void nothing_is_allocated_from_a_declared_length(void **state)
{
    (void)state;
    struct resp_limits limits;
    resp_limits_init(&limits);
    struct resp_parser p = {0};
    struct resp_args args = {0};
    struct resp_request req;
    size_t used;
    static const char input[] = "*1048576\r\n$1\r\na\r\n$536870912\r\nabc";
    assert_int_equal(resp_parse(&p, &limits, input, sizeof(input) - 1, &args, &req, &used),
                     RESP_NEED_MORE);
    assert_int_equal(used, 0);
    assert_true(args.cap <= 64);
    resp_args_free(&args);
}

static void an_unfinished_request_costs_a_connection_forty_bytes(void **state)
{
    (void)state;
    assert_true(sizeof(struct resp_parser) <= 40);
}

/* The pages of a bulk are made unreadable: whoever looked at them would be killed. */
static void the_bytes_of_a_bulk_are_never_looked_at(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = 64 * page;
    char *map =
        mmap(NULL, page + body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    char head[64];
    size_t head_len = (size_t)snprintf(head, sizeof(head), "*2\r\n$3\r\nGET\r\n$%zu\r\n", body);
    char *buf = map + page - head_len;
    memcpy(buf, head, head_len);
    memcpy(map + page + body, "\r\n", 2);
    assert_int_equal(mprotect(map + page, body, PROT_NONE), 0);

    struct resp_limits limits;
    resp_limits_init(&limits);
    struct resp_parser p = {0};
    struct resp_args args = {0};
    struct resp_request req;
    size_t used, total = head_len + body + 2;
    for (size_t len = 0; len < total; len += 511) {
        assert_int_equal(resp_parse(&p, &limits, buf, len, &args, &req, &used), RESP_NEED_MORE);
        assert_int_equal(used, 0);
        if (len >= head_len)
            assert_int_equal(resp_parser_need(&p), total);
    }
    assert_int_equal(resp_parse(&p, &limits, buf, total, &args, &req, &used), RESP_OK);
    assert_int_equal(used, total);
    assert_ptr_equal(args.v[1].data, map + page);
    assert_int_equal(args.v[1].len, body);
    resp_args_free(&args);
    munmap(map, page + body + page);
}

/* The same for a line that has no end yet, but for its first bytes. */
static void the_bytes_of_an_unfinished_line_are_looked_at_once(void **state)
{
    (void)state;
    static const char types[] = "*$P";
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (RESP_MAX_INLINE / page + 3) * page;
    struct resp_limits limits;
    resp_limits_init(&limits);
    for (const char *type = types; *type != '\0'; type++) {
        char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(map, MAP_FAILED);
        memset(map, '1', size);
        char *buf = map + page - 32;
        size_t head = *type == '$' ? 4 : 0;
        memcpy(buf, "*1\r\n", head);
        buf[head] = *type;
        struct resp_parser p = {0};
        struct resp_args args = {0};
        struct resp_request req;
        size_t used, len = 32 + page;
        for (; len <= head + RESP_MAX_INLINE; len += page) {
            assert_int_equal(resp_parse(&p, &limits, buf, len, &args, &req, &used), RESP_NEED_MORE);
            assert_int_equal(mprotect(buf + len - page, page, PROT_NONE), 0);
        }
        assert_int_equal(resp_parse(&p, &limits, buf, len, &args, &req, &used), RESP_EPROTO);
        resp_args_free(&args);
        munmap(map, size);
    }
}

static void an_error_is_final_until_the_parser_is_reset(void **state)
{
    (void)state;
    struct resp_limits limits;
    resp_limits_init(&limits);
    struct resp_parser p = {0};
    struct resp_args args = {0};
    struct resp_request req;
    size_t used;
    assert_int_equal(resp_parse(&p, &limits, "*x\r\n", 4, &args, &req, &used), RESP_EPROTO);
    assert_int_equal(resp_parse(&p, &limits, "PING\r\n", 6, &args, &req, &used), RESP_EPROTO);
    assert_int_equal(used, 0);
    resp_parser_reset(&p);
    assert_int_equal(resp_parse(&p, &limits, "PING\r\n", 6, &args, &req, &used), RESP_OK);
    resp_args_free(&args);
}

static void limits_may_change_within_a_request(void **state)
{
    (void)state;
    struct feed f;
    struct resp_limits limits;
    resp_limits_init(&limits);
    feed_init(&f, &limits);
    feed_chunk(&f, "*12\r\n$1\r\na\r\n", 12);
    f.limits.authenticated = false;
    f.limits.max_args = 2;
    for (int i = 1; i < 12; i++)
        feed_chunk(&f, "$1\r\nb\r\n", 7);
    feed_end(&f);
    assert_int_equal(f.outcome.len, 26);
    assert_memory_equal(f.outcome.at, "(a|b|b|b|b|b|b|b|b|b|b|b)~", 26);
    feed_free(&f);
}

static void a_request_of_many_arguments_grows_the_vector_as_they_arrive(void **state)
{
    (void)state;
    struct feed f;
    struct resp_limits limits;
    resp_limits_init(&limits);
    feed_init(&f, &limits);
    struct text input = {0};
    text_add(&input, "*200000\r\n", 9);
    for (int i = 0; i < 200000; i++)
        text_add(&input, "$1\r\nb\r\n", 7);
    for (size_t from = 0; from < input.len; from += 100000)
        feed_chunk(&f, input.at + from, input.len - from < 100000 ? input.len - from : 100000);
    feed_end(&f);
    assert_int_equal(f.outcome.len, 400002);
    assert_true(f.args.cap >= 200000);
    resp_args_reset(&f.args);
    assert_int_equal(f.args.cap, 0); /* a huge vector is given back */
    free(input.at);
    feed_free(&f);
}

/* ---- random input ------------------------------------------------------------------------------
 */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1dull >> 16;
}

static void add_random_bytes(struct text *t, uint64_t *seed, size_t n)
{
    static const char alphabet[] = "\r\n\0*$0123456789-+ \"'\\xab\xff";
    for (size_t i = 0; i < n; i++)
        text_add(t, alphabet + next_random(seed) % (sizeof(alphabet) - 1), 1);
}

static void add_random_array(struct text *t, uint64_t *seed)
{
    char line[32];
    unsigned argc = (unsigned)(next_random(seed) % 14);
    text_add(t, line, (size_t)sprintf(line, "*%u\r\n", argc));
    for (unsigned i = 0; i < argc; i++) {
        size_t len = next_random(seed) % 13;
        text_add(t, line, (size_t)sprintf(line, "$%zu\r\n", len));
        add_random_bytes(t, seed, len);
        text_add(t, "\r\n", 2);
    }
}

static void add_random_line(struct text *t, uint64_t *seed)
{
    static const char *const words[] = {
        "GET",  "k",        " ",  "  ", "\"a b\"", "'c'", "\t", "\"\\x41\"",
        "\"\"", "'it\\'s'", "\\", "\"", "\"\\n\"", " ",   " ",  "\v"};
    for (uint64_t n = next_random(seed) % 8; n > 0; n--) {
        const char *word = words[next_random(seed) % (sizeof(words) / sizeof(*words))];
        text_add(t, word, strlen(word));
    }
    text_add(t, "\r\n", 2);
}

/* A few requests, in three of four inputs with some bytes changed, removed or added. */
static void make_random_input(struct text *t, uint64_t *seed)
{
    t->len = 0;
    for (uint64_t n = 1 + next_random(seed) % 5; n > 0; n--) {
        if (next_random(seed) % 4 == 0)
            add_random_line(t, seed);
        else
            add_random_array(t, seed);
    }
    if (next_random(seed) % 4 == 0)
        return;
    for (uint64_t n = 1 + next_random(seed) % 3; n > 0; n--) {
        size_t at = next_random(seed) % t->len;
        char c = "\r\n\0*$-019\"'"[next_random(seed) % 12];
        if (next_random(seed) % 3 == 0)
            t->len = at + 1;
        t->at[at] = c;
    }
}

static void random_input_gives_the_same_outcome_however_it_is_split(void **state)
{
    (void)state;
    uint64_t seed = 20240229;
    struct text input = {0};
    unsigned requests = 0, errors = 0;
    for (int round = 0; round < 20000; round++) {
        struct resp_limits limits;
        resp_limits_init(&limits);
        limits.authenticated = round % 3 != 0;
        limits.max_request = round % 5 == 0 ? 60 : RESP_DEFAULT_MAX_REQUEST;
        make_random_input(&input, &seed);
        struct feed whole;
        feed_init(&whole, &limits);
        feed_chunk(&whole, input.at, input.len);
        feed_end(&whole);
        requests += memchr(whole.outcome.at, '(', whole.outcome.len) != NULL;
        errors += whole.ended;
        size_t cuts[64], ncuts = 0, at = 0;
        while (ncuts < 64 && (at += 1 + next_random(&seed) % 20) < input.len)
            cuts[ncuts++] = at;
        check_cuts(&limits, input.at, input.len, cuts, ncuts, whole.outcome.at, whole.outcome.len);
        check_bytes(&limits, input.at, input.len, round % 2 == 0, whole.outcome.at,
                    whole.outcome.len);
        feed_free(&whole);
    }
    assert_true(requests > 5000 && errors > 2000); /* both kinds of input were there */
    free(input.at);
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
        cmocka_unit_test(arguments_are_slices_of_the_input),
        cmocka_unit_test(nothing_is_allocated_from_a_declared_length),
        cmocka_unit_test(an_unfinished_request_costs_a_connection_forty_bytes),
        cmocka_unit_test(the_bytes_of_a_bulk_are_never_looked_at),
        cmocka_unit_test(the_bytes_of_an_unfinished_line_are_looked_at_once),
        cmocka_unit_test(an_error_is_final_until_the_parser_is_reset),
        cmocka_unit_test(limits_may_change_within_a_request),
        cmocka_unit_test(a_request_of_many_arguments_grows_the_vector_as_they_arrive),
        cmocka_unit_test(random_input_gives_the_same_outcome_however_it_is_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
