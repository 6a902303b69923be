/*
 * shapes.c - see shapes.h: making the stores.
 */
#include "tests/damage/shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/store_dir.h"

#define TREES 24u /* numbers that are looked at */

const char *const shape_names[ALL_SHAPES] = {"plain",  "deep",    "runs",        "log",
                                             "pieces", "spilled", "large-pages", "wide",
                                             "values", "tiny",    "tiny-log"};

uint64_t hash_bytes(const void *data, size_t len)
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ len;
    const uint8_t *at = data;
    for (; len >= 8; at += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    for (size_t i = 0; i < len; i++) {
        h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return h ^ h >> 29;
}

uint64_t hash_entry(ps_tree tree, struct ps_slice key, uint64_t value)
{
    uint64_t part[3] = {tree, hash_bytes(key.data, key.len), value};
    return hash_bytes(part, sizeof part);
}

/* ---- what a store holds -----------------------------------------------------------------------
 */

static void known_free(struct known *known)
{
    for (size_t i = 0; i < known->entries.n; i++) {
        free(known->entries.at[i].key);
    }
    vec_free(&known->entries);
}

static void learn_tree(struct ps_view *view, ps_tree tree, struct known *known)
{
    struct ps_cursor *cursor;
    uint64_t count;
    if (ps_count(view, tree, &count) != 0) {
        return;
    }
    known->digest += hash_entry(tree, (struct ps_slice){"tree", 4}, count);
    must(ps_cursor_open(view, tree, &cursor) == 0, "cursor");
    int rc = ps_cursor_first(cursor);
    for (; rc == 0; rc = ps_cursor_next(cursor)) {
        struct ps_slice key, value;
        must(ps_cursor_get(cursor, &key, &value) == 0, "reading a new store");
        struct known_entry e = {.tree = tree, .len = (uint32_t)key.len, .key = malloc(key.len + 1)};
        must(e.key != NULL, "memory");
        memcpy(e.key, key.data, key.len);
        e.value = hash_bytes(value.data, value.len);
        known->digest += hash_entry(tree, key, e.value);
        must(vec_push(&known->entries, e), "memory");
    }
    must(rc == PS_NOTFOUND, "reading a new store");
    ps_cursor_close(cursor);
}

static void learn(struct ps_store *store, struct known *known)
{
    struct ps_snapshot *snap;
    known_free(known);
    memset(known, 0, sizeof *known);
    must(ps_snapshot_new(store, &snap) == 0, "snapshot");
    ps_snapshot_renew(snap);
    for (ps_tree tree = 0; tree < TREES; tree++) {
        learn_tree(ps_snapshot_view(snap), tree, known);
    }
    ps_snapshot_free(snap);
}

/* ---- making ------------------------------------------------------------------------------------
 */

struct maker {
    struct shape *shape;
    const char *dir;
    struct ps_store *store;
    struct ps_txn *txn;
    ps_tree tree[TREES];
    uint8_t *bytes;
    bool dull; /* what is put can be compressed */
};

#define BYTES (400u << 10)

static void start(struct maker *m)
{
    struct ps_fault fault;
    int rc = ps_open(m->dir, &m->shape->options, &m->store, NULL, &fault);
    if (rc != 0) {
        fprintf(stderr, "%s: %s\n", fault.file, fault.what);
    }
    must(rc == 0, "opening a new store");
}

static void begin(struct maker *m)
{
    must(ps_begin(m->store, &m->txn) == 0, "begin");
}

static void commit(struct maker *m)
{
    must(ps_commit(m->txn, PS_ALWAYS, NULL) == 0, "commit");
}

/* A commit that the log will have, and the state after it. */
static void commit_known(struct maker *m)
{
    struct shape *s = m->shape;
    commit(m);
    learn(m->store, &s->at_end);
    must(s->ndigests < SHAPE_COMMITS, "too many commits");
    s->digests[s->ndigests++] = s->at_end.digest;
}

static void make_tree(struct maker *m, unsigned i)
{
    char name[16];
    int n = snprintf(name, sizeof name, "tree %u", i);
    must(ps_tree_create(m->txn, (struct ps_slice){name, (size_t)n}, &m->tree[i]) == 0, "tree");
}

/* Bytes that are a function of (what, i), so that none is like another. */
static struct ps_slice bytes_of(struct maker *m, uint64_t what, uint64_t i, size_t len)
{
    uint64_t x = (what * 1000003 + i) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t k = 0; k < len; k += 8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x = m->dull ? x & UINT64_C(0x0101010101010101) : x;
        memcpy(m->bytes + k, &x, len - k < 8 ? len - k : 8);
        x |= UINT64_C(1) << 40;
    }
    return (struct ps_slice){m->bytes, len};
}

static void put(struct maker *m, unsigned tree, struct ps_slice key, uint64_t what, size_t len)
{
    uint8_t copy[80 << 10];
    must(key.len <= sizeof copy, "key too long");
    memcpy(copy, key.data, key.len);
    key.data = copy;
    int rc = ps_put(m->txn, m->tree[tree], key, bytes_of(m, what, key.len, len));
    must(rc == 0, "put");
}

/* Keys with much in common; `pad` bytes lie between the group and the number. */
static struct ps_slice key_of(char *buf, unsigned i, unsigned group, size_t pad)
{
    int n = sprintf(buf, "%c%c", 'a' + (int)(i / group / 26), 'a' + (int)(i / group % 26));
    memset(buf + n, 'x', pad);
    n += (int)pad;
    n += sprintf(buf + n, "%05u", i);
    return (struct ps_slice){buf, (size_t)n};
}

static void fill(struct maker *m, unsigned tree, unsigned from, unsigned to, unsigned step,
                 size_t pad, size_t value)
{
    char buf[1024];
    for (unsigned i = from; i < to; i += step) {
        put(m, tree, key_of(buf, i, 25, pad), i, value + i * 7 % 40);
    }
}

static void remove_some(struct maker *m, unsigned tree, unsigned from, unsigned to, unsigned step,
                        size_t pad)
{
    char buf[1024];
    for (unsigned i = from; i < to; i += step) {
        must(ps_delete(m->txn, m->tree[tree], key_of(buf, i, 25, pad)) == 0, "delete");
    }
}

static void remove_range(struct maker *m, unsigned tree, unsigned from, unsigned to, size_t pad)
{
    char a[1024], b[1024];
    struct ps_slice low = key_of(a, from, 25, pad), high = key_of(b, to, 25, pad);
    uint64_t deleted;
    must(ps_delete_range(m->txn, m->tree[tree], &low, &high, 0, &deleted) == 0 && deleted > 0,
         "deleting a range");
}

/* The state from here on is the metas'. */
static void checkpoint(struct maker *m)
{
    struct shape *s = m->shape;
    must(ps_checkpoint(m->store) == 0, "checkpoint");
    learn(m->store, &s->at_checkpoint);
    learn(m->store, &s->at_end);
    s->ndigests = 0;
    s->digests[s->ndigests++] = s->at_end.digest;
}

/* Closes and opens in between, so that an earlier checkpoint is kept. */
static void keep_before(struct maker *m)
{
    checkpoint(m);
    must(ps_close(m->store, false) == 0, "close");
    files_free(&m->shape->before);
    files_read(&m->shape->before, m->dir);
    start(m);
}

static void finish(struct maker *m)
{
    must(ps_close(m->store, false) == 0, "close");
    files_read(&m->shape->image, m->dir);
}

/* ---- the shapes --------------------------------------------------------------------------------
 */

static void make_plain(struct maker *m)
{
    begin(m);
    for (unsigned i = 0; i < 3; i++) {
        make_tree(m, i);
    }
    fill(m, 0, 0, 240, 1, 0, 30);
    fill(m, 1, 0, 5, 1, 0, 10);
    commit(m);
    for (unsigned round = 0; round < 3; round++) {
        keep_before(m);
        begin(m);
        fill(m, 0, round, 240, 9, 0, 50 + round);
        commit(m);
    }
    checkpoint(m);
    finish(m);
}

/* Long keys in groups: separators are long, so branches have few children. */
static void make_deep(struct maker *m)
{
    begin(m);
    make_tree(m, 0);
    fill(m, 0, 0, 500, 1, 400, 250);
    commit(m);
    keep_before(m);
    begin(m);
    fill(m, 0, 1, 500, 17, 400, 100);
    remove_some(m, 0, 7, 500, 31, 400);
    commit(m);
    checkpoint(m);
    finish(m);
}

static void make_runs(struct maker *m)
{
    static const size_t lens[] = {600, 3000, 9000, 66560, 66561, 131072, 200000, 0};
    begin(m);
    make_tree(m, 0);
    make_tree(m, 1);
    fill(m, 0, 0, 60, 1, 0, 30);
    for (unsigned i = 0; i < sizeof lens / sizeof *lens; i++) {
        char name[32];
        int n = sprintf(name, "value of %zu", lens[i]);
        put(m, 0, (struct ps_slice){name, (size_t)n}, i, lens[i]);
        put(m, 0, (struct ps_slice){name, (size_t)n - 1}, i + 20, 5000);
    }
    for (unsigned i = 0; i < 70; i++) { /* long keys that differ late: long separators */
        char key[2400];
        memset(key, 'k', sizeof key);
        int n = sprintf(key, "%c", 'a' + (int)(i / 9));
        key[n] = 'k';
        sprintf(key + 1500 + 10 * (i % 9), "%04u", i);
        put(m, 1, (struct ps_slice){key, i % 4 == 3 ? 400 : 1600 + i}, i, 40 + i * 20);
    }
    uint8_t longest[70 << 10];
    memset(longest, 'z', sizeof longest);
    put(m, 1, (struct ps_slice){longest, sizeof longest}, 1, 100);
    longest[sizeof longest - 1] = 'y';
    put(m, 1, (struct ps_slice){longest, sizeof longest}, 2, 70000);
    commit(m);
    keep_before(m);
    begin(m);
    put(m, 0, (struct ps_slice){"value of 3000", 13}, 99, 4000);
    put(m, 0, (struct ps_slice){"value of 9000", 13}, 99, 100000);
    commit(m);
    checkpoint(m);
    finish(m);
}

/* Commits of every kind in the log, in two epochs. */
static void make_log(struct maker *m)
{
    begin(m);
    make_tree(m, 0);
    make_tree(m, 1);
    fill(m, 0, 0, 200, 1, 0, 40);
    fill(m, 1, 0, 40, 1, 0, 40);
    commit(m);
    checkpoint(m);
    for (unsigned i = 0; i < 16; i++) {
        begin(m);
        fill(m, 0, i, 200, 40 + i, 0, 60 + i);
        remove_some(m, 0, 20 + i, 200, 300, 0);
        if (i == 5) {
            make_tree(m, 2);
            fill(m, 2, 0, 30, 1, 0, 20);
        } else if (i == 8) {
            must(ps_clear(m->txn, m->tree[1]) == 0, "clear");
            fill(m, 1, 50, 60, 1, 0, 20);
        } else if (i == 10) {
            remove_range(m, 0, 60, 75, 0);
        } else if (i == 12) {
            must(ps_tree_drop(m->txn, m->tree[2]) == 0, "drop");
        } else if (i == 13) {
            put(m, 0, (struct ps_slice){"long", 4}, 13, 90000); /* in pieces: segments are small */
        }
        commit_known(m);
        if (i == 9) {
            must(ps_close(m->store, false) == 0, "close");
            start(m);
        }
    }
    finish(m);
}

/* A commit whose savepoints went to the log as marks. */
static void make_pieces(struct maker *m)
{
    begin(m);
    make_tree(m, 0);
    fill(m, 0, 0, 50, 1, 0, 40);
    commit(m);
    checkpoint(m);
    begin(m);
    put(m, 0, (struct ps_slice){"a", 1}, 1, 100);
    must(ps_savepoint(m->txn) == 0, "savepoint");
    put(m, 0, (struct ps_slice){"b", 1}, 1, 60000);
    put(m, 0, (struct ps_slice){"c", 1}, 1, 60000);
    must(ps_savepoint(m->txn) == 0, "savepoint");
    put(m, 0, (struct ps_slice){"d", 1}, 1, 60000);
    put(m, 0, (struct ps_slice){"e", 1}, 1, 60000);
    must(ps_savepoint_rollback(m->txn) == 0, "rollback");
    put(m, 0, (struct ps_slice){"f", 1}, 1, 60000);
    must(ps_savepoint_release(m->txn) == 0, "release");
    put(m, 0, (struct ps_slice){"g", 1}, 1, 100);
    commit_known(m);
    begin(m);
    put(m, 0, (struct ps_slice){"h", 1}, 1, 100);
    commit_known(m);
    finish(m);
}

/* A transaction that spilled, then a checkpoint while a snapshot kept what was before. */
static void make_spilled(struct maker *m)
{
    struct ps_snapshot *snap;
    begin(m);
    make_tree(m, 0);
    fill(m, 0, 0, 100, 1, 0, 300);
    commit(m);
    checkpoint(m);
    must(ps_snapshot_new(m->store, &snap) == 0 && ps_snapshot_pin(snap) == 0, "pin");
    begin(m);
    ps_keep_whole(m->txn);
    for (unsigned i = 0; i < 500; i++) {
        char buf[16];
        int n = sprintf(buf, "s%05u", i * 7919 % 1000);
        put(m, 0, (struct ps_slice){buf, (size_t)n}, i, 900);
    }
    commit(m);
    checkpoint(m);
    ps_snapshot_free(snap);
    finish(m);
}

static void make_large_pages(struct maker *m)
{
    begin(m);
    make_tree(m, 0);
    fill(m, 0, 0, 400, 1, 300, 600);
    put(m, 0, (struct ps_slice){"run", 3}, 1, 60000);
    put(m, 0, (struct ps_slice){"long run", 8}, 1, 140000);
    commit(m);
    checkpoint(m);
    begin(m);
    fill(m, 0, 0, 400, 60, 300, 100);
    commit_known(m);
    finish(m);
}

/* A file with so many pages that the space map has an index. */
static void make_wide(struct maker *m)
{
    char path[STORE_DIR_PATH + 16];
    begin(m);
    make_tree(m, 0);
    fill(m, 0, 0, 60, 1, 0, 100);
    commit(m);
    checkpoint(m);
    must(ps_close(m->store, true) == 0, "close");
    snprintf(path, sizeof path, "%s/pando.db", m->dir);
    must(truncate(path, 200 << 20) == 0, path);
    start(m);
    begin(m);
    fill(m, 0, 60, 80, 1, 0, 100);
    commit(m);
    checkpoint(m);
    finish(m);
}

static void set_options(struct maker *m, unsigned tree, enum ps_compression how, const char *name)
{
    struct ps_tree_options options = {.compression = how, .compress_over = how == PS_LZ4 ? 0 : 70};
    memcpy(options.merge, name, strlen(name));
    must(ps_tree_set(m->txn, m->tree[tree], &options) == 0, "options");
    m->dull = how != PS_UNCOMPRESSED;
}

/* Compressed values in leaves and both kinds of runs. */
static void put_compressed(struct maker *m, unsigned tree, unsigned number)
{
    static const size_t lens[] = {100, 1500, 20000, 200000};
    for (unsigned i = 0; i < sizeof lens / sizeof *lens; i++) {
        char name[32];
        int n = sprintf(name, "value %u of %zu", number, lens[i]);
        put(m, tree, (struct ps_slice){name, (size_t)n}, number, lens[i]);
    }
}

/* Trees with options, in the file and in the log; values by both algorithms; merges. */
static void make_values(struct maker *m)
{
    int64_t one = 1;
    begin(m);
    for (unsigned i = 0; i < 3; i++) {
        make_tree(m, i);
        set_options(m, i, (enum ps_compression)((i + 1) % 3), i == 0 ? "append" : "");
        fill(m, i, 0, 60, 1, 0, 100);
        put_compressed(m, i, i);
    }
    commit(m);
    checkpoint(m);
    for (unsigned i = 0; i < 4; i++) {
        begin(m);
        set_options(m, 2, (enum ps_compression)(i % 3), "add");
        put_compressed(m, i % 3, i);
        for (unsigned k = 0; k < 5; k++) {
            struct ps_slice key = {"counter", 7}, operand = {&one, sizeof one};
            must(ps_merge(m->txn, m->tree[2], key, operand) == 0, "merge");
        }
        commit_known(m);
    }
    finish(m);
}

/* Three levels, and each kind of run. */
static void make_tiny(struct maker *m)
{
    uint8_t key[1700];
    memset(key, 'q', sizeof key);
    begin(m);
    make_tree(m, 0);
    make_tree(m, 1);
    fill(m, 0, 0, 90, 1, 400, 100);
    set_options(m, 1, PS_LZ4, "max");
    put_compressed(m, 1, 1);
    set_options(m, 0, PS_ZSTD, "");
    put_compressed(m, 0, 2);
    m->dull = false;
    put(m, 0, (struct ps_slice){"short run", 9}, 1, 5000);
    put(m, 0, (struct ps_slice){"long run", 8}, 2, 70000);
    for (unsigned i = 0; i < 6; i++) {
        key[1650] = (uint8_t)i;
        put(m, 1, (struct ps_slice){key, 1660 + i}, i, 30);
    }
    commit(m);
    checkpoint(m);
    finish(m);
}

static void make_tiny_log(struct maker *m)
{
    begin(m);
    make_tree(m, 0);
    fill(m, 0, 0, 20, 1, 0, 20);
    commit(m);
    checkpoint(m);
    for (unsigned i = 0; i < 6; i++) {
        begin(m);
        fill(m, 0, i, 30, 5, 0, 10);
        remove_some(m, 0, i, 20, 9, 0);
        if (i == 1 || i == 3) {
            make_tree(m, i);
        } else if (i == 2) {
            must(ps_clear(m->txn, m->tree[1]) == 0, "clear");
            put(m, 1, (struct ps_slice){"k", 1}, 1, 10);
        } else if (i == 4) {
            must(ps_tree_drop(m->txn, m->tree[3]) == 0, "drop");
        } else if (i == 5) {
            set_options(m, 0, PS_ZSTD, "min");
            put(m, 0, (struct ps_slice){"zstd", 4}, 1, 300);
            set_options(m, 0, PS_LZ4, "min");
            put(m, 0, (struct ps_slice){"lz4", 3}, 1, 300);
        }
        commit_known(m);
        if (i == 2) {
            must(ps_close(m->store, false) == 0, "close");
            start(m);
        }
    }
    finish(m);
}

void shape_make(unsigned i, const char *dir, struct shape *shape)
{
    static void (*const makers[ALL_SHAPES])(struct maker *) = {
        make_plain,       make_deep, make_runs,   make_log,  make_pieces,  make_spilled,
        make_large_pages, make_wide, make_values, make_tiny, make_tiny_log};
    memset(shape, 0, sizeof *shape);
    shape->name = shape_names[i];
    shape->options = (struct ps_options){
        .page_size = i == 6 ? 65536 : 0,
        .dirty_memory = i == 6 ? 8u << 20 : 1u << 20,
        .map_size = UINT64_C(256) << 20,
        .log_segment_size = i == 3 || i == 4 ? 128u << 10 : 1u << 20,
        .durability = PS_ALWAYS,
        .manual_checkpoint = true,
    };
    struct maker m = {.shape = shape, .dir = dir, .bytes = malloc(BYTES)};
    must(m.bytes != NULL, "memory");
    start(&m);
    makers[i](&m);
    free(m.bytes);
    store_dir_empty(dir);
}

void shape_free(struct shape *shape)
{
    files_free(&shape->image);
    files_free(&shape->before);
    known_free(&shape->at_checkpoint);
    known_free(&shape->at_end);
}
