/*
 * arena.c - see arena.h.
 */
#include "storage/arena.h"

#include <sys/mman.h>

#include "storage/pandostore.h"
#include "storage/poison.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define POPULATE_BYTES (256u * 1024u)  /* page faults are taken this much at a time */
#define ASK_BYTES      (1024u * 1024u) /* used between two calls of `low` */
#define AHEAD_BYTES    (4u * ASK_BYTES)

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
        for (unsigned k = 0; k < ARENA_CLASSES; k++) { /* others may get these addresses */
            const struct arena_class *c = &arena->classes[k];
            unpoison(arena->memory + (c->first << arena->page_shift),
                     (size_t)(c->fresh << k << arena->page_shift));
        }
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

/* ---- memory ahead of need ------------------------------------------------------------------- */

/* Takes the page faults of the next single slots in one call; a kernel that cannot is no harm. The
 * helper and the writer may do the same ones at once: what is there stays as it is. */
static uint64_t populate(struct arena *arena, uint64_t most)
{
    uint64_t from = atomic_load_explicit(&arena->populated, memory_order_relaxed);
    uint64_t slots = POPULATE_BYTES >> arena->page_shift;
    if (from >= most) {
        return 0;
    }
    slots = slots == 0 ? 1 : slots;
    slots = slots < most - from ? slots : most - from;
    uint8_t *at = arena->memory + ((arena->classes[0].first + from) << arena->page_shift);
    (void)madvise(at, (size_t)(slots << arena->page_shift), MADV_POPULATE_WRITE);
    uint64_t before = from;
    bool raised = atomic_compare_exchange_strong(&arena->populated, &before, from + slots);
    return raised ? slots : 0; /* else somebody else did them */
}

bool arena_wants(const struct arena *arena)
{
    return atomic_load(&arena->populated) < atomic_load(&arena->wanted);
}

void arena_populate(struct arena *arena)
{
    atomic_fetch_add_explicit(&arena->populated_ahead, populate(arena, atomic_load(&arena->wanted)),
                              memory_order_relaxed);
}

/* Asks for memory some way beyond what was used, which is no more than the capacity in the end. */
static void ask(struct arena *arena)
{
    uint64_t wanted = arena->classes[0].fresh + (AHEAD_BYTES >> arena->page_shift);
    arena->ask_at = arena->classes[0].fresh + (ASK_BYTES >> arena->page_shift);
    if (wanted >= arena->capacity) {
        wanted = arena->capacity;
        arena->ask_at = UINT64_MAX;
    }
    atomic_store(&arena->wanted, wanted);
    if (arena_wants(arena)) {
        arena->low(arena->low_arg);
    }
}

void arena_ask_ahead(struct arena *arena, void (*low)(void *arg), void *arg)
{
    arena->low = low;
    arena->low_arg = arg;
    ask(arena);
}

/* The writer comes to a single slot that was never used. */
static void come_to_fresh_slot(struct arena *arena)
{
    uint64_t slot = arena->classes[0].fresh;
    if (slot >= arena->ask_at && arena->low != NULL) {
        ask(arena);
    }
    if (slot >= atomic_load_explicit(&arena->populated, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&arena->populated_late, populate(arena, arena->classes[0].runs),
                                  memory_order_relaxed);
    }
}

/* ---- giving out and taking back ------------------------------------------------------------- */

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
        if (k == 0) {
            come_to_fresh_slot(arena);
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
    unpoison(arena->memory + (slot << arena->page_shift), (size_t)pages << arena->page_shift);
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
    uint8_t *at = arena->memory + (slot << arena->page_shift);
    size_t bytes = (size_t)side->pages << arena->page_shift;
    poison(at, bytes);
    if (k > 0) {
        (void)madvise(at, bytes, MADV_DONTNEED);
    }
    arena->used -= side->pages;
    *side = (struct slot_side){0};
    PS_ASSERT(c->free.n < c->free.room);
    c->free.at[c->free.n++] = (uint32_t)((slot - c->first) >> k);
}
