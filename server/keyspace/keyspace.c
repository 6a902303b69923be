/*
 * keyspace.c - a key's record: found, stored, removed. Invariants and threads: keyspace.h.
 */
#include "server/keyspace/internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_ROOM_KEPT (64u * 1024)

/* ---- opening -------------------------------------------------------------------------------- */

static int make_tree(struct ps_txn *txn, const char *kind, int number, ps_tree *tree)
{
    char name[32];
    int len = number < 0 ? snprintf(name, sizeof(name), "%s", kind)
                         : snprintf(name, sizeof(name), "%s:%d", kind, number);

    return ps_tree_create(txn, (struct ps_slice){name, (size_t)len}, tree);
}

static int make_trees(struct keyspace *ks, struct ps_txn *txn)
{
    int rc = make_tree(txn, "garbage", -1, &ks->garbage);

    if (rc == 0)
        rc = make_tree(txn, "counters", -1, &ks->counters);
    for (unsigned i = 0; rc == 0 && i < ks->databases; i++) {
        rc = make_tree(txn, "keys", (int)i, &ks->db[i].keys);
        if (rc == 0)
            rc = make_tree(txn, "elements", (int)i, &ks->db[i].elements);
        if (rc == 0)
            rc = make_tree(txn, "expires", (int)i, &ks->db[i].expires);
    }
    return rc;
}

static int load(struct keyspace *ks)
{
    struct ps_txn *txn;
    int rc = ps_begin(ks->store, &txn);

    if (rc < 0)
        return rc;
    rc = make_trees(ks, txn);
    if (rc == 0)
        rc = version_open(ks, ps_txn_view(txn));
    if (rc < 0) {
        ps_abort(txn);
        return rc;
    }
    return ps_commit(txn, ps_get_durability(ks->store), NULL);
}

int keyspace_open(struct ps_store *store, unsigned databases, struct keyspace **ks)
{
    size_t size = sizeof(struct keyspace) + databases * sizeof(struct keyspace_db);
    struct keyspace *k = aligned_alloc(64, (size + 63) / 64 * 64);

    *ks = NULL;
    if (!k)
        return PS_NOMEM;
    memset(k, 0, size);
    k->store = store;
    k->databases = databases;
    k->room = malloc(RECORD_MAX_HEADER + KEYSPACE_MAX_INLINE);
    k->chunk_room = malloc(RECORD_MAX_CHUNK);
    int rc = k->room && k->chunk_room ? 0 : PS_NOMEM;
    if (rc == 0)
        rc = scan_table_new(SCAN_TABLE_ENTRIES, SCAN_TABLE_BYTES, &k->scans);
    if (rc == 0)
        rc = load(k);
    if (rc < 0) {
        keyspace_close(k);
        return rc;
    }
    *ks = k;
    return 0;
}

void keyspace_close(struct keyspace *ks)
{
    if (!ks)
        return;
    scan_table_free(ks->scans);
    free(ks->room);
    free(ks->chunk_room);
    free(ks->row_room.bytes);
    free(ks->key_room.bytes);
    free(ks->protected);
    free(ks);
}

unsigned keyspace_databases(const struct keyspace *ks)
{
    return ks->databases;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int judge(struct ps_slice bytes, int64_t now_ms, struct key_entry *entry)
{
    int rc = record_decode(bytes, &entry->record);

    if (rc == 0)
        entry->state = record_expired(&entry->record, now_ms) ? KEY_EXPIRED : KEY_LIVE;
    return rc;
}

int keyspace_find(const struct keyspace *ks, struct ps_view *view, unsigned db, struct ps_slice key,
                  int64_t now_ms, struct key_entry *entry)
{
    struct ps_slice value;

    assert(db < ks->databases);
    entry->state = KEY_ABSENT;
    if (key.len > KEYSPACE_MAX_KEY)
        return 0;
    int rc = ps_get(view, ks->db[db].keys, key, &value);
    if (rc < 0)
        return rc == PS_NOTFOUND ? 0 : rc;
    return judge(value, now_ms, entry);
}

void keyspace_lookup_prepare(const struct keyspace *ks, unsigned db, struct ps_slice key,
                             struct ps_lookup *lookup)
{
    assert(db < ks->databases);
    bool fits = key.len <= KEYSPACE_MAX_KEY;
    lookup->tree = fits ? ks->db[db].keys : UINT32_MAX;
    lookup->key = fits ? key : (struct ps_slice){"", 0};
}

int keyspace_found(const struct ps_lookup *lookup, int64_t now_ms, struct key_entry *entry)
{
    entry->state = KEY_ABSENT;
    if (lookup->rc < 0)
        return lookup->rc == PS_NOTFOUND ? 0 : lookup->rc;
    return judge(lookup->value, now_ms, entry);
}

/* ---- writing -------------------------------------------------------------------------------- */

uint8_t *key_room_take(struct key_room *room, size_t len)
{
    if (len > room->cap || room->cap > KEY_ROOM_KEPT) {
        size_t cap = len < KEY_ROOM_KEPT ? KEY_ROOM_KEPT : len;
        free(room->bytes);
        room->bytes = malloc(cap);
        room->cap = room->bytes ? cap : 0;
    }
    return room->bytes;
}

uint8_t *keyspace_payload_room(struct keyspace *ks)
{
    return ks->room + RECORD_MAX_HEADER;
}

int keyspace_store(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice key,
                   const struct record *record)
{
    uint8_t header[RECORD_MAX_HEADER];
    size_t header_len = record_encode_header(record, header);
    uint8_t *payload = keyspace_payload_room(ks);

    assert(record->payload.len <= KEYSPACE_MAX_INLINE && key.len <= KEYSPACE_MAX_KEY);
    if (record->payload.data != payload && record->payload.len > 0)
        memcpy(payload, record->payload.data, record->payload.len);
    memcpy(payload - header_len, header, header_len);
    return ps_put(txn, ks->db[db].keys, key,
                  (struct ps_slice){payload - header_len, header_len + record->payload.len});
}

/* Index time of what is there; 0: no row. */
static int64_t index_of(const struct key_entry *old)
{
    return old->state == KEY_ABSENT ? 0 : old->record.index_ms;
}

static void note_expired(struct keyspace *ks, const struct key_entry *old)
{
    if (old->state == KEY_EXPIRED)
        atomic_fetch_add_explicit(&ks->expired, 1, memory_order_relaxed);
}

/* The object whose rows nobody has any more when `record` (NULL: nothing) takes the place of what
 * `old` describes; 0: none. */
static uint64_t rows_dropped(const struct key_entry *old, const struct record *record)
{
    if (old->state == KEY_ABSENT || !old->record.chunked ||
        (record && record->chunked && record->chunks.id == old->record.chunks.id))
        return 0;
    return old->record.chunks.id;
}

/* The payload may be part of the old record: it is copied before the first change. */
static void hold_payload(uint8_t *payload, struct record *record)
{
    if (record->chunked) {
        record_encode_chunks(&record->chunks, payload);
        record->payload.len = RECORD_CHUNKS;
    } else if (record->payload.data != payload && record->payload.len > 0) {
        assert(record->payload.len <= KEYSPACE_MAX_INLINE);
        memcpy(payload, record->payload.data, record->payload.len);
    }
    record->payload.data = payload;
}

int keyspace_put(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice key,
                 const struct key_entry *old, struct record *record, int64_t now_ms)
{
    uint8_t *payload = keyspace_payload_room(ks);
    int64_t old_index_ms = index_of(old);
    uint64_t dropped = rows_dropped(old, record);

    assert(db < ks->databases);
    hold_payload(payload, record);
    record->index_ms = expiry_index_time(old_index_ms, record->expire_ms, now_ms);
    note_expired(ks, old);
    int rc = version_for_record(ks, txn, &record->version);
    if (rc == 0)
        rc = expiry_file(ks, txn, db, key, old_index_ms, record->index_ms);
    if (rc == 0)
        rc = keyspace_store(ks, txn, db, key, record);
    if (rc == 0 && dropped != 0)
        rc = garbage_drop(ks, txn, db, dropped);
    return rc;
}

/* Removes a key's record and its row in the index, nothing else. */
static int unlink_key(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice key,
                      int64_t old_index_ms)
{
    version_for_deletion(ks);
    int rc = ps_delete(txn, ks->db[db].keys, key);
    if (rc < 0)
        return rc == PS_NOTFOUND ? PS_CORRUPT : rc;
    return expiry_file(ks, txn, db, key, old_index_ms, 0);
}

int keyspace_delete(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice key,
                    const struct key_entry *old)
{
    uint64_t dropped = rows_dropped(old, NULL);

    assert(db < ks->databases && old->state != KEY_ABSENT);
    note_expired(ks, old);
    int rc = unlink_key(ks, txn, db, key, index_of(old));
    if (rc == 0 && dropped != 0)
        rc = garbage_drop(ks, txn, db, dropped);
    return rc;
}

int keyspace_move(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice from,
                  const struct key_entry *source, struct ps_slice to,
                  const struct key_entry *target, int64_t now_ms)
{
    struct record record = source->record;
    int64_t index_ms = index_of(source);
    int rc = keyspace_put(ks, txn, db, to, target, &record, now_ms);

    return rc < 0 ? rc : unlink_key(ks, txn, db, from, index_ms);
}

int keyspace_flush(struct keyspace *ks, struct ps_txn *txn, unsigned db)
{
    assert(db < ks->databases);
    version_for_deletion(ks);
    int rc = ps_clear(txn, ks->db[db].keys);
    if (rc == 0)
        rc = ps_clear(txn, ks->db[db].expires);
    if (rc == 0)
        rc = ps_clear(txn, ks->db[db].elements);
    return rc;
}

/* ---- statistics ----------------------------------------------------------------------------- */

void keyspace_count_lookups(struct keyspace *ks, const void *who, size_t hits, size_t misses)
{
    struct keyspace_shard *shard = &ks->shards[((uintptr_t)who >> 6) % KEYSPACE_SHARDS];

    if (hits > 0)
        atomic_fetch_add_explicit(&shard->hits, hits, memory_order_relaxed);
    if (misses > 0)
        atomic_fetch_add_explicit(&shard->misses, misses, memory_order_relaxed);
}

void keyspace_counters(struct keyspace *ks, struct keyspace_counters *counters)
{
    *counters = (struct keyspace_counters){.expired = atomic_load(&ks->expired)};
    for (size_t i = 0; i < KEYSPACE_SHARDS; i++) {
        counters->hits += atomic_load(&ks->shards[i].hits);
        counters->misses += atomic_load(&ks->shards[i].misses);
    }
}

void keyspace_counters_reset(struct keyspace *ks)
{
    atomic_store(&ks->expired, 0);
    for (size_t i = 0; i < KEYSPACE_SHARDS; i++) {
        atomic_store(&ks->shards[i].hits, 0);
        atomic_store(&ks->shards[i].misses, 0);
    }
}
