/*
 * metrics.h - counters that threads keep for themselves and INFO adds up.
 *
 * Invariant: each struct metrics_thread has one writing thread; no lock, no shared cache line.
 */
#ifndef PANDO_SERVER_OBSERVE_METRICS_H
#define PANDO_SERVER_OBSERVE_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

struct metrics_thread {
    _Alignas(64) _Atomic uint64_t commands;
    _Atomic uint64_t input_bytes, output_bytes;
    _Atomic uint64_t reads, writes; /* system calls */
    _Atomic uint64_t connections, rejected;
    _Atomic uint64_t limit_closed; /* connections closed for their output buffer */
    _Atomic uint64_t query_closed; /* ... for their input buffer */
    _Atomic uint64_t turns;        /* of the loop */
    _Atomic uint64_t disk_reads;   /* commands sent to the pool: they would wait for the disk */
    _Atomic uint64_t disk_writes;  /* writes whose pages the pool read before the writer got them */
};

struct metrics;

struct metrics *metrics_new(void);
void metrics_free(struct metrics *metrics);

/* A thread's counters; they live as long as metrics. Never NULL (aborts without memory at start).
 */
struct metrics_thread *metrics_thread(struct metrics *metrics);

static inline void metrics_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* The sum over all threads since the last reset. */
void metrics_sum(struct metrics *metrics, struct metrics_thread *sum);
void metrics_reset(struct metrics *metrics);

/* Called about once a second: remembers sums for the rates. */
void metrics_sample(struct metrics *metrics, int64_t now_ms);
struct metrics_rates {
    uint64_t commands; /* a second */
    double input_kib, output_kib;
};
void metrics_rates(struct metrics *metrics, struct metrics_rates *rates);

#endif
