/*
 * engines.h - the engines under measurement behind one interface, each used as its manual says.
 *
 * Writing (apply) may be called by several threads at once, each call is one transaction. A reader
 * belongs to one thread. A failing call ends the program: a benchmark has nothing to save.
 */
#ifndef PANDO_BENCH_ENGINES_H
#define PANDO_BENCH_ENGINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_MANY     16u   /* keys of a get_many */
#define BENCH_MAX_KEY  16u   /* bytes */
#define BENCH_MAX_OPS  1000u /* in a transaction */
#define BENCH_MAX_SCAN 100u

struct bench_db;
struct bench_reader;

/* What a commit waits for. */
enum bench_level {
    BENCH_NOTHING, /* nothing at all: Pando's none; as BENCH_SYSTEM elsewhere */
    BENCH_SYSTEM,  /* the operating system has it: Pando's everysec; LMDB without sync */
    BENCH_DEVICE,  /* the device has it */
};

struct bench_config {
    const char *dir; /* exists, empty */
    size_t key, value;
    enum bench_level level;
};

enum bench_kind {
    BENCH_PUT,
    BENCH_DELETE, /* it need not be there */
    BENCH_GET,    /* as the transaction sees it; it must be there */
    BENCH_ADD,    /* to a counter of 8 bytes, which is 0 if it is not there */
};

struct bench_op {
    enum bench_kind kind;
    const void *key, *value;
    uint64_t word; /* BENCH_GET: out, the value's first eight bytes; BENCH_ADD: how much */
};

struct bench_engine {
    const char *name;
    const char *file; /* that holds the data, if it is one of several; NULL: all of the folder */
    struct bench_db *(*open)(const struct bench_config *config);
    void (*close)(struct bench_db *db);
    void (*set_level)(struct bench_db *db, enum bench_level level);
    /* At most BENCH_MAX_OPS operations in one transaction. */
    void (*apply)(struct bench_db *db, struct bench_op *ops, size_t n);
    /* Everything so far is on the device, and no work is left behind. */
    void (*settle)(struct bench_db *db);
    /* Gives free room back to the file system, beside readers; NULL: it has no such call. */
    void (*trim)(struct bench_db *db);
    /* Takes no more room than it has to; there is no reader. NULL: it has no such call. */
    void (*compact)(struct bench_db *db);

    struct bench_reader *(*reader_open)(struct bench_db *db);
    void (*reader_close)(struct bench_reader *reader);
    /* Reads between begin and end see one state. */
    void (*read_begin)(struct bench_reader *reader);
    void (*read_end)(struct bench_reader *reader);
    /* The value's first eight bytes; the key must be there. */
    uint64_t (*get)(struct bench_reader *reader, const void *key);
    /* The same with a cursor that is kept; NULL: there is no difference. */
    uint64_t (*get_kept)(struct bench_reader *reader, const void *key);
    /* BENCH_MANY of them, one after the other in memory; the sum of the first eight bytes. NULL: no
     * such call, one `get` after the other. */
    uint64_t (*get_many)(struct bench_reader *reader, const uint8_t *keys);
    /* Seeks the first key >= key, reads up to n entries; the sum of the values' first bytes. */
    uint64_t (*scan)(struct bench_reader *reader, const void *key, size_t n);
};

extern const struct bench_engine bench_pando, bench_lmdb, bench_lmdb_writemap, bench_rocksdb,
    bench_leveldb, bench_sqlite, bench_bare;

static inline uint64_t bench_word(const void *value)
{
    uint64_t word;
    __builtin_memcpy(&word, value, sizeof(word));
    return word;
}

#endif
