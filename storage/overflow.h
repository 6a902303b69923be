/*
 * overflow.h - keys over 1/8 of a page, and values too long for a leaf, in runs of pages. Those up
 * to RUN_ARENA_MAX bytes are here, longer ones in file_run.h.
 *
 * A run is consecutive pages: one header (kind PAGE_OVERFLOW, length, and in the file number, birth
 * and a checksum over all of it), then the bytes, so that a reader gets them in one piece. A run
 * belongs to exactly one cell, which knows its place, birth and length. It is written once, when it
 * is made, and shared by all copies of the page its cell is in.
 *
 * Threads: making runs is the writer's; reading them anybody's whose state holds them.
 */
#ifndef PANDO_STORAGE_OVERFLOW_H
#define PANDO_STORAGE_OVERFLOW_H

#include "storage/file_run.h"
#include "storage/store.h"

/* The bytes of a run, checked on first use. */
static inline int run_data(struct ps_store *store, const struct run_ref *run, const uint8_t **data)
{
    if (unlikely(run_is_long(run->len))) {
        return file_run_data(store, run, data);
    }
    const struct page *p = page_at(store, run->ref);
    *data = (const uint8_t *)p + PAGE_HEADER;
    if (unlikely(!ref_in_arena(run->ref) && !run_is_verified(store, p, run))) {
        return run_verify(store, run);
    }
    return 0;
}

/* A long one takes its pages of the file where it is called: PS_NOSPACE if there are none. */
int run_make(struct ps_txn *txn, struct ps_slice bytes, struct run_ref *run);
int run_drop(struct ps_txn *txn, const struct run_ref *run);
/* Drops the runs that entry i of a node has. */
int entry_drop_runs(struct ps_txn *txn, const struct page *p, unsigned i);

#endif
