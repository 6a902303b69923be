/*
 * recovery.c - from a meta and the log to the last committed state.
 *
 *  Y1 The newest valid meta is taken. If the other is damaged, this one may be the older of the
 *     two; then the log has to begin at its position, which log_scan checks.
 *  Y2 Both metas are written again and synced before anything is reused or appended: what this
 *     process can read may never have reached the device.
 *  Y3 The log is made durable through the last complete commit before that commit is served.
 *  Y4 Stamps go on more than 2^32 after the highest that was seen, from a random point, so that
 *     none is used twice (I1), not even by two recoveries from the same meta.
 *
 * Commits are replayed in batches: the last write of a key wins, keys in order, so that neighbours
 * share pages. A batch ends with a commit, where a checkpoint may be made. What makes, removes or
 * empties trees is a barrier within its commit.
 *
 * A crash during recovery changes nothing: it begins again.
 */
#include <sys/random.h>

#include "storage/node.h"
#include "storage/store.h"

#define BATCH_OPS    65536u
#define WARM_FROM    4096u /* operations: fewer are not worth a thread */
#define WARM_AT_ONCE 64u
#define BATCH_BYTES  (UINT64_C(32) << 20)

struct replay_op {
    uint8_t op;
    ps_tree tree;
    uint32_t order;
    struct ps_slice key, value;
};

struct replay_commit {
    size_t ops_end;
    uint64_t seq;
    struct log_pos after;
};

struct replay {
    struct ps_store *store;
    struct ps_fault *fault;
    VEC(uint8_t *) payloads;
    VEC(struct replay_op) ops;
    VEC(struct replay_commit) commits;
    uint64_t bytes;
    bool opened;
    struct ps_recovery *report;
};

/* ---- metas ----------------------------------------------------------------------------------- */

static int read_meta(struct ps_store *store, unsigned k, struct meta *meta, bool *blank)
{
    uint8_t buf[META_BYTES] = {0};
    static const uint8_t zeros[META_BYTES];
    ssize_t n = store->vfs->pread(store->vfs->ctx, store->fd, buf, sizeof buf, k * META_STRIDE);
    if (n < 0) {
        return store_fault(store, PS_IO, (int)n, store->file_path, k * META_STRIDE,
                           "reading a meta");
    }
    *blank = memcmp(buf, zeros, sizeof buf) == 0;
    return meta_decode(buf, meta);
}

int recovery_choose_meta(struct ps_store *store, struct meta *meta, bool *fresh,
                         struct ps_fault *fault)
{
    struct meta metas[2] = {{0}};
    int rc[2];
    bool blank[2] = {false, false};
    for (unsigned k = 0; k < 2; k++) {
        rc[k] = read_meta(store, k, &metas[k], &blank[k]);
        if (rc[k] == PS_IO) {
            ps_last_fault(store, fault);
            return PS_IO;
        }
    }
    *fresh = blank[0] && blank[1];
    if (*fresh) {
        return 0;
    }
    if (rc[0] != 0 && rc[1] != 0) {
        int code = rc[0] == PS_VERSION || rc[1] == PS_VERSION ? PS_VERSION : PS_CORRUPT;
        fault_set(fault, code, 0, store->file_path, 0,
                  code == PS_VERSION ? "another format version" : "neither meta is valid");
        return code;
    }
    unsigned k = rc[0] != 0 ? 1 : rc[1] != 0 ? 0 : metas[1].stamp > metas[0].stamp ? 1 : 0;
    *meta = metas[k];
    if (rc[1 - k] != 0) {
        store_message(store, 1, "%s: meta %c is damaged (%s), using meta %c", store->file_path,
                      'B' - (int)k, ps_strerror(rc[1 - k]), 'A' + (int)k);
    }
    return 0;
}

/* ---- the catalogue ----------------------------------------------------------------------------
 */

static int catalogue_bad(struct ps_store *store, struct ps_fault *fault, const char *what)
{
    fault_set(fault, PS_CORRUPT, 0, store->file_path,
              store->meta.catalogue.ref << store->page_shift, "catalogue: %s", what);
    return PS_CORRUPT;
}

static int parse_catalogue(struct ps_store *store, struct state *state, const uint8_t *at,
                           const uint8_t *end, struct ps_fault *fault)
{
    uint32_t trees;
    if (end - at < 4) {
        return catalogue_bad(store, fault, "too short");
    }
    memcpy(&trees, at, 4);
    at += 4;
    for (uint32_t i = 0; i < trees; i++) {
        uint32_t id;
        if (end - at < 5 || end - at < 5 + at[4] + 25) {
            return catalogue_bad(store, fault, "too short");
        }
        memcpy(&id, at, 4);
        if (id >= PS_MAX_TREES || at[4] == 0 || state_room(state, id + 1) != 0) {
            return catalogue_bad(store, fault, "tree number out of range");
        }
        while (state->ntrees <= id) {
            memset(&state->trees[state->ntrees++], 0, sizeof *state->trees);
        }
        struct tree_root *t = &state->trees[id];
        t->name = name_intern(store, (struct ps_slice){at + 5, at[4]});
        at += 5 + at[4];
        t->level = *at++;
        memcpy(&t->root, at, 24);
        at += 24;
        if (t->name == NULL) {
            return PS_NOMEM;
        }
        if (t->level >= TREE_MAX_LEVELS || ref_in_arena(t->root.ref)) {
            return catalogue_bad(store, fault, "impossible root");
        }
        if (t->root.ref != 0 && store->stat.depth_max < t->level + 1u) {
            store->stat.depth_max = t->level + 1u;
        }
        store->long_keys = store->long_keys || (t->root.count & CHILD_OVERFLOW) != 0;
    }
    return at == end ? 0 : catalogue_bad(store, fault, "too long");
}

/* The state that the meta names, all references in the file. */
int recovery_load_state(struct ps_store *store, struct state *state, struct ps_fault *fault)
{
    const struct meta *m = &store->meta;
    uint64_t pages =
        m->catalogue.len > UINT32_MAX ? UINT64_MAX : run_pages(m->catalogue.len, store->page_shift);
    if (m->catalogue.ref < META_RESERVED >> store->page_shift || pages > store->space.pages ||
        m->catalogue.ref > store->space.pages - pages) {
        return catalogue_bad(store, fault, "outside the file");
    }
    const struct page *p = page_at(store, m->catalogue.ref);
    if (p->kind != PAGE_CATALOGUE || p->number != m->catalogue.ref ||
        p->birth != m->catalogue.birth || p->run_len != m->catalogue.len) {
        return catalogue_bad(store, fault, "stale or misplaced");
    }
    if (p->crc != page_crc(p, PAGE_HEADER + (size_t)m->catalogue.len)) {
        return catalogue_bad(store, fault, "checksum does not match");
    }
    atomic_store(&state->stamp, m->stamp);
    state->seq = m->seq;
    state->pos = m->pos;
    state->ntrees = 0;
    const uint8_t *at = (const uint8_t *)p + PAGE_HEADER;
    return parse_catalogue(store, state, at, at + m->catalogue.len, fault);
}

/* ---- replay -----------------------------------------------------------------------------------
 */

static int compare_ops(const void *a, const void *b)
{
    const struct replay_op *x = a;
    const struct replay_op *y = b;
    if (x->tree != y->tree) {
        return x->tree < y->tree ? -1 : 1;
    }
    size_t n = x->key.len < y->key.len ? x->key.len : y->key.len;
    int c = n > 0 ? memcmp(x->key.data, y->key.data, n) : 0;
    if (c == 0) {
        c = (x->key.len > y->key.len) - (x->key.len < y->key.len);
    }
    return c != 0 ? c : (x->order > y->order) - (x->order < y->order);
}

/* Not found is no error: a commit that was replayed in pieces may be replayed again from its
 * beginning onto what its end had dropped already, and a delete may have lost its put to merging.
 */
static int replay_one(struct ps_txn *txn, const struct replay_op *op)
{
    int rc;
    ps_tree made;
    switch (op->op) {
    case OP_PUT:
        rc = ps_put(txn, op->tree, op->key, op->value);
        break;
    case OP_DELETE:
        rc = ps_delete(txn, op->tree, op->key);
        break;
    case OP_CREATE:
        rc = ps_tree_create(txn, op->key, &made);
        rc = rc == 0 && made != op->tree ? PS_CORRUPT : rc;
        break;
    case OP_DROP:
        rc = ps_tree_drop(txn, op->tree);
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
    w->view = (struct ps_view){.store = store, .state = atomic_load(&store->published)};
    w->ops = ops;
    w->n = n;
    w->runs = n >= WARM_FROM && pthread_create(&w->thread, NULL, warm, w) == 0;
}

static void warmer_end(struct warmer *w)
{
    if (w->runs) {
        pthread_join(w->thread, NULL);
    }
}

/* Applies ops [from, to): between barriers in key order, the last of each key alone. */
static int replay_range(struct ps_txn *txn, struct replay_op *ops, size_t from, size_t to)
{
    int rc = 0;
    while (rc == 0 && from < to) {
        size_t end = from;
        while (end < to && (ops[end].op == OP_PUT || ops[end].op == OP_DELETE)) {
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

/* One attempt at the commits [first, last] as one transaction. */
static int replay_commits(struct replay *r, size_t first, size_t last)
{
    struct ps_store *store = r->store;
    harvest(store);
    reclaim(store);
    int rc = txn_open(store, &store->txn, true);
    if (rc != 0) {
        return rc;
    }
    struct ps_txn *txn = &store->txn;
    size_t from = first == 0 ? 0 : r->commits.at[first - 1].ops_end;
    size_t to = r->commits.at[last].ops_end;
    rc = replay_range(txn, r->ops.at, from, to);
    if (rc != 0) {
        txn_discard(txn);
        return rc;
    }
    txn->state->seq = r->commits.at[last].seq;
    txn->state->pos = r->commits.at[last].after;
    atomic_fetch_add(&store->ops_since_checkpoint, to - from);
    return commit_internal(store, txn);
}

static bool is_full(int rc)
{
    return rc == PS_BUSY || rc == PS_TXNFULL;
}

/* A commit larger than the arena (which was larger when it was made): as several transactions, with
 * checkpoints between them that still name the commit before. After a crash it is replayed from its
 * beginning once more, which comes to the same; nobody reads before it is whole. */
static int replay_in_pieces(struct replay *r, size_t i)
{
    struct ps_store *store = r->store;
    size_t at = i == 0 ? 0 : r->commits.at[i - 1].ops_end;
    size_t to = r->commits.at[i].ops_end;
    int rc = 0;
    while (rc == 0 && at < to) {
        harvest(store);
        reclaim(store);
        rc = txn_open(store, &store->txn, true);
        if (rc != 0) {
            return rc;
        }
        struct ps_txn *txn = &store->txn;
        size_t began = at;
        while (rc == 0 && at < to) {
            rc = replay_one(txn, &r->ops.at[at]);
            at += rc == 0;
        }
        if (rc != 0 && !(is_full(rc) && at > began)) {
            txn_discard(txn);
            return rc;
        }
        if (at == to) {
            txn->state->seq = r->commits.at[i].seq;
            txn->state->pos = r->commits.at[i].after;
        }
        rc = commit_internal(store, txn);
        rc = rc == 0 && at < to ? checkpoint_run(store, true) : rc;
    }
    return rc;
}

static int by_order(const void *a, const void *b)
{
    const struct replay_op *x = a;
    const struct replay_op *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

/* All that was gathered: as one transaction if the arena holds it, else commit by commit, with
 * checkpoints in between. */
static int replay_batch(struct replay *r)
{
    struct ps_store *store = r->store;
    size_t n = r->commits.n;
    if (n == 0) {
        return 0;
    }
    int rc = replay_commits(r, 0, n - 1);
    if (is_full(rc)) {
        qsort(r->ops.at, r->ops.n, sizeof *r->ops.at, by_order);
        rc = 0;
        for (size_t i = 0; rc == 0 && i < n; i++) {
            rc = replay_commits(r, i, i);
            if (is_full(rc)) {
                rc = checkpoint_run(store, true);
                rc = rc == 0 ? replay_in_pieces(r, i) : rc;
            }
        }
    }
    if (rc == 0 && store->arena.used / 4 > store->arena.capacity / 5) {
        rc = checkpoint_run(store, true);
        rc = rc == PS_NOSPACE ? 0 : rc; /* what does not fit without it says so itself */
    }
    for (size_t i = 0; i < r->payloads.n; i++) {
        free(r->payloads.at[i]);
    }
    r->payloads.n = r->ops.n = r->commits.n = 0;
    r->bytes = 0;
    if (rc != 0 && rc != PS_CORRUPT) {
        ps_last_fault(store, r->fault);
        if (r->fault->code == 0) {
            fault_set(r->fault, rc, 0, store->dir, 0, "replaying the log: %s", ps_strerror(rc));
        }
    }
    return rc;
}

static const uint8_t *get_varint(const uint8_t *at, const uint8_t *end, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; at != NULL && at < end && shift < 64; shift += 7) {
        *v |= (uint64_t)(*at & 0x7f) << shift;
        if ((*at++ & 0x80) == 0) {
            return at;
        }
    }
    return NULL;
}

static const uint8_t *get_slice(const uint8_t *at, const uint8_t *end, struct ps_slice *slice)
{
    uint64_t len;
    at = get_varint(at, end, &len);
    if (at == NULL || len > (uint64_t)(end - at)) {
        return NULL;
    }
    *slice = (struct ps_slice){at, (size_t)len};
    return at + len;
}

static int take_commit(void *arg, uint64_t seq, uint64_t stamp, const void *payload, size_t len,
                       const struct log_pos *after)
{
    struct replay *r = arg;
    uint8_t *copy = malloc(len + 1);
    if (copy == NULL || !vec_push(&r->payloads, copy)) {
        free(copy);
        return PS_NOMEM;
    }
    memcpy(copy, payload, len);
    const uint8_t *at = copy;
    const uint8_t *end = copy + len;
    size_t before = r->ops.n;
    while (at < end) {
        struct replay_op op = {.op = *at++, .order = (uint32_t)r->ops.n};
        uint64_t tree;
        at = get_varint(at, end, &tree);
        at = get_slice(at, end, &op.key);
        if (op.op == OP_PUT) {
            at = get_slice(at, end, &op.value);
        }
        if (at == NULL || op.op < OP_PUT || op.op > OP_CLEAR || tree >= PS_MAX_TREES) {
            fault_set(r->fault, PS_CORRUPT, 0, r->store->dir, after->position,
                      "log: commit %llu has an impossible operation", (unsigned long long)seq);
            return PS_CORRUPT;
        }
        op.tree = (ps_tree)tree;
        if (!vec_push(&r->ops, op)) {
            return PS_NOMEM;
        }
    }
    struct replay_commit commit = {r->ops.n, seq, *after};
    if (!vec_push(&r->commits, commit)) {
        return PS_NOMEM;
    }
    if (r->store->next_stamp <= stamp) {
        r->store->next_stamp = stamp + 1;
    }
    r->report->replayed_commits++;
    r->report->replayed_ops += r->ops.n - before;
    r->bytes += len;
    return r->ops.n >= BATCH_OPS || r->bytes >= BATCH_BYTES ? replay_batch(r) : 0;
}

/* Back to the arena's own size: what was replayed may have taken more. */
static int leave_arena(struct ps_store *store, uint64_t capacity)
{
    harvest(store);
    reclaim(store);
    int rc = store->arena.used / 4 > capacity / 5 ? checkpoint_run(store, true) : 0;
    harvest(store);
    reclaim(store);
    PS_ASSERT(rc != 0 || store->arena.used <= capacity);
    store->arena.capacity = capacity;
    return rc;
}

static int replay_log(struct ps_store *store, const struct log_pos *to, struct ps_recovery *report,
                      struct ps_fault *fault)
{
    struct log_pos from = store->meta.pos;
    struct log_pos end = *to;
    struct replay r = {.store = store, .fault = fault, .report = report};
    uint64_t capacity = store->arena.capacity;
    store->arena.capacity = store->arena.most;
    int rc = log_replay(store->log, &from, &end, take_commit, &r, fault);
    rc = rc == 0 ? replay_batch(&r) : rc;
    rc = rc == 0 ? leave_arena(store, capacity) : rc;
    for (size_t i = 0; i < r.payloads.n; i++) {
        free(r.payloads.at[i]);
    }
    vec_free(&r.payloads);
    vec_free(&r.ops);
    vec_free(&r.commits);
    harvest(store);
    reclaim(store);
    if (rc == 0) {
        atomic_store(&store->durable_seq, store->tip->seq);
        log_recycle(store->log, &store->meta.pos); /* a used segment needs no filling with zeros */
        rc = log_start(store->log, &end, fault);
        log_end(store->log, &store->log_end);
    }
    return rc;
}

/* First pass: to where the log reaches, durable through it. Nothing was changed yet if it refuses.
 */
static int read_log(struct ps_store *store, struct log_pos *end, struct ps_recovery *report,
                    struct ps_fault *fault)
{
    struct log_pos from = store->meta.pos;
    struct log_stats stats;
    log_get_stats(store->log, &stats);
    if (stats.segments == 0) {
        fault_set(fault, PS_CORRUPT, 0, store->dir, from.position,
                  "the log is missing: there is no segment, and a store has at least one");
        return PS_CORRUPT;
    }
    int rc = log_scan(store->log, &from, end, &report->torn_bytes, fault);
    rc = rc == 0 ? log_sync_range(store->log, &from, end, fault) : rc;
    report->log_from = from.position;
    report->log_to = end->position;
    if (rc == 0 && end->seq == from.seq) {
        /* Nothing to replay: the metas may as well name the end, so that segments come free. */
        store->meta.pos = store->tip->pos = store->file_state->pos = *end;
    }
    return rc;
}

static void jump_stamps(struct ps_store *store)
{
    uint32_t random = 0;
    (void)!getrandom(&random, sizeof random, 0);
    store->next_stamp = (store->next_stamp | UINT32_MAX) + 1 + random;
}

int recover(struct ps_store *store, struct ps_recovery *report, struct ps_fault *fault)
{
    int err = store->vfs->fdatasync(store->vfs->ctx, store->fd);
    if (err != 0) {
        fault_set(fault, PS_IO, err, store->file_path, 0, "syncing the data file");
        return PS_IO;
    }
    struct log_pos end;
    int rc = read_log(store, &end, report, fault);
    if (rc != 0) {
        return rc;
    }
    rc = meta_write_both(store, &store->meta, NULL);
    if (rc != 0) {
        ps_last_fault(store, fault);
        return rc;
    }
    report->checkpoint_seq = store->meta.seq;
    jump_stamps(store);
    rc = replay_log(store, &end, report, fault);
    jump_stamps(store);
    return rc;
}
