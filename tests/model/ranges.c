/*
 * ranges.c - ranges of keys taken out at once and cut into equal parts, beside the model's arrays.
 */
#include "tests/model/round.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PARTS 50

/* Two bounds, and the entries of the model between them. */
struct range {
    struct ps_slice low, high;
    bool has_low, has_high;
    size_t from, to;
};

/* Mostly some neighbours, sometimes about anything; now and then the wrong way round. */
static struct range random_range(struct round *r, const struct map *map, int tree)
{
    const struct table *table = map->tree[tree].table;
    bool wide = rng_one_in(&r->rng, 12);
    struct range range = {.has_low = !wide || rng_one_in(&r->rng, 2),
                          .has_high = !wide || rng_one_in(&r->rng, 2)};
    range.low = pick_key(r, map, tree, r->low);
    range.high = pick_key(r, map, tree, r->high);
    if (!wide && table->n > 0) {
        size_t at = table_below(table, range.low, false);
        size_t end = at + rng_below(&r->rng, 1 + table->n / 5);
        struct ps_slice key = table->at[end < table->n ? end : table->n - 1]->key;
        if (key.len)
            memcpy(r->high, key.data, key.len);
        range.high = (struct ps_slice){r->high, key.len};
    }
    if (wide && slice_compare(range.low, range.high) > 0 && !rng_one_in(&r->rng, 8)) {
        struct ps_slice swap = range.low;
        range.low = range.high;
        range.high = swap;
    }
    range.from = range.has_low ? table_below(table, range.low, false) : 0;
    range.to = range.has_high ? table_below(table, range.high, false) : table->n;
    range.to = range.to < range.from ? range.from : range.to;
    return range;
}

/* With a bound, it ends with a leaf, which the model does not know: at least as many as asked for,
 * if there are, and no more than a leaf beyond them. */
static void check_deleted(struct round *r, const struct range *range, uint64_t most,
                          uint64_t deleted)
{
    uint64_t n = range->to - range->from;
    uint64_t least = most > 0 && most < n ? most : n;
    uint64_t limit = most > 0 ? most + r->config.page_size / 10 : n;
    if (deleted < least || deleted > n || deleted > limit)
        round_fail(r, "deleting the %llu entries from %s on, about %llu, took %llu",
                   (unsigned long long)n, show(range->low), (unsigned long long)most,
                   (unsigned long long)deleted);
}

void op_delete_range(struct round *r)
{
    struct range range;
    uint64_t deleted = 0;
    if (!r->txn)
        begin_transaction(r);
    int tree = pick_tree(r, &r->now);
    uint64_t most = rng_one_in(&r->rng, 2) ? rng_between(&r->rng, 1, 200) : 0;
    if (tree < 0)
        return;
    range = random_range(r, &r->now, tree);
    for (;;) {
        if (!r->now.tree[tree].exists)
            return;
        const struct table *table = r->now.tree[tree].table; /* of a new transaction, perhaps */
        range.from = range.has_low ? table_below(table, range.low, false) : 0;
        range.to = range.has_high ? table_below(table, range.high, false) : table->n;
        range.to = range.to < range.from ? range.from : range.to;
        int rc = ps_delete_range(r->txn, r->now.tree[tree].id, range.has_low ? &range.low : NULL,
                                 range.has_high ? &range.high : NULL, most, &deleted);
        if (rc == 0)
            break;
        if (!make_way(r, rc, "ps_delete_range", range.low.len + range.high.len))
            return;
    }
    check_deleted(r, &range, most, deleted);
    map_delete_range(&r->now, tree, range.from, range.from + (size_t)deleted);
    r->progress->tally[TALLY_ranges_deleted_here]++;
    r->progress->tally[TALLY_deleted_in_ranges] += deleted;
}

void read_split(struct round *r, const struct side *side, int tree)
{
    struct ps_slice keys[MOST_PARTS];
    struct range range = random_range(r, side->map, tree);
    unsigned parts = (unsigned)rng_between(&r->rng, 1, MOST_PARTS), n, expected = 0;
    size_t last = 0, entries = range.to - range.from;
    void *memory = NULL;
    round_must(r,
               ps_split_range(side->view, side->map->tree[tree].id,
                              range.has_low ? &range.low : NULL,
                              range.has_high ? &range.high : NULL, parts, keys, &n, &memory),
               "ps_split_range");
    for (unsigned k = 1; k < parts && entries > 1; k++) {
        size_t at = (size_t)((uint64_t)entries * k / parts);
        if (at == last)
            continue;
        last = at;
        const struct entry *entry = side->map->tree[tree].table->at[range.from + at];
        if (expected >= n || slice_compare(keys[expected], entry->key) != 0)
            round_fail(r,
                       "%s, tree %d: part %u of %u of %zu entries begins with %s, the model's "
                       "with %s",
                       side->name, tree, k, parts, entries,
                       expected < n ? show(keys[expected]) : "nothing", show(entry->key));
        expected++;
    }
    if (n != expected)
        round_fail(r, "%s, tree %d: %u keys part %zu entries into %u, the model says %u",
                   side->name, tree, n, entries, parts, expected);
    free(memory);
    r->progress->tally[TALLY_splits_of_ranges]++;
}
