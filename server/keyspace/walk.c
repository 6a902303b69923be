/*
 * walk.c - many keys at once: KEYS, SCAN, DBSIZE, RANDOMKEY. Promises: keyspace.h, scan.h.
 *
 * Keys are walked in byte order on one view. A pattern that begins with literal bytes bounds the
 * walk to the keys that begin with them. A step of SCAN remembers the key it would look at next: if
 * that key is gone by then, the walk goes on at the one behind it, so whatever was there all the
 * time is met exactly once.
 *
 * Threads: any, each with its own view. Crash: nothing is changed here.
 */
#include "server/keyspace/glob.h"
#include "server/keyspace/internal.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX_MAX   256u /* bytes of a literal beginning that are made use of */
#define RANDOM_TRIES 64u  /* draws that may meet expired keys before all are walked */

/* Keys with a common beginning: low <= key < high. */
struct range {
    char low_bytes[PREFIX_MAX], high_bytes[PREFIX_MAX];
    struct ps_slice low, high;
    bool has_high;
};

static void range_of(struct ps_slice pattern, struct range *range)
{
    size_t n = pattern.data ? glob_prefix(pattern, range->low_bytes, PREFIX_MAX) : 0;

    range->low = (struct ps_slice){range->low_bytes, n};
    memcpy(range->high_bytes, range->low_bytes, n);
    while (n > 0 && (uint8_t)range->high_bytes[n - 1] == 0xff)
        n--;
    range->has_high = n > 0;
    if (n > 0)
        range->high_bytes[n - 1] = (char)((uint8_t)range->high_bytes[n - 1] + 1);
    range->high = (struct ps_slice){range->high_bytes, n};
}

static int open_range(const struct keyspace *ks, struct ps_view *view,
                      const struct keyspace_walk *walk, struct range *range,
                      struct ps_cursor **cursor)
{
    int rc = ps_cursor_open(view, ks->db[walk->db].keys, cursor);

    if (rc < 0)
        return rc;
    range_of(walk->pattern, range);
    rc = ps_cursor_bounds(*cursor, &range->low, range->has_high ? &range->high : NULL);
    if (rc < 0)
        ps_cursor_close(*cursor);
    return rc;
}

/* The entry a cursor stands on. */
static int entry_at(struct ps_cursor *cursor, int64_t now_ms, struct ps_slice *key,
                    struct key_entry *entry)
{
    struct ps_slice value;
    int rc = ps_cursor_get(cursor, key, &value);

    if (rc == 0)
        rc = record_decode(value, &entry->record);
    if (rc == 0)
        entry->state = record_expired(&entry->record, now_ms) ? KEY_EXPIRED : KEY_LIVE;
    return rc;
}

/* Visits from where the cursor stands. Ends with 0 and the cursor on the next key to look at, or
 * with PS_NOTFOUND behind the last. */
static int visit_from(struct ps_cursor *cursor, const struct keyspace_walk *walk)
{
    bool all = walk->pattern.data == NULL || glob_is_all(walk->pattern);
    uint64_t seen = 0;
    bool go_on = true;
    int rc = 0;

    while (rc == 0 && go_on && (walk->limit == 0 || seen < walk->limit)) {
        struct key_entry entry;
        struct ps_slice key;
        rc = entry_at(cursor, walk->now_ms, &key, &entry);
        if (rc != 0)
            break;
        if (all || glob_match(walk->pattern, key, false))
            go_on = walk->visit(walk->arg, key, &entry);
        seen++;
        rc = keyspace_pause(walk->pause);
        if (rc == 0)
            rc = ps_cursor_next(cursor);
    }
    return rc;
}

int keyspace_walk_all(const struct keyspace *ks, struct ps_view *view,
                      const struct keyspace_walk *walk)
{
    struct ps_cursor *cursor;
    struct range range;
    int rc = open_range(ks, view, walk, &range, &cursor);

    if (rc < 0)
        return rc;
    rc = ps_cursor_first(cursor);
    if (rc == 0)
        rc = visit_from(cursor, walk);
    ps_cursor_close(cursor);
    return rc == PS_NOTFOUND ? 0 : rc;
}

static int compare(struct ps_slice a, struct ps_slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n > 0 ? memcmp(a.data, b.data, n) : 0;

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* Stands on `key`, or on what is there behind it, within the range. */
static int seek_key(struct ps_cursor *cursor, struct ps_slice key, const struct range *range)
{
    return ps_cursor_seek(cursor, compare(key, range->low) < 0 ? range->low : key, PS_GE);
}

/* Where a scan goes on whose position is not remembered: at its rank, within the range. */
static int seek_rank(const struct keyspace *ks, struct ps_view *view, unsigned db, uint64_t rank,
                     struct ps_cursor *cursor, const struct range *range)
{
    struct ps_cursor *ranked;
    struct ps_slice key;
    int rc = ps_cursor_open(view, ks->db[db].keys, &ranked);

    if (rc < 0)
        return rc;
    rc = ps_cursor_select(ranked, rank);
    if (rc == 0)
        rc = ps_cursor_get(ranked, &key, NULL);
    if (rc == 0)
        rc = seek_key(cursor, key, range);
    ps_cursor_close(ranked);
    return rc;
}

static int seek_position(struct keyspace *ks, struct ps_view *view, unsigned db,
                         struct ps_cursor *cursor, const struct range *range, uint64_t position)
{
    char *bytes;
    size_t len;

    if (position == 0)
        return ps_cursor_first(cursor);
    int rc = scan_load(ks->scans, db, position, &bytes, &len);
    if (rc == PS_NOTFOUND)
        return seek_rank(ks, view, db, scan_rank(position), cursor, range);
    if (rc < 0)
        return rc;
    rc = seek_key(cursor, (struct ps_slice){bytes, len}, range);
    free(bytes);
    return rc;
}

int keyspace_walk_step(struct keyspace *ks, struct ps_view *view, const struct keyspace_walk *walk,
                       uint64_t *cursor)
{
    struct ps_cursor *at;
    struct ps_slice next;
    struct range range;
    uint64_t rank = 0;
    int rc = open_range(ks, view, walk, &range, &at);

    if (rc < 0)
        return rc;
    rc = seek_position(ks, view, walk->db, at, &range, *cursor);
    if (rc == 0)
        rc = visit_from(at, walk);
    if (rc == 0)
        rc = ps_cursor_get(at, &next, NULL);
    if (rc == 0)
        rc = ps_rank(view, ks->db[walk->db].keys, next, &rank);
    if (rc == 0)
        *cursor = scan_save(ks->scans, walk->db, rank, next, *cursor);
    ps_cursor_close(at);
    if (rc != PS_NOTFOUND)
        return rc;
    *cursor = 0;
    return 0;
}

int keyspace_records(const struct keyspace *ks, struct ps_view *view, unsigned db, uint64_t *count)
{
    return ps_count(view, ks->db[db].keys, count);
}

int keyspace_count(const struct keyspace *ks, struct ps_view *view, unsigned db, int64_t now_ms,
                   const struct keyspace_pause *pause, uint64_t *count)
{
    uint64_t due, expired = 0;
    int rc = ps_count(view, ks->db[db].keys, count);

    if (rc == 0)
        rc = expiry_due(ks, view, db, now_ms, &due);
    if (rc == 0 && due > 0)
        rc = expiry_count_expired(ks, view, db, now_ms, pause, &expired);
    if (rc < 0)
        return rc;
    *count -= expired;
    return 0;
}

/* From key number `rank` on, and around, the first live key. */
static int first_live(struct ps_cursor *cursor, uint64_t rank, uint64_t count, int64_t now_ms,
                      const struct keyspace_pause *pause, keyspace_visit visit, void *arg)
{
    int rc = ps_cursor_select(cursor, rank);

    for (uint64_t i = 0; rc == 0 && i < count; i++) {
        struct key_entry entry;
        struct ps_slice key;
        rc = entry_at(cursor, now_ms, &key, &entry);
        if (rc != 0)
            return rc;
        if (entry.state == KEY_LIVE) {
            visit(arg, key, &entry);
            return 0;
        }
        rc = keyspace_pause(pause);
        if (rc == 0)
            rc = ps_cursor_next(cursor);
        if (rc == PS_NOTFOUND)
            rc = ps_cursor_first(cursor);
    }
    return rc < 0 ? rc : PS_NOTFOUND;
}

/* Uniform in [0, bound), but for a bias below bound / 2^64. */
static uint64_t draw(uint64_t bound)
{
    uint64_t r;

    arc4random_buf(&r, sizeof(r));
    return (uint64_t)(((unsigned __int128)r * bound) >> 64);
}

int keyspace_random(const struct keyspace *ks, struct ps_view *view, unsigned db, int64_t now_ms,
                    const struct keyspace_pause *pause, keyspace_visit visit, void *arg)
{
    struct ps_cursor *cursor;
    uint64_t count;
    int rc = ps_count(view, ks->db[db].keys, &count);

    if (rc < 0)
        return rc;
    if (count == 0)
        return PS_NOTFOUND;
    rc = ps_cursor_open(view, ks->db[db].keys, &cursor);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < RANDOM_TRIES; i++) {
        rc = first_live(cursor, draw(count), 1, now_ms, pause, visit, arg);
        if (rc != PS_NOTFOUND)
            break;
    }
    if (rc == PS_NOTFOUND)
        rc = first_live(cursor, draw(count), count, now_ms, pause, visit, arg);
    ps_cursor_close(cursor);
    return rc;
}

int keyspace_stat_db(struct keyspace *ks, struct ps_view *view, unsigned db, int64_t now_ms,
                     struct keyspace_stat *stat)
{
    uint64_t due;
    int rc = keyspace_count(ks, view, db, now_ms, NULL, &stat->keys);

    stat->avg_ttl_ms = 0;
    if (rc == 0)
        rc = ps_count(view, ks->db[db].expires, &stat->expires);
    if (rc == 0)
        rc = expiry_count_expired(ks, view, db, now_ms, NULL, &due);
    if (rc == 0)
        stat->expires -= due;
    return rc;
}
