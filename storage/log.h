/*
 * log.h - the write-ahead log: numbered segment files of checksummed, chained records.
 *
 * A position is a number of bytes since the store was made: segment number * segment size + offset
 * in the segment. Segment N is the file "log-%016llx" of N, filled with zeros when it is made, so
 * that a sync flushes data only; segments that are no longer needed are renamed and used again
 * (their old records are dead: see epochs).
 *
 * Segment header (64 bytes, little endian, all integers):
 *   0 u64 magic "PANDOLOG"   8 u32 version (1)   12 u32 crc32c of the other 60 bytes
 *   16 u64 segment number    24 u64 epoch        32 u64 epoch before (0: none)
 *   40 u64 position where what came before ended 48 u32 crc of the record that ended there
 *   52 u32 segment size in KiB                   56 u64 sequence of the last record before
 * A header within an epoch repeats that epoch in both fields. The first segment of a new epoch
 * names where the previous epoch ended: what stands in the previous epoch beyond that is dead,
 * valid or not.
 *
 * Record (40 bytes, then the payload, then zeros to a multiple of 8):
 *   0 u32 crc32c of bytes 4..40+len, seeded with crc32c(prev_crc, epoch as 8 bytes)
 *   4 u32 prev_crc: the crc of the record before (of the epoch's start: the header's)
 *   8 u32 payload bytes      12 u8 type (1 commit, 2 end of segment)
 *   13 u8 flags (1 first piece, 2 last piece)     14 u16 zero
 *   16 u64 sequence of the commit                 24 u64 stamp of its state
 *   32 u64 highest sequence known durable when this was written
 * A commit larger than a piece (1 MiB, or what is left of the segment) is several pieces of the
 * same sequence, together its payload; only a last piece completes it. Pieces may be written long
 * before the last one, while their transaction still runs; their stamps never fall, and that of the
 * last is the state's. What became of a transaction that ended without committing is decided by a
 * new epoch, which ends the old one before its first piece. An end-of-segment record
 * (no payload, no flags, the sequence of the record before) says: go on in segment N + 1, in the
 * same epoch. A commit record leaves at least 48 bytes of its segment for one, and that one 8: so
 * each position lies within the segment of the record that ends there. Segments count from 1.
 *
 * Invariants:
 *  L1 A commit is complete if all its pieces are valid and chained, and the last one is there.
 *  L2 Sequences rise by exactly 1 from commit to commit.
 *  L3 Damage at or below the highest durable mark of any later valid record of the same epoch (or
 *     below a later epoch's start) is refused as damage; anything else is a torn tail and is cut.
 *  L4 A new epoch's header is synced before a record of that epoch is.
 *  L5 No segment at or after the kept position is reused, but for those that lie wholly in what a
 *     new epoch declared dead.
 *
 * Threads: log_append() and log_reserve() by one thread at a time, log_write() and log_sync() by
 * one thread at a time; these two sides may run beside each other, and log_prepare(), log_recycle()
 * and log_get_stats() beside everything. All other functions alone (but for those three).
 */
#ifndef PANDO_STORAGE_LOG_H
#define PANDO_STORAGE_LOG_H

#include "storage/pandostore.h"

struct log;

/* Where a commit ends, and what the next one's chain begins with. Stored in metas. */
struct log_pos {
    uint64_t position; /* 0: the store's beginning, before any segment */
    uint64_t epoch;    /* 0 with position 0 */
    uint64_t seq;      /* sequence of the last commit before this position */
    uint32_t crc;
};

struct log_stats {
    uint64_t bytes_written, syncs, epochs, pieces, segments, segments_recycled, segments_made;
};

/* Looks at the segments in a directory (made if missing). No segment is changed. */
int log_open(const struct ps_vfs *vfs, const char *dir, uint64_t segment_size, struct log **log,
             struct ps_fault *fault);
void log_close(struct log *log);
/* Bytes in a segment: what the log was made with, whatever log_open() was given later. */
uint64_t log_segment_size(const struct log *log);

/* PS_CORRUPT, with *fault: what is wrong at a position, found by whoever understands payloads. */
int log_damaged(const struct log *log, uint64_t position, const char *what, struct ps_fault *fault);

/* First pass: from `from` to the last complete commit. *end is where that ends, *torn the bytes of
 * broken tail after it (0 if none). PS_CORRUPT (with *fault) for damage below what was known
 * durable, and if `from` itself is no longer in the log (its segment is missing or reused) although
 * segments are there. No log at all from `from` on is fine: *end = from. */
int log_scan(struct log *log, const struct log_pos *from, struct log_pos *end, uint64_t *torn,
             struct ps_fault *fault);

/* Writes every segment that holds something of [from, end) again, up to the end, and syncs it:
 * before what it says is served. */
int log_sync_range(struct log *log, const struct log_pos *from, const struct log_pos *end,
                   struct ps_fault *fault);

/* What one record holds of a commit's payload. */
struct log_piece {
    uint64_t seq, stamp;
    const void *payload; /* until the call it was given to returns */
    size_t len;
    bool first, last;
    struct log_pos after; /* if last: where the commit ends */
};

/* Second pass: calls apply for every piece of every commit of [from, end), in order. Stops at the
 * first non-zero answer and returns it. */
typedef int log_apply(void *arg, const struct log_piece *piece);
int log_replay(struct log *log, const struct log_pos *from, const struct log_pos *end,
               log_apply *apply, void *arg, struct ps_fault *fault);

/* Begins a new segment with a new random epoch; what follows continues from `from`, and everything
 * in the log after `from` is dead (its segments may be reused at once). Synced (file and directory)
 * before it returns. Used after recovery (log_sync_range() first: the new epoch says that what it
 * follows is there) and after a failed write; PS_POISONED after a failed sync. Until it has
 * succeeded, commits after `from` that were written may still come back with a crash: tell nobody
 * before that they are gone. */
int log_start(struct log *log, const struct log_pos *from, struct ps_fault *fault);

/* Where the next commit will be appended: after log_start(), the new epoch's beginning. With the
 * appending side. */
void log_end(const struct log *log, struct log_pos *end);

/* Makes sure that commits with `bytes` bytes of payload (any number up to `commits` of them, and
 * everything appended but not written) can be written without needing disk space: makes or recycles
 * segments ahead, zero-filled and synced. PS_NOSPACE, PS_IO. Cheap when there is room. */
int log_reserve(struct log *log, uint64_t commits, uint64_t bytes, struct ps_fault *fault);

/* Makes one spare segment if there is none ahead of the current one: for a background thread. */
int log_prepare(struct log *log, struct ps_fault *fault);

/* Encodes one commit at the end of the write buffer. *end: the position after it. */
int log_append(struct log *log, uint64_t seq, uint64_t stamp, uint64_t durable_seq,
               const void *payload, size_t len, struct log_pos *end);
/* The same for a part of a commit that is still being made: further parts follow, and log_append()
 * of the same sequence with the rest, or log_start() from where the commit began. */
int log_append_part(struct log *log, uint64_t seq, uint64_t stamp, uint64_t durable_seq,
                    const void *payload, size_t len);
/* Writes all that was appended (pwrite). After an error the log's end is unknown: log_start(). */
int log_write(struct log *log, struct ps_fault *fault);
/* fdatasync of all segments written since the last sync. Never retried by anybody. */
int log_sync(struct log *log, struct ps_fault *fault);

/* Segments that end at or before `keep` may be reused. */
void log_recycle(struct log *log, const struct log_pos *keep);

void log_get_stats(struct log *log, struct log_stats *stats);

#endif
