/*
 * garbage.c - object ids whose rows are to be removed: in bounded steps, by keyspace_maintain().
 *
 * `garbage` has a row for each: id (8 bytes, big endian) -> database (4 bytes, big endian).
 *
 *  1. An id is filed in the transaction that takes its record away, or in the one that writes its
 *     first row before there is a record. So in every state of the store the rows of an id belong
 *     to a record or the id is filed; a crash leaks nothing.
 *  2. An id that somebody writes rows under, or will read them of, is protected: maintenance passes
 *     it by. Protection is in memory; after a restart nobody is left who needs it.
 *  3. Rows that are gone already (FLUSHDB cleared their tree) do not matter: the id goes.
 *  4. On a full disk nothing can be filed; then the rows go at once, since deleting works.
 *
 * Threads: the owner of the transaction. Crash: rows are part of the caller's transaction.
 */
#include "server/keyspace/big_endian.h"
#include "server/keyspace/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 64u /* rows collected before they are removed */

static struct ps_slice garbage_key(uint8_t bytes[8], uint64_t id)
{
    store_be(bytes, id, 8);
    return (struct ps_slice){bytes, 8};
}

int garbage_file(struct keyspace *ks, struct ps_txn *txn, unsigned db, uint64_t id)
{
    uint8_t key[8], value[4];

    store_be(value, db, sizeof(value));
    return ps_put(txn, ks->garbage, garbage_key(key, id), (struct ps_slice){value, 4});
}

int garbage_unfile(struct keyspace *ks, struct ps_txn *txn, uint64_t id)
{
    uint8_t key[8];

    return ps_delete(txn, ks->garbage, garbage_key(key, id));
}

/* ---- protection ----------------------------------------------------------------------------- */

int keyspace_protect(struct keyspace *ks, uint64_t id)
{
    if (ks->protected_n == ks->protected_cap) {
        size_t cap = ks->protected_cap > 0 ? 2 * ks->protected_cap : 16;
        uint64_t *grown = realloc(ks->protected, cap * sizeof(*grown));
        if (!grown)
            return PS_NOMEM;
        ks->protected = grown;
        ks->protected_cap = cap;
    }
    ks->protected[ks->protected_n++] = id;
    return 0;
}

void keyspace_unprotect(struct keyspace *ks, uint64_t id)
{
    for (size_t i = 0; i < ks->protected_n; i++) {
        if (ks->protected[i] == id) {
            ks->protected[i] = ks->protected[--ks->protected_n];
            return;
        }
    }
}

static bool is_protected(const struct keyspace *ks, uint64_t id)
{
    for (size_t i = 0; i < ks->protected_n; i++)
        if (ks->protected[i] == id)
            return true;
    return false;
}

/* ---- removing ------------------------------------------------------------------------------- */

/* Keys of up to `max` rows of an object, in order. */
static int collect(const struct keyspace *ks, struct ps_view *view, unsigned db, uint64_t id,
                   uint8_t (*keys)[CHUNK_ROW_KEY], size_t max, size_t *n)
{
    uint8_t low_bytes[8], high_bytes[8];
    struct ps_slice low = garbage_key(low_bytes, id), high = garbage_key(high_bytes, id + 1), key;
    struct ps_cursor *cursor;
    int rc = ps_cursor_open(view, ks->db[db].elements, &cursor);

    *n = 0;
    if (rc < 0)
        return rc;
    rc = ps_cursor_bounds(cursor, &low, &high);
    if (rc == 0)
        rc = ps_cursor_first(cursor);
    while (rc == 0 && *n < max) {
        rc = ps_cursor_get(cursor, &key, NULL);
        if (rc == 0 && key.len != CHUNK_ROW_KEY)
            rc = PS_CORRUPT;
        if (rc < 0)
            break;
        memcpy(keys[(*n)++], key.data, CHUNK_ROW_KEY);
        rc = ps_cursor_next(cursor);
    }
    ps_cursor_close(cursor);
    return rc == PS_NOTFOUND ? 0 : rc;
}

/* Removes up to `budget` rows of an object; *done counts them, *empty: there are no more. */
static int remove_rows(struct keyspace *ks, struct ps_txn *txn, unsigned db, uint64_t id,
                       size_t budget, size_t *done, bool *empty)
{
    uint8_t keys[BATCH][CHUNK_ROW_KEY];
    size_t n;

    *empty = false;
    while (*done < budget) {
        size_t max = budget - *done < BATCH ? budget - *done : BATCH;
        int rc = collect(ks, ps_txn_view(txn), db, id, keys, max, &n);
        if (rc < 0)
            return rc;
        for (size_t i = 0; i < n; i++, ++*done) {
            rc = ps_reserve(txn, 1, 0);
            if (rc == 0)
                rc = ps_delete(txn, ks->db[db].elements, (struct ps_slice){keys[i], CHUNK_ROW_KEY});
            if (rc < 0)
                return rc;
        }
        if (n < max) {
            *empty = true;
            return 0;
        }
    }
    return 0;
}

int garbage_drop(struct keyspace *ks, struct ps_txn *txn, unsigned db, uint64_t id)
{
    int rc = garbage_file(ks, txn, db, id);
    size_t done = 0;
    bool empty;

    /* PS_BUSY: "commit first", which is what a full disk says in a transaction with changes. */
    return rc == PS_NOSPACE || rc == PS_BUSY ? remove_rows(ks, txn, db, id, SIZE_MAX, &done, &empty)
                                             : rc;
}

/* The first filed id above `after` that can be dealt with. PS_NOTFOUND: none. */
static int next_id(const struct keyspace *ks, struct ps_view *view, uint64_t after, uint64_t *id,
                   unsigned *db)
{
    struct ps_cursor *cursor;
    struct ps_slice key, value;
    uint8_t bytes[8];
    bool found = false;
    int rc = ps_cursor_open(view, ks->garbage, &cursor);

    if (rc < 0)
        return rc;
    rc = ps_cursor_seek(cursor, garbage_key(bytes, after), PS_GT);
    while (rc == 0 && !found) {
        rc = ps_cursor_get(cursor, &key, &value);
        if (rc == 0 && (key.len != 8 || value.len != 4))
            rc = PS_CORRUPT;
        if (rc < 0)
            break;
        *id = load_be(key.data, 8);
        *db = (unsigned)load_be(value.data, 4);
        /* Of a database beyond `databases`: when that is raised again. */
        found = !is_protected(ks, *id) && *db < ks->databases;
        if (!found)
            rc = ps_cursor_next(cursor);
    }
    ps_cursor_close(cursor);
    return rc;
}

int garbage_maintain(struct keyspace *ks, struct ps_txn *txn, size_t budget, size_t *done,
                     bool *more)
{
    uint64_t id = 0;
    unsigned db;
    int rc = 0;

    while (rc == 0 && *done < budget) {
        bool empty;
        rc = next_id(ks, ps_txn_view(txn), id, &id, &db);
        if (rc == 0)
            rc = remove_rows(ks, txn, db, id, budget, done, &empty);
        if (rc == 0 && empty) {
            rc = ps_reserve(txn, 1, 0);
            if (rc == 0)
                rc = garbage_unfile(ks, txn, id);
            *done += rc == 0;
        }
    }
    if (rc == 0)
        rc = next_id(ks, ps_txn_view(txn), id > 0 ? id - 1 : 0, &id, &db);
    *more = *more || rc == 0;
    return rc == PS_NOTFOUND ? 0 : rc;
}

/* ---- objects that are written before they have a record ------------------------------------- */

int keyspace_stage_begin(struct keyspace *ks, struct ps_txn *txn, unsigned db,
                         struct record_chunks *chunks)
{
    int rc = keyspace_chunks_new(ks, txn, chunks);

    if (rc == 0)
        rc = garbage_file(ks, txn, db, chunks->id);
    return rc;
}

int keyspace_stage_filed(const struct keyspace *ks, struct ps_view *view,
                         const struct record_chunks *chunks, bool *filed)
{
    uint8_t key[8];
    struct ps_slice value;
    int rc = ps_get(view, ks->garbage, garbage_key(key, chunks->id), &value);

    *filed = rc != PS_NOTFOUND;
    return rc == PS_NOTFOUND ? 0 : rc;
}

int keyspace_stage_link(struct keyspace *ks, struct ps_txn *txn, unsigned db,
                        const struct record_chunks *chunks, bool *whole)
{
    int rc = keyspace_chunks_whole(ks, ps_txn_view(txn), db, chunks, whole);

    if (rc == 0 && *whole) {
        rc = garbage_unfile(ks, txn, chunks->id);
        if (rc == PS_NOTFOUND) {
            *whole = false;
            rc = 0;
        }
    }
    return rc;
}
