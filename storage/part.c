/*
 * part.c - reading a part of a value: of a long one, only that part is looked at and checked.
 *
 * Threads: any, on a view of its own.
 */
#include "storage/age.h"
#include "storage/node.h"
#include "storage/overflow.h"

static uint64_t changes_of(const struct ps_view *view)
{
    return view->txn != NULL ? view->txn->changes : view->moves;
}

/* What is decoded stays, for parts of the same value that are asked for next. */
static int part_of_encoded(struct ps_view *view, const struct run_ref *run, struct ps_slice value,
                           uint64_t offset, size_t len, struct ps_slice *part, uint64_t *whole)
{
    struct decoded *d = &view->decoded;
    uint64_t stamp = stamp_of(view->state);
    if (run->ref != 0) {
        const uint8_t *data;
        int rc = run_data(view->store, run, &data);
        if (rc != 0) {
            return rc;
        }
        value = (struct ps_slice){data, (size_t)run->len};
    }
    const void *of = value.data;
    if (d->of != of || d->stamp != stamp || d->changes != changes_of(view)) {
        int rc = store_decode(view->store, d, &value);
        if (rc != 0) {
            return rc;
        }
        d->of = of;
        d->stamp = stamp;
        d->changes = changes_of(view);
        d->len = value.len;
    }
    uint64_t from = offset < d->len ? offset : d->len;
    uint64_t to = len < d->len - from ? from + len : d->len;
    *part = (struct ps_slice){d->at + from, (size_t)(to - from)};
    if (whole != NULL) {
        *whole = d->len;
    }
    return 0;
}

static int get_part(struct ps_view *view, ps_tree tree, struct ps_slice key, uint64_t offset,
                    size_t len, struct ps_slice *part, uint64_t *whole)
{
    struct ps_store *store = view->store;
    const struct state *state = view_state(view);
    if (state == NULL || tree >= state->ntrees) {
        return nothing_there(view);
    }
    const struct page *leaf;
    unsigned i;
    bool exact = false;
    int rc = tree_leaf(store, &state->trees[tree], key, &leaf);
    rc = rc == 0 ? node_search(store, leaf, key, 0, &i, &exact) : rc;
    if (rc != 0 || !exact) {
        return rc != 0 ? rc : PS_NOTFOUND;
    }
    struct ps_slice value;
    struct run_ref run;
    if (node_value(leaf, i, &value, &run)) {
        return part_of_encoded(view, &run, value, offset, len, part, whole);
    }
    uint64_t total = run.ref != 0 ? run.len : value.len;
    uint64_t from = offset < total ? offset : total;
    uint64_t to = len < total - from ? from + len : total;
    const uint8_t *data = value.data;
    if (run.ref != 0 && run_is_long(run.len)) {
        rc = file_run_part(store, &run, from, to, &data);
    } else {
        rc = run.ref != 0 ? run_data(store, &run, &data) : 0;
        data += from;
    }
    *part = (struct ps_slice){data, (size_t)(to - from)};
    if (whole != NULL) {
        *whole = total;
    }
    return rc;
}

int ps_get_part(struct ps_view *view, ps_tree tree, struct ps_slice key, uint64_t offset,
                size_t len, struct ps_slice *part, uint64_t *whole)
{
    return view_end(view, get_part(view, tree, key, offset, len, part, whole));
}
