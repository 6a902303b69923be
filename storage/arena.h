/*
 * arena.h - anonymous memory for pages that are not in the file yet.
 *
 * Slots of one page each, and runs of consecutive slots for overflow, in size classes of 1, 2, 4,
 * ... slots. Each class has address space of its own, enough for the whole capacity in that class,
 * so that a run of k slots is always there when k slots of capacity are free, whatever was
 * allocated before: fragmentation cannot happen. Address space costs nothing; memory is counted by
 * the pages in use. A slot number is its page's index in the arena's address space.
 *
 * Each slot has a side record that never leaves memory: the stamps of its birth and death (0: alive
 * or free) and the page of the file that holds its image (0: none yet).
 *
 * Invariants:
 *  A1 used <= capacity; what alloc gives was free and is given to nobody else until freed.
 *  A2 Slots have memory before the writer comes to them: a helper takes the page faults some way
 *     ahead (arena_populate), asked for once in a while. When it is late, the writer takes those of
 *     the next few slots itself.
 *  A3 Freed slots are reused last in first out (they are hot); a freed run's memory is given back.
 *
 * Threads: the writer's, but that any thread may read pages that a pinned state can see, and that
 * arena_populate is one other thread's.
 * A crash loses all of it.
 */
#ifndef PANDO_STORAGE_ARENA_H
#define PANDO_STORAGE_ARENA_H

#include <stdatomic.h>

#include "storage/page.h"
#include "storage/vec.h"

#define ARENA_CLASSES 6u /* runs of up to 32 slots */

struct slot_side {
    uint64_t birth; /* 0: free */
    uint64_t death; /* 0: alive */
    page_ref file;  /* where its image is, once a checkpoint is complete */
    uint32_t pages; /* slots of its run */
};

struct arena_class {
    uint64_t first;     /* slot number of the class's first run */
    uint64_t runs;      /* how many there is address space for */
    uint64_t fresh;     /* runs never used so far begin here */
    VEC(uint32_t) free; /* indices of freed runs */
};

struct arena {
    uint8_t *memory;
    size_t bytes;
    struct slot_side *side;
    size_t side_bytes;
    uint32_t page_shift;
    uint64_t capacity, used, peak; /* in slots */
    uint64_t most;                 /* to which capacity may be raised for a time */
    struct arena_class classes[ARENA_CLASSES];

    /* single slots: those below `populated` have memory, those below `wanted` should */
    _Atomic uint64_t populated, wanted;
    uint64_t ask_at;        /* when so many were used, `low` is called */
    void (*low)(void *arg); /* somebody calls arena_populate soon; NULL: nobody would */
    void *low_arg;
    _Atomic uint64_t populated_ahead, populated_late; /* by arena_populate, and by the writer */
};

int arena_open(struct arena *arena, uint64_t capacity, uint64_t most, uint32_t page_shift);
void arena_close(struct arena *arena);
/* From now on, memory that is touched first comes in huge pages: fewer faults and TLB misses, but
 * each takes up to a millisecond to clear, so not while recovery is in a hurry. */
void arena_use_huge_pages(struct arena *arena);

/* From now on the writer calls `low` from time to time, for arena_populate to be called elsewhere.
 */
void arena_ask_ahead(struct arena *arena, void (*low)(void *arg), void *arg);
/* Whether slots should be populated, and doing so for a few of them. */
bool arena_wants(const struct arena *arena);
void arena_populate(struct arena *arena);

/* A run of `pages` slots with a birth stamp; PS_TXNFULL when the capacity is used up. */
int arena_alloc(struct arena *arena, uint32_t pages, uint64_t birth, page_ref *ref);
void arena_free(struct arena *arena, page_ref ref);

static inline struct slot_side *arena_side(const struct arena *arena, page_ref ref)
{
    return &arena->side[ref & ~REF_ARENA];
}

#endif
