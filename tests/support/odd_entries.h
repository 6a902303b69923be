/*
 * odd_entries.h - entries in the order of their keys, of every form that a cell can have: short and
 * long common prefixes, keys and values in runs of the arena and of the file, empty ones, a key
 * that is the beginning of another. Each is made from its number alone.
 */
#ifndef PANDO_TESTS_SUPPORT_ODD_ENTRIES_H
#define PANDO_TESTS_SUPPORT_ODD_ENTRIES_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "storage/pandostore.h"

#define ODD_ROOM (160u << 10)

static inline uint32_t odd_hash(uint32_t i)
{
    i = (i ^ (i >> 16)) * 0x45d9f3bu;
    i = (i ^ (i >> 16)) * 0x45d9f3bu;
    return i ^ (i >> 16);
}

static inline struct ps_slice odd_key(unsigned i, char *room)
{
    size_t n = (size_t)snprintf(room, 64, "%05u %s%02u", i / 16,
                                i / 16 % 2 ? "a rather long part " : "", i % 16);
    if (i == 0) {
        n = 0;
    } else if (odd_hash(i) % 61 == 0) { /* in a run of the arena */
        memset(room + n, 'k', 900);
        n += 900;
    } else if (odd_hash(i) % 1201 == 1) { /* in a run of the file */
        memset(room + n, 'K', 70000);
        n += 70000;
    }
    return (struct ps_slice){room, n};
}

static inline struct ps_slice odd_value(unsigned i, char tag, char *room)
{
    uint32_t h = odd_hash(i + 7919u);
    size_t n = h % 11 == 0 ? 0 : 8 + h % 150;
    n = h % 53 == 1 ? 1000 + h % 900 : h % 47 == 2 ? 3000 + h % 40000 : n;
    n = h % 401 == 3 ? 66000 + h % 80000 : n;
    memset(room, tag, n);
    if (n >= 8) {
        snprintf(room, 8, "%07u", i);
        room[7] = tag;
    }
    return (struct ps_slice){room, n};
}

#endif
