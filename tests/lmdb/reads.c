/*
 * reads.c - looking keys up, in every way there is, and counting.
 */
#include "tests/lmdb/run.h"

#include <stdio.h>

#define MANY 24

/* The two answers to a get. */
static void check_get(struct run *r, const struct side *side, unsigned tree, struct ps_slice key,
                      int rc, struct ps_slice value)
{
    struct ps_slice expected;
    bool found = oracle_get(side->lmdb, tree, key, &expected);
    if (same_answer(r, side, "get: found", rc, found))
        same_bytes(r, side, "get: value", value, expected);
}

void do_get(struct run *r)
{
    struct side side = take_side(r);
    struct ps_slice key = op_key(r->config, r->op, r->key), value = {0};
    ps_tree number;
    if (find_tree(r, &side, r->op->tree, &number)) {
        int rc = engine_get(&r->engine, side.pando, number, key, &value);
        check_get(r, &side, r->op->tree, key, rc, value);
    }
    leave_side(r);
}

void do_touch(struct run *r)
{
    struct side side = take_side(r);
    struct ps_slice key = op_key(r->config, r->op, r->key), value = {0};
    ps_tree number;
    if (find_tree(r, &side, r->op->tree, &number)) {
        int rc = ps_touch(side.pando, number, key, r->op->arg % 2 * 500u, &value);
        check_get(r, &side, r->op->tree, key, rc, value);
    }
    leave_side(r);
}

void do_get_part(struct run *r)
{
    struct side side = take_side(r);
    struct ps_slice key = op_key(r->config, r->op, r->key), part = {0}, all = {0};
    uint64_t whole = 0;
    ps_tree number;
    if (find_tree(r, &side, r->op->tree, &number)) {
        bool found = oracle_get(side.lmdb, r->op->tree, key, &all);
        uint64_t offset = r->op->arg % 4 == 0 ? 0 : r->op->other % (all.len + 3);
        size_t len = r->op->arg % 3 == 0 ? r->op->value % 64u : r->op->value;
        int rc = engine_get_part(&r->engine, side.pando, number, key, offset, len, &part, &whole);
        if (same_answer(r, &side, "get part: found", rc, found)) {
            if (offset > all.len)
                offset = all.len;
            if (len > all.len - offset)
                len = all.len - offset;
            if (whole != all.len)
                differ(r, "get part: whole", "%s: the whole has %llu bytes, in LMDB %zu", side.name,
                       (unsigned long long)whole, all.len);
            same_bytes(r, &side, "get part: bytes", part,
                       (struct ps_slice){(const char *)all.data + offset, len});
        }
    }
    leave_side(r);
}

/* Many at once, over all trees that exist. */
void do_get_many(struct run *r)
{
    struct side side = take_side(r);
    struct ps_lookup lookups[MANY];
    unsigned trees[MANY], n = 0;
    static unsigned char keys[MANY][ORACLE_MAX_KEY];
    for (unsigned i = 0; i < r->op->arg % (MANY + 1u); i++) {
        ps_tree number;
        unsigned tree = (r->op->tree + i % 3) % r->config->trees;
        uint16_t spec = (uint16_t)(r->op->key + i * r->op->other);
        if (!find_tree(r, &side, tree, &number))
            continue;
        trees[n] = tree;
        struct ps_slice key = stream_key(r->config, tree, spec, r->op->twist + i, keys[n]);
        lookups[n++] = (struct ps_lookup){.tree = number, .key = key, .rc = 1};
    }
    ps_get_many(side.pando, lookups, n);
    for (unsigned i = 0; i < n; i++)
        check_get(r, &side, trees[i], lookups[i].key, lookups[i].rc, lookups[i].value);
    leave_side(r);
}

void do_count(struct run *r)
{
    struct side side = take_side(r);
    struct ps_slice low = op_key(r->config, r->op, r->key);
    struct ps_slice high = op_other(r->config, r->op, r->other);
    ps_tree number;
    uint64_t all = 0, rank = 0, range = 0;
    if (find_tree(r, &side, r->op->tree, &number)) {
        uint64_t from = oracle_rank(side.lmdb, r->op->tree, low);
        uint64_t to = oracle_rank(side.lmdb, r->op->tree, high);
        uint64_t expected = oracle_count(side.lmdb, r->op->tree);
        must(r, engine_count(&r->engine, side.pando, number, &all), "ps_count");
        must(r, engine_rank(&r->engine, side.pando, number, low, &rank), "ps_rank");
        must(r, ps_count_range(side.pando, number, &low, &high, &range), "ps_count_range");
        if (all != expected)
            differ(r, "count", "%s: %llu entries, in LMDB %llu", side.name, (unsigned long long)all,
                   (unsigned long long)expected);
        if (rank != from)
            differ(r, "rank", "%s: %llu keys before %s, in LMDB %llu", side.name,
                   (unsigned long long)rank, show(low), (unsigned long long)from);
        if (range != (to > from ? to - from : 0))
            differ(r, "count of a range", "%s: %llu keys from %s to %s, in LMDB %llu to %llu",
                   side.name, (unsigned long long)range, show(low), show(high),
                   (unsigned long long)from, (unsigned long long)to);
    }
    leave_side(r);
}
