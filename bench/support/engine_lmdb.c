/*
 * engine_lmdb.c - LMDB behind the interface of the engine benchmark, twice: with its default, and
 * with MDB_WRITEMAP.
 *
 * Used as its manual advises: a read transaction and a cursor for each reader, reset and renewed; a
 * map large enough; MDB_NOSYNC where nothing waits for the device (LMDB's only way to leave out the
 * sync; unlike Pando's everysec, a crash of the machine may then cost the whole file).
 */
#include "bench/support/engines.h"
#include "bench/support/measure.h"

#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

#define MAP_SIZE (UINT64_C(24) << 30)

struct bench_db {
    MDB_env *env;
    MDB_dbi dbi;
    size_t key, value;
};

struct bench_reader {
    struct bench_db *db;
    MDB_txn *txn;
    MDB_cursor *cursor;
};

static void must(int rc, const char *what)
{
    if (rc != 0) {
        die("lmdb: %s: %s", what, mdb_strerror(rc));
    }
}

static struct bench_db *open_with(const struct bench_config *config, unsigned more)
{
    struct bench_db *db = calloc(1, sizeof(*db));
    if (db == NULL) {
        die("out of memory");
    }
    db->key = config->key;
    db->value = config->value;
    must(mdb_env_create(&db->env), "create");
    must(mdb_env_set_mapsize(db->env, MAP_SIZE), "map size");
    unsigned flags = MDB_NORDAHEAD | MDB_NOTLS | (config->level == BENCH_DEVICE ? 0 : MDB_NOSYNC);
    must(mdb_env_open(db->env, config->dir, flags | more, 0600), "open");
    MDB_txn *txn;
    must(mdb_txn_begin(db->env, NULL, 0, &txn), "begin");
    must(mdb_dbi_open(txn, NULL, 0, &db->dbi), "dbi");
    must(mdb_txn_commit(txn), "commit");
    return db;
}

static struct bench_db *lmdb_open(const struct bench_config *config)
{
    return open_with(config, 0);
}

static struct bench_db *lmdb_writemap_open(const struct bench_config *config)
{
    return open_with(config, MDB_WRITEMAP);
}

static void lmdb_close(struct bench_db *db)
{
    mdb_env_close(db->env);
    free(db);
}

static void lmdb_set_level(struct bench_db *db, enum bench_level level)
{
    must(mdb_env_set_flags(db->env, MDB_NOSYNC, level != BENCH_DEVICE), "flags");
}

static void add(struct bench_db *db, MDB_txn *txn, MDB_val *key, uint64_t amount)
{
    MDB_val value;
    int rc = mdb_get(txn, db->dbi, key, &value);
    if (rc != MDB_NOTFOUND) {
        must(rc, "get");
        amount += bench_word(value.mv_data);
    }
    value = (MDB_val){sizeof(amount), &amount};
    must(mdb_put(txn, db->dbi, key, &value, 0), "put");
}

static void lmdb_apply(struct bench_db *db, struct bench_op *ops, size_t n)
{
    MDB_txn *txn;
    must(mdb_txn_begin(db->env, NULL, 0, &txn), "begin");
    for (size_t i = 0; i < n; i++) {
        MDB_val value, key = {db->key, (void *)(uintptr_t)ops[i].key};
        int rc;
        switch (ops[i].kind) {
        case BENCH_PUT:
            value = (MDB_val){db->value, (void *)(uintptr_t)ops[i].value};
            must(mdb_put(txn, db->dbi, &key, &value, 0), "put");
            break;
        case BENCH_DELETE:
            rc = mdb_del(txn, db->dbi, &key, NULL);
            must(rc == MDB_NOTFOUND ? 0 : rc, "delete");
            break;
        case BENCH_GET:
            must(mdb_get(txn, db->dbi, &key, &value), "get");
            ops[i].word = bench_word(value.mv_data);
            break;
        case BENCH_ADD:
            add(db, txn, &key, ops[i].word);
            break;
        }
    }
    must(mdb_txn_commit(txn), "commit");
}

static void lmdb_settle(struct bench_db *db)
{
    must(mdb_env_sync(db->env, 1), "sync");
}

static struct bench_reader *lmdb_reader_open(struct bench_db *db)
{
    struct bench_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        die("out of memory");
    }
    reader->db = db;
    must(mdb_txn_begin(db->env, NULL, MDB_RDONLY, &reader->txn), "begin read");
    must(mdb_cursor_open(reader->txn, db->dbi, &reader->cursor), "cursor");
    mdb_txn_reset(reader->txn);
    return reader;
}

static void lmdb_reader_close(struct bench_reader *reader)
{
    mdb_cursor_close(reader->cursor);
    mdb_txn_abort(reader->txn);
    free(reader);
}

static void lmdb_read_begin(struct bench_reader *reader)
{
    must(mdb_txn_renew(reader->txn), "renew");
    must(mdb_cursor_renew(reader->txn, reader->cursor), "renew cursor");
}

static void lmdb_read_end(struct bench_reader *reader)
{
    mdb_txn_reset(reader->txn);
}

static uint64_t lmdb_get(struct bench_reader *reader, const void *key)
{
    MDB_val value, k = {reader->db->key, (void *)(uintptr_t)key};
    must(mdb_get(reader->txn, reader->db->dbi, &k, &value), "get");
    return bench_word(value.mv_data);
}

static uint64_t lmdb_get_kept(struct bench_reader *reader, const void *key)
{
    MDB_val value, k = {reader->db->key, (void *)(uintptr_t)key};
    must(mdb_cursor_get(reader->cursor, &k, &value, MDB_SET), "get");
    return bench_word(value.mv_data);
}

static uint64_t lmdb_scan(struct bench_reader *reader, const void *key, size_t n)
{
    uint64_t sum = 0;
    MDB_val value, k = {reader->db->key, (void *)(uintptr_t)key};
    int rc = mdb_cursor_get(reader->cursor, &k, &value, MDB_SET_RANGE);
    for (size_t i = 0; i < n && rc == 0; i++) {
        sum += bench_word(value.mv_data) + k.mv_size;
        rc = mdb_cursor_get(reader->cursor, &k, &value, MDB_NEXT);
    }
    if (rc != 0 && rc != MDB_NOTFOUND) {
        must(rc, "scan");
    }
    return sum;
}

#define LMDB(its_name, its_open)                                                         \
    {                                                                                    \
        .name = (its_name), .file = "data.mdb", .open = (its_open), .close = lmdb_close, \
        .set_level = lmdb_set_level, .apply = lmdb_apply, .settle = lmdb_settle,         \
        .reader_open = lmdb_reader_open, .reader_close = lmdb_reader_close,              \
        .read_begin = lmdb_read_begin, .read_end = lmdb_read_end, .get = lmdb_get,       \
        .get_kept = lmdb_get_kept, .scan = lmdb_scan,                                    \
    }

const struct bench_engine bench_lmdb = LMDB("lmdb", lmdb_open);
const struct bench_engine bench_lmdb_writemap = LMDB("lmdb-writemap", lmdb_writemap_open);
