/*
 * reclaim.c - giving dead slots and pages back once nobody can see them (I3).
 *
 * A page with birth b and death d is seen by the states with stamps in [b, d). Deaths come here
 * when they are published, so the published state sees none of them; what is left to look at are
 * the stamps that readers announced, and for pages of the file the two metas. A page that some
 * pinned stamp sees waits in the list of the oldest such stamp, and is looked at again when that
 * one is gone: an old snapshot costs the pages that it can see, and every page is looked at once
 * per pin that outlives it, not once per transaction.
 *
 * What a transaction took of the file and no space map knows (fresh.h) comes here like any other
 * page; no meta sees it, so it may be reused before the next checkpoint.
 *
 * Nothing here fails: what there is no memory for stays where it is and is looked at again.
 *
 * Threads: with the token.
 */
#include "storage/store.h"

/* A snapshot that keeps dead slots is asked to move from this part of the arena on. */
#define PART_EVER     4u /* with so much gone, checkpoints (at one half) would come twice as often */
#define PART_WHEN_LOW 16u

static int compare_stamps(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort_stamps(uint64_t *stamps, size_t n)
{
    if (n > 1) {
        qsort(stamps, n, sizeof *stamps, compare_stamps);
    }
}

/* The pinned stamps in order. The lock makes a snapshot's move to a checkpoint atomic for us. */
static void collect_pins(struct ps_store *store, uint64_t metas[2])
{
    pthread_mutex_lock(&store->mu);
    store->pins.n = store->slot_pins.n = 0;
    unsigned high = atomic_load(&store->readers_high);
    for (unsigned i = 0; i < high; i++) {
        uint64_t stamp = atomic_load(&store->readers[i].announced);
        if (i != store->checkpoint_snap.slot && !ps_rule(RULE_PINNED_ANNOUNCED)) {
            continue;
        }
        if (stamp != 0) { /* there is room for all readers (store.c) */
            PS_ASSERT(store->pins.n < store->pins.room);
            vec_put(&store->pins, stamp & ~FILE_ONLY);
        }
        if (stamp != 0 && !(stamp & FILE_ONLY)) {
            PS_ASSERT(store->slot_pins.n < store->slot_pins.room);
            vec_put(&store->slot_pins, stamp);
        }
    }
    metas[0] = store->meta_stamps[0];
    metas[1] = store->meta_stamps[1];
    if (!ps_rule(RULE_PINNED_METAS)) {
        metas[0] = metas[1] = 0;
    }
    pthread_mutex_unlock(&store->mu);
    sort_stamps(store->pins.at, store->pins.n);
    sort_stamps(store->slot_pins.at, store->slot_pins.n);
}

/* The number of stamps, which are in order, before the first that is at least `stamp`. */
static size_t first_from(const uint64_t *stamps, size_t n, uint64_t stamp)
{
    size_t low = 0;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        if (stamps[middle] < stamp) {
            low = middle + 1;
        } else {
            n = middle;
        }
    }
    return low;
}

/* The oldest pinned stamp in [birth, death), or 0. */
static uint64_t seen_by(const struct ps_store *store, const struct death *d, bool file,
                        const uint64_t metas[2])
{
    const uint64_t *pins = file ? store->pins.at : store->slot_pins.at;
    size_t n = file ? store->pins.n : store->slot_pins.n;
    size_t i = first_from(pins, n, d->birth);
    uint64_t found = i < n && pins[i] < d->death ? pins[i] : 0;
    for (unsigned k = 0; file && k < 2; k++) {
        if (metas[k] >= d->birth && metas[k] < d->death && (found == 0 || metas[k] < found)) {
            found = metas[k];
        }
    }
    return found;
}

static bool is_holder_of(const struct holder *h, uint64_t stamp, bool file)
{
    return h->waiting.n > 0 && h->stamp == stamp && h->file == file;
}

/* NULL: no memory. Pages that die together mostly wait for the same stamp. */
static struct holder *holder_of(struct ps_store *store, uint64_t stamp, bool file)
{
    const struct holder *all = store->holders.at;
    size_t n = store->holders.n;
    size_t i = store->holder_found < n ? store->holder_found : 0;
    size_t empty = n;
    if (n > 0 && is_holder_of(&all[i], stamp, file)) {
        return &store->holders.at[i];
    }
    for (i = 0; i < n && !is_holder_of(&all[i], stamp, file); i++) {
        empty = all[i].waiting.n == 0 ? i : empty;
    }
    if (i == n) {
        i = empty;
        if (i == n && !vec_push(&store->holders, (struct holder){0})) {
            return NULL;
        }
        store->holders.at[i].stamp = stamp;
        store->holders.at[i].file = file;
    }
    store->holder_found = i;
    return &store->holders.at[i];
}

static bool wait_for(struct holder *h, const struct death *d)
{
    if (h == NULL || !vec_push(&h->waiting, *d)) {
        return false;
    }
    h->pages += d->pages;
    return true;
}

/* False: it has to be looked at again. */
static bool look_at(struct ps_store *store, const struct death *d, const uint64_t metas[2])
{
    bool file = !ref_in_arena(d->ref);
    uint64_t pin = seen_by(store, d, file, metas);
    if (pin != 0) {
        return wait_for(holder_of(store, pin, file), d);
    }
    if (file) {
        file_pages_free(store, d);
    } else {
        if (store->slot_pins.n > 0 && store->slot_pins.at[0] < d->birth) {
            store->stat.slots_reused_between_snapshots++;
        }
        slots_free(store, d->ref, d->death);
    }
    return true;
}

/* Of stamps in order. */
static bool is_among(const uint64_t *stamps, size_t n, uint64_t stamp)
{
    size_t i = first_from(stamps, n, stamp);
    return i < n && stamps[i] == stamp;
}

/* Whether what waits for a stamp has to wait on. */
static bool still_pinned(const struct ps_store *store, const struct holder *h,
                         const uint64_t metas[2])
{
    if (!h->file) {
        return is_among(store->slot_pins.at, store->slot_pins.n, h->stamp);
    }
    return is_among(store->pins.at, store->pins.n, h->stamp) || metas[0] == h->stamp ||
           metas[1] == h->stamp;
}

/* Descriptors that nobody announced go back to the pool. The list was taken before the pins were
 * collected: a reader that announced one of them did so while it was published, so before. */
static void reclaim_states(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    struct state *retired = store->retiring;
    store->retiring = NULL;
    while (retired != NULL) {
        struct state *next = retired->next;
        struct state **to = is_among(store->pins.at, store->pins.n, stamp_of(retired))
                                ? &store->retired
                                : &store->state_pool;
        retired->next = *to;
        *to = retired;
        retired = next;
    }
    pthread_mutex_unlock(&store->mu);
}

static void look_at_all(struct ps_store *store, deaths *list, const uint64_t metas[2])
{
    size_t kept = 0;
    for (size_t i = 0; i < list->n; i++) {
        struct death d = list->at[i];
        if (!look_at(store, &d, metas)) {
            list->at[kept++] = d;
        }
    }
    list->n = kept;
}

/* What waited for a stamp that is gone; `which` holder, as looking at it may move them all. */
static void look_again(struct ps_store *store, size_t which, const uint64_t metas[2])
{
    for (size_t n = store->holders.at[which].waiting.n; n > 0; n--) {
        struct death d = store->holders.at[which].waiting.at[n - 1];
        store->holders.at[which].waiting.n = n - 1;
        store->holders.at[which].pages -= d.pages;
        if (!look_at(store, &d, metas)) {
            store->holders.at[which].waiting.at[n - 1] = d;
            store->holders.at[which].waiting.n = n;
            store->holders.at[which].pages += d.pages;
            return;
        }
    }
    if (store->holders.at[which].waiting.n == 0) { /* else the last one waits here for another */
        vec_free(&store->holders.at[which].waiting);
    }
}

void reclaim(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    store->retiring = store->retired;
    store->retired = NULL;
    bool any = store->retiring != NULL;
    pthread_mutex_unlock(&store->mu);
    uint64_t metas[2];
    collect_pins(store, metas);
    if (any) {
        reclaim_states(store);
    }
    look_at_all(store, &store->dead_slots, metas);
    look_at_all(store, &store->dead_pages, metas);
    for (size_t i = 0; i < store->holders.n; i++) {
        struct holder *h = &store->holders.at[i];
        if (h->waiting.n > 0 && !still_pinned(store, h, metas)) {
            look_again(store, i, metas);
        }
    }
    bool low = store->arena.used > store->arena.capacity / 4 * 3;
    ask_to_move(store, store->arena.capacity / (low ? PART_WHEN_LOW : PART_EVER));
}

/* Whoever holds a stamp that dead slots wait for; others that see them come to be asked when the
 * slots wait for their stamps. */
void ask_to_move(struct ps_store *store, uint64_t least)
{
    unsigned high = atomic_load(&store->readers_high);
    for (size_t k = 0; k < store->holders.n; k++) {
        const struct holder *h = &store->holders.at[k];
        if (h->file || h->waiting.n == 0 || h->waiting.n < least) {
            continue;
        }
        for (unsigned i = 0; i < high; i++) {
            struct reader_slot *slot = &store->readers[i];
            if (atomic_load_explicit(&slot->announced, memory_order_relaxed) == h->stamp &&
                atomic_load_explicit(&slot->asked, memory_order_relaxed) != h->stamp) {
                atomic_store_explicit(&slot->asked, h->stamp, memory_order_relaxed);
                store->stat.snapshots_asked++;
            }
        }
    }
}

void reclaim_close(struct ps_store *store)
{
    for (size_t i = 0; i < store->holders.n; i++) {
        vec_free(&store->holders.at[i].waiting);
    }
    vec_free(&store->holders);
    vec_free(&store->retained);
    vec_free(&store->pins);
    vec_free(&store->slot_pins);
    vec_free(&store->dead_slots);
    vec_free(&store->dead_pages);
    vec_free(&store->unmapped);
    fresh_free(&store->fresh);
}

bool dead_pages_reserve(struct ps_store *store, size_t more)
{
    return vec_reserve(&store->dead_pages, more + store->deaths_kept) &&
           vec_reserve(&store->unmapped, more + store->deaths_kept);
}

/* A published death of a file page: to be reclaimed, and to be recorded by the next space map, or,
 * if no map knows of the page yet, beside its birth (F2). */
void dead_page_later(struct ps_store *store, const struct death *d)
{
    struct fresh_page *fresh = fresh_find(&store->fresh, d->ref, d->birth);
    PS_ASSERT(vec_push(&store->dead_pages, *d));
    if (fresh != NULL) {
        fresh->death = d->death;
    } else {
        PS_ASSERT(vec_push(&store->unmapped, *d));
    }
}

void file_pages_free(struct ps_store *store, const struct death *d)
{
    page_ref first = d->ref;
    uint32_t pages = d->pages;
    struct fresh_page *fresh = fresh_find(&store->fresh, first, d->birth);
    if (fresh != NULL) {
        PS_ASSERT(fresh->pages == pages);
        if (ps_rule(RULE_RUNS_GIVEN_UP)) {
            helper_give_up(&store->helper, first);
        }
        fresh_remove(&store->fresh, fresh);
        store->stat.fresh_freed++;
    }
    watch_freed(store->watch, first, pages, d->birth, d->death);
    if (space_free(&store->space, first, pages) != 0) {
        (void)store_poison(store, page_misplaced(store, atomic_load(&store->space.damage)));
    }
}

void slots_free(struct ps_store *store, page_ref ref, uint64_t death)
{
    watch_slot(store->watch, arena_side(&store->arena, ref)->birth, death);
    arena_free(&store->arena, ref);
}
