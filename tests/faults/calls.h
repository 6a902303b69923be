/*
 * calls.h - the system calls of this program, on files below one directory: counted, and one of
 * them made to fail.
 *
 * The functions of the C library that make them are defined here again, so that what is tested is
 * all of the engine, its retries after EINTR and short counts included. A write that fails with EIO
 * has written its first half; one that fails with ENOSPC answers a short count first.
 *
 * What holds of syncs is watched, by file and within a life of a store (calls_new_life()): after
 * one that failed there is none of that file again, and a segment of the log is not written to
 * either. Files and mappings that stay open are counted.
 *
 * Threads: any; settings are the main thread's.
 */
#ifndef PANDO_TESTS_FAULTS_CALLS_H
#define PANDO_TESTS_FAULTS_CALLS_H

#include <stdbool.h>
#include <stdint.h>

enum call {
    CALL_OPEN,
    CALL_PREAD,
    CALL_PWRITE,
    CALL_FALLOCATE,
    CALL_FTRUNCATE,
    CALL_FDATASYNC,
    CALL_FSYNC,    /* of a file */
    CALL_SYNC_DIR, /* fsync of a directory */
    CALL_SYNC_FILE_RANGE,
    CALL_SIZE,   /* fstat */
    CALL_MMAP,   /* of a file */
    CALL_MEMORY, /* mmap of anonymous memory */
    CALL_RENAME,
    CALL_UNLINK,
    CALL_MKDIR,
    CALL_LIST, /* opendir */
    CALL_LOCK, /* flock */
    CALLS,
};

/* Besides errnos: */
#define FAIL_SHORT (-1) /* half of it is done, and the count says so */
#define FAIL_FULL  (-2) /* the disk is full from this call on, until calls_space() */

const char *calls_name(enum call call);
const char *calls_error_name(int error);

void calls_watch(const char *dir);
/* Counting begins anew; the number-th call (0: none) of this kind from now on fails. */
void calls_fail(enum call call, uint64_t number, int error);
uint64_t calls_seen(enum call call);
/* Whether it has happened. */
bool calls_failed(void);
/* Space returns. */
void calls_space(void);

void calls_new_life(void);
/* What was done after a failed sync that must not be; NULL: nothing. */
const char *calls_violation(void);
/* Files and mappings that are open. */
unsigned calls_open_files(void);
int calls_open_mappings(void);

#endif
