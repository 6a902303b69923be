/*
 * chance.c - see chance.h. It stands in for a function of the C library, which has no context to
 * pass: hence the one variable of this file.
 */
#include "tests/powerloss/chance.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>

#include "tests/model/rng.h"

static _Atomic uint64_t chance;

void chance_seed(uint64_t seed)
{
    atomic_store(&chance, seed);
}

ssize_t getrandom(void *buffer, size_t len, unsigned flags)
{
    (void)flags;
    struct rng rng = {atomic_fetch_add(&chance, UINT64_C(0x9e3779b97f4a7c15) * 64)};
    for (size_t at = 0; at < len; at += sizeof(uint64_t)) {
        uint64_t word = rng_next(&rng);
        size_t n = len - at < sizeof word ? len - at : sizeof word;
        memcpy((char *)buffer + at, &word, n);
    }
    return (ssize_t)len;
}
