/*
 * Breadth-first search over all reachable worlds.
 *
 * Invariants:
 *  1. Every world is expanded once; worlds are told apart by a 64-bit hash of their canonical
 * bytes. With n worlds the chance that one was mistaken for another is below n * n / 2^65.
 *  2. Worlds are met in order of their distance from the start, so the first violation has the
 *     shortest trace there is within the bounds.
 *  3. For each world its predecessor and step are kept, not the world: traces are replayed.
 */
#include "tests/explorer/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct origin {
    uint32_t parent;
    uint32_t step;
};

struct level {
    struct world *worlds;
    uint32_t *ids;
    size_t count;
    size_t capacity;
};

struct search {
    const struct model *model;
    uint64_t *table;
    size_t table_size;
    struct origin *origins;
    size_t count;
    size_t capacity;
    struct level now;
    struct level next;
    struct search_result result;
};

static void *grow(void *memory, size_t size)
{
    void *p = realloc(memory, size);
    if (!p) {
        perror("explorer");
        exit(2);
    }
    return p;
}

static uint64_t hash_world(const struct world *w)
{
    const uint8_t *bytes = (const uint8_t *)w;
    uint64_t h = 0x9e3779b97f4a7c15ull;

    for (size_t i = 0; i < sizeof *w; i += 8) {
        uint64_t v = 0;
        memcpy(&v, bytes + i, sizeof *w - i < 8 ? sizeof *w - i : 8);
        h = (h ^ v) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    h *= 0xc4ceb9fe1a85ec53ull;
    h ^= h >> 29;
    return h ? h : 1;
}

static void insert_hash(uint64_t *table, size_t size, uint64_t h)
{
    size_t i = h & (size - 1);
    while (table[i])
        i = (i + 1) & (size - 1);
    table[i] = h;
}

static bool seen(const struct search *s, uint64_t h)
{
    size_t i = h & (s->table_size - 1);
    while (s->table[i] && s->table[i] != h)
        i = (i + 1) & (s->table_size - 1);
    return s->table[i] == h;
}

static void double_table(struct search *s)
{
    size_t size = s->table_size * 2;
    uint64_t *table = calloc(size, sizeof *table);

    if (!table) {
        perror("explorer");
        exit(2);
    }
    for (size_t i = 0; i < s->table_size; i++)
        if (s->table[i])
            insert_hash(table, size, s->table[i]);
    free(s->table);
    s->table = table;
    s->table_size = size;
}

/* Remembers w unless it was met before, and puts it on the next level. */
static void meet(struct search *s, const struct world *w, uint32_t parent, uint32_t step)
{
    uint64_t h = hash_world(w);

    if (seen(s, h))
        return;
    if (s->count * 2 >= s->table_size)
        double_table(s);
    insert_hash(s->table, s->table_size, h);
    if (s->count == s->capacity) {
        s->capacity *= 2;
        s->origins = grow(s->origins, s->capacity * sizeof *s->origins);
    }
    if (s->next.count == s->next.capacity) {
        s->next.capacity = s->next.capacity ? s->next.capacity * 2 : 1024;
        s->next.worlds = grow(s->next.worlds, s->next.capacity * sizeof *s->next.worlds);
        s->next.ids = grow(s->next.ids, s->next.capacity * sizeof *s->next.ids);
    }
    s->origins[s->count] = (struct origin){parent, step};
    s->next.worlds[s->next.count] = *w;
    s->next.ids[s->next.count++] = (uint32_t)s->count++;
}

static void print_trace(const struct search *s, uint32_t id, uint32_t last)
{
    uint32_t steps[256];
    unsigned n = 0;
    struct world w;

    steps[n++] = last;
    for (; id && n < 256; id = s->origins[id].parent)
        steps[n++] = s->origins[id].step;
    world_format(&w);
    for (unsigned i = 1; n--; i++) {
        const char *broken;
        char text[128];
        step_apply(&w, s->model, steps[n] & 0xff, steps[n] >> 8, &broken);
        step_describe(&w, steps[n] & 0xff, steps[n] >> 8, text, sizeof text);
        printf("    %2u  %s\n", i, text);
    }
}

/* Takes every step from w; false when one breaks an invariant. */
static bool expand(struct search *s, const struct world *w, uint32_t id, bool trace)
{
    for (unsigned kind = 0; kind < ACTIONS; kind++) {
        unsigned n = step_arguments(w, s->model, kind);
        for (unsigned arg = 0; arg < n; arg++) {
            struct world next = *w;
            const char *broken;
            enum step_result r = step_apply(&next, s->model, kind, arg, &broken);
            if (r == STEP_DISABLED)
                continue;
            s->result.steps++;
            if (r == STEP_BROKEN) {
                s->result.broken = broken;
                if (trace)
                    print_trace(s, id, arg << 8 | kind);
                return false;
            }
            meet(s, &next, id, arg << 8 | kind);
        }
    }
    return true;
}

struct search_result search_run(const struct model *m, bool trace)
{
    struct search s = {.model = m, .table_size = 1 << 16, .capacity = 1 << 15};
    struct world w;
    bool whole = true;

    s.table = calloc(s.table_size, sizeof *s.table);
    s.origins = grow(0, s.capacity * sizeof *s.origins);
    if (!s.table)
        exit(2);
    world_format(&w);
    world_canonical(&w);
    meet(&s, &w, 0, 0);
    while (whole && s.next.count) {
        struct level done = s.now;
        s.now = s.next;
        s.next = done;
        s.next.count = 0;
        for (size_t i = 0; whole && i < s.now.count; i++)
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): both levels are freed at the end */
            whole = expand(&s, &s.now.worlds[i], s.now.ids[i], trace);
        s.result.depth++;
    }
    s.result.states = s.count;
    free(s.table);
    free(s.origins);
    free(s.now.worlds);
    free(s.now.ids);
    free(s.next.worlds);
    free(s.next.ids);
    return s.result;
}
