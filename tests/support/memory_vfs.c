/*
 * memory_vfs.c - files in memory with power loss. See memory_vfs.h.
 */
#include "tests/support/memory_vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR    512u
#define FILES_MAX 256
#define FDS_MAX   1024

struct file {
    uint8_t *seen, *device; /* of `capacity` bytes */
    uint8_t *dirty;         /* a byte for each sector: seen, not on the device */
    size_t capacity;
    size_t seen_len, device_len;
};

struct name {
    char path[200];
    struct file *file;
};

struct names {
    struct name at[FILES_MAX];
    size_t count;
};

enum change_kind { CHANGE_ADD, CHANGE_REMOVE, CHANGE_RENAME };

struct change {
    enum change_kind kind;
    char path[200], to[200];
    struct file *file;
};

struct memory_vfs {
    struct ps_vfs vfs;
    uint64_t random;
    struct names seen, device;
    struct change *changes; /* of names, not synced */
    size_t change_count, change_capacity;
    struct file **files; /* all ever made */
    size_t file_count;
    struct file *fds[FDS_MAX];
    unsigned fail_calls;
    uint64_t fail_number, calls;
    int fail_errno;
    bool freeze, failed;
    uint64_t space;
};

static void must(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "memory_vfs: %s\n", what);
        abort();
    }
}

uint64_t memory_vfs_random(struct memory_vfs *m, uint64_t below)
{
    uint64_t z = (m->random += 0x9e3779b97f4a7c15u); /* splitmix64 */

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return below == 0 ? z : z % below;
}

/* ---- names ------------------------------------------------------------------------------------
 */

static struct name *find(struct names *names, const char *path)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->at[i].path, path) == 0)
            return &names->at[i];
    return NULL;
}

static void put(struct names *names, const char *path, struct file *file)
{
    struct name *name = find(names, path);

    if (name == NULL) {
        must(names->count < FILES_MAX, "too many files");
        name = &names->at[names->count++];
        must(strlen(path) < sizeof(name->path), "path too long");
        strcpy(name->path, path);
    }
    name->file = file;
}

static void take(struct names *names, const char *path)
{
    struct name *name = find(names, path);

    if (name != NULL)
        *name = names->at[--names->count];
}

static void apply(struct names *names, const struct change *change)
{
    if (change->kind != CHANGE_ADD)
        take(names, change->path);
    if (change->kind == CHANGE_ADD)
        put(names, change->path, change->file);
    if (change->kind == CHANGE_RENAME)
        put(names, change->to, change->file);
}

static void change(struct memory_vfs *m, enum change_kind kind, const char *path, const char *to,
                   struct file *file)
{
    struct change *c;

    if (m->change_count == m->change_capacity) {
        m->change_capacity = m->change_capacity * 2 + 16;
        m->changes = realloc(m->changes, m->change_capacity * sizeof(*m->changes));
        must(m->changes != NULL, "out of memory");
    }
    c = &m->changes[m->change_count++];
    c->kind = kind;
    c->file = file;
    snprintf(c->path, sizeof(c->path), "%s", path);
    snprintf(c->to, sizeof(c->to), "%s", to);
    apply(&m->seen, c);
}

/* ---- failures ---------------------------------------------------------------------------------
 */

void memory_vfs_fail(struct memory_vfs *m, unsigned calls, uint64_t number, int err, bool freeze)
{
    m->fail_calls = calls;
    m->fail_number = number;
    m->fail_errno = err;
    m->freeze = freeze;
    m->calls = 0;
    m->failed = false;
}

uint64_t memory_vfs_calls(const struct memory_vfs *m)
{
    return m->calls;
}

bool memory_vfs_failed(const struct memory_vfs *m)
{
    return m->failed;
}

static int fails(struct memory_vfs *m, enum memory_vfs_call call)
{
    if (m->failed && m->freeze && call != MEMORY_OPEN && call != MEMORY_PREAD)
        return -m->fail_errno;
    if (!(m->fail_calls & call) || ++m->calls != m->fail_number)
        return 0;
    m->failed = true;
    return -m->fail_errno;
}

void memory_vfs_space(struct memory_vfs *m, uint64_t bytes)
{
    m->space = bytes;
}

static bool has_space(struct memory_vfs *m, const struct file *file, uint64_t end)
{
    uint64_t used = 0;

    if (end <= file->seen_len)
        return true;
    for (size_t i = 0; i < m->seen.count; i++)
        used += m->seen.at[i].file->seen_len;
    return used + (end - file->seen_len) <= m->space;
}

/* ---- files ------------------------------------------------------------------------------------
 */

static struct file *new_file(struct memory_vfs *m)
{
    struct file *file = calloc(1, sizeof(*file));

    m->files = realloc(m->files, (m->file_count + 1) * sizeof(*m->files));
    must(file != NULL && m->files != NULL, "out of memory");
    m->files[m->file_count++] = file;
    return file;
}

static void need(struct file *file, size_t end)
{
    size_t capacity = (end + SECTOR - 1) / SECTOR * SECTOR;

    if (capacity <= file->capacity)
        return;
    file->seen = realloc(file->seen, capacity);
    file->device = realloc(file->device, capacity);
    file->dirty = realloc(file->dirty, capacity / SECTOR);
    must(file->seen != NULL && file->device != NULL && file->dirty != NULL, "out of memory");
    memset(file->seen + file->capacity, 0, capacity - file->capacity);
    memset(file->device + file->capacity, 0, capacity - file->capacity);
    memset(file->dirty + file->capacity / SECTOR, 0, (capacity - file->capacity) / SECTOR);
    file->capacity = capacity;
}

static void write_sector(struct file *file, size_t sector)
{
    memcpy(file->device + sector * SECTOR, file->seen + sector * SECTOR, SECTOR);
    file->dirty[sector] = 0;
}

static void sync_file(struct file *file)
{
    for (size_t i = 0; i < file->capacity / SECTOR; i++)
        if (file->dirty[i])
            write_sector(file, i);
    file->device_len = file->seen_len;
}

static void store(struct memory_vfs *m, struct file *file, const void *buf, size_t len,
                  size_t offset)
{
    if (len == 0)
        return;
    need(file, offset + len);
    for (size_t i = offset / SECTOR; i <= (offset + len - 1) / SECTOR; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): need() has made it */
        if (file->dirty[i] && memory_vfs_random(m, 4) == 0)
            write_sector(file, i); /* written back by chance before it changes again */
    memcpy(file->seen + offset, buf, len);
    memset(file->dirty + offset / SECTOR, 1, (offset + len - 1) / SECTOR - offset / SECTOR + 1);
    if (offset + len > file->seen_len)
        file->seen_len = offset + len;
}

static struct file *of(struct memory_vfs *m, int fd)
{
    must(fd >= 0 && fd < FDS_MAX && m->fds[fd] != NULL, "not an open file");
    return m->fds[fd];
}

static int memory_open(void *ctx, const char *path, int flags, int mode)
{
    struct memory_vfs *m = ctx;
    struct name *name = find(&m->seen, path);
    int fd = 0, rc = fails(m, MEMORY_OPEN);

    (void)mode;
    if (rc != 0)
        return rc;
    if (name == NULL && !(flags & O_CREAT))
        return -ENOENT;
    if (name == NULL) {
        change(m, CHANGE_ADD, path, "", new_file(m));
        name = find(&m->seen, path);
    } else if ((flags & O_TRUNC) && name->file->capacity != 0) {
        name->file->seen_len = 0;
        memset(name->file->seen, 0, name->file->capacity);
        memset(name->file->dirty, 1, name->file->capacity / SECTOR);
    }
    while (m->fds[fd] != NULL)
        must(++fd < FDS_MAX, "too many open files");
    m->fds[fd] = name->file;
    return fd;
}

static int memory_close(void *ctx, int fd)
{
    struct memory_vfs *m = ctx;

    (void)of(m, fd);
    m->fds[fd] = NULL;
    return 0;
}

static ssize_t memory_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    struct file *file = of(ctx, fd);
    int rc = fails(ctx, MEMORY_PREAD);

    if (rc != 0)
        return rc;
    if (offset >= file->seen_len)
        return 0;
    if (len > file->seen_len - offset)
        len = file->seen_len - (size_t)offset;
    memcpy(buf, file->seen + offset, len);
    return (ssize_t)len;
}

static int memory_pwrite(void *ctx, int fd, const void *buf, size_t len, uint64_t offset)
{
    struct memory_vfs *m = ctx;
    struct file *file = of(m, fd);
    bool frozen = m->failed && m->freeze;
    int rc = fails(m, MEMORY_PWRITE);

    if (rc == 0 && !has_space(m, file, offset + len))
        rc = -ENOSPC;
    if (rc == 0)
        store(m, file, buf, len, offset);
    else if (!frozen && rc != -ENOSPC)
        store(m, file, buf, (size_t)memory_vfs_random(m, len + 1), offset);
    return rc;
}

static int memory_fallocate(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    struct memory_vfs *m = ctx;
    struct file *file = of(m, fd);
    int rc = fails(m, MEMORY_FALLOCATE);

    if (rc == 0 && !has_space(m, file, offset + len))
        rc = -ENOSPC;
    if (rc != 0)
        return rc;
    need(file, offset + len);
    if (offset + len > file->seen_len)
        file->seen_len = offset + len;
    return 0;
}

static int memory_ftruncate(void *ctx, int fd, uint64_t len)
{
    struct memory_vfs *m = ctx;
    struct file *file = of(m, fd);

    if (m->failed && m->freeze)
        return -m->fail_errno;
    need(file, len);
    if (len < file->seen_len) {
        memset(file->seen + len, 0, file->capacity - len);
        memset(file->dirty + len / SECTOR, 1, (file->capacity - len) / SECTOR);
    }
    file->seen_len = len;
    return 0;
}

static int memory_sync(void *ctx, int fd)
{
    struct memory_vfs *m = ctx;
    struct file *file = of(m, fd);
    bool frozen = m->failed && m->freeze;
    int rc = fails(m, MEMORY_SYNC);

    if (rc == 0)
        sync_file(file);
    else if (!frozen && !m->freeze)
        memset(file->dirty, 0, file->capacity / SECTOR);
    return rc;
}

static int memory_sync_file_range(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    struct file *file = of(ctx, fd);

    for (size_t i = offset / SECTOR; i < (offset + len) / SECTOR && i < file->capacity / SECTOR;
         i++)
        if (file->dirty[i])
            write_sector(file, i);
    return 0;
}

static int memory_size(void *ctx, int fd, uint64_t *bytes)
{
    *bytes = of(ctx, fd)->seen_len;
    return 0;
}

static int memory_mmap(void *ctx, int fd, size_t len, void **address)
{
    (void)ctx, (void)fd, (void)len, (void)address;
    return -ENODEV;
}

static int memory_munmap(void *ctx, void *address, size_t len)
{
    (void)ctx, (void)address, (void)len;
    return -EINVAL;
}

static int memory_rename(void *ctx, const char *from, const char *to)
{
    struct memory_vfs *m = ctx;
    struct name *name = find(&m->seen, from);
    int rc = fails(m, MEMORY_RENAME);

    if (rc != 0)
        return rc;
    if (name == NULL)
        return -ENOENT;
    change(m, CHANGE_RENAME, from, to, name->file);
    return 0;
}

static int memory_unlink(void *ctx, const char *path)
{
    struct memory_vfs *m = ctx;

    if (m->failed && m->freeze)
        return -m->fail_errno;
    if (find(&m->seen, path) == NULL)
        return -ENOENT;
    change(m, CHANGE_REMOVE, path, "", NULL);
    return 0;
}

static int memory_mkdir(void *ctx, const char *path, int mode)
{
    (void)ctx, (void)path, (void)mode;
    return -EEXIST;
}

static int memory_sync_dir(void *ctx, const char *path)
{
    struct memory_vfs *m = ctx;
    int rc = fails(m, MEMORY_SYNC_DIR);

    (void)path;
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < m->change_count; i++)
        apply(&m->device, &m->changes[i]);
    m->change_count = 0;
    return 0;
}

static int memory_list(void *ctx, const char *path, void (*each)(void *arg, const char *name),
                       void *arg)
{
    struct memory_vfs *m = ctx;
    size_t len = strlen(path);

    for (size_t i = 0; i < m->seen.count; i++) {
        const char *at = m->seen.at[i].path;

        if (strncmp(at, path, len) == 0 && at[len] == '/' && strchr(at + len + 1, '/') == NULL)
            each(arg, at + len + 1);
    }
    return 0;
}

static int memory_lock(void *ctx, int fd)
{
    (void)of(ctx, fd);
    return 0;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static const struct ps_vfs table = {
    .open = memory_open,
    .close = memory_close,
    .pread = memory_pread,
    .pwrite = memory_pwrite,
    .fallocate = memory_fallocate,
    .ftruncate = memory_ftruncate,
    .fdatasync = memory_sync,
    .fsync = memory_sync,
    .sync_file_range = memory_sync_file_range,
    .size = memory_size,
    .mmap = memory_mmap,
    .munmap = memory_munmap,
    .rename = memory_rename,
    .unlink = memory_unlink,
    .mkdir = memory_mkdir,
    .sync_dir = memory_sync_dir,
    .list = memory_list,
    .lock = memory_lock,
};

struct memory_vfs *memory_vfs_new(uint64_t seed)
{
    struct memory_vfs *m = calloc(1, sizeof(*m));

    must(m != NULL, "out of memory");
    m->vfs = table;
    m->vfs.ctx = m;
    m->random = seed;
    m->space = UINT64_MAX;
    return m;
}

void memory_vfs_free(struct memory_vfs *m)
{
    for (size_t i = 0; i < m->file_count; i++) {
        free(m->files[i]->seen);
        free(m->files[i]->device);
        free(m->files[i]->dirty);
        free(m->files[i]);
    }
    free(m->files);
    free(m->changes);
    free(m);
}

const struct ps_vfs *memory_vfs(struct memory_vfs *m)
{
    return &m->vfs;
}

static void crash_file(struct memory_vfs *m, struct file *file)
{
    uint64_t kept_of_4 = memory_vfs_random(m, 5); /* from nothing to everything */

    for (size_t i = 0; i < file->capacity / SECTOR; i++)
        if (file->dirty[i] && memory_vfs_random(m, 4) < kept_of_4)
            write_sector(file, i);
    if (memory_vfs_random(m, 2) == 0)
        file->device_len = file->seen_len;
    if (file->capacity != 0) {
        memcpy(file->seen, file->device, file->capacity);
        memset(file->dirty, 0, file->capacity / SECTOR);
    }
    file->seen_len = file->device_len;
    if (file->capacity != 0) {
        memset(file->seen + file->seen_len, 0, file->capacity - file->seen_len);
        memset(file->device + file->seen_len, 0, file->capacity - file->seen_len);
    }
}

void memory_vfs_crash(struct memory_vfs *m)
{
    size_t kept = (size_t)memory_vfs_random(m, m->change_count + 1);

    for (size_t i = 0; i < FDS_MAX; i++)
        must(m->fds[i] == NULL, "a file is open");
    for (size_t i = 0; i < kept; i++)
        apply(&m->device, &m->changes[i]);
    m->change_count = 0;
    m->seen = m->device;
    for (size_t i = 0; i < m->file_count; i++)
        crash_file(m, m->files[i]);
    memory_vfs_fail(m, 0, 0, 0, false);
}

uint8_t *memory_vfs_bytes(struct memory_vfs *m, const char *path, size_t *len)
{
    struct name *name = find(&m->seen, path);

    if (name == NULL)
        return NULL;
    *len = name->file->seen_len;
    return name->file->seen;
}

void memory_vfs_settle(struct memory_vfs *m)
{
    for (size_t i = 0; i < m->file_count; i++) {
        struct file *file = m->files[i];

        if (file->capacity != 0)
            memcpy(file->device, file->seen, file->capacity);
        sync_file(file);
    }
    m->device = m->seen;
    m->change_count = 0;
}

struct memory_vfs *memory_vfs_copy(const struct memory_vfs *m)
{
    struct memory_vfs *copy = memory_vfs_new(m->random);

    for (size_t i = 0; i < m->seen.count; i++) {
        const struct file *file = m->seen.at[i].file;
        struct file *made = new_file(copy);

        store(copy, made, file->seen, file->seen_len, 0);
        put(&copy->seen, m->seen.at[i].path, made);
    }
    memory_vfs_settle(copy);
    return copy;
}

size_t memory_vfs_files(const struct memory_vfs *m)
{
    return m->seen.count;
}
