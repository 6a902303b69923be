/*
 * slice.h - order and copies of keys and values.
 *
 * Threads: any; pure.
 */
#ifndef PANDO_STORAGE_SLICE_H
#define PANDO_STORAGE_SLICE_H

#include "storage/vec.h"

typedef VEC(uint8_t) byte_vec;

/* The order of keys: bytes, unsigned; of two of which one begins with the other the shorter is
 * first. */
static inline int slice_order(struct ps_slice a, struct ps_slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n > 0 ? memcmp(a.data, b.data, n) : 0;
    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

/* Bytes with which both begin. */
static inline uint32_t slice_common(struct ps_slice a, struct ps_slice b)
{
    const uint8_t *x = a.data;
    const uint8_t *y = b.data;
    size_t n = a.len < b.len ? a.len : b.len;
    uint32_t i = 0;
    while (i < n && x[i] == y[i]) {
        i++;
    }
    return i;
}

/* Makes the slice one of a copy of its bytes, to be freed. NULL: no memory. */
static inline void *slice_copy(struct ps_slice *slice)
{
    void *copy = malloc(slice->len + 1);
    if (copy != NULL && slice->len > 0) {
        memcpy(copy, slice->data, slice->len);
    }
    slice->data = copy;
    return copy;
}

/* Makes `to` hold these bytes and nothing else; they may not be its own. False: no memory. */
static inline bool bytes_keep(byte_vec *to, struct ps_slice from)
{
    to->n = 0;
    if (!vec_reserve(to, from.len + 1)) {
        return false;
    }
    if (from.len > 0) {
        memcpy(to->at, from.data, from.len);
    }
    to->n = from.len;
    return true;
}

static inline struct ps_slice bytes_slice(const byte_vec *bytes)
{
    return (struct ps_slice){bytes->at, bytes->n};
}

#endif
