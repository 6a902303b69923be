/*
 * For tests of the request parser: feeds it as a connection would and writes the outcome as a text:
 * each request as "(argument|argument)", then "!text" for a protocol error, "!size" for a request
 * beyond max_request, or "~" when more bytes are awaited.
 */
#ifndef PANDO_TESTS_RESP_FEED_H
#define PANDO_TESTS_RESP_FEED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/resp.h"

struct text {
    char *at;
    size_t len, cap;
};

static inline void text_add(struct text *t, const char *data, size_t len)
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

static inline void feed_init(struct feed *f, const struct resp_limits *limits)
{
    *f = (struct feed){.limits = *limits};
}

static inline void feed_free(struct feed *f)
{
    resp_args_free(&f->args);
    free(f->left.at);
    free(f->outcome.at);
}

static inline void feed_record(struct feed *f, const struct resp_request *req)
{
    assert_int_equal(req->first + req->argc, f->args.n);
    for (size_t i = 0; i < req->argc; i++) {
        const struct resp_arg *arg = &f->args.v[req->first + i];
        text_add(&f->outcome, i == 0 ? "(" : "|", 1);
        text_add(&f->outcome, arg->data, arg->len);
    }
    text_add(&f->outcome, ")", 1);
}

static inline void feed_error(struct feed *f, int rc)
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
static inline void feed_chunk(struct feed *f, const char *data, size_t len)
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

static inline void feed_end(struct feed *f)
{
    if (!f->ended)
        text_add(&f->outcome, "~", 1);
}

/* Checks the outcome of input cut at the given places against expect. */
static inline void check_cuts(const struct resp_limits *limits, const char *input, size_t len,
                              const size_t *cuts, size_t ncuts, const char *expect,
                              size_t expect_len)
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
static inline void check_bytes(const struct resp_limits *limits, const char *input, size_t len,
                               bool hint, const char *expect, size_t expect_len)
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
static inline void check_splits(const struct resp_limits *limits, const char *input, size_t len,
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

static inline void check_examples(const struct resp_limits *limits, const struct example *e,
                                  size_t n)
{
    for (size_t i = 0; i < n; i++)
        check_splits(limits, e[i].input, e[i].len, e[i].expect, e[i].expect_len);
}

#define CHECK_EXAMPLES(limits, e) check_examples(limits, e, sizeof(e) / sizeof(*(e)))

#endif
