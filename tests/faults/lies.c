/* lies.c - see lies.h. */
#include "tests/faults/lies.h"

#include <errno.h>
#include <unistd.h>

static const struct ps_vfs *real(void)
{
    return ps_vfs_posix();
}

static int pwrite_ignored(void *ctx, int fd, const void *buf, size_t len, uint64_t offset)
{
    (void)real()->pwrite(ctx, fd, buf, len, offset);
    return 0;
}

static ssize_t pread_ignored(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    ssize_t n = real()->pread(ctx, fd, buf, len, offset);
    return n < 0 ? (ssize_t)len : n;
}

static int fallocate_ignored(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    (void)real()->fallocate(ctx, fd, offset, len);
    return 0;
}

static int fdatasync_ignored(void *ctx, int fd)
{
    (void)real()->fdatasync(ctx, fd);
    return 0;
}

static int fdatasync_again(void *ctx, int fd)
{
    int rc = real()->fdatasync(ctx, fd);
    return rc != 0 ? real()->fdatasync(ctx, fd) : 0;
}

static int fsync_ignored(void *ctx, int fd)
{
    (void)real()->fsync(ctx, fd);
    return 0;
}

static int sync_file_range_ignored(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    (void)real()->sync_file_range(ctx, fd, offset, len);
    return 0;
}

static int rename_ignored(void *ctx, const char *from, const char *to)
{
    (void)real()->rename(ctx, from, to);
    return 0;
}

/* A short count is taken for all of it. */
static int pwrite_short(void *ctx, int fd, const void *buf, size_t len, uint64_t offset)
{
    (void)ctx;
    return pwrite(fd, buf, len, (off_t)offset) < 0 ? -errno : 0;
}

/* EINTR is an error like others. */
static ssize_t pread_interrupted(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    (void)ctx;
    ssize_t n = pread(fd, buf, len, (off_t)offset);
    return n < 0 ? -errno : n;
}

/* A descriptor is forgotten where locking fails. */
static int close_forgotten(void *ctx, int fd)
{
    return calls_failed() ? 0 : real()->close(ctx, fd);
}

#define LIE(name, member, function)      \
    static void name(struct ps_vfs *vfs) \
    {                                    \
        vfs->member = function;          \
    }

LIE(tell_pwrite, pwrite, pwrite_ignored)
LIE(tell_pread, pread, pread_ignored)
LIE(tell_fallocate, fallocate, fallocate_ignored)
LIE(tell_fdatasync, fdatasync, fdatasync_ignored)
LIE(tell_fdatasync_again, fdatasync, fdatasync_again)
LIE(tell_fsync, fsync, fsync_ignored)
LIE(tell_sync_file_range, sync_file_range, sync_file_range_ignored)
LIE(tell_rename, rename, rename_ignored)
LIE(tell_short, pwrite, pwrite_short)
LIE(tell_interrupted, pread, pread_interrupted)
LIE(tell_close, close, close_forgotten)

const struct lie lies[] = {
    {CALL_PWRITE, "the result of pwrite is ignored", tell_pwrite},
    {CALL_PWRITE, "a short count of pwrite is taken for all", tell_short},
    {CALL_PREAD, "the result of pread is ignored", tell_pread},
    {CALL_PREAD, "pread is not repeated after EINTR", tell_interrupted},
    {CALL_FALLOCATE, "the result of fallocate is ignored", tell_fallocate},
    {CALL_FDATASYNC, "the result of fdatasync is ignored", tell_fdatasync},
    {CALL_FDATASYNC, "a failed fdatasync is tried again", tell_fdatasync_again},
    {CALL_FSYNC, "the result of fsync is ignored", tell_fsync},
    {CALL_SYNC_FILE_RANGE, "the result of sync_file_range is ignored", tell_sync_file_range},
    {CALL_RENAME, "the result of rename is ignored", tell_rename},
    {CALL_LOCK, "files stay open after an error", tell_close},
};
const unsigned lies_count = sizeof lies / sizeof *lies;

const struct ps_vfs *lies_vfs(const struct lie *lie)
{
    static struct ps_vfs vfs;
    vfs = *real();
    lie->tell(&vfs);
    return &vfs;
}
