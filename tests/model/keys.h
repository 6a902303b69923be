/*
 * keys.h - random keys and values, of the kinds that are hard for a B+tree.
 */
#ifndef PANDO_TESTS_MODEL_KEYS_H
#define PANDO_TESTS_MODEL_KEYS_H

#include "storage/pandostore.h"
#include "tests/model/rng.h"

/* In dirty memory, and the little more that goes to the file at once. */
#define MODEL_SHORT_KEY   (65536u + 64u)
#define MODEL_SHORT_VALUE (65536u + 1024u)
#define MODEL_MAX_KEY     (300u << 10)
#define MODEL_MAX_VALUE   (3u << 20)

enum key_kind {
    KEY_SHORT,      /* 0 to 8 bytes, many of them the same ones again */
    KEY_ASCENDING,  /* each above all before it */
    KEY_DESCENDING, /* each below all before it */
    KEY_PREFIX,     /* long common prefixes, a few bytes that differ */
    KEY_NESTED,     /* prefixes of each other */
    KEY_EDGE,       /* sizes about 1/8, 1/4 and 1/2 of a page */
    KEY_HUGE,       /* up to MODEL_MAX_KEY bytes that differ only at the end, or in the middle */
    KEY_KINDS
};

extern const char *const key_kind_names[KEY_KINDS];

struct keygen {
    enum key_kind kind;
    uint32_t page_size;
    uint64_t space;   /* about how many different keys there are */
    uint64_t counter; /* for the ascending and descending ones */
};

/* A key in `buffer`. */
struct ps_slice keygen_next(struct keygen *gen, struct rng *rng,
                            unsigned char buffer[MODEL_MAX_KEY]);

/* One in `rare` values is large, up to MODEL_MAX_VALUE bytes. */
struct ps_slice random_value(struct rng *rng, uint32_t page_size, uint64_t rare,
                             unsigned char buffer[MODEL_MAX_VALUE + 8]);

#endif
