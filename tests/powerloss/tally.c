/*
 * tally.c - see tally.h.
 */
#include "tests/powerloss/tally.h"

#include <stdio.h>

void tally_add(struct tally *to, const struct tally *from)
{
#define ADD(name, required) to->name += from->name;
    TALLIES(ADD)
#undef ADD
}

unsigned tally_print(const struct tally *tally, bool require)
{
    unsigned missing = 0;
#define PRINT(name, required)                                         \
    printf("  %-28s %llu\n", #name, (unsigned long long)tally->name); \
    if (require && (required) && tally->name == 0) {                  \
        printf("FAILED never met: %s\n", #name);                      \
        missing++;                                                    \
    }
    TALLIES(PRINT)
#undef PRINT
    return missing;
}
