/*
 * tree_range.c - taking all entries between two keys out of a tree.
 *
 * First the two edges are trimmed, from the root down: a branch loses the children that lie between
 * them with all that is below, and what is left of a child that a bound falls into is trimmed in
 * turn; so at most two pages of a level are copied. Then, where an edge runs low, it is merged or
 * shares as after a delete (node_thinned), from the root down, so that every node has siblings by
 * the time it is looked at.
 *
 *  G1 A leaf between the edges is not read, unless the entry that leads to it says that it may have
 *     runs: reference, birth and number of entries are in the branch (T1). Branches are read.
 *  G2 Between trimming and each step of balancing the tree is whole; only nodes may be thin. So
 *     room is made for each step by itself, which may spill (P2), and where there is none the edge
 *     stays thin, as it may after a delete.
 *  G3 Trimming takes no more slots than any other change (room.c): one for each page that it
 * copies.
 *
 * Threads: the holder of the token, in a transaction.
 */
#include "storage/overflow.h"
#include "storage/tree.h"

static int out_of_order(struct ps_store *store, const struct page *p)
{
    return store_fault(store, PS_CORRUPT, 0, store->file_path, p->number << store->page_shift,
                       "keys are out of order");
}

/* The first entry that is not below a bound, from entry `from` on. */
static int bound_at(struct ps_txn *txn, const struct page *p, struct ps_slice key, unsigned from,
                    unsigned *i, bool *exact)
{
    int rc = node_search(txn->view.store, p, key, from, i, exact);
    return view_end(&txn->view, rc); /* keys in runs were compared */
}

/* What a page's parent says of it. */
static void count_page(const struct page *p, struct child *child)
{
    uint64_t flag = p->flags & PAGE_HAS_OVERFLOW ? CHILD_OVERFLOW : 0;
    uint64_t count = p->level == 0 ? p->count : 0;
    for (unsigned i = 0; p->level > 0 && i < p->count; i++) {
        struct child below;
        node_child(p, i, &below);
        count += child_entries(&below);
        flag |= below.count & CHILD_OVERFLOW;
    }
    child->count = count | flag;
}

/* The page has no entry left. */
static int drop_empty(struct ps_txn *txn, struct child *child)
{
    int rc = txn_drop(txn, child->ref, child->birth, 1);
    *child = (struct child){0};
    return rc;
}

static int trim_leaf(struct ps_txn *txn, struct child *child, struct page *p,
                     const struct ps_slice *low, const struct ps_slice *high)
{
    unsigned from = 0;
    unsigned to = p->count;
    bool exact;
    int rc = low != NULL ? bound_at(txn, p, *low, 0, &from, &exact) : 0;
    rc = rc == 0 && high != NULL ? bound_at(txn, p, *high, 0, &to, &exact) : rc;
    if (rc == 0 && to < from) {
        rc = out_of_order(txn->view.store, p);
    }
    while (rc == 0 && to > from) {
        rc = entry_drop_runs(txn, p, --to);
        if (rc == 0) {
            node_remove(p, to, txn->view.store->page_size);
        }
    }
    if (rc == 0 && p->count == 0) {
        return drop_empty(txn, child);
    }
    count_page(p, child);
    return rc;
}

/* Takes entries [from, to) out of a branch; what they led to has been dropped. Entry 0 has no key:
 * if it goes, the first that stays takes its place and loses its own. */
static int remove_entries(struct ps_txn *txn, struct page *p, unsigned from, unsigned to)
{
    if (from == 0 && to < p->count && to > 0) {
        struct child first;
        node_child(p, to, &first);
        node_set_child(p, 0, &first);
        from++;
        to++;
    }
    int rc = 0;
    while (rc == 0 && to > from) {
        rc = entry_drop_runs(txn, p, --to);
        if (rc == 0) {
            node_remove(p, to, txn->view.store->page_size);
        }
    }
    return rc;
}

static int trim(struct ps_txn *txn, struct child *child, unsigned level, const struct ps_slice *low,
                const struct ps_slice *high);

/* One child of a branch into which a bound falls. */
static int trim_child(struct ps_txn *txn, struct page *p, unsigned i, const struct ps_slice *low,
                      const struct ps_slice *high, bool *empty)
{
    struct child child;
    node_child(p, i, &child);
    int rc = trim(txn, &child, p->level - 1u, low, high);
    *empty = rc == 0 && child.ref == 0;
    if (rc == 0 && child.ref != 0) {
        node_set_child(p, i, &child);
    }
    return rc;
}

/* Children [from, to) lie between the bounds; `left` and `right`: before and after them is one into
 * which a bound falls. */
struct cut {
    unsigned from, to;
    bool left, right;
};

static int find_cut(struct ps_txn *txn, const struct page *p, const struct ps_slice *low,
                    const struct ps_slice *high, struct cut *cut)
{
    bool exact;
    int rc = 0;
    *cut = (struct cut){.to = p->count};
    if (low != NULL) {
        rc = bound_at(txn, p, *low, 1, &cut->from, &exact);
        cut->left = !exact;
    }
    if (rc == 0 && high != NULL) {
        rc = bound_at(txn, p, *high, 1, &cut->to, &exact);
        cut->right = !exact;
        cut->to -= !exact;
    }
    bool same = cut->left && cut->right && cut->to + 1 == cut->from;
    return rc == 0 && cut->to < cut->from && !same ? out_of_order(txn->view.store, p) : rc;
}

static int trim_branch(struct ps_txn *txn, struct child *child, struct page *p,
                       const struct ps_slice *low, const struct ps_slice *high)
{
    struct cut cut;
    bool empty = false;
    int rc = find_cut(txn, p, low, high, &cut);
    if (rc == 0 && cut.to < cut.from) { /* both bounds fall into one child */
        rc = trim_child(txn, p, cut.to, low, high, &empty);
        cut.from = cut.to;
        cut.to += empty;
    } else if (rc == 0) {
        for (unsigned i = cut.from; rc == 0 && i < cut.to; i++) {
            struct child between;
            node_child(p, i, &between);
            rc = subtree_drop(txn, &between, p->level - 1u);
        }
        if (rc == 0 && cut.left) {
            rc = trim_child(txn, p, cut.from - 1, low, NULL, &empty);
            cut.from -= empty;
        }
        if (rc == 0 && cut.right) {
            rc = trim_child(txn, p, cut.to, NULL, high, &empty);
            cut.to += empty;
        }
    }
    rc = rc == 0 ? remove_entries(txn, p, cut.from, cut.to) : rc;
    if (rc == 0 && p->count == 0) {
        return drop_empty(txn, child);
    }
    count_page(p, child);
    return rc;
}

/* Takes the entries between the bounds (NULL: this child's own) out of a subtree; updates the
 * entry that leads to it: no page if nothing is left. */
static int trim(struct ps_txn *txn, struct child *child, unsigned level, const struct ps_slice *low,
                const struct ps_slice *high)
{
    struct page *p;
    int rc = page_own(txn, child, level, &p);
    if (rc != 0) {
        return rc;
    }
    return level == 0 ? trim_leaf(txn, child, p, low, high) : trim_branch(txn, child, p, low, high);
}

/* ---- balancing ------------------------------------------------------------------------------- */

/* Whether the node on a level of the path to a key would be merged, or lowered if it is the root.
 */
static int is_thin(struct ps_txn *txn, const struct tree_root *root, struct ps_slice key,
                   unsigned level, bool *thin)
{
    struct ps_store *store = txn->view.store;
    struct child child = root->root;
    unsigned siblings = 0;
    for (unsigned l = root->level;; l--) {
        const struct page *p;
        unsigned i;
        int rc = page_get(store, &child, l, &p);
        if (rc != 0) {
            return rc;
        }
        if (l == level) {
            *thin = l == root->level
                        ? l > 0 && p->count < 2
                        : siblings > 1 && node_used(p, store->page_size) < store->page_size / 4;
            return 0;
        }
        rc = node_search_child(store, p, key, &i);
        if (rc != 0) {
            return rc;
        }
        siblings = p->count;
        node_child(p, i, &child);
    }
}

/* One node of an edge, with room of its own (G2). *stop: there is none. */
static int balance_node(struct ps_txn *txn, struct tree_root *root, struct ps_slice key,
                        unsigned level, bool *stop)
{
    struct room room = {.ops = 1, .may_use_reserve = true};
    struct path path;
    int rc = txn_make_room(txn, &room);
    if (rc != 0) {
        *stop = txn->error == 0 && (rc == PS_BUSY || rc == PS_TXNFULL || rc == PS_NOSPACE);
        txn->view.store->stat.range_edges_thin += *stop;
        return *stop ? 0 : rc;
    }
    rc = path_own(txn, root, key, level, &path);
    rc = view_end(&txn->view, rc);
    txn->view.store->stat.range_edges_balanced++;
    return rc == 0 ? node_thinned(txn, root, &path, level) : rc;
}

/* The nodes on the way to a key, from the root down: a node's siblings have come by the time that
 * it is looked at. */
static int balance_edge(struct ps_txn *txn, struct tree_root *root, struct ps_slice key)
{
    unsigned left = TREE_MAX_LEVELS; /* levels to look at */
    bool stop = false;
    int rc = 0;
    while (rc == 0 && !stop && left > 0 && root->root.ref != 0) {
        bool thin = false;
        left = left > root->level + 1u ? root->level + 1u : left;
        rc = is_thin(txn, root, key, left - 1, &thin);
        rc = view_end(&txn->view, rc);
        if (rc == 0 && thin) {
            rc = balance_node(txn, root, key, left - 1, &stop);
        }
        left--;
    }
    return rc;
}

int tree_delete_range(struct ps_txn *txn, ps_tree tree, const struct ps_slice *low,
                      const struct ps_slice *high)
{
    struct tree_root *root = &txn->state->trees[tree];
    int rc = trim(txn, &root->root, root->level, low, high);
    if (rc == 0 && root->root.ref == 0) {
        root->level = 0;
    }
    rc = rc == 0 && low != NULL ? balance_edge(txn, root, *low) : rc;
    return rc == 0 && high != NULL ? balance_edge(txn, root, *high) : rc;
}

/* ---- where parts end ------------------------------------------------------------------------- */

int tree_fence(struct ps_txn *txn, ps_tree tree, uint64_t rank, struct ps_slice *fence, void **copy)
{
    struct ps_store *store = txn->view.store;
    const struct tree_root *root = &txn->state->trees[tree];
    struct child child = root->root;
    *copy = NULL;
    *fence = (struct ps_slice){0};
    for (unsigned level = root->level; level > 0; level--) {
        const struct page *p;
        int rc = page_get(store, &child, level, &p);
        if (rc != 0) {
            return rc;
        }
        unsigned i = 0;
        node_child(p, 0, &child);
        while (rank >= child_entries(&child) && i + 1u < p->count) {
            rank -= child_entries(&child);
            node_child(p, ++i, &child);
        }
        if (i + 1u == p->count) {
            continue; /* it ends where the branch ends */
        }
        struct node_entry e;
        rc = node_read(store, p, i + 1, store->keys[0], &e);
        if (rc != 0) {
            return rc;
        }
        free(*copy);
        *fence = e.key;
        *copy = slice_copy(fence);
        if (*copy == NULL) {
            return PS_NOMEM;
        }
    }
    return 0;
}
