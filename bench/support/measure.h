/*
 * measure.h - time, processor time and repeatable random numbers for the benchmarks.
 *
 * Wall time says what a user waits, processor time what the work costs: the second is what can be
 * compared on a machine that others use, too.
 */
#ifndef PANDO_BENCH_MEASURE_H
#define PANDO_BENCH_MEASURE_H

#include <stdint.h>

struct measure {
    uint64_t wall_ns;
    uint64_t cpu_ns; /* user and system time of all threads of this process */
};

uint64_t measure_clock_ns(void);
void measure_begin(struct measure *m);
/* Replaces the starting points by the differences to now. */
void measure_end(struct measure *m);

/* splitmix64: a bijection, so that different numbers give different keys. */
static inline uint64_t mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t random_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return mix64(*state);
}

/* Uniform below n (n < 2^32). */
static inline uint64_t random_below(uint64_t *state, uint64_t n)
{
    return ((random_next(state) >> 32) * n) >> 32;
}

/* Says why on standard error and ends the program with status 1. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
