/*
 * What is done beside the clients' pipelines, on the control connections: throw-away connections
 * with raw bytes, keys that really expire, whole SCANs, BGSAVE; the comparison of the data sets;
 * cleaning up.
 *
 * Invariant: all replies of the clients' earlier steps are there when one of these begins (run.c,
 * invariant 1), and all of its own when it ends. Each selects its database itself.
 */
#include "tests/differential/run.h"

#include <assert.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATABASES       16
#define MAX_POLLS       4000
#define MAX_SCAN_ROUNDS 4000

/* A few calls that go out as one pipeline. */
struct script {
    struct call *calls;
    size_t count, capacity;
};

static struct arg text_arg(struct heap *heap, const char *text)
{
    size_t len = strlen(text);
    return (struct arg){.data = heap_copy(heap, text, len), .len = len};
}

/* Adds a call made of `argc` arguments (struct arg). */
static void script_add(struct runner *runner, struct script *script, enum cmp_mode mode,
                       size_t argc, ...)
{
    struct arg *argv = heap_alloc(&runner->heap, argc * sizeof *argv);
    va_list args;
    va_start(args, argc);
    for (size_t i = 0; i < argc; i++)
        argv[i] = va_arg(args, struct arg);
    va_end(args);
    if (script->count == script->capacity) {
        script->capacity = script->capacity ? script->capacity * 2 : 64;
        script->calls = realloc(script->calls, script->capacity * sizeof *script->calls);
        assert(script->calls != NULL);
    }
    script->calls[script->count++] = (struct call){.argc = argc, .argv = argv, .mode = mode};
}

static void script_select(struct runner *runner, struct script *script, int db)
{
    char text[16];
    snprintf(text, sizeof text, "%d", db);
    script_add(runner, script, CMP_EXACT, 2, text_arg(&runner->heap, "SELECT"),
               text_arg(&runner->heap, text));
}

/* Sends a script on the control connections and compares the replies, unless `compare` is false. */
static enum outcome script_run(struct runner *runner, struct script *script,
                               struct reply_list *replies, bool compare, const char *what)
{
    for (int s = 0; s < 2; s++) {
        replies[s].count = 0;
        for (size_t i = 0; i < script->count; i++)
            render_call(runner, &script->calls[i], s, false, &runner->control[s].out);
    }
    enum outcome outcome = exchange_pair(runner, runner->control, script->count, replies, what);
    for (size_t i = 0; i < script->count && outcome == OUTCOME_EQUAL; i++) {
        if (replies[0].items[i].type == REPLY_CLOSED || replies[1].items[i].type == REPLY_CLOSED)
            compare = true;
        if (compare)
            outcome = check_call(runner, NULL, &script->calls[i], &replies[0].items[i],
                                 &replies[1].items[i], NULL, NULL);
    }
    return outcome;
}

static void script_free(struct script *script, struct reply_list *replies)
{
    free(script->calls);
    reply_list_free(&replies[0]);
    reply_list_free(&replies[1]);
}

/* Raw bytes on a connection of their own; everything until the server closes is compared. */
static enum outcome run_raw(struct runner *runner, const struct step *step)
{
    struct conn pair[2] = {{.fd = -1}, {.fd = -1}};
    struct reply_list replies[2] = {{0}, {0}};
    struct arg name = text_arg(&runner->heap, "(raw)");
    struct arg bytes = {.data = step->raw, .len = step->raw_len};
    struct arg both[2] = {name, bytes};
    struct call call = {.argc = 2, .argv = both, .mode = CMP_EXACT};
    runner->env.client = NO_CLIENT;
    for (int s = 0; s < 2; s++) {
        if (conn_open(&pair[s], runner->servers[s].port) < 0)
            pair[s].closed = true;
        buffer_add(&pair[s].out, step->raw, step->raw_len);
        pair[s].last = true;
    }
    enum outcome outcome = exchange_pair(runner, pair, UNTIL_CLOSED, replies, "raw bytes");
    for (size_t i = 0; outcome == OUTCOME_EQUAL && i < replies[0].count && i < replies[1].count;
         i++) {
        call.mode = replies[0].items[i].type == '%' ||
                            (replies[0].items[i].type == '*' && replies[0].items[i].count > 10)
                        ? CMP_HELLO
                        : CMP_EXACT;
        outcome =
            check_call(runner, NULL, &call, &replies[0].items[i], &replies[1].items[i], NULL, NULL);
    }
    for (int s = 0; s < 2; s++) {
        conn_close(&pair[s]);
        reply_list_free(&replies[s]);
    }
    return outcome;
}

/* A key that lives 1 to 5 ms: set on both, then asked for until it is gone on both. */
static enum outcome run_elapse(struct runner *runner, const struct step *step)
{
    struct script script = {0};
    struct reply_list replies[2] = {{0}, {0}};
    struct heap *heap = &runner->heap;
    struct arg key = step->calls[0].argv[0];
    char life[8];
    snprintf(life, sizeof life, "%d", 1 + (int)(key.len + runner->sequence->number) % 5);
    script_select(runner, &script, step->db);
    script_add(runner, &script, CMP_EXACT, 5, text_arg(heap, "SET"), key,
               text_arg(heap, "short-lived"), text_arg(heap, "PX"), text_arg(heap, life));
    enum outcome outcome =
        script_run(runner, &script, replies, true, "SET PX of a few milliseconds");
    bool gone[2] = {false, false};
    script.count = 0;
    script_add(runner, &script, CMP_EXACT, 2, text_arg(heap, "EXISTS"), key);
    for (int polls = 0; outcome == OUTCOME_EQUAL && polls < MAX_POLLS && !(gone[0] && gone[1]);
         polls++) {
        if (polls > 0)
            poll(NULL, 0, 1);
        outcome = script_run(runner, &script, replies, false, "EXISTS of a key about to expire");
        for (int s = 0; s < 2 && outcome == OUTCOME_EQUAL; s++)
            gone[s] = gone[s] || reply_text_is(&replies[s].items[0], "0");
    }
    /* Whoever still has it now keeps it for ever. */
    if (outcome == OUTCOME_EQUAL)
        outcome = script_run(runner, &script, replies, true, "EXISTS of an expired key");
    script_free(&script, replies);
    return outcome;
}

/* Keeps distinct items only; expects them sorted. */
static void make_distinct(struct reply_list *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (kept == 0 || reply_order(&list->items[kept - 1], &list->items[i]) != 0)
            list->items[kept++] = list->items[i];
    list->count = kept;
}

/* One round of both servers' SCANs: their cursors differ, so do their numbers of rounds. */
static enum outcome scan_round(struct runner *runner, struct script *script,
                               struct reply_list *replies, struct reply_list *found, bool *done)
{
    enum outcome outcome = script_run(runner, script, replies, false, "SCAN");
    for (int s = 0; s < 2 && outcome == OUTCOME_EQUAL; s++) {
        const struct reply *reply = &replies[s].items[replies[s].count - 1];
        bool fits = reply->count == 2 && !reply_is_aggregate(&reply->items[0]);
        for (size_t i = 0; fits && !done[s] && i < reply->items[1].count; i++)
            reply_list_push(&found[s], reply->items[1].items[i]);
        done[s] = done[s] || !fits || reply_text_is(&reply->items[0], "0");
        runner->cursors[s] = fits ? reply->items[0].text : "0";
    }
    return outcome;
}

/* SCAN with a small COUNT, from cursor 0 to cursor 0 on each server; what they found must be the
 * same set. */
static enum outcome run_scanloop(struct runner *runner, const struct step *step)
{
    struct script script = {0};
    struct reply_list replies[2] = {{0}, {0}}, found[2] = {{0}, {0}};
    struct heap *heap = &runner->heap;
    struct arg pattern = step->calls[0].argv[0],
               cursor = {.data = "<cursor>", .len = 8, .subst = SUBST_CURSOR};
    bool done[2] = {false, false};
    char count[8];
    snprintf(count, sizeof count, "%d", 1 + (int)(runner->sequence->number % 3));
    runner->cursors[0] = runner->cursors[1] = "0";
    script_select(runner, &script, step->db);
    enum outcome outcome = script_run(runner, &script, replies, true, "SELECT");
    script.count = 0;
    script_add(runner, &script, CMP_EXACT, 6, text_arg(heap, "SCAN"), cursor,
               text_arg(heap, "COUNT"), text_arg(heap, count), text_arg(heap, "MATCH"), pattern);
    for (int rounds = 0;
         outcome == OUTCOME_EQUAL && rounds < MAX_SCAN_ROUNDS && !(done[0] && done[1]); rounds++)
        outcome = scan_round(runner, &script, replies, found, done);
    if (outcome == OUTCOME_EQUAL) {
        struct reply sets[2];
        for (int s = 0; s < 2; s++) {
            if (found[s].count > 1)
                qsort(found[s].items, found[s].count, sizeof *found[s].items, reply_order);
            make_distinct(&found[s]);
            sets[s] = (struct reply){.type = done[s] ? '*' : '?',
                                     .text = "",
                                     .count = found[s].count,
                                     .items = found[s].items};
        }
        outcome = check_call(runner, NULL, &script.calls[0], &sets[0], &sets[1], NULL, NULL);
    }
    script_free(&script, replies);
    reply_list_free(&found[0]);
    reply_list_free(&found[1]);
    return outcome;
}

/* BGSAVE, then SAVE until neither server says that the background save is still going on. */
static enum outcome run_bgsave(struct runner *runner)
{
    struct script script = {0};
    struct reply_list replies[2] = {{0}, {0}};
    struct heap *heap = &runner->heap;
    script_add(runner, &script, CMP_BGSAVE, 1, text_arg(heap, "BGSAVE"));
    enum outcome outcome = script_run(runner, &script, replies, true, "BGSAVE");
    script.count = 0;
    script_add(runner, &script, CMP_EXACT, 1, text_arg(heap, "SAVE"));
    bool busy = true;
    for (int polls = 0; outcome == OUTCOME_EQUAL && polls < MAX_POLLS && busy; polls++) {
        if (polls > 0)
            poll(NULL, 0, 2);
        outcome = script_run(runner, &script, replies, false, "SAVE after BGSAVE");
        busy = false;
        for (int s = 0; s < 2 && outcome == OUTCOME_EQUAL; s++)
            busy = busy ||
                   reply_text_is(&replies[s].items[0], "ERR Background save already in progress");
    }
    if (outcome == OUTCOME_EQUAL)
        outcome = check_call(runner, NULL, &script.calls[0], &replies[0].items[0],
                             &replies[1].items[0], NULL, NULL);
    script_free(&script, replies);
    return outcome;
}

enum outcome control_step(struct runner *runner, const struct step *step)
{
    switch (step->kind) {
    case STEP_RAW:
        return run_raw(runner, step);
    case STEP_ELAPSE:
        return run_elapse(runner, step);
    case STEP_SCANLOOP:
        return run_scanloop(runner, step);
    case STEP_BGSAVE:
        return run_bgsave(runner);
    case STEP_COMMAND:
        break;
    }
    assert(!"commands are run in pipelines");
    return OUTCOME_DEAD;
}

/* Adds what tells everything about the keys of one database. */
static void dump_database(struct runner *runner, struct script *script, int db,
                          const struct reply *keys)
{
    struct heap *heap = &runner->heap;
    if (keys->count > 0)
        script_select(runner, script, db);
    for (size_t i = 0; i < keys->count; i++) {
        struct arg key = {.data = keys->items[i].text, .len = keys->items[i].len};
        script_add(runner, script, CMP_EXACT, 2, text_arg(heap, "TYPE"), key);
        script_add(runner, script, CMP_EXACT, 2, text_arg(heap, "GET"), key);
        script_add(runner, script, CMP_PEXPIRETIME, 2, text_arg(heap, "PEXPIRETIME"), key);
    }
}

enum outcome control_dump(struct runner *runner)
{
    struct script names = {0}, contents = {0};
    struct reply_list replies[2] = {{0}, {0}}, more[2] = {{0}, {0}};
    struct heap *heap = &runner->heap;
    for (int db = 0; db < DATABASES; db++) {
        script_select(runner, &names, db);
        script_add(runner, &names, CMP_SET, 2, text_arg(heap, "KEYS"), text_arg(heap, "*"));
        script_add(runner, &names, CMP_EXACT, 1, text_arg(heap, "DBSIZE"));
    }
    enum outcome outcome = script_run(runner, &names, replies, true, "the final KEYS and DBSIZE");
    for (int db = 0; db < DATABASES && outcome == OUTCOME_EQUAL; db++)
        dump_database(runner, &contents, db, &replies[0].items[db * 3 + 1]);
    if (outcome == OUTCOME_EQUAL && contents.count > 0)
        outcome = script_run(runner, &contents, more, true, "the final contents");
    script_free(&names, replies);
    script_free(&contents, more);
    return outcome;
}

int control_cleanup(struct runner *runner)
{
    struct difference unused;
    struct script script = {0};
    struct reply_list replies[2] = {{0}, {0}};
    struct heap *heap = &runner->heap;
    struct difference *difference = runner->difference;
    bool fine = true;
    script_add(runner, &script, CMP_EXACT, 1, text_arg(heap, "FLUSHALL"));
    if (runner->sequence->touches_config) {
        static const char *const defaults[][2] = {{"requirepass", ""},
                                                  {"timeout", "0"},
                                                  {"tcp-keepalive", "300"},
                                                  {"proto-max-bulk-len", "512mb"}};
        for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
            script_add(runner, &script, CMP_EXACT, 4, text_arg(heap, "CONFIG"),
                       text_arg(heap, "SET"), text_arg(heap, defaults[i][0]),
                       text_arg(heap, defaults[i][1]));
    }
    /* A failure here is told by the caller, beside the difference that was found before. */
    runner->difference = &unused;
    enum outcome outcome = script_run(runner, &script, replies, false, "cleaning up");
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; outcome == OUTCOME_EQUAL && i < replies[s].count; i++)
            fine = fine && reply_text_is(&replies[s].items[i], "OK");
    runner->difference = difference;
    script_free(&script, replies);
    return outcome == OUTCOME_EQUAL && fine ? 0 : -1;
}
