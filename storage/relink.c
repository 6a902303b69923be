/*
 * relink.c - replacing references to arena slots by the file pages that hold their images, so that
 * slots come free.
 *
 * Relinking is a change like any other: a branch is copied, its children that have an image become
 * references to the file, and their slots die (their images live on). Whenever a branch is copied
 * for another reason, this is done along the way; a sweep visits the branches that nobody touches;
 * and a store that did not change since its checkpoint is published again with all roots in the
 * file.
 *
 *  R1 A page with an image has images of everything below it (K5): its whole subtree leaves the
 *     arena with it. To keep steps short, only leaves and their parents are taken whole.
 *  R2 Nothing is relinked while a savepoint is open.
 *
 * Threads: the holder of the token.
 */
#include "storage/node.h"
#include "storage/tree.h"

#define SLOTS_A_COPY 8192u /* slots that one branch's copy may free, at most */

static int drop_run_slot(struct ps_txn *txn, const struct run_ref *run)
{
    return run->ref != 0 && ref_in_arena(run->ref) ? txn_drop_slot(txn, run->ref) : 0;
}

/* The slots of a page with an image, and of all below it, die. */
static int drop_slots(struct ps_txn *txn, page_ref ref, unsigned level, unsigned *budget)
{
    const struct page *p = page_at(txn->view.store, ref);
    int rc = 0;
    unsigned n = level > 0 || (p->flags & PAGE_HAS_OVERFLOW) ? p->count : 0;
    for (unsigned i = 0; rc == 0 && i < n; i++) {
        if (p->flags & PAGE_HAS_OVERFLOW) {
            struct run_ref key, value;
            node_runs(p, i, &key, &value);
            rc = drop_run_slot(txn, &key);
            rc = rc == 0 ? drop_run_slot(txn, &value) : rc;
        }
        if (rc == 0 && level > 0) {
            struct child child;
            node_child(p, i, &child);
            rc = ref_in_arena(child.ref) ? drop_slots(txn, child.ref, level - 1, budget) : 0;
        }
    }
    *budget -= *budget > 0;
    return rc == 0 ? txn_drop_slot(txn, ref) : rc;
}

static page_ref image_of(const struct ps_store *store, page_ref ref)
{
    return ref_in_arena(ref) ? arena_side(&store->arena, ref)->file : 0;
}

/* A child with an image becomes a reference to that, its slots and all below it die. */
int relink_child(struct ps_txn *txn, struct child *child, unsigned level)
{
    unsigned budget = UINT32_MAX;
    page_ref file = image_of(txn->view.store, child->ref);
    int rc = file != 0 ? drop_slots(txn, child->ref, level, &budget) : 0;
    child->ref = file != 0 ? file : child->ref;
    return rc;
}

/* References to runs, of a node this transaction owns. */
int relink_leaf(struct ps_txn *txn, struct page *p)
{
    struct ps_store *store = txn->view.store;
    int rc = 0;
    for (unsigned i = 0; rc == 0 && (p->flags & PAGE_HAS_OVERFLOW) && i < p->count; i++) {
        struct run_ref key, value;
        node_runs(p, i, &key, &value);
        page_ref key_file = image_of(store, key.ref);
        page_ref value_file = image_of(store, value.ref);
        node_set_runs(p, i, key_file, value_file);
        rc = key_file != 0 ? txn_drop_slot(txn, key.ref) : 0;
        rc = rc == 0 && value_file != 0 ? txn_drop_slot(txn, value.ref) : rc;
    }
    return rc;
}

int relink_children(struct ps_txn *txn, struct page *branch)
{
    struct ps_store *store = txn->view.store;
    int rc = relink_leaf(txn, branch);
    unsigned budget = SLOTS_A_COPY;
    for (unsigned i = 0; rc == 0 && branch->level <= 2 && budget > 0 && i < branch->count; i++) {
        struct child child;
        node_child(branch, i, &child);
        page_ref file = image_of(store, child.ref);
        if (file != 0) {
            rc = drop_slots(txn, child.ref, branch->level - 1u, &budget);
            child.ref = file;
            node_set_child(branch, i, &child);
        }
    }
    return rc;
}

/* ---- the sweep ------------------------------------------------------------------------------- */

static bool has_images_below(const struct ps_store *store, const struct page *p)
{
    for (unsigned i = 0; i < p->count; i++) {
        struct child child;
        node_child(p, i, &child);
        if (image_of(store, child.ref) != 0) {
            return true;
        }
    }
    return false;
}

/* Owns the path down to a level and relinks what hangs on it. */
static int relink_path(struct ps_txn *txn, struct tree_root *root, struct ps_slice key,
                       unsigned to_level)
{
    struct path path;
    int rc = path_own(txn, root, key, to_level, &path);
    for (unsigned level = to_level; rc == 0 && level < path.levels; level++) {
        rc = relink_children(txn, path.page[level]);
    }
    return rc;
}

/* The lowest arena branch on the way to the sweep's key. */
struct spot {
    unsigned level;
    bool work; /* it, one above it, or a child of one of them has an image */
    bool next; /* sweep.next is the key after what hangs there; false: the tree ends */
};

static int find_spot(struct ps_store *store, const struct tree_root *root, struct spot *spot)
{
    struct relink_cursor *sweep = &store->sweep;
    struct ps_slice key = {sweep->key.at, sweep->key.n};
    page_ref ref = root->root.ref;
    spot->next = spot->work = false;
    for (spot->level = root->level;; spot->level--) {
        const struct page *p = page_at(store, ref);
        unsigned i;
        int rc = node_search_child(store, p, key, &i);
        struct node_entry e;
        if (rc == 0 && i + 1u < p->count) {
            rc = node_read(store, p, i + 1, store->keys[3], &e);
            rc = rc == 0 && !bytes_keep(&sweep->next, e.key) ? PS_NOMEM : rc;
            spot->next = rc == 0;
        }
        if (rc != 0) {
            return rc;
        }
        struct child child;
        node_child(p, i, &child);
        spot->work = spot->work || image_of(store, ref) != 0 || has_images_below(store, p);
        if (spot->level == 1 || !ref_in_arena(child.ref)) {
            return 0;
        }
        ref = child.ref;
    }
}

/* Relinks around the sweep's key: first down to the grandparents of leaves, which may take the
 * parents whole; then the parent itself, if it is still in the arena and has something to do. */
static int relink_spot(struct ps_txn *txn, struct tree_root *root, const struct spot *spot)
{
    struct ps_slice key = {txn->view.store->sweep.key.at, txn->view.store->sweep.key.n};
    unsigned upper = root->level < 2 ? root->level : 2;
    int rc = relink_path(txn, root, key, upper < spot->level ? spot->level : upper);
    if (rc == 0 && spot->level == 1 && root->level > 1) {
        struct spot again;
        rc = find_spot(txn->view.store, root, &again);
        if (rc == 0 && again.level == 1 && again.work) {
            rc = relink_path(txn, root, key, 1);
        }
    }
    return rc;
}

static void next_tree(struct relink_cursor *sweep)
{
    sweep->tree++;
    sweep->key.n = 0;
}

static int sweep_step(struct ps_txn *txn)
{
    struct ps_store *store = txn->view.store;
    struct relink_cursor *sweep = &store->sweep;
    if (sweep->tree >= txn->state->ntrees) {
        sweep->active = false;
        return 0;
    }
    struct tree_root *root = &txn->state->trees[sweep->tree];
    unsigned budget = SLOTS_A_COPY;
    page_ref file = root->root.ref == 0 ? 0 : image_of(store, root->root.ref);
    int rc = 0;
    if (file != 0 && root->level <= 1) {
        rc = drop_slots(txn, root->root.ref, root->level, &budget);
        root->root.ref = file;
    }
    if (rc != 0 || root->root.ref == 0 || !ref_in_arena(root->root.ref) || root->level == 0) {
        next_tree(sweep);
        return rc;
    }
    struct spot spot;
    rc = find_spot(store, root, &spot);
    if (rc == 0 && spot.work) {
        rc = relink_spot(txn, root, &spot);
    }
    if (rc == 0 && spot.next) {
        rc = bytes_keep(&sweep->key, bytes_slice(&sweep->next)) ? 0 : PS_NOMEM;
    } else if (rc == 0) {
        next_tree(sweep);
    }
    return rc;
}

int relink_sweep(struct ps_txn *txn, unsigned paths)
{
    struct ps_store *store = txn->view.store;
    int rc = 0;
    while (rc == 0 && paths-- > 0 && store->sweep.active &&
           txn_free_slots(store) >= slots_kept_back(store) / 2) {
        rc = sweep_step(txn);
        store->stat.relink_sweeps++;
    }
    return rc;
}

/* ---- the idle store -------------------------------------------------------------------------- */

/* If nothing changed since the checkpoint, publishes its state again with all roots in the file. */
int relink_idle(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    bool idle = store->unpublished == 0 && !store->log_broken && store->poisoned == 0;
    pthread_mutex_unlock(&store->mu);
    const struct state *tip = store->tip;
    if (!idle || stamp_of(tip) != store->meta.stamp || store->relink_pending == 0) {
        return 0;
    }
    int rc = harvest(store);
    rc = rc == 0 ? txn_open(store, &store->internal_txn, false) : rc;
    if (rc != 0) {
        return rc;
    }
    struct ps_txn *txn = &store->internal_txn;
    for (uint32_t i = 0; rc == 0 && i < txn->state->ntrees; i++) {
        struct tree_root *root = &txn->state->trees[i];
        page_ref file = root->root.ref == 0 ? 0 : image_of(store, root->root.ref);
        if (file != 0) {
            unsigned budget = UINT32_MAX;
            rc = drop_slots(txn, root->root.ref, root->level, &budget);
            root->root.ref = file;
        }
    }
    rc = view_end(&txn->view, rc);
    if (rc != 0) {
        txn_discard(txn);
        return rc;
    }
    rc = commit_internal(store, txn);
    store->stat.relink_idle++;
    (void)harvest(store);
    reclaim(store);
    return rc;
}
