/*
 * dispatch_check.c - see dispatch_check.h.
 */
#include "tests/fuzz/dispatch_check.h"

#include "server/keyspace/keyspace.h"
#include "tests/fuzz/dispatch_client.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

#define SCAN_KEYS 3 /* looked at in a step */

/* ---- counts --------------------------------------------------------------------------------- */

/* What a walk has seen. */
struct walked {
    uint64_t live, records, expiring;
    char *last; /* the key before */
    size_t last_len;
    bool first;
};

static void check_order(struct walked *walked, struct ps_slice key)
{
    size_t least = key.len < walked->last_len ? key.len : walked->last_len;
    int order = least > 0 ? memcmp(walked->last, key.data, least) : 0;
    FUZZ_CHECK(walked->first || order < 0 || (order == 0 && walked->last_len < key.len));
    walked->first = false;
    walked->last = realloc(walked->last, key.len + 1);
    FUZZ_CHECK(walked->last != NULL);
    memcpy(walked->last, key.data, key.len);
    walked->last_len = key.len;
}

static bool visit(void *arg, struct ps_slice key, const struct key_entry *entry)
{
    struct walked *walked = arg;
    check_order(walked, key);
    FUZZ_CHECK(entry->state != KEY_ABSENT);
    walked->records++;
    walked->live += entry->state == KEY_LIVE;
    walked->expiring += entry->record.expire_ms != 0;
    return true;
}

static struct walked walk_all(struct server *server, struct ps_view *view, unsigned db, int64_t now)
{
    struct walked walked = {.first = true};
    struct keyspace_walk walk = {.db = db, .now_ms = now, .visit = visit, .arg = &walked};
    FUZZ_CHECK(keyspace_walk_all(server->env.keyspace, view, &walk) == 0);
    free(walked.last);
    return walked;
}

static struct walked walk_steps(struct server *server, struct ps_view *view, unsigned db,
                                int64_t now)
{
    struct walked walked = {.first = true};
    struct keyspace_walk walk = {
        .db = db, .now_ms = now, .limit = SCAN_KEYS, .visit = visit, .arg = &walked};
    uint64_t cursor = 0;
    do {
        FUZZ_CHECK(keyspace_walk_step(server->env.keyspace, view, &walk, &cursor) == 0);
    } while (cursor != 0);
    free(walked.last);
    return walked;
}

static uint64_t count_rows(struct ps_view *view, const char *kind, unsigned db)
{
    char name[32];
    ps_tree tree;
    uint64_t rows;
    int len = snprintf(name, sizeof(name), "%s:%u", kind, db);
    FUZZ_CHECK(ps_tree_find(view, (struct ps_slice){name, (size_t)len}, &tree) == 0);
    FUZZ_CHECK(ps_count(view, tree, &rows) == 0);
    return rows;
}

static int64_t row_time(struct ps_slice row)
{
    uint64_t time_ms = 0;
    FUZZ_CHECK(row.len >= KEYSPACE_INDEX_TIME);
    for (size_t i = 0; i < KEYSPACE_INDEX_TIME; i++) {
        time_ms = time_ms << 8 | ((const uint8_t *)row.data)[i];
    }
    return (int64_t)time_ms;
}

/* Each row of the index is that of a key which expires then or later. */
static void check_index(struct server *server, struct ps_view *view, unsigned db)
{
    char name[32];
    ps_tree tree;
    struct ps_cursor *cursor;
    struct ps_slice row;
    int len = snprintf(name, sizeof(name), "expires:%u", db);
    FUZZ_CHECK(ps_tree_find(view, (struct ps_slice){name, (size_t)len}, &tree) == 0);
    FUZZ_CHECK(ps_cursor_open(view, tree, &cursor) == 0);
    for (int rc = ps_cursor_first(cursor); rc == 0; rc = ps_cursor_next(cursor)) {
        struct key_entry entry;
        struct ps_slice key;
        FUZZ_CHECK(ps_cursor_get(cursor, &row, NULL) == 0);
        key = (struct ps_slice){(const char *)row.data + KEYSPACE_INDEX_TIME,
                                row.len - KEYSPACE_INDEX_TIME};
        FUZZ_CHECK(keyspace_find(server->env.keyspace, view, db, key, 0, &entry) == 0);
        FUZZ_CHECK(entry.state == KEY_LIVE && entry.record.index_ms == row_time(row));
        FUZZ_CHECK(entry.record.index_ms <= entry.record.expire_ms);
    }
    ps_cursor_close(cursor);
}

static void check_database(struct server *server, struct ps_view *view, unsigned db, int64_t now)
{
    struct walked all = walk_all(server, view, db, now);
    struct walked steps = walk_steps(server, view, db, now);
    uint64_t count;
    FUZZ_CHECK(keyspace_count(server->env.keyspace, view, db, now, NULL, &count) == 0);
    FUZZ_CHECK(count == all.live && count == steps.live && all.records == steps.records);
    FUZZ_CHECK(count_rows(view, "keys", db) == all.records);
    FUZZ_CHECK(count_rows(view, "expires", db) == all.expiring);
    check_index(server, view, db);
}

void check_databases(struct server *server)
{
    struct ps_view *view;
    ps_snapshot_renew(server->snapshot);
    view = ps_snapshot_view(server->snapshot);
    for (unsigned db = 0; db < FUZZ_DATABASES; db++) {
        uint64_t records;
        FUZZ_CHECK(keyspace_records(server->env.keyspace, view, db, &records) == 0);
        if (records > 0) {
            check_database(server, view, db, exec_now(&server->env));
        }
    }
    ps_snapshot_reset(server->snapshot);
}

/* ---- reopening ------------------------------------------------------------------------------ */

/* A database's keys, each followed by what is known about it. */
struct description {
    struct reply_list replies;
    struct heap heap;
};

static struct reply ask(struct server *server, struct description *d, const char *command,
                        struct ps_slice key)
{
    struct ps_slice words[2] = {{command, strlen(command)}, key};
    return client_ask(&server->clients[0], &d->heap, words, 2);
}

static void describe_database(struct server *server, struct description *d, const char *db)
{
    static const char *const questions[] = {"TYPE", "PEXPIRETIME", "GET"};
    struct reply keys;
    ask(server, d, "SELECT", (struct ps_slice){db, 1});
    keys = ask(server, d, "KEYS", (struct ps_slice){"*", 1});
    reply_list_push(&d->replies, keys);
    for (size_t i = 0; i < keys.count; i++) {
        struct ps_slice key = {keys.items[i].text, keys.items[i].len};
        struct ps_slice encoding[] = {{"OBJECT", 6}, {"ENCODING", 8}, key};
        for (size_t q = 0; q < sizeof(questions) / sizeof(questions[0]); q++) {
            reply_list_push(&d->replies, ask(server, d, questions[q], key));
        }
        reply_list_push(&d->replies, client_ask(&server->clients[0], &d->heap, encoding, 3));
    }
}

static void describe(struct server *server, struct description *d)
{
    static const char *const names[FUZZ_DATABASES] = {"0", "1", "2"};
    for (size_t db = 0; db < FUZZ_DATABASES; db++) {
        describe_database(server, d, names[db]);
    }
}

static void forget(struct description *d)
{
    reply_list_free(&d->replies);
    heap_free(&d->heap);
}

static void report(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "%s\n", line);
}

void check_reopening(struct server *server, bool checkpoint)
{
    struct description before = {0}, after = {0};
    describe(server, &before);
    server_reopen(server, checkpoint);
    describe(server, &after);
    FUZZ_CHECK(before.replies.count == after.replies.count);
    for (size_t i = 0; i < before.replies.count; i++) {
        FUZZ_CHECK(reply_equal(&before.replies.items[i], &after.replies.items[i]));
    }
    forget(&before);
    forget(&after);
    check_databases(server);
    FUZZ_CHECK(ps_check(server->env.store, report, NULL) == 0);
}
