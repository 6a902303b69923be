/*
 * values.c - options of trees, changed in the middle of everything, and merging.
 *
 * Invariants:
 *  1. Whatever compresses, every reader finds what was put: the other operations see to that.
 *  2. A merge leaves what merged() computes, which knows the operators by their description alone;
 *     one that is refused leaves everything as it was.
 */
#include "tests/model/round.h"

#include <stdio.h>
#include <string.h>

#define LONGEST_APPENDED 200000 /* a value that long is put anew */

static const char *const operators[] = {"",       "add", "add-saturating", "min", "max",
                                        "append", "or",  "nobody's"};

void compare_options(struct round *r, const struct side *side, int tree)
{
    struct ps_tree_options found;
    const struct ps_tree_options *expected = &side->map->tree[tree].options;
    round_must(r, ps_tree_options(side->view, side->map->tree[tree].id, &found), "ps_tree_options");
    if (!options_equal(&found, expected))
        round_fail(r, "%s: tree %d has options %d %u '%s', in the model %d %u '%s'", side->name,
                   tree, found.compression, found.compress_over, found.merge, expected->compression,
                   expected->compress_over, expected->merge);
}

void op_options(struct round *r)
{
    static const uint32_t over[] = {0, 10, 100, 1000};
    struct ps_tree_options options = {
        .compression = (enum ps_compression)rng_below(&r->rng, 3),
        .compress_over = over[rng_below(&r->rng, 4)],
    };
    snprintf(options.merge, sizeof options.merge, "%s", operators[rng_below(&r->rng, 8)]);
    if (!r->txn)
        begin_transaction(r);
    int tree = pick_tree(r, &r->now);
    for (;;) {
        if (tree < 0 || !r->now.tree[tree].exists)
            return;
        int rc = ps_tree_set(r->txn, r->now.tree[tree].id, &options);
        if (rc == 0)
            break;
        if (!make_way(r, rc, "ps_tree_set", sizeof options))
            return;
    }
    r->now.tree[tree].options = options;
    use_reservation(r, sizeof options);
    r->progress->tally[TALLY_options_set]++;
    struct side side = {ps_txn_view(r->txn), &r->now, "transaction"};
    compare_options(r, &side, tree);
}

/* ---- merging ----------------------------------------------------------------------------------
 */

static int merged_numbers(const char *name, const struct entry *old, struct ps_slice operand,
                          struct ps_slice *result, unsigned char *room)
{
    __int128 a = 0, b, out;
    int64_t number;
    if (operand.len != 8)
        return PS_INVALID;
    memcpy(&number, operand.data, 8);
    b = number;
    if (old && old->value.len != 8)
        return PS_MISMATCH;
    if (old) {
        memcpy(&number, old->value.data, 8);
        a = number;
    }
    if (!old)
        out = b;
    else if (strncmp(name, "add", 3) == 0)
        out = a + b;
    else if (strcmp(name, "min") == 0)
        out = a < b ? a : b;
    else
        out = a > b ? a : b;
    if (strcmp(name, "add") == 0 && (out > INT64_MAX || out < INT64_MIN))
        return PS_OVERFLOW;
    number = (int64_t)(out > INT64_MAX ? INT64_MAX : out < INT64_MIN ? INT64_MIN : out);
    memcpy(room, &number, 8);
    *result = (struct ps_slice){room, 8};
    return 0;
}

/* What merging must answer, and leave. */
static int merged(const char *name, const struct entry *old, struct ps_slice operand,
                  struct ps_slice *result, unsigned char *room)
{
    size_t n = old ? old->value.len : 0;
    if (!*name || strcmp(name, "nobody's") == 0)
        return PS_NOOPERATOR;
    if (strcmp(name, "append") != 0 && strcmp(name, "or") != 0)
        return merged_numbers(name, old, operand, result, room);
    if (n > 0)
        memcpy(room, old->value.data, n);
    if (strcmp(name, "append") == 0) {
        if (operand.len > 0)
            memcpy(room + n, operand.data, operand.len);
        *result = (struct ps_slice){room, n + operand.len};
        return 0;
    }
    for (size_t i = 0; i < operand.len; i++) {
        unsigned char bits = ((const unsigned char *)operand.data)[i];
        room[i] = i < n ? room[i] | bits : bits;
    }
    *result = (struct ps_slice){room, n > operand.len ? n : operand.len};
    return 0;
}

/* One merge; false: the burst is over. */
static bool merge_one(struct round *r, int tree, struct ps_slice key, struct ps_slice operand)
{
    struct ps_slice result = {0};
    for (;;) {
        if (!r->now.tree[tree].exists)
            return false;
        const char *name = r->now.tree[tree].options.merge;
        const struct entry *old = table_find(r->now.tree[tree].table, key);
        if (old && old->value.len > LONGEST_APPENDED)
            return false;
        bool changed = ps_txn_changed(r->txn);
        int expected = merged(name, old, operand, &result, r->merged);
        int rc = ps_merge(r->txn, r->now.tree[tree].id, key, operand);
        /* It counts as two puts of the result. */
        uint64_t bytes = 2 * (key.len + result.len) + (r->reserved_ops < 2 ? r->reserved_bytes : 0);
        if (rc == expected && rc != 0) {
            if (ps_txn_changed(r->txn) != changed)
                round_fail(r, "a merge that was refused changed something");
            r->progress->tally[TALLY_merges_refused]++;
            return true;
        }
        if (rc == expected)
            break;
        if (rc != PS_BUSY && rc != PS_TXNFULL)
            round_fail(r, "merging '%s' %s of tree %d answered %d, the model says %d", name,
                       show(key), tree, rc, expected);
        if (!make_way(r, rc, "ps_merge", bytes))
            return false;
    }
    map_put(&r->now, tree, key, result);
    use_reservation(r, key.len + result.len);
    use_reservation(r, key.len + result.len);
    r->progress->tally[TALLY_merges_done]++;
    return true;
}

static struct ps_slice random_operand(struct round *r)
{
    static const int64_t numbers[] = {1, -1, 100, INT64_MAX, INT64_MIN, 1000000};
    if (rng_one_in(&r->rng, 8))
        return random_value(&r->rng, r->config.page_size, r->config.rare, r->value);
    memcpy(r->value, &numbers[rng_below(&r->rng, rng_one_in(&r->rng, 4) ? 6 : 3)], 8);
    return (struct ps_slice){r->value, 8};
}

/* A burst of merges: of few keys, so that they meet again in the same transaction. */
void op_merge(struct round *r)
{
    if (!r->txn)
        begin_transaction(r);
    int tree = pick_tree(r, &r->now);
    bool more = tree >= 0;
    uint64_t hot = rng_below(&r->rng, 20);
    for (uint64_t n = rng_between(&r->rng, 1, 6); n > 0 && more; n--) {
        struct ps_slice key = {r->key, 0};
        if (rng_one_in(&r->rng, 8) && r->now.tree[tree].exists)
            key = pick_key(r, &r->now, tree, r->key);
        else
            key.len = (size_t)snprintf((char *)r->key, sizeof r->key, "count %llu",
                                       (unsigned long long)(hot + rng_below(&r->rng, 3)));
        more = merge_one(r, tree, key, random_operand(r));
    }
    if (r->txn && rng_one_in(&r->rng, r->config.commit_every))
        end_transaction(r, rng_one_in(&r->rng, 12));
}
