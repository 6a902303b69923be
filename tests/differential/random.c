/*
 * What the generator's parts share: random numbers, and the call that is being made.
 *
 * Invariant: the numbers depend on gen->rng alone, so a sequence can be made again.
 */
#include "tests/differential/generate.h"

#include <assert.h>
#include <string.h>

uint64_t rng_next(struct generator *gen)
{
    /* splitmix64 */
    uint64_t z = (gen->rng += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t rng_below(struct generator *gen, size_t bound)
{
    assert(bound > 0);
    return (size_t)((rng_next(gen) >> 16) % bound);
}

bool rng_percent(struct generator *gen, unsigned percent)
{
    return rng_below(gen, 100) < percent;
}

void gen_arg(struct generator *gen, const void *data, size_t len)
{
    assert(gen->argc < MAX_ARGS);
    gen->argv[gen->argc++] = (struct arg){.data = data, .len = len};
}

void gen_arg_text(struct generator *gen, const char *text)
{
    gen_arg(gen, text, strlen(text));
}
