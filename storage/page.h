/*
 * page.h - what a page looks like, and how one page names another.
 *
 * Every page begins with the same 40-byte header. A page reference is a file page number, or, with
 * the top bit set, an arena slot; following it is one select and one add (page_at in store.h).
 * Only pages in the arena hold references with the top bit: what is written to the file holds file
 * page numbers alone.
 *
 * All integers in the file are little endian; so is every machine this is built for (asserted).
 */
#ifndef PANDO_STORAGE_PAGE_H
#define PANDO_STORAGE_PAGE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/pandostore.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file format is little endian");

/* For what only a bug can cause; stays on in release builds. */
#define PS_ASSERT(condition)                                                                  \
    do {                                                                                      \
        if (__builtin_expect(!(condition), 0)) {                                              \
            fprintf(stderr, "%s:%d: assertion failed: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                          \
        }                                                                                     \
    } while (0)

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ALWAYS_INLINE inline __attribute__((always_inline))

typedef uint64_t page_ref; /* 0: none (page 0 holds a meta) */
#define REF_ARENA (UINT64_C(1) << 63)

static inline bool ref_in_arena(page_ref ref)
{
    return (ref >> 63) != 0;
}

enum page_kind {
    PAGE_LEAF = 1,
    PAGE_BRANCH = 2,
    PAGE_OVERFLOW = 3,  /* first page of a run: header, then the bytes of one key or value */
    PAGE_SPACE = 4,     /* space map: bitmap (level 0) or index */
    PAGE_CATALOGUE = 5, /* run: the named trees */
    PAGE_FILE_RUN = 6,  /* first page of a long run: header, and checksums of its pieces */
};

#define PAGE_HEADER     40u
#define PAGE_MIN        PS_MIN_PAGE_SIZE
#define PAGE_MAX        PS_MAX_PAGE_SIZE
#define TREE_MAX_LEVELS 24u

struct page {
    uint32_t crc;        /* CRC-32C of the rest of the page (of a run: of header and bytes) */
    uint8_t kind;        /* enum page_kind */
    uint8_t level;       /* 0 in leaves */
    uint16_t prefix_len; /* bytes that all keys of this node begin with, right after the header */
    uint64_t number;     /* its own page number; 0 while in the arena */
    uint64_t birth;      /* stamp of the transaction or savepoint that made it */
    union {
        struct {
            uint16_t count; /* entries */
            uint16_t flags; /* PAGE_HAS_OVERFLOW */
            uint32_t heap;  /* offset of the lowest cell */
            uint32_t dead;  /* bytes of cells that are no longer in use */
            uint32_t zero;
        };
        uint64_t run_len; /* PAGE_OVERFLOW, PAGE_FILE_RUN, PAGE_CATALOGUE: bytes of data */
        uint64_t first;   /* PAGE_SPACE: first page (level 0) or first bitmap (index) described */
    };
};
static_assert(sizeof(struct page) == PAGE_HEADER, "the header is 40 bytes");

#define PAGE_HAS_OVERFLOW 1u /* some cell may refer to an overflow run */

/* A child as its parent knows it. */
struct child {
    page_ref ref;
    uint64_t birth;
    uint64_t count; /* entries below; CHILD_OVERFLOW: some leaf or branch below may have runs */
};
#define CHILD_OVERFLOW (UINT64_C(1) << 63)
#define COUNT_UNKNOWN  UINT64_MAX /* of a page that is looked at without its parent */

static inline uint64_t child_entries(const struct child *c)
{
    return c->count & ~CHILD_OVERFLOW;
}

/* A run of pages that holds one long key or value; belongs to exactly one cell. */
struct run_ref {
    page_ref ref;
    uint64_t birth;
    uint64_t len; /* bytes */
};

/* The checksum of the first len bytes of a page or run, its own field left out (verify.c). */
uint32_t page_crc(const struct page *p, size_t len);

/* Pages that a header and len bytes take. */
static inline uint32_t plain_pages(uint64_t len, uint32_t page_shift)
{
    return (uint32_t)((len + PAGE_HEADER + (UINT64_C(1) << page_shift) - 1) >> page_shift);
}

/* Runs of up to RUN_ARENA_MAX bytes are made in the arena: a header, then the data. Longer ones are
 * made in the file: pages with a header and a CRC-32C of each piece of the data, then pages of data
 * alone (file_run.h). Which of the two a run is follows from its length. */
#define RUN_ARENA_MAX (65536u + 1024u)
#define RUN_PIECE     65536u

static inline bool run_is_long(uint64_t len)
{
    return len > RUN_ARENA_MAX;
}

/* Pages of a long run before its data. */
static inline uint32_t run_head_pages(uint64_t len, uint32_t page_shift)
{
    return plain_pages((len + RUN_PIECE - 1) / RUN_PIECE * 4, page_shift);
}

/* Pages that a run of len bytes takes. */
static inline uint32_t run_pages(uint64_t len, uint32_t page_shift)
{
    if (!run_is_long(len)) {
        return plain_pages(len, page_shift);
    }
    uint64_t data = (len + (UINT64_C(1) << page_shift) - 1) >> page_shift;
    return run_head_pages(len, page_shift) + (uint32_t)data;
}

#endif
