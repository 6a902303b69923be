/*
 * Replies of a RESP2 or RESP3 server: parsed into trees, compared, printed.
 *
 * Invariants:
 *  1. A tree and its bytes live in the heap given to the parser; nothing points into a receive
 *     buffer.
 *  2. Two replies are equal only if type byte, null form, bytes and children are: "$-1" is not
 *     "*-1", and a set is not an array. Anything looser is a canonicalisation and lives in
 *     compare.c.
 *  3. Nesting is bounded (MAX_DEPTH) and declared lengths are not allocated from before the bytes
 *     are there, so a server gone mad cannot take the driver with it.
 */
#include "tests/support/reply.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH  16
#define BLOCK_SIZE 65536

struct heap_block {
    struct heap_block *next;
    size_t used, size;
    char data[];
};

void *heap_alloc(struct heap *heap, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    struct heap_block *block = heap->head;
    if (block == NULL || block->size - block->used < size) {
        size_t capacity = size > BLOCK_SIZE ? size : BLOCK_SIZE;
        block = malloc(sizeof *block + capacity);
        assert(block != NULL);
        block->next = heap->head;
        block->used = 0;
        block->size = capacity;
        heap->head = block;
    }
    void *memory = block->data + block->used;
    block->used += size;
    return memory;
}

void *heap_copy(struct heap *heap, const void *data, size_t len)
{
    char *copy = heap_alloc(heap, len + 1);
    if (len > 0)
        memcpy(copy, data, len);
    copy[len] = '\0';
    return copy;
}

void heap_free(struct heap *heap)
{
    while (heap->head != NULL) {
        struct heap_block *next = heap->head->next;
        free(heap->head);
        heap->head = next;
    }
}

void reply_list_push(struct reply_list *list, struct reply value)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? list->capacity * 2 : 64;
        list->items = realloc(list->items, list->capacity * sizeof *list->items);
        assert(list->items != NULL);
    }
    list->items[list->count++] = value;
}

void reply_list_free(struct reply_list *list)
{
    free(list->items);
    *list = (struct reply_list){0};
}

/* A position in received bytes. */
struct input {
    struct heap *heap;
    const char *data;
    size_t len, pos;
};

/* Takes a line without its "\r\n". Returns 1, 0 (incomplete) or -1 (no "\r\n" where one must be).
 */
static int take_line(struct input *in, const char **line, size_t *len)
{
    const char *start = in->data + in->pos;
    const char *end = memchr(start, '\r', in->len - in->pos);
    if (end == NULL || (size_t)(end - in->data) + 1 >= in->len)
        return 0;
    if (end[1] != '\n')
        return -1;
    *line = start;
    *len = (size_t)(end - start);
    in->pos += *len + 2;
    return 1;
}

static int parse_number(const char *text, size_t len, long long *out)
{
    char digits[32];
    if (len == 0 || len >= sizeof digits)
        return -1;
    memcpy(digits, text, len);
    digits[len] = '\0';
    char *end;
    *out = strtoll(digits, &end, 10);
    return *end == '\0' ? 0 : -1;
}

static int parse_value(struct input *in, struct reply *out, int depth);

static int parse_blob(struct input *in, long long len, struct reply *out)
{
    if (len == -1) {
        out->null = true;
        return 1;
    }
    if (len < 0)
        return -1;
    if (in->len - in->pos < (size_t)len + 2)
        return 0;
    const char *bytes = in->data + in->pos;
    if (bytes[len] != '\r' || bytes[len + 1] != '\n')
        return -1;
    out->text = heap_copy(in->heap, bytes, (size_t)len);
    out->len = (size_t)len;
    in->pos += (size_t)len + 2;
    return 1;
}

static int parse_items(struct input *in, long long count, struct reply *out, int depth)
{
    if (count == -1) {
        out->null = true;
        return 1;
    }
    if (count < 0 || depth >= MAX_DEPTH)
        return -1;
    if (out->type == '%' || out->type == '|')
        count *= 2;
    if ((size_t)count > in->len - in->pos)
        return 0; /* every child needs at least one byte */
    out->count = (size_t)count;
    out->items = heap_alloc(in->heap, out->count * sizeof *out->items);
    for (size_t i = 0; i < out->count; i++) {
        int rc = parse_value(in, &out->items[i], depth + 1);
        if (rc != 1)
            return rc;
    }
    return 1;
}

static int parse_value(struct input *in, struct reply *out, int depth)
{
    if (in->pos >= in->len)
        return 0;
    *out = (struct reply){.type = in->data[in->pos], .text = ""};
    const char *line;
    size_t len;
    if (strchr("+-:$*_#,(!=%~>|", out->type) == NULL || out->type == '\0')
        return -1;
    in->pos++;
    int rc = take_line(in, &line, &len);
    if (rc != 1)
        return rc;
    long long number = 0;
    switch (out->type) {
    case '$':
    case '!':
    case '=':
        return parse_number(line, len, &number) < 0 ? -1 : parse_blob(in, number, out);
    case '*':
    case '%':
    case '~':
    case '>':
    case '|':
        return parse_number(line, len, &number) < 0 ? -1 : parse_items(in, number, out, depth);
    case ':':
        if (parse_number(line, len, &out->integer) < 0)
            return -1;
        break;
    default:
        break;
    }
    out->text = heap_copy(in->heap, line, len);
    out->len = len;
    return 1;
}

int reply_parse(struct heap *heap, const char *data, size_t len, size_t *used, struct reply *out)
{
    struct input in = {.heap = heap, .data = data, .len = len};
    int rc = parse_value(&in, out, 0);
    *used = in.pos;
    return rc;
}

bool reply_is_aggregate(const struct reply *value)
{
    return strchr("*%~>|", value->type) != NULL;
}

bool reply_is_error(const struct reply *value)
{
    return value->type == '-' || value->type == '!' || value->type == REPLY_CLOSED;
}

bool reply_text_is(const struct reply *value, const char *text)
{
    return !reply_is_aggregate(value) && !value->null && value->len == strlen(text) &&
           memcmp(value->text, text, value->len) == 0;
}

bool reply_equal(const struct reply *a, const struct reply *b)
{
    if (a->type != b->type || a->null != b->null || a->len != b->len || a->count != b->count)
        return false;
    if (a->len > 0 && memcmp(a->text, b->text, a->len) != 0)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!reply_equal(&a->items[i], &b->items[i]))
            return false;
    return true;
}

int reply_order(const void *pa, const void *pb)
{
    const struct reply *a = pa, *b = pb;
    size_t len = a->len < b->len ? a->len : b->len;
    int order = len > 0 ? memcmp(a->text, b->text, len) : 0;
    if (order != 0)
        return order;
    return a->len < b->len ? -1 : a->len > b->len;
}

size_t quote_bytes(const char *data, size_t len, size_t limit, char *out, size_t cap)
{
    size_t at = 0, shown = len <= limit ? len : limit;
    if (cap < 32)
        return 0;
    out[at++] = '"';
    for (size_t i = 0; i < shown && at + 32 < cap; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c == '"' || c == '\\')
            at += (size_t)sprintf(out + at, "\\%c", c);
        else if (c == '\r')
            at += (size_t)sprintf(out + at, "\\r");
        else if (c == '\n')
            at += (size_t)sprintf(out + at, "\\n");
        else if (c < 32 || c > 126)
            at += (size_t)sprintf(out + at, "\\x%02x", c);
        else
            out[at++] = (char)c;
    }
    at += (size_t)sprintf(out + at, "\"");
    if (shown < len)
        at += (size_t)sprintf(out + at, "...(%zu)", len);
    return at;
}

static size_t format_value(const struct reply *value, char *out, size_t cap)
{
    if (cap < 64)
        return 0;
    size_t at = 0;
    if (value->type == REPLY_CLOSED)
        return (size_t)sprintf(out, "(connection closed)");
    out[at++] = value->type;
    if (value->null)
        return at + (size_t)sprintf(out + at, "-1");
    if (!reply_is_aggregate(value))
        return at + quote_bytes(value->text, value->len, 800, out + at, cap - at);
    out[at++] = '[';
    for (size_t i = 0; i < value->count && at + 64 < cap; i++) {
        if (i > 0)
            out[at++] = ' ';
        at += format_value(&value->items[i], out + at, cap - at - 2);
    }
    out[at++] = ']';
    return at;
}

void reply_format(const struct reply *value, char *out, size_t cap)
{
    out[format_value(value, out, cap - 1)] = '\0';
}
