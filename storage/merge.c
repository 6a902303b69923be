/*
 * merge.c - see merge.h: the table of operators, and merging.
 *
 * A merge is read, changed and put on one way down the tree: the leaf becomes the transaction's own
 * as with any put, and a result as long as what was there is written over it. So of many merges of
 * one key in a transaction all but the first change a few bytes of a leaf that is there, and of its
 * log (fold.h). Results that are long, compressed, or the first of a tree take the way of a put.
 *
 * An operator that refuses has changed nothing. The path is the transaction's own by then: cursors
 * are told; and one without changes forgets it, since whatever it calls next may wait for room,
 * and begin it anew (room.c).
 *
 * Threads: the transaction's, but for the table.
 */
#include "storage/merge.h"

#include "storage/change.h"
#include "storage/node.h"
#include "storage/overflow.h"

#define MOST_HERE  256u /* bytes of a result that is put where the value was found */
#define ROOM_BYTES 512u /* reserved for it, with a key */

/* ---- the table ------------------------------------------------------------------------------- */

struct merge_operator *merge_table(void)
{
    struct merge_operator *table = calloc(PS_MAX_MERGES + 1, sizeof *table);
    for (unsigned i = 0; table != NULL && i < merge_nbuiltins; i++) {
        memcpy(table[i + 1].name, merge_builtins[i].name, strlen(merge_builtins[i].name));
        atomic_store(&table[i + 1].fn, merge_builtins[i].fn);
    }
    return table;
}

bool merge_is_name(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '!' || name[i] > '~') {
            return false;
        }
    }
    return true;
}

int merge_number(struct ps_store *store, const char *name, uint8_t *number)
{
    int rc = 0;
    *number = 0;
    if (name[0] == 0) {
        return 0;
    }
    pthread_mutex_lock(&store->mu);
    uint32_t i = 1;
    while (i <= store->noperators && strcmp(store->operators[i].name, name) != 0) {
        i++;
    }
    if (i > PS_MAX_MERGES) {
        rc = PS_LIMIT;
    } else if (i > store->noperators) {
        memcpy(store->operators[i].name, name, strlen(name));
        store->noperators = i;
    }
    pthread_mutex_unlock(&store->mu);
    *number = rc == 0 ? (uint8_t)i : 0;
    return rc;
}

void merge_name(struct ps_store *store, uint8_t number, char name[PS_MAX_MERGE_NAME + 1])
{
    pthread_mutex_lock(&store->mu);
    memcpy(name, store->operators[number].name, PS_MAX_MERGE_NAME + 1);
    pthread_mutex_unlock(&store->mu);
}

int ps_merge_register(struct ps_store *store, const char *name, ps_merge_fn fn, void *arg)
{
    uint8_t number;
    size_t len = strlen(name);
    if (len == 0 || len > PS_MAX_MERGE_NAME || fn == NULL || !merge_is_name(name, len)) {
        return PS_INVALID;
    }
    int rc = merge_number(store, name, &number);
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&store->mu);
    struct merge_operator *op = &store->operators[number];
    if (atomic_load(&op->fn) != NULL) {
        rc = PS_EXISTS;
    } else {
        op->arg = arg;
        atomic_store_explicit(&op->fn, fn, memory_order_release);
    }
    pthread_mutex_unlock(&store->mu);
    return rc;
}

void *ps_merged_room(struct ps_merged *result, size_t len)
{
    uint8_t *room = result->small;
    if (len > sizeof result->small) {
        room = len > PS_MAX_VALUE ? NULL : realloc(result->large, len);
        result->large = room != NULL ? room : result->large;
    }
    result->at = room;
    result->len = len;
    return room;
}

/* ---- merging --------------------------------------------------------------------------------- */

struct merging {
    struct ps_txn *txn;
    ps_tree tree;
    struct ps_slice key, operand;
    struct ps_merged result;
};

/* What the operator makes of the value that is there (NULL: none). */
static int operate(struct merging *m, const struct ps_slice *old)
{
    struct ps_store *store = m->txn->view.store;
    const struct merge_operator *op = &store->operators[m->txn->state->trees[m->tree].merge];
    ps_merge_fn fn = atomic_load_explicit(&op->fn, memory_order_acquire);
    if (fn == NULL) {
        return PS_NOOPERATOR;
    }
    m->result.at = NULL;
    int rc = fn(op->arg, old, m->operand, &m->result);
    if (rc != 0) {
        return rc < 0 ? rc : PS_INVALID;
    }
    if (m->result.at == NULL) {
        return m->result.len > PS_MAX_VALUE ? PS_TOOBIG : PS_NOMEM;
    }
    return view_end(&m->txn->view, 0); /* what it was made of was right */
}

static struct ps_slice result_of(const struct merging *m)
{
    return (struct ps_slice){m->result.at, m->result.len};
}

/* The value of entry i of a leaf. */
static int value_there(struct ps_store *store, const struct page *leaf, unsigned i,
                       struct ps_slice *value)
{
    struct run_ref run;
    int rc = 0;
    bool encoded = node_value(leaf, i, value, &run);
    if (run.ref != 0) {
        const uint8_t *data;
        rc = run_data(store, &run, &data);
        *value = (struct ps_slice){data, run.len};
    }
    return rc == 0 && encoded ? store_decode(store, &store->merging, value) : rc;
}

/* Whether the result can be put where the value was found. */
static bool goes_here(const struct merging *m)
{
    const struct tree_root *t = &m->txn->state->trees[m->tree];
    return m->result.len <= MOST_HERE &&
           (t->compression == PS_UNCOMPRESSED || m->result.len <= t->compress_over);
}

static int merge_by_put(struct merging *m)
{
    m->txn->view.store->stat.merge_ops_by_put++;
    return ps_put(m->txn, m->tree, m->key, result_of(m));
}

static bool is_in(const struct page *leaf, struct ps_slice value, uint32_t page_size)
{
    return (uintptr_t)value.data - (uintptr_t)leaf < page_size;
}

/* In a tree that is not empty. */
static int merge_at(struct merging *m)
{
    struct ps_txn *txn = m->txn;
    struct ps_store *store = txn->view.store;
    struct put_place place;
    struct ps_slice old;
    txn->changes++;
    int rc = tree_place(txn, m->tree, m->key, &place);
    if (rc != 0) {
        return change_done(txn, rc);
    }
    rc = place.exact ? value_there(store, place.path.page[0], place.index, &old) : 0;
    rc = rc == 0 ? operate(m, place.exact ? &old : NULL) : rc;
    if (rc != 0 || !goes_here(m)) {
        int kept = txn->changed || txn->nsavepoints > 0 ? 0 : txn_forget(txn);
        return kept != 0 ? change_done(txn, kept) : rc != 0 ? rc : merge_by_put(m);
    }
    store->stat.merge_ops_in_place +=
        place.exact && old.len == m->result.len && is_in(place.path.page[0], old, store->page_size);
    struct put put = {.key = m->key, .value = result_of(m)};
    rc = fold_log(txn, m->tree, m->key, put.value);
    return change_done(txn, rc == 0 ? tree_put_at(txn, &place, &put) : rc);
}

/* A key that has a run, or a tree with separators that may have: a put has room for all that. */
static int merge_long(struct merging *m)
{
    struct ps_store *store = m->txn->view.store;
    struct ps_slice old;
    int rc = view_get(&m->txn->view, m->tree, m->key, &old);
    rc = rc == VALUE_ENCODED ? store_decode(store, &store->merging, &old) : rc;
    if (rc == 0 || rc == PS_NOTFOUND) {
        rc = operate(m, rc == 0 ? &old : NULL);
        rc = rc == 0 ? merge_by_put(m) : rc;
    }
    return rc;
}

static int merge(struct merging *m)
{
    struct ps_txn *txn = m->txn;
    struct ps_store *store = txn->view.store;
    if (m->key.len > key_inline_max(store->page_size) ||
        atomic_load_explicit(&store->file_keys, memory_order_relaxed)) {
        return merge_long(m);
    }
    int rc = ps_reserve(txn, 1, m->key.len < ROOM_BYTES ? ROOM_BYTES : m->key.len);
    rc = rc == 0 ? change_usable(txn, m->tree) : rc;
    if (rc != 0) {
        return rc;
    }
    if (txn->state->trees[m->tree].root.ref == 0) {
        rc = operate(m, NULL);
        return rc == 0 ? merge_by_put(m) : rc;
    }
    return merge_at(m);
}

int ps_merge(struct ps_txn *txn, ps_tree tree, struct ps_slice key, struct ps_slice operand)
{
    struct ps_store *store = txn->view.store;
    struct merging m = {.txn = txn, .tree = tree, .key = key, .operand = operand};
    void *key_copy = NULL;
    void *operand_copy = NULL;
    int rc = change_usable(txn, tree);
    if (rc == 0 && (key.len > PS_MAX_KEY || operand.len > PS_MAX_VALUE)) {
        rc = PS_TOOBIG;
    }
    rc = rc == 0 ? change_take_out(store, &m.key, &key_copy) : rc;
    rc = rc == 0 ? change_take_out(store, &m.operand, &operand_copy) : rc;
    rc = rc == 0 ? view_end(&txn->view, 0) : rc;
    if (rc == 0) {
        store->stat.merge_ops++;
        rc = merge(&m);
    }
    decoded_trim(&store->merging);
    free(m.result.large);
    free(key_copy);
    free(operand_copy);
    return rc;
}
