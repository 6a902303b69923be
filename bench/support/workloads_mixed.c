/*
 * workloads_mixed.c - mixtures of reads and writes, and transactions that read what they change.
 *
 * Kinds of transactions: a transfer reads two of 10,000 accounts and moves money between them; an
 * order reads a record, takes one of 10,000 counters down and inserts three records; an audit reads
 * ten records and inserts what it found.
 */
#include "bench/support/measure.h"
#include "bench/support/workloads.h"

#define COUNTERS      UINT64_C(10000)
#define FIRST_COUNTER (UINT64_C(1) << 40) /* as record numbers: no record has them */
#define CLOCK_EVERY   32u                 /* operations */
#define ORDER_LINES   3u
#define AUDITED       10u

static uint64_t choose(struct bench *b, const struct workload *w)
{
    uint32_t draw;
    switch (w->choose) {
    case ZIPF:
        return b->zipf[random_next(&b->random) % DRAWS];
    case LATEST:
        draw = b->zipf[random_next(&b->random) % DRAWS];
        return b->next - 1 - draw;
    default:
        return random_below(&b->random, b->records);
    }
}

static void read_one(struct bench *b, uint64_t i)
{
    uint8_t key[BENCH_MAX_KEY];
    bench_make_key(b, i, key);
    b->engine->read_begin(b->reader);
    if (b->engine->get(b->reader, key) != bench_word_of(i)) {
        die("get: a wrong value");
    }
    b->engine->read_end(b->reader);
}

static void scan_some(struct bench *b, uint64_t i, size_t n)
{
    uint8_t key[BENCH_MAX_KEY];
    bench_make_key(b, i, key);
    b->engine->read_begin(b->reader);
    b->check += b->engine->scan(b->reader, key, n);
    b->engine->read_end(b->reader);
}

static void op_on(struct bench *b, size_t k, enum bench_kind kind, uint64_t i, uint64_t word)
{
    uint8_t *key = b->keys + k * BENCH_MAX_KEY;
    bench_make_key(b, i, key);
    b->ops[k] = (struct bench_op){.kind = kind, .key = key, .word = word};
}

/* The write that a number below 100 stands for, as operation k; false: it is none. */
static bool write_op(struct bench *b, const struct workload *w, unsigned percent, size_t k)
{
    unsigned inserts_to = (unsigned)w->update + w->insert;
    if (percent < w->update) {
        bench_put_op(b, k, choose(b, w));
    } else if (percent < inserts_to) {
        bench_put_op(b, k, b->next++);
    } else if (percent < inserts_to + w->remove) {
        uint64_t own = b->next - b->first_own;
        op_on(b, k, BENCH_DELETE, b->first_own + (own > 0 ? random_below(&b->random, own) : 0), 0);
    } else {
        return false;
    }
    return true;
}

static void read_modify_write(struct bench *b, uint64_t i)
{
    bench_put_op(b, 1, i);
    op_on(b, 0, BENCH_GET, i, 0);
    bench_apply(b, 2);
    if (b->ops[0].word != bench_word_of(i)) {
        die("read-modify-write: a wrong value");
    }
}

uint64_t bench_run_mix(struct bench *b, const struct workload *w)
{
    uint64_t end = bench_end(b);
    uint64_t ops = 0;
    size_t gathered = 0;
    if (w->remove > 0) {
        b->first_own = b->next;
    }
    do {
        for (unsigned i = 0; i < CLOCK_EVERY; i++) {
            unsigned percent = (unsigned)random_below(&b->random, 100);
            if (write_op(b, w, percent, gathered)) {
                gathered++;
                if (gathered == w->batch) {
                    bench_apply(b, gathered);
                    gathered = 0;
                }
            } else if (percent >= 100u - w->scan) {
                scan_some(b, choose(b, w), w->length);
            } else if (percent >= 100u - w->scan - w->modify) {
                read_modify_write(b, choose(b, w));
            } else {
                read_one(b, choose(b, w));
            }
            ops++;
        }
    } while (measure_clock_ns() < end);
    if (gathered > 0) {
        bench_apply(b, gathered);
    }
    return ops;
}

static uint64_t some_counter(struct bench *b)
{
    return FIRST_COUNTER + random_below(&b->random, COUNTERS);
}

static void make_counters(struct bench *b)
{
    for (uint64_t i = 0; i < COUNTERS; i += BENCH_BATCH) {
        for (size_t k = 0; k < BENCH_BATCH; k++) {
            op_on(b, k, BENCH_ADD, FIRST_COUNTER + i + k, 1000);
        }
        b->engine->apply(b->db, b->ops, BENCH_BATCH);
    }
}

uint64_t bench_run_counters(struct bench *b, const struct workload *w)
{
    make_counters(b);
    uint64_t end = bench_end(b);
    uint64_t ops = 0;
    do {
        for (size_t k = 0; k < w->batch; k++) {
            op_on(b, k, BENCH_ADD, some_counter(b), 1);
        }
        bench_apply(b, w->batch);
        ops += w->batch;
    } while (measure_clock_ns() < end);
    return ops;
}

uint64_t bench_run_transfer(struct bench *b, const struct workload *w)
{
    (void)w;
    make_counters(b);
    uint64_t end = bench_end(b);
    uint64_t ops = 0;
    do {
        uint64_t from = some_counter(b);
        uint64_t to = some_counter(b);
        op_on(b, 0, BENCH_GET, from, 0);
        op_on(b, 1, BENCH_GET, to, 0);
        op_on(b, 2, BENCH_ADD, from, -UINT64_C(1));
        op_on(b, 3, BENCH_ADD, to, 1);
        bench_apply(b, 4);
        b->check += b->ops[0].word;
        ops++;
    } while (measure_clock_ns() < end);
    return ops;
}

uint64_t bench_run_order(struct bench *b, const struct workload *w)
{
    make_counters(b);
    uint64_t end = bench_end(b);
    uint64_t ops = 0;
    do {
        for (size_t k = 0; k < ORDER_LINES; k++) {
            bench_put_op(b, 2 + k, b->next++);
        }
        op_on(b, 0, BENCH_GET, choose(b, w), 0);
        op_on(b, 1, BENCH_ADD, some_counter(b), -UINT64_C(1));
        bench_apply(b, 2 + ORDER_LINES);
        b->check += b->ops[0].word;
        ops++;
    } while (measure_clock_ns() < end);
    return ops;
}

uint64_t bench_run_audit(struct bench *b, const struct workload *w)
{
    uint64_t end = bench_end(b);
    uint64_t ops = 0;
    do {
        for (size_t k = 0; k < AUDITED; k++) {
            op_on(b, k, BENCH_GET, choose(b, w), 0);
        }
        bench_put_op(b, AUDITED, b->next++);
        bench_apply(b, AUDITED + 1);
        b->check += b->ops[0].word;
        ops++;
    } while (measure_clock_ns() < end);
    return ops;
}
