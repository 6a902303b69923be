/*
 * scan.c - a bounded table of scan positions, least recently used first out. Promises: scan.h.
 *
 * Invariants
 *  1. by_tag[t] is i + 1 exactly if entry i is in use with tag t; 0 if no entry has it.
 *  2. Entries in use stand in one ring through `newer` and `older`, with entry `entries` (never
 *     used) as its head: head.older is the newest, head.newer the oldest. Free ones are chained
 *     through `older`.
 *  3. `bytes` is the sum of the key lengths of the entries in use.
 */
#include "server/keyspace/scan.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ENTRIES 16384u
#define NONE        UINT16_MAX

struct entry {
    char *key;
    size_t len;
    uint64_t rank;
    unsigned db;
    uint16_t tag;
    uint16_t previous; /* tag of the entry whose step led here; 0: none */
    uint16_t newer, older;
};

struct scan_table {
    pthread_mutex_t mutex;
    size_t entries, max_bytes, bytes;
    uint16_t free;     /* first free entry, or NONE */
    uint16_t last_tag; /* the tag given out last */
    uint16_t by_tag[SCAN_MAX_TAG + 1];
    struct entry v[]; /* entries + 1 */
};

int scan_table_new(size_t entries, size_t bytes, struct scan_table **table)
{
    assert(entries >= 1 && entries <= MAX_ENTRIES);
    struct scan_table *t = calloc(1, sizeof(*t) + (entries + 1) * sizeof(t->v[0]));

    if (!t)
        return PS_NOMEM;
    if (pthread_mutex_init(&t->mutex, NULL) != 0) {
        free(t);
        return PS_NOMEM;
    }
    t->entries = entries;
    t->max_bytes = bytes;
    for (size_t i = 0; i < entries; i++)
        t->v[i].older = i + 1 < entries ? (uint16_t)(i + 1) : NONE;
    t->v[entries].newer = t->v[entries].older = (uint16_t)entries;
    *table = t;
    return 0;
}

void scan_table_free(struct scan_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->entries; i++)
        free(table->v[i].key);
    pthread_mutex_destroy(&table->mutex);
    free(table);
}

static void unlink_entry(struct scan_table *t, uint16_t i)
{
    struct entry *e = &t->v[i];

    t->v[e->newer].older = e->older;
    t->v[e->older].newer = e->newer;
}

static void link_newest(struct scan_table *t, uint16_t i)
{
    struct entry *e = &t->v[i], *head = &t->v[t->entries];

    e->older = head->older;
    e->newer = (uint16_t)t->entries;
    t->v[e->older].newer = i;
    head->older = i;
}

static void release(struct scan_table *t, uint16_t i)
{
    struct entry *e = &t->v[i];

    unlink_entry(t, i);
    t->by_tag[e->tag] = 0;
    t->bytes -= e->len;
    free(e->key);
    *e = (struct entry){.older = t->free};
    t->free = i;
}

static uint16_t unused_tag(struct scan_table *t)
{
    do
        t->last_tag = t->last_tag < SCAN_MAX_TAG ? t->last_tag + 1 : 1;
    while (t->by_tag[t->last_tag] != 0);
    return t->last_tag;
}

/* The entry that a cursor names, or NONE. */
static uint16_t find(const struct scan_table *t, unsigned db, uint64_t cursor)
{
    uint64_t tag = cursor >> SCAN_RANK_BITS;

    if (tag == 0 || tag > SCAN_MAX_TAG || t->by_tag[tag] == 0)
        return NONE;
    uint16_t i = (uint16_t)(t->by_tag[tag] - 1);
    return t->v[i].db == db && t->v[i].rank == scan_rank(cursor) ? i : NONE;
}

uint64_t scan_save(struct scan_table *table, unsigned db, uint64_t rank, struct ps_slice key,
                   uint64_t previous)
{
    char *copy = key.len > 0 && key.len <= table->max_bytes ? malloc(key.len) : NULL;

    rank = scan_rank(rank);
    if (!copy)
        return rank;
    memcpy(copy, key.data, key.len);
    pthread_mutex_lock(&table->mutex);
    uint16_t before = find(table, db, previous);
    if (before != NONE && table->by_tag[table->v[before].previous] != 0)
        release(table, (uint16_t)(table->by_tag[table->v[before].previous] - 1));
    while (table->free == NONE || table->bytes + key.len > table->max_bytes)
        release(table, table->v[table->entries].newer);
    uint16_t i = table->free;
    table->free = table->v[i].older;
    uint16_t tag = unused_tag(table);
    before = find(table, db, previous);
    table->v[i] = (struct entry){.key = copy,
                                 .len = key.len,
                                 .rank = rank,
                                 .db = db,
                                 .tag = tag,
                                 .previous = before == NONE ? 0 : table->v[before].tag};
    table->by_tag[tag] = (uint16_t)(i + 1);
    table->bytes += key.len;
    link_newest(table, i);
    pthread_mutex_unlock(&table->mutex);
    return (uint64_t)tag << SCAN_RANK_BITS | rank;
}

int scan_load(struct scan_table *table, unsigned db, uint64_t cursor, char **key, size_t *len)
{
    int rc = PS_NOTFOUND;

    pthread_mutex_lock(&table->mutex);
    uint16_t i = find(table, db, cursor);
    if (i != NONE) {
        *len = table->v[i].len;
        *key = malloc(*len);
        rc = *key ? 0 : PS_NOMEM;
        if (*key)
            memcpy(*key, table->v[i].key, *len);
        unlink_entry(table, i);
        link_newest(table, i);
    }
    pthread_mutex_unlock(&table->mutex);
    return rc;
}
