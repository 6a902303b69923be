/*
 * replay.c - the commits of the log, again.
 *
 *  E1 Commits are replayed in batches: the last write of a key wins, keys in order, so that
 *     neighbours share pages. A batch ends with a commit, where a checkpoint may be made. What
 *     makes, removes or empties trees, or a range of keys, is a barrier within its commit.
 *  E2 A batch that the arena does not hold is replayed commit by commit, with checkpoints between;
 *     a commit that it does not hold alone spills (spill.c).
 *  E3 Of a commit in many pieces no more than a batch is in memory: what does not fit into one is
 *     applied to an open transaction piece by piece, which spills as well.
 *  E4 Savepoints that were opened before and rolled back after some of their operations went to the
 *     log are found among the operations as marks. Where all of it is in memory, what was rolled
 *     back is left out; in an open transaction it is rolled back again.
 *
 * Threads: the opening one, with the token. A crash changes nothing: recovery begins again.
 */
#include "storage/age.h"
#include "storage/change.h"
#include "storage/node.h"
#include "storage/replay_op.h"
#include "storage/tree_options.h"

#define BATCH_OPS    65536u
#define WARM_FROM    4096u /* operations: fewer are not worth a thread */
#define WARM_AT_ONCE 64u
#define BATCH_BYTES  (UINT64_C(32) << 20)

struct replay_commit {
    size_t ops_end;
    uint64_t seq;
    struct log_pos after;
};

struct replay {
    struct ps_store *store;
    struct ps_fault *fault;
    struct ps_recovery *report;
    VEC(uint8_t *) payloads; /* what the operations point into */
    VEC(struct replay_op) ops;
    VEC(struct replay_commit) commits; /* complete ones */
    uint64_t bytes;
    uint64_t position; /* in the log: what was read last ends there */
    uint32_t order;    /* of the next operation: rises while any is kept */

    /* the commit whose pieces are being read */
    size_t first_op, first_payload;
    uint64_t open_bytes;
    VEC(size_t) marks;      /* its open savepoints: how many operations came before */
    VEC(uint8_t) rest;      /* an operation whose end is in the next piece */
    size_t wanted;          /* bytes of it, as far as is known */
    struct ps_txn *running; /* NULL, or the transaction it is applied to while it is read (E3) */
};

static int compare_ops(const void *a, const void *b)
{
    const struct replay_op *x = a;
    const struct replay_op *y = b;
    if (x->tree != y->tree) {
        return x->tree < y->tree ? -1 : 1;
    }
    int c = slice_order(x->key, y->key);
    return c != 0 ? c : (x->order > y->order) - (x->order < y->order);
}

/* What is not there is no error for a delete, which may have lost its put to merging. All else that
 * cannot be done was not done by who wrote the log: PS_INVALID, or another answer to arguments. */
static int replay_one(struct ps_txn *txn, const struct replay_op *op)
{
    int rc;
    ps_tree made;
    uint64_t deleted;
    bool there = op->tree < txn->state->ntrees && txn->state->trees[op->tree].name != NULL;
    if (!there && op->op != OP_CREATE) {
        return PS_INVALID;
    }
    switch (op->op) {
    case OP_PUT:
        rc = ps_put(txn, op->tree, op->key, op->value);
        break;
    case OP_PUT_ENCODED:
        rc = put_encoded(txn, op->tree, op->key, op->value);
        break;
    case OP_OPTIONS:
        rc = tree_options_replay(txn, op->tree, op->key);
        break;
    case OP_DELETE:
        rc = ps_delete(txn, op->tree, op->key);
        break;
    case OP_CREATE:
        rc = ps_tree_create(txn, op->key, &made);
        rc = rc == 0 && made != op->tree ? PS_INVALID : rc;
        break;
    case OP_DROP:
        rc = ps_tree_drop(txn, op->tree);
        break;
    case OP_DELETE_RANGE:
        rc = ps_delete_range(txn, op->tree, &op->key, op->value.len > 0 ? &op->value : NULL, 0,
                             &deleted);
        break;
    default:
        rc = ps_clear(txn, op->tree);
        break;
    }
    return rc == PS_NOTFOUND ? 0 : rc;
}

/* ---- warming: another thread reads ahead what the replay will change ----------------------------
 */

struct warmer {
    pthread_t thread;
    bool runs;
    struct ps_view view;
    const struct replay_op *ops;
    size_t n;
};

static void *warm(void *arg)
{
    struct warmer *w = arg;
    struct ps_lookup lookups[WARM_AT_ONCE];
    for (size_t at = 0; at < w->n;) {
        size_t n = 0;
        for (; n < WARM_AT_ONCE && at < w->n; n++, at++) {
            lookups[n] = (struct ps_lookup){.tree = w->ops[at].tree, .key = w->ops[at].key};
        }
        ps_get_many(&w->view, lookups, n); /* what is damaged, the replay itself will meet */
    }
    return NULL;
}

static void warmer_start(struct warmer *w, struct ps_store *store, const struct replay_op *ops,
                         size_t n)
{
    w->view = (struct ps_view){
        .store = store, .state = atomic_load(&store->published), .mark = &never_ended};
    w->ops = ops;
    w->n = n;
    w->runs = n >= WARM_FROM && pthread_create(&w->thread, NULL, warm, w) == 0;
}

static void warmer_end(struct warmer *w)
{
    if (w->runs) {
        pthread_join(w->thread, NULL);
        decoded_free(&w->view.decoded);
    }
}

/* Applies ops [from, to): between barriers in key order, the last of each key alone. */
static int replay_range(struct ps_txn *txn, struct replay_op *ops, size_t from, size_t to)
{
    int rc = 0;
    while (rc == 0 && from < to) {
        size_t end = from;
        while (end < to && (op_is_put(ops[end].op) || ops[end].op == OP_DELETE)) {
            end++;
        }
        qsort(ops + from, end - from, sizeof *ops, compare_ops);
        struct warmer warmer;
        warmer_start(&warmer, txn->view.store, ops + from, end - from);
        for (size_t i = from; rc == 0 && i < end; i++) {
            bool last = i + 1 == end || ops[i].tree != ops[i + 1].tree ||
                        ops[i].key.len != ops[i + 1].key.len ||
                        (ops[i].key.len > 0 &&
                         memcmp(ops[i].key.data, ops[i + 1].key.data, ops[i].key.len) != 0);
            rc = last ? replay_one(txn, &ops[i]) : 0;
        }
        warmer_end(&warmer);
        if (rc == 0 && end < to) {
            rc = replay_one(txn, &ops[end++]);
        }
        from = end;
    }
    return rc;
}

/* ---- batches ---------------------------------------------------------------------------------
 */

static int begin(struct ps_store *store, bool whole, struct ps_txn **txn)
{
    int rc = harvest(store);
    reclaim(store);
    rc = rc == 0 ? txn_open(store, &store->txn, true) : rc;
    store->txn.whole = whole;
    *txn = &store->txn;
    return rc;
}

static int finish(struct ps_txn *txn, uint64_t seq, const struct log_pos *after)
{
    struct ps_store *store = txn->view.store;
    txn->state->seq = seq;
    txn->state->pos = *after;
    atomic_fetch_add(&store->ops_since_checkpoint, txn->group->nops + txn->group->weight);
    return commit_internal(store, txn);
}

/* One attempt at the commits [first, last] as one transaction. */
static int replay_commits(struct replay *r, size_t first, size_t last, bool whole)
{
    struct ps_txn *txn;
    int rc = begin(r->store, whole, &txn);
    if (rc != 0) {
        return rc;
    }
    size_t from = first == 0 ? 0 : r->commits.at[first - 1].ops_end;
    const struct replay_commit *c = &r->commits.at[last];
    rc = replay_range(txn, r->ops.at, from, c->ops_end);
    rc = view_end(&txn->view, rc);
    if (rc != 0) {
        txn_discard(txn);
        return rc;
    }
    return finish(txn, c->seq, &c->after);
}

static bool is_full(int rc)
{
    return rc == PS_BUSY || rc == PS_TXNFULL;
}

static int by_order(const void *a, const void *b)
{
    uint32_t x = ((const struct replay_op *)a)->order;
    uint32_t y = ((const struct replay_op *)b)->order;
    return (x > y) - (x < y);
}

/* Commit by commit (E2): one that does not fit beside what is there has the arena to itself. */
static int replay_singly(struct replay *r)
{
    qsort(r->ops.at, r->first_op, sizeof *r->ops.at, by_order);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->commits.n; i++) {
        rc = replay_commits(r, i, i, false);
        if (is_full(rc)) {
            rc = checkpoint_run(r->store, true);
            rc = rc == 0 ? replay_commits(r, i, i, true) : rc;
        }
    }
    return rc;
}

static int fault_of(struct replay *r, int rc)
{
    if (rc == PS_INVALID || rc == PS_TOOBIG || rc == PS_LIMIT) {
        return log_damaged(r->store->log, r->position,
                           "log: an impossible operation in a commit before", r->fault);
    }
    if (rc != 0 && rc != PS_CORRUPT) {
        ps_last_fault(r->store, r->fault);
        if (r->fault->code == 0) {
            fault_set(r->fault, rc, 0, r->store->dir, 0, "replaying the log: %s", ps_strerror(rc));
        }
    }
    return rc;
}

/* Forgets the operations before `ops` and the payloads before `payloads`. */
static void forget(struct replay *r, size_t ops, size_t payloads)
{
    for (size_t i = 0; i < payloads; i++) {
        free(r->payloads.at[i]);
    }
    r->payloads.n -= payloads;
    r->ops.n -= ops;
    if (r->payloads.n > 0) {
        memmove(r->payloads.at, r->payloads.at + payloads, r->payloads.n * sizeof *r->payloads.at);
    }
    if (r->ops.n > 0) {
        memmove(r->ops.at, r->ops.at + ops, r->ops.n * sizeof *r->ops.at);
    }
    for (size_t i = 0; i < r->marks.n; i++) {
        r->marks.at[i] -= ops;
    }
    r->first_op = r->first_payload = 0;
    r->bytes = r->open_bytes;
    r->order = r->ops.n > 0 ? r->order : 0;
}

/* All complete commits that were gathered: as one transaction if the arena holds it. */
static int replay_batch(struct replay *r)
{
    struct ps_store *store = r->store;
    if (r->commits.n == 0) {
        return 0;
    }
    int rc = replay_commits(r, 0, r->commits.n - 1, false);
    rc = is_full(rc) ? replay_singly(r) : rc;
    if (rc == 0 && store->arena.used / 4 > store->arena.capacity / 5) {
        rc = checkpoint_run(store, true);
        rc = rc == PS_NOSPACE ? 0 : rc; /* what does not fit without it says so itself */
    }
    r->commits.n = 0;
    forget(r, r->first_op, r->first_payload);
    return fault_of(r, rc);
}

/* ---- a commit that is replayed while it is read -----------------------------------------------
 */

/* Applies what was gathered since the last time, from one operation on. */
static int run_on(struct replay *r, size_t from)
{
    PS_ASSERT(r->first_op == 0 && r->marks.n == 0);
    int rc = replay_range(r->running, r->ops.at, from, r->ops.n);
    r->open_bytes = 0;
    forget(r, r->ops.n, r->payloads.n);
    return rc;
}

/* The open commit is large: what came before it is replayed, then its beginning. */
static int run(struct replay *r)
{
    struct ps_store *store = r->store;
    int rc = replay_batch(r);
    if (rc == 0 && store->arena.used > store->arena.capacity / 4) {
        rc = checkpoint_run(store, true);
    }
    rc = rc == 0 ? begin(store, true, &r->running) : rc;
    if (rc != 0) {
        r->running = NULL;
        return rc;
    }
    size_t at = 0;
    for (size_t i = 0; rc == 0 && i < r->marks.n; i++) {
        rc = replay_range(r->running, r->ops.at, at, r->marks.at[i]);
        rc = rc == 0 ? ps_savepoint(r->running) : rc;
        at = r->marks.at[i];
    }
    r->marks.n = 0;
    return rc == 0 ? run_on(r, at) : rc;
}

static int run_mark(struct replay *r, const struct replay_op *mark)
{
    struct ps_txn *txn = r->running;
    int rc = run_on(r, 0);
    if (rc == 0 && mark->op == OP_SAVEPOINT) {
        return ps_savepoint(txn);
    }
    while (rc == 0 && txn->nsavepoints > mark->savepoint) {
        rc = mark->op == OP_ROLLBACK ? ps_savepoint_rollback(txn) : ps_savepoint_release(txn);
    }
    return rc;
}

static int run_end(struct replay *r, const struct log_piece *piece)
{
    int rc = run_on(r, 0);
    while (rc == 0 && r->running->nsavepoints > 0) {
        rc = ps_savepoint_release(r->running);
    }
    rc = view_end(&r->running->view, rc);
    if (rc == 0) {
        rc = finish(r->running, piece->seq, &piece->after);
        r->running = rc == 0 ? NULL : r->running;
    }
    return rc;
}

/* ---- operations out of pieces -----------------------------------------------------------------
 */

/* A mark of a commit that is all in memory (E4). */
static int resolve_mark(struct replay *r, const struct replay_op *mark)
{
    if (mark->op == OP_SAVEPOINT) {
        return vec_push(&r->marks, r->ops.n) ? 0 : PS_NOMEM;
    }
    r->marks.n = mark->savepoint;
    r->ops.n = mark->op == OP_ROLLBACK ? r->marks.at[r->marks.n] : r->ops.n;
    return 0;
}

static bool is_possible(const struct replay *r, const struct replay_op *op)
{
    size_t open = r->running != NULL ? r->running->nsavepoints : r->marks.n;
    return op->op == OP_SAVEPOINT ? open < PS_MAX_SAVEPOINTS
                                  : !op_is_mark(op->op) || op->savepoint < open;
}

static int take_op(struct replay *r, struct replay_op *op)
{
    if (op_is_mark(op->op)) {
        return r->running != NULL ? run_mark(r, op) : resolve_mark(r, op);
    }
    op->order = r->order++;
    r->report->replayed_ops++;
    return vec_push(&r->ops, *op) ? 0 : PS_NOMEM;
}

/* The piece's bytes, behind what the piece before left over; *n is 0 while that has no end yet. */
static int join(struct replay *r, const struct log_piece *piece, uint8_t **at, size_t *n)
{
    *n = 0;
    if (!vec_reserve(&r->rest, piece->len + 1) || !vec_reserve(&r->payloads, 1)) {
        return PS_NOMEM;
    }
    if (piece->len > 0) {
        memcpy(r->rest.at + r->rest.n, piece->payload, piece->len);
    }
    r->rest.n += piece->len;
    r->bytes += piece->len;
    r->open_bytes += piece->len;
    if (r->rest.n > 0 && r->rest.n >= r->wanted) {
        *at = r->rest.at;
        *n = r->rest.n;
        r->rest.at = NULL;
        r->rest.n = r->rest.room = 0;
        r->wanted = 0;
    }
    return 0;
}

static int impossible(struct replay *r, const struct log_piece *piece)
{
    char what[96];
    snprintf(what, sizeof what, "log: commit %llu has an impossible operation",
             (unsigned long long)piece->seq);
    return log_damaged(r->store->log, piece->after.position, what, r->fault);
}

/* Takes the operations that are whole; what is left of the last one waits for its end. */
static int take_all(struct replay *r, const struct log_piece *piece, const uint8_t *at,
                    const uint8_t *end)
{
    int rc = 0;
    while (rc == 0 && at < end) {
        struct replay_op op;
        size_t wanted;
        const uint8_t *after = replay_op_read(at, end, &op, &wanted);
        if (after != NULL ? !is_possible(r, &op) : wanted == 0) {
            return impossible(r, piece);
        }
        if (after == NULL) {
            size_t left = (size_t)(end - at);
            r->wanted = left + wanted;
            if (!vec_reserve(&r->rest, r->wanted) || r->rest.at == NULL) {
                return PS_NOMEM;
            }
            memcpy(r->rest.at, at, left);
            r->rest.n = left;
            return 0;
        }
        rc = take_op(r, &op);
        at = after;
    }
    return rc;
}

static int take_ops(struct replay *r, const struct log_piece *piece)
{
    uint8_t *bytes = NULL;
    size_t n;
    int rc = join(r, piece, &bytes, &n);
    if (bytes != NULL) {
        rc = take_all(r, piece, bytes, bytes + n);
        r->payloads.at[r->payloads.n++] = bytes; /* now: marks forget what was there before */
    }
    return rc == 0 && piece->last && r->rest.n > 0 ? impossible(r, piece) : rc;
}

/* The commit is complete. */
static int take_commit(struct replay *r, const struct log_piece *piece)
{
    r->report->replayed_commits++;
    if (r->running != NULL) {
        return run_end(r, piece);
    }
    struct replay_commit commit = {r->ops.n, piece->seq, piece->after};
    if (!vec_push(&r->commits, commit)) {
        return PS_NOMEM;
    }
    r->first_op = r->ops.n;
    r->first_payload = r->payloads.n;
    r->open_bytes = 0;
    r->marks.n = 0;
    return r->ops.n >= BATCH_OPS || r->bytes >= BATCH_BYTES ? replay_batch(r) : 0;
}

static int take_piece(void *arg, const struct log_piece *piece)
{
    struct replay *r = arg;
    struct ps_store *store = r->store;
    r->position = piece->after.position;
    if (piece->stamp >= STAMP_LIMIT) {
        return impossible(r, piece);
    }
    if (store->next_stamp <= piece->stamp) {
        store->next_stamp = piece->stamp + 1;
    }
    uint64_t part = store->arena.capacity << store->page_shift >> 3;
    int rc = take_ops(r, piece);
    if (rc == 0 && piece->last) {
        rc = take_commit(r, piece);
    } else if (rc == 0 && r->open_bytes >= (part < BATCH_BYTES ? part : BATCH_BYTES)) {
        rc = r->running != NULL ? run_on(r, 0) : run(r);
    }
    store->stat.replayed_pieces += r->running != NULL;
    return fault_of(r, rc);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Back to the arena's own size: what was replayed may have taken more. */
static int leave_arena(struct ps_store *store, uint64_t capacity)
{
    int rc = harvest(store);
    reclaim(store);
    rc = rc == 0 && store->arena.used / 4 > capacity / 5 ? checkpoint_run(store, true) : rc;
    rc = rc == 0 ? harvest(store) : rc;
    reclaim(store);
    PS_ASSERT(rc != 0 || store->arena.used <= capacity);
    store->arena.capacity = capacity;
    return rc;
}

static void replay_free(struct replay *r)
{
    if (r->running != NULL) {
        txn_discard(r->running);
    }
    r->marks.n = 0;
    forget(r, r->ops.n, r->payloads.n);
    vec_free(&r->payloads);
    vec_free(&r->ops);
    vec_free(&r->commits);
    vec_free(&r->marks);
    vec_free(&r->rest);
}

/* The log goes on in a segment of its own. On a full disk that is one which a checkpoint of what
 * was replayed frees: a store that cannot be opened is one from which nothing can be deleted. */
static int start_log(struct ps_store *store, const struct log_pos *to, struct ps_fault *fault)
{
    log_recycle(store->log, &store->meta.pos); /* a used segment needs no filling with zeros */
    int rc = log_start(store->log, to, fault);
    if (rc == PS_NOSPACE && checkpoint_run(store, true) == 0) {
        log_recycle(store->log, &store->meta.pos);
        rc = log_start(store->log, to, fault);
    }
    return rc;
}

int replay(struct ps_store *store, const struct log_pos *to, struct ps_recovery *report,
           struct ps_fault *fault)
{
    struct log_pos from = store->meta.pos;
    struct replay r = {.store = store, .fault = fault, .report = report};
    uint64_t capacity = store->arena.capacity;
    store->arena.capacity = store->arena.most;
    int rc = log_replay(store->log, &from, to, take_piece, &r, fault);
    rc = rc == 0 ? replay_batch(&r) : rc;
    replay_free(&r);
    rc = rc == 0 ? leave_arena(store, capacity) : rc;
    if (rc == 0) {
        atomic_store(&store->durable_seq, store->tip->seq);
        rc = start_log(store, to, fault);
        log_end(store->log, &store->log_end);
    }
    return rc;
}
