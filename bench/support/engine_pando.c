/*
 * engine_pando.c - libpandostore behind the interface of the engine benchmark.
 *
 * Options are the defaults but for the dirty memory, which is what the server would choose on a
 * machine of 2 GiB or more.
 */
#include "bench/support/engines.h"
#include "bench/support/measure.h"
#include "storage/pandostore.h"

#include <stdlib.h>
#include <string.h>

#define DIRTY_MEMORY (UINT64_C(256) << 20)

struct bench_db {
    struct ps_store *store;
    struct ps_snapshot *snap;
    struct ps_cursor *cursor;
    ps_tree tree;
    enum ps_durability level;
};

static void must(struct bench_db *db, int rc, const char *what)
{
    if (rc != 0) {
        struct ps_fault fault = {0};
        if (db->store != NULL) {
            ps_last_fault(db->store, &fault);
        }
        die("pando: %s: %s %s %s", what, ps_strerror(rc), fault.file, fault.what);
    }
}

static enum ps_durability level_of(enum bench_level level)
{
    static const enum ps_durability levels[] = {
        [BENCH_NOTHING] = PS_NONE, [BENCH_SYSTEM] = PS_EVERYSEC, [BENCH_DEVICE] = PS_ALWAYS};
    return levels[level];
}

static struct bench_db *pando_open(const char *dir, enum bench_level level)
{
    struct bench_db *db = calloc(1, sizeof(*db));
    if (db == NULL) {
        die("out of memory");
    }
    db->level = level_of(level);
    struct ps_options options = {.durability = db->level, .dirty_memory = DIRTY_MEMORY};
    must(db, ps_open(dir, &options, &db->store, NULL, NULL), "open");
    struct ps_txn *txn;
    must(db, ps_begin(db->store, &txn), "begin");
    must(db, ps_tree_create(txn, (struct ps_slice){"bench", 5}, &db->tree), "create");
    must(db, ps_commit(txn, db->level, NULL), "commit");
    must(db, ps_snapshot_new(db->store, &db->snap), "snapshot");
    return db;
}

static void pando_close(struct bench_db *db)
{
    ps_snapshot_free(db->snap);
    ps_close(db->store, false);
    free(db);
}

static void pando_set_level(struct bench_db *db, enum bench_level level)
{
    db->level = level_of(level);
    must(db, ps_set_durability(db->store, db->level), "set durability");
}

static void pando_put(struct bench_db *db, const uint8_t *keys, const uint8_t *values, size_t n)
{
    struct ps_txn *txn;
    must(db, ps_begin(db->store, &txn), "begin");
    must(db, ps_reserve(txn, n, n * (BENCH_KEY + BENCH_VALUE)), "reserve");
    for (size_t i = 0; i < n; i++) {
        struct ps_slice key = {keys + i * BENCH_KEY, BENCH_KEY};
        struct ps_slice value = {values + i * BENCH_VALUE, BENCH_VALUE};
        must(db, ps_put(txn, db->tree, key, value), "put");
    }
    must(db, ps_commit(txn, db->level, NULL), "commit");
}

static void pando_settle(struct bench_db *db)
{
    must(db, ps_checkpoint(db->store), "checkpoint");
}

static void pando_read_begin(struct bench_db *db)
{
    ps_snapshot_renew(db->snap);
    must(db, ps_cursor_open(ps_snapshot_view(db->snap), db->tree, &db->cursor), "cursor");
}

static void pando_read_end(struct bench_db *db)
{
    ps_cursor_close(db->cursor);
    ps_snapshot_reset(db->snap);
}

static uint64_t first_bytes(struct ps_slice value)
{
    uint64_t word;
    memcpy(&word, value.data, sizeof(word));
    return word;
}

static uint64_t pando_get(struct bench_db *db, const uint8_t *key)
{
    struct ps_slice value, k = {key, BENCH_KEY};
    must(db, ps_get(ps_snapshot_view(db->snap), db->tree, k, &value), "get");
    return first_bytes(value);
}

static uint64_t pando_get_many(struct bench_db *db, const uint8_t *keys)
{
    struct ps_lookup lookups[BENCH_MANY];
    for (size_t i = 0; i < BENCH_MANY; i++) {
        lookups[i].tree = db->tree;
        lookups[i].key = (struct ps_slice){keys + i * BENCH_KEY, BENCH_KEY};
    }
    ps_get_many(ps_snapshot_view(db->snap), lookups, BENCH_MANY);
    uint64_t sum = 0;
    for (size_t i = 0; i < BENCH_MANY; i++) {
        must(db, lookups[i].rc, "get_many");
        sum += first_bytes(lookups[i].value);
    }
    return sum;
}

static uint64_t pando_scan(struct bench_db *db, const uint8_t *key, size_t n)
{
    uint64_t sum = 0;
    int rc = ps_cursor_seek(db->cursor, (struct ps_slice){key, BENCH_KEY}, PS_GE);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct ps_slice k, value;
        must(db, ps_cursor_get(db->cursor, &k, &value), "cursor get");
        sum += first_bytes(value) + k.len;
        rc = ps_cursor_next(db->cursor);
    }
    if (rc != 0 && rc != PS_NOTFOUND) {
        must(db, rc, "scan");
    }
    return sum;
}

const struct bench_engine bench_pando = {
    .name = "pando",
    .open = pando_open,
    .close = pando_close,
    .set_level = pando_set_level,
    .put = pando_put,
    .settle = pando_settle,
    .read_begin = pando_read_begin,
    .read_end = pando_read_end,
    .get = pando_get,
    .get_many = pando_get_many,
    .scan = pando_scan,
};
