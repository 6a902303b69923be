/*
 * spill.c - a transaction larger than its share of the arena: its pages go to the file while it
 * runs.
 *
 *  P1 Only pages born since the innermost savepoint (or the transaction's start) leave the arena:
 *     what a savepoint's roots lead to stays where it is, and rolling back needs nothing new.
 *  P2 Pages are moved between two changes, when room is made, never under one. Parents get the new
 *     reference; cursors of the transaction notice by txn->changes.
 *  P3 What is in the file leads to nothing in the arena (I4): children and runs go first. Where a
 *     branch of the transaction leads to slots of earlier states, those with an image are relinked
 *     (R2: only if no savepoint is open), others are copied into the file for this transaction.
 *  P4 A sweep has a stamp of its own, and what it writes is born with it. So no place in the file
 *     is written twice with the same birth, and a write that got lost shows (verify.c) although
 *     places are used again within the transaction.
 *  P5 A page that is changed again after it was moved is copied like any page of the file; its
 *     place is free at once, unless a savepoint needs it (txn_drop, F3).
 *  P6 Leaves go first, in key order from where the last sweep ended, half of what there is at a
 *     time: places are given out in key order, and writes are long. Branches follow if that does
 *     not make enough room: first those with all children in the file, then any.
 *  P7 Every page in the arena has a reservation in the file (room_in_file), so there is a place for
 *     it; if there is none after all (a run finds no room in one piece), PS_NOSPACE, and the
 *     transaction goes on as it is. A failed write poisons the store.
 *
 * What a sweep leaves behind is bounded by the transaction's pages, not by its operations: the
 * lists of what it made are cut back to what is still there. For a page in the file that is some
 * 100 bytes (born_file, fresh.h): 100 MiB for a transaction of 4 GiB.
 *
 * Threads: the holder of the token, in a transaction. A crash leaves pages that no space map has.
 */
#include "storage/overflow.h"
#include "storage/tree.h"

#define BUFFER_PAGES 64u /* pages written, and places taken, at a time */
#define SHARE_PARTS  2u  /* a transaction's share of the arena: one half */
#define KEPT_PARTS   8u  /* slots that savepoints may keep: an eighth */

enum depth { LEAVES, BRANCHES, EVERYTHING };

struct sweep {
    struct ps_txn *txn;
    struct ps_store *store;
    enum depth depth;
    uint64_t target; /* free slots */
    bool stopped;    /* there are as many */
    bool torn;       /* an error now leaves the tree in pieces */
    uint64_t moved;

    uint8_t *buffer;
    page_ref first; /* of what is in the buffer */
    uint32_t pages;
    page_ref next; /* places taken and not used */
    uint32_t left;
    uint8_t *images[TREE_MAX_LEVELS];
};

uint64_t spill_share(const struct ps_store *store)
{
    return store->arena.capacity / SHARE_PARTS;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int flush(struct sweep *s)
{
    struct ps_store *store = s->store;
    if (s->pages == 0) {
        return 0;
    }
    uint64_t offset = s->first << store->page_shift;
    int err = data_write(store, s->buffer, (size_t)s->pages << store->page_shift, offset);
    s->pages = 0;
    if (err == 0) {
        return 0;
    }
    s->torn = true;
    store_fault(store, PS_POISONED, err, store->file_path, offset, "spilling a transaction");
    return store_poison(store, PS_POISONED);
}

/* Consecutive places, taken for the transaction, and their bytes in the buffer. */
static int place(struct sweep *s, uint32_t pages, page_ref *ref, uint8_t **at)
{
    struct ps_store *store = s->store;
    if (s->left < pages) {
        page_ref first;
        uint32_t got;
        int rc = space_alloc(&store->space, pages, pages < BUFFER_PAGES ? BUFFER_PAGES : pages,
                             &first, &got);
        if (rc != 0) {
            return store_fault(store, rc, 0, store->file_path, 0, "no room for spilling");
        }
        file_pages_grew(store);
        if (s->left > 0) {
            space_free(&store->space, s->next, s->left);
        }
        s->next = first;
        s->left = got;
    }
    if (s->pages > 0 && (s->next != s->first + s->pages || s->pages + pages > BUFFER_PAGES)) {
        int rc = flush(s);
        if (rc != 0) {
            return rc;
        }
    }
    int rc = txn_take_file(s->txn, s->next, pages);
    if (rc != 0) {
        return rc;
    }
    s->first = s->pages == 0 ? s->next : s->first;
    *ref = s->next;
    *at = s->buffer + ((size_t)s->pages << store->page_shift);
    s->pages += pages;
    s->next += pages;
    s->left -= pages;
    s->moved += pages;
    return 0;
}

static bool is_own(const struct sweep *s, uint64_t birth)
{
    return birth >= s->txn->base || !ps_rule(RULE_SPILL_SINCE_SAVEPOINT);
}

/* The slots of a page or run that is in the file now. */
static int leave(struct sweep *s, page_ref slot, uint64_t birth, uint32_t pages)
{
    int rc = txn_drop(s->txn, slot, birth, pages);
    s->torn = s->torn || rc != 0;
    return rc;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static page_ref image_of(const struct sweep *s, page_ref slot)
{
    return s->txn->nsavepoints == 0 ? arena_side(&s->store->arena, slot)->file : 0;
}

static int move_run(struct sweep *s, struct run_ref *run)
{
    struct ps_store *store = s->store;
    if (run->ref == 0 || !ref_in_arena(run->ref)) {
        run->ref = 0; /* stays as it is */
        return 0;
    }
    page_ref slot = run->ref;
    page_ref image = image_of(s, slot);
    if (image != 0) {
        run->ref = image;
        return txn_drop_slot(s->txn, slot);
    }
    uint32_t pages = run_pages(run->len, store->page_shift);
    uint8_t *at;
    int rc = place(s, pages, &run->ref, &at);
    if (rc != 0) {
        return rc;
    }
    size_t used = PAGE_HEADER + (size_t)run->len;
    memcpy(at, page_at(store, slot), used);
    memset(at + used, 0, ((size_t)pages << store->page_shift) - used);
    struct page *p = (struct page *)(void *)at;
    p->number = run->ref;
    p->birth = s->txn->stamp;
    p->crc = page_crc(p, used);
    rc = leave(s, slot, run->birth, pages);
    run->birth = s->txn->stamp;
    return rc;
}

/* The runs of a node that is about to be moved, one entry at a time: it stays right if there is no
 * room for the next. */
static int move_runs(struct sweep *s, struct page *p)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && (p->flags & PAGE_HAS_OVERFLOW) && i < p->count; i++) {
        struct run_ref key, value;
        struct run_ref none = {0};
        node_runs(p, i, &key, &value);
        rc = move_run(s, &key);
        if (rc == 0) {
            node_move_runs(p, i, &key, &none);
            rc = move_run(s, &value);
        }
        if (rc == 0) {
            node_move_runs(p, i, &none, &value);
        }
    }
    return rc;
}

/* Moves a node and all below it; the entry gets its place. The transaction's own nodes are changed
 * on the way, others in a copy. */
static int move_node(struct sweep *s, struct child *child, unsigned level)
{
    struct ps_store *store = s->store;
    if (!ref_in_arena(child->ref)) {
        return 0;
    }
    page_ref slot = child->ref;
    if (image_of(s, slot) != 0) {
        int rc = relink_child(s->txn, child, level);
        s->torn = s->torn || rc != 0;
        return rc;
    }
    struct page *p = page_mut(store, slot);
    bool own = is_own(s, child->birth);
    if (!own) {
        if (s->images[level] == NULL && (s->images[level] = malloc(store->page_size)) == NULL) {
            return PS_NOMEM;
        }
        memcpy(s->images[level], p, store->page_size);
        p = (struct page *)(void *)s->images[level];
    }
    int rc = move_runs(s, p);
    for (unsigned i = 0; rc == 0 && level > 0 && i < p->count; i++) {
        struct child below;
        node_child(p, i, &below);
        rc = move_node(s, &below, level - 1);
        if (rc == 0) {
            node_set_child(p, i, &below);
        }
    }
    page_ref ref = 0;
    uint8_t *at = NULL;
    rc = rc == 0 ? place(s, 1, &ref, &at) : rc;
    if (rc != 0) {
        s->torn = s->torn || !own; /* what is below it has left without it */
        return rc;
    }
    PS_ASSERT(at != NULL);
    memcpy(at, p, store->page_size);
    struct page *image = (struct page *)(void *)at;
    image->number = ref;
    image->birth = s->txn->stamp;
    image->crc = page_crc(image, store->page_size);
    uint64_t birth = child->birth;
    child->ref = ref;
    child->birth = s->txn->stamp;
    return leave(s, slot, birth, 1);
}

/* ---- the sweep ------------------------------------------------------------------------------- */

static bool enough(struct sweep *s)
{
    s->stopped = txn_free_slots(s->store) >= s->target;
    return s->stopped;
}

/* The next sweep begins with entry i of a branch: never its first, before which nothing was moved
 * since the branch above was looked at. */
static int stop_at(struct sweep *s, const struct page *p, unsigned i)
{
    struct spill_cursor *at = &s->store->spilled;
    struct node_entry e;
    int rc = i > 0 ? node_read(s->store, p, i, s->store->keys[3], &e) : 0;
    if (rc != 0 || i == 0) {
        return rc;
    }
    return bytes_keep(&at->key, e.key) ? 0 : PS_NOMEM;
}

/* Whether a branch can leave without anything but its own going with it. */
static bool leads_to_file(const struct sweep *s, const struct page *p)
{
    for (unsigned i = 0; i < p->count; i++) {
        struct child child;
        node_child(p, i, &child);
        if (ref_in_arena(child.ref) && image_of(s, child.ref) == 0) {
            return false;
        }
    }
    return true;
}

static int sweep_branch(struct sweep *s, struct page *p, unsigned level,
                        const struct ps_slice *from);

/* One entry: what is below it, and then its page, as far as this sweep goes. */
static int sweep_child(struct sweep *s, struct child *child, unsigned level,
                       const struct ps_slice *from)
{
    bool own = ref_in_arena(child->ref) && is_own(s, child->birth);
    if (own && level > 0) {
        struct page *below = page_mut(s->store, child->ref);
        int rc = sweep_branch(s, below, level, from);
        if (rc != 0 || s->stopped || s->depth == LEAVES ||
            (s->depth == BRANCHES && !leads_to_file(s, below))) {
            return rc;
        }
    }
    return own ? move_node(s, child, level) : 0;
}

static int sweep_branch(struct sweep *s, struct page *p, unsigned level,
                        const struct ps_slice *from)
{
    unsigned i = 0;
    int rc = from != NULL ? node_search_child(s->store, p, *from, &i) : 0;
    for (; rc == 0 && i < p->count; i++, from = NULL) {
        if (enough(s)) {
            return stop_at(s, p, i);
        }
        struct child child;
        node_child(p, i, &child);
        struct child before = child;
        rc = sweep_child(s, &child, level - 1, from);
        if (child.ref != before.ref) {
            node_set_child(p, i, &child);
        }
        if (s->stopped) {
            return rc;
        }
    }
    return rc;
}

/* Once round all trees from where the last sweep ended. */
static int go_round(struct sweep *s)
{
    struct state *state = s->txn->state;
    struct spill_cursor *at = &s->store->spilled;
    struct ps_slice key = bytes_slice(&at->key);
    at->tree = at->tree < state->ntrees ? at->tree : 0;
    ps_tree began = at->tree;
    void *copy = slice_copy(&key); /* the cursor moves meanwhile */
    if (copy == NULL) {
        return PS_NOMEM;
    }
    int rc = 0;
    s->stopped = false;
    for (uint32_t n = 0; rc == 0 && !s->stopped && n <= state->ntrees && state->ntrees > 0; n++) {
        at->tree = (began + n) % state->ntrees;
        at->key.n = n == 0 ? at->key.n : 0;
        struct tree_root *root = &state->trees[at->tree];
        if (root->root.ref != 0 && !enough(s)) {
            rc = sweep_child(s, &root->root, root->level, n == 0 ? &key : NULL);
        }
    }
    free(copy);
    return rc;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static int compare_refs(const void *a, const void *b)
{
    page_ref x = *(const page_ref *)a;
    page_ref y = *(const page_ref *)b;
    return (x > y) - (x < y);
}

/* The lists of what was made since the innermost savepoint name many a place twice, and many that
 * are free again: they are cut back before they are long. */
static void cut_lists(struct ps_txn *txn)
{
    struct ps_store *store = txn->view.store;
    struct group *g = txn->group;
    const struct savepoint *top =
        txn->nsavepoints > 0 ? &txn->savepoints[txn->nsavepoints - 1] : NULL;
    size_t from = top != NULL ? top->born : 0;
    if (g->born.n - from > 2 * store->arena.capacity) {
        size_t kept = from;
        qsort(g->born.at + from, g->born.n - from, sizeof *g->born.at, compare_refs);
        for (size_t i = from; i < g->born.n; i++) {
            page_ref ref = g->born.at[i];
            if (arena_side(&store->arena, ref)->birth >= txn->base &&
                (kept == from || g->born.at[kept - 1] != ref)) {
                g->born.at[kept++] = ref;
            }
        }
        g->born.n = kept;
    }
    from = top != NULL ? top->born_file : 0;
    if (g->born_file.n - from > 2 * store->fresh.n + store->arena.capacity) {
        size_t kept = from;
        for (size_t i = from; i < g->born_file.n; i++) {
            struct space_extent e = g->born_file.at[i];
            if (fresh_find(&store->fresh, e.first, e.birth) != NULL) {
                g->born_file.at[kept++] = e;
            }
        }
        g->born_file.n = kept;
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int sweep_begin(struct sweep *s, struct ps_txn *txn)
{
    *s = (struct sweep){.txn = txn, .store = txn->view.store};
    s->buffer = malloc((size_t)BUFFER_PAGES << s->store->page_shift);
    txn_advance(txn);
    return s->buffer == NULL ? PS_NOMEM : 0;
}

static int sweep_end(struct sweep *s, int rc)
{
    struct ps_txn *txn = s->txn;
    struct ps_store *store = s->store;
    int written = flush(s);
    rc = rc == 0 ? written : rc;
    if (s->left > 0) {
        space_free(&store->space, s->next, s->left);
    }
    for (unsigned i = 0; i < TREE_MAX_LEVELS; i++) {
        free(s->images[i]);
    }
    free(s->buffer);
    txn_advance(txn);
    txn->changes++;
    txn->error = rc != 0 && s->torn ? rc : txn->error;
    store->stat.spilled_pages += s->moved;
    store->stat.spill_sweeps += s->moved > 0;
    cut_lists(txn);
    return rc;
}

int spill(struct ps_txn *txn, uint64_t least)
{
    struct ps_store *store = txn->view.store;
    uint64_t loose = txn_loose_slots(txn);
    struct sweep s;
    int rc = sweep_begin(&s, txn);
    for (s.depth = LEAVES; rc == 0 && s.depth <= EVERYTHING; s.depth++) {
        uint64_t more = s.depth == LEAVES ? loose / 2 : s.depth == BRANCHES ? loose / 4 : 0;
        s.target = least + more;
        rc = go_round(&s);
        if (txn_free_slots(store) >= least + loose / 8) {
            break;
        }
    }
    return sweep_end(&s, rc);
}

/* Slots that savepoints may keep, so that any operation has room beside them. */
static uint64_t most_kept(const struct ps_store *store)
{
    uint64_t most = store->arena.capacity / KEPT_PARTS;
    uint64_t needed = slots_of_largest(store) + slots_kept_back(store);
    uint64_t rest = needed < store->arena.capacity ? store->arena.capacity - needed : 0;
    return most < rest ? most : rest;
}

int spill_for_savepoint(struct ps_txn *txn)
{
    if (!txn->whole || txn_loose_slots(txn) == 0 || txn->own_slots <= most_kept(txn->view.store)) {
        return 0;
    }
    struct sweep s;
    int rc = sweep_begin(&s, txn);
    for (s.depth = LEAVES; rc == 0 && s.depth <= BRANCHES; s.depth++) {
        s.target = UINT64_MAX;
        rc = go_round(&s);
    }
    return sweep_end(&s, rc);
}
