/*
 * lookup.c - single lookups, many at once, counts and ranks.
 *
 * ps_get_many keeps a number of lookups in flight: each step of one works on memory that was asked
 * for in its step before, while the others' requests are under way. A step is: the header and
 * first heads of a node; the cell found; the next node. A leaf takes two: its index, its cell.
 *
 * ps_get_many_resident is the same code with a residency (resident.h): a lookup ends before it
 * reads a page that is not in memory. Without one the compiler leaves nothing of these checks.
 */
#include "storage/age.h"
#include "storage/node.h"
#include "storage/overflow.h"
#include "storage/resident.h"

/* The root of a tree in a state, or NULL when there is no such tree or it is empty. */
static const struct tree_root *root_of(const struct state *state, ps_tree tree)
{
    if (unlikely(state == NULL || tree >= state->ntrees || state->trees[tree].root.ref == 0)) {
        return NULL;
    }
    return &state->trees[tree];
}

int ps_tree_find(struct ps_view *view, struct ps_slice name, ps_tree *tree)
{
    const struct state *state = view_state(view);
    for (uint32_t i = 0; state != NULL && i < state->ntrees; i++) {
        const struct tree_name *n = state->trees[i].name;
        if (n != NULL && n->len == name.len && memcmp(n->bytes, name.data, name.len) == 0) {
            *tree = i;
            return 0;
        }
    }
    return nothing_there(view);
}

int ps_tree_name(struct ps_view *view, ps_tree tree, struct ps_slice *name)
{
    const struct state *state = view->state;
    if (state == NULL || tree >= state->ntrees || state->trees[tree].name == NULL) {
        return nothing_there(view);
    }
    *name = (struct ps_slice){state->trees[tree].name->bytes, state->trees[tree].name->len};
    return 0;
}

/* The value of a run, if it is in one; VALUE_ENCODED: as it is stored. */
static __attribute__((noinline)) int value_elsewhere(struct ps_store *store,
                                                     const struct run_ref *run, bool encoded,
                                                     struct ps_slice *value)
{
    int rc = 0;
    if (run->ref != 0) {
        const uint8_t *data;
        rc = run_data(store, run, &data);
        *value = (struct ps_slice){data, run->len};
    }
    return rc == 0 && encoded ? VALUE_ENCODED : rc;
}

/* The value of entry i of a leaf; VALUE_ENCODED: as it is stored. */
static ALWAYS_INLINE int value_of(struct ps_store *store, const struct page *leaf, unsigned i,
                                  struct ps_slice *value)
{
    struct run_ref run;
    bool encoded = node_value(leaf, i, value, &run);
    return unlikely(run.ref != 0 || encoded) ? value_elsewhere(store, &run, encoded, value) : 0;
}

static ALWAYS_INLINE int get(struct ps_view *view, ps_tree tree, struct ps_slice key,
                             struct ps_slice *value)
{
    struct ps_store *store = view->store;
    const struct tree_root *root = root_of(view_state(view), tree);
    if (root == NULL) {
        return nothing_there(view);
    }
    struct child child = root->root;
    for (unsigned level = root->level;; level--) {
        const struct page *p;
        int rc = page_get(store, &child, level, &p);
        if (unlikely(rc != 0)) {
            return rc;
        }
        unsigned i;
        if (level == 0) {
            bool exact;
            rc = node_search(store, p, key, 0, &i, &exact);
            return rc != 0 ? rc : exact ? value_of(store, p, i, value) : PS_NOTFOUND;
        }
        rc = node_search_child(store, p, key, &i);
        if (unlikely(rc != 0)) {
            return rc;
        }
        node_child(p, i, &child);
        node_prefetch(page_at(store, child.ref), level - 1);
    }
}

int view_get(struct ps_view *view, ps_tree tree, struct ps_slice key, struct ps_slice *value)
{
    return view_end(view, get(view, tree, key, value));
}

static int decoded(struct ps_view *view, struct ps_slice *value)
{
    return view_end(view, store_decode(view->store, &view->decoded, value));
}

int ps_get(struct ps_view *view, ps_tree tree, struct ps_slice key, struct ps_slice *value)
{
    int rc = view_end(view, get(view, tree, key, value));
    return likely(rc <= 0) ? rc : decoded(view, value);
}

/* ---- many at once --------------------------------------------------------------------------- */

#define IN_FLIGHT 16u

struct flight {
    struct ps_lookup *lookup;
    struct child child;
    const struct page *page;
    unsigned level, index;
    enum { FLIGHT_NODE, FLIGHT_CELL, FLIGHT_LEAF } step;
};

/* Starts a lookup; false if it is over at once. */
static bool take_off(const struct ps_view *view, const struct state *state, struct flight *f,
                     struct ps_lookup *lookup)
{
    const struct tree_root *root = root_of(state, lookup->tree);
    if (root == NULL) {
        lookup->rc = nothing_there(view);
        return false;
    }
    *f = (struct flight){.lookup = lookup, .child = root->root, .level = root->level};
    node_prefetch(page_at(view->store, f->child.ref), f->level);
    return true;
}

/* Whether what the entry that was found needs is in memory. */
static bool value_resident(const struct flight *f, struct ps_residency *residency)
{
    struct ps_slice ignored;
    struct run_ref run;
    node_value(f->page, f->index, &ignored, &run);
    return run.ref == 0 || residency_run(residency, &run);
}

/* Searches the node that is there by now, and asks for the cell. */
static ALWAYS_INLINE int search_node(struct ps_store *store, struct flight *f, bool *landed,
                                     struct ps_residency *residency)
{
    if (residency != NULL && f->step == FLIGHT_NODE && !residency_page(residency, f->child.ref)) {
        return PS_WOULDWAIT;
    }
    int rc = page_get(store, &f->child, f->level, &f->page);
    if (unlikely(rc != 0)) {
        return rc;
    }
    if (residency != NULL && f->step == FLIGHT_NODE &&
        !residency_keys(residency, f->page, f->lookup->key)) {
        return PS_WOULDWAIT;
    }
    if (f->level == 0 && f->step == FLIGHT_NODE) {
        unsigned i = node_guess(f->page, f->lookup->key);
        if (i < f->page->count) {
            const char *cell = (const char *)node_cell(f->page, i);
            __builtin_prefetch(cell);
            __builtin_prefetch(cell + NODE_LINE);
            __builtin_prefetch(cell + 2 * NODE_LINE);
        }
        f->step = FLIGHT_LEAF;
        return 0;
    }
    if (f->level == 0) {
        bool exact;
        rc = node_search(store, f->page, f->lookup->key, 0, &f->index, &exact);
        if (rc != 0 || !exact) {
            return rc != 0 ? rc : PS_NOTFOUND;
        }
        if (residency != NULL && !value_resident(f, residency)) {
            return PS_WOULDWAIT;
        }
        *landed = true;
        return value_of(store, f->page, f->index, &f->lookup->value);
    }
    rc = node_search_child(store, f->page, f->lookup->key, &f->index);
    if (unlikely(rc != 0)) {
        return rc; /* of a separator's run: there is no index */
    }
    __builtin_prefetch(node_cell(f->page, f->index));
    f->step = FLIGHT_CELL;
    return 0;
}

/* One step; false when the lookup is over (rc set). */
static ALWAYS_INLINE bool step(struct ps_store *store, struct flight *f,
                               struct ps_residency *residency, bool *encoded)
{
    if (f->step == FLIGHT_CELL) {
        node_child(f->page, f->index, &f->child);
        f->level--;
        f->step = FLIGHT_NODE;
        node_prefetch(page_at(store, f->child.ref), f->level);
        return true;
    }
    bool landed = false;
    int rc = search_node(store, f, &landed, residency);
    if (rc != 0 || landed) {
        f->lookup->rc = rc;
        if (unlikely(rc > 0)) {
            *encoded = true;
        }
        return false;
    }
    return true;
}

static ALWAYS_INLINE void get_many(struct ps_view *view, struct ps_lookup *lookups, size_t n,
                                   struct ps_residency *residency)
{
    struct flight flights[IN_FLIGHT];
    const struct state *state = view_state(view);
    size_t next = 0;
    unsigned flying = 0;
    bool encoded = false;
    while (flying < IN_FLIGHT && next < n) {
        flying += take_off(view, state, &flights[flying], &lookups[next]);
        next++;
    }
    while (flying > 0) {
        for (unsigned i = 0; i < flying;) {
            if (step(view->store, &flights[i], residency, &encoded)) {
                i++;
                continue;
            }
            bool replaced = false;
            while (!replaced && next < n) {
                replaced = take_off(view, state, &flights[i], &lookups[next++]);
            }
            if (!replaced) {
                flights[i] = flights[--flying];
            }
        }
    }
    if (unlikely(encoded)) {
        lookups_decode(view, lookups, n);
    }
    if (lost_since(view->store, view->losses)) {
        for (size_t i = 0; i < n; i++) {
            lookups[i].rc = lost_report(view->store);
        }
    }
}

void ps_get_many(struct ps_view *view, struct ps_lookup *lookups, size_t n)
{
    get_many(view, lookups, n, NULL);
}

void ps_get_many_resident(struct ps_view *view, struct ps_lookup *lookups, size_t n,
                          struct ps_residency *residency)
{
    uint64_t waits = 0;
    get_many(view, lookups, n, residency);
    for (size_t i = 0; i < n; i++) {
        waits += lookups[i].rc == PS_WOULDWAIT;
    }
    if (waits > 0) {
        atomic_fetch_add_explicit(&view->store->probes_would_wait, waits, memory_order_relaxed);
    }
}

/* ---- counts ---------------------------------------------------------------------------------- */

int ps_count(struct ps_view *view, ps_tree tree, uint64_t *count)
{
    const struct state *state = view_state(view);
    if (state == NULL || tree >= state->ntrees || state->trees[tree].name == NULL) {
        return nothing_there(view);
    }
    *count = child_entries(&state->trees[tree].root);
    return 0;
}

static int rank_of(struct ps_view *view, ps_tree tree, struct ps_slice key, uint64_t *rank)
{
    struct ps_store *store = view->store;
    *rank = 0;
    const struct tree_root *root = root_of(view_state(view), tree);
    if (root == NULL) {
        uint64_t ignored;
        return ps_count(view, tree, &ignored);
    }
    struct child child = root->root;
    for (unsigned level = root->level;; level--) {
        const struct page *p;
        int rc = page_get(store, &child, level, &p);
        if (rc != 0) {
            return rc;
        }
        unsigned i;
        if (level == 0) {
            bool exact;
            rc = node_search(store, p, key, 0, &i, &exact);
            *rank += i;
            return rc;
        }
        rc = node_search_child(store, p, key, &i);
        if (rc != 0) {
            return rc;
        }
        for (unsigned k = 0; k < i; k++) {
            node_child(p, k, &child);
            *rank += child_entries(&child);
        }
        node_child(p, i, &child);
    }
}

int ps_rank(struct ps_view *view, ps_tree tree, struct ps_slice key, uint64_t *rank)
{
    return view_end(view, rank_of(view, tree, key, rank));
}

int ps_count_range(struct ps_view *view, ps_tree tree, const struct ps_slice *low,
                   const struct ps_slice *high, uint64_t *count)
{
    uint64_t from = 0;
    uint64_t to;
    int rc = low != NULL ? ps_rank(view, tree, *low, &from) : 0;
    if (rc == 0) {
        rc = high != NULL ? ps_rank(view, tree, *high, &to) : ps_count(view, tree, &to);
    }
    if (rc == 0) {
        *count = to > from ? to - from : 0;
    }
    return rc;
}
