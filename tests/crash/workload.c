/*
 * See workload.h. Values carry who wrote them and when, so that any two differ.
 */
#include "tests/crash/workload.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void buffer_append(struct buffer *buffer, const void *data, size_t length)
{
    if (buffer->length + length > buffer->capacity) {
        buffer->capacity = (buffer->length + length) * 2;
        buffer->data = realloc(buffer->data, buffer->capacity);
        assert(buffer->data);
    }
    memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}

static void append_header(struct buffer *buffer, char kind, size_t number)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%c%zu\r\n", kind, number);
    buffer_append(buffer, text, (size_t)length);
}

static void append_bulk(struct buffer *buffer, const char *data, size_t length)
{
    append_header(buffer, '$', length);
    buffer_append(buffer, data, length);
    buffer_append(buffer, "\r\n", 2);
}

void buffer_command(struct buffer *buffer, int count, ...)
{
    va_list words;
    append_header(buffer, '*', (size_t)count);
    va_start(words, count);
    for (int i = 0; i < count; i++) {
        const char *word = va_arg(words, const char *);
        append_bulk(buffer, word, strlen(word));
    }
    va_end(words);
}

void key_name(int key, char out[16])
{
    snprintf(out, 16, "key:%03d", key);
}

/* Mostly small, some of a page, few in overflow, very few in chunks; of SET also some that are
 * written in several transactions. */
static uint32_t pick_length(uint64_t *state, enum op_kind kind)
{
    uint64_t dice = random_next(state) % 1000;
    uint32_t limit = dice < 700 ? 150 : dice < 950 ? 2500 : dice < 990 ? 30000 : 200000;
    if (kind == OP_SET && dice >= 995)
        limit = 5000000;
    return 24 + (uint32_t)(random_next(state) % limit);
}

static enum op_kind pick_kind(uint64_t *state)
{
    static const struct {
        enum op_kind kind;
        unsigned below;
    } table[] = {
        {OP_SET, 350},  {OP_DEL, 450},    {OP_SETRANGE, 530}, {OP_APPEND, 600},   {OP_MSET, 700},
        {OP_INCR, 780}, {OP_RENAME, 840}, {OP_EXEC_SET, 920}, {OP_EXEC_SUM, 998}, {OP_FLUSH, 1000},
    };
    unsigned dice = (unsigned)(random_next(state) % 1000);
    int i = 0;
    while (dice >= table[i].below)
        i++;
    return table[i].kind;
}

static int keys_of(enum op_kind kind)
{
    switch (kind) {
    case OP_MSET:
    case OP_EXEC_SET:
        return 3;
    case OP_RENAME:
        return 2;
    case OP_EXEC_SUM:
    case OP_FLUSH:
        return 0;
    default:
        return 1;
    }
}

void op_make(struct op *op, uint64_t seed, int client, uint64_t number)
{
    uint64_t state = seed ^ (uint64_t)client << 56 ^ number * 0x2545f4914f6cdd1du;
    *op = (struct op){.client = client, .number = number};
    op->kind = pick_kind(&state);
    op->key_count = keys_of(op->kind);
    int first = (int)(random_next(&state) % TEXTS);
    for (int i = 0; i < op->key_count; i++)
        op->keys[i] = (first + i * 17) % TEXTS; /* distinct */
    if (op->kind == OP_INCR)
        op->keys[0] = TEXTS + first % (KEYS - TEXTS);
    op->length = op->kind == OP_SETRANGE ? 24 + (uint32_t)first : pick_length(&state, op->kind);
    op->amount = 1 + (int64_t)(random_next(&state) % 1000);
}

char *op_value(const struct op *op, int i)
{
    char *data = malloc(op->length + 1);
    assert(data);
    int head = snprintf(data, op->length + 1, "%d.%" PRIu64 ".%d:", op->client, op->number, i);
    uint64_t state = op->number;
    for (uint32_t at = (uint32_t)head; at < op->length; at++)
        data[at] = (char)('a' + random_next(&state) % 26);
    data[op->length] = 0;
    return data;
}

static void encode_write(const struct op *op, const char *command, int i, struct buffer *out)
{
    char key[16];
    char *value = op_value(op, i);
    key_name(op->keys[i], key);
    buffer_command(out, 3, command, key, value);
    free(value);
}

static void encode_mset(const struct op *op, struct buffer *out)
{
    append_header(out, '*', 1 + 2 * (size_t)op->key_count);
    append_bulk(out, "MSET", 4);
    for (int i = 0; i < op->key_count; i++) {
        char key[16];
        char *value = op_value(op, i);
        key_name(op->keys[i], key);
        append_bulk(out, key, strlen(key));
        append_bulk(out, value, op->length);
        free(value);
    }
}

static size_t range_offset(const struct op *op)
{
    return op->number % 200;
}

static void encode_setrange(const struct op *op, struct buffer *out)
{
    char key[16], offset[24];
    char *value = op_value(op, 0);
    key_name(op->keys[0], key);
    snprintf(offset, sizeof offset, "%zu", range_offset(op));
    buffer_command(out, 4, "SETRANGE", key, offset, value);
    free(value);
}

/* Rename must find its source whatever came before: a set and a rename in one EXEC. */
static void encode_rename(const struct op *op, struct buffer *out)
{
    char from[16], to[16];
    key_name(op->keys[0], from);
    key_name(op->keys[1], to);
    buffer_command(out, 1, "MULTI");
    encode_write(op, "SET", 0, out);
    buffer_command(out, 3, "RENAME", from, to);
    buffer_command(out, 1, "EXEC");
}

static void encode_sum(const struct op *op, struct buffer *out)
{
    char own[16], home[16], amount[24];
    snprintf(own, sizeof own, "own:%d", op->client);
    snprintf(home, sizeof home, "%d", op->client);
    snprintf(amount, sizeof amount, "%" PRId64, op->amount);
    buffer_command(out, 1, "MULTI");
    buffer_command(out, 2, "SELECT", "14");
    buffer_command(out, 3, "INCRBY", own, amount);
    buffer_command(out, 2, "SELECT", "15");
    buffer_command(out, 3, "INCRBY", "shared", amount);
    buffer_command(out, 2, "SELECT", home);
    buffer_command(out, 1, "EXEC");
}

void op_encode(const struct op *op, struct buffer *out)
{
    char key[16], text[24];
    key_name(op->keys[0], key);
    snprintf(text, sizeof text, "%" PRId64, op->amount);
    switch (op->kind) {
    case OP_SET:
        encode_write(op, "SET", 0, out);
        break;
    case OP_DEL:
        buffer_command(out, 2, "DEL", key);
        break;
    case OP_SETRANGE:
        encode_setrange(op, out);
        break;
    case OP_APPEND:
        /* Bounded by a SET in the same unit: values must not grow with the number of rounds. */
        buffer_command(out, 1, "MULTI");
        buffer_command(out, 3, "SET", key, text);
        encode_write(op, "APPEND", 0, out);
        buffer_command(out, 1, "EXEC");
        break;
    case OP_MSET:
        encode_mset(op, out);
        break;
    case OP_INCR:
        buffer_command(out, 3, "INCRBY", key, text);
        break;
    case OP_RENAME:
        encode_rename(op, out);
        break;
    case OP_EXEC_SET:
        buffer_command(out, 1, "MULTI");
        for (int i = 0; i < op->key_count; i++)
            encode_write(op, "SET", i, out);
        buffer_command(out, 1, "EXEC");
        break;
    case OP_EXEC_SUM:
        encode_sum(op, out);
        break;
    case OP_FLUSH:
        buffer_command(out, 1, "FLUSHDB");
        break;
    }
}

int op_replies(const struct op *op)
{
    switch (op->kind) {
    case OP_APPEND:
    case OP_RENAME:
        return 4;
    case OP_EXEC_SET:
        return 2 + op->key_count;
    case OP_EXEC_SUM:
        return 7;
    default:
        return 1;
    }
}

static void forget(struct value *value)
{
    free(value->data);
    *value = (struct value){0};
}

static void assign(struct value *value, char *data, size_t length)
{
    free(value->data);
    *value = (struct value){.exists = true, .data = data, .length = length};
}

static void apply_append(const struct op *op, struct model *model)
{
    char *tail = op_value(op, 0);
    char *whole = malloc(op->length + 32);
    assert(whole);
    int length = snprintf(whole, op->length + 32, "%" PRId64 "%s", op->amount, tail);
    assign(&model->values[op->keys[0]], whole, (size_t)length);
    free(tail);
}

static void apply_increment(const struct op *op, struct model *model)
{
    struct value *value = &model->values[op->keys[0]];
    int64_t before = value->exists ? strtoll(value->data, NULL, 10) : 0;
    char *text = malloc(24);
    assert(text);
    int length = snprintf(text, 24, "%" PRId64, before + op->amount);
    assign(value, text, (size_t)length);
}

static void apply_setrange(const struct op *op, struct model *model)
{
    struct value *value = &model->values[op->keys[0]];
    size_t end = range_offset(op) + op->length;
    size_t length = value->length > end ? value->length : end;
    char *piece = op_value(op, 0);
    char *whole = calloc(1, length + 1);
    assert(whole);
    if (value->exists)
        memcpy(whole, value->data, value->length);
    memcpy(whole + range_offset(op), piece, op->length);
    free(piece);
    assign(value, whole, length);
}

void op_apply(const struct op *op, struct model *model)
{
    switch (op->kind) {
    case OP_SET:
    case OP_MSET:
    case OP_EXEC_SET:
        for (int i = 0; i < op->key_count; i++)
            assign(&model->values[op->keys[i]], op_value(op, i), op->length);
        break;
    case OP_DEL:
        forget(&model->values[op->keys[0]]);
        break;
    case OP_SETRANGE:
        apply_setrange(op, model);
        break;
    case OP_APPEND:
        apply_append(op, model);
        break;
    case OP_INCR:
        apply_increment(op, model);
        break;
    case OP_RENAME:
        forget(&model->values[op->keys[0]]);
        assign(&model->values[op->keys[1]], op_value(op, 0), op->length);
        break;
    case OP_EXEC_SUM:
        model->counter += op->amount;
        break;
    case OP_FLUSH:
        for (int key = 0; key < KEYS; key++)
            forget(&model->values[key]);
        break;
    }
}

int model_size(const struct model *model)
{
    int size = 0;
    for (int key = 0; key < KEYS; key++)
        size += model->values[key].exists;
    return size;
}

void model_clear(struct model *model)
{
    for (int key = 0; key < KEYS; key++)
        forget(&model->values[key]);
    model->counter = 0;
}
