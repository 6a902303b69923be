/*
 * resident.h - whether pages of the file are in memory, as one thread has seen it lately.
 *
 * Asking the kernel costs a third of a microsecond, so a thread remembers pages that it found in
 * memory for a few ticks of its clock: the branches near the root, and hot leaves. A page that was
 * used within that time and thrown out since is taken for resident: it costs a fault, no error.
 *
 * Threads: a struct ps_residency is one thread's.
 */
#ifndef PANDO_STORAGE_RESIDENT_H
#define PANDO_STORAGE_RESIDENT_H

#include "storage/store.h"

#define RESIDENCY_KNOWN     16384u /* pages remembered, each in the one place its number gives it */
#define RESIDENCY_TICK_BITS 16u

struct ps_residency {
    struct ps_store *store;
    uint64_t tick;
    uint64_t known[RESIDENCY_KNOWN]; /* page << RESIDENCY_TICK_BITS | tick when it was seen */
};

bool residency_ask(struct ps_residency *r, page_ref ref);
/* Whether a run is in memory as far as reading it begins (RUN_AHEAD of it). */
bool residency_run(struct ps_residency *r, const struct run_ref *run);
/* Whether the keys in runs that a search for `key` in this node compares with are in memory. */
bool residency_keys(struct ps_residency *r, const struct page *p, struct ps_slice key);

static inline uint64_t *residency_place(struct ps_residency *r, page_ref ref)
{
    return &r->known[(ref ^ ref >> 14) % RESIDENCY_KNOWN];
}

/* Whether a page can be read without waiting for the disk. */
static inline bool residency_page(struct ps_residency *r, page_ref ref)
{
    if (ref_in_arena(ref)) {
        return true;
    }
    uint64_t seen = *residency_place(r, ref);
    if (likely(seen >> RESIDENCY_TICK_BITS == ref && (uint16_t)(r->tick - seen) <= 1)) {
        return true;
    }
    return residency_ask(r, ref);
}

#endif
