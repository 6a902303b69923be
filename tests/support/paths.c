/*
 * paths.c - see paths.h.
 */
#include "tests/support/paths.h"

#include <stdio.h>

void paths_add_store(const struct path *paths, size_t n, uint64_t *sums, struct ps_store *store)
{
    struct ps_stat stat;
    ps_stats(store, &stat);
    for (size_t i = 0; i < n; i++)
        sums[i] += *(const uint64_t *)((const char *)&stat + paths[i].offset);
}

unsigned paths_print(const struct path *paths, size_t n, const uint64_t *sums, uint64_t operations)
{
    unsigned missing = 0;
    printf("NOTE paths of the engine:");
    for (size_t i = 0; i < n; i++)
        printf(" %s %llu", paths[i].name, (unsigned long long)sums[i]);
    printf("\n");
    for (size_t i = 0; i < n; i++) {
        if (paths[i].from && operations >= paths[i].from && sums[i] == 0) {
            printf("FAILED the path '%s' was never taken\n", paths[i].name);
            missing++;
        }
    }
    return missing;
}
