/*
 * resident.c - reading without waiting for the disk, and waiting for it on another thread.
 *
 * When the file is larger than memory, a thread that serves many clients probes (ps_probe,
 * ps_get_many_resident): it goes down a path as long as its pages are in memory, and is told
 * PS_WOULDWAIT where they are not. Another thread then reads the path (ps_touch) and waits.
 *
 * Nothing is locked in memory: what was found there may be thrown out before it is used, which
 * costs a wait and no error. Pages of the arena are always there.
 *
 * Threads: any; a struct ps_residency is one thread's. Nothing here is written to disk.
 */
#include "storage/resident.h"
#include "storage/age.h"

#include "storage/node.h"
#include "storage/overflow.h"

#include <unistd.h>

#define TICK_MS   32u
#define RUN_AHEAD (1024u * 1024) /* bytes of a run that are looked at, and read ahead */
#define OS_PAGES  (RUN_AHEAD / 4096u + 2u)

int ps_residency_new(struct ps_store *store, struct ps_residency **residency)
{
    struct ps_residency *r = calloc(1, sizeof *r);
    *residency = r;
    if (r == NULL) {
        return PS_NOMEM;
    }
    r->store = store;
    return 0;
}

void ps_residency_free(struct ps_residency *residency)
{
    free(residency);
}

void ps_residency_renew(struct ps_residency *residency, int64_t now_ms)
{
    residency->tick = (uint64_t)now_ms / TICK_MS;
}

/* ---- asking --------------------------------------------------------------------------------- */

/* Where the kernel cannot say, the page counts as present: whoever reads it finds out. */
static bool all_there(struct ps_store *store, page_ref ref, uint64_t bytes)
{
    unsigned char there[OS_PAGES];
    uint64_t os_page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t at = ref << store->page_shift;
    uint64_t from = at & ~(os_page - 1);
    size_t n = (size_t)((at + bytes - from + os_page - 1) / os_page);
    PS_ASSERT(n <= OS_PAGES);
    if (at + bytes > store->map_bytes) {
        return true;
    }
    atomic_fetch_add_explicit(&store->residency_checks, 1, memory_order_relaxed);
    if (store->vfs->resident(store->vfs->ctx, store->base[0] + from, n * os_page, there) != 0) {
        return true;
    }
    bool all = true;
    for (size_t i = 0; i < n; i++) {
        all = all && (there[i] & 1) != 0;
    }
    return all;
}

bool residency_ask(struct ps_residency *r, page_ref ref)
{
    bool there = all_there(r->store, ref, r->store->page_size);
    if (there) {
        *residency_place(r, ref) = ref << RESIDENCY_TICK_BITS | (uint16_t)r->tick;
    }
    return there;
}

static uint64_t ahead_of(const struct run_ref *run)
{
    return run->len + PAGE_HEADER < RUN_AHEAD ? run->len + PAGE_HEADER : RUN_AHEAD;
}

bool residency_run(struct ps_residency *r, const struct run_ref *run)
{
    return ref_in_arena(run->ref) || all_there(r->store, run->ref, ahead_of(run));
}

/* Entries whose heads are equal to the first that is not less: the only ones whose keys a search
 * may compare as a whole. Calls each(arg, run) for keys in runs until it answers false. */
static bool each_key_run(const struct page *p, struct ps_slice key,
                         bool (*each)(void *arg, const struct run_ref *run), void *arg)
{
    unsigned first = node_guess(p, key);
    for (unsigned i = first; i < p->count && node_heads(p)[i] == node_heads(p)[first]; i++) {
        struct run_ref run, value;
        node_runs(p, i, &run, &value);
        if (run.ref != 0 && !each(arg, &run)) {
            return false;
        }
    }
    return true;
}

static bool key_run_there(void *arg, const struct run_ref *run)
{
    return residency_run(arg, run);
}

bool residency_keys(struct ps_residency *r, const struct page *p, struct ps_slice key)
{
    return (p->flags & PAGE_HAS_OVERFLOW) == 0 || each_key_run(p, key, key_run_there, r);
}

/* ---- reading ahead -------------------------------------------------------------------------- */

static void read_pages(struct ps_store *store, page_ref ref, uint64_t bytes)
{
    const uint8_t *at = (const uint8_t *)page_at(store, ref);
    if (ref_in_arena(ref) || (ref << store->page_shift) + bytes > store->map_bytes) {
        return;
    }
    if (bytes > 4096) {
        store->vfs->prefetch(store->vfs->ctx, at, bytes);
    }
    for (uint64_t i = 0; i < bytes; i += 4096) {
        (void)*(const volatile uint8_t *)(at + i);
    }
}

static bool run_read(void *arg, const struct run_ref *run)
{
    struct ps_store *store = arg;
    helper_await_run(&store->helper, run->ref); /* a transaction's own may not be written yet */
    if (run->ref + run_pages(run->len, store->page_shift) <= atomic_load(&store->file_pages)) {
        read_pages(store, run->ref, ahead_of(run));
    }
    return true;
}

/* ---- a path --------------------------------------------------------------------------------- */

/* Going down one path: probing if there is a residency, else reading. */
struct descent {
    struct ps_store *store;
    struct ps_residency *residency;
    struct ps_slice key;
    size_t write; /* bytes that may be put; 0: only read */
};

static int stand_on(const struct descent *d, const struct child *child, unsigned level,
                    const struct page **page)
{
    if (d->residency != NULL && !residency_page(d->residency, child->ref)) {
        return PS_WOULDWAIT;
    }
    if (d->residency == NULL && child->ref < atomic_load(&d->store->file_pages)) {
        read_pages(d->store, child->ref, d->store->page_size);
    }
    int rc = page_get(d->store, child, level, page);
    if (rc != 0 || ((*page)->flags & PAGE_HAS_OVERFLOW) == 0) {
        return rc;
    }
    if (d->residency != NULL) {
        return residency_keys(d->residency, *page, d->key) ? 0 : PS_WOULDWAIT;
    }
    each_key_run(*page, d->key, run_read, d->store);
    return 0;
}

/* A leaf that the entry does not fit into shares with a neighbour before it splits, one that a
 * deletion leaves nearly empty is merged. */
static bool needs_neighbours(const struct descent *d, const struct page *leaf, unsigned i,
                             bool exact)
{
    uint32_t size = d->store->page_size, most = leaf_cell_max(size);
    uint32_t left = node_used(leaf, size) - (exact ? node_cell_size(leaf, i) : 0);
    uint32_t added = 16u + (d->write < most ? (uint32_t)d->write : most);
    return left + added > size || left < size / 4;
}

static int neighbours(const struct descent *d, const struct page *parent, unsigned at)
{
    for (unsigned side = 0; side < 2; side++) {
        struct child child;
        if (side == 0 ? at == 0 : at + 1u == parent->count) {
            continue;
        }
        node_child(parent, side == 0 ? at - 1 : at + 1, &child);
        if (d->residency == NULL) {
            const struct page *ignored;
            int rc = stand_on(d, &child, 0, &ignored);
            if (rc != 0) {
                return rc;
            }
            atomic_fetch_add_explicit(&d->store->neighbours_touched, 1, memory_order_relaxed);
        } else if (!residency_page(d->residency, child.ref)) {
            return PS_WOULDWAIT;
        }
    }
    return 0;
}

static int value_at(const struct descent *d, const struct page *leaf, unsigned i,
                    struct ps_slice *value)
{
    struct run_ref run;
    bool encoded = node_value(leaf, i, value, &run);
    if (run.ref == 0) {
        return encoded ? VALUE_ENCODED : 0;
    }
    if (d->residency != NULL && !residency_run(d->residency, &run)) {
        return PS_WOULDWAIT;
    }
    if (d->residency == NULL) {
        run_read(d->store, &run);
    }
    const uint8_t *data;
    int rc = run_data(d->store, &run, &data);
    *value = (struct ps_slice){data, run.len};
    return rc == 0 && encoded ? VALUE_ENCODED : rc;
}

static int arrive(const struct descent *d, const struct page *parent, unsigned at,
                  const struct page *leaf, struct ps_slice *value)
{
    unsigned i;
    bool exact;
    int rc = node_search(d->store, leaf, d->key, 0, &i, &exact);
    if (rc == 0 && d->write > 0 && parent != NULL && needs_neighbours(d, leaf, i, exact)) {
        rc = neighbours(d, parent, at);
    }
    if (rc != 0) {
        return rc;
    }
    return exact ? value_at(d, leaf, i, value) : PS_NOTFOUND;
}

static int go_down(const struct descent *d, const struct ps_view *view, ps_tree tree,
                   struct ps_slice *value)
{
    const struct state *state = view_state(view);
    *value = (struct ps_slice){NULL, 0};
    if (state == NULL || tree >= state->ntrees || state->trees[tree].root.ref == 0) {
        return nothing_there(view);
    }
    struct child child = state->trees[tree].root;
    const struct page *parent = NULL, *p;
    unsigned at = 0;
    for (unsigned level = state->trees[tree].level;; level--) {
        int rc = stand_on(d, &child, level, &p);
        if (rc != 0 || level == 0) {
            return rc != 0 ? rc : arrive(d, parent, at, p, value);
        }
        rc = node_search_child(d->store, p, d->key, &at);
        if (rc != 0) {
            return rc;
        }
        node_child(p, at, &child);
        parent = p;
    }
}

static int descend(const struct descent *d, struct ps_view *view, ps_tree tree,
                   struct ps_slice *value)
{
    int rc = go_down(d, view, tree, value);
    return rc == VALUE_ENCODED ? store_decode(d->store, &view->decoded, value) : rc;
}

int ps_probe(struct ps_view *view, ps_tree tree, struct ps_slice key, size_t write,
             struct ps_residency *residency, struct ps_slice *value)
{
    struct descent d = {view->store, residency, key, write};
    int rc = view_end(view, descend(&d, view, tree, value));
    if (rc == PS_WOULDWAIT) {
        atomic_fetch_add_explicit(&view->store->probes_would_wait, 1, memory_order_relaxed);
    }
    return rc;
}

int ps_touch(struct ps_view *view, ps_tree tree, struct ps_slice key, size_t write,
             struct ps_slice *value)
{
    struct descent d = {view->store, NULL, key, write};
    atomic_fetch_add_explicit(&view->store->paths_touched, 1, memory_order_relaxed);
    return view_end(view, descend(&d, view, tree, value));
}
