/*
 * vfs.h - every file operation of the engine, as one table, so that tests can make any of them
 * fail, stall, tear or journal.
 *
 * Functions return 0 (or what is said) or a negative errno. They never retry a failed sync; short
 * reads and writes are completed inside (EINTR too), so that callers see all or an error. A pread
 * beyond the end returns the number of bytes there were.
 *
 * Threads: all functions may be called from any thread; `ctx` is passed through.
 */
#ifndef PANDO_STORAGE_VFS_H
#define PANDO_STORAGE_VFS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ps_vfs {
    void *ctx;
    int (*open)(void *ctx, const char *path, int flags, int mode); /* descriptor */
    int (*close)(void *ctx, int fd);
    ssize_t (*pread)(void *ctx, int fd, void *buf, size_t len, uint64_t offset);
    int (*pwrite)(void *ctx, int fd, const void *buf, size_t len, uint64_t offset);
    /* Allocates and zero-fills [offset, offset+len); extends the file. EOPNOTSUPP is answered by
     * writing zeros inside. What stood in the range may be kept or zeroed: it must not matter. */
    int (*fallocate)(void *ctx, int fd, uint64_t offset, uint64_t len);
    int (*ftruncate)(void *ctx, int fd, uint64_t len);
    int (*fdatasync)(void *ctx, int fd);
    int (*fsync)(void *ctx, int fd);
    /* Starts and waits for write-out of a range: pacing only, promises nothing. */
    int (*sync_file_range)(void *ctx, int fd, uint64_t offset, uint64_t len);
    int (*size)(void *ctx, int fd, uint64_t *bytes);
    /* A shared read-only mapping of len bytes (may reach past the end of the file). */
    int (*mmap)(void *ctx, int fd, size_t len, void **address);
    int (*munmap)(void *ctx, void *address, size_t len);
    /* For each page of the operating system in a part of a mapping: bit 0 of there[] says whether
     * it can be read without waiting for the disk. */
    int (*resident)(void *ctx, const void *address, size_t len, unsigned char *there);
    /* Begins to read a part of a mapping into memory; a hint. */
    void (*prefetch)(void *ctx, const void *address, size_t len);
    int (*rename)(void *ctx, const char *from, const char *to);
    int (*unlink)(void *ctx, const char *path);
    int (*mkdir)(void *ctx, const char *path, int mode);
    int (*sync_dir)(void *ctx, const char *path);
    /* Calls each(arg, name) for every entry of a directory but . and .. */
    int (*list)(void *ctx, const char *path, void (*each)(void *arg, const char *name), void *arg);
    /* An exclusive lock on an open file, held until it is closed: 0 or -EWOULDBLOCK. */
    int (*lock)(void *ctx, int fd);
};

/* The operating system's. */
const struct ps_vfs *ps_vfs_posix(void);

#endif
