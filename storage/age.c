/*
 * age.c - how long snapshots have been held, what they keep, and ending those that are too old.
 *
 *  G1 Renewing a snapshot is the hottest step of reading and knows no clock: it takes the slot's
 *     mark away, one store to a cache line that it writes anyway. Whoever looks gives a mark with
 *     the time to those that hold a state and have none. So an age is counted from when the hold
 *     was first seen, and never more than the true one.
 *  G2 A mark belongs to one hold. It is ended by exchanging it for itself with MARK_ENDED: if the
 *     reader has renewed meanwhile, that fails, even if it holds the same state again.
 *  G3 Ending takes nothing away. Reads look at the mark (view_state) and answer PS_ENDED; the stamp
 *     stays announced until the holder, who may be on a page at this moment, lets go itself.
 *  G4 The checkpoint's own snapshot is nobody's: it is not listed, and never ended.
 *
 * What a snapshot keeps is read off the lists of reclaim.c, where a dead page waits for the oldest
 * stamp that sees it.
 *
 * Threads: any; `mu` guards all but the marks. A crash leaves nothing: no snapshot survives its
 * process.
 */
#include <time.h>

#include "storage/age.h"

const _Atomic uint64_t never_ended = 0;

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 + 1;
}

static uint64_t mark_of(uint64_t ms)
{
    return ms << 1;
}

static uint64_t age_of(uint64_t mark, uint64_t now)
{
    uint64_t since = mark >> 1;
    return since == 0 || since > now ? 0 : now - since;
}

/* The stamp that a snapshot of the store's users holds, perhaps with FILE_ONLY; 0: none. */
static uint64_t held_by(const struct ps_store *store, unsigned i)
{
    bool counts = store->reader_info[i].taken && i != store->checkpoint_snap.slot;
    return counts ? atomic_load(&store->readers[i].announced) : 0;
}

unsigned ages_look(struct ps_store *store, uint64_t max_ms)
{
    unsigned high = atomic_load(&store->readers_high);
    unsigned ended = 0;
    uint64_t now = now_ms();
    for (unsigned i = 0; i < high; i++) {
        _Atomic uint64_t *mark = &store->readers[i].mark;
        if (held_by(store, i) == 0) {
            continue;
        }
        uint64_t seen = atomic_load_explicit(mark, memory_order_relaxed);
        if (seen == 0 && atomic_compare_exchange_strong(mark, &seen, mark_of(now))) {
            seen = mark_of(now);
        }
        if (seen != 0 && !(seen & MARK_ENDED) && age_of(seen, now) >= max_ms) {
            ended += atomic_compare_exchange_strong(mark, &seen, seen | MARK_ENDED);
        }
    }
    store->stat.snapshots_ended += ended;
    return ended;
}

unsigned ps_end_snapshots(struct ps_store *store, uint64_t ms)
{
    pthread_mutex_lock(&store->mu);
    unsigned ended = ages_look(store, ms);
    pthread_mutex_unlock(&store->mu);
    return ended;
}

void ps_set_max_snapshot(struct ps_store *store, uint64_t ms)
{
    atomic_store(&store->max_snapshot_ms, ms);
}

void ages_tick(struct ps_store *store)
{
    uint64_t most = atomic_load(&store->max_snapshot_ms);
    unsigned ended = ps_end_snapshots(store, most == 0 ? UINT64_MAX : most);
    if (ended > 0) {
        store_message(store, 1, "%u snapshot%s ended: held for more than %llu ms", ended,
                      ended == 1 ? " was" : "s were", (unsigned long long)most);
    }
}

/* ---- listing --------------------------------------------------------------------------------- */

static uint64_t bytes_of(const struct ps_store *store, uint64_t pages)
{
    return pages << store->page_shift;
}

static bool describe(const struct ps_store *store, unsigned i, uint64_t now,
                     struct ps_snapshot_info *info)
{
    const struct reader_info *known = &store->reader_info[i];
    uint64_t held = held_by(store, i);
    uint64_t mark = atomic_load_explicit(&store->readers[i].mark, memory_order_relaxed);
    *info = (struct ps_snapshot_info){
        .id = i,
        .kind = held & FILE_ONLY ? known->in_file : PS_PLAIN,
        .ended = (mark & MARK_ENDED) != 0,
        .stamp = held & ~FILE_ONLY,
        .age_ms = age_of(mark, now),
    };
    if (info->kind == PS_MOVED) {
        info->retained_file = bytes_of(store, known->own_pages);
    }
    return held != 0;
}

static int compare_stamps(const void *a, const void *b)
{
    const struct ps_snapshot_info *x = a;
    const struct ps_snapshot_info *y = b;
    return (x->stamp > y->stamp) - (x->stamp < y->stamp);
}

/* The first of a sorted list with at least this stamp; n: none. */
static unsigned first_from(const struct ps_snapshot_info *list, unsigned n, uint64_t stamp)
{
    unsigned low = 0;
    while (low < n) {
        unsigned middle = low + (n - low) / 2;
        if (list[middle].stamp < stamp) {
            low = middle + 1;
        } else {
            n = middle;
        }
    }
    return low;
}

static void fill_in_seq(const struct state *state, struct ps_snapshot_info *list, unsigned n)
{
    uint64_t stamp = state != NULL ? stamp_of(state) : 0;
    for (unsigned i = first_from(list, n, stamp); i < n && list[i].stamp == stamp; i++) {
        list[i].seq = state->seq;
    }
}

/* Whatever is announced is published or was, or is the file's. */
static void fill_in_seqs(const struct ps_store *store, struct ps_snapshot_info *list, unsigned n)
{
    fill_in_seq(atomic_load(&store->published), list, n);
    fill_in_seq(store->file_state, list, n);
    for (const struct state *state = store->retired; state != NULL; state = state->next) {
        fill_in_seq(state, list, n);
    }
    for (const struct state *state = store->retiring; state != NULL; state = state->next) {
        fill_in_seq(state, list, n);
    }
}

/* What waits for a stamp, told to all who hold it; whether anybody does. */
static bool tell_retained(const struct ps_store *store, const struct retained *r,
                          struct ps_snapshot_info *list, unsigned n)
{
    bool told = false;
    for (unsigned i = first_from(list, n, r->stamp); i < n && list[i].stamp == r->stamp; i++) {
        if (r->file) {
            list[i].retained_file += bytes_of(store, r->pages);
        } else if (list[i].kind == PS_PLAIN) {
            list[i].retained_memory += bytes_of(store, r->pages);
        }
        told = told || r->file || list[i].kind == PS_PLAIN;
    }
    return told;
}

/* Every snapshot that holds a state, sorted by its stamp, and what all keep. mu held. */
static unsigned gather(struct ps_store *store, uint64_t *memory, uint64_t *file)
{
    struct ps_snapshot_info *list = store->listing;
    unsigned high = atomic_load(&store->readers_high);
    unsigned n = 0;
    *memory = *file = 0;
    (void)ages_look(store, UINT64_MAX);
    uint64_t now = now_ms();
    for (unsigned i = 0; i < high; i++) {
        if (describe(store, i, now, &list[n])) {
            *file += list[n++].retained_file;
        }
    }
    qsort(list, n, sizeof *list, compare_stamps);
    fill_in_seqs(store, list, n);
    for (size_t k = 0; k < store->retained.n; k++) {
        const struct retained *r = &store->retained.at[k];
        if (tell_retained(store, r, list, n)) {
            *(r->file ? file : memory) += bytes_of(store, r->pages);
        }
    }
    return n;
}

unsigned ps_snapshots(struct ps_store *store, struct ps_snapshot_info *list, unsigned room)
{
    uint64_t memory;
    uint64_t file;
    pthread_mutex_lock(&store->mu);
    unsigned n = gather(store, &memory, &file);
    for (unsigned i = 0; i < n && i < room; i++) {
        list[i] = store->listing[i];
    }
    pthread_mutex_unlock(&store->mu);
    return n;
}

void ages_stat(struct ps_store *store, struct ps_stat *stat)
{
    unsigned n = gather(store, &stat->snapshots_retained_memory, &stat->snapshots_retained_file);
    stat->snapshots = n;
    stat->oldest_snapshot_stamp = n > 0 ? store->listing[0].stamp : 0;
    stat->oldest_snapshot_ms = 0;
    for (unsigned i = 0; i < n; i++) {
        uint64_t age = store->listing[i].age_ms;
        stat->oldest_snapshot_ms = age > stat->oldest_snapshot_ms ? age : stat->oldest_snapshot_ms;
    }
}
