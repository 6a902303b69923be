/*
 * engine_pando.c - libpandostore behind the interface of the engine benchmark.
 *
 * Options are the defaults but for the dirty memory, which is what the server would choose on a
 * machine of 2 GiB or more. Counters are merged.
 */
#include "bench/support/engines.h"
#include "bench/support/measure.h"
#include "storage/pandostore.h"

#include <stdlib.h>
#include <string.h>

#define DIRTY_MEMORY (UINT64_C(256) << 20)

struct bench_db {
    struct ps_store *store;
    ps_tree tree;
    size_t key, value;
    enum ps_durability level;
    const char *dir; /* the configuration's */
};

struct bench_reader {
    struct bench_db *db;
    struct ps_snapshot *snap;
};

static void must(const struct bench_db *db, int rc, const char *what)
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

static void open_store(struct bench_db *db)
{
    struct ps_options options = {.durability = db->level, .dirty_memory = DIRTY_MEMORY};
    must(db, ps_open(db->dir, &options, &db->store, NULL, NULL), "open");
}

static struct bench_db *pando_open(const struct bench_config *config)
{
    struct bench_db *db = calloc(1, sizeof(*db));
    if (db == NULL) {
        die("out of memory");
    }
    db->key = config->key;
    db->value = config->value;
    db->level = level_of(config->level);
    db->dir = config->dir;
    open_store(db);
    struct ps_txn *txn;
    must(db, ps_begin(db->store, &txn), "begin");
    must(db, ps_tree_create(txn, (struct ps_slice){"bench", 5}, &db->tree), "create");
    struct ps_tree_options adds = {.merge = "add"};
    must(db, ps_tree_set(txn, db->tree, &adds), "options");
    must(db, ps_commit(txn, db->level, NULL), "commit");
    return db;
}

static void pando_close(struct bench_db *db)
{
    ps_close(db->store, false);
    free(db);
}

static void pando_set_level(struct bench_db *db, enum bench_level level)
{
    db->level = level_of(level);
    must(db, ps_set_durability(db->store, db->level), "set durability");
}

static void pando_apply(struct bench_db *db, struct bench_op *ops, size_t n)
{
    struct ps_txn *txn;
    must(db, ps_begin(db->store, &txn), "begin");
    size_t puts = 0; /* a merge counts as two */
    for (size_t i = 0; i < n; i++) {
        puts += ops[i].kind == BENCH_GET ? 0 : ops[i].kind == BENCH_ADD ? 2 : 1;
    }
    must(db, ps_reserve(txn, puts, puts * (db->key + db->value)), "reserve");
    for (size_t i = 0; i < n; i++) {
        struct ps_slice value, key = {ops[i].key, db->key};
        int rc;
        switch (ops[i].kind) {
        case BENCH_PUT:
            value = (struct ps_slice){ops[i].value, db->value};
            must(db, ps_put(txn, db->tree, key, value), "put");
            break;
        case BENCH_DELETE:
            rc = ps_delete(txn, db->tree, key);
            must(db, rc == PS_NOTFOUND ? 0 : rc, "delete");
            break;
        case BENCH_GET:
            must(db, ps_get(ps_txn_view(txn), db->tree, key, &value), "get");
            ops[i].word = bench_word(value.data);
            break;
        case BENCH_ADD:
            value = (struct ps_slice){&ops[i].word, sizeof(ops[i].word)};
            must(db, ps_merge(txn, db->tree, key, value), "merge");
            break;
        }
    }
    must(db, ps_commit(txn, db->level, NULL), "commit");
}

static void pando_settle(struct bench_db *db)
{
    must(db, ps_checkpoint(db->store), "checkpoint");
}

static struct bench_reader *pando_reader_open(struct bench_db *db)
{
    struct bench_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        die("out of memory");
    }
    reader->db = db;
    must(db, ps_snapshot_new(db->store, &reader->snap), "snapshot");
    return reader;
}

static void pando_reader_close(struct bench_reader *reader)
{
    ps_snapshot_free(reader->snap);
    free(reader);
}

static void pando_read_begin(struct bench_reader *reader)
{
    ps_snapshot_renew(reader->snap);
}

static void pando_read_end(struct bench_reader *reader)
{
    ps_snapshot_reset(reader->snap);
}

static uint64_t pando_get(struct bench_reader *reader, const void *key)
{
    struct bench_db *db = reader->db;
    struct ps_slice value, k = {key, db->key};
    must(db, ps_get(ps_snapshot_view(reader->snap), db->tree, k, &value), "get");
    return bench_word(value.data);
}

static uint64_t pando_get_many(struct bench_reader *reader, const uint8_t *keys)
{
    struct bench_db *db = reader->db;
    struct ps_lookup lookups[BENCH_MANY];
    for (size_t i = 0; i < BENCH_MANY; i++) {
        lookups[i].tree = db->tree;
        lookups[i].key = (struct ps_slice){keys + i * db->key, db->key};
    }
    ps_get_many(ps_snapshot_view(reader->snap), lookups, BENCH_MANY);
    uint64_t sum = 0;
    for (size_t i = 0; i < BENCH_MANY; i++) {
        must(db, lookups[i].rc, "get_many");
        sum += bench_word(lookups[i].value.data);
    }
    return sum;
}

static uint64_t pando_scan(struct bench_reader *reader, const void *key, size_t n)
{
    struct bench_db *db = reader->db;
    uint64_t sum = 0;
    struct ps_cursor *cursor;
    must(db, ps_cursor_open(ps_snapshot_view(reader->snap), db->tree, &cursor), "cursor");
    int rc = ps_cursor_seek(cursor, (struct ps_slice){key, db->key}, PS_GE);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct ps_slice k, value;
        must(db, ps_cursor_get(cursor, &k, &value), "cursor get");
        sum += bench_word(value.data) + k.len;
        rc = ps_cursor_next(cursor);
    }
    if (rc != 0 && rc != PS_NOTFOUND) {
        must(db, rc, "scan");
    }
    ps_cursor_close(cursor);
    return sum;
}

static void pando_trim(struct bench_db *db)
{
    must(db, ps_shrink(db->store, NULL, NULL), "shrink");
}

static void pando_compact(struct bench_db *db)
{
    struct ps_copy_report report;
    int rc = ps_close(db->store, true);
    db->store = NULL;
    must(db, rc, "close");
    must(db, ps_compact(db->dir, NULL, NULL, &report, NULL), "compact");
    open_store(db);
}

const struct bench_engine bench_pando = {
    .name = "pando",
    .file = "pando.db",
    .open = pando_open,
    .close = pando_close,
    .set_level = pando_set_level,
    .apply = pando_apply,
    .settle = pando_settle,
    .trim = pando_trim,
    .compact = pando_compact,
    .reader_open = pando_reader_open,
    .reader_close = pando_reader_close,
    .read_begin = pando_read_begin,
    .read_end = pando_read_end,
    .get = pando_get,
    .get_many = pando_get_many,
    .scan = pando_scan,
};
