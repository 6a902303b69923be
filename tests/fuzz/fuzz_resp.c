/*
 * Fuzz target: a request stream must give the same outcome whole and in pieces, and no input may
 * break a promise of protocol/resp.h.
 *
 *     clang -std=c11 -D_GNU_SOURCE -g -O1 -I. -DWITH_LIBFUZZER -o build/fuzz_resp \
 *         -fsanitize=fuzzer,address,undefined tests/fuzz/fuzz_resp.c protocol/resp_*.c \
 *         protocol/number.c
 *     build/fuzz_resp -max_total_time=60
 *
 * The input's first byte chooses the limits, the second the sizes of the pieces. Without
 * WITH_LIBFUZZER it is a program that runs the files named as arguments, to reproduce a finding.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/check.h"
#include "protocol/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was understood, as a hash over the lengths and bytes of arguments and the last status. */
struct outcome {
    uint64_t hash;
    size_t requests;
    int status;
    struct resp_parser parser;
};

static uint64_t mix(uint64_t hash, const char *data, size_t len)
{
    hash = (hash ^ len) * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3u;
    return hash;
}

/* Parses all requests of a block of exactly len bytes; returns how many bytes were used. */
static size_t parse_block(struct outcome *o, const struct resp_limits *limits, const char *data,
                          size_t len)
{
    struct resp_args args = {0};
    char *block = malloc(len > 0 ? len : 1);
    RESP_CHECK(block != NULL);
    memcpy(block, data, len);
    size_t off = 0, used;
    struct resp_request req;
    for (;;) {
        size_t before = args.n;
        o->status = resp_parse(&o->parser, limits, block + off, len - off, &args, &req, &used);
        RESP_CHECK(used <= len - off);
        off += used;
        if (o->status != RESP_OK) {
            RESP_CHECK(args.n == before);
            break;
        }
        RESP_CHECK(used > 0 && req.first == before && req.argc > 0 && args.n == before + req.argc);
        o->requests++;
        o->hash = mix(o->hash, "", req.argc);
        for (size_t i = 0; i < req.argc; i++)
            o->hash = mix(o->hash, args.v[req.first + i].data, args.v[req.first + i].len);
    }
    resp_args_free(&args);
    free(block);
    return off;
}

/* Pieces of one to step bytes. */
static void parse_pieces(struct outcome *o, const struct resp_limits *limits, const char *data,
                         size_t len, size_t step)
{
    size_t start = 0, end = 0;
    unsigned turn = 0;
    o->status = RESP_NEED_MORE;
    while (end < len && o->status == RESP_NEED_MORE) {
        size_t piece = 1 + turn++ * 7 % step;
        end = len - end < piece ? len : end + piece;
        start += parse_block(o, limits, data + start, end - start);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct resp_limits limits;
    resp_limits_init(&limits);
    limits.authenticated = (data[0] & 1) == 0;
    if (data[0] & 2)
        limits.max_request = 64;
    if (data[0] & 4)
        limits.max_bulk = 8;
    if (data[0] & 8)
        limits.max_args = 3;
    const char *input = (const char *)data + 2;
    size_t len = size - 2;
    struct outcome whole = {0}, pieces = {0};
    parse_block(&whole, &limits, input, len);
    parse_pieces(&pieces, &limits, input, len, 1 + data[1] % 32);
    RESP_CHECK(whole.hash == pieces.hash && whole.requests == pieces.requests);
    RESP_CHECK(whole.status == pieces.status);
    if (whole.status == RESP_EPROTO) {
        char a[RESP_ERROR_TEXT_MAX], b[RESP_ERROR_TEXT_MAX];
        size_t n = resp_parser_error(&whole.parser, a);
        RESP_CHECK(n == resp_parser_error(&pieces.parser, b) && memcmp(a, b, n) == 0);
    }
    return 0;
}

#ifndef WITH_LIBFUZZER
static void run_file(const char *name)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        perror(name);
        exit(1);
    }
    size_t size = fread(data, 1, sizeof(data), file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        run_file(argv[i]);
    return 0;
}
#endif
