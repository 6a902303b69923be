/*
 * workloads.h - what is done with an engine, in sets that share their records.
 *
 *   random   16-byte keys in random order, values of 100 bytes
 *   ordered  the same, keys in ascending order
 *   threads  as random: readers beside a writer, writers beside each other; needs two processors
 *   article  8-byte keys, 1 KB, the mixtures of a comparison of embedded engines
 *   mace     16-byte keys, 128 bytes, the mixtures W1 to W6 and counters
 *
 * Every value begins with a word that follows from its key, so that every read is checked. Reads
 * of mixtures are one to a read transaction; those of get, get_many and scan are BATCH to one.
 */
#ifndef PANDO_BENCH_WORKLOADS_H
#define PANDO_BENCH_WORKLOADS_H

#include "bench/support/engines.h"
#include "bench/support/histogram.h"

#define BENCH_BATCH 1000u /* puts in a transaction of the load, reads in a read transaction */
#define MAX_VALUE   1024u
#define DRAWS       (1u << 16) /* zipf numbers, drawn before they are needed */

struct bench {
    const struct bench_engine *engine;
    struct bench_db *db;
    struct bench_reader *reader;
    size_t key, value;
    bool ordered;
    uint64_t records;   /* of the load */
    uint64_t next;      /* the number of the next one that is inserted */
    uint64_t first_own; /* records from here on were inserted by a mixture that deletes */
    uint64_t random;
    double seconds; /* of each workload that is bounded by time */
    uint64_t check; /* sums of what was read, so that no read can be left out */
    uint32_t *zipf;
    struct histogram latency; /* of transactions */
    uint64_t cpu_ns;          /* of the threads that count; 0: of the process */
    uint8_t keys[BENCH_BATCH * BENCH_MAX_KEY];
    uint8_t values[BENCH_BATCH * MAX_VALUE];
    struct bench_op ops[BENCH_BATCH];
};

enum bench_set { SET_RANDOM, SET_ORDERED, SET_THREADS, SET_ARTICLE, SET_MACE, SETS };

struct workload {
    const char *name;
    unsigned sets;                                              /* bits */
    uint64_t (*run)(struct bench *b, const struct workload *w); /* returns how many operations */
    enum bench_level level;
    bool writes; /* settle afterwards, not measured */
    /* of mixtures: percentages (what is left reads), operations in a transaction, length of scans
     */
    uint8_t update, insert, remove, scan, modify;
    uint8_t batch, length;
    enum { UNIFORM, ZIPF, LATEST } choose;
};

extern const struct workload bench_workloads[];
extern const size_t bench_nworkloads;
extern const char *const bench_set_names[SETS];

void bench_prepare(struct bench *b, enum bench_set set);
void bench_finish(struct bench *b);

/* Of workloads_mixed.c and workloads_threads.c. */
void bench_make_key(const struct bench *b, uint64_t i, void *key);
void bench_make_value(const struct bench *b, uint64_t i, void *value);
uint64_t bench_word_of(uint64_t i);
/* Operation k of the next transaction: puts record i. */
void bench_put_op(struct bench *b, size_t k, uint64_t i);
/* Carries out n operations; counts how long that took. */
void bench_apply(struct bench *b, size_t n);
uint64_t bench_end(const struct bench *b);
uint64_t bench_run_mix(struct bench *b, const struct workload *w);
uint64_t bench_run_transfer(struct bench *b, const struct workload *w);
uint64_t bench_run_order(struct bench *b, const struct workload *w);
uint64_t bench_run_audit(struct bench *b, const struct workload *w);
uint64_t bench_run_counters(struct bench *b, const struct workload *w);
uint64_t bench_run_readers(struct bench *b, const struct workload *w);
uint64_t bench_run_writers(struct bench *b, const struct workload *w);

#endif
