/*
 * See verify.h. One pass over a load finds every prefix that explains what the server holds: a
 * flag per key says whether model and server agree, and an operation changes only its keys' flags.
 */
#include "tests/crash/verify.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PRINTED 4
#define FLAGS       (KEYS + 1) /* the last one is the counter's */

struct comparison {
    struct model observed;
    long dbsize;
    bool agrees[FLAGS];
    bool agreed_once[FLAGS]; /* after some number of operations that is allowed */
    int disagreements;
};

/* Sends SELECT and one more command; reads the reply to the SELECT. */
static int ask(struct wire *wire, int database, struct buffer *out)
{
    struct buffer select = {0};
    char number[16], text[256];
    snprintf(number, sizeof number, "%d", database);
    buffer_command(&select, 2, "SELECT", number);
    buffer_append(&select, out->data, out->length);
    int result = wire_send(wire, &select);
    buffer_free(&select);
    return result ? result : wire_skip_reply(wire, text, sizeof text);
}

/* GET of an integer that may not exist (then 0). */
static int read_integer(struct wire *wire, int database, const char *key, int64_t *number)
{
    struct buffer out = {0};
    const char *data;
    buffer_command(&out, 2, "GET", key);
    int result = ask(wire, database, &out);
    buffer_free(&out);
    if (result != 0)
        return -1;
    long length = wire_bulk(wire, &data);
    *number = length > 0 ? strtoll(data, NULL, 10) : 0;
    return length == -2 ? -1 : 0;
}

static int read_value(struct wire *wire, struct value *value)
{
    const char *data;
    long length = wire_bulk(wire, &data);
    if (length < -1)
        return -1;
    if (length >= 0) {
        value->exists = true;
        value->length = (size_t)length;
        value->data = malloc((size_t)length + 1);
        assert(value->data);
        memcpy(value->data, data, (size_t)length);
        value->data[length] = 0;
    }
    return 0;
}

static int observe(struct wire *wire, int client, struct comparison *comparison)
{
    struct buffer out = {0};
    char own[16];
    for (int key = 0; key < KEYS; key++) {
        char name[16];
        key_name(key, name);
        buffer_command(&out, 2, "GET", name);
    }
    buffer_command(&out, 1, "DBSIZE");
    int result = ask(wire, client, &out);
    buffer_free(&out);
    for (int key = 0; key < KEYS && result == 0; key++)
        result = read_value(wire, &comparison->observed.values[key]);
    if (result != 0)
        return -1;
    comparison->dbsize = wire_number(wire, ':');
    snprintf(own, sizeof own, "own:%d", client);
    return read_integer(wire, COUNTER_DB, own, &comparison->observed.counter);
}

static bool same_value(const struct value *a, const struct value *b)
{
    return a->exists == b->exists && a->length == b->length &&
           (!a->exists || memcmp(a->data, b->data, a->length) == 0);
}

static void compare_flag(struct comparison *comparison, const struct model *model, int flag)
{
    bool agrees = flag == KEYS
                      ? model->counter == comparison->observed.counter
                      : same_value(&model->values[flag], &comparison->observed.values[flag]);
    comparison->disagreements += comparison->agrees[flag] - agrees;
    comparison->agrees[flag] = agrees;
    comparison->agreed_once[flag] |= agrees;
}

static void compare_all(struct comparison *comparison, const struct model *model)
{
    for (int flag = 0; flag < FLAGS; flag++)
        compare_flag(comparison, model, flag);
}

static void apply_and_compare(struct comparison *comparison, struct history *history, uint64_t n)
{
    struct op op;
    op_make(&op, history->load.seed, history->load.client, history->load.first + n);
    op_apply(&op, &history->model);
    if (op.kind == OP_FLUSH)
        compare_all(comparison, &history->model);
    for (int i = 0; i < op.key_count; i++)
        compare_flag(comparison, &history->model, op.keys[i]);
    compare_flag(comparison, &history->model, KEYS);
}

static void print_disagreement(const struct comparison *comparison, const struct history *history)
{
    const struct load *load = &history->load;
    printf("client %d: no prefix of its operations explains its database\n", load->client);
    printf("  operations %" PRIu64 " to %" PRIu64 " were sent, the first %" PRIu64 " of them were "
           "acknowledged; the database has %ld keys\n",
           load->first, load->first + load->sent, history->promised, comparison->dbsize);
    int wrong = 0;
    for (int key = 0; key < KEYS; key++) {
        const struct value *have = &comparison->observed.values[key];
        const struct value *want = &history->model.values[key];
        if (comparison->agreed_once[key] || ++wrong > MAX_PRINTED)
            continue;
        printf("  key:%03d never had %zu bytes '%.20s'; after all: %zu bytes '%.20s'\n", key,
               have->length, have->exists ? have->data : "(none)", want->length,
               want->exists ? want->data : "(none)");
    }
    printf("  %d keys have values they never had after the acknowledged operations\n", wrong);
    if (!comparison->agreed_once[KEYS])
        printf("  own:%d never was %" PRId64 "; after all: %" PRId64 "\n", load->client,
               comparison->observed.counter, history->model.counter);
}

static int find_prefix(struct comparison *comparison, struct history *history)
{
    bool found = false;
    comparison->disagreements = FLAGS;
    compare_all(comparison, &history->model);
    for (uint64_t n = 0; n < history->promised; n++)
        apply_and_compare(comparison, history, n);
    for (int flag = 0; flag < FLAGS; flag++)
        comparison->agreed_once[flag] = comparison->agrees[flag];
    for (uint64_t n = history->promised; n <= history->load.sent; n++) {
        if (n > history->promised)
            apply_and_compare(comparison, history, n - 1);
        if (comparison->disagreements || model_size(&history->model) != comparison->dbsize)
            continue;
        history->lowest = found ? history->lowest : n;
        history->highest = n;
        found = true;
    }
    if (!found)
        print_disagreement(comparison, history);
    return found ? 0 : -1;
}

static int verify_client(struct wire *wire, struct history *history)
{
    struct comparison comparison = {0};
    if (observe(wire, history->load.client, &comparison) != 0) {
        printf("client %d: its database cannot be read\n", history->load.client);
        model_clear(&comparison.observed);
        return -1;
    }
    int result = find_prefix(&comparison, history);
    model_clear(&history->model);
    history->model = comparison.observed;
    return result;
}

/* Whether what is missing was not acknowledged before something that is there was sent. */
static int verify_cut(const struct history histories[CLIENTS])
{
    int64_t lost = INT64_MAX;
    int loser = 0, result = 0;
    for (int c = 0; c < CLIENTS; c++) {
        const struct history *history = &histories[c];
        if (history->highest >= history->load.sent)
            continue;
        int64_t when = history->load.acknowledged_at[history->highest];
        if (when != 0 && when < lost) {
            lost = when;
            loser = c;
        }
    }
    for (int c = 0; c < CLIENTS; c++) {
        const struct history *history = &histories[c];
        if (history->lowest == 0 || history->load.sent_at[history->lowest - 1] <= lost)
            continue;
        printf("client %d: operation %" PRIu64 " is there, but operation %" PRIu64 " of client %d, "
               "acknowledged before that was sent, is not\n",
               c, history->load.first + history->lowest - 1,
               histories[loser].load.first + histories[loser].highest, loser);
        result = -1;
    }
    return result;
}

static int verify_sum(struct wire *wire, const struct history histories[CLIENTS])
{
    int64_t shared, sum = 0;
    for (int c = 0; c < CLIENTS; c++)
        sum += histories[c].model.counter;
    if (read_integer(wire, SHARED_DB, "shared", &shared) != 0) {
        printf("the shared counter cannot be read\n");
        return -1;
    }
    if (shared != sum)
        printf("the clients' counters sum to %" PRId64 ", the shared one is %" PRId64 "\n", sum,
               shared);
    return shared == sum ? 0 : -1;
}

int verify_all(int port, struct history histories[CLIENTS])
{
    struct wire wire;
    int result = 0;
    if (wire_open(&wire, port) != 0) {
        printf("no connection for verification\n");
        return -1;
    }
    for (int c = 0; c < CLIENTS; c++)
        result |= verify_client(&wire, &histories[c]);
    if (result == 0)
        result |= verify_cut(histories) | verify_sum(&wire, histories);
    wire_close(&wire);
    return result;
}
