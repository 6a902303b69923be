/*
 * keys.c - keys and values by number.
 *
 * Invariant: a key has 0 to ORACLE_MAX_KEY bytes and is not ORACLE_MAX_KEY zeros (oracle.h).
 */
#include "tests/lmdb/stream.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define LARGE        16    /* one value in so many */
#define TO_FILE      66560 /* values over this are written to the file at once */

static void put_big_endian(unsigned char *to, uint64_t n, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (unsigned char)(n >> 8 * (len - 1 - i));
}

/* Counting in base 4 without a zero: every string, shorter ones first, as number 0 the empty one.
 */
static size_t short_key(unsigned index, unsigned char *out)
{
    static const unsigned char letters[] = {0, 'a', 'b', 255};
    size_t len = 0;
    for (; index > 0; index = (index - 1) / 4)
        out[len++] = letters[(index - 1) % 4];
    return len;
}

static size_t prefix_key(const struct config *c, unsigned index, unsigned char *out)
{
    memset(out, 'p', c->prefix);
    out[c->prefix / 2] = (unsigned char)('a' + index % 4);
    put_big_endian(out + c->prefix, mix(index), 5);
    size_t len = c->prefix + 5;
    if (index % 16 == 5) { /* between two groups: nothing in common with either */
        out[c->prefix / 2 + 1] = '!';
        return c->prefix / 2 + 2;
    }
    if (index % 16 == 9) { /* as long as can be */
        memset(out + len, 'e', ORACLE_MAX_KEY - len);
        return ORACLE_MAX_KEY;
    }
    return len;
}

static size_t nested_key(unsigned index, unsigned char *out)
{
    static const unsigned char tails[] = {'n', 0, 'm', 'o', 255};
    size_t len = index * 37 % (ORACLE_MAX_KEY + 1);
    memset(out, 'n', len);
    if (len > 0)
        out[len - 1] = tails[index / (ORACLE_MAX_KEY + 1) % sizeof tails];
    return len;
}

static size_t edge_key(unsigned index, unsigned char *out)
{
    static const uint16_t lens[] = {
        0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   12,  16,  31,  32,  33,
        63,  64,  65,  127, 128, 129, 254, 255, 256, 257, 300, 383, 384, 400, 467,
        468, 469, 470, 471, 472, 500, 503, 504, 505, 506, 507, 508, 509, 510, 511,
    };
    size_t len = lens[index % COUNT(lens)];
    unsigned id = index / (unsigned)COUNT(lens);
    size_t places[] = {len - 2, len - 2, len / 2, 0};
    memset(out, 'f', len);
    if (len >= 4)
        put_big_endian(out + places[mix(index) % 4], id * 263u + id / 250, 2);
    return len;
}

static size_t zeros_key(unsigned index, unsigned char *out)
{
    static const unsigned char tails[] = {0, 0, 1, 255};
    size_t len = index / 4 * 7 % ORACLE_MAX_KEY;
    memset(out, 0, len);
    if (len > 0)
        out[len - 1] = tails[index % 4];
    return len;
}

static size_t numbered_key(const struct config *c, enum key_kind kind, unsigned index,
                           unsigned char *out)
{
    switch (kind) {
    case KEY_SHORT:
        return short_key(index, out);
    case KEY_PREFIX:
        return prefix_key(c, index, out);
    case KEY_NESTED:
        return nested_key(index, out);
    case KEY_EDGE:
        return edge_key(index, out);
    case KEY_ZEROS:
        return zeros_key(index, out);
    case KEY_MIXED:
        return numbered_key(c, (enum key_kind)(index % KEY_MIXED), index / KEY_MIXED, out);
    default:
        put_big_endian(out, index, 8);
        return 8;
    }
}

/* Turns the key into a close neighbour of it. */
static size_t neighbour(unsigned char *key, size_t len, unsigned how)
{
    switch (how % 4) {
    case 0:
        return len - (len > 0);
    case 1:
        if (len < ORACLE_MAX_KEY)
            key[len++] = 0;
        return len;
    case 2:
        if (len > 0)
            key[len - 1]++;
        return len;
    default:
        if (len > 0)
            key[len - 1]--;
        return len;
    }
}

static bool only_zeros(const unsigned char *bytes, size_t len)
{
    while (len > 0 && bytes[len - 1] == 0)
        len--;
    return len == 0;
}

struct ps_slice stream_key(const struct config *c, unsigned tree, uint16_t spec, unsigned twist,
                           unsigned char buffer[ORACLE_MAX_KEY])
{
    size_t len = numbered_key(c, c->kinds[tree], spec % c->space, buffer);
    if (twist % 16 < 4)
        len = neighbour(buffer, len, twist);
    if (len == ORACLE_MAX_KEY && only_zeros(buffer, len))
        len--;
    return (struct ps_slice){buffer, len};
}

struct ps_slice op_key(const struct config *c, const struct op *op,
                       unsigned char buffer[ORACLE_MAX_KEY])
{
    return stream_key(c, op->tree, op->key, op->twist % 16, buffer);
}

struct ps_slice op_other(const struct config *c, const struct op *op,
                         unsigned char buffer[ORACLE_MAX_KEY])
{
    return stream_key(c, op->tree, op->other, op->twist / 16u, buffer);
}

/* ---- values --------------------------------------------------------------------------------- */

static size_t large_size(const struct config *c, uint64_t random)
{
    uint64_t r = random / 64;
    switch (random % 64) {
    case 0:
        return TO_FILE - 2 + r % 5;
    case 1:
        return TO_FILE + r % (MAX_VALUE - TO_FILE);
    case 2:
    case 3:
    case 4:
        return 65536 - r % 3;
    default:
        break;
    }
    if (random % 8 == 5) /* about whole pages, with the header of a run */
        return c->page_size * (1 + r % (65536 / c->page_size)) - 48 + r / 64 % 64;
    return r % 65537;
}

static size_t value_size(const struct config *c, uint16_t spec)
{
    uint64_t random = mix(spec + UINT64_C(0x76616c7565));
    if (spec % LARGE == 0)
        return large_size(c, random);
    uint64_t r = random / 32;
    switch (random % 32) {
    case 0:
        return 0;
    case 1:
    case 2: /* where values leave the leaf */
        return c->page_size / 2 - 100 + r % 120;
    case 3:
        return c->page_size / 4 - 60 + r % 80;
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
        return 20 + r % 200;
    default:
        return 1 + r % 20;
    }
}

struct ps_slice stream_value(const struct config *c, uint16_t spec, uint16_t key,
                             unsigned char buffer[MAX_VALUE])
{
    size_t len = value_size(c, spec);
    uint64_t word = mix(spec | (uint64_t)key << 16);
    for (size_t i = 0; i < len; i += 8) {
        size_t n = len - i < 8 ? len - i : 8;
        memcpy(buffer + i, &word, n);
        word = word * UINT64_C(0x5851f42d4c957f2d) + 1;
    }
    return (struct ps_slice){buffer, len};
}
