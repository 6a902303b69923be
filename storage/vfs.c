/*
 * vfs.c - the operating system's file operations behind the table of vfs.h.
 *
 * Short reads and writes and EINTR are completed here. A failed sync is passed on and never tried
 * again: after one, Linux may have dropped the dirty pages and would answer 0 the next time.
 * No file gets the number of a standard stream: in a process that was started without one, whatever
 * it prints would be written over the data.
 *
 * Threads: any; nothing is kept.
 */
#include "storage/vfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The same file with a number above those of the standard streams. */
static int above_streams(int fd)
{
    int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int err = errno;

    (void)close(fd);
    return above < 0 ? -err : above;
}

static int posix_open(void *ctx, const char *path, int flags, int mode)
{
    int fd;

    (void)ctx;
    do { /* a pipe in a file's place must not be waited for; it fails when it is read */
        fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
    } while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd <= STDERR_FILENO ? above_streams(fd) : fd;
}

static int posix_close(void *ctx, int fd)
{
    (void)ctx;
    /* Linux closes the descriptor even when it says EINTR. */
    return close(fd) < 0 && errno != EINTR ? -errno : 0;
}

static ssize_t posix_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    size_t done = 0;

    (void)ctx;
    while (done < len) {
        ssize_t n = pread(fd, (char *)buf + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static int posix_pwrite(void *ctx, int fd, const void *buf, size_t len, uint64_t offset)
{
    size_t done = 0;

    (void)ctx;
    while (done < len) {
        ssize_t n = pwrite(fd, (const char *)buf + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EIO;
        done += (size_t)n;
    }
    return 0;
}

static int write_zeros(int fd, uint64_t offset, uint64_t len)
{
    static const char zeros[65536];

    while (len > 0) {
        size_t n = len < sizeof(zeros) ? (size_t)len : sizeof(zeros);
        int rc = posix_pwrite(NULL, fd, zeros, n, offset);
        if (rc != 0)
            return rc;
        offset += n;
        len -= n;
    }
    return 0;
}

static int posix_fallocate_range(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    int rc;

    (void)ctx;
    do {
        rc = fallocate(fd, 0, (off_t)offset, (off_t)len);
    } while (rc < 0 && errno == EINTR);
    if (rc == 0)
        return 0;
    if (errno == EOPNOTSUPP || errno == ENOSYS)
        return write_zeros(fd, offset, len);
    return -errno;
}

static int posix_ftruncate(void *ctx, int fd, uint64_t len)
{
    int rc;

    (void)ctx;
    do {
        rc = ftruncate(fd, (off_t)len);
    } while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : 0;
}

static int posix_fdatasync(void *ctx, int fd)
{
    (void)ctx;
    return fdatasync(fd) < 0 ? -errno : 0;
}

static int posix_fsync(void *ctx, int fd)
{
    (void)ctx;
    return fsync(fd) < 0 ? -errno : 0;
}

static int posix_sync_file_range(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    (void)ctx;
    if (sync_file_range(fd, (off_t)offset, (off_t)len,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                            SYNC_FILE_RANGE_WAIT_AFTER) < 0)
        return -errno;
    return 0;
}

static int posix_size(void *ctx, int fd, uint64_t *bytes)
{
    struct stat st;

    (void)ctx;
    if (fstat(fd, &st) < 0)
        return -errno;
    *bytes = (uint64_t)st.st_size;
    return 0;
}

static int posix_mmap(void *ctx, int fd, size_t len, void **address)
{
    void *map = mmap(NULL, len, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);

    (void)ctx;
    if (map == MAP_FAILED)
        return -errno;
    if (madvise(map, len, MADV_RANDOM) < 0) {
        int err = errno;
        (void)munmap(map, len);
        return -err;
    }
    *address = map;
    return 0;
}

static int posix_munmap(void *ctx, void *address, size_t len)
{
    (void)ctx;
    return munmap(address, len) < 0 ? -errno : 0;
}

static int posix_resident(void *ctx, const void *address, size_t len, unsigned char *there)
{
    (void)ctx;
    return mincore((void *)(uintptr_t)address, len, there) < 0 ? -errno : 0;
}

static void posix_prefetch(void *ctx, const void *address, size_t len)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)address & ~(page - 1);

    (void)ctx;
    (void)madvise((void *)from, (uintptr_t)address + len - from, MADV_WILLNEED);
}

static int posix_rename(void *ctx, const char *from, const char *to)
{
    (void)ctx;
    return rename(from, to) < 0 ? -errno : 0;
}

static int posix_unlink(void *ctx, const char *path)
{
    (void)ctx;
    return unlink(path) < 0 ? -errno : 0;
}

static int posix_mkdir(void *ctx, const char *path, int mode)
{
    (void)ctx;
    return mkdir(path, (mode_t)mode) < 0 ? -errno : 0;
}

static int posix_sync_dir(void *ctx, const char *path)
{
    int fd = posix_open(ctx, path, O_RDONLY | O_DIRECTORY, 0);
    int rc;

    if (fd < 0)
        return fd;
    rc = posix_fsync(ctx, fd);
    (void)posix_close(ctx, fd);
    return rc;
}

static int posix_list(void *ctx, const char *path, void (*each)(void *arg, const char *name),
                      void *arg)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int err;

    (void)ctx;
    if (dir == NULL)
        return -errno;
    for (errno = 0; (entry = readdir(dir)) != NULL; errno = 0)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            each(arg, entry->d_name);
    err = errno;
    (void)closedir(dir);
    return -err;
}

/* flock belongs to the open file, not to the process: a second open in this process conflicts. */
static int posix_lock(void *ctx, int fd)
{
    int rc;

    (void)ctx;
    do {
        rc = flock(fd, LOCK_EX | LOCK_NB);
    } while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : 0;
}

const struct ps_vfs *ps_vfs_posix(void)
{
    static const struct ps_vfs posix = {
        .open = posix_open,
        .close = posix_close,
        .pread = posix_pread,
        .pwrite = posix_pwrite,
        .fallocate = posix_fallocate_range,
        .ftruncate = posix_ftruncate,
        .fdatasync = posix_fdatasync,
        .fsync = posix_fsync,
        .sync_file_range = posix_sync_file_range,
        .size = posix_size,
        .mmap = posix_mmap,
        .munmap = posix_munmap,
        .resident = posix_resident,
        .prefetch = posix_prefetch,
        .rename = posix_rename,
        .unlink = posix_unlink,
        .mkdir = posix_mkdir,
        .sync_dir = posix_sync_dir,
        .list = posix_list,
        .lock = posix_lock,
    };
    return &posix;
}
