/*
 * replay_op.c - see replay_op.h.
 */
#include "storage/replay_op.h"

#define LONGEST PS_MAX_VALUE /* no key or value can be longer: damage */

/* Each returns NULL if the bytes end early (*wanted: how many there must be, at least) or cannot be
 * right (*wanted: 0). */
static const uint8_t *get_varint(const uint8_t *at, const uint8_t *end, uint64_t *v, size_t *wanted)
{
    *v = 0;
    *wanted = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (at == end) {
            *wanted = 1;
            return NULL;
        }
        *v |= (uint64_t)(*at & 0x7f) << shift;
        if ((*at++ & 0x80) == 0) {
            return at;
        }
    }
    return NULL;
}

static const uint8_t *get_slice(const uint8_t *at, const uint8_t *end, struct ps_slice *slice,
                                size_t *wanted)
{
    uint64_t len;
    at = get_varint(at, end, &len, wanted);
    if (at == NULL) {
        return NULL;
    }
    if (len > LONGEST || len > (uint64_t)(end - at)) {
        *wanted = len > LONGEST ? 0 : (size_t)len - (size_t)(end - at);
        return NULL;
    }
    *slice = (struct ps_slice){at, (size_t)len};
    return at + len;
}

const uint8_t *replay_op_read(const uint8_t *at, const uint8_t *end, struct replay_op *op,
                              size_t *wanted)
{
    uint64_t tree;
    *op = (struct replay_op){.op = *at++};
    *wanted = 0;
    if (op->op == OP_SAVEPOINT) {
        return at;
    }
    if (op->op < OP_PUT || op->op > OP_OPTIONS || (op_is_mark(op->op) && at == end)) {
        *wanted = op_is_mark(op->op);
        return NULL;
    }
    if (op_is_mark(op->op)) {
        op->savepoint = *at++;
        return at;
    }
    at = get_varint(at, end, &tree, wanted);
    if (at == NULL || tree >= PS_MAX_TREES) {
        return NULL;
    }
    op->tree = (ps_tree)tree;
    at = get_slice(at, end, &op->key, wanted);
    if (at != NULL && op_has_value(op->op)) {
        at = get_slice(at, end, &op->value, wanted);
    }
    uint64_t len;
    if (at != NULL && op->op == OP_PUT_ENCODED && !encoded_length(op->value, &len)) {
        *wanted = 0;
        return NULL;
    }
    return at;
}
