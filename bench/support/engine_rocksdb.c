/*
 * engine_rocksdb.c - RocksDB behind the interface of the engine benchmark.
 *
 * A block cache that holds the data, Bloom filters of 10 bits, two background threads, no
 * compression (the benchmark's values would be made small by it, and no other engine does that),
 * reads pinned in the cache instead of copied, counters by its merge operator.
 */
#include "bench/support/engines.h"
#include "bench/support/measure.h"

#include <rocksdb/c.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_BYTES ((size_t)1 << 30)

struct bench_db {
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_block_based_table_options_t *table;
    rocksdb_cache_t *cache;
    rocksdb_writeoptions_t *write;
    rocksdb_readoptions_t *read;
    size_t key, value;
};

struct bench_reader {
    struct bench_db *db;
    rocksdb_readoptions_t *options;
    const rocksdb_snapshot_t *snapshot;
};

static void must(char *error, const char *what)
{
    if (error != NULL) {
        die("rocksdb: %s: %s", what, error);
    }
}

static struct bench_db *rocks_open(const struct bench_config *config)
{
    struct bench_db *db = calloc(1, sizeof(*db));
    if (db == NULL) {
        die("out of memory");
    }
    db->key = config->key;
    db->value = config->value;
    db->options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(db->options, 1);
    rocksdb_options_increase_parallelism(db->options, 2);
    rocksdb_options_set_compression(db->options, rocksdb_no_compression);
    rocksdb_options_set_uint64add_merge_operator(db->options);
    db->table = rocksdb_block_based_options_create();
    db->cache = rocksdb_cache_create_lru(CACHE_BYTES);
    rocksdb_block_based_options_set_block_cache(db->table, db->cache);
    rocksdb_block_based_options_set_filter_policy(db->table,
                                                  rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_options_set_block_based_table_factory(db->options, db->table);
    db->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(db->write, config->level == BENCH_DEVICE);
    db->read = rocksdb_readoptions_create();
    char *error = NULL;
    db->db = rocksdb_open(db->options, config->dir, &error);
    must(error, "open");
    return db;
}

static void rocks_close(struct bench_db *db)
{
    rocksdb_close(db->db);
    rocksdb_readoptions_destroy(db->read);
    rocksdb_writeoptions_destroy(db->write);
    rocksdb_options_destroy(db->options);
    rocksdb_block_based_options_destroy(db->table);
    rocksdb_cache_destroy(db->cache);
    free(db);
}

static void rocks_set_level(struct bench_db *db, enum bench_level level)
{
    rocksdb_writeoptions_set_sync(db->write, level == BENCH_DEVICE);
}

static uint64_t get_with(struct bench_db *db, const rocksdb_readoptions_t *options, const void *key)
{
    char *error = NULL;
    rocksdb_pinnableslice_t *slice = rocksdb_get_pinned(db->db, options, key, db->key, &error);
    must(error, "get");
    size_t len;
    const char *value = slice == NULL ? NULL : rocksdb_pinnableslice_value(slice, &len);
    if (value == NULL) {
        die("rocksdb: get: no such key");
    }
    uint64_t word = bench_word(value);
    rocksdb_pinnableslice_destroy(slice);
    return word;
}

static void rocks_apply(struct bench_db *db, struct bench_op *ops, size_t n)
{
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    for (size_t i = 0; i < n; i++) {
        const char *key = ops[i].key;
        switch (ops[i].kind) {
        case BENCH_PUT:
            rocksdb_writebatch_put(batch, key, db->key, ops[i].value, db->value);
            break;
        case BENCH_DELETE:
            rocksdb_writebatch_delete(batch, key, db->key);
            break;
        case BENCH_GET:
            ops[i].word = get_with(db, db->read, key);
            break;
        case BENCH_ADD:
            rocksdb_writebatch_merge(batch, key, db->key, (const char *)&ops[i].word,
                                     sizeof(ops[i].word));
            break;
        }
    }
    char *error = NULL;
    rocksdb_write(db->db, db->write, batch, &error);
    must(error, "write");
    rocksdb_writebatch_destroy(batch);
}

static void rocks_settle(struct bench_db *db)
{
    char *error = NULL;
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    rocksdb_flushoptions_set_wait(flush, 1);
    rocksdb_flush(db->db, flush, &error);
    must(error, "flush");
    rocksdb_flushoptions_destroy(flush);
}

static void rocks_compact(struct bench_db *db)
{
    rocksdb_compact_range(db->db, NULL, 0, NULL, 0);
}

static struct bench_reader *rocks_reader_open(struct bench_db *db)
{
    struct bench_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        die("out of memory");
    }
    reader->db = db;
    reader->options = rocksdb_readoptions_create();
    return reader;
}

static void rocks_reader_close(struct bench_reader *reader)
{
    rocksdb_readoptions_destroy(reader->options);
    free(reader);
}

static void rocks_read_begin(struct bench_reader *reader)
{
    reader->snapshot = rocksdb_create_snapshot(reader->db->db);
    rocksdb_readoptions_set_snapshot(reader->options, reader->snapshot);
}

static void rocks_read_end(struct bench_reader *reader)
{
    rocksdb_release_snapshot(reader->db->db, reader->snapshot);
}

static uint64_t rocks_get(struct bench_reader *reader, const void *key)
{
    return get_with(reader->db, reader->options, key);
}

static uint64_t rocks_get_many(struct bench_reader *reader, const uint8_t *keys)
{
    const char *k[BENCH_MANY];
    size_t lens[BENCH_MANY], value_lens[BENCH_MANY];
    char *values[BENCH_MANY], *errors[BENCH_MANY];
    for (size_t i = 0; i < BENCH_MANY; i++) {
        k[i] = (const char *)keys + i * reader->db->key;
        lens[i] = reader->db->key;
    }
    rocksdb_multi_get(reader->db->db, reader->options, BENCH_MANY, k, lens, values, value_lens,
                      errors);
    uint64_t sum = 0;
    for (size_t i = 0; i < BENCH_MANY; i++) {
        must(errors[i], "multi get");
        if (values[i] == NULL) {
            die("rocksdb: multi get: no such key");
        }
        sum += bench_word(values[i]);
        rocksdb_free(values[i]);
    }
    return sum;
}

static uint64_t rocks_scan(struct bench_reader *reader, const void *key, size_t n)
{
    uint64_t sum = 0;
    rocksdb_iterator_t *it = rocksdb_create_iterator(reader->db->db, reader->options);
    rocksdb_iter_seek(it, key, reader->db->key);
    for (size_t i = 0; i < n && rocksdb_iter_valid(it); i++) {
        size_t key_len, value_len;
        (void)rocksdb_iter_key(it, &key_len);
        sum += bench_word(rocksdb_iter_value(it, &value_len)) + key_len;
        rocksdb_iter_next(it);
    }
    rocksdb_iter_destroy(it);
    return sum;
}

const struct bench_engine bench_rocksdb = {
    .name = "rocksdb",
    .open = rocks_open,
    .close = rocks_close,
    .set_level = rocks_set_level,
    .apply = rocks_apply,
    .settle = rocks_settle,
    .compact = rocks_compact,
    .reader_open = rocks_reader_open,
    .reader_close = rocks_reader_close,
    .read_begin = rocks_read_begin,
    .read_end = rocks_read_end,
    .get = rocks_get,
    .get_many = rocks_get_many,
    .scan = rocks_scan,
};
