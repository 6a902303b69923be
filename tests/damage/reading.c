/*
 * reading.c - see reading.h.
 */
#include "tests/damage/reading.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TREES        24u
#define MOST_ENTRIES (1u << 20) /* in files of a few MiB: more is a walk without end */
#define MOST_BYTES   (UINT64_C(1) << 31)
#define KEPT         4096u /* keys that are looked up afterwards */
#define MANY         16u

struct keys {
    struct ps_slice at[KEPT];
    uint64_t value[KEPT], value_len[KEPT];
    size_t n;
};

struct reader {
    struct ps_store *store;
    struct ps_view *view;
    struct reading *out;
    struct ps_residency *residency;
    ps_tree tree;
    struct keys keys;
    uint64_t n, sum, bytes; /* of the walk forwards */
};

static void say(char to[200], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(char to[200], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (to[0] == '\0') {
        vsnprintf(to, 200, format, args);
    }
    va_end(args);
}

/* Counts an answer; true: go on with what was read. */
static bool good(struct reader *r, int rc, const char *call)
{
    if (rc == PS_CORRUPT) {
        struct ps_fault fault;
        ps_last_fault(r->store, &fault);
        if (fault.code != PS_CORRUPT || fault.file[0] == '\0' || fault.what[0] == '\0') {
            say(r->out->forbidden, "%s: PS_CORRUPT without a place", call);
        }
        r->out->errors++;
    } else if (rc != 0 && rc != PS_NOTFOUND) {
        say(r->out->forbidden, "%s: %s", call, ps_strerror(rc));
    }
    return rc == 0;
}

static int compare(struct ps_slice a, struct ps_slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n > 0 ? memcmp(a.data, b.data, n) : 0;
    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

static void keep(struct keys *keys, struct ps_slice key, struct ps_slice value, uint64_t hash)
{
    if (keys->n < KEPT) {
        uint8_t *copy = malloc(key.len + 1);
        if (copy == NULL) {
            give_up("memory");
        }
        memcpy(copy, key.data, key.len);
        keys->at[keys->n] = (struct ps_slice){copy, key.len};
        keys->value_len[keys->n] = value.len;
        keys->value[keys->n++] = hash;
    }
}

/* ---- walking ------------------------------------------------------------------------------------
 */

struct last_key {
    uint8_t *bytes;
    size_t len, room;
    bool any;
};

static bool in_order(struct last_key *last, struct ps_slice key, bool forward)
{
    struct ps_slice before = {last->bytes, last->len};
    int order = last->any ? compare(before, key) : 0;
    bool right = !last->any || (forward ? order < 0 : order > 0);
    if (last->room < key.len + 1) {
        last->room = 2 * key.len + 64;
        last->bytes = realloc(last->bytes, last->room);
    }
    if (last->bytes == NULL) {
        give_up("memory");
    }
    memcpy(last->bytes, key.data, key.len);
    last->len = key.len;
    last->any = true;
    return right;
}

/* One way through the tree; false if it did not come to the end. */
static bool walk(struct reader *r, struct ps_cursor *cursor, bool forward, uint64_t *n,
                 uint64_t *sum)
{
    struct last_key last = {0};
    unsigned errors = r->out->errors;
    int rc = forward ? ps_cursor_first(cursor) : ps_cursor_last(cursor);
    *n = *sum = 0;
    r->bytes = 0;
    while (good(r, rc, "walking")) {
        struct ps_slice key = {NULL, 0}, value = {NULL, 0};
        if (good(r, ps_cursor_get(cursor, &key, &value), "reading an entry")) {
            uint64_t hash = hash_bytes(value.data, value.len);
            *sum += hash_entry(r->tree, key, hash);
            if (!in_order(&last, key, forward)) {
                say(r->out->unsound, "entry %llu is out of order", (unsigned long long)*n);
            }
            if (forward) {
                keep(&r->keys, key, value, hash);
            }
            r->bytes += key.len + value.len;
        }
        if (++*n > MOST_ENTRIES || r->bytes > MOST_BYTES) {
            say(r->out->forbidden, "a walk without end");
            break;
        }
        rc = forward ? ps_cursor_next(cursor) : ps_cursor_prev(cursor);
    }
    free(last.bytes);
    return r->out->errors == errors;
}

static bool walk_both_ways(struct reader *r, uint64_t count)
{
    struct ps_cursor *cursor;
    if (!good(r, ps_cursor_open(r->view, r->tree, &cursor), "opening a cursor")) {
        return false;
    }
    uint64_t back = 0, back_sum = 0;
    bool whole = walk(r, cursor, true, &r->n, &r->sum);
    bool whole_back = walk(r, cursor, false, &back, &back_sum);
    if (whole && whole_back && (back != r->n || back_sum != r->sum)) {
        say(r->out->unsound, "%llu entries forwards, %llu backwards", (unsigned long long)r->n,
            (unsigned long long)back);
    }
    if (whole && r->n != count) {
        say(r->out->unsound, "%llu entries, ps_count says %llu", (unsigned long long)r->n,
            (unsigned long long)count);
    }
    /* By rank: the ends and what lies between. */
    for (unsigned i = 0; i < 5 && r->keys.n > 0; i++) {
        size_t at = i * (r->keys.n - 1) / 4;
        struct ps_slice key = {NULL, 0};
        uint64_t rank = 0;
        bool found = good(r, ps_cursor_select(cursor, at), "selecting") &&
                     good(r, ps_cursor_get(cursor, &key, NULL), "reading what was selected");
        if (whole && r->out->errors == 0 && (!found || compare(key, r->keys.at[at]) != 0)) {
            say(r->out->unsound, "entry %zu by rank is another", at);
        }
        bool ranked = good(r, ps_rank(r->view, r->tree, r->keys.at[at], &rank), "ranking");
        if (whole && ranked && rank != at) {
            say(r->out->unsound, "entry %zu has rank %llu", at, (unsigned long long)rank);
        }
    }
    ps_cursor_close(cursor);
    return whole && whole_back;
}

/* ---- looking up ---------------------------------------------------------------------------------
 */

static void compare_value(struct reader *r, size_t i, int rc, struct ps_slice value,
                          const char *call)
{
    if (good(r, rc, call)) {
        if (value.len != r->keys.value_len[i] ||
            hash_bytes(value.data, value.len) != r->keys.value[i]) {
            say(r->out->unsound, "%s gives another value than the walk", call);
        }
    } else if (rc == PS_NOTFOUND) {
        say(r->out->unsound, "%s does not find what the walk found", call);
    }
}

static void look_up_part(struct reader *r, size_t i)
{
    struct ps_slice part = {NULL, 0};
    uint64_t whole = 0;
    uint64_t from = r->keys.value_len[i] * 2 / 3;
    int rc = ps_get_part(r->view, r->tree, r->keys.at[i], from, 100, &part, &whole);
    if (good(r, rc, "ps_get_part")) {
        if (whole != r->keys.value_len[i]) {
            say(r->out->unsound, "ps_get_part knows another length");
        }
        (void)hash_bytes(part.data, part.len);
    }
}

static void look_up(struct reader *r)
{
    struct ps_lookup many[MANY];
    for (size_t i = 0; i < r->keys.n; i++) {
        struct ps_slice value = {NULL, 0};
        int rc = ps_get(r->view, r->tree, r->keys.at[i], &value);
        compare_value(r, i, rc, value, "ps_get");
        many[i % MANY] = (struct ps_lookup){.tree = r->tree, .key = r->keys.at[i]};
        if (i % MANY == MANY - 1 || i + 1 == r->keys.n) {
            size_t n = i % MANY + 1;
            ps_get_many(r->view, many, n);
            for (size_t k = 0; k < n; k++) {
                compare_value(r, i + 1 - n + k, many[k].rc, many[k].value, "ps_get_many");
            }
        }
        if (i % 8 == 0 || r->keys.value_len[i] > 4096) {
            look_up_part(r, i);
            rc = ps_touch(r->view, r->tree, r->keys.at[i], 100, &value);
            compare_value(r, i, rc, value, "ps_touch");
            rc = ps_probe(r->view, r->tree, r->keys.at[i], 100, r->residency, &value);
            if (rc != PS_WOULDWAIT) {
                compare_value(r, i, rc, value, "ps_probe");
            }
        }
    }
}

static void read_tree(struct reader *r)
{
    uint64_t count;
    if (ps_count(r->view, r->tree, &count) != 0) {
        return;
    }
    walk_both_ways(r, count);
    r->out->digest += r->sum + hash_entry(r->tree, (struct ps_slice){"tree", 4}, count);
    r->out->entries += r->n;
    look_up(r);
    for (size_t i = 0; i < r->keys.n; i++) {
        free((void *)(uintptr_t)r->keys.at[i].data);
    }
    r->keys.n = 0;
}

void read_everything(struct ps_store *store, struct reading *reading)
{
    struct reader *r = calloc(1, sizeof *r);
    struct ps_snapshot *snap = NULL;
    must(r != NULL && ps_snapshot_new(store, &snap) == 0, "memory");
    memset(reading, 0, sizeof *reading);
    ps_snapshot_renew(snap);
    r->store = store;
    r->view = ps_snapshot_view(snap);
    r->out = reading;
    must(ps_residency_new(store, &r->residency) == 0, "memory");
    for (r->tree = 0; r->tree < TREES; r->tree++) {
        read_tree(r);
    }
    ps_residency_free(r->residency);
    ps_snapshot_free(snap);
    free(r);
}

unsigned read_known(struct ps_store *store, const struct known *known, char wrong[200])
{
    struct ps_snapshot *snap;
    unsigned errors = 0;
    must(ps_snapshot_new(store, &snap) == 0, "memory");
    ps_snapshot_renew(snap);
    wrong[0] = '\0';
    for (size_t i = 0; i < known->entries.n; i++) {
        const struct known_entry *e = &known->entries.at[i];
        struct ps_slice value = {NULL, 0};
        int rc = ps_get(ps_snapshot_view(snap), e->tree, (struct ps_slice){e->key, e->len}, &value);
        errors += rc == PS_CORRUPT;
        if (rc != PS_CORRUPT && (rc != 0 || hash_bytes(value.data, value.len) != e->value)) {
            say(wrong, "entry %zu of what was there is wrong: %s", i,
                rc == 0 ? "another value" : ps_strerror(rc));
        }
    }
    ps_snapshot_free(snap);
    return errors;
}
