/*
 * internal.h - struct keyspace, for the files of this folder alone.
 */
#ifndef PANDO_SERVER_KEYSPACE_INTERNAL_H
#define PANDO_SERVER_KEYSPACE_INTERNAL_H

#include "server/keyspace/keyspace.h"
#include "server/keyspace/scan.h"

#include <stdatomic.h>

#define KEYSPACE_SHARDS 16u /* of counters; threads rarely share one */

struct keyspace_db {
    ps_tree keys, elements, expires;
};

struct keyspace_shard {
    _Alignas(64) atomic_uint_fast64_t hits;
    atomic_uint_fast64_t misses;
};

/* Room for a key: grows to what keys there are, and shrinks when it has held a huge one. */
struct key_room {
    uint8_t *bytes;
    size_t cap;
};

/* The store-wide counter of key modifications (version.c); the transaction owner's. */
struct keyspace_version {
    uint64_t last;    /* the newest one handed out */
    uint64_t ceiling; /* versions in records are at most this, and the row in `counters` says so */
    uint64_t raised_seq; /* the transaction that last raised the row */
    bool settled;        /* that transaction is published, and the row was seen since */
};

struct keyspace {
    struct ps_store *store;
    unsigned databases;
    ps_tree counters, garbage;
    struct keyspace_version version;
    unsigned maintain_db; /* where keyspace_maintain() goes on; the transaction owner's */
    /* The transaction owner's: */
    uint8_t *room;            /* RECORD_MAX_HEADER bytes, then a payload */
    uint8_t *chunk_room;      /* a chunk that is being changed */
    struct key_room row_room; /* a row of the index being written */
    struct key_room key_room; /* the key keyspace_maintain() is at */
    uint64_t *protected;      /* ids that keyspace_maintain() leaves alone (garbage.c) */
    size_t protected_n, protected_cap;
    struct scan_table *scans;
    struct keyspace_shard shards[KEYSPACE_SHARDS];
    atomic_uint_fast64_t expired;
    struct keyspace_db db[]; /* `databases` of them */
};

/* version.c: the next version, for a record (may write the row) or for a deletion (never writes).
 */
int version_for_record(struct keyspace *ks, struct ps_txn *txn, uint64_t *version);
void version_for_deletion(struct keyspace *ks);
/* Reads the row when a store is opened. */
int version_open(struct keyspace *ks, struct ps_view *view);

/* expiry.c */
/* Index time of a record that expires at expire_ms, given that of the record it replaces (0: none):
 * the rule that spares refreshes a row. */
int64_t expiry_index_time(int64_t old_index_ms, int64_t expire_ms, int64_t now_ms);
/* Makes the index hold exactly the row for new_index_ms (0: none) instead of old_index_ms. */
int expiry_file(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice key,
                int64_t old_index_ms, int64_t new_index_ms);
/* How a row begins: KEYSPACE_INDEX_TIME bytes. */
void expiry_store_time(uint8_t *p, int64_t time_ms);
/* Index rows due at now_ms. */
int expiry_due(const struct keyspace *ks, struct ps_view *view, unsigned db, int64_t now_ms,
               uint64_t *rows);
/* Of those, the ones whose key has expired indeed (each is one step). */
int expiry_count_expired(const struct keyspace *ks, struct ps_view *view, unsigned db,
                         int64_t now_ms, const struct keyspace_pause *pause, uint64_t *expired);

/* chunks.c */
#define CHUNK_ROW_KEY 12u /* object id, number of the chunk */
struct ps_slice chunk_row_key(uint8_t bytes[CHUNK_ROW_KEY], uint64_t id, uint64_t number);
/* Rows that an object has. */
int chunk_rows(const struct keyspace *ks, struct ps_view *view, unsigned db, uint64_t id,
               uint64_t *rows);

/* garbage.c: files an id, takes it off (PS_NOTFOUND: it is not filed). */
int garbage_file(struct keyspace *ks, struct ps_txn *txn, unsigned db, uint64_t id);
int garbage_unfile(struct keyspace *ks, struct ps_txn *txn, uint64_t id);
/* For an object whose record goes: filed, or on a full disk emptied at once. */
int garbage_drop(struct keyspace *ks, struct ps_txn *txn, unsigned db, uint64_t id);
/* As keyspace_maintain(); *done and *more go on from what they are. */
int garbage_maintain(struct keyspace *ks, struct ps_txn *txn, size_t budget, size_t *done,
                     bool *more);

/* keyspace.c: at least `len` bytes of room; NULL: no memory. */
uint8_t *key_room_take(struct key_room *room, size_t len);

/* keyspace.c: stores a record whose version and index time are given; no index row is touched. */
int keyspace_store(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice key,
                   const struct record *record);

#endif
