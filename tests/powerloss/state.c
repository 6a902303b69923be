/*
 * state.c - see state.h.
 */
#include "tests/powerloss/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/rng.h"

static void *need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

struct ps_slice state_tree(unsigned tree)
{
    static const char *const names[STATE_TREES] = {"keys", "elements", "expires"};
    return (struct ps_slice){names[tree], strlen(names[tree])};
}

const struct ps_tree_options *state_options(unsigned options)
{
    static const struct ps_tree_options all[STATE_OPTIONS] = {
        {0},
        {.merge = STATE_OPERATOR},
        {.compression = PS_LZ4, .merge = STATE_OPERATOR},
        {.compression = PS_ZSTD, .compress_over = 100, .merge = STATE_OPERATOR},
    };
    return &all[options];
}

/* The number is in the last four bytes. The first of the long ones are in runs of the file, the
 * next in runs of the arena. */
struct ps_slice state_key(enum keys keys, unsigned number, unsigned char buffer[KEY_ROOM])
{
    size_t len = keys == KEYS_SHORT ? 1 : keys == KEYS_PREFIX ? 150 : 20;
    if (keys == KEYS_LONG && number % 64 == 0)
        len = 67000 + number;
    else if (keys == KEYS_LONG && number % 16 == 3)
        len = 600 + number * 10;
    memset(buffer, 'k', len);
    len += (size_t)snprintf((char *)buffer + len, 8, "%04u", number);
    return (struct ps_slice){buffer, len};
}

struct ps_slice state_value(const struct value *value, unsigned char buffer[VALUE_ROOM])
{
    uint64_t word = value->tag;
    for (size_t at = 0; at < value->len; at += sizeof word) {
        size_t n = value->len - at < sizeof word ? value->len - at : sizeof word;
        memcpy(buffer + at, &word, n);
        if ((value->tag >> 40 & 1) == 0 || at % 64 == 0) /* half of them can be compressed */
            word = (word + at) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return (struct ps_slice){buffer, value->len};
}

/* ---- states and lines -------------------------------------------------------------------------
 */

const struct state *states_keep(struct states *states, const struct state *state)
{
    if (states->n == states->room) {
        states->room = states->room * 2 + 64;
        states->at = need(realloc(states->at, states->room * sizeof *states->at));
    }
    struct state *kept = need(malloc(sizeof *kept));
    *kept = *state;
    states->at[states->n++] = kept;
    return kept;
}

void states_free(struct states *states)
{
    for (size_t i = 0; i < states->n; i++)
        free(states->at[i]);
    free(states->at);
    *states = (struct states){0};
}

void line_copy(struct line *to, const struct line *from)
{
    *to = *from;
    to->room = from->n + 16;
    to->at = need(malloc(to->room * sizeof(const struct state *)));
    if (from->n)
        memcpy(to->at, from->at, from->n * sizeof(const struct state *));
}

void line_free(struct line *line)
{
    free(line->at);
    *line = (struct line){0};
}

void line_add(struct line *line, const struct state *state)
{
    if (line->n == 0)
        line->first = state->seq;
    if (state->seq != line->first + line->n)
        abort();
    if (line->n == line->room) {
        line->room = line->room * 2 + 64;
        line->at = need(realloc(line->at, line->room * sizeof(const struct state *)));
    }
    line->at[line->n++] = state;
}

void line_cut(struct line *line, uint64_t seq)
{
    if (line->n && seq < line->first + line->n - 1 && seq >= line->first)
        line->n = seq - line->first + 1;
}

const struct state *line_find(const struct line *line, uint64_t seq)
{
    return seq >= line->first && seq - line->first < line->n ? line->at[seq - line->first] : NULL;
}

uint64_t line_last(const struct line *line)
{
    return line->n ? line->first + line->n - 1 : 0;
}

/* ---- comparing --------------------------------------------------------------------------------
 */

static const char *say(const char *format, unsigned tree, unsigned number, uint64_t seq)
{
    static char text[200];
    snprintf(text, sizeof text, format, (int)state_tree(tree).len,
             (const char *)state_tree(tree).data, number, (unsigned long long)seq);
    return text;
}

static const char *differs_by_call(int rc, unsigned tree)
{
    static char text[120];
    snprintf(text, sizeof text, "reading tree %u answers %d (%s)", tree, rc, ps_strerror(rc));
    return text;
}

static bool same(struct ps_slice a, struct ps_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

struct scan {
    const struct state *state;
    enum keys keys;
    unsigned tree;
    bool seen[STATE_KEYS];
    unsigned char key[KEY_ROOM], value[VALUE_ROOM];
};

static const char *entry_differs(struct scan *scan, struct ps_slice key, struct ps_slice value)
{
    char digits[5] = {0};
    if (key.len >= 4)
        memcpy(digits, (const char *)key.data + key.len - 4, 4);
    unsigned number = (unsigned)strtoul(digits, NULL, 10);
    if (number >= STATE_KEYS || !same(key, state_key(scan->keys, number, scan->key)))
        return say("tree %.*s: a key that nobody put (%u; state %llu)", scan->tree, number,
                   scan->state->seq);
    const struct value *want = &scan->state->at[scan->tree][number];
    if (!want->there || scan->seen[number])
        return say("tree %.*s: key %u is there and must not be (state %llu)", scan->tree, number,
                   scan->state->seq);
    if (!same(value, state_value(want, scan->value)))
        return say("tree %.*s: key %u has another value than in state %llu", scan->tree, number,
                   scan->state->seq);
    scan->seen[number] = true;
    return NULL;
}

static const char *scan_tree(struct scan *scan, struct ps_view *view, ps_tree id)
{
    struct ps_cursor *cursor;
    const char *wrong = NULL;
    int rc = ps_cursor_open(view, id, &cursor);
    if (rc)
        return differs_by_call(rc, scan->tree);
    memset(scan->seen, 0, sizeof scan->seen);
    for (rc = ps_cursor_first(cursor); rc == 0 && !wrong; rc = ps_cursor_next(cursor)) {
        struct ps_slice key, value;
        rc = ps_cursor_get(cursor, &key, &value);
        if (rc)
            break;
        wrong = entry_differs(scan, key, value);
    }
    ps_cursor_close(cursor);
    if (!wrong && rc && rc != PS_NOTFOUND)
        wrong = differs_by_call(rc, scan->tree);
    for (unsigned i = 0; i < STATE_KEYS && !wrong; i++)
        if (scan->state->at[scan->tree][i].there && !scan->seen[i])
            wrong =
                say("tree %.*s: key %u is missing (state %llu)", scan->tree, i, scan->state->seq);
    return wrong;
}

static bool options_differ(struct ps_view *view, ps_tree id, unsigned options)
{
    const struct ps_tree_options *want = state_options(options);
    struct ps_tree_options found;
    return ps_tree_options(view, id, &found) != 0 || found.compression != want->compression ||
           found.compress_over != want->compress_over || strcmp(found.merge, want->merge) != 0;
}

const char *state_differs(const struct state *state, enum keys keys, struct ps_view *view)
{
    struct scan *scan = need(calloc(1, sizeof *scan));
    const char *wrong = NULL;
    scan->state = state;
    scan->keys = keys;
    for (unsigned tree = 0; tree < STATE_TREES && !wrong; tree++) {
        ps_tree id;
        int rc = ps_tree_find(view, state_tree(tree), &id);
        scan->tree = tree;
        if (rc && rc != PS_NOTFOUND)
            wrong = differs_by_call(rc, tree);
        else if ((rc == 0) != (state->exists[tree] != 0))
            wrong = say(rc ? "tree %.*s is missing (%u; state %llu)"
                           : "tree %.*s is there and must not be (%u; state %llu)",
                        tree, 0, state->seq);
        else if (rc == 0 && options_differ(view, id, state->options[tree]))
            wrong = say("tree %.*s has other options (%u; state %llu)", tree, 0, state->seq);
        else if (rc == 0)
            wrong = scan_tree(scan, view, id);
    }
    free(scan);
    return wrong;
}
