/*
 * cursor.c - walking a tree both ways, within bounds, and selecting by rank.
 *
 * A cursor holds the path to its entry. In a snapshot pages do not change, but the snapshot may
 * move to the file (move.c); in a transaction they do. The cursor then has its key, notices that
 * something was changed (txn.changes, view.moves), and finds its place again by key before it
 * moves. In a transaction it keeps the key wherever it stands; in a snapshot it is told before the
 * move.
 */
#include "storage/age.h"
#include "storage/node.h"
#include "storage/overflow.h"

struct bound {
    bool set;
    byte_vec key;
};

struct ps_cursor {
    struct ps_view *view;
    struct ps_cursor *next, *before; /* of a snapshot's */
    ps_tree tree;
    bool valid;
    unsigned levels;
    const struct page *page[TREE_MAX_LEVELS];
    unsigned index[TREE_MAX_LEVELS];
    uint64_t changes; /* of the transaction, moves of the snapshot, when the path was right */
    uint64_t losses;  /* that had ended when the path was right (lost.h) */
    struct bound low, high;
    VEC(uint8_t) keep; /* the key it stands on: in a transaction; before a move of the snapshot */
    struct ps_slice key;
    bool key_known;
    uint8_t *keybuf;
    struct decoded decoded;
};

int ps_cursor_open(struct ps_view *view, ps_tree tree, struct ps_cursor **cursor)
{
    uint64_t ignored;
    *cursor = NULL;
    int rc = ps_count(view, tree, &ignored);
    if (rc != 0) {
        return rc;
    }
    struct ps_cursor *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->keybuf = malloc(key_inline_max(view->store->page_size) + NODE_KEY_SLACK);
    }
    if (c == NULL || c->keybuf == NULL) {
        free(c);
        return PS_NOMEM;
    }
    c->view = view;
    c->tree = tree;
    c->losses = view->losses;
    if (view->txn == NULL) {
        c->next = view->cursors;
        if (c->next != NULL) {
            c->next->before = c;
        }
        view->cursors = c;
    }
    *cursor = c;
    return 0;
}

static void unlink_cursor(struct ps_cursor *c)
{
    if (c->next != NULL) {
        c->next->before = c->before;
    }
    if (c->before != NULL) {
        c->before->next = c->next;
    } else if (c->view->cursors == c) {
        c->view->cursors = c->next;
    }
}

void ps_cursor_close(struct ps_cursor *c)
{
    if (c != NULL) {
        unlink_cursor(c);
        vec_free(&c->low.key);
        vec_free(&c->high.key);
        vec_free(&c->keep);
        free(c->keybuf);
        decoded_free(&c->decoded);
        free(c);
    }
}

static int set_bound(struct bound *bound, const struct ps_slice *key)
{
    bound->set = key != NULL;
    return key == NULL || bytes_keep(&bound->key, *key) ? 0 : PS_NOMEM;
}

int ps_cursor_bounds(struct ps_cursor *c, const struct ps_slice *low, const struct ps_slice *high)
{
    c->valid = false;
    int rc = set_bound(&c->low, low);
    return rc == 0 ? set_bound(&c->high, high) : rc;
}

static const struct tree_root *root_of(const struct ps_cursor *c)
{
    const struct state *state = view_state(c->view);
    return state == NULL || c->tree >= state->ntrees || state->trees[c->tree].root.ref == 0
               ? NULL
               : &state->trees[c->tree];
}

static uint64_t changes_of(const struct ps_cursor *c)
{
    return c->view->txn != NULL ? c->view->txn->changes : c->view->moves;
}

static int load_key(struct ps_cursor *c)
{
    if (!c->key_known) {
        struct node_entry e;
        uint32_t page_size = c->view->store->page_size;
        if (node_leaf_key(c->page[0], c->index[0], page_size, c->keybuf, &c->key)) {
            c->key_known = true;
            return 0;
        }
        int rc = node_read(c->view->store, c->page[0], c->index[0], c->keybuf, &e);
        if (rc != 0) {
            c->valid = false;
            return rc;
        }
        c->key = e.key;
        c->key_known = true;
    }
    return 0;
}

/* Copies the key, which is known, out of the page. */
static int keep_key(struct ps_cursor *c)
{
    c->keep.n = 0;
    if (!vec_reserve(&c->keep, c->key.len + 1)) {
        return PS_NOMEM;
    }
    memcpy(c->keep.at, c->key.data, c->key.len);
    c->keep.n = c->key.len;
    c->key.data = c->keep.at;
    return 0;
}

int cursors_keep_keys(struct ps_view *view)
{
    for (struct ps_cursor *c = view->cursors; c != NULL; c = c->next) {
        bool stands = c->valid && c->changes == changes_of(c);
        int rc = stands ? load_key(c) : 0;
        rc = rc == 0 && stands ? keep_key(c) : rc;
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* The cursor stands on an entry: is it within bounds? In a transaction, remember the key. */
static int arrive(struct ps_cursor *c, bool check_low, bool check_high)
{
    c->valid = true;
    c->key_known = false;
    c->changes = changes_of(c);
    if ((check_low && c->low.set) || (check_high && c->high.set) || c->view->txn != NULL) {
        int rc = load_key(c);
        if (rc != 0) {
            return rc;
        }
    }
    if ((check_low && c->low.set && slice_order(c->key, bytes_slice(&c->low.key)) < 0) ||
        (check_high && c->high.set && slice_order(c->key, bytes_slice(&c->high.key)) >= 0)) {
        c->valid = false;
        return PS_NOTFOUND;
    }
    return c->view->txn != NULL ? keep_key(c) : 0;
}

static int fail(struct ps_cursor *c, int rc)
{
    c->valid = false;
    return rc;
}

#define CELLS_AHEAD 4u

static void prefetch_cell(const struct page *leaf, unsigned i)
{
    if (i < leaf->count) { /* below 0, too: i is unsigned */
        const uint8_t *cell = node_cell(leaf, i);
        __builtin_prefetch(cell);
        __builtin_prefetch(cell + NODE_LINE);
    }
}

/* Memory is asked for before it is needed: a cell some steps ahead, and near the end of a leaf the
 * next one. */
static void look_ahead(const struct ps_cursor *c, bool forward)
{
    const struct page *leaf = c->page[0];
    unsigned i = c->index[0];
    prefetch_cell(leaf, forward ? i + CELLS_AHEAD : i - CELLS_AHEAD);
    unsigned left = forward ? leaf->count - 1u - i : i;
    if (left != CELLS_AHEAD || c->levels < 2) {
        return;
    }
    unsigned k = forward ? c->index[1] + 1u : c->index[1] - 1u;
    if (k < c->page[1]->count) {
        struct child child;
        node_child(c->page[1], k, &child);
        node_prefetch(page_at(c->view->store, child.ref), 0);
    }
}

/* The same where a leaf is entered. */
static void look_around(const struct ps_cursor *c, bool forward)
{
    for (unsigned k = 1; k < CELLS_AHEAD; k++) {
        prefetch_cell(c->page[0], forward ? c->index[0] + k : c->index[0] - k);
    }
    look_ahead(c, forward);
}

/* Goes down to the first or last entry below the child at `level`. */
static int descend_edge(struct ps_cursor *c, struct child child, unsigned level, bool last)
{
    for (;; level--) {
        int rc = page_get(c->view->store, &child, level, &c->page[level]);
        if (rc != 0) {
            return rc;
        }
        unsigned n = c->page[level]->count;
        if (unlikely(n == 0)) { /* it was lost a moment ago */
            return store_fault(c->view->store, PS_CORRUPT, 0, c->view->store->file_path,
                               child.ref << c->view->store->page_shift, "a page without entries");
        }
        c->index[level] = last ? n - 1 : 0;
        if (level == 0) {
            look_around(c, !last);
            return 0;
        }
        node_child(c->page[level], c->index[level], &child);
    }
}

/* Moves the path one entry on; PS_NOTFOUND past the end. */
static int path_step(struct ps_cursor *c, bool forward)
{
    for (unsigned level = 0; level < c->levels; level++) {
        bool more = forward ? c->index[level] + 1u < c->page[level]->count : c->index[level] > 0;
        if (!more) {
            continue;
        }
        c->index[level] += forward ? 1u : -1u;
        if (level == 0) {
            look_ahead(c, forward);
            return 0;
        }
        struct child child;
        node_child(c->page[level], c->index[level], &child);
        return descend_edge(c, child, level - 1, !forward);
    }
    return PS_NOTFOUND;
}

/* Stands before or on the first entry >= key: index[0] may be one past its leaf's end. */
static int descend_key(struct ps_cursor *c, struct ps_slice key, bool *exact)
{
    struct ps_store *store = c->view->store;
    const struct tree_root *root = root_of(c);
    if (root == NULL) {
        return nothing_there(c->view);
    }
    struct child child = root->root;
    c->levels = root->level + 1u;
    for (unsigned level = root->level;; level--) {
        int rc = page_get(store, &child, level, &c->page[level]);
        if (rc != 0) {
            return rc;
        }
        if (level == 0) {
            return node_search(store, c->page[0], key, 0, &c->index[0], exact);
        }
        rc = node_search_child(store, c->page[level], key, &c->index[level]);
        if (rc != 0) {
            return rc;
        }
        node_child(c->page[level], c->index[level], &child);
        node_prefetch(page_at(store, child.ref), level - 1);
    }
}

/* To the first entry >= key (or > key), or the last one <= key (or < key). */
static int go(struct ps_cursor *c, struct ps_slice key, bool forward, bool or_equal)
{
    bool exact = false;
    int rc = descend_key(c, key, &exact);
    if (rc != 0) {
        return rc;
    }
    look_around(c, forward);
    if (exact && or_equal) {
        return 0;
    }
    if (!forward) {
        return path_step(c, false);
    }
    if (exact) {
        return path_step(c, true);
    }
    if (c->index[0] < c->page[0]->count) {
        return 0;
    }
    c->index[0]--;
    return path_step(c, true);
}

static int seek(struct ps_cursor *c, struct ps_slice key, enum ps_seek how)
{
    if (key.len > PS_MAX_KEY) {
        return fail(c, PS_TOOBIG);
    }
    if ((how == PS_GE || how == PS_GT) && c->low.set &&
        slice_order(key, bytes_slice(&c->low.key)) < 0) {
        key = bytes_slice(&c->low.key);
        how = PS_GE;
    }
    if ((how == PS_LE || how == PS_LT) && c->high.set &&
        slice_order(key, bytes_slice(&c->high.key)) >= 0) {
        key = bytes_slice(&c->high.key);
        how = PS_LT;
    }
    bool exact = false;
    int rc;
    if (how == PS_EQ) {
        rc = descend_key(c, key, &exact);
        rc = rc == 0 && !exact ? PS_NOTFOUND : rc;
    } else {
        rc = go(c, key, how == PS_GE || how == PS_GT, how == PS_GE || how == PS_LE);
    }
    return rc != 0 ? fail(c, rc) : arrive(c, true, true);
}

static int to_first(struct ps_cursor *c)
{
    if (c->low.set) {
        return seek(c, bytes_slice(&c->low.key), PS_GE);
    }
    const struct tree_root *root = root_of(c);
    if (root == NULL) {
        return fail(c, nothing_there(c->view));
    }
    c->levels = root->level + 1u;
    int rc = descend_edge(c, root->root, root->level, false);
    return rc != 0 ? fail(c, rc) : arrive(c, false, true);
}

static int to_last(struct ps_cursor *c)
{
    if (c->high.set) {
        return seek(c, bytes_slice(&c->high.key), PS_LT);
    }
    const struct tree_root *root = root_of(c);
    if (root == NULL) {
        return fail(c, nothing_there(c->view));
    }
    c->levels = root->level + 1u;
    int rc = descend_edge(c, root->root, root->level, true);
    return rc != 0 ? fail(c, rc) : arrive(c, true, false);
}

static int to_rank(struct ps_cursor *c, uint64_t rank)
{
    const struct tree_root *root = root_of(c);
    if (root == NULL || rank >= child_entries(&root->root)) {
        return fail(c, nothing_there(c->view));
    }
    c->levels = root->level + 1u;
    struct child child = root->root;
    for (unsigned level = root->level; level > 0; level--) {
        int rc = page_get(c->view->store, &child, level, &c->page[level]);
        if (rc != 0) {
            return fail(c, rc);
        }
        const struct page *p = c->page[level];
        unsigned i = 0;
        for (;; i++) {
            if (i >= p->count) {
                return fail(c, store_fault(c->view->store, PS_CORRUPT, 0, c->view->store->file_path,
                                           child.ref << c->view->store->page_shift,
                                           "a branch's counts do not add up"));
            }
            struct child below;
            node_child(p, i, &below);
            if (rank < child_entries(&below)) {
                child = below;
                break;
            }
            rank -= child_entries(&below);
        }
        c->index[level] = i;
    }
    int rc = page_get(c->view->store, &child, 0, &c->page[0]);
    if (rc == 0 && rank >= c->page[0]->count) {
        rc = store_fault(c->view->store, PS_CORRUPT, 0, c->view->store->file_path,
                         child.ref << c->view->store->page_shift,
                         "a leaf has fewer entries than its parent says");
    }
    c->index[0] = (unsigned)rank;
    return rc != 0 ? fail(c, rc) : arrive(c, true, true);
}

static int move(struct ps_cursor *c, bool forward)
{
    if (!c->valid || unlikely(view_is_over(c->view))) {
        return fail(c, nothing_there(c->view));
    }
    int rc;
    if (c->changes != changes_of(c)) {
        rc = go(c, (struct ps_slice){c->keep.at, c->keep.n}, forward, false);
    } else {
        rc = path_step(c, forward);
    }
    return rc != 0 ? fail(c, rc) : arrive(c, !forward, forward);
}

static int entry_at(struct ps_cursor *c, struct ps_slice *key, struct ps_slice *value)
{
    if (!c->valid) {
        return nothing_there(c->view);
    }
    if (c->changes != changes_of(c)) {
        /* The entry may be elsewhere by now, or gone. */
        bool exact = false;
        struct ps_slice kept = {c->keep.at, c->keep.n};
        int rc = descend_key(c, kept, &exact);
        if (rc != 0 || !exact) {
            return rc != 0 ? rc : PS_NOTFOUND;
        }
        c->changes = changes_of(c);
        c->key_known = true;
        c->key = kept;
    }
    int rc = key != NULL ? load_key(c) : 0;
    if (rc == 0 && key != NULL) {
        *key = c->key;
    }
    if (rc == 0 && value != NULL) {
        struct run_ref run;
        bool encoded = node_value(c->page[0], c->index[0], value, &run);
        if (run.ref != 0) {
            const uint8_t *data;
            rc = run_data(c->view->store, &run, &data);
            *value = (struct ps_slice){data, run.len};
        }
        rc = rc == 0 && encoded ? store_decode(c->view->store, &c->decoded, value) : rc;
    }
    return rc;
}

/* ---- the public functions ---------------------------------------------------------------------
 */

/* The path is of use only while no page on it is lost: then the cursor stands nowhere. */
static int end(struct ps_cursor *c, int rc)
{
    struct ps_store *store = c->view->store;
    if (lost_since(store, c->losses)) {
        c->losses = c->view->losses; /* until the view is resumed that is over just as well */
        return fail(c, lost_report(store));
    }
    return rc;
}

int ps_cursor_first(struct ps_cursor *c)
{
    return end(c, to_first(c));
}

int ps_cursor_last(struct ps_cursor *c)
{
    return end(c, to_last(c));
}

int ps_cursor_seek(struct ps_cursor *c, struct ps_slice key, enum ps_seek how)
{
    return end(c, seek(c, key, how));
}

int ps_cursor_select(struct ps_cursor *c, uint64_t rank)
{
    return end(c, to_rank(c, rank));
}

int ps_cursor_next(struct ps_cursor *c)
{
    return end(c, move(c, true));
}

int ps_cursor_prev(struct ps_cursor *c)
{
    return end(c, move(c, false));
}

int ps_cursor_get(struct ps_cursor *c, struct ps_slice *key, struct ps_slice *value)
{
    return end(c, entry_at(c, key, value));
}
