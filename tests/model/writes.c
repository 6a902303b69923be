/*
 * writes.c - the write transaction: changes, savepoints, its ends, and a cursor over its own
 * changes.
 *
 * Invariants:
 *  1. r->now is what the open transaction must contain; r->committed what the last commit left.
 *  2. Whatever answers an error has changed nothing: the model is changed after the engine said 0.
 *  3. PS_BUSY is only for transactions with changes or savepoints that were not said to be whole,
 *     and never within what ps_reserve() promised; PS_TXNFULL says it only of what is large beside
 *     the dirty memory.
 */
#include "tests/model/round.h"

#include <stdio.h>
#include <string.h>

#define SLOT       4096u
#define SMALL_PART 24 /* a change below this part of the dirty memory must always fit */

void begin_transaction(struct round *r)
{
    round_must(r, ps_begin(r->store, &r->txn), "ps_begin");
    map_copy(&r->now, &r->committed);
    r->reserved_ops = r->reserved_bytes = 0;
    if (ps_txn_changed(r->txn))
        round_fail(r, "a new transaction says that it has changes");
    r->whole = rng_one_in(&r->rng, r->config.whole);
    if (r->whole) {
        release_slots(r);
        ps_keep_whole(r->txn);
        r->progress->tally[TALLY_whole_transactions]++;
    }
}

static void forget_savepoints(struct round *r)
{
    while (r->savepoints > 0)
        map_free(&r->savepoint[--r->savepoints]);
}

void close_walker(struct round *r)
{
    if (r->walker.cursor)
        ps_cursor_close(r->walker.cursor);
    r->walker.cursor = NULL;
}

static void abort_transaction(struct round *r)
{
    forget_savepoints(r);
    ps_abort(r->txn);
    r->txn = NULL;
    map_free(&r->now);
}

static void check_commit(struct round *r, bool changed, uint64_t expected, uint64_t seq)
{
    if (changed && (seq != expected || seq != r->last_seq + 1))
        round_fail(r, "committed as %llu; the transaction had said %llu, the last was %llu",
                   (unsigned long long)seq, (unsigned long long)expected,
                   (unsigned long long)r->last_seq);
    if (!changed && seq > r->last_seq)
        round_fail(r, "an unchanged transaction committed as %llu, the last was %llu",
                   (unsigned long long)seq, (unsigned long long)r->last_seq);
    if (!changed && !map_equal(&r->now, &r->committed))
        round_fail(r, "a transaction with changes says that it has none");
}

static void commit_transaction(struct round *r)
{
    bool changed = ps_txn_changed(r->txn), wait = rng_one_in(&r->rng, 2);
    uint64_t expected = ps_txn_seq(r->txn), seq = 0;
    enum ps_durability level = (enum ps_durability)rng_below(&r->rng, 3);
    while (r->savepoints > 0) {
        round_must(r, ps_savepoint_release(r->txn), "ps_savepoint_release");
        map_free(&r->savepoint[--r->savepoints]);
    }
    if (ps_get_durability(r->store) == PS_NONE && !rng_one_in(&r->rng, 20))
        level = PS_NONE; /* more than that is a checkpoint each time */
    int rc = wait ? ps_commit(r->txn, level, &seq)
                  : ps_commit_start(r->txn, level, rng_one_in(&r->rng, 2), &seq);
    r->txn = NULL;
    round_must(r, rc, wait ? "ps_commit" : "ps_commit_start");
    check_commit(r, changed, expected, seq);
    if (changed) {
        r->last_seq = seq;
        map_free(&r->committed);
        r->committed = r->now;
        r->now = (struct map){0};
        history_push(r, seq, &r->committed);
    } else {
        map_free(&r->now);
    }
    if (wait && ps_published(r->store) < seq)
        round_fail(r, "committed %llu, but only %llu is published", (unsigned long long)seq,
                   (unsigned long long)ps_published(r->store));
    if (wait && changed && level == PS_ALWAYS && ps_durable(r->store) < seq)
        round_fail(r, "committed %llu at 'always', but only %llu is durable",
                   (unsigned long long)seq, (unsigned long long)ps_durable(r->store));
    r->progress->tally[!changed ? TALLY_unchanged_commits
                       : wait   ? TALLY_waiting_commits
                                : TALLY_started_commits]++;
}

void end_transaction(struct round *r, bool abort)
{
    close_walker(r);
    if (abort)
        abort_transaction(r);
    else
        commit_transaction(r);
    pthread_mutex_lock(&r->mutex);
    bool backwards = r->told_backwards;
    pthread_mutex_unlock(&r->mutex);
    if (backwards)
        round_fail(r, "on_publish told of a commit after a later one");
}

bool make_way(struct round *r, int rc, const char *call, uint64_t bytes)
{
    bool fresh = !ps_txn_changed(r->txn) && r->savepoints == 0;
    if (rc == PS_BUSY) {
        if (fresh || r->whole)
            round_fail(r, "%s answered PS_BUSY in a transaction %s", call,
                       fresh ? "without changes" : "that must be whole");
        if (r->reserved_ops > 0 && bytes <= r->reserved_bytes)
            round_fail(r,
                       "%s of %llu bytes was refused although %llu more operations with "
                       "%llu bytes were reserved",
                       call, (unsigned long long)bytes, (unsigned long long)r->reserved_ops,
                       (unsigned long long)r->reserved_bytes);
        r->progress->tally[TALLY_busy]++;
        end_transaction(r, rng_one_in(&r->rng, 8));
        begin_transaction(r);
        return true;
    }
    if (rc == PS_TXNFULL) {
        if (bytes * SMALL_PART < r->config.slots * SLOT)
            round_fail(r, "%s of %llu bytes answered PS_TXNFULL with dirty memory of %llu", call,
                       (unsigned long long)bytes, (unsigned long long)(r->config.slots * SLOT));
        r->progress->tally[TALLY_transactions_full]++;
        return false;
    }
    round_fail(r, "%s answered %d (%s)", call, rc, ps_strerror(rc));
}

void use_reservation(struct round *r, uint64_t bytes)
{
    if (r->reserved_ops == 0 || bytes > r->reserved_bytes) {
        r->reserved_ops = r->reserved_bytes = 0;
        return;
    }
    r->reserved_ops--;
    r->reserved_bytes -= bytes;
}

void change_put(struct round *r, int tree, struct ps_slice key, struct ps_slice value)
{
    uint64_t bytes = key.len + value.len;
    for (;;) {
        if (!r->now.tree[tree].exists)
            return; /* the transaction that had made it was aborted */
        int rc = ps_put(r->txn, r->now.tree[tree].id, key, value);
        if (rc == 0)
            break;
        if (!make_way(r, rc, "ps_put", bytes))
            return;
    }
    map_put(&r->now, tree, key, value);
    use_reservation(r, bytes);
    r->progress->tally[TALLY_puts]++;
    if (!ps_txn_changed(r->txn))
        round_fail(r, "after a put the transaction says that it has no changes");
}

void change_delete(struct round *r, int tree, struct ps_slice key)
{
    for (;;) {
        if (!r->now.tree[tree].exists)
            return;
        int expected = table_find(r->now.tree[tree].table, key) ? 0 : PS_NOTFOUND;
        int rc = ps_delete(r->txn, r->now.tree[tree].id, key);
        if (rc == expected)
            break;
        if (rc == 0 || rc == PS_NOTFOUND)
            round_fail(r, "deleting %s of tree %d answered %d, the model says %d", show(key), tree,
                       rc, expected);
        if (!make_way(r, rc, "ps_delete", key.len))
            return;
    }
    if (map_delete(&r->now, tree, key))
        r->progress->tally[TALLY_deletes]++;
    use_reservation(r, key.len);
}

/* A put or a delete: trees grow for three eighths of the round and shrink for one, twice. */
static void change_one(struct round *r)
{
    int tree = pick_tree(r, &r->now);
    if (tree < 0)
        return;
    struct ps_slice key = pick_key(r, &r->now, tree, r->key);
    uint64_t phase = r->progress->operations * 8 / (r->length + 1);
    size_t target = r->keys[tree].kind == KEY_HUGE ? 40 : r->config.target;
    bool grow = phase % 4 != 3 && r->now.tree[tree].table->n < target;
    if (rng_below(&r->rng, 100) < (grow ? 85 : 30))
        change_put(r, tree, key,
                   random_value(&r->rng, r->config.page_size, r->config.rare, r->value));
    else
        change_delete(r, tree, key);
}

/* One change, or a few where transactions are large; then the end of the transaction, perhaps. */
void op_change(struct round *r)
{
    uint64_t changes = r->config.commit_every >= 25 ? rng_between(&r->rng, 1, 6) : 1;
    if (!r->txn)
        begin_transaction(r);
    for (; changes > 0; changes--)
        change_one(r);
    if (rng_one_in(&r->rng, r->config.commit_every))
        end_transaction(r, rng_one_in(&r->rng, 12));
}

void op_clear(struct round *r)
{
    if (!r->txn)
        begin_transaction(r);
    int tree = pick_tree(r, &r->now);
    for (;;) {
        if (tree < 0 || !r->now.tree[tree].exists)
            return;
        int rc = ps_clear(r->txn, r->now.tree[tree].id);
        if (rc == 0)
            break;
        if (!make_way(r, rc, "ps_clear", 0))
            return;
    }
    map_clear(&r->now, tree);
    r->progress->tally[TALLY_clears]++;
}

static void make_tree(struct round *r, int tree)
{
    ps_tree id = 0;
    for (;;) {
        int rc = ps_tree_create(r->txn, tree_name(tree), &id);
        if (rc == 0)
            break;
        if (!make_way(r, rc, "ps_tree_create", tree_name(tree).len))
            return;
    }
    if (r->now.tree[tree].exists) {
        if (r->now.tree[tree].id != id)
            round_fail(r, "making tree %d again gave number %u, it has %u", tree, id,
                       r->now.tree[tree].id);
        return;
    }
    for (int i = 0; i < MAP_TREES; i++) {
        if (r->now.tree[i].exists && r->now.tree[i].id == id)
            round_fail(r, "tree %d was made with number %u, which tree %d has", tree, id, i);
    }
    map_create(&r->now, tree, id);
    r->progress->tally[TALLY_trees_made]++;
}

static void drop_tree(struct round *r, int tree)
{
    if (r->walker.cursor && r->walker.tree == tree)
        close_walker(r);
    for (;;) {
        if (!r->now.tree[tree].exists)
            return;
        int rc = ps_tree_drop(r->txn, r->now.tree[tree].id);
        if (rc == 0)
            break;
        if (!make_way(r, rc, "ps_tree_drop", 0))
            return;
    }
    map_drop(&r->now, tree);
    r->progress->tally[TALLY_trees_dropped]++;
}

void make_trees(struct round *r)
{
    for (int i = 0; i < (int)r->config.trees; i++) {
        if (!r->now.tree[i].exists)
            make_tree(r, i);
    }
}

/* Drops a tree, or makes one again that exists; mostly the missing ones are made again soon. */
void op_trees(struct round *r)
{
    if (!r->txn)
        begin_transaction(r);
    int tree = (int)rng_below(&r->rng, r->config.trees);
    if (r->now.tree[tree].exists && rng_one_in(&r->rng, 3))
        drop_tree(r, tree);
    else
        make_tree(r, tree);
    if (rng_one_in(&r->rng, 2))
        make_trees(r);
}

/* Opens one, or ends the innermost. */
void op_savepoint(struct round *r)
{
    if (!r->txn)
        begin_transaction(r);
    if (r->savepoints == 0 || (r->savepoints < 6 && rng_one_in(&r->rng, 3))) {
        round_must(r, ps_savepoint(r->txn), "ps_savepoint");
        map_copy(&r->savepoint[r->savepoints++], &r->now);
        return;
    }
    if (rng_one_in(&r->rng, 2)) {
        round_must(r, ps_savepoint_release(r->txn), "ps_savepoint_release");
        map_free(&r->savepoint[--r->savepoints]);
        return;
    }
    round_must(r, ps_savepoint_rollback(r->txn), "ps_savepoint_rollback");
    bool gone = r->walker.cursor && (!r->savepoint[r->savepoints - 1].tree[r->walker.tree].exists ||
                                     r->savepoint[r->savepoints - 1].tree[r->walker.tree].id !=
                                         r->now.tree[r->walker.tree].id);
    map_free(&r->now);
    r->now = r->savepoint[--r->savepoints];
    r->savepoint[r->savepoints] = (struct map){0};
    if (gone)
        close_walker(r);
    r->reserved_ops = r->reserved_bytes = 0;
    if (rng_one_in(&r->rng, 8)) {
        struct side side = {ps_txn_view(r->txn), &r->now, "transaction after rolling back"};
        compare_all(r, &side);
    }
}

void op_reserve(struct round *r)
{
    if (!r->txn)
        begin_transaction(r);
    uint64_t ops = rng_between(&r->rng, 1, 12), bytes = ops * rng_below(&r->rng, 300);
    if (rng_one_in(&r->rng, 20))
        bytes += rng_below(&r->rng, 200000);
    for (;;) {
        int rc = ps_reserve(r->txn, ops, bytes);
        if (rc == 0)
            break;
        r->reserved_ops = 0;
        if (!make_way(r, rc, "ps_reserve", bytes))
            return;
    }
    r->reserved_ops = ops;
    r->reserved_bytes = bytes;
}

/* Places the transaction's lasting cursor on a key. */
static void place_walker(struct round *r)
{
    struct walker *w = &r->walker;
    w->tree = pick_tree(r, &r->now);
    if (w->tree < 0 || r->now.tree[w->tree].table->n == 0)
        return;
    const struct table *table = r->now.tree[w->tree].table;
    struct ps_slice key = table->at[rng_below(&r->rng, table->n)]->key;
    round_must(r, ps_cursor_open(ps_txn_view(r->txn), r->now.tree[w->tree].id, &w->cursor),
               "ps_cursor_open");
    round_must(r, ps_cursor_seek(w->cursor, key, PS_EQ), "ps_cursor_seek");
    w->key_len = key.len;
    if (key.len)
        memcpy(w->key, key.data, key.len);
}

/* Moves the cursor that has lived through changes on from the key it stood on. */
void op_walker(struct round *r)
{
    struct walker *w = &r->walker;
    if (!r->txn)
        return;
    if (!w->cursor) {
        place_walker(r);
        return;
    }
    const struct table *table = r->now.tree[w->tree].table;
    bool forward = rng_one_in(&r->rng, 2);
    size_t at = table_below(table, (struct ps_slice){w->key, w->key_len}, forward);
    bool found = forward ? at < table->n : at > 0;
    const struct entry *entry = !found ? NULL : forward ? table->at[at] : table->at[at - 1];
    int rc = forward ? ps_cursor_next(w->cursor) : ps_cursor_prev(w->cursor);
    struct ps_slice key = {0}, value = {0};
    if (rc == 0)
        round_must(r, ps_cursor_get(w->cursor, &key, &value), "ps_cursor_get");
    if (rc != (found ? 0 : PS_NOTFOUND))
        round_fail(r, "%s from %s in a changing tree answered %d (%s), the model says %s",
                   forward ? "next" : "prev", show((struct ps_slice){w->key, w->key_len}), rc,
                   show(key), found ? show(entry->key) : "none");
    if (!found) {
        close_walker(r);
        return;
    }
    if (slice_compare(key, entry->key) || slice_compare(value, entry->value))
        round_fail(r, "%s from %s in a changing tree stands on %s = %s, the model on %s = %s",
                   forward ? "next" : "prev", show((struct ps_slice){w->key, w->key_len}),
                   show(key), show(value), show(entry->key), show(entry->value));
    w->key_len = key.len;
    if (key.len)
        memcpy(w->key, key.data, key.len);
}
