/*
 * reads.c - every read function of the engine, beside a search in the model's arrays.
 */
#include "tests/model/round.h"

#include <string.h>

#define MANY 40

/* A cursor over the model: `at` counts entries from 1 (0 is none), as positions below a bound. */
struct span {
    const struct table *table;
    size_t low, high; /* entries [low, high) are within the bounds */
};

static bool same(struct ps_slice a, struct ps_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static void check_get(struct round *r, const struct side *side, int tree, struct ps_slice key,
                      int rc, struct ps_slice value)
{
    struct entry *entry = table_find(side->map->tree[tree].table, key);
    int expected = entry ? 0 : PS_NOTFOUND;
    if (rc != expected)
        round_fail(r, "%s, tree %d, key %s: get answered %d (%s), the model says %d", side->name,
                   tree, show(key), rc, ps_strerror(rc), expected);
    if (entry && !same(value, entry->value))
        round_fail(r, "%s, tree %d, key %s: the value is %s, the model's %s", side->name, tree,
                   show(key), show(value), show(entry->value));
}

static void read_get(struct round *r, const struct side *side, int tree)
{
    struct ps_slice key = pick_key(r, side->map, tree, r->key), value = {0};
    int rc = ps_get(side->view, side->map->tree[tree].id, key, &value);
    check_get(r, side, tree, key, rc, value);
    r->progress->tally[TALLY_gets]++;
}

/* As a server does when the file is larger than memory: what would wait is read by touching it. */
static void read_probe(struct round *r, const struct side *side, int tree)
{
    struct ps_slice key = pick_key(r, side->map, tree, r->key), value = {0};
    ps_tree id = side->map->tree[tree].id;
    size_t write = rng_one_in(&r->rng, 2) ? rng_between(&r->rng, 1, 3000) : 0;
    ps_residency_renew(r->residency, (int64_t)r->progress->operations);
    int rc = ps_probe(side->view, id, key, write, r->residency, &value);
    r->progress->tally[TALLY_probes]++;
    if (rc == PS_WOULDWAIT) {
        rc = ps_touch(side->view, id, key, write, &value);
        r->progress->tally[TALLY_touches]++;
    }
    check_get(r, side, tree, key, rc, value);
}

/* Many at once, over several trees, one of which may not exist; perhaps of those in memory. */
static void read_get_many(struct round *r, const struct side *side, int tree)
{
    bool probing = rng_one_in(&r->rng, 2);
    struct ps_lookup lookups[MANY];
    int trees[MANY];
    size_t n = rng_between(&r->rng, 0, MANY), room = 0;
    for (size_t i = 0; i < n; i++) {
        trees[i] = rng_one_in(&r->rng, 3) ? pick_tree(r, side->map) : tree;
        struct ps_slice key = pick_key(r, side->map, trees[i], r->low);
        if (room + key.len > sizeof r->key) {
            n = i;
            break;
        }
        if (key.len)
            memcpy(r->key + room, key.data, key.len);
        lookups[i] = (struct ps_lookup){
            .tree = side->map->tree[trees[i]].id, .key = {r->key + room, key.len}, .rc = 1};
        room += key.len;
    }
    if (probing)
        ps_get_many_resident(side->view, lookups, n, r->residency);
    else
        ps_get_many(side->view, lookups, n);
    for (size_t i = 0; i < n; i++) {
        if (probing && lookups[i].rc == PS_WOULDWAIT)
            continue;
        check_get(r, side, trees[i], lookups[i].key, lookups[i].rc, lookups[i].value);
    }
    r->progress->tally[TALLY_get_manys]++;
}

/* The cursor's answer, against the model's entry number `at` (or none). */
static void check_cursor(struct round *r, const struct side *side, struct ps_cursor *cursor,
                         const char *move, int rc, const struct span *span, bool found, size_t at)
{
    int expected = found ? 0 : PS_NOTFOUND;
    if (rc != expected)
        round_fail(r, "%s: %s answered %d (%s), the model says %d (%s)", side->name, move, rc,
                   ps_strerror(rc), expected, found ? show(span->table->at[at]->key) : "none");
    if (!found)
        return;
    struct ps_slice key = {0}, value = {0};
    round_must(r, ps_cursor_get(cursor, &key, &value), "ps_cursor_get");
    const struct entry *entry = span->table->at[at];
    if (!same(key, entry->key) || !same(value, entry->value))
        round_fail(r, "%s: after %s the cursor stands on %s = %s, the model on %s = %s", side->name,
                   move, show(key), show(value), show(entry->key), show(entry->value));
}

static struct ps_cursor *open_cursor(struct round *r, const struct side *side, int tree)
{
    struct ps_cursor *cursor = NULL;
    round_must(r, ps_cursor_open(side->view, side->map->tree[tree].id, &cursor), "ps_cursor_open");
    return cursor;
}

/* Sets random bounds; the span of the model's entries within them. */
static struct span random_bounds(struct round *r, const struct side *side, int tree,
                                 struct ps_cursor *cursor)
{
    struct span span = {side->map->tree[tree].table, 0, side->map->tree[tree].table->n};
    bool has_low = rng_one_in(&r->rng, 2), has_high = rng_one_in(&r->rng, 2);
    struct ps_slice low = pick_key(r, side->map, tree, r->low);
    struct ps_slice high = pick_key(r, side->map, tree, r->high);
    if (has_low && has_high && slice_compare(low, high) > 0 && !rng_one_in(&r->rng, 8)) {
        struct ps_slice swap = low;
        low = high;
        high = swap;
    }
    if (has_low)
        span.low = table_below(span.table, low, false);
    if (has_high)
        span.high = table_below(span.table, high, false);
    if (span.high < span.low)
        span.high = span.low;
    int rc = ps_cursor_bounds(cursor, has_low ? &low : NULL, has_high ? &high : NULL);
    round_must(r, rc, "ps_cursor_bounds");
    return span;
}

/* One seek in the model: whether it finds, and what. */
static bool span_seek(const struct span *span, struct ps_slice key, enum ps_seek how, size_t *at)
{
    size_t below = table_below(span->table, key, false);
    size_t upto = table_below(span->table, key, true);
    switch (how) {
    case PS_GE:
    case PS_GT:
        *at = how == PS_GE ? below : upto;
        if (*at < span->low)
            *at = span->low;
        return *at < span->high;
    case PS_LE:
    case PS_LT: {
        size_t end = how == PS_LE ? upto : below;
        if (end > span->high)
            end = span->high;
        *at = end - 1;
        return end > span->low;
    }
    default:
        *at = below;
        return upto > below && below >= span->low && below < span->high;
    }
}

/* Steps onward from entry `at`, possibly turning round, possibly off an end. */
static void walk_on(struct round *r, const struct side *side, struct ps_cursor *cursor,
                    const struct span *span, size_t at)
{
    uint64_t steps = rng_one_in(&r->rng, 40) ? span->table->n + 2 : rng_below(&r->rng, 20);
    bool forward = rng_one_in(&r->rng, 2);
    for (; steps > 0; steps--) {
        if (rng_one_in(&r->rng, 10))
            forward = !forward;
        bool found = forward ? at + 1 < span->high : at > span->low;
        at = forward ? at + 1 : at - 1;
        int rc = forward ? ps_cursor_next(cursor) : ps_cursor_prev(cursor);
        check_cursor(r, side, cursor, forward ? "next" : "prev", rc, span, found, at);
        r->progress->tally[TALLY_steps]++;
        if (found)
            continue;
        rc = forward ? ps_cursor_next(cursor) : ps_cursor_prev(cursor);
        check_cursor(r, side, cursor, "another step off the end", rc, span, false, 0);
        return;
    }
}

/* Places a cursor in one of all possible ways, then walks on from there. */
static void read_cursor(struct round *r, const struct side *side, int tree)
{
    static const char *const how_names[] = {"seek GE", "seek GT", "seek LE", "seek LT", "seek EQ"};
    struct ps_cursor *cursor = open_cursor(r, side, tree);
    struct span span = {side->map->tree[tree].table, 0, side->map->tree[tree].table->n};
    if (rng_one_in(&r->rng, 2))
        span = random_bounds(r, side, tree, cursor);
    for (uint64_t moves = rng_between(&r->rng, 1, 4); moves > 0; moves--) {
        size_t at = 0;
        bool found = span.high > span.low;
        if (rng_one_in(&r->rng, 6)) {
            at = span.low;
            check_cursor(r, side, cursor, "first", ps_cursor_first(cursor), &span, found, at);
        } else if (rng_one_in(&r->rng, 6)) {
            at = span.high - 1;
            check_cursor(r, side, cursor, "last", ps_cursor_last(cursor), &span, found, at);
        } else if (rng_one_in(&r->rng, 4)) {
            at = rng_below(&r->rng, span.table->n + 2);
            found = at >= span.low && at < span.high;
            check_cursor(r, side, cursor, "select", ps_cursor_select(cursor, at), &span, found, at);
            r->progress->tally[TALLY_selects]++;
        } else {
            enum ps_seek how = (enum ps_seek)rng_below(&r->rng, 5);
            struct ps_slice key = pick_key(r, side->map, tree, r->key);
            found = span_seek(&span, key, how, &at);
            check_cursor(r, side, cursor, how_names[how], ps_cursor_seek(cursor, key, how), &span,
                         found, at);
            r->progress->tally[TALLY_seeks]++;
        }
        if (found)
            walk_on(r, side, cursor, &span, at);
    }
    ps_cursor_close(cursor);
}

static void check_number(struct round *r, const struct side *side, const char *call, int rc,
                         uint64_t got, uint64_t expected, struct ps_slice key)
{
    if (rc || got != expected)
        round_fail(r, "%s: %s (%s) answered %d, %llu; the model says %llu", side->name, call,
                   show(key), rc, (unsigned long long)got, (unsigned long long)expected);
}

static void read_rank(struct round *r, const struct side *side, int tree)
{
    uint64_t rank = 0;
    struct ps_slice key = pick_key(r, side->map, tree, r->key);
    int rc = ps_rank(side->view, side->map->tree[tree].id, key, &rank);
    check_number(r, side, "ps_rank", rc, rank, table_below(side->map->tree[tree].table, key, false),
                 key);
    r->progress->tally[TALLY_ranks]++;
}

static void read_count(struct round *r, const struct side *side, int tree)
{
    const struct table *table = side->map->tree[tree].table;
    ps_tree id = side->map->tree[tree].id;
    uint64_t count = 0;
    int rc = ps_count(side->view, id, &count);
    check_number(r, side, "ps_count", rc, count, table->n, (struct ps_slice){0});

    bool has_low = !rng_one_in(&r->rng, 4), has_high = !rng_one_in(&r->rng, 4);
    struct ps_slice low = pick_key(r, side->map, tree, r->low);
    struct ps_slice high = pick_key(r, side->map, tree, r->high);
    size_t from = has_low ? table_below(table, low, false) : 0;
    size_t to = has_high ? table_below(table, high, false) : table->n;
    rc = ps_count_range(side->view, id, has_low ? &low : NULL, has_high ? &high : NULL, &count);
    check_number(r, side, "ps_count_range", rc, count, to > from ? to - from : 0, low);
    r->progress->tally[TALLY_counts]++;
}

/* Every name gives the tree's number, or none. */
static void read_names(struct round *r, const struct side *side)
{
    for (int i = 0; i < MAP_TREES; i++) {
        ps_tree id = 0;
        int rc = ps_tree_find(side->view, tree_name(i), &id);
        bool exists = side->map->tree[i].exists;
        if (rc != (exists ? 0 : PS_NOTFOUND) || (exists && id != side->map->tree[i].id))
            round_fail(r, "%s: finding tree %d answered %d, number %u; the model says %s %u",
                       side->name, i, rc, id, exists ? "number" : "none",
                       exists ? side->map->tree[i].id : 0);
    }
}

void read_something(struct round *r, const struct side *side)
{
    int tree = pick_tree(r, side->map);
    uint64_t choice = rng_below(&r->rng, 100);
    if (tree < 0 || choice < 2)
        read_names(r, side);
    else if (choice < 36)
        read_get(r, side, tree);
    else if (choice < 42)
        read_probe(r, side, tree);
    else if (choice < 50)
        read_get_many(r, side, tree);
    else if (choice < 80)
        read_cursor(r, side, tree);
    else if (choice < 90)
        read_rank(r, side, tree);
    else if (choice < 97)
        read_count(r, side, tree);
    else
        read_split(r, side, tree);
}

/* ---- a walk that lasts as long as its snapshot ----------------------------------------------- */

void scan_begin(struct round *r, struct held *held)
{
    struct side side = {ps_snapshot_view(held->snap), &held->map, "held snapshot's scan"};
    held->tree = pick_tree(r, &held->map);
    if (held->tree < 0 || held->map.tree[held->tree].table->n == 0)
        return;
    held->scan = open_cursor(r, &side, held->tree);
    held->at = rng_below(&r->rng, held->map.tree[held->tree].table->n);
    round_must(r, ps_cursor_select(held->scan, held->at), "ps_cursor_select");
}

void scan_check(struct round *r, struct held *held)
{
    struct side side = {ps_snapshot_view(held->snap), &held->map, "held snapshot's scan"};
    if (!held->scan)
        return;
    struct span span = {held->map.tree[held->tree].table, 0, held->map.tree[held->tree].table->n};
    check_cursor(r, &side, held->scan, "where it stands", 0, &span, true, held->at);
}

/* A few steps one way; at the end of the tree it begins again at the other. */
void scan_on(struct round *r, struct held *held)
{
    struct side side = {ps_snapshot_view(held->snap), &held->map, "held snapshot's scan"};
    if (!held->scan)
        return;
    struct span span = {held->map.tree[held->tree].table, 0, held->map.tree[held->tree].table->n};
    bool forward = rng_one_in(&r->rng, 2);
    for (uint64_t steps = rng_between(&r->rng, 1, 12); steps > 0; steps--) {
        bool found = forward ? held->at + 1 < span.high : held->at > 0;
        int rc = forward ? ps_cursor_next(held->scan) : ps_cursor_prev(held->scan);
        size_t at = forward ? held->at + 1 : held->at - 1;
        check_cursor(r, &side, held->scan, forward ? "next" : "prev", rc, &span, found, at);
        if (!found) {
            at = forward ? 0 : span.high - 1;
            rc = forward ? ps_cursor_first(held->scan) : ps_cursor_last(held->scan);
            check_cursor(r, &side, held->scan, "beginning again", rc, &span, true, at);
        }
        held->at = at;
        r->progress->tally[TALLY_steps]++;
    }
}

static void compare_tree(struct round *r, const struct side *side, int tree)
{
    struct span span = {side->map->tree[tree].table, 0, side->map->tree[tree].table->n};
    struct ps_cursor *cursor = open_cursor(r, side, tree);
    int rc = ps_cursor_first(cursor);
    for (size_t i = 0; i <= span.high; i++, rc = ps_cursor_next(cursor))
        check_cursor(r, side, cursor, "walking forward", rc, &span, i < span.high, i);
    rc = ps_cursor_last(cursor);
    for (size_t i = span.high; i-- > 0; rc = ps_cursor_prev(cursor))
        check_cursor(r, side, cursor, "walking backward", rc, &span, true, i);
    check_cursor(r, side, cursor, "walking off the beginning", rc, &span, false, 0);
    ps_cursor_close(cursor);
    read_count(r, side, tree);
    for (int i = 0; i < 8; i++) {
        read_rank(r, side, tree);
        read_get(r, side, tree);
    }
}

void compare_all(struct round *r, const struct side *side)
{
    read_names(r, side);
    for (int i = 0; i < MAP_TREES; i++) {
        if (!side->map->tree[i].exists)
            continue;
        compare_options(r, side, i);
        compare_tree(r, side, i);
    }
    r->progress->tally[TALLY_full_comparisons]++;
}
