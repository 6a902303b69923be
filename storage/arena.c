/*
 * arena.c - see arena.h.
 */
#include "storage/arena.h"

#include <sys/mman.h>

#include "storage/pandostore.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define POPULATE_BYTES (256u * 1024u) /* page faults are taken this much at a time */

static void *reserve(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

int arena_open(struct arena *arena, uint64_t capacity, uint64_t most, uint32_t page_shift)
{
    memset(arena, 0, sizeof *arena);
    arena->page_shift = page_shift;
    arena->capacity = capacity;
    arena->most = most > capacity ? most : capacity;
    uint64_t slots = 0;
    for (unsigned k = 0; k < ARENA_CLASSES; k++) {
        struct arena_class *c = &arena->classes[k];
        uint64_t smallest = k == 0 ? 1 : (UINT64_C(1) << (k - 1)) + 1;
        c->first = slots;
        c->runs = arena->most / smallest;
        slots += c->runs << k;
    }
    arena->bytes = slots << page_shift;
    arena->side_bytes = slots * sizeof *arena->side;
    arena->memory = reserve(arena->bytes);
    arena->side = reserve(arena->side_bytes);
    if (arena->memory == NULL || arena->side == NULL) {
        arena_close(arena);
        return PS_NOMEM;
    }
    return 0;
}

void arena_use_huge_pages(struct arena *arena)
{
    size_t bytes = (size_t)(arena->classes[0].runs << arena->page_shift);
    (void)madvise(arena->memory, bytes, MADV_HUGEPAGE); /* a kernel that will not is no harm */
}

void arena_close(struct arena *arena)
{
    if (arena->memory != NULL) {
        munmap(arena->memory, arena->bytes);
    }
    if (arena->side != NULL) {
        munmap(arena->side, arena->side_bytes);
    }
    for (unsigned k = 0; k < ARENA_CLASSES; k++) {
        vec_free(&arena->classes[k].free);
    }
    memset(arena, 0, sizeof *arena);
}

static unsigned class_of(uint32_t pages)
{
    unsigned k = 0;
    while ((1u << k) < pages) {
        k++;
    }
    PS_ASSERT(k < ARENA_CLASSES);
    return k;
}

/* Takes page faults for the next runs of a class in one call; a kernel that cannot is no harm. */
static void populate(struct arena *arena, struct arena_class *c, unsigned k)
{
    uint64_t runs = POPULATE_BYTES >> (arena->page_shift + k);
    runs = runs == 0 ? 1 : runs;
    if (runs > c->runs - c->populated) {
        runs = c->runs - c->populated;
    }
    uint8_t *at = arena->memory + ((c->first + (c->populated << k)) << arena->page_shift);
    (void)madvise(at, (size_t)(runs << (arena->page_shift + k)), MADV_POPULATE_WRITE);
    c->populated += runs;
}

int arena_alloc(struct arena *arena, uint32_t pages, uint64_t birth, page_ref *ref)
{
    if (arena->used + pages > arena->capacity) {
        return PS_TXNFULL;
    }
    unsigned k = class_of(pages);
    struct arena_class *c = &arena->classes[k];
    uint64_t index;
    if (c->free.n > 0) {
        index = c->free.at[--c->free.n];
    } else {
        PS_ASSERT(c->fresh < c->runs);
        if (c->fresh >= c->populated && k == 0) {
            populate(arena, c, k);
        }
        /* Room in the list for every run ever handed out: freeing cannot fail. */
        size_t listed = c->free.n;
        c->free.n = 0;
        bool ok = vec_reserve(&c->free, (size_t)c->fresh + 1);
        c->free.n = listed;
        if (!ok) {
            return PS_NOMEM;
        }
        index = c->fresh++;
    }
    uint64_t slot = c->first + (index << k);
    struct slot_side *side = &arena->side[slot];
    PS_ASSERT(side->birth == 0);
    *side = (struct slot_side){.birth = birth, .pages = pages};
    arena->used += pages;
    if (arena->used > arena->peak) {
        arena->peak = arena->used;
    }
    *ref = slot | REF_ARENA;
    return 0;
}

void arena_free(struct arena *arena, page_ref ref)
{
    uint64_t slot = ref & ~REF_ARENA;
    struct slot_side *side = &arena->side[slot];
    PS_ASSERT(ref_in_arena(ref) && side->birth != 0);
    unsigned k = class_of(side->pages);
    struct arena_class *c = &arena->classes[k];
    if (k > 0) {
        (void)madvise(arena->memory + (slot << arena->page_shift),
                      (size_t)side->pages << arena->page_shift, MADV_DONTNEED);
    }
    arena->used -= side->pages;
    *side = (struct slot_side){0};
    PS_ASSERT(c->free.n < c->free.room);
    c->free.at[c->free.n++] = (uint32_t)((slot - c->first) >> k);
}
