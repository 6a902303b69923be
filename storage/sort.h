/*
 * sort.h - entries in any order come out in the order of their keys, in bounded memory.
 *
 *  X1 Of entries with the same key the one that was put last comes out, alone.
 *  X2 What is gathered takes `memory` bytes at most (one entry may be larger); then it is sorted
 *     and appended to a file that has no name, as a run. Runs are merged when they are read; many
 *     of them are merged into one before, so that the files' buffers stay within `memory`, too.
 *
 * The file is the operating system's, in the directory given: it holds nothing that has to live
 * longer than the process.
 *
 * Threads: one. A crash leaves nothing.
 */
#ifndef PANDO_STORAGE_SORT_H
#define PANDO_STORAGE_SORT_H

#include "storage/pandostore.h"

struct sort;

/* NULL: no memory. */
struct sort *sort_new(const char *dir, uint64_t memory);
void sort_free(struct sort *sort);
/* 0, PS_NOMEM, PS_IO, PS_NOSPACE. */
int sort_put(struct sort *sort, struct ps_slice key, struct ps_slice value);
/* After the last put: gives each entry in order; stops at the first answer that is not 0. */
int sort_give(struct sort *sort,
              int (*entry)(void *arg, struct ps_slice key, struct ps_slice value), void *arg);
/* Runs that went to the file so far. */
uint64_t sort_runs(const struct sort *sort);

#endif
