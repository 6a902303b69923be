/*
 * workloads_threads.c - readers beside a writer; writers beside each other.
 *
 * The writer beside readers is paced, to be the same for every engine: a faster one would take more
 * of the processors and of the caches from its readers. Processor time is that of the readers.
 */
#include "bench/support/measure.h"
#include "bench/support/workloads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define READERS      2u
#define WRITERS      8u
#define COMMIT_PUTS  100u
#define COMMIT_NS    UINT64_C(5000000) /* from the beginning of one commit to that of the next */
#define CLOCK_EVERY  16u
#define NS_IN_SECOND UINT64_C(1000000000)

struct worker {
    struct bench *b;
    pthread_t thread;
    uint64_t random, end, ops, cpu_ns;
    struct histogram latency;
};

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_IN_SECOND + (uint64_t)t.tv_nsec;
}

static void *read_main(void *arg)
{
    struct worker *w = arg;
    const struct bench *b = w->b;
    struct bench_reader *reader = b->engine->reader_open(b->db);
    uint8_t key[BENCH_MAX_KEY];
    uint64_t cpu = thread_cpu_ns();
    uint64_t before = measure_clock_ns();
    while (before < w->end) {
        b->engine->read_begin(reader);
        for (unsigned i = 0; i < CLOCK_EVERY; i++) {
            uint64_t r = random_below(&w->random, b->records);
            bench_make_key(b, r, key);
            if (b->engine->get(reader, key) != bench_word_of(r)) {
                die("get: a wrong value");
            }
            uint64_t now = measure_clock_ns();
            histogram_add(&w->latency, now - before);
            before = now;
        }
        b->engine->read_end(reader);
        w->ops += CLOCK_EVERY;
    }
    w->cpu_ns = thread_cpu_ns() - cpu;
    b->engine->reader_close(reader);
    return NULL;
}

static void *write_main(void *arg)
{
    struct worker *w = arg;
    const struct bench *b = w->b;
    uint8_t key[BENCH_MAX_KEY], value[MAX_VALUE];
    uint64_t before = measure_clock_ns();
    while (before < w->end) {
        uint64_t r = random_below(&w->random, b->records);
        bench_make_key(b, r, key);
        bench_make_value(b, r, value);
        struct bench_op op = {.kind = BENCH_PUT, .key = key, .value = value};
        b->engine->apply(b->db, &op, 1);
        uint64_t now = measure_clock_ns();
        histogram_add(&w->latency, now - before);
        before = now;
        w->ops++;
    }
    return NULL;
}

static struct worker *start(struct bench *b, unsigned n, void *(*run)(void *))
{
    struct worker *workers = calloc(n, sizeof(*workers));
    if (workers == NULL) {
        die("out of memory");
    }
    uint64_t end = bench_end(b);
    for (unsigned i = 0; i < n; i++) {
        workers[i].b = b;
        workers[i].random = i + 1;
        workers[i].end = end;
        if (pthread_create(&workers[i].thread, NULL, run, &workers[i]) != 0) {
            die("no thread");
        }
    }
    return workers;
}

static uint64_t finish(struct bench *b, struct worker *workers, unsigned n)
{
    uint64_t ops = 0;
    histogram_clear(&b->latency);
    for (unsigned i = 0; i < n; i++) {
        pthread_join(workers[i].thread, NULL);
        ops += workers[i].ops;
        b->cpu_ns += workers[i].cpu_ns;
        b->latency.count += workers[i].latency.count;
        for (unsigned k = 0; k < HISTOGRAM_BUCKETS; k++) {
            b->latency.buckets[k] += workers[i].latency.buckets[k];
        }
        if (workers[i].latency.max > b->latency.max) {
            b->latency.max = workers[i].latency.max;
        }
    }
    free(workers);
    return ops;
}

uint64_t bench_run_readers(struct bench *b, const struct workload *w)
{
    struct worker *readers = start(b, READERS, read_main);
    uint64_t next = measure_clock_ns();
    while (w->update > 0 && next < readers[0].end) {
        for (size_t k = 0; k < COMMIT_PUTS; k++) {
            bench_put_op(b, k, random_below(&b->random, b->records));
        }
        b->engine->apply(b->db, b->ops, COMMIT_PUTS);
        next += COMMIT_NS;
        struct timespec until = {(time_t)(next / NS_IN_SECOND), (long)(next % NS_IN_SECOND)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
    return finish(b, readers, READERS);
}

uint64_t bench_run_writers(struct bench *b, const struct workload *w)
{
    (void)w;
    return finish(b, start(b, WRITERS, write_main), WRITERS);
}
