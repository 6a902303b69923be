/*
 * A disk that remembers: a file served through FUSE, whose writes and flushes are kept in the order
 * in which they came, so that the disk can be rebuilt as it was at any moment of them.
 *
 * Invariants:
 *  1. A write is in the journal before the kernel hears that it was done; so is a flush.
 *  2. A disk rebuilt at moment m has every write before the last flush that precedes m, and of
 * those between that flush and m any choice of 512-byte sectors.
 *
 * A thread of the journal's own serves the file; everything else belongs to one thread. Needs root
 * and /dev/fuse.
 */
#ifndef TESTS_CRASH_JOURNAL_H
#define TESTS_CRASH_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#define JOURNAL_MOST ((uint64_t)2 << 30) /* bytes one journal takes; then writes fail (ENOSPC) */

struct journal;

/* Serves a copy of the image file, below the folder `path`, which is made: NULL after printing why
 * not. The file's path is journal_file(). */
struct journal *journal_serve(const char *image, const char *path);
const char *journal_file(const struct journal *journal);
/* Ends serving; the journal remains. Nothing may have the file open. */
void journal_stop(struct journal *journal);
void journal_free(struct journal *journal);

/* Moments: before the first entry is 0, after the last journal_length(). */
size_t journal_length(const struct journal *journal);
size_t journal_flushes(const struct journal *journal);
/* When the entry that follows this moment arrived (now_ns); INT64_MAX after the last one. */
int64_t journal_when(const struct journal *journal, size_t moment);
/* The moment right after the number-th flush (from 0). */
size_t journal_after_flush(const struct journal *journal, size_t number);

/* Makes the image file `path` the disk at that moment; `dice` chooses sectors, 0: none that was not
 * flushed. Moments must not fall from call to call. 0, or -1. */
int journal_rebuild(struct journal *journal, size_t moment, uint64_t dice, const char *path);

#endif
