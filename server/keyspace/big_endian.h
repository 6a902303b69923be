/*
 * big_endian.h - numbers in keys and rows: their bytes sort as they do.
 *
 * Threads: any.
 */
#ifndef PANDO_SERVER_KEYSPACE_BIG_ENDIAN_H
#define PANDO_SERVER_KEYSPACE_BIG_ENDIAN_H

#include <stddef.h>
#include <stdint.h>

/* The low `len` bytes of a number, at most 8. */
static inline void store_be(uint8_t *to, uint64_t value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (uint8_t)(value >> (8 * (len - 1 - i)));
}

static inline uint64_t load_be(const void *from, size_t len)
{
    const uint8_t *p = from;
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++)
        value = value << 8 | p[i];
    return value;
}

#endif
