/* fault_vfs.c - see fault_vfs.h. */
#include "tests/support/fault_vfs.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FDS 4096

struct fault_vfs {
    struct ps_vfs vfs;
    const struct ps_vfs *real;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    unsigned char files[MOST_FDS]; /* enum fault_file by descriptor */
    enum fault_call call;
    unsigned of;
    uint64_t number, calls, failed;
    int err;
    bool always, full;
    enum fault_call hold_call;
    unsigned hold_of, held;
};

static const char *const names[FAULT_CALLS] = {
    "open", "pread", "pwrite", "fallocate", "ftruncate", "fdatasync", "fsync", "sync_file_range",
    "size", "mmap",  "rename", "unlink",    "mkdir",     "sync_dir",  "list",  "lock",
};

const char *fault_call_name(enum fault_call call)
{
    return names[call];
}

static unsigned kind_of(const char *path)
{
    const char *name = strrchr(path, '/');
    name = name == NULL ? path : name + 1;
    return strcmp(name, "pando.db") == 0     ? FAULT_DATA
           : strncmp(name, "log-", 4) == 0   ? FAULT_LOG
           : strncmp(name, "spare-", 6) == 0 ? FAULT_LOG
                                             : FAULT_OTHER;
}

static unsigned kind_of_fd(struct fault_vfs *f, int fd)
{
    pthread_mutex_lock(&f->mutex);
    unsigned kind = fd >= 0 && fd < MOST_FDS && f->files[fd] != 0 ? f->files[fd] : FAULT_OTHER;
    pthread_mutex_unlock(&f->mutex);
    return kind;
}

/* Waits where the test wants it, then says whether this call is the one that fails. */
static int turn(struct fault_vfs *f, enum fault_call call, unsigned kind)
{
    pthread_mutex_lock(&f->mutex);
    if (f->hold_call == call && (f->hold_of & kind) != 0) {
        f->held++;
        pthread_cond_broadcast(&f->cond);
        while ((f->hold_of & kind) != 0) {
            pthread_cond_wait(&f->cond, &f->mutex);
        }
        f->held--;
    }
    int err = 0;
    if (call == f->call && (f->of & kind) != 0) {
        f->calls++;
        if (f->number != 0 && (f->calls == f->number || (f->always && f->calls > f->number))) {
            f->failed++;
            err = f->err;
        }
    }
    pthread_mutex_unlock(&f->mutex);
    return -err;
}

static bool is_full(struct fault_vfs *f)
{
    pthread_mutex_lock(&f->mutex);
    bool full = f->full;
    pthread_mutex_unlock(&f->mutex);
    return full;
}

static int on_open(void *ctx, const char *path, int flags, int mode)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_OPEN, kind_of(path));
    if (err != 0) {
        return err;
    }
    int fd = f->real->open(f->real->ctx, path, flags, mode);
    if (fd >= 0 && fd < MOST_FDS) {
        pthread_mutex_lock(&f->mutex);
        f->files[fd] = (unsigned char)kind_of(path);
        pthread_mutex_unlock(&f->mutex);
    }
    return fd;
}

static int on_close(void *ctx, int fd)
{
    struct fault_vfs *f = ctx;
    if (fd >= 0 && fd < MOST_FDS) {
        pthread_mutex_lock(&f->mutex);
        f->files[fd] = 0;
        pthread_mutex_unlock(&f->mutex);
    }
    return f->real->close(f->real->ctx, fd);
}

static ssize_t on_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_PREAD, kind_of_fd(f, fd));
    return err != 0 ? err : f->real->pread(f->real->ctx, fd, buf, len, offset);
}

static int on_pwrite(void *ctx, int fd, const void *buf, size_t len, uint64_t offset)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_PWRITE, kind_of_fd(f, fd));
    if (err == 0 && is_full(f)) {
        uint64_t bytes = 0;
        err = f->real->size(f->real->ctx, fd, &bytes);
        err = err == 0 && offset + len > bytes ? -ENOSPC : err;
    }
    if (err != 0) {
        (void)f->real->pwrite(f->real->ctx, fd, buf, err == -ENOSPC ? 0 : len / 2, offset);
        return err;
    }
    return f->real->pwrite(f->real->ctx, fd, buf, len, offset);
}

static int on_fallocate(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_FALLOCATE, kind_of_fd(f, fd));
    err = err == 0 && is_full(f) ? -ENOSPC : err;
    return err != 0 ? err : f->real->fallocate(f->real->ctx, fd, offset, len);
}

static int on_ftruncate(void *ctx, int fd, uint64_t len)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_FTRUNCATE, kind_of_fd(f, fd));
    return err != 0 ? err : f->real->ftruncate(f->real->ctx, fd, len);
}

static int on_fdatasync(void *ctx, int fd)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_FDATASYNC, kind_of_fd(f, fd));
    return err != 0 ? err : f->real->fdatasync(f->real->ctx, fd);
}

static int on_fsync(void *ctx, int fd)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_FSYNC, kind_of_fd(f, fd));
    return err != 0 ? err : f->real->fsync(f->real->ctx, fd);
}

static int on_sync_file_range(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_SYNC_FILE_RANGE, kind_of_fd(f, fd));
    return err != 0 ? err : f->real->sync_file_range(f->real->ctx, fd, offset, len);
}

static int on_size(void *ctx, int fd, uint64_t *bytes)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_SIZE, kind_of_fd(f, fd));
    return err != 0 ? err : f->real->size(f->real->ctx, fd, bytes);
}

static int on_mmap(void *ctx, int fd, size_t len, void **address)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_MMAP, kind_of_fd(f, fd));
    return err != 0 ? err : f->real->mmap(f->real->ctx, fd, len, address);
}

static int on_munmap(void *ctx, void *address, size_t len)
{
    struct fault_vfs *f = ctx;
    return f->real->munmap(f->real->ctx, address, len);
}

static int on_resident(void *ctx, const void *address, size_t len, unsigned char *there)
{
    struct fault_vfs *f = ctx;
    return f->real->resident(f->real->ctx, address, len, there);
}

static void on_prefetch(void *ctx, const void *address, size_t len)
{
    struct fault_vfs *f = ctx;
    f->real->prefetch(f->real->ctx, address, len);
}

static int on_rename(void *ctx, const char *from, const char *to)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_RENAME, kind_of(to));
    return err != 0 ? err : f->real->rename(f->real->ctx, from, to);
}

static int on_unlink(void *ctx, const char *path)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_UNLINK, kind_of(path));
    return err != 0 ? err : f->real->unlink(f->real->ctx, path);
}

static int on_mkdir(void *ctx, const char *path, int mode)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_MKDIR, FAULT_OTHER);
    return err != 0 ? err : f->real->mkdir(f->real->ctx, path, mode);
}

static int on_sync_dir(void *ctx, const char *path)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_SYNC_DIR, FAULT_OTHER);
    return err != 0 ? err : f->real->sync_dir(f->real->ctx, path);
}

static int on_list(void *ctx, const char *path, void (*each)(void *arg, const char *name),
                   void *arg)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_LIST, FAULT_OTHER);
    return err != 0 ? err : f->real->list(f->real->ctx, path, each, arg);
}

static int on_lock(void *ctx, int fd)
{
    struct fault_vfs *f = ctx;
    int err = turn(f, FAULT_LOCK, kind_of_fd(f, fd));
    return err != 0 ? err : f->real->lock(f->real->ctx, fd);
}

struct fault_vfs *fault_vfs_new(void)
{
    struct fault_vfs *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        abort();
    }
    f->real = ps_vfs_posix();
    f->vfs = (struct ps_vfs){
        .ctx = f,
        .open = on_open,
        .close = on_close,
        .pread = on_pread,
        .pwrite = on_pwrite,
        .fallocate = on_fallocate,
        .ftruncate = on_ftruncate,
        .fdatasync = on_fdatasync,
        .fsync = on_fsync,
        .sync_file_range = on_sync_file_range,
        .size = on_size,
        .mmap = on_mmap,
        .munmap = on_munmap,
        .resident = on_resident,
        .prefetch = on_prefetch,
        .rename = on_rename,
        .unlink = on_unlink,
        .mkdir = on_mkdir,
        .sync_dir = on_sync_dir,
        .list = on_list,
        .lock = on_lock,
    };
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->cond, NULL);
    return f;
}

void fault_vfs_free(struct fault_vfs *f)
{
    if (f != NULL) {
        pthread_mutex_destroy(&f->mutex);
        pthread_cond_destroy(&f->cond);
        free(f);
    }
}

const struct ps_vfs *fault_vfs(struct fault_vfs *f)
{
    return &f->vfs;
}

void fault_vfs_fail(struct fault_vfs *f, enum fault_call call, unsigned files, uint64_t number,
                    int err, bool always)
{
    pthread_mutex_lock(&f->mutex);
    f->call = call;
    f->of = files;
    f->number = number;
    f->err = err;
    f->always = always;
    f->calls = f->failed = 0;
    pthread_mutex_unlock(&f->mutex);
}

uint64_t fault_vfs_calls(struct fault_vfs *f)
{
    pthread_mutex_lock(&f->mutex);
    uint64_t calls = f->calls;
    pthread_mutex_unlock(&f->mutex);
    return calls;
}

uint64_t fault_vfs_failed(struct fault_vfs *f)
{
    pthread_mutex_lock(&f->mutex);
    uint64_t failed = f->failed;
    pthread_mutex_unlock(&f->mutex);
    return failed;
}

void fault_vfs_full(struct fault_vfs *f, bool full)
{
    pthread_mutex_lock(&f->mutex);
    f->full = full;
    pthread_mutex_unlock(&f->mutex);
}

void fault_vfs_hold(struct fault_vfs *f, enum fault_call call, unsigned files)
{
    pthread_mutex_lock(&f->mutex);
    f->hold_call = call;
    f->hold_of |= files;
    pthread_mutex_unlock(&f->mutex);
}

void fault_vfs_await_held(struct fault_vfs *f, unsigned calls)
{
    pthread_mutex_lock(&f->mutex);
    while (f->held < calls) {
        pthread_cond_wait(&f->cond, &f->mutex);
    }
    pthread_mutex_unlock(&f->mutex);
}

void fault_vfs_release(struct fault_vfs *f, unsigned files)
{
    pthread_mutex_lock(&f->mutex);
    f->hold_of &= ~files;
    pthread_cond_broadcast(&f->cond);
    pthread_mutex_unlock(&f->mutex);
}
