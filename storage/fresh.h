/*
 * fresh.h - pages of the file that a transaction took, and that no space map knows yet.
 *
 * A checkpoint takes pages for the images it writes and marks them in its map; so does it for those
 * that transactions took before it (overflow runs in the file, spilled pages). In between they are
 * here, by their first page:
 *
 *  F1 Listed is what was taken by a transaction, was not given back, and is not marked live. Its
 *     birth is the stamp with which it was taken; its death is set once that is published.
 *  F2 The checkpoint of T takes all that was born up to T off the list, and marks it live unless it
 *     died up to T, too: what lived and died between two checkpoints never enters a map. If it is
 *     abandoned, all it took for its map comes back.
 *  F3 What is listed is reused as other pages are: at once when the transaction that took it drops
 *     it, or is undone; otherwise when it is dead and no pinned stamp sees it (I3). It leaves the
 *     list with that.
 *
 * Threads: with the token. A crash frees all of them: the map of the last checkpoint has none.
 */
#ifndef PANDO_STORAGE_FRESH_H
#define PANDO_STORAGE_FRESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/page.h"

struct fresh_page {
    page_ref first; /* 0: an empty place of the table */
    uint64_t birth;
    uint64_t death; /* 0: alive, or its death is not published */
    uint32_t pages;
};

/* A hash table, open and searched in a line; at most half full. */
struct fresh {
    struct fresh_page *at;
    size_t n, room; /* room: 0, or a power of two */
    size_t kept;    /* places for what a running checkpoint took, and may have to give back */
};

/* Room for one more: fresh_add cannot fail then. False when out of memory. What is kept is for
 * others. */
bool fresh_reserve(struct fresh *fresh);
void fresh_add(struct fresh *fresh, const struct fresh_page *page);
/* NULL if it is not listed; good until the list changes. */
struct fresh_page *fresh_find(const struct fresh *fresh, page_ref first, uint64_t birth);
void fresh_remove(struct fresh *fresh, struct fresh_page *page);
void fresh_free(struct fresh *fresh);

#endif
