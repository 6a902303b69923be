/*
 * unsynced.h - which writes a power loss may undo: those that no sync has followed.
 *
 * Every write is noted with what was there before. A sync that succeeds makes the writes of its
 * file that had been done when it began safe. What a power loss leaves is then any mixture: each
 * 4 KiB piece of each unsafe write is there or not. Names, sizes and allocations are taken as safe
 * at once.
 *
 * Threads: all functions from any thread, but unsynced_lose(), which needs all writes to stand
 * still.
 */
#ifndef PANDO_TESTS_MODEL_UNSYNCED_H
#define PANDO_TESTS_MODEL_UNSYNCED_H

#include "tests/model/rng.h"

#include <stddef.h>

struct unsynced;

struct unsynced *unsynced_new(void);
void unsynced_free(struct unsynced *u);

/* Before a write: notes what is there and what will be. */
void unsynced_write(struct unsynced *u, int fd, const void *bytes, size_t len, uint64_t offset);
/* Before a sync begins, and after it has succeeded with what that returned. */
uint64_t unsynced_mark(struct unsynced *u);
void unsynced_safe(struct unsynced *u, int fd, uint64_t mark);
/* A file was made, or truncated: nothing of it is known any more. */
void unsynced_forget(struct unsynced *u, int fd);

/* `copy` is a copy of the directory `dir` as it is now: makes it what a power loss would leave. */
void unsynced_lose(struct unsynced *u, const char *dir, const char *copy, struct rng *rng);

#endif
