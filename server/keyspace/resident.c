/*
 * resident.c - whether the rows of a key are in memory, and reading them in.
 *
 * A key's rows are its record and, when it is about to be changed, its row in the index if it has
 * an expiry, and the last chunk of a string in chunks (APPEND's). Not known here: where a new row
 * of the index will go (near the others of its time), and which other chunks a command reads or
 * changes. Strings in chunks therefore count as waiting, always.
 *
 * Threads: any. Nothing is changed.
 */
#include "server/keyspace/internal.h"

#include <assert.h>
#include <string.h>

#define ROW_KEY 256u /* bytes of a key that are enough to find its row's leaf */

/* A damaged record has nothing more: whoever reads it says so. */
static struct record record_of(struct ps_slice bytes)
{
    struct record record = {0};

    if (record_decode(bytes, &record) != 0)
        record = (struct record){0};
    return record;
}

static struct ps_slice row_begin(uint8_t room[KEYSPACE_INDEX_TIME + ROW_KEY], int64_t index_ms,
                                 struct ps_slice key)
{
    size_t len = key.len < ROW_KEY ? key.len : ROW_KEY;

    expiry_store_time(room, index_ms);
    if (len > 0)
        memcpy(room + KEYSPACE_INDEX_TIME, key.data, len);
    return (struct ps_slice){room, KEYSPACE_INDEX_TIME + len};
}

bool keyspace_lookup_waits(const struct ps_lookup *lookup)
{
    return lookup->rc == PS_WOULDWAIT || (lookup->rc == 0 && record_of(lookup->value).chunked);
}

bool keyspace_would_wait(const struct keyspace *ks, struct ps_view *view, unsigned db,
                         struct ps_slice key, size_t write, struct ps_residency *residency)
{
    uint8_t room[KEYSPACE_INDEX_TIME + ROW_KEY];
    struct ps_slice value;

    assert(db < ks->databases);
    if (key.len > KEYSPACE_MAX_KEY)
        return false;
    int rc = ps_probe(view, ks->db[db].keys, key, write, residency, &value);
    if (rc != 0)
        return rc == PS_WOULDWAIT;
    struct record record = record_of(value);
    if (record.chunked)
        return true;
    if (write > 0 && record.index_ms != 0)
        rc = ps_probe(view, ks->db[db].expires, row_begin(room, record.index_ms, key), 1, residency,
                      &value);
    return rc == PS_WOULDWAIT;
}

void keyspace_touch(const struct keyspace *ks, struct ps_view *view, unsigned db,
                    struct ps_slice key, size_t write)
{
    uint8_t room[KEYSPACE_INDEX_TIME + ROW_KEY], chunk[CHUNK_ROW_KEY];
    struct ps_slice value;

    assert(db < ks->databases);
    if (key.len > KEYSPACE_MAX_KEY || ps_touch(view, ks->db[db].keys, key, write, &value) != 0)
        return;
    struct record record = record_of(value);
    if (write > 0 && record.index_ms != 0)
        ps_touch(view, ks->db[db].expires, row_begin(room, record.index_ms, key), 1, &value);
    if (write > 0 && record.chunked) {
        uint64_t last = (record.chunks.len - 1) / record.chunks.size;
        ps_touch(view, ks->db[db].elements, chunk_row_key(chunk, record.chunks.id, last),
                 record.chunks.size, &value);
    }
}
