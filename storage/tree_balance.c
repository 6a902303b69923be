/*
 * tree_balance.c - nodes that overflow or run low: which entries go where (rebuild.c moves them).
 *
 * A node that overflows is first laid out again in place, which may find room in garbage and in a
 * better prefix. A leaf then shares with a sibling that has room, so that random insertion fills
 * pages well; otherwise it splits. An insertion at the end of the last leaf leaves the full one
 * full. A node under a quarter of a page merges with a sibling, or shares with it.
 *
 * Threads: the holder of the token, in a transaction.
 */
#include "storage/overflow.h"
#include "storage/rebuild.h"

#define REFIT_FROM 4u /* entries */

/* Two parts if that is possible anywhere near: the middle, its neighbours, the edges of the new
 * entry (which may be what has no prefix in common with the rest). Otherwise three. */
static int choose_split(struct rebuild *r, unsigned new_at, bool ascending)
{
    struct ps_store *store = r->txn->view.store;
    unsigned mid = ascending ? r->n - 1 : rebuild_middle(r);
    unsigned tries[] = {mid, rebuild_middle(r), mid + 1, mid - 1, new_at, new_at + 1};
    for (unsigned k = 0; k < sizeof tries / sizeof *tries; k++) {
        bool yes;
        int rc = rebuild_two_fit(r, tries[k], &yes);
        if (rc != 0) {
            return rc;
        }
        if (yes) {
            store->stat.edge_splits += k >= 4;
            rebuild_set_parts(r, tries[k], 0);
            return 0;
        }
    }
    store->stat.edge_splits++;
    rebuild_set_parts(r, new_at, new_at + 1);
    if (new_at == 0) {
        rebuild_set_parts(r, 1, 0);
    }
    return 0;
}

/* ---- overflowing ---------------------------------------------------------------------------- */

static void child_on_path(const struct path *path, const struct tree_root *root, unsigned level,
                          struct child *child)
{
    if (level + 1 == path->levels) {
        *child = root->root;
    } else {
        node_child(path->page[level + 1], path->index[level + 1], child);
    }
}

/* The key between two sources: a branch's first child takes it along. */
static int read_separator(struct rebuild *r, unsigned i)
{
    struct ps_store *store = r->txn->view.store;
    int rc = node_read(store, r->parent, i, store->keys[3], &r->separator);
    if (rc == 0 && r->level > 0) {
        node_child(r->source[1], 0, &r->separator.child);
    }
    return rc;
}

/* Makes the sources the path's node and the sibling on one side of it, both owned. */
static int take_sibling(struct rebuild *r, struct path *path, bool right, struct child source[2])
{
    struct page *parent = path->page[r->level + 1];
    unsigned i = path->index[r->level + 1];
    unsigned s = right ? i + 1 : i - 1;
    struct child sibling;
    node_child(parent, s, &sibling);
    struct page *page;
    int rc = page_own(r->txn, &sibling, r->level, &page);
    if (rc != 0) {
        return rc;
    }
    node_set_child(parent, s, &sibling);
    struct child own;
    node_child(parent, i, &own);
    r->parent = parent;
    r->parent_index = right ? i : s;
    r->nsources = 2;
    r->source[0] = right ? path->page[r->level] : page;
    r->source[1] = right ? page : path->page[r->level];
    source[0] = right ? own : sibling;
    source[1] = right ? sibling : own;
    return read_separator(r, r->parent_index + 1);
}

/* A sibling leaf with room for a fair share of an overflowing one's entries. */
static int find_roomy(struct rebuild *r, const struct path *path, uint32_t more, int *side)
{
    struct ps_store *store = r->txn->view.store;
    const struct page *parent = path->page[r->level + 1];
    unsigned i = path->index[r->level + 1];
    uint32_t used = node_used(path->page[r->level], store->page_size) + more;
    *side = 0;
    for (int d = 1; d >= -1; d -= 2) {
        if ((d < 0 && i == 0) || (d > 0 && i + 1 >= parent->count)) {
            continue;
        }
        struct child child;
        node_child(parent, (unsigned)((int)i + d), &child);
        const struct page *sibling;
        int rc = page_get(store, &child, r->level, &sibling);
        if (rc != 0) {
            return rc;
        }
        uint32_t both = used + node_used(sibling, store->page_size);
        if (both <= 2 * store->page_size - store->page_size / 5) {
            *side = d;
            return 0;
        }
    }
    return 0;
}

static bool at_right_edge(const struct path *path, unsigned level)
{
    for (unsigned l = level + 1; l < path->levels; l++) {
        if (path->index[l] + 1u < path->page[l]->count) {
            return false;
        }
    }
    return true;
}

static int overflow(struct ps_txn *txn, struct tree_root *root, struct path *path, unsigned level,
                    unsigned i, const struct node_entry *e)
{
    struct ps_store *store = txn->view.store;
    struct rebuild r = {.txn = txn, .root = root, .level = level, .new_entry = *e, .nsources = 1};
    struct child source[2];
    r.source[0] = path->page[level];
    child_on_path(path, root, level, &source[0]);
    bool has_parent = level + 1 < path->levels;
    bool ascending = i == r.source[0]->count && at_right_edge(path, level);
    int rc = 0;
    if (level == 0 && has_parent && !ascending) {
        int side;
        rc = find_roomy(&r, path, 6 + entry_cell_size(e, true, 0), &side);
        if (rc == 0 && side != 0) {
            rc = take_sibling(&r, path, side > 0, source);
            unsigned at = side > 0 ? i : r.source[0]->count + i;
            rc = rc == 0 ? rebuild_gather(&r, at, true) : rc;
            bool yes = false;
            unsigned mid = rc == 0 ? rebuild_middle(&r) : 0;
            rc = rc == 0 ? rebuild_two_fit(&r, mid, &yes) : rc;
            rc = rc == 0 ? rebuild_may_cut(&r, mid, &yes) : rc;
            if (rc == 0 && yes) {
                store->stat.shares++;
                rebuild_set_parts(&r, mid, 0);
                return rebuild_run(&r, path, source);
            }
            r.nsources = 1;
            r.source[0] = path->page[level];
            child_on_path(path, root, level, &source[0]);
        }
    }
    if (rc == 0 && has_parent) {
        r.parent = path->page[level + 1];
        r.parent_index = path->index[level + 1];
    }
    rc = rc == 0 ? rebuild_gather(&r, i, true) : rc;
    rc = rc == 0 ? choose_split(&r, i, ascending) : rc;
    store->stat.splits++;
    return rc == 0 ? rebuild_run(&r, path, source) : rc;
}

/* Lays the node out again in place, without garbage and with the prefix that suits a new entry.
 * *done: the entry is in. */
static int rebuild_in_place(struct ps_txn *txn, struct path *path, unsigned level, unsigned i,
                            const struct node_entry *e, bool *done)
{
    struct ps_store *store = txn->view.store;
    struct page *p = path->page[level];
    struct rebuild r = {.txn = txn, .level = level, .new_entry = *e, .nsources = 1};
    r.source[0] = p;
    *done = false;
    int rc = rebuild_gather(&r, i, true);
    uint32_t prefix, size;
    rc = rc == 0 ? rebuild_measure(&r, 0, r.n, &prefix, &size) : rc;
    if (rc != 0 || size > store->page_size) {
        return rc;
    }
    rebuild_set_parts(&r, 0, 0);
    struct child ignored;
    rc = rebuild_part(&r, 0, &ignored);
    if (rc == 0) {
        uint64_t birth = p->birth;
        memcpy(p, store->scratch[0], store->page_size);
        p->birth = birth;
        p->number = 0;
        *done = true;
    }
    return rc;
}

/* A node that began with one entry has no prefix yet, or not the best: where keys are numbers that
 * rise, for one, all heads are the same zeros, and whole keys are compared. Looked at each time
 * that the number of entries has doubled. */
static bool heads_tell_nothing(const struct page *p)
{
    unsigned n = p->count;
    unsigned first = p->kind == PAGE_LEAF ? 0 : 1;
    return n >= REFIT_FROM && (n & (n - 1)) == 0 && node_heads(p)[first] == node_heads(p)[n - 1];
}

int node_put(struct ps_txn *txn, struct tree_root *root, struct path *path, unsigned level,
             unsigned i, const struct node_entry *e)
{
    struct page *p = path->page[level];
    uint32_t plen = p->prefix_len;
    bool prefixed =
        plen == 0 || (e->key.len >= plen && memcmp(e->key.data, node_prefix(p), plen) == 0);
    bool done = prefixed && node_gap(p) >= 6 + entry_cell_size(e, level == 0, plen) &&
                !heads_tell_nothing(p);
    int rc = 0;
    if (done) {
        node_insert(p, i, e);
    } else {
        rc = rebuild_in_place(txn, path, level, i, e, &done);
    }
    if (rc == 0 && !done) {
        return overflow(txn, root, path, level, i, e);
    }
    if (rc == 0 && level > 0) {
        recount(root, path, level);
    }
    return rc;
}

/* ---- running low ---------------------------------------------------------------------------- */

/* Lowers the tree while its root has a single child; an empty root goes. */
static int lower_tree(struct ps_txn *txn, struct tree_root *root)
{
    struct ps_store *store = txn->view.store;
    int rc = 0;
    while (rc == 0 && root->root.ref != 0) {
        const struct page *p;
        rc = page_get(store, &root->root, root->level, &p);
        if (rc != 0 || (p->count > 0 && (root->level == 0 || p->count > 1))) {
            break;
        }
        struct child old = root->root;
        if (p->count == 0) {
            memset(&root->root, 0, sizeof root->root);
            root->level = 0;
        } else {
            node_child(p, 0, &root->root);
            root->level--;
        }
        rc = txn_drop(txn, old.ref, old.birth, 1);
    }
    return rc;
}

/* The path's node has no entry left: takes it out of its parent. */
static int remove_empty(struct ps_txn *txn, struct tree_root *root, struct path *path,
                        unsigned level)
{
    struct ps_store *store = txn->view.store;
    struct page *parent = path->page[level + 1];
    unsigned i = path->index[level + 1];
    struct child gone;
    node_child(parent, i, &gone);
    int rc = txn_drop(txn, gone.ref, gone.birth, 1);
    if (rc == 0 && parent->count > 1) {
        struct run_ref key, value;
        unsigned out = i == 0 ? 1 : i; /* entry 0 has no key: the next child takes its place */
        node_runs(parent, out, &key, &value);
        rc = key.ref != 0 ? run_drop(txn, &key) : 0;
        if (i == 0) {
            struct child next;
            node_child(parent, 1, &next);
            node_set_child(parent, 0, &next);
        }
        node_remove(parent, out, store->page_size);
    } else if (rc == 0) {
        node_remove(parent, 0, store->page_size);
    }
    if (rc == 0) {
        recount(root, path, level + 1);
        rc = node_thinned(txn, root, path, level + 1);
    }
    return rc;
}

int node_thinned(struct ps_txn *txn, struct tree_root *root, struct path *path, unsigned level)
{
    struct ps_store *store = txn->view.store;
    struct page *p = path->page[level];
    if (level + 1 == path->levels) {
        return lower_tree(txn, root);
    }
    if (p->count == 0) {
        return remove_empty(txn, root, path, level);
    }
    struct page *parent = path->page[level + 1];
    if (node_used(p, store->page_size) >= store->page_size / 4 || parent->count < 2) {
        return 0;
    }
    struct rebuild r = {.txn = txn, .root = root, .level = level};
    struct child source[2];
    int rc = take_sibling(&r, path, path->index[level + 1] + 1u < parent->count, source);
    rc = rc == 0 ? rebuild_gather(&r, 0, false) : rc;
    uint32_t prefix, size;
    rc = rc == 0 ? rebuild_measure(&r, 0, r.n, &prefix, &size) : rc;
    if (rc != 0) {
        return rc;
    }
    if (size <= store->page_size - store->page_size / 8) {
        rebuild_set_parts(&r, 0, 0);
        store->stat.merges++;
        rc = rebuild_run(&r, path, source);
        return rc == 0 ? node_thinned(txn, root, path, level + 1) : rc;
    }
    bool yes;
    unsigned mid = rebuild_middle(&r);
    rc = rebuild_two_fit(&r, mid, &yes);
    rc = rc == 0 ? rebuild_may_cut(&r, mid, &yes) : rc;
    if (rc != 0 || !yes) {
        return rc; /* it stays thin */
    }
    store->stat.shares++;
    rebuild_set_parts(&r, mid, 0);
    return rebuild_run(&r, path, source);
}
