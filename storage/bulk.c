/*
 * bulk.c - filling an empty tree bottom-up (pandostore.h, "loading in bulk").
 *
 *  U1 Pages are the transaction's own pages of the file (fresh.h), each listed by itself, so they
 *     are undone with it, and die one by one later, as spilled pages do.
 *  U2 What is put is logged, as puts are; replay knows nothing of bulks.
 *  U3 While a bulk is open txn->error is PS_INVALID: nothing else is done in the transaction. What
 *     the transaction's own functions need is done with it taken away.
 *  U4 The tree's root changes in one step, when all pages are written.
 *
 * Threads: the transaction's. A crash leaves pages that no space map has.
 */
#include "storage/build.h"
#include "storage/change.h"
#include "storage/file_run.h"
#include "storage/sort.h"

#define BUFFER_PAGES 64u
#define ROOM_BYTES   (UINT64_C(256) << 10) /* of log asked for at a time */

struct ps_bulk {
    struct ps_txn *txn;
    ps_tree tree;
    struct build *build;
    struct sort *sort; /* NULL: entries come sorted */
    uint64_t entries, log_left;
    uint8_t *buffer;
    page_ref first, next; /* what the buffer begins with; the next place */
    uint32_t left;        /* places from there on that are ours */
    int failed;
};

/* ---- what build.h asks for --------------------------------------------------------------------
 */

static int flush(struct ps_bulk *b)
{
    struct ps_store *store = b->txn->view.store;
    if (b->next == b->first) {
        return 0;
    }
    uint64_t offset = b->first << store->page_shift;
    int err =
        data_write(store, b->buffer, (size_t)(b->next - b->first) << store->page_shift, offset);
    b->first = b->next;
    if (err == 0) {
        return 0;
    }
    store_fault(store, PS_POISONED, err, store->file_path, offset, "loading in bulk");
    return store_poison(store, PS_POISONED);
}

static void give_back_rest(struct ps_bulk *b)
{
    if (b->left > 0) {
        (void)space_free(&b->txn->view.store->space, b->next, b->left);
        b->left = 0;
    }
}

/* Room beside what is in the arena, and in the log. */
static int make_room(struct ps_bulk *b, uint64_t pages, uint64_t log_bytes)
{
    struct room room = {.ops = 1, .log_bytes = log_bytes, .file_pages = pages};
    b->txn->error = 0;
    int rc = txn_make_room(b->txn, &room);
    b->txn->error = PS_INVALID;
    return rc;
}

static int take_places(struct ps_bulk *b, uint32_t pages)
{
    struct ps_store *store = b->txn->view.store;
    int rc = flush(b);
    give_back_rest(b);
    uint32_t want = pages > BUFFER_PAGES ? pages : BUFFER_PAGES;
    rc = rc == 0 ? make_room(b, want, 1) : rc;
    rc = rc == 0 ? space_alloc(&store->space, pages, want, &b->next, &b->left) : rc;
    if (rc == PS_NOSPACE || rc == PS_IO) {
        rc = store_fault(store, rc, 0, store->file_path, 0, "loading in bulk");
    }
    file_pages_grew(store);
    b->first = b->next;
    return rc;
}

static int place(void *arg, uint32_t pages, page_ref *first, uint8_t **at)
{
    struct ps_bulk *b = arg;
    struct ps_store *store = b->txn->view.store;
    int rc = b->left < pages ? take_places(b, pages) : 0;
    if (rc == 0 && b->next - b->first + pages > BUFFER_PAGES) {
        rc = flush(b);
    }
    rc = rc == 0 ? txn_take_file(b->txn, b->next, pages) : rc;
    if (rc != 0) {
        return rc;
    }
    *first = b->next;
    *at = b->buffer + ((size_t)(b->next - b->first) << store->page_shift);
    b->next += pages;
    b->left -= pages;
    store->stat.bulk_pages += pages;
    return 0;
}

static int long_run(void *arg, struct ps_slice bytes, struct run_ref *run)
{
    struct ps_bulk *b = arg;
    struct ps_txn *txn = b->txn;
    uint32_t pages = run_pages(bytes.len, txn->view.store->page_shift);
    int rc = make_room(b, pages, 1);
    rc = rc == 0 ? txn_alloc_file(txn, pages, &run->ref) : rc;
    if (rc != 0) {
        return rc;
    }
    run->birth = txn->stamp;
    run->len = bytes.len;
    return file_run_write(txn, run, bytes);
}

static uint64_t birth(void *arg)
{
    const struct ps_bulk *b = arg;
    return b->txn->stamp;
}

/* ---- from outside -----------------------------------------------------------------------------
 */

static void release(struct ps_bulk *b)
{
    build_free(b->build);
    sort_free(b->sort);
    free(b->buffer);
    free(b);
}

int ps_bulk_begin(struct ps_txn *txn, ps_tree tree, enum ps_bulk_order order, uint64_t memory,
                  struct ps_bulk **bulk)
{
    struct ps_store *store = txn->view.store;
    *bulk = NULL;
    int rc = change_usable(txn, tree);
    if (rc != 0) {
        return rc;
    }
    if (order != PS_SORTED && order != PS_UNSORTED) {
        return PS_INVALID;
    }
    txn->whole = true;
    rc = ps_reserve(txn, 1, 1); /* it may begin anew from another state */
    if (rc != 0) {
        return rc;
    }
    if (tree >= txn->state->ntrees || txn->state->trees[tree].root.ref != 0) {
        return PS_EXISTS;
    }
    struct ps_bulk *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return PS_NOMEM;
    }
    const struct build_out out = {b, store->page_size, place, long_run, birth};
    b->txn = txn;
    b->tree = tree;
    b->build = build_new(&out);
    b->buffer = malloc((size_t)BUFFER_PAGES << store->page_shift);
    b->sort = order == PS_UNSORTED ? sort_new(store->dir, memory) : NULL;
    if (b->build == NULL || b->buffer == NULL || (order == PS_UNSORTED && b->sort == NULL)) {
        release(b);
        return PS_NOMEM;
    }
    txn->changed = true; /* it keeps its state from now on */
    txn->error = PS_INVALID;
    *bulk = b;
    return 0;
}

static int take_stored(struct ps_bulk *b, struct ps_slice key, struct ps_slice value, bool encoded)
{
    struct ps_txn *txn = b->txn;
    uint64_t log_bytes = key.len + value.len + 32;
    int rc = 0;
    if (b->log_left < log_bytes) {
        uint64_t want = log_bytes < ROOM_BYTES ? ROOM_BYTES : log_bytes;
        rc = make_room(b, 1, want);
        b->log_left = want;
    }
    rc = rc == 0 ? build_put(b->build, key, value, encoded) : rc;
    if (rc != 0) {
        return rc;
    }
    b->log_left -= log_bytes;
    b->entries++;
    if (run_is_long(key.len) || run_is_long(value.len)) {
        change_note_long(txn, key, value);
    }
    if (key.len > key_inline_max(txn->view.store->page_size)) {
        txn->view.store->long_keys = true;
    }
    return txn_log(txn, encoded ? OP_PUT_ENCODED : OP_PUT, b->tree, key, value);
}

/* An entry whose turn it is; compressed as a put would (change.c). */
static int take(void *arg, struct ps_slice key, struct ps_slice value)
{
    struct ps_bulk *b = arg;
    struct ps_store *store = b->txn->view.store;
    struct ps_slice stored;
    bool encoded = store_encode(store, &b->txn->state->trees[b->tree], value, &stored);
    int rc = take_stored(b, key, stored, encoded);
    encoder_trim(&store->encoder);
    return rc;
}

int ps_bulk_put(struct ps_bulk *b, struct ps_slice key, struct ps_slice value)
{
    if (b->failed != 0) {
        return b->failed;
    }
    if (b->txn->error != PS_INVALID) { /* rolled back under it */
        return PS_INVALID;
    }
    if (key.len > PS_MAX_KEY || value.len > PS_MAX_VALUE) {
        return PS_TOOBIG;
    }
    int rc = b->sort != NULL ? sort_put(b->sort, key, value) : take(b, key, value);
    b->failed = rc == PS_INVALID ? 0 : rc;
    return rc;
}

/* What was built becomes the tree. */
static int complete(struct ps_bulk *b)
{
    struct ps_txn *txn = b->txn;
    struct ps_store *store = txn->view.store;
    struct tree_root built = {0};
    int rc = b->sort != NULL ? sort_give(b->sort, take, b) : 0;
    rc = rc == 0 ? build_finish(b->build, &built) : rc;
    rc = rc == 0 ? flush(b) : rc;
    give_back_rest(b);
    if (rc == 0) {
        struct tree_root *root = &txn->state->trees[b->tree];
        root->root = built.root;
        root->level = built.level;
        if (built.root.ref != 0 && store->stat.depth_max < built.level + 1u) {
            store->stat.depth_max = built.level + 1u;
        }
        txn->changes++;
        store->stat.bulk_loads++;
        store->stat.bulk_sort_runs += b->sort != NULL ? sort_runs(b->sort) : 0;
    }
    return rc;
}

int ps_bulk_finish(struct ps_bulk *b, uint64_t *entries)
{
    struct ps_txn *txn = b->txn;
    if (txn->error != PS_INVALID) {
        release(b);
        return PS_INVALID;
    }
    int rc = b->failed != 0 ? b->failed : complete(b);
    if (entries != NULL) {
        *entries = rc == 0 ? b->entries : 0;
    }
    give_back_rest(b);
    txn_advance(txn); /* places that are free again are taken with another birth */
    txn->error = rc;
    release(b);
    return rc;
}

void ps_bulk_cancel(struct ps_bulk *b)
{
    if (b->txn->error == PS_INVALID) {
        give_back_rest(b);
        b->txn->error = b->entries > 0 || b->failed != 0 ? PS_ENDED : 0;
    }
    release(b);
}
