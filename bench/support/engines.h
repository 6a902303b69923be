/*
 * engines.h - the engines under measurement behind one interface, each used as its manual says.
 *
 * All of it runs on one thread. A failing call ends the program: a benchmark has nothing to save.
 */
#ifndef PANDO_BENCH_ENGINES_H
#define PANDO_BENCH_ENGINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_KEY   16u
#define BENCH_VALUE 100u
#define BENCH_MANY  16u

struct bench_db;

/* What a commit waits for. */
enum bench_level {
    BENCH_NOTHING, /* nothing at all: Pando's none; LMDB without sync */
    BENCH_SYSTEM,  /* the operating system has it: Pando's everysec; LMDB without sync */
    BENCH_DEVICE,  /* the device has it: Pando's always; LMDB's default */
};

struct bench_engine {
    const char *name;
    struct bench_db *(*open)(const char *dir, enum bench_level level);
    void (*close)(struct bench_db *db);
    void (*set_level)(struct bench_db *db, enum bench_level level);
    /* Puts `n` records (keys and values lie one after the other) in one transaction. */
    void (*put)(struct bench_db *db, const uint8_t *keys, const uint8_t *values, size_t n);
    /* Everything so far is on the device, and no work is left behind. */
    void (*settle)(struct bench_db *db);
    /* Reads between begin and end see one state. */
    void (*read_begin)(struct bench_db *db);
    void (*read_end)(struct bench_db *db);
    /* The value's first eight bytes; the key must be there. */
    uint64_t (*get)(struct bench_db *db, const uint8_t *key);
    /* BENCH_MANY of them; the sum of the values' first eight bytes. */
    uint64_t (*get_many)(struct bench_db *db, const uint8_t *keys);
    /* Seeks the first key >= key, reads up to n entries; the sum of the values' first bytes. */
    uint64_t (*scan)(struct bench_db *db, const uint8_t *key, size_t n);
};

extern const struct bench_engine bench_pando, bench_lmdb;

#endif
