/*
 * workloads.c - records, loads, plain reads and writes; the table of all workloads.
 */
#include "bench/support/workloads.h"

#include "bench/support/measure.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ZIPF_THETA 0.99

const char *const bench_set_names[SETS] = {"random", "ordered", "threads", "article", "mace"};

uint64_t bench_word_of(uint64_t i)
{
    return mix64(i ^ 0x5555);
}

void bench_make_key(const struct bench *b, uint64_t i, void *key)
{
    uint64_t words[2] = {b->ordered ? htobe64(i) : mix64(i), mix64(~i)};
    memcpy(key, words, b->key);
}

void bench_make_value(const struct bench *b, uint64_t i, void *value)
{
    uint64_t word = bench_word_of(i);
    memset(value, 'a' + (int)(i % 26), b->value);
    memcpy(value, &word, sizeof(word));
}

void bench_put_op(struct bench *b, size_t k, uint64_t i)
{
    uint8_t *key = b->keys + k * BENCH_MAX_KEY;
    uint8_t *value = b->values + k * MAX_VALUE;
    bench_make_key(b, i, key);
    bench_make_value(b, i, value);
    b->ops[k] = (struct bench_op){.kind = BENCH_PUT, .key = key, .value = value};
}

void bench_apply(struct bench *b, size_t n)
{
    uint64_t begin = measure_clock_ns();
    b->engine->apply(b->db, b->ops, n);
    histogram_add(&b->latency, measure_clock_ns() - begin);
}

uint64_t bench_end(const struct bench *b)
{
    return measure_clock_ns() + (uint64_t)(b->seconds * 1e9);
}

/* Draws of numbers below n whose frequency falls as rank^-theta (Gray et al., as YCSB does). */
static uint32_t *draw_zipf(uint64_t n)
{
    uint32_t *draws = malloc(DRAWS * sizeof(*draws));
    if (draws == NULL) {
        die("out of memory");
    }
    double zeta = 0;
    for (uint64_t i = 1; i <= n; i++) {
        zeta += pow((double)i, -ZIPF_THETA);
    }
    double zeta2 = 1 + pow(0.5, ZIPF_THETA);
    double alpha = 1 / (1 - ZIPF_THETA);
    double eta = (1 - pow(2.0 / (double)n, 1 - ZIPF_THETA)) / (1 - zeta2 / zeta);
    uint64_t random = 7;
    for (uint32_t i = 0; i < DRAWS; i++) {
        double u = (double)(random_next(&random) >> 11) * 0x1p-53;
        double uz = u * zeta;
        double rank = uz < 1 ? 0 : uz < zeta2 ? 1 : (double)n * pow(eta * u - eta + 1, alpha);
        draws[i] = rank >= (double)n ? (uint32_t)n - 1 : (uint32_t)rank;
    }
    return draws;
}

void bench_prepare(struct bench *b, enum bench_set set)
{
    static const uint16_t sizes[SETS][2] = {{16, 100}, {16, 100}, {16, 100}, {8, 1024}, {16, 128}};
    b->key = sizes[set][0];
    b->value = sizes[set][1];
    b->ordered = set == SET_ORDERED;
    b->next = b->first_own = b->records;
    b->zipf = set >= SET_ARTICLE ? draw_zipf(b->records) : NULL;
}

void bench_finish(struct bench *b)
{
    free(b->zipf);
}

static uint64_t run_load(struct bench *b, const struct workload *w)
{
    (void)w;
    for (uint64_t i = 0; i < b->records; i += BENCH_BATCH) {
        for (size_t k = 0; k < BENCH_BATCH; k++) {
            bench_put_op(b, k, i + k);
        }
        bench_apply(b, BENCH_BATCH);
    }
    return b->records;
}

static uint64_t run_settle(struct bench *b, const struct workload *w)
{
    (void)w;
    b->engine->settle(b->db);
    return b->records;
}

static uint64_t run_trim(struct bench *b, const struct workload *w)
{
    (void)w;
    if (b->engine->trim == NULL) {
        return 0;
    }
    b->engine->trim(b->db);
    return b->records;
}

static uint64_t run_compact(struct bench *b, const struct workload *w)
{
    (void)w;
    if (b->engine->compact == NULL) {
        return 0;
    }
    b->engine->reader_close(b->reader);
    b->engine->compact(b->db);
    b->reader = b->engine->reader_open(b->db);
    return b->records;
}

static uint64_t run_gets(struct bench *b, uint64_t (*get)(struct bench_reader *, const void *))
{
    for (uint64_t i = 0; i < b->records; i += BENCH_BATCH) {
        b->engine->read_begin(b->reader);
        for (size_t k = 0; k < BENCH_BATCH; k++) {
            uint64_t r = random_below(&b->random, b->records);
            bench_make_key(b, r, b->keys);
            if (get(b->reader, b->keys) != bench_word_of(r)) {
                die("get: a wrong value");
            }
        }
        b->engine->read_end(b->reader);
    }
    return b->records;
}

static uint64_t run_get(struct bench *b, const struct workload *w)
{
    (void)w;
    return run_gets(b, b->engine->get);
}

static uint64_t run_get_kept(struct bench *b, const struct workload *w)
{
    (void)w;
    return b->engine->get_kept != NULL ? run_gets(b, b->engine->get_kept) : 0;
}

static uint64_t get_many(struct bench *b)
{
    if (b->engine->get_many != NULL) {
        return b->engine->get_many(b->reader, b->keys);
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < BENCH_MANY; i++) {
        sum += b->engine->get(b->reader, b->keys + i * b->key);
    }
    return sum;
}

static uint64_t run_get_many(struct bench *b, const struct workload *w)
{
    (void)w;
    uint64_t rounds = b->records / BENCH_MANY;
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t sum = 0;
        for (size_t k = 0; k < BENCH_MANY; k++) {
            uint64_t r = random_below(&b->random, b->records);
            bench_make_key(b, r, b->keys + k * b->key);
            sum += bench_word_of(r);
        }
        b->engine->read_begin(b->reader);
        if (get_many(b) != sum) {
            die("get_many: a wrong value");
        }
        b->engine->read_end(b->reader);
    }
    return rounds * BENCH_MANY;
}

static uint64_t run_scan(struct bench *b, const struct workload *w)
{
    uint64_t rounds = b->records * 5 / w->length;
    for (uint64_t i = 0; i < rounds; i++) {
        bench_make_key(b, random_below(&b->random, b->records), b->keys);
        b->engine->read_begin(b->reader);
        b->check += b->engine->scan(b->reader, b->keys, w->length);
        b->engine->read_end(b->reader);
    }
    return rounds;
}

/* Transactions of n overwritten records, for the time there is. */
static uint64_t put_for_a_while(struct bench *b, size_t n)
{
    uint64_t end = bench_end(b);
    uint64_t ops = 0;
    do {
        for (size_t k = 0; k < n; k++) {
            bench_put_op(b, k, random_below(&b->random, b->records));
        }
        bench_apply(b, n);
        ops += n;
    } while (measure_clock_ns() < end);
    return ops;
}

static uint64_t run_put_one(struct bench *b, const struct workload *w)
{
    (void)w;
    return put_for_a_while(b, 1);
}

static uint64_t run_put_batch(struct bench *b, const struct workload *w)
{
    (void)w;
    return put_for_a_while(b, BENCH_BATCH);
}

#define R       (1u << SET_RANDOM)
#define O       (1u << SET_ORDERED)
#define T       (1u << SET_THREADS)
#define A       (1u << SET_ARTICLE)
#define M       (1u << SET_MACE)
#define SYS     BENCH_SYSTEM
#define DEV     BENCH_DEVICE
#define MIX(on) .sets = (on), .run = bench_run_mix, .level = SYS, .writes = true
#define READ(w) .sets = (w), .level = SYS

const struct workload bench_workloads[] = {
    {"load", R | O | T | A | M, run_load, SYS, .writes = false},
    {"settle", R | O | T | A | M, run_settle, SYS, .writes = false},
    {"trim", R, run_trim, SYS, .writes = false},
    {"get_first", READ(R | O), .run = run_get},
    {"get", READ(R | O), .run = run_get},
    {"get_kept", READ(R | O), .run = run_get_kept},
    {"get_many", READ(R | O), .run = run_get_many},
    {"scan_100", READ(R | O), .run = run_scan, .length = 100},
    {"scan_10", READ(R | O), .run = run_scan, .length = 10},
    {"put_batch", R, run_put_batch, SYS, .writes = true},
    {"put_one", R, run_put_one, SYS, .writes = true},
    {"put_one_synced", R, run_put_one, DEV, .writes = true},
    {"compact", R | O, run_compact, SYS, .writes = false},
    {"readers", T, bench_run_readers, SYS, .writes = false},
    {"readers_and_writer", T, bench_run_readers, SYS, .writes = true, .update = 100},
    {"writers_synced", T, bench_run_writers, DEV, .writes = true},
    {"read_zipf", MIX(A), .choose = ZIPF},
    {"read_95_update_5", MIX(A), .update = 5, .batch = 1, .choose = ZIPF},
    {"read_latest", MIX(A), .insert = 5, .batch = 1, .choose = LATEST},
    {"read_modify_write", MIX(A), .modify = 50, .batch = 1, .choose = ZIPF},
    {"range_10", MIX(A), .scan = 100, .length = 10},
    {"range_100", MIX(A), .scan = 100, .length = 100},
    {"session", MIX(A), .update = 50, .batch = 1, .choose = ZIPF},
    {"insert_1", MIX(A), .insert = 100, .batch = 1},
    {"insert_8", MIX(A), .insert = 100, .batch = 8},
    {"insert_32", MIX(A), .insert = 100, .batch = 32},
    {"insert_64", MIX(A), .insert = 100, .batch = 64},
    {"update_1", MIX(A), .update = 100, .batch = 1},
    {"update_8", MIX(A), .update = 100, .batch = 8},
    {"update_32", MIX(A), .update = 100, .batch = 32},
    {"update_64", MIX(A), .update = 100, .batch = 64},
    {"ingest", MIX(A), .insert = 70, .update = 20, .remove = 10, .batch = 64},
    {"acid_transfer", A, bench_run_transfer, SYS, .writes = true},
    {"acid_order", A, bench_run_order, SYS, .writes = true},
    {"acid_audit", A, bench_run_audit, SYS, .writes = true},
    {"W1", MIX(M), .update = 5, .batch = 1},
    {"W2", MIX(M), .update = 5, .batch = 1, .choose = ZIPF},
    {"W3", MIX(M), .update = 50, .batch = 1},
    {"W4", MIX(M), .update = 95, .batch = 1},
    {"W5", MIX(M), .update = 25, .scan = 5, .length = 100, .batch = 1},
    {"W6", MIX(M), .scan = 100, .length = 100},
    {"counters_1", M, bench_run_counters, SYS, .writes = true, .batch = 1},
    {"counters_64", M, bench_run_counters, SYS, .writes = true, .batch = 64},
};

const size_t bench_nworkloads = sizeof(bench_workloads) / sizeof(bench_workloads[0]);
