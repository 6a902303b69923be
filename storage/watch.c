/*
 * watch.c - see watch.h.
 */
#include "storage/watch.h"

#include <sys/mman.h>

#include "storage/store.h"

#define PINS 4096u /* savepoints and unpublished states at once; what is beyond is not watched */

/* What a page of the file held when it came free. */
struct held {
    uint64_t birth, death; /* birth 0: nothing that a state could see */
    bool may_write;        /* it was taken, and not written since */
};

struct watch {
    const struct ps_store *store;
    struct held *held; /* for each page that the mapping has room for */
    size_t held_bytes;
    uint64_t pages;
    _Atomic uint64_t metas[2];
    _Atomic uint64_t readers[READER_SLOTS];
    _Atomic unsigned pins_high;
    _Atomic uint64_t pins[PINS]; /* 0: an empty place */
};

/* ---- what is pinned -------------------------------------------------------------------------- */

void watch_do_pin(struct watch *w, uint64_t stamp)
{
    for (unsigned i = 0; i < PINS; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong_explicit(&w->pins[i], &none, stamp, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            unsigned high = atomic_load_explicit(&w->pins_high, memory_order_relaxed);
            while (high <= i && !atomic_compare_exchange_weak_explicit(&w->pins_high, &high, i + 1,
                                                                       memory_order_relaxed,
                                                                       memory_order_relaxed)) {
            }
            return;
        }
    }
}

/* A state that was published at once was not pinned before. */
void watch_do_unpin(struct watch *w, uint64_t stamp)
{
    unsigned high = atomic_load_explicit(&w->pins_high, memory_order_relaxed);
    for (unsigned i = 0; i < high; i++) {
        uint64_t expected = stamp;
        if (atomic_compare_exchange_strong_explicit(&w->pins[i], &expected, 0, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            return;
        }
    }
}

void watch_do_meta(struct watch *w, unsigned k, uint64_t stamp)
{
    atomic_store_explicit(&w->metas[k], stamp, memory_order_relaxed);
}

void watch_do_reader(struct watch *w, unsigned slot, uint64_t stamp)
{
    atomic_store_explicit(&w->readers[slot], stamp, memory_order_relaxed);
}

/* Descriptors are used again: the stamp is right if the descriptor was published all the while. */
static uint64_t published_stamp(const struct ps_store *store)
{
    for (;;) {
        struct state *state = atomic_load_explicit(&store->published, memory_order_acquire);
        uint64_t stamp = stamp_of(state);
        if (atomic_load_explicit(&store->published, memory_order_acquire) == state &&
            stamp_of(state) == stamp) {
            return stamp;
        }
    }
}

static bool between(uint64_t birth, uint64_t stamp, uint64_t death)
{
    return stamp != 0 && stamp >= birth && stamp < death;
}

/* A pinned stamp in [birth, death), or 0. */
static uint64_t seen_by(struct watch *w, uint64_t birth, uint64_t death, bool file)
{
    unsigned high = atomic_load(&w->store->readers_high);
    for (unsigned i = 0; i < high; i++) {
        uint64_t stamp = atomic_load_explicit(&w->readers[i], memory_order_relaxed);
        if ((file || !(stamp & FILE_ONLY)) && between(birth, stamp & ~FILE_ONLY, death)) {
            return stamp & ~FILE_ONLY;
        }
    }
    high = atomic_load_explicit(&w->pins_high, memory_order_relaxed);
    for (unsigned i = 0; i < high; i++) {
        uint64_t stamp = atomic_load_explicit(&w->pins[i], memory_order_relaxed);
        if (between(birth, stamp, death)) {
            return stamp;
        }
    }
    for (unsigned k = 0; file && k < 2; k++) {
        uint64_t stamp = atomic_load_explicit(&w->metas[k], memory_order_relaxed);
        if (between(birth, stamp, death)) {
            return stamp;
        }
    }
    uint64_t stamp = published_stamp(w->store);
    return between(birth, stamp, death) ? stamp : 0;
}

/* ---- pages and slots ------------------------------------------------------------------------- */

void watch_do_taken(struct watch *w, page_ref first, uint32_t pages)
{
    PS_ASSERT(first + pages <= w->pages);
    for (page_ref ref = first; ref < first + pages; ref++) {
        w->held[ref].may_write = true;
    }
}

void watch_do_freed(struct watch *w, page_ref first, uint32_t pages, uint64_t birth, uint64_t death)
{
    PS_ASSERT(first + pages <= w->pages);
    for (page_ref ref = first; ref < first + pages; ref++) {
        w->held[ref] = (struct held){.birth = birth, .death = death};
    }
}

/* Every write to the file comes here first. */
static void before_write(void *arg, uint64_t offset, size_t len)
{
    struct watch *w = arg;
    uint32_t shift = w->store->page_shift;
    page_ref ref = offset >> shift;
    page_ref end = (offset + len + w->store->page_size - 1) >> shift;
    for (; len > 0 && ref < end; ref++) {
        if (ref < META_RESERVED >> shift) {
            continue;
        }
        struct held *held = &w->held[ref];
        bool written_page_was_taken = held->may_write;
        PS_ASSERT(written_page_was_taken);
        uint64_t state_that_sees_it =
            held->birth != 0 ? seen_by(w, held->birth, held->death, true) : 0;
        PS_ASSERT(state_that_sees_it == 0);
        *held = (struct held){0};
    }
}

void watch_do_slot(struct watch *w, uint64_t birth, uint64_t death)
{
    uint64_t state_that_sees_it = seen_by(w, birth, death, false);
    PS_ASSERT(state_that_sees_it == 0);
}

struct watch *watch_new(const struct ps_store *store)
{
    struct watch *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return NULL;
    }
    w->store = store;
    w->pages = store->map_bytes >> store->page_shift;
    w->held_bytes = w->pages * sizeof *w->held;
    w->held = mmap(NULL, w->held_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (w->held == MAP_FAILED) {
        free(w);
        return NULL;
    }
    image_before_write(store->image, before_write, w);
    return w;
}

void watch_free(struct watch *w)
{
    if (w != NULL) {
        munmap(w->held, w->held_bytes);
        free(w);
    }
}
