/*
 * Bytes for throw-away connections: inline commands in every dress, broken frames, and frames with
 * one byte changed.
 *
 * Invariant: the bytes fit one read of either server (16 KiB), so that a server which closes in the
 * middle has read them all and its last words aren't lost to a reset.
 */
#include "tests/differential/conn.h"
#include "tests/differential/generate.h"

#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define PIECE(text)            \
    {                          \
        text, sizeof(text) - 1 \
    }

struct piece {
    const char *data;
    size_t len;
};

/* Well-formed: the connection lives on. */
static const struct piece good[] = {
    PIECE("PING\r\n"),
    PIECE("ping\n"),
    PIECE("\r\n"),
    PIECE("\n"),
    PIECE("   \r\n"),
    PIECE("  PING  \r\n"),
    PIECE("SET k0 inline\r\n"),
    PIECE("GET k0\r\n"),
    PIECE("set \"k0\" 'single quoted'\r\n"),
    PIECE("SET k1 \"\\x00\\xff\\n\\t\\\"\"\r\n"),
    PIECE("GET k1\r\n"),
    PIECE("SET k0 'it\\'s'\n"),
    PIECE("ECHO \"\"\r\n"),
    PIECE("ECHO a\\b\r\n"),
    PIECE("ECHO \"\\q\\xzz\"\r\n"),
    PIECE("NOSUCH 'a b' c\r\n"),
    PIECE("ECHO a\tb\r\n"),
    PIECE("*0\r\n"),
    PIECE("*-1\r\n"),
    PIECE("*-5\r\n"),
    PIECE("*1\r\n$4\r\nPING\r\n"),
    PIECE("*1\r\n$4\r\nping\r\n"),
    PIECE("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"),
    PIECE("*2\r\n$3\r\nGET\r\n$2\r\nk0\r\n"),
    PIECE("*1\r\n$0\r\n\r\n"),
    PIECE("*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n"),
    PIECE("*3\r\n$3\r\nSET\r\n$2\r\nk2\r\n$1\r\n\0\r\n"),
    PIECE("*01\r\n$4\r\nPING\r\n"),
    PIECE("*1\r\n$04\r\nPING\r\n"),
    PIECE("\r\n\r\nPING\r\n"),
    PIECE("PING\0\r\n"),
    PIECE("\xff\xfe\r\n"),
    PIECE("+PING\r\n"),
    PIECE("$4\r\nPING\r\n"),
    PIECE("QUIT\r\n"),
    PIECE("HELLO 3\n"),
};

/* Broken: the server answers with an error, or not at all, and closes; or waits for more until the
 * end. */
static const struct piece bad[] = {
    PIECE("*abc\r\n"),
    PIECE("*\r\n"),
    PIECE("*1048577\r\n"),
    PIECE("*2147483648\r\n"),
    PIECE("*9223372036854775808\r\n"),
    PIECE("* 1\r\n"),
    PIECE("*1 \r\n"),
    PIECE("*+1\r\n"),
    PIECE("*1\r\n+PING\r\n"),
    PIECE("*1\r\n:4\r\n"),
    PIECE("*1\r\nPING\r\n"),
    PIECE("*1\r\n\r\n"),
    PIECE("*1\r\n$\r\n"),
    PIECE("*1\r\n$-1\r\n"),
    PIECE("*1\r\n$abc\r\n"),
    PIECE("*1\r\n$536870913\r\n"),
    PIECE("*1\r\n$9223372036854775808\r\n"),
    PIECE("*1\r\n$4294967296\r\n"),
    PIECE("*1\r\n$ 4\r\nPING\r\n"),
    PIECE("*1\r\n$4 \r\nPING\r\n"),
    PIECE("*1\r\n*1\r\n"),
    PIECE("*2\r\n$4\r\nPING\r\n"),
    PIECE("*1\r\n$4\r\nPI"),
    PIECE("*1\r\n$4\r\n"),
    PIECE("*1\r\n$4"),
    PIECE("*1"),
    PIECE("PING"),
    PIECE("SET k0 \"unbalanced\r\n"),
    PIECE("SET k0 'unbalanced\r\n"),
    PIECE("SET k0 \"a\"b\r\n"),
    PIECE("SET k0 'a'b\r\n"),
    PIECE("\"\r\n"),
    PIECE("*1\n$4\nPING\n"),
    PIECE("*1\r\n$3\r\nPING\r\n"),
    PIECE("*11\r\n$4\r\nPING\r\n"),
    PIECE("*2\r\n$3\r\nGET\r\n$16385\r\n"),
    PIECE("*1\r\n$-2\r\n"),
    PIECE("*1\r\n$1\r\n\r\n\r\n"),
};

/* A web browser's: the server closes without a word. Alone, as redis-server then also drops the
 * replies to what came before in the same read. */
static const struct piece web[] = {
    PIECE("POST / HTTP/1.1\r\nHost: x\r\n\r\n"),
    PIECE("Host: x\r\n"),
    PIECE("post\r\n"),
};

static void add_pieces(struct generator *gen, struct buffer *out, const struct piece *pieces,
                       size_t count, size_t times)
{
    for (size_t i = 0; i < times; i++) {
        const struct piece *piece = &pieces[rng_below(gen, count)];
        buffer_add(out, piece->data, piece->len);
    }
}

/* Changes, removes or doubles one byte. */
static void mutate(struct generator *gen, struct buffer *out)
{
    static const char likely[] = "\r\n$*+-:0123456789 \"'\\\0";
    if (out->len == 0)
        return;
    size_t at = rng_below(gen, out->len);
    switch (rng_below(gen, 3)) {
    case 0:
        out->data[at] = likely[rng_below(gen, sizeof likely - 1)];
        break;
    case 1:
        memmove(out->data + at, out->data + at + 1, out->len - at - 1);
        out->len--;
        break;
    default:
        buffer_add(out, out->data, 1);
        memmove(out->data + at + 1, out->data + at, out->len - at - 1);
        break;
    }
}

void malformed_make(struct generator *gen, struct step *step)
{
    struct buffer out = {0};
    bool from_web = rng_percent(gen, 4);
    add_pieces(gen, &out, good, COUNT_OF(good), from_web ? 0 : rng_below(gen, 5));
    if (from_web)
        add_pieces(gen, &out, web, COUNT_OF(web), 1);
    else if (rng_percent(gen, 30))
        mutate(gen, &out);
    else if (rng_percent(gen, 80))
        add_pieces(gen, &out, bad, COUNT_OF(bad), 1);
    if (!from_web && rng_percent(gen, 30))
        add_pieces(gen, &out, good, COUNT_OF(good), 1 + rng_below(gen, 2));
    step->raw = heap_copy(&gen->sequence->heap, out.data, out.len);
    step->raw_len = out.len;
    step->ends_batch = true;
    buffer_free(&out);
}
