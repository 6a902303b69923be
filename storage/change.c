/*
 * change.c - the public functions that change a tree: arguments, room, the change, its log record.
 *
 * A change that fails in the middle leaves the transaction good for rolling back only. It is logged
 * before it is made: what the caller gives may be what it read in this transaction, and may be gone
 * with the change (a long run that the transaction made itself is free as soon as it is dropped).
 *
 * Threads: the transaction's.
 */
#include "storage/change.h"
#include "storage/file_run.h"

#define BYTES_AN_OP 2048u /* of a long value are replayed in the time of one operation */

static const struct ps_slice nothing;

int change_usable(const struct ps_txn *txn, ps_tree tree)
{
    if (txn->error != 0) {
        return txn->error;
    }
    bool there = tree < txn->state->ntrees && txn->state->trees[tree].name != NULL;
    return view_end(&txn->view, there ? 0 : PS_NOTFOUND);
}

int change_done(struct ps_txn *txn, int rc)
{
    rc = view_end(&txn->view, rc);
    txn->error = rc;
    return rc;
}

static bool is_within(const void *p, const void *base, size_t bytes)
{
    return (uintptr_t)p - (uintptr_t)base < bytes;
}

bool is_in_store(const struct ps_store *store, struct ps_slice slice)
{
    return is_within(slice.data, store->arena.memory, store->arena.bytes) ||
           is_within(slice.data, store->base[0], store->map_bytes);
}

int change_take_out(const struct ps_store *store, struct ps_slice *slice, void **copy)
{
    *copy = NULL;
    if (slice->len == 0 || run_is_long(slice->len) || !is_in_store(store, *slice)) {
        return 0;
    }
    *copy = slice_copy(slice);
    return *copy != NULL ? 0 : PS_NOMEM;
}

/* ---- long keys and values ---------------------------------------------------------------------
 */

void change_note_long(struct ps_txn *txn, struct ps_slice key, struct ps_slice value)
{
    if (run_is_long(key.len)) {
        atomic_store_explicit(&txn->view.store->file_keys, true, memory_order_relaxed);
    }
    txn->group->weight += (key.len + value.len) / BYTES_AN_OP;
}

static size_t short_part(struct ps_slice slice)
{
    return run_is_long(slice.len) ? 0 : slice.len;
}

static int drop_runs(struct ps_txn *txn, const struct room *room)
{
    int rc = 0;
    for (unsigned i = 0; i < 2; i++) {
        const struct run_ref *run = &room->runs[i];
        if (run->ref != 0) {
            int dropped = txn_drop(txn, run->ref, run->birth, room->run_pages[i]);
            rc = rc == 0 ? dropped : rc;
        }
    }
    return rc;
}

/* Room, and the pages of the runs: of the key, if it is not there yet, and of the value. */
static int room_for_long(struct ps_txn *txn, ps_tree tree, const struct put *put, struct room *room)
{
    uint32_t shift = txn->view.store->page_shift;
    uint64_t began;
    int rc;
    do {
        began = txn->changes;
        bool with_key = false;
        if (run_is_long(put->key.len)) {
            rc = view_end(&txn->view, tree_find(txn, tree, put->key));
            with_key = rc == PS_NOTFOUND;
            if (rc != 0 && !with_key) {
                return rc;
            }
        }
        *room = (struct room){
            .ops = 1,
            .bytes = short_part(put->key) + short_part(put->value),
            .log_bytes = put->key.len + put->value.len + 32,
            .run_pages = {with_key ? run_pages(put->key.len, shift) : 0,
                          run_is_long(put->value.len) ? run_pages(put->value.len, shift) : 0},
        };
        rc = tree_long_separators(txn, tree, put->key, &room->file_pages);
        rc = rc == 0 ? txn_make_room(txn, room) : rc;
        rc = rc == 0 ? change_usable(txn, tree) : rc;
        /* While it waited, the transaction may have begun anew from another state. */
        if (rc != 0 || txn->changes == began) {
            return rc;
        }
        rc = drop_runs(txn, room);
    } while (rc == 0);
    return rc;
}

/* Keys and values that are long, or may have to part keys that are. */
static int put_long(struct ps_txn *txn, ps_tree tree, struct ps_slice key, struct ps_slice value,
                    bool encoded)
{
    struct put put = {.key = key, .value = value, .encoded = encoded};
    struct room room;
    int rc = room_for_long(txn, tree, &put, &room);
    if (rc != 0) {
        return rc;
    }
    put.key_run = (struct run_ref){room.runs[0].ref, room.runs[0].birth, key.len};
    put.value_run = (struct run_ref){room.runs[1].ref, room.runs[1].birth, value.len};
    rc = put.key_run.ref != 0 ? file_run_write(txn, &put.key_run, key) : 0;
    rc = rc == 0 && put.value_run.ref != 0 ? file_run_write(txn, &put.value_run, value) : rc;
    if (rc != 0) {
        int dropped = drop_runs(txn, &room);
        return dropped != 0 ? dropped : rc;
    }
    change_note_long(txn, key, value);
    rc = txn_log(txn, put.encoded ? OP_PUT_ENCODED : OP_PUT, tree, key, value);
    return change_done(txn, rc == 0 ? tree_put(txn, tree, &put) : rc);
}

/* ---- the public functions ---------------------------------------------------------------------
 */

/* What is to be stored is known. */
static ALWAYS_INLINE int put_as_stored(struct ps_txn *txn, ps_tree tree, struct ps_slice key,
                                       struct ps_slice value, bool encoded)
{
    struct ps_store *store = txn->view.store;
    if (unlikely(run_is_long(key.len) || run_is_long(value.len) ||
                 atomic_load_explicit(&store->file_keys, memory_order_relaxed))) {
        return put_long(txn, tree, key, value, encoded);
    }
    struct put put = {.key = key, .value = value, .encoded = encoded};
    int rc = ps_reserve(txn, 1, key.len + value.len + 1);
    if (rc == 0) {
        rc = txn_log(txn, encoded ? OP_PUT_ENCODED : OP_PUT, tree, key, value);
        rc = change_done(txn, rc == 0 ? tree_put(txn, tree, &put) : rc);
    }
    return rc;
}

static int put_compressed(struct ps_txn *txn, ps_tree tree, struct ps_slice key,
                          struct ps_slice value)
{
    struct ps_store *store = txn->view.store;
    struct ps_slice stored;
    bool encoded = store_encode(store, &txn->state->trees[tree], value, &stored);
    int rc = put_as_stored(txn, tree, key, stored, encoded);
    encoder_trim(&store->encoder);
    return rc;
}

int put_encoded(struct ps_txn *txn, ps_tree tree, struct ps_slice key, struct ps_slice encoded)
{
    uint64_t len;
    int rc = change_usable(txn, tree);
    if (rc == 0 && (key.len > PS_MAX_KEY || !encoded_length(encoded, &len))) {
        rc = PS_INVALID;
    }
    return rc == 0 ? put_as_stored(txn, tree, key, encoded, true) : rc;
}

int ps_put(struct ps_txn *txn, ps_tree tree, struct ps_slice key, struct ps_slice value)
{
    struct ps_store *store = txn->view.store;
    void *key_copy = NULL;
    void *value_copy = NULL;
    int rc = change_usable(txn, tree);
    if (rc == 0 && (key.len > PS_MAX_KEY || value.len > PS_MAX_VALUE)) {
        rc = PS_TOOBIG;
    }
    rc = rc == 0 ? change_take_out(store, &key, &key_copy) : rc;
    rc = rc == 0 ? change_take_out(store, &value, &value_copy) : rc;
    rc = rc == 0 ? view_end(&txn->view, 0) : rc;
    if (rc == 0 && unlikely(txn->state->trees[tree].compression != PS_UNCOMPRESSED) &&
        !txn->replay) { /* the log has it as it was stored */
        rc = put_compressed(txn, tree, key, value);
    } else if (rc == 0) {
        rc = put_as_stored(txn, tree, key, value, false);
    }
    free(key_copy);
    free(value_copy);
    return rc;
}

int ps_delete(struct ps_txn *txn, ps_tree tree, struct ps_slice key)
{
    int rc = change_usable(txn, tree);
    if (rc == 0 && key.len > PS_MAX_KEY) {
        rc = PS_NOTFOUND;
    }
    void *copy = NULL;
    struct room room = {.ops = 1, .log_bytes = key.len + 32, .may_use_reserve = true};
    rc = rc == 0 ? tree_find(txn, tree, key) : rc;
    rc = rc == 0 ? change_take_out(txn->view.store, &key, &copy) : rc;
    rc = view_end(&txn->view, rc);
    rc = rc == 0 ? txn_make_room(txn, &room) : rc;
    if (rc == 0) {
        rc = txn_log(txn, OP_DELETE, tree, key, nothing);
        rc = change_done(txn, rc == 0 ? tree_delete(txn, tree, key) : rc);
    }
    free(copy);
    return rc;
}

int ps_clear(struct ps_txn *txn, ps_tree tree)
{
    int rc = change_usable(txn, tree);
    if (rc != 0 || txn->state->trees[tree].root.ref == 0) {
        return rc;
    }
    rc = ps_reserve(txn, 1, 0);
    if (rc != 0) {
        return rc;
    }
    rc = txn_log(txn, OP_CLEAR, tree, nothing, nothing);
    return change_done(txn, rc == 0 ? tree_clear(txn, tree) : rc);
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
    return change_done(txn, txn_log(txn, OP_CREATE, i, name, nothing));
}

int ps_tree_drop(struct ps_txn *txn, ps_tree tree)
{
    int rc = change_usable(txn, tree);
    rc = rc == 0 ? ps_reserve(txn, 1, 0) : rc;
    if (rc != 0) {
        return rc;
    }
    rc = txn_log(txn, OP_DROP, tree, nothing, nothing);
    rc = rc == 0 ? tree_clear(txn, tree) : rc;
    if (rc == 0) {
        txn->state->trees[tree].name = NULL;
    }
    return change_done(txn, rc);
}
