/*
 * space_bits.h - the bitmaps of space.c and space_cut.c.
 */
#ifndef PANDO_STORAGE_SPACE_BITS_H
#define PANDO_STORAGE_SPACE_BITS_H

#include "storage/space.h"

/* Pages that one bitmap describes. */
static inline uint64_t chunk_pages(const struct space *space)
{
    return ((UINT64_C(1) << space->page_shift) - SPACE_HEADER) * 8;
}

static inline bool bit(const uint64_t *map, uint64_t i)
{
    return (map[i / 64] >> (i % 64)) & 1;
}

static inline void set_bit(uint64_t *map, uint64_t i, bool on)
{
    uint64_t mask = UINT64_C(1) << (i % 64);
    map[i / 64] = on ? map[i / 64] | mask : map[i / 64] & ~mask;
}

#endif
