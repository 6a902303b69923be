/*
 * keys.c - random keys and values, of the kinds that are hard for a B+tree.
 */
#include "tests/model/keys.h"

#include <stdio.h>
#include <string.h>

#define ID_BYTES 6

const char *const key_kind_names[KEY_KINDS] = {
    [KEY_SHORT] = "short",   [KEY_ASCENDING] = "ascending", [KEY_DESCENDING] = "descending",
    [KEY_PREFIX] = "prefix", [KEY_NESTED] = "nested",       [KEY_EDGE] = "edge",
    [KEY_HUGE] = "huge",
};

static void put_big_endian(unsigned char *at, uint64_t number, size_t bytes)
{
    for (size_t i = bytes; i-- > 0; number >>= 8)
        at[i] = (unsigned char)number;
}

static size_t short_key(struct keygen *gen, struct rng *rng, unsigned char *buffer)
{
    if (rng_one_in(rng, 100))
        return 0;
    if (rng_one_in(rng, 4)) {
        size_t len = rng_between(rng, 1, 8);
        put_big_endian(buffer, rng_next(rng), len);
        return len;
    }
    return (size_t)snprintf((char *)buffer, 16, "%x", (unsigned)rng_below(rng, gen->space));
}

static size_t counted_key(struct keygen *gen, struct rng *rng, unsigned char *buffer)
{
    gen->counter += rng_between(rng, 1, 3);
    uint64_t n = gen->kind == KEY_ASCENDING ? gen->counter : ~gen->counter;
    put_big_endian(buffer, n, 8);
    return 8;
}

/* Four groups of keys, each with a long prefix of its own; and, rarely, keys between two groups,
 * with which a page has next to nothing in common. */
static size_t prefix_key(struct keygen *gen, struct rng *rng, unsigned char *buffer)
{
    size_t len = gen->page_size / 8 - 24, middle = len / 2;
    memset(buffer, 'p', len);
    buffer[middle] = (unsigned char)rng_between(rng, 'a', 'd');
    if (rng_one_in(rng, 25)) {
        buffer[middle + 1] = rng_one_in(rng, 2) ? '~' : '!';
        return middle + 2;
    }
    return len +
           (size_t)snprintf((char *)buffer + len, 16, "%06u", (unsigned)rng_below(rng, gen->space));
}

static size_t nested_key(struct keygen *gen, struct rng *rng, unsigned char *buffer)
{
    static const unsigned char tails[] = {0, 'm', 'n', 'o', 255};
    size_t len = rng_below(rng, gen->space < 500 ? gen->space + 1 : 500);
    memset(buffer, 'n', len);
    if (rng_one_in(rng, 3))
        buffer[len++] = tails[rng_below(rng, sizeof tails)];
    return len;
}

/* `len` equal bytes but for an identity at the beginning, in the middle or at the end. */
static size_t filled_key(struct keygen *gen, struct rng *rng, unsigned char *buffer, size_t len)
{
    size_t places[] = {len - ID_BYTES, len - ID_BYTES, len / 2, 0};
    memset(buffer, 'f', len);
    if (len < 2 * ID_BYTES)
        return len;
    put_big_endian(buffer + places[rng_below(rng, 4)], rng_below(rng, gen->space), ID_BYTES);
    return len;
}

static size_t edge_size(struct rng *rng, uint32_t page_size)
{
    size_t around = page_size >> rng_between(rng, 1, 3);
    return around - 40 + rng_below(rng, 56);
}

static size_t huge_size(struct rng *rng, uint32_t page_size)
{
    if (rng_one_in(rng, 12)) /* to the file at once */
        return rng_one_in(rng, 3) ? rng_between(rng, MODEL_SHORT_VALUE - 1, MODEL_MAX_KEY)
                                  : MODEL_SHORT_VALUE + 3;
    switch (rng_below(rng, 6)) {
    case 0:
        return MODEL_SHORT_KEY - rng_below(rng, 3);
    case 1:
        return rng_between(rng, 1, MODEL_SHORT_KEY);
    case 2:
        return page_size / 2 - 60 + rng_below(rng, 100);
    default:
        return MODEL_SHORT_KEY;
    }
}

struct ps_slice keygen_next(struct keygen *gen, struct rng *rng,
                            unsigned char buffer[MODEL_MAX_KEY])
{
    size_t len = 0;
    switch (gen->kind) {
    case KEY_ASCENDING:
    case KEY_DESCENDING:
        len = counted_key(gen, rng, buffer);
        break;
    case KEY_PREFIX:
        len = prefix_key(gen, rng, buffer);
        break;
    case KEY_NESTED:
        len = nested_key(gen, rng, buffer);
        break;
    case KEY_EDGE:
        len = filled_key(gen, rng, buffer, edge_size(rng, gen->page_size));
        break;
    case KEY_HUGE:
        len = filled_key(gen, rng, buffer, huge_size(rng, gen->page_size));
        break;
    default:
        len = short_key(gen, rng, buffer);
    }
    return (struct ps_slice){buffer, len};
}

static size_t value_size(struct rng *rng, uint32_t page_size, uint64_t rare)
{
    if (rng_one_in(rng, rare)) {
        if (rng_one_in(rng, rare < 100 ? 60 : 5)) /* to the file at once */
            return rng_between(rng, MODEL_SHORT_VALUE - 1,
                               rng_one_in(rng, 10) ? MODEL_MAX_VALUE : 4 * MODEL_SHORT_VALUE);
        return rng_one_in(rng, 4) ? MODEL_SHORT_VALUE - rng_below(rng, 2)
                                  : rng_between(rng, page_size / 2, MODEL_SHORT_VALUE);
    }
    switch (rng_below(rng, 20)) {
    case 0:
        return 0;
    case 1:
    case 2:
        return edge_size(rng, page_size);
    case 3:
    case 4:
    case 5:
    case 6:
        return rng_between(rng, 20, 200);
    default:
        return rng_between(rng, 1, 20);
    }
}

struct ps_slice random_value(struct rng *rng, uint32_t page_size, uint64_t rare,
                             unsigned char buffer[MODEL_MAX_VALUE + 8])
{
    size_t len = value_size(rng, page_size, rare);
    unsigned dull = rng_one_in(rng, 2) ? 8 : 1; /* words in a row that are the same */
    uint64_t word = 0;
    for (size_t i = 0; i < len; i += 8) {
        word = i / 8 % dull == 0 ? rng_next(rng) : word;
        memcpy(buffer + i, &word, 8);
    }
    return (struct ps_slice){buffer, len};
}
