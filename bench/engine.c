/*
 * engine.c - the storage engine alone: one engine, every workload once, one line of JSON for each.
 *
 *   engine --engine pando|lmdb --dir DIR [--records N] [--seconds S] [--load-level LEVEL]
 *          [--only WORKLOAD]
 *
 * Records have 16-byte keys in random order and values of 100 bytes that begin with a word that
 * follows from the key, so that every read is checked. DIR must be empty. bench/run starts one
 * process for each engine and repetition and compares.
 *
 * Processor time is that of all threads, so that what an engine leaves to its helpers counts.
 */
#include "bench/support/engines.h"
#include "bench/support/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH       1000u /* puts in a transaction of the load, reads in a read transaction */
#define SCAN_LENGTH 100u

struct bench {
    const struct bench_engine *engine;
    struct bench_db *db;
    uint64_t records, random;
    double seconds; /* at most, for workloads that are bounded by time */
    const char *only;
    uint64_t check; /* sums of what was read, so that no read can be left out */
    uint8_t keys[BATCH * BENCH_KEY], values[BATCH * BENCH_VALUE];
};

static void make_key(uint64_t i, uint8_t *key)
{
    uint64_t words[2] = {mix64(i), mix64(~i)};
    memcpy(key, words, BENCH_KEY);
}

static void make_record(struct bench *b, uint64_t i, size_t slot)
{
    uint64_t word = mix64(i ^ 0x5555);
    uint8_t *value = b->values + slot * BENCH_VALUE;
    make_key(i, b->keys + slot * BENCH_KEY);
    memset(value, 'a' + (int)(i % 26), BENCH_VALUE);
    memcpy(value, &word, sizeof(word));
}

static void report(const struct bench *b, const char *workload, uint64_t ops,
                   const struct measure *m)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): main has made sure of it */
    const char *engine = b->engine->name;
    printf("{\"engine\":\"%s\",\"workload\":\"%s\",\"ops\":%llu,\"seconds\":%.6f,\"cpu\":%.6f}\n",
           engine, workload, (unsigned long long)ops, (double)m->wall_ns / 1e9,
           (double)m->cpu_ns / 1e9);
    fflush(stdout);
}

static uint64_t run_load(struct bench *b)
{
    for (uint64_t i = 0; i < b->records; i += BATCH) {
        for (size_t k = 0; k < BATCH; k++) {
            make_record(b, i + k, k);
        }
        b->engine->put(b->db, b->keys, b->values, BATCH);
    }
    return b->records;
}

static uint64_t run_settle(struct bench *b)
{
    b->engine->settle(b->db);
    return b->records;
}

static uint64_t run_get(struct bench *b)
{
    for (uint64_t i = 0; i < b->records; i += BATCH) {
        b->engine->read_begin(b->db);
        for (size_t k = 0; k < BATCH; k++) {
            uint64_t r = random_below(&b->random, b->records);
            make_key(r, b->keys);
            if (b->engine->get(b->db, b->keys) != mix64(r ^ 0x5555)) {
                die("get: a wrong value");
            }
        }
        b->engine->read_end(b->db);
    }
    return b->records;
}

static uint64_t run_get_many(struct bench *b)
{
    uint64_t rounds = b->records / BENCH_MANY;
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t sum = 0;
        for (size_t k = 0; k < BENCH_MANY; k++) {
            uint64_t r = random_below(&b->random, b->records);
            make_key(r, b->keys + k * BENCH_KEY);
            sum += mix64(r ^ 0x5555);
        }
        b->engine->read_begin(b->db);
        if (b->engine->get_many(b->db, b->keys) != sum) {
            die("get_many: a wrong value");
        }
        b->engine->read_end(b->db);
    }
    return rounds * BENCH_MANY;
}

static uint64_t run_scan(struct bench *b)
{
    uint64_t rounds = b->records / 20;
    for (uint64_t i = 0; i < rounds; i++) {
        make_key(random_below(&b->random, b->records), b->keys);
        b->engine->read_begin(b->db);
        b->check += b->engine->scan(b->db, b->keys, SCAN_LENGTH);
        b->engine->read_end(b->db);
    }
    return rounds;
}

/* Transactions of n overwritten records, for the time there is. */
static uint64_t put_for_a_while(struct bench *b, size_t n)
{
    uint64_t end = measure_clock_ns() + (uint64_t)(b->seconds * 1e9), ops = 0;
    do {
        for (size_t k = 0; k < n; k++) {
            make_record(b, random_below(&b->random, b->records), k);
        }
        b->engine->put(b->db, b->keys, b->values, n);
        ops += n;
    } while (measure_clock_ns() < end);
    return ops;
}

static uint64_t run_put_one(struct bench *b)
{
    return put_for_a_while(b, 1);
}

static uint64_t run_put_batch(struct bench *b)
{
    return put_for_a_while(b, BATCH);
}

static const struct workload {
    const char *name;
    uint64_t (*run)(struct bench *b);
    enum bench_level level;
    bool writes; /* settle afterwards, not measured */
} workloads[] = {
    {"load", run_load, BENCH_SYSTEM, false},
    {"settle", run_settle, BENCH_SYSTEM, false},
    {"get", run_get, BENCH_SYSTEM, false},
    {"get_many", run_get_many, BENCH_SYSTEM, false},
    {"scan", run_scan, BENCH_SYSTEM, false},
    {"put_batch", run_put_batch, BENCH_SYSTEM, true},
    {"put_one", run_put_one, BENCH_SYSTEM, true},
    {"put_one_synced", run_put_one, BENCH_DEVICE, true},
};

static void run_all(struct bench *b, enum bench_level load_level)
{
    for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++) {
        const struct workload *w = &workloads[i];
        bool needed = strcmp(w->name, "load") == 0;
        if (!needed && b->only != NULL && strcmp(w->name, b->only) != 0) {
            continue;
        }
        if (!needed) {
            b->engine->set_level(b->db, load_level == BENCH_NOTHING ? load_level : w->level);
        }
        struct measure m;
        measure_begin(&m);
        uint64_t ops = w->run(b);
        measure_end(&m);
        report(b, w->name, ops, &m);
        if (w->writes) {
            b->engine->settle(b->db);
        }
    }
}

static enum bench_level parse_level(const char *text)
{
    if (strcmp(text, "none") == 0) {
        return BENCH_NOTHING;
    }
    if (strcmp(text, "everysec") != 0) {
        die("--load-level is none or everysec, not '%s'", text);
    }
    return BENCH_SYSTEM;
}

int main(int argc, char **argv)
{
    static struct bench b = {.records = 1000000, .random = 1, .seconds = 2};
    const char *dir = NULL;
    enum bench_level load_level = BENCH_SYSTEM;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--engine") == 0) {
            b.engine = strcmp(value, "lmdb") == 0 ? &bench_lmdb : &bench_pando;
        } else if (strcmp(name, "--dir") == 0) {
            dir = value;
        } else if (strcmp(name, "--records") == 0) {
            b.records = strtoull(value, NULL, 10) / BATCH * BATCH;
        } else if (strcmp(name, "--seconds") == 0) {
            b.seconds = strtod(value, NULL);
        } else if (strcmp(name, "--load-level") == 0) {
            load_level = parse_level(value);
        } else if (strcmp(name, "--only") == 0) {
            b.only = value;
        } else {
            die("unknown option %s", name);
        }
    }
    if (b.engine == NULL || dir == NULL || b.records == 0) {
        die("usage: engine --engine pando|lmdb --dir DIR [--records N] [--seconds S]");
    }
    b.db = b.engine->open(dir, load_level);
    run_all(&b, load_level);
    b.engine->close(b.db); /* NOLINT(clang-analyzer-core.NullDereference): it was there above */
    return 0;
}
