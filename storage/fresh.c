/*
 * fresh.c - see fresh.h: the table.
 */
#include "storage/fresh.h"

#include <stdlib.h>
#include <string.h>

#include "storage/vec.h"

#define FRESH_LEAST 64u /* places of the smallest table */

static size_t place_of(const struct fresh *fresh, page_ref first)
{
    uint64_t h = first * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(h >> 32) & (fresh->room - 1);
}

static void put(struct fresh *fresh, const struct fresh_page *page)
{
    size_t i = place_of(fresh, page->first);
    while (fresh->at[i].first != 0) {
        PS_ASSERT(fresh->at[i].first != page->first);
        i = (i + 1) & (fresh->room - 1);
    }
    fresh->at[i] = *page;
}

bool fresh_reserve(struct fresh *fresh)
{
    size_t least = (fresh->n + fresh->kept + 1) * 2;
    if (least <= fresh->room) {
        return true;
    }
    struct fresh larger = {.n = fresh->n,
                           .kept = fresh->kept,
                           .room = fresh->room == 0 ? FRESH_LEAST : fresh->room * 2};
    while (larger.room < least) {
        larger.room *= 2;
    }
    larger.at = vec_realloc(NULL, larger.room * sizeof *larger.at);
    if (larger.at == NULL) {
        return false;
    }
    memset(larger.at, 0, larger.room * sizeof *larger.at);
    for (size_t i = 0; i < fresh->room; i++) {
        if (fresh->at[i].first != 0) {
            put(&larger, &fresh->at[i]);
        }
    }
    free(fresh->at);
    *fresh = larger;
    return true;
}

void fresh_add(struct fresh *fresh, const struct fresh_page *page)
{
    PS_ASSERT((fresh->n + 1) * 2 <= fresh->room && page->first != 0 && page->birth != 0);
    put(fresh, page);
    fresh->n++;
}

struct fresh_page *fresh_find(const struct fresh *fresh, page_ref first, uint64_t birth)
{
    if (fresh->n == 0) {
        return NULL;
    }
    size_t i = place_of(fresh, first);
    while (fresh->at[i].first != 0 && fresh->at[i].first != first) {
        i = (i + 1) & (fresh->room - 1);
    }
    return fresh->at[i].first == first && fresh->at[i].birth == birth ? &fresh->at[i] : NULL;
}

/* What follows without a gap moves up if it may, so that nothing is looked for in vain. Whoever
 * walks the table and removes has to look at the same place again. */
void fresh_remove(struct fresh *fresh, struct fresh_page *page)
{
    size_t mask = fresh->room - 1;
    size_t hole = (size_t)(page - fresh->at);
    for (size_t i = (hole + 1) & mask; fresh->at[i].first != 0; i = (i + 1) & mask) {
        size_t from = place_of(fresh, fresh->at[i].first);
        if (((i - from) & mask) >= ((i - hole) & mask)) {
            fresh->at[hole] = fresh->at[i];
            hole = i;
        }
    }
    fresh->at[hole] = (struct fresh_page){0};
    fresh->n--;
}

void fresh_free(struct fresh *fresh)
{
    free(fresh->at);
    *fresh = (struct fresh){0};
}
