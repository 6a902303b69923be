/*
 * engine_sqlite.c - SQLite behind the interface of the engine benchmark.
 *
 * One table without row ids, write-ahead log, the file mapped, a cache of 64 MiB for each
 * connection, statements prepared once. Writers share a connection, each reader has its own.
 * synchronous is FULL for the device, NORMAL otherwise: then commits do not sync.
 */
#include "bench/support/engines.h"
#include "bench/support/measure.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum statement { BEGIN, BEGIN_WRITE, COMMIT, PUT, DELETE, GET, SCAN, STATEMENTS };

static const char *const texts[STATEMENTS] = {
    [BEGIN] = "begin",
    [BEGIN_WRITE] = "begin immediate",
    [COMMIT] = "commit",
    [PUT] = "insert or replace into bench values (?1, ?2)",
    [DELETE] = "delete from bench where k = ?1",
    [GET] = "select v from bench where k = ?1",
    [SCAN] = "select k, v from bench where k >= ?1 order by k limit ?2",
};

struct connection {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
};

struct bench_db {
    struct connection writer;
    pthread_mutex_t mu;
    char path[4096];
    size_t key, value;
};

struct bench_reader {
    struct bench_db *db;
    struct connection connection;
};

static void must(struct connection *c, int rc, int expected, const char *what)
{
    if (rc != expected) {
        die("sqlite: %s: %s", what, sqlite3_errmsg(c->db));
    }
}

static void connect(struct bench_db *db, struct connection *c, bool create)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(db->path, &c->db, flags, NULL) != SQLITE_OK) {
        die("sqlite: open %s", db->path);
    }
    const char *setup = create ? "pragma page_size = 4096; pragma journal_mode = wal;"
                                 "create table bench (k blob primary key, v blob) without rowid"
                               : "select 1";
    must(c, sqlite3_exec(c->db, setup, NULL, NULL, NULL), SQLITE_OK, "create");
    must(c,
         sqlite3_exec(c->db, "pragma cache_size = -65536; pragma mmap_size = 34359738368", NULL,
                      NULL, NULL),
         SQLITE_OK, "settings");
    sqlite3_busy_timeout(c->db, 60000);
    for (int i = 0; i < STATEMENTS; i++) {
        if (texts[i] != NULL) {
            must(c,
                 sqlite3_prepare_v3(c->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                    &c->statements[i], NULL),
                 SQLITE_OK, texts[i]);
        }
    }
}

static void disconnect(struct connection *c)
{
    for (int i = 0; i < STATEMENTS; i++) {
        sqlite3_finalize(c->statements[i]);
    }
    sqlite3_close(c->db);
}

static void run(struct connection *c, enum statement which)
{
    must(c, sqlite3_step(c->statements[which]), SQLITE_DONE, texts[which]);
    sqlite3_reset(c->statements[which]);
}

static void sql_set_level(struct bench_db *db, enum bench_level level)
{
    const char *text =
        level == BENCH_DEVICE ? "pragma synchronous = full" : "pragma synchronous = normal";
    must(&db->writer, sqlite3_exec(db->writer.db, text, NULL, NULL, NULL), SQLITE_OK, text);
}

static struct bench_db *sql_open(const struct bench_config *config)
{
    struct bench_db *db = calloc(1, sizeof(*db));
    if (db == NULL) {
        die("out of memory");
    }
    db->key = config->key;
    db->value = config->value;
    pthread_mutex_init(&db->mu, NULL);
    snprintf(db->path, sizeof(db->path), "%s/bench.db", config->dir);
    connect(db, &db->writer, true);
    sql_set_level(db, config->level);
    return db;
}

static void sql_close(struct bench_db *db)
{
    disconnect(&db->writer);
    pthread_mutex_destroy(&db->mu);
    free(db);
}

static void put(struct connection *c, const void *key, size_t key_len, const void *value,
                size_t value_len)
{
    sqlite3_bind_blob(c->statements[PUT], 1, key, (int)key_len, SQLITE_STATIC);
    sqlite3_bind_blob(c->statements[PUT], 2, value, (int)value_len, SQLITE_STATIC);
    run(c, PUT);
}

static bool get(struct connection *c, const void *key, size_t key_len, uint64_t *word)
{
    sqlite3_stmt *s = c->statements[GET];
    sqlite3_bind_blob(s, 1, key, (int)key_len, SQLITE_STATIC);
    int rc = sqlite3_step(s);
    if (rc != SQLITE_ROW) {
        must(c, rc, SQLITE_DONE, "get");
    }
    *word = rc == SQLITE_ROW ? bench_word(sqlite3_column_blob(s, 0)) : 0;
    sqlite3_reset(s);
    return rc == SQLITE_ROW;
}

static void sql_apply(struct bench_db *db, struct bench_op *ops, size_t n)
{
    struct connection *c = &db->writer;
    pthread_mutex_lock(&db->mu);
    run(c, BEGIN_WRITE);
    for (size_t i = 0; i < n; i++) {
        uint64_t word;
        switch (ops[i].kind) {
        case BENCH_PUT:
            put(c, ops[i].key, db->key, ops[i].value, db->value);
            break;
        case BENCH_DELETE:
            sqlite3_bind_blob(c->statements[DELETE], 1, ops[i].key, (int)db->key, SQLITE_STATIC);
            run(c, DELETE);
            break;
        case BENCH_GET:
            if (!get(c, ops[i].key, db->key, &ops[i].word)) {
                die("sqlite: get: no such key");
            }
            break;
        case BENCH_ADD:
            (void)get(c, ops[i].key, db->key, &word);
            word += ops[i].word;
            put(c, ops[i].key, db->key, &word, sizeof(word));
            break;
        }
    }
    run(c, COMMIT);
    pthread_mutex_unlock(&db->mu);
}

static void sql_settle(struct bench_db *db)
{
    must(&db->writer,
         sqlite3_wal_checkpoint_v2(db->writer.db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL),
         SQLITE_OK, "checkpoint");
}

static void sql_compact(struct bench_db *db)
{
    must(&db->writer, sqlite3_exec(db->writer.db, "vacuum", NULL, NULL, NULL), SQLITE_OK, "vacuum");
    sql_settle(db);
}

static struct bench_reader *sql_reader_open(struct bench_db *db)
{
    struct bench_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        die("out of memory");
    }
    reader->db = db;
    connect(db, &reader->connection, false);
    return reader;
}

static void sql_reader_close(struct bench_reader *reader)
{
    disconnect(&reader->connection);
    free(reader);
}

static void sql_read_begin(struct bench_reader *reader)
{
    run(&reader->connection, BEGIN);
}

static void sql_read_end(struct bench_reader *reader)
{
    run(&reader->connection, COMMIT);
}

static uint64_t sql_get(struct bench_reader *reader, const void *key)
{
    uint64_t word;
    if (!get(&reader->connection, key, reader->db->key, &word)) {
        die("sqlite: get: no such key");
    }
    return word;
}

static uint64_t sql_scan(struct bench_reader *reader, const void *key, size_t n)
{
    struct connection *c = &reader->connection;
    sqlite3_stmt *s = c->statements[SCAN];
    uint64_t sum = 0;
    sqlite3_bind_blob(s, 1, key, (int)reader->db->key, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)n);
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        sum += bench_word(sqlite3_column_blob(s, 1)) + (uint64_t)sqlite3_column_bytes(s, 0);
    }
    must(c, rc, SQLITE_DONE, "scan");
    sqlite3_reset(s);
    return sum;
}

const struct bench_engine bench_sqlite = {
    .name = "sqlite",
    .open = sql_open,
    .close = sql_close,
    .set_level = sql_set_level,
    .apply = sql_apply,
    .settle = sql_settle,
    .compact = sql_compact,
    .reader_open = sql_reader_open,
    .reader_close = sql_reader_close,
    .read_begin = sql_read_begin,
    .read_end = sql_read_end,
    .get = sql_get,
    .scan = sql_scan,
};
