/*
 * The comparison of two replies.
 *
 * Invariants:
 *  1. Everything is compared exactly, type bytes included, unless the call's mode declares
 *     otherwise; the modes are the only tolerance of the driver besides exceptions.tsv.
 *  2. An error, or a lost connection, is always compared exactly, whatever the mode.
 *  3. A reply that hasn't the shape its mode expects is compared exactly: two servers that are
 *     wrong in different ways still differ.
 */
#include "tests/differential/compare.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Replies are milliseconds apart; relative expiries of one sequence at least 99 seconds (token.c).
 */
#define TOLERANCE_MS 20000
/* Beyond any relative expiry, before any absolute one: the year 2080. */
#define FAR_MS    3471292800000LL
#define CENTURY_S 946684800LL

typedef bool compare_function(const struct compare_env *env, struct reply *a, struct reply *b);

static long long distance(long long a, long long b)
{
    return a > b ? a - b : b - a;
}

static bool both_integers(const struct reply *a, const struct reply *b)
{
    return a->type == ':' && b->type == ':';
}

static void sort_items(struct reply *value)
{
    if (value->count > 1)
        qsort(value->items, value->count, sizeof *value->items, reply_order);
}

static bool compare_set(const struct compare_env *env, struct reply *a, struct reply *b)
{
    (void)env;
    sort_items(a);
    sort_items(b);
    return reply_equal(a, b);
}

static bool compare_scan(const struct compare_env *env, struct reply *a, struct reply *b)
{
    if (a->count == 2 && b->count == 2)
        compare_set(env, &a->items[1], &b->items[1]);
    return reply_equal(a, b);
}

static bool near(struct reply *a, struct reply *b, long long tolerance)
{
    if (!both_integers(a, b) || a->integer < 0 || b->integer < 0)
        return reply_equal(a, b);
    return distance(a->integer, b->integer) <= tolerance;
}

static bool compare_ttl(const struct compare_env *env, struct reply *a, struct reply *b)
{
    (void)env;
    return near(a, b, TOLERANCE_MS / 1000);
}

static bool compare_pttl(const struct compare_env *env, struct reply *a, struct reply *b)
{
    (void)env;
    return near(a, b, TOLERANCE_MS);
}

static bool compare_expiretime(const struct compare_env *env, struct reply *a, struct reply *b)
{
    (void)env;
    if (a->integer > FAR_MS / 1000 || b->integer > FAR_MS / 1000)
        return reply_equal(a, b);
    return near(a, b, TOLERANCE_MS / 1000);
}

static bool compare_pexpiretime(const struct compare_env *env, struct reply *a, struct reply *b)
{
    (void)env;
    if (a->integer > FAR_MS || b->integer > FAR_MS)
        return reply_equal(a, b);
    return near(a, b, TOLERANCE_MS);
}

static bool is_time(const struct reply *value)
{
    return value->type == '*' && value->count == 2 && value->items[0].type == '$' &&
           value->items[1].type == '$' && atoll(value->items[0].text) > CENTURY_S &&
           value->items[1].len <= 6;
}

static bool compare_time(const struct compare_env *env, struct reply *a, struct reply *b)
{
    (void)env;
    if (!is_time(a) || !is_time(b))
        return reply_equal(a, b);
    return distance(atoll(a->items[0].text), atoll(b->items[0].text)) <= TOLERANCE_MS / 1000;
}

static bool compare_recent(const struct compare_env *env, struct reply *a, struct reply *b)
{
    (void)env;
    return both_integers(a, b) && a->integer > CENTURY_S && b->integer > CENTURY_S;
}

static bool compare_count_only(const struct compare_env *env, struct reply *a, struct reply *b)
{
    (void)env;
    return both_integers(a, b) && a->integer > 0 && b->integer > 0;
}

/* Whether the ids are those of the connection, as far as they're known. */
static bool ids_match(const struct compare_env *env, const struct reply *a, const struct reply *b)
{
    const long long *ids = env->ids[env->client];
    return both_integers(a, b) && a->integer > 0 && b->integer > 0 &&
           (ids[0] < 0 || ids[0] == a->integer) && (ids[1] < 0 || ids[1] == b->integer);
}

static bool compare_client_id(const struct compare_env *env, struct reply *a, struct reply *b)
{
    return ids_match(env, a, b);
}

static bool compare_hello(const struct compare_env *env, struct reply *a, struct reply *b)
{
    if (a->type != b->type || a->count != b->count)
        return false;
    for (size_t i = 0; i + 1 < a->count; i += 2) {
        struct reply *name = &a->items[i], *value = &a->items[i + 1];
        if (!reply_equal(name, &b->items[i]))
            return false;
        if (reply_text_is(name, "id") ? !ids_match(env, value, &b->items[i + 1])
                                      : !reply_equal(value, &b->items[i + 1]))
            return false;
    }
    return true;
}

/* Fields of CLIENT INFO and LIST whose values are compared; of the others only the names. */
static bool is_stable_field(const char *field, size_t len)
{
    static const char *const stable[] = {"name",  "flags", "db",   "sub",   "psub", "ssub",
                                         "multi", "cmd",   "user", "redir", "resp"};
    for (size_t i = 0; i < sizeof stable / sizeof stable[0]; i++)
        if (strlen(stable[i]) == len && memcmp(stable[i], field, len) == 0)
            return true;
    return false;
}

/* Appends a line's field names and stable values. Returns characters written. */
static size_t canonical_line(char *line, char *out, size_t cap)
{
    size_t at = 0;
    char *rest = NULL;
    for (char *field = strtok_r(line, " ", &rest); field != NULL;
         field = strtok_r(NULL, " ", &rest)) {
        size_t name = strcspn(field, "=");
        size_t shown = is_stable_field(field, name) ? strlen(field) : name;
        if (at + shown + 2 >= cap)
            break;
        at += (size_t)sprintf(out + at, "%.*s ", (int)shown, field);
    }
    out[at] = '\0';
    return at;
}

/* The lines of own connections, in the order of the connections. */
static size_t canonical_clients(const struct compare_env *env, const struct reply *value,
                                int server, char *out, size_t cap)
{
    size_t at = 0;
    out[0] = '\0';
    for (int client = 0; client < MAX_CLIENTS; client++) {
        char *copy = strndup(value->text, value->len), *rest = NULL;
        assert(copy != NULL);
        for (char *line = strtok_r(copy, "\n", &rest); line != NULL;
             line = strtok_r(NULL, "\n", &rest)) {
            const char *start = strncmp(line, "txt:", 4) == 0 ? line + 4 : line;
            long long id = strncmp(start, "id=", 3) == 0 ? atoll(start + 3) : -2;
            if (id == env->ids[client][server] && cap - at > 64) {
                at += (size_t)sprintf(out + at, "client %d: ", client);
                at += canonical_line(line, out + at, cap - at);
            }
        }
        free(copy);
    }
    return at;
}

/* Puts the canonical text in the reply's place, so that a report shows what was compared. */
static void replace_text(const struct compare_env *env, struct reply *value, const char *text,
                         size_t len)
{
    value->text = heap_copy(env->heap, text, len);
    value->len = len;
}

static bool compare_client_info(const struct compare_env *env, struct reply *a, struct reply *b)
{
    char text[4096];
    if (a->type != b->type || a->null != b->null || reply_is_aggregate(a) || a->type == '+')
        return reply_equal(a, b);
    replace_text(env, a, text, canonical_clients(env, a, 0, text, sizeof text));
    replace_text(env, b, text, canonical_clients(env, b, 1, text, sizeof text));
    return reply_equal(a, b);
}

/* Copies the compared lines of INFO. */
static size_t canonical_info(const struct reply *value, char *out, size_t cap)
{
    static const char *const kept[] = {
        "txt:# Server",   "# Server",    "# Keyspace", "txt:# Keyspace",
        "redis_version:", "redis_mode:", "role:",      "db"};
    char *copy = strndup(value->text, value->len), *rest = NULL;
    size_t at = 0;
    assert(copy != NULL);
    for (char *line = strtok_r(copy, "\r\n", &rest); line != NULL;
         line = strtok_r(NULL, "\r\n", &rest)) {
        char *average = strstr(line, ",avg_ttl=");
        if (average != NULL)
            *average = '\0';
        for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
            if (strncmp(line, kept[i], strlen(kept[i])) == 0 && at + strlen(line) + 2 < cap)
                at += (size_t)sprintf(out + at, "%s\n", line);
    }
    free(copy);
    return at;
}

static bool compare_info(const struct compare_env *env, struct reply *a, struct reply *b)
{
    char text[4096];
    if (a->type != b->type || a->null != b->null || reply_is_aggregate(a) || a->type == '+')
        return reply_equal(a, b);
    replace_text(env, a, text, canonical_info(a, text, sizeof text));
    replace_text(env, b, text, canonical_info(b, text, sizeof text));
    return reply_equal(a, b);
}

static int pair_order(const void *a, const void *b)
{
    return reply_order(a, b);
}

static bool compare_config(const struct compare_env *env, struct reply *a, struct reply *b)
{
    (void)env;
    struct reply *both[2] = {a, b};
    for (int i = 0; i < 2; i++)
        if (reply_is_aggregate(both[i]) && both[i]->count > 2 && both[i]->count % 2 == 0)
            qsort(both[i]->items, both[i]->count / 2, 2 * sizeof *both[i]->items, pair_order);
    return reply_equal(a, b);
}

static bool compare_command_info(const struct compare_env *env, struct reply *a, struct reply *b)
{
    static const size_t sets[] = {2, 6, 7};
    struct reply *both[2] = {a, b};
    (void)env;
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < both[side]->count; i++)
            for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++)
                if (both[side]->items[i].count > sets[s])
                    sort_items(&both[side]->items[i].items[sets[s]]);
    return reply_equal(a, b);
}

static const struct reply *map_get(const struct reply *map, const char *name)
{
    for (size_t i = 0; i + 1 < map->count; i += 2)
        if (reply_text_is(&map->items[i], name))
            return &map->items[i + 1];
    return NULL;
}

static bool compare_docs(const struct compare_env *env, struct reply *a, struct reply *b)
{
    static const char *const fields[] = {"summary", "since", "group", "complexity"};
    (void)env;
    if (a->type != b->type || a->count != b->count)
        return false;
    compare_config(env, a, b);
    for (size_t i = 0; i + 1 < a->count; i += 2) {
        const struct reply *da = &a->items[i + 1], *db = &b->items[i + 1];
        if (!reply_equal(&a->items[i], &b->items[i]) || da->type != db->type)
            return false;
        for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++) {
            const struct reply *fa = map_get(da, fields[f]), *fb = map_get(db, fields[f]);
            if ((fa == NULL) != (fb == NULL) || (fa != NULL && !reply_equal(fa, fb)))
                return false;
        }
    }
    return true;
}

static bool contains(const struct reply *set, const struct reply *value)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->items[i].len == value->len &&
            memcmp(set->items[i].text, value->text, value->len) == 0)
            return true;
    return false;
}

static bool compare_randomkey(const struct reply *a, const struct reply *b,
                              const struct reply *keys_a, const struct reply *keys_b)
{
    if (a->type != b->type || a->null != b->null || keys_a == NULL || keys_b == NULL ||
        a->type == '+')
        return reply_equal(a, b);
    bool null = a->null || a->type == '_';
    return null ? keys_a->count == 0 && keys_b->count == 0
                : contains(keys_a, a) && contains(keys_b, b);
}

static bool compare_bgsave(const struct compare_env *env, struct reply *a, struct reply *b)
{
    (void)env;
    return a->type == '+' && b->type == '+';
}

bool compare_replies(const struct compare_env *env, enum cmp_mode mode, struct reply *a,
                     struct reply *b, const struct reply *next_a, const struct reply *next_b)
{
    static compare_function *const functions[] = {
        [CMP_SET] = compare_set,
        [CMP_SCAN] = compare_scan,
        [CMP_TTL] = compare_ttl,
        [CMP_PTTL] = compare_pttl,
        [CMP_EXPIRETIME] = compare_expiretime,
        [CMP_PEXPIRETIME] = compare_pexpiretime,
        [CMP_TIME] = compare_time,
        [CMP_RECENT] = compare_recent,
        [CMP_CLIENT_ID] = compare_client_id,
        [CMP_CLIENT_INFO] = compare_client_info,
        [CMP_HELLO] = compare_hello,
        [CMP_INFO] = compare_info,
        [CMP_CONFIG] = compare_config,
        [CMP_COMMAND_INFO] = compare_command_info,
        [CMP_COMMAND_DOCS] = compare_docs,
        [CMP_COUNT_ONLY] = compare_count_only,
        [CMP_BGSAVE] = compare_bgsave,
    };
    if (reply_is_error(a) || reply_is_error(b) || mode == CMP_EXACT ||
        (reply_text_is(a, "QUEUED") && a->type == '+' && b->type == '+'))
        return reply_equal(a, b);
    if (mode == CMP_RANDOMKEY)
        return compare_randomkey(a, b, next_a, next_b);
    return functions[mode](env, a, b);
}
