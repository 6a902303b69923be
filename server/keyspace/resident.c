/*
 * resident.c - whether the rows of a key are in memory, and reading them in.
 *
 * A key's rows are its record and, when it is about to be changed and has an expiry, its row in the
 * index. Where a new row of the index will go is not known here: near the others of its time.
 *
 * Threads: any. Nothing is changed.
 */
#include "server/keyspace/internal.h"

#include <assert.h>
#include <string.h>

#define ROW_KEY 256u /* bytes of a key that are enough to find its row's leaf */

static bool has_row(struct ps_slice bytes, int64_t *index_ms)
{
    struct record record;

    if (record_decode(bytes, &record) != 0)
        return false;
    *index_ms = record.index_ms;
    return record.index_ms != 0;
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

bool keyspace_would_wait(const struct keyspace *ks, struct ps_view *view, unsigned db,
                         struct ps_slice key, size_t write, struct ps_residency *residency)
{
    uint8_t room[KEYSPACE_INDEX_TIME + ROW_KEY];
    struct ps_slice value;
    int64_t index_ms;

    assert(db < ks->databases);
    if (key.len > KEYSPACE_MAX_KEY)
        return false;
    int rc = ps_probe(view, ks->db[db].keys, key, write, residency, &value);
    if (rc == 0 && write > 0 && has_row(value, &index_ms))
        rc = ps_probe(view, ks->db[db].expires, row_begin(room, index_ms, key), 1, residency,
                      &value);
    return rc == PS_WOULDWAIT;
}

void keyspace_touch(const struct keyspace *ks, struct ps_view *view, unsigned db,
                    struct ps_slice key, size_t write)
{
    uint8_t room[KEYSPACE_INDEX_TIME + ROW_KEY];
    struct ps_slice value;
    int64_t index_ms;

    assert(db < ks->databases);
    if (key.len > KEYSPACE_MAX_KEY)
        return;
    int rc = ps_touch(view, ks->db[db].keys, key, write, &value);
    if (rc == 0 && write > 0 && has_row(value, &index_ms))
        ps_touch(view, ks->db[db].expires, row_begin(room, index_ms, key), 1, &value);
}
