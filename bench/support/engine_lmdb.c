/*
 * engine_lmdb.c - LMDB behind the interface of the engine benchmark.
 *
 * Used as its manual advises: one read transaction, reset and renewed; a map large enough;
 * MDB_NOSYNC where nothing waits for the device (LMDB's only way to leave out the sync; unlike
 * Pando's everysec, a crash of the machine may then cost the whole file).
 */
#include "bench/support/engines.h"
#include "bench/support/measure.h"

#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

#define MAP_SIZE (UINT64_C(16) << 30)

struct bench_db {
    MDB_env *env;
    MDB_dbi dbi;
    MDB_txn *read;
    MDB_cursor *cursor;
};

static void must(int rc, const char *what)
{
    if (rc != 0) {
        die("lmdb: %s: %s", what, mdb_strerror(rc));
    }
}

static struct bench_db *lmdb_open(const char *dir, enum bench_level level)
{
    struct bench_db *db = calloc(1, sizeof(*db));
    if (db == NULL) {
        die("out of memory");
    }
    must(mdb_env_create(&db->env), "create");
    must(mdb_env_set_mapsize(db->env, MAP_SIZE), "map size");
    unsigned flags = MDB_NORDAHEAD | (level == BENCH_DEVICE ? 0 : MDB_NOSYNC);
    must(mdb_env_open(db->env, dir, flags, 0600), "open");
    MDB_txn *txn;
    must(mdb_txn_begin(db->env, NULL, 0, &txn), "begin");
    must(mdb_dbi_open(txn, NULL, 0, &db->dbi), "dbi");
    must(mdb_txn_commit(txn), "commit");
    must(mdb_txn_begin(db->env, NULL, MDB_RDONLY, &db->read), "begin read");
    must(mdb_cursor_open(db->read, db->dbi, &db->cursor), "cursor");
    mdb_txn_reset(db->read);
    return db;
}

static void lmdb_close(struct bench_db *db)
{
    mdb_cursor_close(db->cursor);
    mdb_txn_abort(db->read);
    mdb_env_close(db->env);
    free(db);
}

static void lmdb_set_level(struct bench_db *db, enum bench_level level)
{
    must(mdb_env_set_flags(db->env, MDB_NOSYNC, level != BENCH_DEVICE), "flags");
}

static void lmdb_put(struct bench_db *db, const uint8_t *keys, const uint8_t *values, size_t n)
{
    MDB_txn *txn;
    must(mdb_txn_begin(db->env, NULL, 0, &txn), "begin");
    for (size_t i = 0; i < n; i++) {
        MDB_val key = {BENCH_KEY, (void *)(uintptr_t)(keys + i * BENCH_KEY)};
        MDB_val value = {BENCH_VALUE, (void *)(uintptr_t)(values + i * BENCH_VALUE)};
        must(mdb_put(txn, db->dbi, &key, &value, 0), "put");
    }
    must(mdb_txn_commit(txn), "commit");
}

static void lmdb_settle(struct bench_db *db)
{
    must(mdb_env_sync(db->env, 1), "sync");
}

static void lmdb_read_begin(struct bench_db *db)
{
    must(mdb_txn_renew(db->read), "renew");
    must(mdb_cursor_renew(db->read, db->cursor), "renew cursor");
}

static void lmdb_read_end(struct bench_db *db)
{
    mdb_txn_reset(db->read);
}

static uint64_t first_bytes(const MDB_val *value)
{
    uint64_t word;
    memcpy(&word, value->mv_data, sizeof(word));
    return word;
}

static uint64_t lmdb_get(struct bench_db *db, const uint8_t *key)
{
    MDB_val value, k = {BENCH_KEY, (void *)(uintptr_t)key};
    must(mdb_get(db->read, db->dbi, &k, &value), "get");
    return first_bytes(&value);
}

static uint64_t lmdb_get_many(struct bench_db *db, const uint8_t *keys)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < BENCH_MANY; i++) {
        sum += lmdb_get(db, keys + i * BENCH_KEY);
    }
    return sum;
}

static uint64_t lmdb_scan(struct bench_db *db, const uint8_t *key, size_t n)
{
    uint64_t sum = 0;
    MDB_val value, k = {BENCH_KEY, (void *)(uintptr_t)key};
    int rc = mdb_cursor_get(db->cursor, &k, &value, MDB_SET_RANGE);
    for (size_t i = 0; i < n && rc == 0; i++) {
        sum += first_bytes(&value) + k.mv_size;
        rc = mdb_cursor_get(db->cursor, &k, &value, MDB_NEXT);
    }
    if (rc != 0 && rc != MDB_NOTFOUND) {
        must(rc, "scan");
    }
    return sum;
}

const struct bench_engine bench_lmdb = {
    .name = "lmdb",
    .open = lmdb_open,
    .close = lmdb_close,
    .set_level = lmdb_set_level,
    .put = lmdb_put,
    .settle = lmdb_settle,
    .read_begin = lmdb_read_begin,
    .read_end = lmdb_read_end,
    .get = lmdb_get,
    .get_many = lmdb_get_many,
    .scan = lmdb_scan,
};
