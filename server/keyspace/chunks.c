/*
 * chunks.c - strings in chunks: rows (object id, number) -> bytes in `elements:N`.
 *
 * Invariants
 *  1. A row has at most chunks.size bytes. What a row does not have, and a row that is not there,
 *     reads as zeros: a gap that SETRANGE leaves costs nothing.
 *  2. No row lies at or behind the end of its string. Strings in chunks never become shorter.
 *  3. An object id is a version (version.c), so it never comes back. Its rows belong to one record,
 *     or the id stands in `garbage` (garbage.c): in every state of the store, exactly one of both.
 *
 * A change reads and writes the chunks it touches and no others.
 *
 * Threads: reading any; writing the owner of the transaction. Crash: rows are part of the caller's
 * transaction.
 */
#include "server/keyspace/big_endian.h"
#include "server/keyspace/internal.h"

#include <assert.h>
#include <string.h>

#define OVERHEAD 32u /* bytes that a row may take besides its value */

struct ps_slice chunk_row_key(uint8_t bytes[CHUNK_ROW_KEY], uint64_t id, uint64_t number)
{
    store_be(bytes, id, 8);
    store_be(bytes + 8, number, 4);
    return (struct ps_slice){bytes, CHUNK_ROW_KEY};
}

int chunk_rows(const struct keyspace *ks, struct ps_view *view, unsigned db, uint64_t id,
               uint64_t *rows)
{
    uint8_t low_bytes[8], high_bytes[8];
    struct ps_slice low = {low_bytes, 8}, high = {high_bytes, 8};

    store_be(low_bytes, id, 8);
    store_be(high_bytes, id + 1, 8);
    return ps_count_range(view, ks->db[db].elements, &low, &high, rows);
}

static uint64_t chunks_in(uint64_t len, uint32_t size)
{
    return (len + size - 1) / size;
}

/* The row of a chunk; empty if there is none. */
static int row_get(const struct keyspace *ks, struct ps_view *view, unsigned db, uint64_t id,
                   uint64_t number, uint32_t size, struct ps_slice *row)
{
    uint8_t bytes[CHUNK_ROW_KEY];
    int rc = ps_get(view, ks->db[db].elements, chunk_row_key(bytes, id, number), row);

    if (rc == PS_NOTFOUND) {
        *row = (struct ps_slice){"", 0};
        return 0;
    }
    return rc == 0 && row->len > size ? PS_CORRUPT : rc;
}

int keyspace_chunks_read(const struct keyspace *ks, struct ps_view *view, unsigned db,
                         const struct record_chunks *chunks, uint64_t offset, char *to, size_t len)
{
    assert(db < ks->databases && offset <= chunks->len && len <= chunks->len - offset);
    while (len > 0) {
        uint64_t number = offset / chunks->size;
        size_t at = (size_t)(offset % chunks->size);
        size_t n = chunks->size - at < len ? chunks->size - at : len, have;
        struct ps_slice row;
        int rc = row_get(ks, view, db, chunks->id, number, chunks->size, &row);
        if (rc < 0)
            return rc;
        have = row.len <= at ? 0 : row.len - at < n ? row.len - at : n;
        if (have > 0)
            memcpy(to, (const char *)row.data + at, have);
        memset(to + have, 0, n - have);
        to += n;
        offset += n;
        len -= n;
    }
    return 0;
}

int keyspace_chunks_new(struct keyspace *ks, struct ps_txn *txn, struct record_chunks *chunks)
{
    *chunks = (struct record_chunks){.size = KEYSPACE_CHUNK};
    return version_for_record(ks, txn, &chunks->id);
}

/* Bytes [at, at + patch.len) of one chunk, which had `had` bytes that count. */
static int patch_row(struct keyspace *ks, struct ps_txn *txn, unsigned db,
                     const struct record_chunks *chunks, uint64_t number, size_t at,
                     struct ps_slice patch, size_t had)
{
    uint8_t key[CHUNK_ROW_KEY];
    struct ps_slice row = patch;

    if (at > 0 || patch.len < had) {
        struct ps_slice old;
        int rc = row_get(ks, ps_txn_view(txn), db, chunks->id, number, chunks->size, &old);
        if (rc < 0)
            return rc;
        memcpy(ks->chunk_room, old.data, old.len);
        if (old.len < at)
            memset(ks->chunk_room + old.len, 0, at - old.len);
        memcpy(ks->chunk_room + at, patch.data, patch.len);
        row.data = ks->chunk_room;
        row.len = at + patch.len > old.len ? at + patch.len : old.len;
    }
    return ps_put(txn, ks->db[db].elements, chunk_row_key(key, chunks->id, number), row);
}

int keyspace_chunks_write(struct keyspace *ks, struct ps_txn *txn, unsigned db,
                          struct record_chunks *chunks, uint64_t offset, struct ps_slice bytes)
{
    const char *from = bytes.data;
    size_t left = bytes.len;

    assert(db < ks->databases && offset + left <= KEYSPACE_MAX_STRING);
    while (left > 0) {
        uint64_t number = offset / chunks->size, begin = number * chunks->size;
        size_t at = (size_t)(offset - begin);
        size_t n = chunks->size - at < left ? chunks->size - at : left;
        size_t had = chunks->len <= begin                  ? 0
                     : chunks->len - begin >= chunks->size ? chunks->size
                                                           : (size_t)(chunks->len - begin);
        int rc = patch_row(ks, txn, db, chunks, number, at, (struct ps_slice){from, n}, had);
        if (rc < 0)
            return rc;
        from += n;
        left -= n;
        offset += n;
        if (chunks->len < offset)
            chunks->len = offset;
    }
    return 0;
}

void keyspace_chunks_need(uint64_t len, size_t *ops, size_t *bytes)
{
    size_t rows = (size_t)chunks_in(len, KEYSPACE_CHUNK) + 1; /* it need not begin with a chunk */

    *ops += rows;
    *bytes += (size_t)len + rows * OVERHEAD;
}

int keyspace_chunks_whole(const struct keyspace *ks, struct ps_view *view, unsigned db,
                          const struct record_chunks *chunks, bool *whole)
{
    uint64_t rows;
    int rc = chunk_rows(ks, view, db, chunks->id, &rows);

    *whole = rc == 0 && rows == chunks_in(chunks->len, chunks->size);
    return rc;
}
