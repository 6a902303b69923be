/*
 * fuzz_resp.c - bytes through all that protocol/ reads and writes.
 *
 * The input's first byte chooses what is done with the rest:
 *   requests  a stream of requests gives the same requests and the same end whole, in pieces of any
 *             sizes, and in pieces that are looked at only when resp_parser_need() is there
 *   numbers   what is read as a number is written as the same number, integers as the same text
 *   replies   whatever texts a reply is made of, it is one well-formed reply
 */
#include "tests/fuzz/fuzz.h"

#include "protocol/number.h"
#include "protocol/resp.h"
#include "tests/support/reply.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---- requests ------------------------------------------------------------------------------- */

/* What was understood, as a hash over the lengths and bytes of arguments, and the last status. */
struct outcome {
    uint64_t hash;
    size_t requests;
    int status;
    struct resp_parser parser;
};

static uint64_t mix(uint64_t hash, const char *data, size_t len)
{
    hash = (hash ^ len) * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3u;
    }
    return hash;
}

/* Parses all requests of a block of exactly len bytes; returns how many bytes were used. */
static size_t parse_block(struct outcome *o, const struct resp_limits *limits, const char *data,
                          size_t len)
{
    struct resp_args args = {0};
    char *block = malloc(len > 0 ? len : 1);
    size_t off = 0, used;
    struct resp_request req;
    FUZZ_CHECK(block != NULL);
    memcpy(block, data, len);
    for (;;) {
        size_t before = args.n;
        o->status = resp_parse(&o->parser, limits, block + off, len - off, &args, &req, &used);
        FUZZ_CHECK(used <= len - off);
        off += used;
        if (o->status != RESP_OK) {
            FUZZ_CHECK(args.n == before);
            break;
        }
        FUZZ_CHECK(used > 0 && req.first == before && req.argc > 0 && args.n == before + req.argc);
        o->requests++;
        o->hash = mix(o->hash, "", req.argc);
        for (size_t i = 0; i < req.argc; i++) {
            o->hash = mix(o->hash, args.v[req.first + i].data, args.v[req.first + i].len);
        }
    }
    resp_args_free(&args);
    free(block);
    return off;
}

/* Pieces of one to `most` bytes, chosen by `seed`. */
static void parse_pieces(struct outcome *o, const struct resp_limits *limits, const char *data,
                         size_t len, uint64_t seed, size_t most, bool hint)
{
    size_t start = 0, end = 0;
    o->status = RESP_NEED_MORE;
    while (end < len && o->status == RESP_NEED_MORE) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t piece = 1 + (size_t)(seed >> 33) % most;
        end = len - end < piece ? len : end + piece;
        if (!hint || end - start >= resp_parser_need(&o->parser)) {
            start += parse_block(o, limits, data + start, end - start);
        }
    }
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
    char text_a[RESP_ERROR_TEXT_MAX], text_b[RESP_ERROR_TEXT_MAX];
    FUZZ_CHECK(a->hash == b->hash && a->requests == b->requests && a->status == b->status);
    if (a->status == RESP_EPROTO) {
        size_t n = resp_parser_error(&a->parser, text_a);
        FUZZ_CHECK(n == strlen(text_a) && n == resp_parser_error(&b->parser, text_b));
        FUZZ_CHECK(memcmp(text_a, text_b, n) == 0);
    }
}

static void try_requests(unsigned choice, unsigned seed, const char *data, size_t len)
{
    static const size_t most[] = {1, 3, 17, 200};
    struct outcome whole = {.status = RESP_NEED_MORE};
    struct outcome pieces = whole, hinted = whole;
    struct resp_limits limits;
    resp_limits_init(&limits);
    limits.authenticated = (choice & 1) == 0;
    limits.max_request = choice & 2 ? 64 : limits.max_request;
    limits.max_bulk = choice & 4 ? 8 : limits.max_bulk;
    limits.max_args = choice & 8 ? 3 : limits.max_args;
    if (len > 0) {
        parse_block(&whole, &limits, data, len);
    }
    parse_pieces(&pieces, &limits, data, len, seed, most[seed % 4], false);
    parse_pieces(&hinted, &limits, data, len, seed + 1, most[seed / 4 % 4], true);
    check_same(&whole, &pieces);
    check_same(&whole, &hinted);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static void try_integer(const char *data, size_t len)
{
    char text[NUMBER_INT_MAX];
    int64_t value;
    if (number_to_int(data, len, &value) != 0) {
        return;
    }
    FUZZ_CHECK(number_from_int(value, text) == len && memcmp(text, data, len) == 0);
    if (value >= 0) {
        FUZZ_CHECK(number_digits((uint64_t)value) == len);
        FUZZ_CHECK(number_from_uint((uint64_t)value, text) == len && memcmp(text, data, len) == 0);
    }
}

static void try_numbers(const char *data, size_t len)
{
    char text[NUMBER_DOUBLE_MAX], long_text[NUMBER_LONG_DOUBLE_MAX];
    double value, again;
    long double long_value, long_again;
    try_integer(data, len);
    if (number_to_double(data, len, &value) == 0) {
        FUZZ_CHECK(!isnan(value));
        size_t n = number_from_double(value, text);
        FUZZ_CHECK(n <= sizeof(text));
        FUZZ_CHECK(number_to_double(text, n, &again) == 0 && again == value);
    }
    if (number_to_long_double(data, len, &long_value) == 0) {
        FUZZ_CHECK(!isnan(long_value));
        size_t n = number_from_long_double(long_value, long_text);
        FUZZ_CHECK(n <= sizeof(long_text));
        /* 17 decimals: what is small loses digits, the largest are longer than what is read. */
        if (n < sizeof(long_text) / 2) {
            FUZZ_CHECK(number_to_long_double(long_text, n, &long_again) == 0);
            FUZZ_CHECK(isinf(long_value) ? long_again == long_value
                                         : fabsl(long_again - long_value) < 1e-17L ||
                                               fabsl(long_again / long_value - 1) < 1e-17L);
        }
    }
}

/* ---- replies -------------------------------------------------------------------------------- */

/* A string of the input, which begins with its length. */
static const char *take(const char **data, size_t *left, size_t *len)
{
    const char *text = *data + (*left > 0);
    *len = *left > 0 ? (unsigned char)**data : 0;
    *left -= *left > 0;
    *len = *len < *left ? *len : *left;
    *left -= *len;
    *data = text + *len;
    return text;
}

static void write_scalar(struct resp_out *out, unsigned kind, const char *text, size_t len)
{
    int64_t number = 0;
    char word[64];
    memcpy(&number, text, len < sizeof(number) ? len : sizeof(number));
    snprintf(word, sizeof(word), "%.*s", (int)len, text);
    switch (kind) {
    case 0:
        resp_write_simple_n(out, text, len);
        break;
    case 1:
        resp_write_error_n(out, text, len);
        break;
    case 2:
        resp_write_bulk(out, text, len);
        break;
    case 3:
        resp_write_errorf(out, "%.*s", (int)len, text);
        break;
    case 4:
        resp_write_verbatim(out, "txt", text, len);
        break;
    case 5:
        resp_write_int(out, number);
        break;
    case 6:
        resp_write_bulk_int(out, number);
        break;
    case 7:
        resp_write_double(out, (double)number / 3);
        break;
    case 8:
        resp_write_bool(out, number & 1);
        break;
    case 9:
        resp_write_null(out);
        break;
    case 10:
        resp_write_simple(out, word);
        break;
    default:
        resp_write_error(out, word);
    }
}

#define SCALARS 12

/* Aggregates with lengths known before or behind, to a depth of four. */
static void write_value(struct resp_out *out, const char **data, size_t *left, unsigned depth)
{
    size_t len, mark, n = 0;
    unsigned kind = *left > 0 ? (unsigned char)**data % (depth < 4 ? SCALARS + 5 : SCALARS) : 9;
    const char *text;
    *data += *left > 0;
    *left -= *left > 0;
    if (kind < SCALARS) {
        text = take(data, left, &len);
        write_scalar(out, kind, text, len);
        return;
    }
    size_t items = *left > 0 ? (unsigned char)**data % 16 : 0;
    mark = out->len;
    if (kind == SCALARS) {
        resp_write_array(out, items);
    } else if (kind == SCALARS + 1) {
        resp_write_map(out, items / 2);
        items = items / 2 * 2;
    } else {
        mark = resp_defer(out);
    }
    for (; n < items; n++) {
        write_value(out, data, left, depth + 1);
    }
    if (kind == SCALARS + 2) {
        resp_defer_array(out, mark, n);
    } else if (kind == SCALARS + 3) {
        resp_defer_set(out, mark, n);
    } else if (kind == SCALARS + 4) {
        if (n % 2 != 0) {
            resp_write_null(out);
        }
        resp_defer_map(out, mark, (n + 1) / 2);
    }
}

static void try_replies(unsigned choice, unsigned seed, const char *data, size_t len)
{
    struct resp_out out;
    struct heap heap = {0};
    size_t limit = choice & 1 ? SIZE_MAX : seed, used = 0;
    resp_out_init(&out);
    resp_out_begin(&out, choice & 2 ? 3 : 2, limit);
    while (len > 0 && out.status == 0) {
        size_t before = out.len;
        struct reply reply;
        write_value(&out, &data, &len, 0);
        if (out.status != 0) {
            FUZZ_CHECK(out.status == RESP_EOUT_LIMIT && limit != SIZE_MAX);
            resp_out_truncate(&out, before);
            FUZZ_CHECK(out.len == before);
            break;
        }
        FUZZ_CHECK(reply_parse(&heap, out.buf + before, out.len - before, &used, &reply) == 1);
        FUZZ_CHECK(used == out.len - before);
    }
    FUZZ_CHECK(out.len <= limit);
    heap_free(&heap);
    resp_out_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    const char *rest = (const char *)data + 2;
    switch (data[0] >> 6) {
    case 2:
        try_numbers(rest, size - 2);
        break;
    case 3:
        try_replies(data[0], data[1], rest, size - 2);
        break;
    default:
        try_requests(data[0], data[1], rest, size - 2);
    }
    return 0;
}
