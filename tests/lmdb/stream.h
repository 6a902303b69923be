/*
 * stream.h - a stream of operations: bytes that anybody may make up, and what they mean.
 *
 * The first STREAM_HEAD bytes are the configuration, every OP_BYTES after them one operation.
 * Random rounds and the fuzz target fill in bytes; all the rest is shared.
 *
 * Invariants:
 *  1. Every sequence of bytes is a stream, and so is every selection of a stream's operations:
 *     what one does depends on the configuration, on itself and on what is in the stores, never on
 *     its number. That is what makes shrinking possible.
 *  2. Keys and values follow from the configuration and the operation.
 */
#ifndef PANDO_TESTS_LMDB_STREAM_H
#define PANDO_TESTS_LMDB_STREAM_H

#include "storage/pandostore.h"
#include "tests/lmdb/oracle.h"

#define STREAM_HEAD 8
#define OP_BYTES    11
#define MAX_VALUE   (160u << 10)

/* (name, weight of 65,536, what it uses: see enum uses) */
#define OPERATIONS(X)                                                           \
    X(put, 11300, USES_TREE | USES_KEY | USES_VALUE)                            \
    X(put_run, 900, USES_TREE | USES_KEY | USES_VALUE | USES_ARG)               \
    X(put_read, 1200, USES_TREE | USES_KEY | USES_OTHER)                        \
    X(delete, 7000, USES_TREE | USES_KEY)                                       \
    X(delete_run, 700, USES_TREE | USES_KEY | USES_ARG)                         \
    X(delete_range, 200, USES_TREE | USES_KEY | USES_OTHER | USES_ARG)          \
    X(clear, 25, USES_TREE)                                                     \
    X(make_tree, 250, USES_TREE)                                                \
    X(drop_tree, 70, USES_TREE)                                                 \
    X(get, 8500, USES_VIEW | USES_TREE | USES_KEY)                              \
    X(get_part, 1500, USES_VIEW | USES_TREE | USES_KEY | USES_ARG)              \
    X(get_many, 1500, USES_VIEW | USES_TREE | USES_KEY | USES_OTHER | USES_ARG) \
    X(touch, 700, USES_VIEW | USES_TREE | USES_KEY | USES_ARG)                  \
    X(count, 1200, USES_VIEW | USES_TREE | USES_KEY | USES_OTHER)               \
    X(walk, 9000, USES_VIEW | USES_TREE | USES_KEY | USES_ARG)                  \
    X(range, 3300, USES_VIEW | USES_TREE | USES_KEY | USES_OTHER | USES_ARG)    \
    X(select, 700, USES_VIEW | USES_TREE | USES_KEY)                            \
    X(place_cursor, 1500, USES_VIEW | USES_TREE | USES_KEY | USES_ARG)          \
    X(move_cursor, 3500, USES_ARG)                                              \
    X(scan, 250, USES_VIEW | USES_TREE)                                         \
    X(scan_all, 120, USES_VIEW)                                                 \
    X(begin, 1000, USES_ARG)                                                    \
    X(commit, 6000, USES_ARG)                                                   \
    X(abort, 250, 0)                                                            \
    X(savepoint, 1700, 0)                                                       \
    X(release, 800, 0)                                                          \
    X(roll_back, 800, 0)                                                        \
    X(hold, 600, USES_VIEW | USES_ARG)                                          \
    X(let_go, 200, USES_VIEW)                                                   \
    X(move_snapshot, 150, USES_VIEW)                                            \
    X(checkpoint, 60, 0)                                                        \
    X(check, 30, 0)                                                             \
    X(reopen, 45, USES_ARG)

enum uses {
    USES_TREE = 1,
    USES_VIEW = 2,
    USES_KEY = 4,
    USES_OTHER = 8,
    USES_VALUE = 16,
    USES_ARG = 32
};

enum op_kind {
#define X(name, weight, uses) OP_##name,
    OPERATIONS(X)
#undef X
        OP_KINDS
};

extern const char *const op_names[OP_KINDS];

enum key_kind {
    KEY_SHORT,   /* every string over four letters, the empty one first */
    KEY_COUNTER, /* eight bytes, in order */
    KEY_PREFIX,  /* four groups, each with a long prefix of its own */
    KEY_NESTED,  /* prefixes of each other, of 0 to 511 bytes */
    KEY_EDGE,    /* lengths at and beside powers of two and the limit; the difference anywhere */
    KEY_ZEROS,   /* zero bytes, and what comes just after them */
    KEY_MIXED,   /* all of these */
    KEY_KINDS
};

struct config {
    uint32_t page_size;
    unsigned arena; /* which of arena_slots() */
    enum ps_durability level;
    bool manual_checkpoint;
    uint64_t segment;
    unsigned trees;    /* used */
    unsigned patience; /* one in so many commits is one */
    unsigned space;    /* different keys in a tree, variations aside */
    unsigned prefix;   /* bytes of KEY_PREFIX */
    bool whole;        /* one in four transactions cannot be committed halfway */
    enum key_kind kinds[ORACLE_TREES];
};

struct op {
    enum op_kind kind;
    unsigned tree;
    uint8_t view, arg, twist; /* twist: variations of the keys */
    uint16_t key, other, value;
};

struct stream {
    struct config config;
    size_t n;
    struct op *ops;
};

/* 0, or -1 for want of memory. Bytes that are missing are zeros; a last piece is left out. */
int stream_decode(struct stream *s, const uint8_t *bytes, size_t len);
/* `n` operations that follow from the two numbers. */
int stream_random(struct stream *s, uint64_t seed, uint64_t round, size_t n);
void stream_free(struct stream *s);

/* Slots of 4 KiB of dirty memory; `arena` is taken modulo the sizes that there are. */
uint64_t arena_slots(const struct config *c, unsigned arena);

/* In `buffer`: key number `spec` of a tree, and a neighbour of it if `twist` says so. */
struct ps_slice stream_key(const struct config *c, unsigned tree, uint16_t spec, unsigned twist,
                           unsigned char buffer[ORACLE_MAX_KEY]);
struct ps_slice op_key(const struct config *c, const struct op *op,
                       unsigned char buffer[ORACLE_MAX_KEY]);
struct ps_slice op_other(const struct config *c, const struct op *op,
                         unsigned char buffer[ORACLE_MAX_KEY]);
/* One value in sixteen has up to 64 KiB, and rarely more; no two specs have the same bytes. */
struct ps_slice stream_value(const struct config *c, uint16_t spec, uint16_t key,
                             unsigned char buffer[MAX_VALUE]);

/* Readable. `show` uses one of a few static buffers. */
void op_print(const struct config *c, const struct op *op, size_t number);
void config_print(const struct config *c);
const char *show(struct ps_slice s);

uint64_t mix(uint64_t x);

#endif
