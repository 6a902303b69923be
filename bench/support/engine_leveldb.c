/*
 * engine_leveldb.c - LevelDB behind the interface of the engine benchmark.
 *
 * A cache that holds the data, Bloom filters of 10 bits, a write buffer of 64 MiB (its default, 4,
 * is slower), no compression (as with RocksDB). Its batches cannot read: a lock orders those that
 * do.
 */
#include "bench/support/engines.h"
#include "bench/support/measure.h"

#include <leveldb/c.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_BYTES  ((size_t)1 << 30)
#define BUFFER_BYTES ((size_t)64 << 20)

struct bench_db {
    leveldb_t *db;
    leveldb_options_t *options;
    leveldb_cache_t *cache;
    leveldb_filterpolicy_t *filter;
    leveldb_writeoptions_t *write;
    leveldb_readoptions_t *read;
    pthread_mutex_t mu;
    size_t key, value;
};

struct bench_reader {
    struct bench_db *db;
    leveldb_readoptions_t *options;
    const leveldb_snapshot_t *snapshot;
};

static void must(char *error, const char *what)
{
    if (error != NULL) {
        die("leveldb: %s: %s", what, error);
    }
}

static struct bench_db *level_open(const struct bench_config *config)
{
    struct bench_db *db = calloc(1, sizeof(*db));
    if (db == NULL) {
        die("out of memory");
    }
    db->key = config->key;
    db->value = config->value;
    pthread_mutex_init(&db->mu, NULL);
    db->options = leveldb_options_create();
    db->cache = leveldb_cache_create_lru(CACHE_BYTES);
    db->filter = leveldb_filterpolicy_create_bloom(10);
    leveldb_options_set_create_if_missing(db->options, 1);
    leveldb_options_set_compression(db->options, leveldb_no_compression);
    leveldb_options_set_cache(db->options, db->cache);
    leveldb_options_set_filter_policy(db->options, db->filter);
    leveldb_options_set_write_buffer_size(db->options, BUFFER_BYTES);
    db->write = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(db->write, config->level == BENCH_DEVICE);
    db->read = leveldb_readoptions_create();
    char *error = NULL;
    db->db = leveldb_open(db->options, config->dir, &error);
    must(error, "open");
    return db;
}

static void level_close(struct bench_db *db)
{
    leveldb_close(db->db);
    leveldb_readoptions_destroy(db->read);
    leveldb_writeoptions_destroy(db->write);
    leveldb_options_destroy(db->options);
    leveldb_cache_destroy(db->cache);
    leveldb_filterpolicy_destroy(db->filter);
    pthread_mutex_destroy(&db->mu);
    free(db);
}

static void level_set_level(struct bench_db *db, enum bench_level level)
{
    leveldb_writeoptions_set_sync(db->write, level == BENCH_DEVICE);
}

/* 0 if it is not there. */
static uint64_t get_with(struct bench_db *db, const leveldb_readoptions_t *options, const void *key,
                         bool *there)
{
    char *error = NULL;
    size_t len;
    char *value = leveldb_get(db->db, options, key, db->key, &len, &error);
    must(error, "get");
    *there = value != NULL;
    uint64_t word = value != NULL ? bench_word(value) : 0;
    leveldb_free(value);
    return word;
}

static void level_apply(struct bench_db *db, struct bench_op *ops, size_t n)
{
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    bool there, reads = false;
    for (size_t i = 0; i < n; i++) {
        const char *key = ops[i].key;
        if (!reads && (ops[i].kind == BENCH_GET || ops[i].kind == BENCH_ADD)) {
            reads = true;
            pthread_mutex_lock(&db->mu);
        }
        uint64_t sum;
        switch (ops[i].kind) {
        case BENCH_PUT:
            leveldb_writebatch_put(batch, key, db->key, ops[i].value, db->value);
            break;
        case BENCH_DELETE:
            leveldb_writebatch_delete(batch, key, db->key);
            break;
        case BENCH_GET:
            ops[i].word = get_with(db, db->read, key, &there);
            break;
        case BENCH_ADD:
            sum = get_with(db, db->read, key, &there) + ops[i].word;
            leveldb_writebatch_put(batch, key, db->key, (const char *)&sum, sizeof(sum));
            break;
        }
    }
    char *error = NULL;
    leveldb_write(db->db, db->write, batch, &error);
    must(error, "write");
    if (reads) {
        pthread_mutex_unlock(&db->mu);
    }
    leveldb_writebatch_destroy(batch);
}

/* LevelDB has no call that flushes; the log has everything, and a synced write syncs it. */
static void level_settle(struct bench_db *db)
{
    leveldb_writeoptions_t *synced = leveldb_writeoptions_create();
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    char *error = NULL;
    leveldb_writeoptions_set_sync(synced, 1);
    leveldb_write(db->db, synced, batch, &error);
    must(error, "sync");
    leveldb_writebatch_destroy(batch);
    leveldb_writeoptions_destroy(synced);
}

static void level_compact(struct bench_db *db)
{
    leveldb_compact_range(db->db, NULL, 0, NULL, 0);
}

static struct bench_reader *level_reader_open(struct bench_db *db)
{
    struct bench_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        die("out of memory");
    }
    reader->db = db;
    reader->options = leveldb_readoptions_create();
    return reader;
}

static void level_reader_close(struct bench_reader *reader)
{
    leveldb_readoptions_destroy(reader->options);
    free(reader);
}

static void level_read_begin(struct bench_reader *reader)
{
    reader->snapshot = leveldb_create_snapshot(reader->db->db);
    leveldb_readoptions_set_snapshot(reader->options, reader->snapshot);
}

static void level_read_end(struct bench_reader *reader)
{
    leveldb_release_snapshot(reader->db->db, reader->snapshot);
}

static uint64_t level_get(struct bench_reader *reader, const void *key)
{
    bool there;
    uint64_t word = get_with(reader->db, reader->options, key, &there);
    if (!there) {
        die("leveldb: get: no such key");
    }
    return word;
}

static uint64_t level_scan(struct bench_reader *reader, const void *key, size_t n)
{
    uint64_t sum = 0;
    leveldb_iterator_t *it = leveldb_create_iterator(reader->db->db, reader->options);
    leveldb_iter_seek(it, key, reader->db->key);
    for (size_t i = 0; i < n && leveldb_iter_valid(it); i++) {
        size_t key_len, value_len;
        (void)leveldb_iter_key(it, &key_len);
        sum += bench_word(leveldb_iter_value(it, &value_len)) + key_len;
        leveldb_iter_next(it);
    }
    leveldb_iter_destroy(it);
    return sum;
}

const struct bench_engine bench_leveldb = {
    .name = "leveldb",
    .open = level_open,
    .close = level_close,
    .set_level = level_set_level,
    .apply = level_apply,
    .settle = level_settle,
    .compact = level_compact,
    .reader_open = level_reader_open,
    .reader_close = level_reader_close,
    .read_begin = level_read_begin,
    .read_end = level_read_end,
    .get = level_get,
    .scan = level_scan,
};
