/*
 * rng.h - the random numbers of a round: splitmix64, the same on every machine.
 */
#ifndef PANDO_TESTS_MODEL_RNG_H
#define PANDO_TESTS_MODEL_RNG_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 <= result < n; n is at least 1. */
static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
    assert(n > 0);
    return rng_next(rng) % n;
}

/* low <= result <= high */
static inline uint64_t rng_between(struct rng *rng, uint64_t low, uint64_t high)
{
    return low + rng_below(rng, high - low + 1);
}

static inline bool rng_one_in(struct rng *rng, uint64_t n)
{
    return rng_below(rng, n) == 0;
}

/* A generator of its own for each pair of numbers. */
static inline struct rng rng_seed(uint64_t seed, uint64_t round)
{
    struct rng rng = {seed * UINT64_C(0x2545f4914f6cdd1d) + round};
    rng.state ^= rng_next(&rng);
    return rng;
}

#endif
