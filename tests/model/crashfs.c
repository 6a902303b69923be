/*
 * crashfs.c - the operating system's files, with a camera.
 *
 * Invariants:
 *  1. Whatever changes files runs with `lock` held shared; a copy with it held alone.
 *  2. At most one copy is made for each crashfs_arm().
 *  3. A failed log write has written only part of what it was given.
 */
#include "tests/model/crashfs.h"
#include "tests/model/unsynced.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DESCRIPTORS 1024

struct crashfs {
    struct ps_vfs vfs;
    const struct ps_vfs *base;
    pthread_rwlock_t lock;
    atomic_int countdown; /* changing operations until the copy; 0: not armed */
    atomic_bool taken;
    atomic_uint residency_asked;
    atomic_int log_error; /* what the next write to the log answers; 0: it works */
    atomic_bool is_log[DESCRIPTORS];
    bool real_syncs;
    struct unsynced *unsynced;
    uint64_t loss; /* seed of what the power loss undoes; 0: the process is killed, no more */
    bool ordered;  /* a copy is wanted; with the lock held alone */
    uint64_t tear;
    char from[STORE_DIR_PATH], to[STORE_DIR_PATH];
};

/* Whether it is this operation in whose middle the copy is to be made. */
static bool is_due(struct crashfs *fs)
{
    int left = atomic_load(&fs->countdown);
    while (left > 0) {
        if (atomic_compare_exchange_weak(&fs->countdown, &left, left - 1))
            return left == 1;
    }
    return false;
}

static void copy_now(struct crashfs *fs, const char *from, const char *to, uint64_t loss)
{
    store_dir_copy(from, to);
    if (loss) {
        struct rng rng = rng_seed(loss, 0);
        unsynced_lose(fs->unsynced, from, to, &rng);
    }
}

/* Called with the lock held alone. The order may have been taken back since it was due. */
static void take(struct crashfs *fs)
{
    if (!fs->ordered)
        return;
    fs->ordered = false;
    copy_now(fs, fs->from, fs->to, fs->loss);
    atomic_store(&fs->taken, true);
}

/* Before an operation that is done whole or not at all. */
static void enter(struct crashfs *fs)
{
    if (is_due(fs)) {
        pthread_rwlock_wrlock(&fs->lock);
        take(fs);
        pthread_rwlock_unlock(&fs->lock);
    }
    pthread_rwlock_rdlock(&fs->lock);
}

static int leave(struct crashfs *fs, int rc)
{
    pthread_rwlock_unlock(&fs->lock);
    return rc;
}

static bool is_empty(struct crashfs *fs, int fd)
{
    uint64_t bytes = 1;
    return fs->base->size(fs->base->ctx, fd, &bytes) == 0 && bytes == 0;
}

static int fs_open(void *ctx, const char *path, int flags, int mode)
{
    struct crashfs *fs = ctx;
    const char *name = strrchr(path, '/');
    bool changes = flags & (O_CREAT | O_TRUNC);
    if (changes)
        enter(fs);
    int fd = fs->base->open(fs->base->ctx, path, flags, mode);
    if (fd >= 0 && fd < DESCRIPTORS)
        atomic_store(&fs->is_log[fd], strncmp(name ? name + 1 : path, "log-", 4) == 0);
    if (fd >= 0 && changes && is_empty(fs, fd))
        unsynced_forget(fs->unsynced, fd);
    return changes ? leave(fs, fd) : fd;
}

static int fs_close(void *ctx, int fd)
{
    struct crashfs *fs = ctx;
    if (fd >= 0 && fd < DESCRIPTORS)
        atomic_store(&fs->is_log[fd], false);
    return fs->base->close(fs->base->ctx, fd);
}

static ssize_t fs_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    struct crashfs *fs = ctx;
    return fs->base->pread(fs->base->ctx, fd, buf, len, offset);
}

static int write_part(struct crashfs *fs, int fd, const void *buf, size_t len, uint64_t offset)
{
    size_t part = fs->tear % (len + 1);
    unsynced_write(fs->unsynced, fd, buf, part, offset);
    return part ? fs->base->pwrite(fs->base->ctx, fd, buf, part, offset) : 0;
}

static int fs_pwrite(void *ctx, int fd, const void *buf, size_t len, uint64_t offset)
{
    struct crashfs *fs = ctx;
    if (is_due(fs)) {
        pthread_rwlock_wrlock(&fs->lock);
        write_part(fs, fd, buf, len, offset);
        take(fs);
        pthread_rwlock_unlock(&fs->lock);
    }
    pthread_rwlock_rdlock(&fs->lock);
    if (fd >= 0 && fd < DESCRIPTORS && atomic_load(&fs->is_log[fd])) {
        int error = atomic_exchange(&fs->log_error, 0);
        if (error) {
            write_part(fs, fd, buf, len, offset);
            return leave(fs, -error);
        }
    }
    unsynced_write(fs->unsynced, fd, buf, len, offset);
    return leave(fs, fs->base->pwrite(fs->base->ctx, fd, buf, len, offset));
}

static int fs_fallocate(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    struct crashfs *fs = ctx;
    enter(fs);
    return leave(fs, fs->base->fallocate(fs->base->ctx, fd, offset, len));
}

static int fs_ftruncate(void *ctx, int fd, uint64_t len)
{
    struct crashfs *fs = ctx;
    enter(fs);
    return leave(fs, fs->base->ftruncate(fs->base->ctx, fd, len));
}

static int fs_rename(void *ctx, const char *from, const char *to)
{
    struct crashfs *fs = ctx;
    enter(fs);
    return leave(fs, fs->base->rename(fs->base->ctx, from, to));
}

static int fs_unlink(void *ctx, const char *path)
{
    struct crashfs *fs = ctx;
    enter(fs);
    return leave(fs, fs->base->unlink(fs->base->ctx, path));
}

static int fs_mkdir(void *ctx, const char *path, int mode)
{
    struct crashfs *fs = ctx;
    return fs->base->mkdir(fs->base->ctx, path, mode);
}

static int fs_fdatasync(void *ctx, int fd)
{
    struct crashfs *fs = ctx;
    uint64_t mark = unsynced_mark(fs->unsynced);
    int rc = fs->real_syncs ? fs->base->fdatasync(fs->base->ctx, fd) : 0;
    if (rc == 0)
        unsynced_safe(fs->unsynced, fd, mark);
    return rc;
}

static int fs_fsync(void *ctx, int fd)
{
    struct crashfs *fs = ctx;
    uint64_t mark = unsynced_mark(fs->unsynced);
    int rc = fs->real_syncs ? fs->base->fsync(fs->base->ctx, fd) : 0;
    if (rc == 0)
        unsynced_safe(fs->unsynced, fd, mark);
    return rc;
}

static int fs_sync_file_range(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    struct crashfs *fs = ctx;
    return fs->real_syncs ? fs->base->sync_file_range(fs->base->ctx, fd, offset, len) : 0;
}

static int fs_size(void *ctx, int fd, uint64_t *bytes)
{
    struct crashfs *fs = ctx;
    return fs->base->size(fs->base->ctx, fd, bytes);
}

static int fs_mmap(void *ctx, int fd, size_t len, void **address)
{
    struct crashfs *fs = ctx;
    return fs->base->mmap(fs->base->ctx, fd, len, address);
}

/* Some pages are said not to be in memory, by turns, so that probing meets such ones. */
static int fs_resident(void *ctx, const void *address, size_t len, unsigned char *there)
{
    struct crashfs *fs = ctx;
    int err = fs->base->resident(fs->base->ctx, address, len, there);
    if (err == 0 && atomic_fetch_add(&fs->residency_asked, 1) % 3 == 0)
        there[0] = 0;
    return err;
}

static void fs_prefetch(void *ctx, const void *address, size_t len)
{
    struct crashfs *fs = ctx;
    fs->base->prefetch(fs->base->ctx, address, len);
}

static int fs_munmap(void *ctx, void *address, size_t len)
{
    struct crashfs *fs = ctx;
    return fs->base->munmap(fs->base->ctx, address, len);
}

static int fs_sync_dir(void *ctx, const char *path)
{
    struct crashfs *fs = ctx;
    return fs->real_syncs ? fs->base->sync_dir(fs->base->ctx, path) : 0;
}

static int fs_list(void *ctx, const char *path, void (*each)(void *arg, const char *name),
                   void *arg)
{
    struct crashfs *fs = ctx;
    return fs->base->list(fs->base->ctx, path, each, arg);
}

static int fs_lock(void *ctx, int fd)
{
    struct crashfs *fs = ctx;
    return fs->base->lock(fs->base->ctx, fd);
}

struct crashfs *crashfs_new(bool real_syncs)
{
    struct crashfs *fs = calloc(1, sizeof *fs);
    if (!fs || pthread_rwlock_init(&fs->lock, NULL) != 0)
        abort();
    fs->base = ps_vfs_posix();
    fs->real_syncs = real_syncs;
    fs->unsynced = unsynced_new();
    fs->vfs = (struct ps_vfs){
        .ctx = fs,
        .open = fs_open,
        .close = fs_close,
        .pread = fs_pread,
        .pwrite = fs_pwrite,
        .fallocate = fs_fallocate,
        .ftruncate = fs_ftruncate,
        .fdatasync = fs_fdatasync,
        .fsync = fs_fsync,
        .sync_file_range = fs_sync_file_range,
        .size = fs_size,
        .mmap = fs_mmap,
        .munmap = fs_munmap,
        .resident = fs_resident,
        .prefetch = fs_prefetch,
        .rename = fs_rename,
        .unlink = fs_unlink,
        .mkdir = fs_mkdir,
        .sync_dir = fs_sync_dir,
        .list = fs_list,
        .lock = fs_lock,
    };
    return fs;
}

void crashfs_free(struct crashfs *fs)
{
    pthread_rwlock_destroy(&fs->lock);
    unsynced_free(fs->unsynced);
    free(fs);
}

const struct ps_vfs *crashfs_vfs(struct crashfs *fs)
{
    return &fs->vfs;
}

void crashfs_copy(struct crashfs *fs, const char *from, const char *to, uint64_t loss)
{
    pthread_rwlock_wrlock(&fs->lock);
    copy_now(fs, from, to, loss);
    pthread_rwlock_unlock(&fs->lock);
}

void crashfs_arm(struct crashfs *fs, const char *from, const char *to, unsigned after,
                 uint64_t tear, uint64_t loss)
{
    pthread_rwlock_wrlock(&fs->lock);
    snprintf(fs->from, sizeof fs->from, "%s", from);
    snprintf(fs->to, sizeof fs->to, "%s", to);
    fs->tear = tear;
    fs->loss = loss;
    fs->ordered = true;
    atomic_store(&fs->taken, false);
    atomic_store(&fs->countdown, (int)after);
    pthread_rwlock_unlock(&fs->lock);
}

bool crashfs_taken(struct crashfs *fs)
{
    return atomic_load(&fs->taken);
}

bool crashfs_disarm(struct crashfs *fs)
{
    pthread_rwlock_wrlock(&fs->lock);
    atomic_store(&fs->countdown, 0);
    fs->ordered = false;
    bool taken = atomic_exchange(&fs->taken, false);
    pthread_rwlock_unlock(&fs->lock);
    return taken;
}

void crashfs_fail_log(struct crashfs *fs, int error)
{
    atomic_store(&fs->log_error, error);
}

bool crashfs_log_failed(struct crashfs *fs)
{
    return atomic_exchange(&fs->log_error, 0) == 0;
}
