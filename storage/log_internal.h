/*
 * log_internal.h - what the files log*.c share. See log.h for what the log promises.
 *
 * A segment file is, at any time, one of
 *   USED   written to under its number: its header is there (or was being written in a crash);
 *   READY  made ahead: its header is zeros, its data on the device, its name in the synced
 * directory; DEAD   of no use but to be made READY, under another number or its own: a USED segment
 * becomes that when it lies before the kept position, or wholly in what a new epoch ended; whatever
 *          is found beyond the last USED one when the log is opened is DEAD.
 *
 *  S1 READY segments follow the current one without a gap: current + 1, current + 2, ...
 *  S2 A number is used once: a new epoch begins in a segment above every number ever written to.
 *  S3 Before a file gets a new number its header and the header of the record behind it are zeros,
 *     on the device. So what stands there later was written under the number of the file; and the
 *     old records further on are linked to by nothing.
 *
 * Locks: `making` (outer) serialises whoever makes, renames or removes segment files; `mutex`
 * (inner, held for moments, never while the disk is waited for) guards the table of segments, the
 * buffer and the counters. log_write() and log_sync() work without either on what they took out
 * under `mutex`.
 */
#ifndef PANDO_STORAGE_LOG_INTERNAL_H
#define PANDO_STORAGE_LOG_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "storage/log.h"
#include "storage/log_format.h"
#include "storage/rules.h"
#include "storage/vfs.h"

#define LOG_PATH_MAX 4096
#define LOG_NONE     UINT64_MAX
/* Of segments: positions in those beyond are not below POSITION_LIMIT (meta.h), whatever the
 * segments' size. */
#define LOG_NUMBER_MAX ((UINT64_C(1) << 32) - 1)

/* Stays on in release builds: for what only a bug can cause. */
#define log_assert(condition)                                                                 \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            fprintf(stderr, "%s:%d: assertion failed: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                          \
        }                                                                                     \
    } while (0)

enum log_segment_state { LOG_SEGMENT_DEAD, LOG_SEGMENT_READY, LOG_SEGMENT_USED };

struct log_segment {
    uint64_t number;
    int fd; /* -1: not open */
    enum log_segment_state state;
    enum log_header_kind kind; /* of what stood in the file; VALID: `header` holds */
    bool whole;                /* of the size of a segment */
    struct log_header header;
};

/* Bytes of the buffer from `start` to the next extent's start (or the end): they belong at `offset`
 * of a segment. */
struct log_extent {
    uint64_t segment;
    uint64_t offset;
    size_t start;
};

struct log_buffer {
    uint8_t *data;
    size_t used, capacity;
    struct log_extent *extents;
    size_t count, extent_capacity;
};

struct log {
    const struct ps_vfs *vfs;
    char *dir;
    uint64_t segment_size;
    pthread_mutex_t making;
    pthread_mutex_t mutex;

    struct log_segment *segments; /* by number, rising */
    size_t segment_count, segment_capacity;
    uint64_t highest_used; /* highest number of a USED segment, 0: none */
    uint64_t kept;         /* position: what ends at or before it may be reused */
    uint64_t spare_target; /* dead segments worth keeping */

    bool sync_failed; /* what is on the device is not known any more: no new epoch */
    bool running;     /* between log_start() and a failure */
    uint64_t epoch;
    uint64_t segment, offset;               /* where the next record goes */
    uint64_t seq;                           /* of the last commit appended */
    bool open;                              /* and parts of the next one were */
    uint32_t crc;                           /* of the last record appended */
    struct log_buffer buffer;               /* appended, not written */
    struct log_buffer writing;              /* log_write() works on this */
    uint64_t unsynced_first, unsynced_last; /* segments; LOG_NONE: none */
    uint64_t in_sync_first;                 /* lowest segment a running log_sync() works on */
    struct log_stats stats;
};

/* ---- log_segments.c ---------------------------------------------------------------------------
 */

/* Fills *fault (may be NULL) and returns the code. errno 0: no system call failed. */
int log_fail(struct ps_fault *fault, int code, const char *file, uint64_t offset, const char *what);
/* The same for a failing call of the vfs: rc is its negative errno. */
int log_fail_call(struct ps_fault *fault, int rc, const char *file, uint64_t offset,
                  const char *call);

void log_segment_path(const struct log *log, uint64_t number, char path[LOG_PATH_MAX]);
/* NULL if there is none. With `mutex` held; good until it is let go. */
struct log_segment *log_segment_find(struct log *log, uint64_t number);
int log_segments_list(struct log *log, struct ps_fault *fault);
/* Number of READY segments. With `mutex` held. */
uint64_t log_segments_ready(const struct log *log);
/* What it holds is not known since a sync failed: neither used nor removed until the log is opened
 * again. */
void log_segment_forget(struct log *log, uint64_t number);
/* Makes segment `number` READY. With `making` held. */
int log_segment_make(struct log *log, uint64_t number, struct ps_fault *fault);
/* Lowest segment that the log's own writing and syncing still need. With `mutex` held. */
uint64_t log_segments_needed(const struct log *log);
/* Closes the files of segments that writing and syncing need no more. With `mutex` held. */
void log_segments_close_old(struct log *log);

/* ---- log_damage.c -----------------------------------------------------------------------------
 */

/* Where reading stopped in the log's last epoch. */
struct log_break {
    uint64_t position; /* of what is not a valid record */
    uint64_t epoch;
    struct log_pos from; /* what reading began with */
    uint64_t seq;        /* of the last complete commit */
    uint32_t crc;        /* of the last valid record */
    const char *kind;    /* what is wrong at the position */
};

/* Decides whether what broke is damage (PS_CORRUPT) or a torn tail (0), looking at all that follows
 * it. *torn_end: the end of the last thing that seems to belong to the torn tail. */
int log_judge_break(struct log *log, const struct log_break *at, uint64_t *torn_end,
                    struct ps_fault *fault);

/* The crc of the record that ends a commit which was read after `from`, or of `from` itself. */
int log_crc_after(struct log *log, const struct log_pos *from, uint64_t seq, uint32_t *crc,
                  struct ps_fault *fault);

/* Reads a segment's file into `bytes`, zeros where the file ends early. 0, or a failure of the vfs.
 */
int log_segment_read(struct log *log, uint64_t number, uint8_t *bytes, struct ps_fault *fault);

#endif
