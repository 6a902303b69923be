/*
 * image.c - see image.h.
 */
#include "storage/image.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "storage/poison.h"

#define PROBE_BYTES 65536u

struct image {
    struct ps_vfs vfs; /* ctx: this image */
    const struct ps_vfs *base;
    int fd; /* the file that is mapped; -1: none */
    uint8_t *memory;
    size_t len; /* reserved */
    pthread_mutex_t mu;
    uint64_t bytes; /* used so far, from the beginning; mu */
    void (*before)(void *arg, uint64_t offset, size_t len); /* NULL: nobody asked */
    void *before_arg;
};

/* ---- the mapped file ------------------------------------------------------------------------- */

static bool is_mapped(const struct image *image, int fd, uint64_t offset, uint64_t len)
{
    return image->memory != NULL && fd == image->fd && offset <= image->len &&
           len <= image->len - offset;
}

static void reached(struct image *image, uint64_t end)
{
    pthread_mutex_lock(&image->mu);
    image->bytes = end > image->bytes ? end : image->bytes;
    pthread_mutex_unlock(&image->mu);
}

/* What the file holds, from an offset on. */
static int load(struct image *image, uint64_t offset, uint64_t len)
{
    ssize_t n = image->base->pread(image->base->ctx, image->fd, image->memory + offset, (size_t)len,
                                   offset);
    return n < 0 ? (int)n : 0;
}

/* A little of the file is mapped as it would be, so that what fails there fails here. */
static int image_mmap(void *ctx, int fd, size_t len, void **address)
{
    struct image *image = ctx;
    uint64_t bytes = 0;
    void *real;
    int err = image->base->mmap(image->base->ctx, fd, PROBE_BYTES, &real);
    if (err != 0) {
        return err;
    }
    (void)image->base->munmap(image->base->ctx, real, PROBE_BYTES);
    void *at =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        return -errno;
    }
    image->fd = fd;
    image->memory = at;
    image->len = len;
    err = image->base->size(image->base->ctx, fd, &bytes);
    bytes = bytes < len ? bytes : len;
    err = err == 0 ? load(image, 0, bytes) : err;
    if (err != 0) {
        image->memory = NULL;
        munmap(at, len);
        return err;
    }
    image->bytes = bytes;
    *address = at;
    return 0;
}

static int image_munmap(void *ctx, void *address, size_t len)
{
    struct image *image = ctx;
    unpoison(address, image->bytes); /* others may get these addresses */
    image->memory = NULL;
    return munmap(address, len) < 0 ? -errno : 0;
}

/* A write that failed may have changed a part of the file. */
static int image_pwrite(void *ctx, int fd, const void *buf, size_t len, uint64_t offset)
{
    struct image *image = ctx;
    if (image->before != NULL && is_mapped(image, fd, offset, len)) {
        image->before(image->before_arg, offset, len);
    }
    int err = image->base->pwrite(image->base->ctx, fd, buf, len, offset);
    if (is_mapped(image, fd, offset, len)) {
        if (err == 0) {
            memcpy(image->memory + offset, buf, len);
        } else {
            (void)load(image, offset, len);
        }
        reached(image, offset + len);
    }
    return err;
}

static int image_fallocate(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    struct image *image = ctx;
    int err = image->base->fallocate(image->base->ctx, fd, offset, len);
    if (err == 0 && is_mapped(image, fd, offset, len)) {
        reached(image, offset + len);
    }
    return err;
}

static int image_ftruncate(void *ctx, int fd, uint64_t len)
{
    struct image *image = ctx;
    int err = image->base->ftruncate(image->base->ctx, fd, len);
    if (err == 0 && is_mapped(image, fd, len, 0) && len < image->bytes) {
        unpoison(image->memory + len, image->bytes - len);
        memset(image->memory + len, 0, image->bytes - len);
    }
    return err;
}

/* ---- everything else ------------------------------------------------------------------------- */

static int image_open(void *ctx, const char *path, int flags, int mode)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->open(base->ctx, path, flags, mode);
}

static int image_close(void *ctx, int fd)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->close(base->ctx, fd);
}

static ssize_t image_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->pread(base->ctx, fd, buf, len, offset);
}

static int image_fdatasync(void *ctx, int fd)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->fdatasync(base->ctx, fd);
}

static int image_fsync(void *ctx, int fd)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->fsync(base->ctx, fd);
}

static int image_sync_file_range(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->sync_file_range(base->ctx, fd, offset, len);
}

static int image_size(void *ctx, int fd, uint64_t *bytes)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->size(base->ctx, fd, bytes);
}

static int image_resident(void *ctx, const void *address, size_t len, unsigned char *there)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->resident(base->ctx, address, len, there);
}

static void image_prefetch(void *ctx, const void *address, size_t len)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    base->prefetch(base->ctx, address, len);
}

static int image_rename(void *ctx, const char *from, const char *to)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->rename(base->ctx, from, to);
}

static int image_unlink(void *ctx, const char *path)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->unlink(base->ctx, path);
}

static int image_mkdir(void *ctx, const char *path, int mode)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->mkdir(base->ctx, path, mode);
}

static int image_sync_dir(void *ctx, const char *path)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->sync_dir(base->ctx, path);
}

static int image_list(void *ctx, const char *path, void (*each)(void *arg, const char *name),
                      void *arg)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->list(base->ctx, path, each, arg);
}

static int image_lock(void *ctx, int fd)
{
    const struct ps_vfs *base = ((struct image *)ctx)->base;
    return base->lock(base->ctx, fd);
}

struct image *image_new(const struct ps_vfs *base)
{
    struct image *image = calloc(1, sizeof *image);
    if (image == NULL) {
        return NULL;
    }
    image->base = base;
    image->fd = -1;
    pthread_mutex_init(&image->mu, NULL);
    image->vfs = (struct ps_vfs){
        .ctx = image,
        .open = image_open,
        .close = image_close,
        .pread = image_pread,
        .pwrite = image_pwrite,
        .fallocate = image_fallocate,
        .ftruncate = image_ftruncate,
        .fdatasync = image_fdatasync,
        .fsync = image_fsync,
        .sync_file_range = image_sync_file_range,
        .size = image_size,
        .mmap = image_mmap,
        .munmap = image_munmap,
        .resident = image_resident,
        .prefetch = image_prefetch,
        .rename = image_rename,
        .unlink = image_unlink,
        .mkdir = image_mkdir,
        .sync_dir = image_sync_dir,
        .list = image_list,
        .lock = image_lock,
    };
    return image;
}

void image_free(struct image *image)
{
    if (image != NULL) {
        pthread_mutex_destroy(&image->mu);
        free(image);
    }
}

void image_before_write(struct image *image, void (*before)(void *arg, uint64_t offset, size_t len),
                        void *arg)
{
    image->before = before;
    image->before_arg = arg;
}

const struct ps_vfs *image_vfs(const struct image *image)
{
    return &image->vfs;
}
