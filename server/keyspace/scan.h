/*
 * scan.h - the positions of unfinished SCANs.
 *
 * A SCAN walks a tree in key order, and the client keeps a number between its steps. The number
 * cannot hold a key, so the server remembers the key at which each scan goes on:
 *
 *   cursor = tag * 2^38 + rank        below 2^53, so that any client's number type holds it
 *
 * rank is how many keys were before the position when the cursor was given out; the tag (1..32767)
 * names the entry of the table that holds the key itself.
 *
 * What a cursor promises
 *  1. While its entry is there, the scan goes on exactly at its key: a key that is present from the
 *     first step to the last is returned exactly once, whatever is written meanwhile.
 *  2. A cursor may be used again (a client that lost a reply): an entry is given up only when the
 *     cursor that its own step returned has been used. So a scan holds two entries at most.
 *  3. The table is bounded in entries and bytes; when it is full, the entry unused for the longest
 *     time goes. A cursor whose entry is gone (or from before a restart) goes on by its rank: keys
 *     may be missed or seen twice by as many as were removed or added before the position.
 *
 * Threads: any; one mutex, held for a copy of a key. Crash: nothing here is kept.
 */
#ifndef PANDO_SERVER_KEYSPACE_SCAN_H
#define PANDO_SERVER_KEYSPACE_SCAN_H

#include "storage/pandostore.h"

#include <stdint.h>

#define SCAN_RANK_BITS     38
#define SCAN_MAX_TAG       32767u
#define SCAN_TABLE_ENTRIES 4096u
#define SCAN_TABLE_BYTES   (16u << 20)

struct scan_table;

/* At most `entries` (1..16384) positions with keys of together at most `bytes`. */
int scan_table_new(size_t entries, size_t bytes, struct scan_table **table);
void scan_table_free(struct scan_table *table);

/* Remembers that a scan of database db goes on at `key`, the one with `rank` keys (at least 1)
 * before it, after the step that came with cursor `previous` (0: the first). Returns the new
 * cursor; where no entry can be had, one that works by rank alone. */
uint64_t scan_save(struct scan_table *table, unsigned db, uint64_t rank, struct ps_slice key,
                   uint64_t previous);

/* The position of a cursor: 0 and a copy of the key, to be freed by the caller (*key is NULL if its
 * length is 0); PS_NOTFOUND: go on by scan_rank(); PS_NOMEM. */
int scan_load(struct scan_table *table, unsigned db, uint64_t cursor, char **key, size_t *len);

static inline uint64_t scan_rank(uint64_t cursor)
{
    return cursor & ((UINT64_C(1) << SCAN_RANK_BITS) - 1);
}

#endif
