/*
 * keyspace_fixture.c - a keyspace for unit tests (keyspace_fixture.h).
 */
#include "tests/support/keyspace_fixture.h"

#include "server/keyspace/big_endian.h"

#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define DATABASES 3

static struct ps_slice slice(const char *text)
{
    return (struct ps_slice){text, strlen(text)};
}

static void open_store(struct fixture *f)
{
    struct ps_options options = {.dirty_memory = 16u << 20,
                                 .durability = PS_EVERYSEC,
                                 .manual_checkpoint = true,
                                 .vfs = f->vfs};

    assert_int_equal(ps_open(f->dir, &options, &f->store, NULL, NULL), 0);
    assert_int_equal(keyspace_open(f->store, DATABASES, &f->ks), 0);
}

static void close_store(struct fixture *f)
{
    keyspace_close(f->ks);
    assert_int_equal(ps_close(f->store, false), 0);
}

int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    snprintf(f->dir, sizeof(f->dir), "/tmp/pando-unit-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    open_store(f);
    *state = f;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;

    if (f->txn) /* a test failed in the middle */
        ps_abort(f->txn);
    close_store(f);
    nftw(f->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

void fixture_reopen(struct fixture *f)
{
    close_store(f);
    open_store(f);
}

void fixture_begin(struct fixture *f)
{
    assert_null(f->txn);
    assert_int_equal(ps_begin(f->store, &f->txn), 0);
}

void fixture_commit(struct fixture *f)
{
    assert_int_equal(ps_commit(f->txn, PS_EVERYSEC, NULL), 0);
    f->txn = NULL;
}

struct ps_view *fixture_view(struct fixture *f)
{
    return ps_txn_view(f->txn);
}

struct key_entry fixture_find(struct fixture *f, unsigned db, const char *key, int64_t now_ms)
{
    struct key_entry entry;

    assert_int_equal(keyspace_find(f->ks, fixture_view(f), db, slice(key), now_ms, &entry), 0);
    return entry;
}

uint64_t fixture_put(struct fixture *f, unsigned db, const char *key, const char *value,
                     int64_t expire_ms, int64_t now_ms)
{
    struct key_entry old = fixture_find(f, db, key, now_ms);
    struct record record = {.type = RECORD_STRING,
                            .encoding = RECORD_ENC_RAW,
                            .expire_ms = expire_ms,
                            .payload = slice(value)};

    assert_int_equal(ps_reserve(f->txn, KEYSPACE_PUT_OPS, 1000 + strlen(value)), 0);
    assert_int_equal(keyspace_put(f->ks, f->txn, db, slice(key), &old, &record, now_ms), 0);
    return record.version;
}

void fixture_delete(struct fixture *f, unsigned db, const char *key, int64_t now_ms)
{
    struct key_entry old = fixture_find(f, db, key, now_ms);

    assert_int_equal(ps_reserve(f->txn, KEYSPACE_DELETE_OPS, 0), 0);
    assert_int_equal(keyspace_delete(f->ks, f->txn, db, slice(key), &old), 0);
}

static struct ps_cursor *tree_cursor(struct fixture *f, const char *kind, unsigned db)
{
    char name[32];
    ps_tree tree;
    struct ps_cursor *cursor;

    snprintf(name, sizeof(name), "%s:%u", kind, db);
    assert_int_equal(ps_tree_find(fixture_view(f), slice(name), &tree), 0);
    assert_int_equal(ps_cursor_open(fixture_view(f), tree, &cursor), 0);
    return cursor;
}

static int64_t row_time(struct ps_slice row)
{
    int64_t time_ms = 0;

    assert_true(row.len >= 8);
    for (size_t i = 0; i < 8; i++)
        time_ms = time_ms << 8 | ((const uint8_t *)row.data)[i];
    return time_ms;
}

void fixture_index(struct fixture *f, unsigned db, char *text, size_t size)
{
    struct ps_cursor *cursor = tree_cursor(f, "expires", db);
    struct ps_slice row;
    size_t len = 0;

    text[0] = '\0';
    for (int rc = ps_cursor_first(cursor); rc == 0; rc = ps_cursor_next(cursor)) {
        assert_int_equal(ps_cursor_get(cursor, &row, NULL), 0);
        len += (size_t)snprintf(text + len, size - len, "%s%" PRId64 ":%.*s", len ? " " : "",
                                row_time(row), (int)(row.len - 8), (const char *)row.data + 8);
        assert_true(len < size);
    }
    ps_cursor_close(cursor);
}

void fixture_check_index(struct fixture *f)
{
    for (unsigned db = 0; db < keyspace_databases(f->ks); db++) {
        struct ps_cursor *cursor = tree_cursor(f, "expires", db);
        uint64_t rows = 0, filed = 0;
        struct ps_slice row, value;
        for (int rc = ps_cursor_first(cursor); rc == 0; rc = ps_cursor_next(cursor), rows++) {
            assert_int_equal(ps_cursor_get(cursor, &row, NULL), 0);
            struct ps_slice key = {(const char *)row.data + 8, row.len - 8};
            struct key_entry entry;
            assert_int_equal(keyspace_find(f->ks, fixture_view(f), db, key, 0, &entry), 0);
            assert_int_equal(entry.state, KEY_LIVE);
            assert_true(entry.record.index_ms == row_time(row));
            assert_true(entry.record.index_ms <= entry.record.expire_ms);
        }
        ps_cursor_close(cursor);
        cursor = tree_cursor(f, "keys", db);
        for (int rc = ps_cursor_first(cursor); rc == 0; rc = ps_cursor_next(cursor)) {
            struct record record;
            assert_int_equal(ps_cursor_get(cursor, NULL, &value), 0);
            assert_int_equal(record_decode(value, &record), 0);
            filed += record.expire_ms != 0;
        }
        ps_cursor_close(cursor);
        assert_true(rows == filed);
    }
}

static bool is_garbage(struct fixture *f, uint64_t id)
{
    uint8_t key[8];
    ps_tree tree;
    struct ps_slice value;

    for (size_t i = 0; i < 8; i++)
        key[i] = (uint8_t)(id >> (56 - 8 * i));
    assert_int_equal(ps_tree_find(fixture_view(f), slice("garbage"), &tree), 0);
    int rc = ps_get(fixture_view(f), tree, (struct ps_slice){key, 8}, &value);
    assert_true(rc == 0 || rc == PS_NOTFOUND);
    return rc == 0;
}

/* The record of a string in chunks by its object; false: there is none. */
static bool find_object(struct fixture *f, unsigned db, uint64_t id, struct record *record)
{
    struct ps_cursor *cursor = tree_cursor(f, "keys", db);
    struct ps_slice value;
    bool found = false;

    for (int rc = ps_cursor_first(cursor); rc == 0 && !found; rc = ps_cursor_next(cursor)) {
        assert_int_equal(ps_cursor_get(cursor, NULL, &value), 0);
        assert_int_equal(record_decode(value, record), 0);
        found = record->chunked && record->chunks.id == id;
    }
    ps_cursor_close(cursor);
    return found;
}

uint64_t fixture_check_rows(struct fixture *f)
{
    uint64_t rows = 0;

    for (unsigned db = 0; db < keyspace_databases(f->ks); db++) {
        struct ps_cursor *cursor = tree_cursor(f, "elements", db);
        struct ps_slice key, value;
        for (int rc = ps_cursor_first(cursor); rc == 0; rc = ps_cursor_next(cursor), rows++) {
            struct record record;
            assert_int_equal(ps_cursor_get(cursor, &key, &value), 0);
            assert_int_equal(key.len, 12);
            uint64_t id = load_be(key.data, 8);
            uint64_t number = load_be((const char *)key.data + 8, 4);
            bool owned = find_object(f, db, id, &record);
            assert_true(owned != is_garbage(f, id));
            if (owned)
                assert_true(number * record.chunks.size + value.len <= record.chunks.len);
        }
        ps_cursor_close(cursor);
    }
    return rows;
}

uint64_t fixture_garbage(struct fixture *f)
{
    uint64_t count;
    ps_tree tree;

    assert_int_equal(ps_tree_find(fixture_view(f), slice("garbage"), &tree), 0);
    assert_int_equal(ps_count(fixture_view(f), tree, &count), 0);
    return count;
}
