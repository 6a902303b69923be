/*
 * keyspace.h - objects under keys: what commands and the runner may ask of the data.
 *
 * A database N is three trees: `keys:N` (key -> record, see record.h), `elements:N` (rows of large
 * objects, see chunks.c), and `expires:N` (the expiry index, see expiry.c). All databases share
 * `garbage` (object ids whose rows are still to be removed, see garbage.c) and `counters`.
 *
 * Invariants
 *  1. A key is in the index exactly once if its record has an expiry, else not at all; the row's
 *     time is the record's index_ms, at or before its expire_ms.
 *  2. A record whose expire_ms has come is invisible: keyspace_find() says so, whatever the
 *     background work has done yet.
 *  3. Every change of a key takes a version no change ever had before (version.c); re-filing an
 *     index row and removing an expired key are no changes of a value, but a removal takes one too.
 *  4. Functions that write expect that room was made (ps_reserve), see KEYSPACE_PUT_OPS.
 *
 * Threads: struct keyspace is shared. What takes a view may run on any thread; what takes a
 * transaction only on the thread that owns it, one at a time. Counters are atomic, the table of
 * scan positions has its own lock. Crash: everything written is part of the caller's transaction.
 */
#ifndef PANDO_SERVER_KEYSPACE_KEYSPACE_H
#define PANDO_SERVER_KEYSPACE_KEYSPACE_H

#include "server/keyspace/record.h"
#include "storage/pandostore.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEYSPACE_INDEX_TIME 8u                  /* bytes before the key in the index */
#define KEYSPACE_MAX_KEY    (PS_MAX_KEY - 64u)  /* bytes in a key; 8 more in a row */
#define KEYSPACE_MAX_INLINE 65536u              /* bytes of a string that stand in its record */
#define KEYSPACE_CHUNK      16320u              /* of a longer one in a row: 4 pages of 4 KiB */
#define KEYSPACE_MAX_STRING (UINT64_C(1) << 40) /* bytes of a string, whatever is configured */

/* What keyspace_put() and keyspace_delete() may need for one key: changes, and bytes besides the
 * record (twice the key's length and this). */
#define KEYSPACE_PUT_OPS    5u
#define KEYSPACE_DELETE_OPS 3u
#define KEYSPACE_PUT_EXTRA  96u

struct keyspace;

/* ---- opening -------------------------------------------------------------------------------- */

/* Makes missing trees in a transaction of its own and remembers their numbers. */
int keyspace_open(struct ps_store *store, unsigned databases, struct keyspace **ks);
void keyspace_close(struct keyspace *ks);
unsigned keyspace_databases(const struct keyspace *ks);

/* ---- one key -------------------------------------------------------------------------------- */

enum key_state {
    KEY_ABSENT,
    KEY_EXPIRED, /* there is a record, which nobody may see; needed when the key is written */
    KEY_LIVE,
};

struct key_entry {
    enum key_state state;
    struct record record; /* unless KEY_ABSENT; its payload points into the view */
};

/* 0 (look at entry->state), or an error. A key that is too long is absent. */
int keyspace_find(const struct keyspace *ks, struct ps_view *view, unsigned db, struct ps_slice key,
                  int64_t now_ms, struct key_entry *entry);

/* Fills tree and key of a lookup for ps_get_many(); keyspace_found() then reads its outcome. A key
 * that is too long is replaced by the empty one of no tree, and not found. */
void keyspace_lookup_prepare(const struct keyspace *ks, unsigned db, struct ps_slice key,
                             struct ps_lookup *lookup);
int keyspace_found(const struct ps_lookup *lookup, int64_t now_ms, struct key_entry *entry);

/* Room for a payload of up to KEYSPACE_MAX_INLINE bytes, the transaction owner's: a payload built
 * here is stored without another copy. Overwritten by every keyspace_put(). */
uint8_t *keyspace_payload_room(struct keyspace *ks);

/*
 * Stores `record` (type, encoding, expire_ms, payload; version and index_ms are chosen here and
 * filled in) under `key`, in place of what `old` says is there (keyspace_find() in this very
 * transaction). The payload may be part of the old record. Of a string in chunks (record->chunked)
 * record->chunks is stored; the rows of one that it replaces become garbage.
 */
int keyspace_put(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice key,
                 const struct key_entry *old, struct record *record, int64_t now_ms);

/* Removes the key that `old` describes (not KEY_ABSENT), with its index row. */
int keyspace_delete(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice key,
                    const struct key_entry *old);

/* Moves the object of `from` to `to` with all that belongs to it, in place of what `target` says.
 */
int keyspace_move(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice from,
                  const struct key_entry *source, struct ps_slice to,
                  const struct key_entry *target, int64_t now_ms);

/* Empties a database. */
int keyspace_flush(struct keyspace *ks, struct ps_txn *txn, unsigned db);

/* ---- one key, without waiting for the disk -------------------------------------------------- */

/* The same question for a lookup that ps_get_many_resident() has made. */
bool keyspace_lookup_waits(const struct ps_lookup *lookup);
/* Whether reading the key (with `write` bytes that may be put, at least 1: changing it) would wait
 * for the disk. A damaged record would not: whoever reads it says so. */
bool keyspace_would_wait(const struct keyspace *ks, struct ps_view *view, unsigned db,
                         struct ps_slice key, size_t write, struct ps_residency *residency);
/* Waits for it: reads into memory what keyspace_would_wait() looks at. */
void keyspace_touch(const struct keyspace *ks, struct ps_view *view, unsigned db,
                    struct ps_slice key, size_t write);

/* ---- strings in chunks ---------------------------------------------------------------------- */

/* Copies bytes [offset, offset + len) of a string, which must have them. */
int keyspace_chunks_read(const struct keyspace *ks, struct ps_view *view, unsigned db,
                         const struct record_chunks *chunks, uint64_t offset, char *to, size_t len);

/* A new object without a row. */
int keyspace_chunks_new(struct keyspace *ks, struct ps_txn *txn, struct record_chunks *chunks);

/* Writes bytes at an offset, behind the end as well: what lies between reads as zeros. Sets
 * chunks->len; storing the record is the caller's matter. */
int keyspace_chunks_write(struct keyspace *ks, struct ps_txn *txn, unsigned db,
                          struct record_chunks *chunks, uint64_t offset, struct ps_slice bytes);

/* Adds what writing `len` bytes may need (ps_reserve). */
void keyspace_chunks_need(uint64_t len, size_t *ops, size_t *bytes);

/* Are all of its rows there? (Of a string that was written without gaps.) */
int keyspace_chunks_whole(const struct keyspace *ks, struct ps_view *view, unsigned db,
                          const struct record_chunks *chunks, bool *whole);

/* A string that is written over several transactions before it has a record: _begin gives it an id
 * and files that as garbage, keyspace_chunks_write() writes rows, _link takes the id off in the
 * transaction that stores the record. *whole false: rows are missing (a transaction was undone, the
 * database was flushed); nothing was changed, write them again. _filed says whether the id is still
 * garbage: if not, rows written now would be nobody's. Meanwhile the id must be protected from
 * keyspace_maintain(). */
int keyspace_stage_begin(struct keyspace *ks, struct ps_txn *txn, unsigned db,
                         struct record_chunks *chunks);
int keyspace_stage_filed(const struct keyspace *ks, struct ps_view *view,
                         const struct record_chunks *chunks, bool *filed);
int keyspace_stage_link(struct keyspace *ks, struct ps_txn *txn, unsigned db,
                        const struct record_chunks *chunks, bool *whole);
int keyspace_protect(struct keyspace *ks, uint64_t id);
void keyspace_unprotect(struct keyspace *ks, uint64_t id);

/* ---- many keys ------------------------------------------------------------------------------ */

/* What a read without a bound calls between two steps, when it holds nothing that it read from its
 * view: 0, or an error with which it ends. See the reader pool. */
struct keyspace_pause {
    int (*call)(void *arg);
    void *arg;
};

/* `pause` is NULL where reads are short. */
static inline int keyspace_pause(const struct keyspace_pause *pause)
{
    return pause != NULL ? pause->call(pause->arg) : 0;
}

/* Keys that have a record, expired ones included: O(1). */
int keyspace_records(const struct keyspace *ks, struct ps_view *view, unsigned db, uint64_t *count);

/* Keys that are live at now_ms. Exact; O(log n) and one step for each index row that is due. */
int keyspace_count(const struct keyspace *ks, struct ps_view *view, unsigned db, int64_t now_ms,
                   const struct keyspace_pause *pause, uint64_t *count);

/* What a walk tells of each key it meets; false ends the walk behind this key. */
typedef bool (*keyspace_visit)(void *arg, struct ps_slice key, const struct key_entry *entry);

/* Visits one live key, each about equally likely; PS_NOTFOUND: there is none. O(log n) unless
 * expired keys abound. */
int keyspace_random(const struct keyspace *ks, struct ps_view *view, unsigned db, int64_t now_ms,
                    const struct keyspace_pause *pause, keyspace_visit visit, void *arg);

struct keyspace_walk {
    unsigned db;
    int64_t now_ms;
    struct ps_slice pattern; /* data NULL: all; a literal beginning is sought, not searched for */
    uint64_t limit;          /* keys to look at, at most; 0: all */
    keyspace_visit visit;    /* gets keys that match, expired ones (as KEY_EXPIRED) included */
    void *arg;
    const struct keyspace_pause *pause; /* or NULL */
};

/* All keys in byte order (KEYS). */
int keyspace_walk_all(const struct keyspace *ks, struct ps_view *view,
                      const struct keyspace_walk *walk);

/* One step of SCAN: from the position that *cursor stands for (0: the beginning), and sets *cursor
 * to where the next step goes on (0: that was all). See scan.h for what a cursor promises. */
int keyspace_walk_step(struct keyspace *ks, struct ps_view *view, const struct keyspace_walk *walk,
                       uint64_t *cursor);

/* ---- background work ------------------------------------------------------------------------ */

/* At most `budget` steps of due work: expired keys removed, index rows re-filed, rows of objects
 * that have no record any more removed. Reserves for itself; PS_BUSY (nothing was done by the last
 * step) means commit and call again. *done: steps taken, also when it fails; *more: due work is
 * left. */
int keyspace_maintain(struct keyspace *ks, struct ps_txn *txn, int64_t now_ms, size_t budget,
                      size_t *done, bool *more);

/* Reads into memory, waiting for the disk, what keyspace_maintain() will look at: up to `budget`
 * due rows of each database, with their keys. Returns how many. Any thread. */
size_t keyspace_touch_due(const struct keyspace *ks, struct ps_view *view, int64_t now_ms,
                          size_t budget);

/* Removes the key if it has expired at now_ms. Reserves for itself. */
int keyspace_expire_key(struct keyspace *ks, struct ps_txn *txn, unsigned db, struct ps_slice key,
                        int64_t now_ms);

/* ---- statistics ----------------------------------------------------------------------------- */

struct keyspace_stat {
    uint64_t keys, expires;
    int64_t avg_ttl_ms;
};
int keyspace_stat_db(struct keyspace *ks, struct ps_view *view, unsigned db, int64_t now_ms,
                     struct keyspace_stat *stat);

struct keyspace_counters {
    uint64_t hits, misses, expired;
};
void keyspace_counters(struct keyspace *ks, struct keyspace_counters *counters);
void keyspace_counters_reset(struct keyspace *ks);

/* Counts look-ups for the client; `who` tells threads apart (any address of the caller's own). */
void keyspace_count_lookups(struct keyspace *ks, const void *who, size_t hits, size_t misses);

#endif
