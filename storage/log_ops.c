/*
 * log_ops.c - see log_ops.h.
 */
#include "storage/log_ops.h"

#include <string.h>

static int keep_rest(struct log_op_reader *reader, const uint8_t *at, const uint8_t *end,
                     size_t wanted)
{
    size_t left = (size_t)(end - at);
    bool inside = reader->rest.n > 0;
    if (inside) {
        memmove(reader->rest.at, at, left);
        reader->rest.n = left;
    }
    reader->wanted = left + wanted;
    if (!vec_reserve(&reader->rest, reader->wanted - reader->rest.n)) {
        return PS_NOMEM;
    }
    if (!inside) {
        memcpy(reader->rest.at, at, left);
        reader->rest.n = left;
    }
    return 0;
}

/* *left: where the first operation begins that is not whole; NULL: there is none. */
static int take_whole(const uint8_t *at, const uint8_t *end, const uint8_t **left, size_t *wanted,
                      int (*take)(void *arg, const struct replay_op *op), void *arg)
{
    *left = NULL;
    while (at < end) {
        struct replay_op op;
        const uint8_t *after = replay_op_read(at, end, &op, wanted);
        if (after == NULL) {
            *left = at;
            return *wanted == 0 ? PS_CORRUPT : 0;
        }
        int rc = take(arg, &op);
        if (rc != 0) {
            return rc;
        }
        at = after;
    }
    return 0;
}

int log_ops_read(struct log_op_reader *reader, const void *bytes, size_t len, bool last,
                 int (*take)(void *arg, const struct replay_op *op), void *arg)
{
    const uint8_t *at = bytes;
    const uint8_t *end = at + len;
    if (reader->rest.n > 0) {
        if (!vec_reserve(&reader->rest, len)) {
            return PS_NOMEM;
        }
        memcpy(reader->rest.at + reader->rest.n, bytes, len);
        reader->rest.n += len;
        at = reader->rest.at;
        end = at + reader->rest.n;
        if (reader->rest.n < reader->wanted) {
            return last ? PS_CORRUPT : 0;
        }
    }
    const uint8_t *left;
    size_t wanted = 0;
    int rc = take_whole(at, end, &left, &wanted, take, arg);
    if (rc != 0) {
        return rc;
    }
    if (left == NULL) {
        reader->rest.n = 0;
        return 0;
    }
    return last ? PS_CORRUPT : keep_rest(reader, left, end, wanted);
}

void log_ops_free(struct log_op_reader *reader)
{
    vec_free(&reader->rest);
    reader->wanted = 0;
}
