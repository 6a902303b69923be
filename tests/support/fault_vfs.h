/*
 * fault_vfs.h - the operating system's files, with calls that fail, a disk that is full, and calls
 * that are held until the test lets them go.
 *
 * Calls are counted by kind and by file: the data file, log segments, others. A write that is made
 * to fail has written its first half. While the disk is full nothing is allocated, and writes
 * beyond the end of a file fail; what is there can be overwritten.
 *
 * Threads: any.
 */
#ifndef PANDO_TESTS_SUPPORT_FAULT_VFS_H
#define PANDO_TESTS_SUPPORT_FAULT_VFS_H

#include <stdbool.h>
#include <stdint.h>

#include "storage/vfs.h"

enum fault_call {
    FAULT_OPEN,
    FAULT_PREAD,
    FAULT_PWRITE,
    FAULT_FALLOCATE,
    FAULT_FTRUNCATE,
    FAULT_FDATASYNC,
    FAULT_FSYNC,
    FAULT_SYNC_FILE_RANGE,
    FAULT_SIZE,
    FAULT_MMAP,
    FAULT_RENAME,
    FAULT_UNLINK,
    FAULT_MKDIR,
    FAULT_SYNC_DIR,
    FAULT_LIST,
    FAULT_LOCK,
    FAULT_CALLS,
};

enum fault_file { FAULT_DATA = 1, FAULT_LOG = 2, FAULT_OTHER = 4, FAULT_ANY = 7 };

struct fault_vfs;

struct fault_vfs *fault_vfs_new(void);
void fault_vfs_free(struct fault_vfs *f);
const struct ps_vfs *fault_vfs(struct fault_vfs *f);
const char *fault_call_name(enum fault_call call);

/* The number-th (from 1) call of this kind on such files from now on fails with this errno; with
 * `always` all later ones do, too. Number 0: none. */
void fault_vfs_fail(struct fault_vfs *f, enum fault_call call, unsigned files, uint64_t number,
                    int err, bool always);
/* Calls of the kind and files given to fault_vfs_fail() since then, and how many of them failed. */
uint64_t fault_vfs_calls(struct fault_vfs *f);
uint64_t fault_vfs_failed(struct fault_vfs *f);

void fault_vfs_full(struct fault_vfs *f, bool full);

/* Calls of this kind (one kind at a time) on such files wait from now on, too. */
void fault_vfs_hold(struct fault_vfs *f, enum fault_call call, unsigned files);
/* Waits until at least so many calls are being held. */
void fault_vfs_await_held(struct fault_vfs *f, unsigned calls);
/* Lets those on such files go on, and holds them no more. */
void fault_vfs_release(struct fault_vfs *f, unsigned files);

#endif
