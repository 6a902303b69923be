/*
 * expiry.c - the expiry index: which keys may have expired by now?
 *
 * `expires:N` has rows (time, key), the time as 8 bytes big endian so that they stand in order of
 * time; values are empty. The rule:
 *
 *  1. A key has one row exactly if its record has an expiry, and the record says at which time
 *     (index_ms). Deleting a key, or its expiry, deletes the row: rows never outlive their key.
 *  2. index_ms <= expire_ms. So nothing expires before its row is due, and whoever looks at the due
 *     rows has seen every expired key.
 *  3. A new expiry keeps the row if that is still in the future and not behind the new expiry: a
 *     refreshed TTL (expire_ms moves on) changes the record, which is written anyway, and no row.
 * Any other change of the expiry files the row anew, at the expiry itself.
 *  4. When a row is due and its key has not expired (it was refreshed), it is re-filed at
 * expire_ms, and the record rewritten with the same version: once in each time-to-live, not once in
 * each refresh.
 *
 * Expiry on read does not depend on any of this: a record whose time has come is invisible.
 *
 * Threads: reading functions any, others the owner of the transaction. Crash: rows and records
 * change in one transaction, so the rule holds in every state.
 */
#include "server/keyspace/big_endian.h"
#include "server/keyspace/internal.h"

#include <assert.h>
#include <string.h>

_Static_assert(KEYSPACE_MAX_KEY + KEYSPACE_INDEX_TIME <= PS_MAX_KEY, "a row holds the whole key");

int64_t expiry_index_time(int64_t old_index_ms, int64_t expire_ms, int64_t now_ms)
{
    if (old_index_ms > now_ms && old_index_ms <= expire_ms)
        return old_index_ms;
    return expire_ms;
}

void expiry_store_time(uint8_t *p, int64_t time_ms)
{
    store_be(p, (uint64_t)time_ms, KEYSPACE_INDEX_TIME);
}

static int64_t load_time(const uint8_t *p)
{
    return (int64_t)load_be(p, KEYSPACE_INDEX_TIME);
}

/* Builds a row's key in the owner's room. data NULL: no memory. */
static struct ps_slice row_key(struct keyspace *ks, int64_t time_ms, struct ps_slice key)
{
    uint8_t *room = key_room_take(&ks->row_room, KEYSPACE_INDEX_TIME + key.len);

    assert(key.len <= KEYSPACE_MAX_KEY);
    if (room) {
        expiry_store_time(room, time_ms);
        if (key.len > 0)
            memcpy(room + KEYSPACE_INDEX_TIME, key.data, key.len);
    }
    return (struct ps_slice){room, KEYSPACE_INDEX_TIME + key.len};
}

int expiry_file(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice key,
                int64_t old_index_ms, int64_t new_index_ms)
{
    ps_tree tree = ks->db[db].expires;
    struct ps_slice row;

    if (old_index_ms == new_index_ms)
        return 0;
    if (old_index_ms != 0) {
        row = row_key(ks, old_index_ms, key);
        int rc = row.data ? ps_delete(txn, tree, row) : PS_NOMEM;
        if (rc < 0)
            return rc == PS_NOTFOUND ? PS_CORRUPT : rc;
    }
    if (new_index_ms == 0)
        return 0;
    row = row_key(ks, new_index_ms, key);
    return row.data ? ps_put(txn, tree, row, (struct ps_slice){"", 0}) : PS_NOMEM;
}

/* Rows at or before now_ms are those below this key. */
static struct ps_slice due_bound(uint8_t bytes[KEYSPACE_INDEX_TIME], int64_t now_ms)
{
    expiry_store_time(bytes, now_ms + 1);
    return (struct ps_slice){bytes, KEYSPACE_INDEX_TIME};
}

int expiry_due(const struct keyspace *ks, struct ps_view *view, unsigned db, int64_t now_ms,
               uint64_t *rows)
{
    uint8_t bytes[KEYSPACE_INDEX_TIME];
    struct ps_slice high = due_bound(bytes, now_ms);

    return ps_count_range(view, ks->db[db].expires, NULL, &high, rows);
}

/* Opens a cursor over the rows that are due. */
static int due_cursor(const struct keyspace *ks, struct ps_view *view, unsigned db, int64_t now_ms,
                      struct ps_cursor **cursor)
{
    uint8_t bytes[KEYSPACE_INDEX_TIME];
    struct ps_slice high = due_bound(bytes, now_ms);
    int rc = ps_cursor_open(view, ks->db[db].expires, cursor);

    if (rc < 0)
        return rc;
    rc = ps_cursor_bounds(*cursor, NULL, &high);
    if (rc < 0)
        ps_cursor_close(*cursor);
    return rc;
}

/* Time and key of the row a cursor stands on. */
static int row_read(struct ps_cursor *cursor, int64_t *time_ms, struct ps_slice *key)
{
    struct ps_slice row;
    int rc = ps_cursor_get(cursor, &row, NULL);

    if (rc < 0)
        return rc;
    if (row.len < KEYSPACE_INDEX_TIME)
        return PS_CORRUPT;
    *time_ms = load_time(row.data);
    *key = (struct ps_slice){(const uint8_t *)row.data + KEYSPACE_INDEX_TIME,
                             row.len - KEYSPACE_INDEX_TIME};
    return 0;
}

int expiry_count_expired(const struct keyspace *ks, struct ps_view *view, unsigned db,
                         int64_t now_ms, const struct keyspace_pause *pause, uint64_t *expired)
{
    struct ps_cursor *cursor;
    int rc = due_cursor(ks, view, db, now_ms, &cursor);

    *expired = 0;
    if (rc < 0)
        return rc;
    for (rc = ps_cursor_first(cursor); rc == 0; rc = ps_cursor_next(cursor)) {
        struct key_entry entry;
        struct ps_slice key;
        int64_t time_ms;
        rc = row_read(cursor, &time_ms, &key);
        if (rc == 0)
            rc = keyspace_find(ks, view, db, key, now_ms, &entry);
        if (rc < 0)
            break;
        *expired += entry.state == KEY_EXPIRED;
        rc = keyspace_pause(pause);
        if (rc < 0)
            break;
    }
    ps_cursor_close(cursor);
    return rc == PS_NOTFOUND ? 0 : rc;
}

/* Rule 4: the row moves to the expiry; version and value stay. */
static int refile(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice key,
                  struct record *record)
{
    int64_t old_index_ms = record->index_ms;
    size_t bytes = RECORD_MAX_HEADER + record->payload.len + 3 * key.len + KEYSPACE_PUT_EXTRA;
    uint8_t *payload = keyspace_payload_room(ks);

    memcpy(payload, record->payload.data, record->payload.len); /* making room may move the pages */
    record->payload.data = payload;
    int rc = ps_reserve(txn, 3, bytes);
    if (rc < 0)
        return rc;
    record->index_ms = record->expire_ms;
    rc = keyspace_store(ks, txn, db, key, record);
    if (rc < 0)
        return rc;
    return expiry_file(ks, txn, db, key, old_index_ms, record->index_ms);
}

/* Deals with one due row. The key is the caller's copy. */
static int settle_row(struct keyspace *ks, struct ps_txn *txn, unsigned db, int64_t time_ms,
                      struct ps_slice key, int64_t now_ms)
{
    struct key_entry entry;
    int rc = keyspace_find(ks, ps_txn_view(txn), db, key, now_ms, &entry);

    if (rc < 0)
        return rc;
    if (entry.state == KEY_ABSENT || entry.record.index_ms != time_ms)
        return PS_CORRUPT;
    if (entry.state == KEY_LIVE)
        return refile(ks, txn, db, key, &entry.record);
    rc = ps_reserve(txn, KEYSPACE_DELETE_OPS, 0);
    if (rc < 0)
        return rc;
    return keyspace_delete(ks, txn, db, key, &entry);
}

/* Due rows of one database. *more: the budget ended first. */
static int maintain_db(struct keyspace *ks, struct ps_txn *txn, unsigned db, int64_t now_ms,
                       size_t budget, size_t *done, bool *more)
{
    struct ps_cursor *cursor;
    int rc = due_cursor(ks, ps_txn_view(txn), db, now_ms, &cursor);

    if (rc < 0)
        return rc;
    rc = ps_cursor_first(cursor);
    while (rc == 0 && *done < budget) {
        struct ps_slice key;
        int64_t time_ms;
        rc = row_read(cursor, &time_ms, &key);
        if (rc < 0)
            break;
        uint8_t *room = key_room_take(&ks->key_room, key.len);
        if (!room) {
            rc = PS_NOMEM;
            break;
        }
        memcpy(room, key.data, key.len);
        key.data = room;
        rc = settle_row(ks, txn, db, time_ms, key, now_ms);
        if (rc == 0)
            ++*done;
        else if (rc !=
                 PS_NOSPACE) /* a full disk refuses re-filing, but expired keys can still go */
            break;
        rc = ps_cursor_next(cursor);
    }
    *more = rc == 0;
    ps_cursor_close(cursor);
    return rc == PS_NOTFOUND ? 0 : rc;
}

int keyspace_maintain(struct keyspace *ks, struct ps_txn *txn, int64_t now_ms, size_t budget,
                      size_t *done, bool *more)
{
    *done = 0;
    *more = false;
    for (unsigned i = 0; i < ks->databases; i++) {
        uint64_t due;
        unsigned db = (ks->maintain_db + i) % ks->databases;
        int rc = expiry_due(ks, ps_txn_view(txn), db, now_ms, &due);
        if (rc == 0 && due > 0)
            rc = maintain_db(ks, txn, db, now_ms, budget, done, more);
        if (rc < 0 || *more) {
            ks->maintain_db = db;
            return rc;
        }
    }
    return garbage_maintain(ks, txn, budget, done, more);
}

/* Due rows of one database are read, and the keys they name. */
static size_t touch_due(const struct keyspace *ks, struct ps_view *view, unsigned db,
                        int64_t now_ms, size_t budget)
{
    struct ps_cursor *cursor;
    size_t touched = 0;

    if (due_cursor(ks, view, db, now_ms, &cursor) < 0)
        return 0;
    for (int rc = ps_cursor_first(cursor); rc == 0 && touched < budget;
         rc = ps_cursor_next(cursor)) {
        struct ps_slice key;
        int64_t time_ms;
        if (row_read(cursor, &time_ms, &key) < 0)
            break;
        keyspace_touch(ks, view, db, key, 1);
        touched++;
    }
    ps_cursor_close(cursor);
    return touched;
}

size_t keyspace_touch_due(const struct keyspace *ks, struct ps_view *view, int64_t now_ms,
                          size_t budget)
{
    size_t touched = 0;

    for (unsigned db = 0; db < ks->databases; db++)
        touched += touch_due(ks, view, db, now_ms, budget);
    return touched;
}

int keyspace_expire_key(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice key,
                        int64_t now_ms)
{
    struct key_entry entry;
    int rc = keyspace_find(ks, ps_txn_view(txn), db, key, now_ms, &entry);

    if (rc < 0 || entry.state != KEY_EXPIRED)
        return rc;
    rc = ps_reserve(txn, KEYSPACE_DELETE_OPS, 0);
    if (rc < 0)
        return rc;
    return keyspace_delete(ks, txn, db, key, &entry);
}
