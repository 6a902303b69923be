/*
 * metrics.c - see metrics.h. Threads are added under a lock and never removed.
 */
#include "server/observe/metrics.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 512
#define COUNTERS    (sizeof(struct metrics_thread) / sizeof(uint64_t))

struct metrics {
    pthread_mutex_t lock;
    struct metrics_thread *threads[MAX_THREADS];
    unsigned count;
    struct metrics_thread base; /* sums at the last reset */
    struct metrics_thread sampled;
    int64_t sampled_at;
    struct metrics_rates rates;
};

struct metrics *metrics_new(void)
{
    struct metrics *m = aligned_alloc(64, (sizeof(*m) + 63) / 64 * 64);
    if (m != NULL) {
        memset(m, 0, sizeof(*m));
        pthread_mutex_init(&m->lock, NULL);
    }
    return m;
}

void metrics_free(struct metrics *metrics)
{
    for (unsigned i = 0; metrics != NULL && i < metrics->count; i++) {
        free(metrics->threads[i]);
    }
    if (metrics != NULL) {
        pthread_mutex_destroy(&metrics->lock);
    }
    free(metrics);
}

struct metrics_thread *metrics_thread(struct metrics *metrics)
{
    struct metrics_thread *t = aligned_alloc(64, sizeof(*t));
    pthread_mutex_lock(&metrics->lock);
    if (t == NULL || metrics->count == MAX_THREADS) {
        abort();
    }
    memset(t, 0, sizeof(*t));
    metrics->threads[metrics->count++] = t;
    pthread_mutex_unlock(&metrics->lock);
    return t;
}

/* All members are counters of one type, one after the other. */
static void add_up(struct metrics *m, struct metrics_thread *sum)
{
    _Atomic uint64_t *to = (_Atomic uint64_t *)sum;
    memset(sum, 0, sizeof(*sum));
    for (unsigned i = 0; i < m->count; i++) {
        _Atomic uint64_t *from = (_Atomic uint64_t *)m->threads[i];
        for (size_t c = 0; c < COUNTERS; c++) {
            metrics_add(&to[c], atomic_load_explicit(&from[c], memory_order_relaxed));
        }
    }
}

void metrics_sum(struct metrics *m, struct metrics_thread *sum)
{
    pthread_mutex_lock(&m->lock);
    add_up(m, sum);
    for (size_t c = 0; c < COUNTERS; c++) {
        ((_Atomic uint64_t *)sum)[c] -= ((_Atomic uint64_t *)&m->base)[c];
    }
    pthread_mutex_unlock(&m->lock);
}

void metrics_reset(struct metrics *m)
{
    pthread_mutex_lock(&m->lock);
    add_up(m, &m->base);
    pthread_mutex_unlock(&m->lock);
}

void metrics_sample(struct metrics *m, int64_t now_ms)
{
    struct metrics_thread now;
    int64_t ms;
    pthread_mutex_lock(&m->lock);
    add_up(m, &now);
    ms = now_ms - m->sampled_at;
    if (m->sampled_at != 0 && ms > 0) {
        double seconds = (double)ms / 1000;
        m->rates.commands = (uint64_t)((double)(now.commands - m->sampled.commands) / seconds);
        m->rates.input_kib = (double)(now.input_bytes - m->sampled.input_bytes) / 1024 / seconds;
        m->rates.output_kib = (double)(now.output_bytes - m->sampled.output_bytes) / 1024 / seconds;
    }
    memcpy((void *)&m->sampled, (void *)&now, sizeof(now));
    m->sampled_at = now_ms;
    pthread_mutex_unlock(&m->lock);
}

void metrics_rates(struct metrics *m, struct metrics_rates *rates)
{
    pthread_mutex_lock(&m->lock);
    *rates = m->rates;
    pthread_mutex_unlock(&m->lock);
}
