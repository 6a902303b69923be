/* reply.h - replies of a RESP server as trees, and the memory they live in. See reply.c. */
#ifndef PANDO_TESTS_SUPPORT_REPLY_H
#define PANDO_TESTS_SUPPORT_REPLY_H

#include <stdbool.h>
#include <stddef.h>

/* Memory that is given back all at once. */
struct heap {
    struct heap_block *head;
};

void *heap_alloc(struct heap *heap, size_t size);
void *heap_copy(struct heap *heap, const void *data, size_t len);
void heap_free(struct heap *heap);

/* The pseudo type of "the connection was closed instead". */
#define REPLY_CLOSED 'X'

struct reply {
    char type;        /* RESP type byte, or REPLY_CLOSED */
    bool null;        /* "$-1" and "*-1" */
    const char *text; /* scalars as sent, without the type byte and line end */
    size_t len;
    long long integer; /* of ':' */
    size_t count;      /* children; a map of n pairs has 2n */
    struct reply *items;
};

struct reply_list {
    struct reply *items;
    size_t count, capacity;
};

void reply_list_push(struct reply_list *list, struct reply value);
void reply_list_free(struct reply_list *list);

/* Parses one reply. Returns 1 and the bytes used, 0 if more bytes are needed, -1 if it is not RESP.
 */
int reply_parse(struct heap *heap, const char *data, size_t len, size_t *used, struct reply *out);

bool reply_equal(const struct reply *a, const struct reply *b);
bool reply_is_aggregate(const struct reply *value);
bool reply_is_error(const struct reply *value);
bool reply_text_is(const struct reply *value, const char *text);

/* A total order over scalars, for sorting replies whose order means nothing. */
int reply_order(const void *a, const void *b);

/* Writes one readable line, at most cap - 1 characters; long strings are abbreviated. */
void reply_format(const struct reply *value, char *out, size_t cap);

/* Writes bytes as a quoted string; more than `limit` bytes are abbreviated. Returns characters
 * written. */
size_t quote_bytes(const char *data, size_t len, size_t limit, char *out, size_t cap);

#endif
