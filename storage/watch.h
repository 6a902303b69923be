/*
 * watch.h - the assertion that no page which a pinned state can see is ever written, in builds that
 * watch (PS_IMAGE_ANONYMOUS, image.h). In other builds this is nothing.
 *
 * It keeps books of its own of what is pinned, apart from those that reclaiming goes by, and looks
 * at them at the one place that every write to the file passes (image.c), and where slots of the
 * arena are changed or given back.
 *
 *  Q1 A page of the file is written at most once each time it is taken, and else never (pages of
 *     metas aside): not after it was given back, nor while it is part of a state.
 *  Q2 When it is written, no pinned stamp is in [birth, death) of what it held before.
 *  Q3 When a slot is given back, no stamp that pins slots is in its [birth, death); when it is
 *     changed in place, none is at or after its birth.
 *
 * Pinned are here: the stamps of snapshots that have them for sure (an announcement that is yet to
 * be checked, and fails, pins nothing), the published state, executed but unpublished ones, open
 * savepoints, and for pages both durable metas. What unpins comes here before the engine knows.
 *
 * Threads: any. Everything shared is a relaxed atomic or somebody's by the engine's own rules: a
 * lock here would hide races from a thread sanitizer.
 */
#ifndef PANDO_STORAGE_WATCH_H
#define PANDO_STORAGE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/image.h"
#include "storage/page.h"

struct ps_store;
struct watch;

/* For a store whose file is mapped. NULL: no memory. */
struct watch *watch_new(const struct ps_store *store);
void watch_free(struct watch *w);

void watch_do_pin(struct watch *w, uint64_t stamp);
void watch_do_unpin(struct watch *w, uint64_t stamp);
void watch_do_meta(struct watch *w, unsigned k, uint64_t stamp);
void watch_do_reader(struct watch *w, unsigned slot, uint64_t stamp);
void watch_do_taken(struct watch *w, page_ref first, uint32_t pages);
void watch_do_freed(struct watch *w, page_ref first, uint32_t pages, uint64_t birth,
                    uint64_t death);
void watch_do_slot(struct watch *w, uint64_t birth, uint64_t death);

#define IS_WATCHED(w) (IMAGE_ANONYMOUS && (w) != NULL)

/* A savepoint is open, a state was executed; it ends, or is published or dropped. */
static inline void watch_pin(struct watch *w, uint64_t stamp)
{
    if (IS_WATCHED(w)) {
        watch_do_pin(w, stamp);
    }
}

static inline void watch_unpin(struct watch *w, uint64_t stamp)
{
    if (IS_WATCHED(w)) {
        watch_do_unpin(w, stamp);
    }
}

static inline void watch_meta(struct watch *w, unsigned k, uint64_t stamp)
{
    if (IS_WATCHED(w)) {
        watch_do_meta(w, k, stamp);
    }
}

/* What a snapshot holds: a stamp as it is announced; 0: none. */
static inline void watch_reader(struct watch *w, unsigned slot, uint64_t stamp)
{
    if (IS_WATCHED(w)) {
        watch_do_reader(w, slot, stamp);
    }
}

/* Pages that are about to be written. */
static inline void watch_taken(struct watch *w, page_ref first, uint32_t pages)
{
    if (IS_WATCHED(w)) {
        watch_do_taken(w, first, pages);
    }
}

/* Pages that come free, and the stamps of the states that had them. Birth 0: no state had. */
static inline void watch_freed(struct watch *w, page_ref first, uint32_t pages, uint64_t birth,
                               uint64_t death)
{
    if (IS_WATCHED(w)) {
        watch_do_freed(w, first, pages, birth, death);
    }
}

/* A slot comes free, or (death UINT64_MAX) is changed. */
static inline void watch_slot(struct watch *w, uint64_t birth, uint64_t death)
{
    if (IS_WATCHED(w)) {
        watch_do_slot(w, birth, death);
    }
}

#endif
