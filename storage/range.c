/*
 * range.c - the public functions that deal with all keys between two bounds at once: taking them
 * out, and finding where to cut them into equal parts.
 *
 * What goes into the log is the range that was taken out in the end, as two keys: replaying it does
 * not depend on where leaves begin. If it was all of the tree, that is emptied, and so is the log's
 * word for it.
 *
 * Threads: ps_delete_range the transaction's; ps_split_range the view's.
 */
#include "storage/change.h"

/* The bounds of a range, and copies of those that the caller has in the store's memory. */
struct range {
    struct ps_slice low, high; /* of length 0: open */
    void *low_copy, *high_copy;
};

static int take_bound(const struct ps_store *store, const struct ps_slice *bound,
                      struct ps_slice *taken, void **copy)
{
    if (bound == NULL || bound->len == 0) {
        return 0;
    }
    *taken = *bound;
    if (bound->len > PS_MAX_KEY || !is_in_store(store, *bound)) {
        return bound->len > PS_MAX_KEY ? PS_TOOBIG : 0;
    }
    *copy = slice_copy(taken);
    return *copy != NULL ? 0 : PS_NOMEM;
}

static const struct ps_slice *or_open(const struct ps_slice *bound)
{
    return bound->len > 0 ? bound : NULL;
}

/* Brings the end of the range forward to that of the leaf with its entry number `most`. */
static int shorten(struct ps_txn *txn, ps_tree tree, struct range *r, uint64_t most)
{
    struct ps_slice fence = {0};
    void *copy = NULL;
    uint64_t rank;
    int rc = ps_rank(&txn->view, tree, r->low, &rank);
    rc = rc == 0 ? tree_fence(txn, tree, rank + most - 1, &fence, &copy) : rc;
    rc = view_end(&txn->view, rc);
    if (rc != 0 || fence.len == 0 || (r->high.len > 0 && slice_order(fence, r->high) >= 0)) {
        free(copy);
        return rc;
    }
    free(r->high_copy);
    r->high = fence;
    r->high_copy = copy;
    txn->view.store->stat.ranges_shortened++;
    return 0;
}

static int delete_range(struct ps_txn *txn, ps_tree tree, const struct range *r, bool all)
{
    struct ps_store *store = txn->view.store;
    struct room room = {
        .ops = 1, .log_bytes = r->low.len + r->high.len + 32, .may_use_reserve = true};
    int rc = txn_make_room(txn, &room);
    if (rc != 0) {
        return rc;
    }
    if (all) {
        struct ps_slice nothing = {0};
        rc = txn_log(txn, OP_CLEAR, tree, nothing, nothing);
        return change_done(txn, rc == 0 ? tree_clear(txn, tree) : rc);
    }
    rc = txn_log(txn, OP_DELETE_RANGE, tree, r->low, r->high);
    rc = rc == 0 ? tree_delete_range(txn, tree, or_open(&r->low), or_open(&r->high)) : rc;
    store->stat.ranges_deleted++;
    return change_done(txn, rc);
}

int ps_delete_range(struct ps_txn *txn, ps_tree tree, const struct ps_slice *low,
                    const struct ps_slice *high, uint64_t most, uint64_t *deleted)
{
    struct ps_store *store = txn->view.store;
    struct range r = {0};
    uint64_t before, there;
    *deleted = 0;
    int rc = change_usable(txn, tree);
    rc = rc == 0 ? take_bound(store, low, &r.low, &r.low_copy) : rc;
    rc = rc == 0 ? take_bound(store, high, &r.high, &r.high_copy) : rc;
    rc = rc == 0 ? ps_count_range(&txn->view, tree, low, high, &there) : rc;
    if (rc == 0 && there > 0 && most > 0 && most < there) {
        rc = shorten(txn, tree, &r, most);
        rc = rc == 0 ? ps_count_range(&txn->view, tree, or_open(&r.low), or_open(&r.high), &there)
                     : rc;
    }
    rc = rc == 0 ? ps_count(&txn->view, tree, &before) : rc;
    if (rc == 0 && there > 0) {
        rc = delete_range(txn, tree, &r, there == before);
        *deleted = rc == 0 ? before - child_entries(&txn->state->trees[tree].root) : 0;
    }
    free(r.low_copy);
    free(r.high_copy);
    return rc;
}

/* ---- equal parts ----------------------------------------------------------------------------- */

/* The keys at which a range of `n` entries from number `first` on is cut, one behind the other. */
struct cuts {
    VEC(uint8_t) bytes;
    VEC(size_t) ends;
};

static int find_cuts(struct ps_cursor *cursor, uint64_t first, uint64_t n, unsigned parts,
                     struct cuts *cuts)
{
    uint64_t last = 0;
    int rc = 0;
    for (unsigned k = 1; rc == 0 && k < parts; k++) {
        uint64_t at = n / parts * k + n % parts * k / parts;
        struct ps_slice key;
        if (at == last) {
            continue; /* fewer entries than parts */
        }
        last = at;
        rc = ps_cursor_select(cursor, first + at);
        rc = rc == 0 ? ps_cursor_get(cursor, &key, NULL) : rc;
        if (rc == 0 && (!vec_reserve(&cuts->bytes, key.len) || !vec_reserve(&cuts->ends, 1))) {
            rc = PS_NOMEM;
        }
        if (rc == 0 && key.len > 0) { /* none but a tree's first key is empty */
            memcpy(cuts->bytes.at + cuts->bytes.n, key.data, key.len);
            cuts->bytes.n += key.len;
            vec_put(&cuts->ends, cuts->bytes.n);
        }
    }
    return rc;
}

int ps_split_range(struct ps_view *view, ps_tree tree, const struct ps_slice *low,
                   const struct ps_slice *high, unsigned parts, struct ps_slice *keys, unsigned *n,
                   void **memory)
{
    struct ps_cursor *cursor = NULL;
    struct cuts cuts = {0};
    uint64_t first = 0;
    uint64_t entries = 0;
    *n = 0;
    *memory = NULL;
    int rc = parts > 0 ? 0 : PS_INVALID;
    rc = rc == 0 && low != NULL ? ps_rank(view, tree, *low, &first) : rc;
    rc = rc == 0 ? ps_count_range(view, tree, low, high, &entries) : rc;
    rc = rc == 0 && entries > 1 ? ps_cursor_open(view, tree, &cursor) : rc;
    if (cursor != NULL) {
        rc = find_cuts(cursor, first, entries, parts, &cuts);
        ps_cursor_close(cursor);
    }
    rc = view_end(view, rc);
    if (rc != 0) {
        vec_free(&cuts.bytes);
    } else {
        for (size_t i = 0; i < cuts.ends.n; i++) {
            size_t from = i > 0 ? cuts.ends.at[i - 1] : 0;
            keys[i] = (struct ps_slice){cuts.bytes.at + from, cuts.ends.at[i] - from};
        }
        *n = (unsigned)cuts.ends.n;
        *memory = cuts.bytes.at;
    }
    vec_free(&cuts.ends);
    return rc;
}
