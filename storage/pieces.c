/*
 * pieces.c - the log of a running transaction: gathering operations, and writing them ahead.
 *
 * Operations are gathered in the group's buffer. When that has grown past its bound they go to the
 * log as pieces of the commit to be, so that no transaction keeps more of its log in memory:
 *
 *  O1 All groups before are written first; there is one transaction at a time. So the pieces of a
 *     commit follow one another in the log, and its last one completes it like any other commit.
 *  O2 A savepoint costs nothing while its operations are in the buffer: rolling back cuts it. When
 *     the buffer is written, the savepoints that are open get their marks (OP_SAVEPOINT) at their
 *     places among the operations; how such a one ends becomes a mark as well (OP_ROLLBACK,
 *     OP_RELEASE) that says which one: with it end all that were opened after it, whose own marks
 *     may have been cut.
 *  O3 A transaction that ends without committing begins a new epoch of the log, which ends the old
 *     one before its first piece. The segment that the epoch begins with is there before the first
 *     piece is written: aborting must not fail because the disk is full.
 *  O4 After a failed write the log goes on in a new epoch, too; the transaction has lost what it
 *     wrote, and can only be aborted.
 *
 *  O5 Keys and values larger than the bound are not gathered: they go to the log from where the
 *     caller has them, a part at a time. The rest of such an operation follows at once: what is in
 *     the buffer begins with an operation, so that it may be cut (O2).
 *
 * Threads: the holder of the token, in a transaction. A crash leaves pieces without a last one: a
 * torn tail.
 */
#include "storage/store.h"

#define PIECES_MOST   (UINT64_C(4) << 20) /* bytes gathered before they are written */
#define PIECES_PART   8u                  /* and at most this part of dirty memory */
#define PART_BYTES    (1u << 20)          /* written at a time of what is not gathered */
#define PIECE_FRAMING 64u                 /* bytes of log for each part appended, about */

static uint64_t bound(const struct ps_store *store)
{
    uint64_t part = (store->arena.capacity << store->page_shift) / PIECES_PART;
    return part < PIECES_MOST ? part : PIECES_MOST;
}

uint64_t pieces_spare(const struct ps_txn *txn)
{
    const struct ps_store *store = txn->view.store;
    return txn->in_pieces || txn->reserved_log >= bound(store) ? log_segment_size(store->log) : 0;
}

static int pieces_write_more(struct ps_txn *txn, struct ps_slice more);

/* ---- gathering ------------------------------------------------------------------------------- */

static uint8_t *put_varint(uint8_t *at, uint64_t v)
{
    while (v >= 0x80) {
        *at++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *at++ = (uint8_t)v;
    return at;
}

/* What comes before an operation's key: at most 1 + 2 * 10 bytes. */
static uint8_t *put_head(uint8_t *at, uint8_t op, ps_tree tree, size_t key_len)
{
    *at++ = op;
    at = put_varint(at, tree);
    return put_varint(at, key_len);
}

/* Bytes too many to be gathered: they go to the log at once, behind what was (O5). */
static int gather(struct ps_txn *txn, struct ps_slice bytes)
{
    struct group *group = txn->group;
    if (bytes.len > bound(txn->view.store)) {
        return pieces_write_more(txn, bytes);
    }
    if (!vec_reserve(&group->ops, bytes.len + 10)) {
        return PS_NOMEM;
    }
    memcpy(group->ops.at + group->ops.n, bytes.data, bytes.len);
    group->ops.n += bytes.len;
    return 0;
}

/* An operation whose key or value is not gathered. */
static int gather_long(struct ps_txn *txn, uint8_t op, ps_tree tree, struct ps_slice key,
                       struct ps_slice value)
{
    struct group *group = txn->group;
    if (!vec_reserve(&group->ops, 1 + 3 * 10)) {
        return PS_NOMEM;
    }
    uint8_t *at = put_head(group->ops.at + group->ops.n, op, tree, key.len);
    group->ops.n = (size_t)(at - group->ops.at);
    int rc = key.len > 0 ? gather(txn, key) : 0;
    if (rc != 0 || !op_has_value(op)) {
        return rc;
    }
    if (!vec_reserve(&group->ops, 10)) {
        return PS_NOMEM;
    }
    at = put_varint(group->ops.at + group->ops.n, value.len);
    group->ops.n = (size_t)(at - group->ops.at);
    return value.len > 0 ? gather(txn, value) : 0;
}

static int log_long(struct ps_txn *txn, uint8_t op, ps_tree tree, struct ps_slice key,
                    struct ps_slice value)
{
    int rc = gather_long(txn, op, tree, key, value);
    return rc == 0 && txn->group->ops.n > 0 ? pieces_write(txn) : rc;
}

int txn_log(struct ps_txn *txn, uint8_t op, ps_tree tree, struct ps_slice key,
            struct ps_slice value)
{
    struct ps_store *store = txn->view.store;
    struct group *group = txn->group;
    txn->changed = true;
    txn->changes++;
    txn->folds.epoch++;
    group->nops++;
    store->stat.bytes_changed += key.len + value.len;
    if (txn->replay || ps_get_durability(store) == PS_NONE) {
        return 0;
    }
    if (unlikely(key.len > bound(store) || value.len > bound(store))) {
        return log_long(txn, op, tree, key, value);
    }
    if (!vec_reserve(&group->ops, 1 + 3 * 10 + key.len + value.len)) {
        return PS_NOMEM;
    }
    uint8_t *at = put_head(group->ops.at + group->ops.n, op, tree, key.len);
    if (key.len > 0) {
        memcpy(at, key.data, key.len);
        at += key.len;
    }
    if (op_has_value(op)) {
        at = put_varint(at, value.len);
        if (value.len > 0) {
            memcpy(at, value.data, value.len);
            at += value.len;
        }
    }
    group->ops.n = (size_t)(at - group->ops.at);
    return group->ops.n >= bound(store) ? pieces_write(txn) : 0;
}

/* ---- writing ahead --------------------------------------------------------------------------- */

/* What was written since `from` is dead, and the log goes on there; log_mu held. */
static int go_back(struct ps_store *store, const struct log_pos *from)
{
    struct ps_fault fault = {0};
    int rc = log_start(store->log, from, &fault);
    if (rc != 0) {
        store_fault(store, PS_POISONED, fault.sys_errno, fault.file, fault.offset,
                    "beginning the log anew: %s", fault.what);
        return store_poison(store, PS_POISONED);
    }
    log_end(store->log, &store->log_end);
    store->log_allowance = 0;
    static const struct log_pos nowhere;
    log_recycle(store->log, &nowhere); /* what has died is more than is worth keeping */
    return 0;
}

static int append(struct ps_txn *txn, const void *bytes, size_t len)
{
    struct ps_store *store = txn->view.store;
    store->log_allowance -= (int64_t)(len + PIECE_FRAMING);
    return len == 0 ? 0
                    : log_append_part(store->log, ps_txn_seq(txn), txn->stamp, ps_durable(store),
                                      bytes, len);
}

/* The buffer, with a mark where each savepoint was opened that has none yet (O2); log_mu held. */
static int append_all(struct ps_txn *txn)
{
    static const uint8_t mark = OP_SAVEPOINT;
    size_t at = 0;
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < txn->nsavepoints; i++) {
        struct savepoint *s = &txn->savepoints[i];
        if (!s->marked) {
            rc = append(txn, txn->group->ops.at + at, s->ops - at);
            rc = rc == 0 ? append(txn, &mark, 1) : rc;
            at = s->ops;
            s->marked = true;
        }
    }
    return rc == 0 ? append(txn, txn->group->ops.at + at, txn->group->ops.n - at) : rc;
}

static int write_all(struct ps_txn *txn, struct ps_slice more)
{
    struct ps_store *store = txn->view.store;
    struct ps_fault fault = {0};
    if (!txn->in_pieces) {
        txn->pieces_from = store->log_end;
    }
    txn->in_pieces = true;
    int rc = append_all(txn);
    rc = rc == 0 ? log_write(store->log, &fault) : rc;
    for (size_t at = 0; rc == 0 && at < more.len; at += PART_BYTES) {
        size_t n = more.len - at < PART_BYTES ? more.len - at : PART_BYTES;
        rc = append(txn, (const uint8_t *)more.data + at, n);
        rc = rc == 0 ? log_write(store->log, &fault) : rc;
    }
    if (rc == 0) {
        store->unsynced = true;
        store->stat.log_pieces_early++;
        return 0;
    }
    store_fault(store, rc, fault.sys_errno, fault.file, fault.offset, "writing the log: %s",
                fault.what);
    int back = go_back(store, &txn->pieces_from);
    txn->in_pieces = false;
    return back != 0 ? back : rc == PS_NOMEM ? rc : PS_IO;
}

static int pieces_write_more(struct ps_txn *txn, struct ps_slice more)
{
    struct ps_store *store = txn->view.store;
    pthread_mutex_lock(&store->log_mu);
    int rc = groups_write(store);
    rc = rc == 0 ? write_all(txn, more) : rc;
    pthread_mutex_unlock(&store->log_mu);
    if (rc != 0) {
        txn->lost = rc;
        return rc;
    }
    uint64_t n = txn->group->ops.n + more.len;
    txn->reserved_log -= txn->reserved_log < n ? txn->reserved_log : n;
    txn->group->ops.n = 0;
    txn->folds.epoch++;
    return 0;
}

int pieces_write(struct ps_txn *txn)
{
    static const struct ps_slice nothing;
    return pieces_write_more(txn, nothing);
}

/* ---- ends -------------------------------------------------------------------------------------
 */

int pieces_mark(struct ps_txn *txn, uint8_t op, unsigned savepoint)
{
    uint8_t number = (uint8_t)savepoint;
    if (!vec_push(&txn->group->ops, op) || !vec_push(&txn->group->ops, number)) {
        txn->lost = PS_NOMEM;
    }
    return txn->lost;
}

/* If the log went on in another epoch since, they are dead already. */
void pieces_abandon(struct ps_txn *txn)
{
    struct ps_store *store = txn->view.store;
    if (!txn->in_pieces || !ps_rule(RULE_ABANDONED_PIECES)) {
        return;
    }
    txn->in_pieces = false;
    pthread_mutex_lock(&store->log_mu);
    struct log_pos end;
    log_end(store->log, &end);
    if (end.epoch == txn->pieces_from.epoch) {
        (void)go_back(store, &txn->pieces_from); /* a failure poisons the store */
    }
    pthread_mutex_unlock(&store->log_mu);
}
