/*
 * age.h - how long snapshots have been held, and whether a view's snapshot was ended (age.c).
 *
 * Threads: any.
 */
#ifndef PANDO_STORAGE_AGE_H
#define PANDO_STORAGE_AGE_H

#include "storage/store.h"

/* What a view has for a mark that is no snapshot's. */
extern const _Atomic uint64_t never_ended;
/* Marks who holds a state, and ends those that have held one for `max_ms` or more (UINT64_MAX:
 * nobody). Returns how many. mu held. */
unsigned ages_look(struct ps_store *store, uint64_t max_ms);
/* Once in a while, of the log thread. */
void ages_tick(struct ps_store *store);
/* Fills in what ps_stat says of snapshots; mu held. */
void ages_stat(struct ps_store *store, struct ps_stat *stat);

/* Whether its snapshot was ended, and its holder does not know yet. */
static inline bool view_is_over(const struct ps_view *view)
{
    return (atomic_load_explicit(view->mark, memory_order_relaxed) & MARK_ENDED) != 0;
}

/* The state that a view reads; NULL: none. */
static inline const struct state *view_state(const struct ps_view *view)
{
    return likely(!view_is_over(view)) ? view->state : NULL;
}

/* What a read answers that finds no such tree, or no state at all. */
static inline int nothing_there(const struct ps_view *view)
{
    bool over = view->state != NULL && view_is_over(view);
    return over || view->place == VIEW_ENDED ? PS_ENDED : PS_NOTFOUND;
}

#endif
