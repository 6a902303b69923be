/*
 * memory_vfs.h - a vfs in memory that knows what is on the device and what is not.
 *
 * A file has what programs see and what the device holds, by sectors of 512 bytes; names likewise.
 * Syncs bring them together. memory_vfs_crash() keeps what the device holds and, of what was not
 * synced, a random choice of sectors and the first so many changes of names. A failed sync loses
 * what it should have written, as Linux does: the next one succeeds without it.
 *
 * Threads: one. Directories exist in name only: names are whole paths. No mmap.
 */
#ifndef PANDO_TESTS_SUPPORT_MEMORY_VFS_H
#define PANDO_TESTS_SUPPORT_MEMORY_VFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/vfs.h"

struct memory_vfs;

/* The kinds of calls that can be made to fail. */
enum memory_vfs_call {
    MEMORY_OPEN = 1,
    MEMORY_PREAD = 2,
    MEMORY_PWRITE = 4,
    MEMORY_FALLOCATE = 8,
    MEMORY_SYNC = 16, /* fsync, fdatasync */
    MEMORY_SYNC_DIR = 32,
    MEMORY_RENAME = 64,
    MEMORY_CHANGES = MEMORY_PWRITE | MEMORY_FALLOCATE | MEMORY_SYNC | MEMORY_SYNC_DIR |
                     MEMORY_RENAME, /* and unlink, ftruncate when frozen */
};

struct memory_vfs *memory_vfs_new(uint64_t seed);
void memory_vfs_free(struct memory_vfs *m);
const struct ps_vfs *memory_vfs(struct memory_vfs *m);
uint64_t memory_vfs_random(struct memory_vfs *m, uint64_t below);

/* Power loss. Everything must have been closed. */
void memory_vfs_crash(struct memory_vfs *m);

/* The number-th (from 1) call of these kinds from now on fails with this errno; a write may have
 * been done in part. With `freeze` it and every later change do nothing and fail. 0: none. */
void memory_vfs_fail(struct memory_vfs *m, unsigned calls, uint64_t number, int err, bool freeze);
/* Calls of the kinds given to memory_vfs_fail() since then. */
uint64_t memory_vfs_calls(const struct memory_vfs *m);
bool memory_vfs_failed(const struct memory_vfs *m);

/* Bytes that all files together may hold; ENOSPC beyond. */
void memory_vfs_space(struct memory_vfs *m, uint64_t bytes);

/* A file's bytes, on the device and to be seen, for tests that damage them; NULL if it is not
 * there. What is written here is on the device. */
uint8_t *memory_vfs_bytes(struct memory_vfs *m, const char *path, size_t *len);
/* After bytes were changed through that pointer. */
void memory_vfs_settle(struct memory_vfs *m);
/* An independent copy of all files, everything in it synced. */
struct memory_vfs *memory_vfs_copy(const struct memory_vfs *m);
/* Names there are. */
size_t memory_vfs_files(const struct memory_vfs *m);

#endif
