/*
 * change.c - the public functions that change a tree: arguments, room, the change, its log record.
 *
 * A change that fails in the middle leaves the transaction good for rolling back only.
 *
 * Threads: the transaction's.
 */
#include "storage/store.h"

static const struct ps_slice nothing;

static int usable(const struct ps_txn *txn, ps_tree tree)
{
    if (txn->error != 0) {
        return txn->error;
    }
    return tree < txn->state->ntrees && txn->state->trees[tree].name != NULL ? 0 : PS_NOTFOUND;
}

static int done(struct ps_txn *txn, int rc, uint8_t op, ps_tree tree, struct ps_slice key,
                struct ps_slice value)
{
    rc = rc == 0 ? txn_log(txn, op, tree, key, value) : rc;
    txn->error = rc;
    return rc;
}

static bool is_within(const void *p, const void *base, size_t bytes)
{
    return (uintptr_t)p - (uintptr_t)base < bytes;
}

/* What the caller read in this transaction would move while it is being put: a copy, to be freed.
 */
static int take_out(const struct ps_store *store, struct ps_slice *slice, void **copy)
{
    *copy = NULL;
    if (slice->len == 0 || (!is_within(slice->data, store->arena.memory, store->arena.bytes) &&
                            !is_within(slice->data, store->base[0], store->map_bytes))) {
        return 0;
    }
    *copy = malloc(slice->len);
    if (*copy == NULL) {
        return PS_NOMEM;
    }
    memcpy(*copy, slice->data, slice->len);
    slice->data = *copy;
    return 0;
}

int ps_put(struct ps_txn *txn, ps_tree tree, struct ps_slice key, struct ps_slice value)
{
    struct ps_store *store = txn->view.store;
    void *key_copy = NULL;
    void *value_copy = NULL;
    int rc = usable(txn, tree);
    if (rc == 0 && (key.len > PS_MAX_KEY || value.len > PS_MAX_VALUE)) {
        rc = PS_TOOBIG;
    }
    rc = rc == 0 ? take_out(store, &key, &key_copy) : rc;
    rc = rc == 0 ? take_out(store, &value, &value_copy) : rc;
    rc = rc == 0 ? ps_reserve(txn, 1, key.len + value.len + 1) : rc;
    rc = rc == 0 ? done(txn, tree_put(txn, tree, key, value), OP_PUT, tree, key, value) : rc;
    free(key_copy);
    free(value_copy);
    return rc;
}

int ps_delete(struct ps_txn *txn, ps_tree tree, struct ps_slice key)
{
    int rc = usable(txn, tree);
    if (rc == 0 && key.len > PS_MAX_KEY) {
        rc = PS_NOTFOUND;
    }
    struct ps_slice ignored;
    void *copy = NULL;
    rc = rc == 0 ? ps_get(&txn->view, tree, key, &ignored) : rc;
    rc = rc == 0 ? take_out(txn->view.store, &key, &copy) : rc;
    rc = rc == 0 ? ps_reserve(txn, 1, 0) : rc;
    rc = rc == 0 ? done(txn, tree_delete(txn, tree, key), OP_DELETE, tree, key, nothing) : rc;
    free(copy);
    return rc;
}

int ps_clear(struct ps_txn *txn, ps_tree tree)
{
    int rc = usable(txn, tree);
    if (rc != 0 || txn->state->trees[tree].root.ref == 0) {
        return rc;
    }
    rc = ps_reserve(txn, 1, 0);
    return rc != 0 ? rc : done(txn, tree_clear(txn, tree), OP_CLEAR, tree, nothing, nothing);
}

int ps_tree_create(struct ps_txn *txn, struct ps_slice name, ps_tree *tree)
{
    if (txn->error != 0) {
        return txn->error;
    }
    if (name.len == 0 || name.len > PS_MAX_TREE_NAME) {
        return name.len == 0 ? PS_INVALID : PS_TOOBIG;
    }
    if (ps_tree_find(&txn->view, name, tree) == 0) {
        return PS_OK;
    }
    uint32_t i = 0;
    while (i < txn->state->ntrees && txn->state->trees[i].name != NULL) {
        i++;
    }
    if (i == PS_MAX_TREES) {
        return PS_LIMIT;
    }
    int rc = ps_reserve(txn, 1, 0);
    rc = rc == 0 ? state_room(txn->state, i + 1) : rc;
    const struct tree_name *interned = rc == 0 ? name_intern(txn->view.store, name) : NULL;
    if (interned == NULL) {
        return rc != 0 ? rc : PS_NOMEM;
    }
    txn->state->trees[i] = (struct tree_root){.name = interned};
    if (i == txn->state->ntrees) {
        txn->state->ntrees++;
    }
    *tree = i;
    return done(txn, 0, OP_CREATE, i, name, nothing);
}

int ps_tree_drop(struct ps_txn *txn, ps_tree tree)
{
    int rc = usable(txn, tree);
    rc = rc == 0 ? ps_reserve(txn, 1, 0) : rc;
    if (rc != 0) {
        return rc;
    }
    rc = tree_clear(txn, tree);
    if (rc == 0) {
        txn->state->trees[tree].name = NULL;
    }
    return done(txn, rc, OP_DROP, tree, nothing, nothing);
}
