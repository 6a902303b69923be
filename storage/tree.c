/*
 * tree.c - changing a tree: copying the path, putting, deleting, emptying.
 *
 * A change owns its path from the root down (page_own copies what is not this transaction's), then
 * changes the leaf, then carries the difference in the number of entries up. Nodes that overflow or
 * run low are rebuilt in tree_balance.c.
 *
 * Invariants: those of node.h, and
 *  T1 A branch's entry for a child holds that child's birth and the exact number of entries below;
 *     its overflow flag is set if any page below may have runs.
 *  T2 All leaves are on level 0; an empty tree has no page.
 *
 * Threads: the holder of the token, in a transaction.
 */
#include "storage/tree.h"

#include "storage/overflow.h"

#define WEIGHT_OF_BRANCH 4u /* operations that take as long to replay as dropping its children */

int page_own(struct ps_txn *txn, struct child *child, unsigned level, struct page **page)
{
    struct ps_store *store = txn->view.store;
    if (ref_in_arena(child->ref) &&
        (child->birth >= txn->base || !ps_rule(RULE_COPY_BEFORE_WRITE))) {
        watch_slot(store->watch, child->birth, UINT64_MAX);
        *page = page_mut(store, child->ref);
        return 0;
    }
    const struct page *old;
    int rc = page_get(store, child, level, &old);
    page_ref ref;
    if (rc == 0) {
        rc = txn_alloc(txn, 1, &ref);
    }
    if (rc != 0) {
        return rc;
    }
    store->stat.spilled_again += !ref_in_arena(child->ref) && child->birth >= txn->base;
    struct page *copy = page_mut(store, ref);
    memcpy(copy, old, store->page_size);
    *page = copy;
    if (lost_since(store, txn->view.losses)) {
        return lost_report(store); /* the copy may be half zeros */
    }
    copy->birth = txn->stamp;
    copy->number = 0;
    rc = txn_drop(txn, child->ref, child->birth, 1);
    child->ref = ref;
    child->birth = txn->stamp;
    if (rc == 0 && store->relink_pending > 0 &&
        (txn->nsavepoints == 0 || !ps_rule(RULE_NO_RELINK_IN_SAVEPOINT))) {
        rc = level > 0 ? relink_children(txn, copy) : relink_leaf(txn, copy);
    }
    return rc;
}

int path_own(struct ps_txn *txn, struct tree_root *root, struct ps_slice key, unsigned to_level,
             struct path *path)
{
    struct ps_store *store = txn->view.store;
    struct child *entry = &root->root;
    path->levels = root->level + 1u;
    unsigned level = root->level;
    int rc = page_own(txn, entry, level, &path->page[level]);
    while (rc == 0 && level > to_level) {
        struct page *branch = path->page[level];
        unsigned i;
        rc = node_search_child(store, branch, key, &i);
        if (rc != 0) {
            break;
        }
        path->index[level] = i;
        struct child child;
        node_child(branch, i, &child);
        page_ref before = child.ref;
        level--;
        rc = page_own(txn, &child, level, &path->page[level]);
        if (child.ref != before) {
            node_set_child(branch, i, &child);
        }
    }
    return rc;
}

/* Adds to the number of entries of every ancestor's entry, and marks overflow. */
static void path_add(const struct path *path, struct tree_root *root, int64_t delta, bool overflow)
{
    uint64_t flag = overflow ? CHILD_OVERFLOW : 0;
    for (unsigned level = 1; level < path->levels; level++) {
        struct child child;
        node_child(path->page[level], path->index[level], &child);
        child.count = (child.count + (uint64_t)delta) | flag;
        node_set_child(path->page[level], path->index[level], &child);
    }
    root->root.count = (root->root.count + (uint64_t)delta) | flag;
}

/* Makes the runs that an entry needs and does not have: of its key, of its value. */
static int make_runs(struct ps_txn *txn, struct node_entry *e)
{
    struct ps_store *store = txn->view.store;
    int rc = 0;
    if (e->key.len > key_inline_max(store->page_size) && e->key_run.ref == 0) {
        store->long_keys = true;
        rc = run_make(txn, e->key, &e->key_run);
    }
    if (rc == 0 && entry_cell_size(e, true, 0) > leaf_cell_max(store->page_size)) {
        rc = run_make(txn, e->value, &e->value_run);
    }
    if (e->value_run.ref != 0) {
        e->value.len = 0;
    }
    return rc;
}

static int new_root(struct ps_txn *txn, struct tree_root *root)
{
    page_ref ref;
    int rc = txn_alloc(txn, 1, &ref);
    if (rc == 0) {
        struct page *p = page_mut(txn->view.store, ref);
        memset(p, 0, PAGE_HEADER);
        node_init(p, txn->view.store->page_size, PAGE_LEAF, 0, NULL, 0);
        p->birth = txn->stamp;
        root->root = (struct child){ref, txn->stamp, 0};
        root->level = 0;
    }
    return rc;
}

/* Replaces the value of entry i; the new one has another length or lives elsewhere. */
static int replace(struct ps_txn *txn, struct tree_root *root, struct path *path, unsigned i,
                   const struct put *put)
{
    struct ps_store *store = txn->view.store;
    struct page *leaf = path->page[0];
    struct node_entry e;
    int rc = node_read(store, leaf, i, store->keys[0], &e);
    if (rc != 0) {
        return rc;
    }
    struct run_ref old = e.value_run;
    e.value = put->value;
    e.value_run = put->value_run;
    e.encoded = put->encoded;
    rc = make_runs(txn, &e);
    if (rc == 0 && old.ref != 0) {
        rc = run_drop(txn, &old);
    }
    if (rc != 0) {
        return rc;
    }
    node_remove(leaf, i, store->page_size);
    path_add(path, root, 0, e.key_run.ref != 0 || e.value_run.ref != 0);
    return node_put(txn, root, path, 0, i, &e);
}

int tree_leaf(struct ps_store *store, const struct tree_root *root, struct ps_slice key,
              const struct page **leaf)
{
    struct child child = root->root;
    if (child.ref == 0) {
        return PS_NOTFOUND;
    }
    for (unsigned level = root->level;; level--) {
        unsigned i;
        int rc = page_get(store, &child, level, leaf);
        if (rc != 0 || level == 0) {
            return rc;
        }
        rc = node_search_child(store, *leaf, key, &i);
        if (rc != 0) {
            return rc;
        }
        node_child(*leaf, i, &child);
    }
}

int tree_find(struct ps_txn *txn, ps_tree tree, struct ps_slice key)
{
    const struct page *leaf;
    unsigned i;
    bool exact = false;
    int rc = tree_leaf(txn->view.store, &txn->state->trees[tree], key, &leaf);
    rc = rc == 0 ? node_search(txn->view.store, leaf, key, 0, &i, &exact) : rc;
    return rc == 0 && !exact ? PS_NOTFOUND : rc;
}

int tree_long_separators(struct ps_txn *txn, ps_tree tree, struct ps_slice key, uint64_t *pages)
{
    const struct page *leaf = NULL;
    uint64_t longest = key.len;
    uint64_t second = 0;
    *pages = 0;
    int rc = tree_leaf(txn->view.store, &txn->state->trees[tree], key, &leaf);
    if (rc != 0) {
        return rc == PS_NOTFOUND ? 0 : rc;
    }
    for (unsigned i = 0; (leaf->flags & PAGE_HAS_OVERFLOW) && i < leaf->count; i++) {
        struct run_ref of_key, of_value;
        node_runs(leaf, i, &of_key, &of_value);
        uint64_t less = of_key.len < longest ? of_key.len : longest;
        longest = of_key.len > longest ? of_key.len : longest;
        second = less > second ? less : second;
    }
    if (run_is_long(second + 1)) { /* common to two keys, and a byte more */
        *pages = 2 * (uint64_t)run_pages(second + 1, txn->view.store->page_shift);
    }
    return 0;
}

static ALWAYS_INLINE int place_key(struct ps_txn *txn, ps_tree tree, struct ps_slice key,
                                   struct put_place *place)
{
    place->root = &txn->state->trees[tree];
    int rc = path_own(txn, place->root, key, 0, &place->path);
    if (rc == 0) {
        rc =
            node_search(txn->view.store, place->path.page[0], key, 0, &place->index, &place->exact);
    }
    return rc != 0 ? rc : view_end(&txn->view, 0); /* keys in runs were compared */
}

static ALWAYS_INLINE int put_at(struct ps_txn *txn, struct put_place *place, const struct put *put)
{
    struct path *path = &place->path;
    if (place->exact) {
        PS_ASSERT(put->key_run.ref == 0);
        bool done = put->value_run.ref == 0 &&
                    node_overwrite(path->page[0], place->index, put->value, put->encoded);
        return done ? 0 : replace(txn, place->root, path, place->index, put);
    }
    struct node_entry e = {.key = put->key,
                           .key_run = put->key_run,
                           .value = put->value,
                           .value_run = put->value_run,
                           .encoded = put->encoded};
    int rc = make_runs(txn, &e);
    if (rc != 0) {
        return rc;
    }
    path_add(path, place->root, 1, e.key_run.ref != 0 || e.value_run.ref != 0);
    return node_put(txn, place->root, path, 0, place->index, &e);
}

int tree_place(struct ps_txn *txn, ps_tree tree, struct ps_slice key, struct put_place *place)
{
    return place_key(txn, tree, key, place);
}

int tree_put_at(struct ps_txn *txn, struct put_place *place, const struct put *put)
{
    return put_at(txn, place, put);
}

int tree_put(struct ps_txn *txn, ps_tree tree, const struct put *put)
{
    struct tree_root *root = &txn->state->trees[tree];
    struct put_place place;
    int rc = root->root.ref == 0 ? new_root(txn, root) : 0;
    rc = rc == 0 ? place_key(txn, tree, put->key, &place) : rc;
    return rc == 0 ? put_at(txn, &place, put) : rc;
}

int tree_delete(struct ps_txn *txn, ps_tree tree, struct ps_slice key)
{
    struct ps_store *store = txn->view.store;
    struct tree_root *root = &txn->state->trees[tree];
    int rc = tree_find(txn, tree, key);
    struct path path;
    if (rc == 0) {
        rc = path_own(txn, root, key, 0, &path);
    }
    unsigned i = 0;
    bool exact = false;
    if (rc == 0) {
        rc = node_search(store, path.page[0], key, 0, &i, &exact);
    }
    if (rc != 0) {
        return rc;
    }
    rc = view_end(&txn->view, 0); /* keys in runs were compared */
    if (rc != 0) {
        return rc;
    }
    PS_ASSERT(exact);
    rc = entry_drop_runs(txn, path.page[0], i);
    if (rc != 0) {
        return rc;
    }
    node_remove(path.page[0], i, store->page_size);
    path_add(&path, root, -1, false);
    return node_thinned(txn, root, &path, 0);
}

int subtree_drop(struct ps_txn *txn, const struct child *child, unsigned level)
{
    struct ps_store *store = txn->view.store;
    int rc = 0;
    if (level > 0 || (child->count & CHILD_OVERFLOW) != 0) {
        const struct page *p;
        rc = page_get(store, child, level, &p);
        for (unsigned i = 0; rc == 0 && i < p->count; i++) {
            rc = p->flags & PAGE_HAS_OVERFLOW ? entry_drop_runs(txn, p, i) : 0;
            if (rc == 0 && level > 0) {
                struct child below;
                node_child(p, i, &below);
                rc = subtree_drop(txn, &below, level - 1);
            }
        }
    } else {
        store->stat.leaves_freed_unread++;
    }
    txn->group->weight += level > 0 ? WEIGHT_OF_BRANCH : 0;
    return rc == 0 ? txn_drop(txn, child->ref, child->birth, 1) : rc;
}

int tree_clear(struct ps_txn *txn, ps_tree tree)
{
    struct tree_root *root = &txn->state->trees[tree];
    int rc = root->root.ref != 0 ? subtree_drop(txn, &root->root, root->level) : 0;
    if (rc == 0) {
        memset(&root->root, 0, sizeof root->root);
        root->level = 0;
    }
    return rc;
}
