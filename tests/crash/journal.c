/*
 * See journal.h. The served file's present content is in a file of its own (`live`); a third one
 * (`stable`) follows the rebuilt moments, with everything up to the last flush.
 */
#include "tests/crash/journal.h"

#define FUSE_USE_VERSION 31
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/crash/client.h"

#define SECTOR 512u
#define PIECE  ((size_t)1 << 20)

struct entry {
    int64_t when;
    uint64_t offset;
    size_t length; /* 0: a flush */
    uint8_t *data;
};

struct journal {
    char folder[512], file[600];
    int live, stable;
    uint64_t size, bytes;
    struct entry *entries;
    size_t length, capacity, flushes;
    size_t settled; /* entries that `stable` has */
    struct fuse *fuse;
    pthread_t thread;
};

static struct journal *served(void)
{
    return fuse_get_context()->private_data;
}

/* Adds an entry: 0, or a negative errno. Serving has one thread. */
static int record(struct journal *journal, const char *data, size_t length, uint64_t offset)
{
    if (journal->bytes + length > JOURNAL_MOST)
        return -ENOSPC;
    if (journal->length == journal->capacity) {
        size_t capacity = journal->capacity ? journal->capacity * 2 : 1024;
        struct entry *entries = realloc(journal->entries, capacity * sizeof *entries);
        if (!entries)
            return -ENOMEM;
        journal->entries = entries;
        journal->capacity = capacity;
    }
    struct entry entry = {.when = now_ns(), .offset = offset, .length = length};
    if (length != 0) {
        entry.data = malloc(length);
        if (!entry.data)
            return -ENOMEM;
        memcpy(entry.data, data, length);
    }
    journal->bytes += length;
    journal->flushes += length == 0;
    journal->entries[journal->length++] = entry;
    return 0;
}

static int serve_getattr(const char *path, struct stat *status, struct fuse_file_info *info)
{
    (void)info;
    *status = (struct stat){.st_mode = S_IFDIR | 0755, .st_nlink = 2};
    if (!strcmp(path, "/"))
        return 0;
    if (strcmp(path, "/disk") != 0)
        return -ENOENT;
    status->st_mode = S_IFREG | 0600;
    status->st_nlink = 1;
    status->st_size = (off_t)served()->size;
    return 0;
}

static int serve_open(const char *path, struct fuse_file_info *info)
{
    (void)info;
    return strcmp(path, "/disk") == 0 ? 0 : -ENOENT;
}

static int serve_read(const char *path, char *data, size_t size, off_t offset,
                      struct fuse_file_info *info)
{
    (void)path;
    (void)info;
    ssize_t got = pread(served()->live, data, size, offset);
    return got < 0 ? -errno : (int)got;
}

static int serve_write(const char *path, const char *data, size_t size, off_t offset,
                       struct fuse_file_info *info)
{
    (void)path;
    (void)info;
    int error = record(served(), data, size, (uint64_t)offset);
    if (error)
        return error;
    ssize_t put = pwrite(served()->live, data, size, offset);
    return put < 0 ? -errno : (int)put;
}

static int serve_fsync(const char *path, int data_only, struct fuse_file_info *info)
{
    (void)path;
    (void)data_only;
    (void)info;
    return record(served(), NULL, 0, 0);
}

static void *serve_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
    (void)connection;
    config->kernel_cache = 1;
    return served();
}

static const struct fuse_operations operations = {
    .getattr = serve_getattr,
    .open = serve_open,
    .read = serve_read,
    .write = serve_write,
    .fsync = serve_fsync,
    .init = serve_init,
};

static void *serve(void *argument)
{
    struct journal *journal = argument;
    fuse_loop(journal->fuse);
    return NULL;
}

static int write_whole(int fd, const uint8_t *data, size_t length, uint64_t offset)
{
    while (length > 0) {
        ssize_t put = pwrite(fd, data, length, (off_t)offset);
        if (put < 0) {
            printf("an image cannot be written: %s\n", strerror(errno));
            return -1;
        }
        data += put;
        offset += (uint64_t)put;
        length -= (size_t)put;
    }
    return 0;
}

/* Copies what a sparse file has; `to` is empty and gets the same size. */
static int copy_sparse(int from, int to, uint64_t size)
{
    uint8_t *data = malloc(PIECE);
    int result = data && ftruncate(to, (off_t)size) == 0 ? 0 : -1;
    off_t at = 0;
    while (result == 0 && (at = lseek(from, at, SEEK_DATA)) >= 0) {
        off_t end = lseek(from, at, SEEK_HOLE);
        while (result == 0 && at < end) {
            size_t want = (uint64_t)(end - at) < PIECE ? (size_t)(end - at) : PIECE;
            ssize_t got = pread(from, data, want, at);
            result = got <= 0 ? -1 : write_whole(to, data, (size_t)got, (uint64_t)at);
            at += got;
        }
    }
    free(data);
    return result;
}

/* A file without a name in the journal's folder's place, with the image's bytes. */
static int copy_of(int from, const char *folder, const char *suffix, uint64_t size)
{
    char path[600];
    snprintf(path, sizeof path, "%s.%s", folder, suffix);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    unlink(path);
    if (copy_sparse(from, fd, size) == 0)
        return fd;
    close(fd);
    return -1;
}

static int start_serving(struct journal *journal)
{
    char *arguments[] = {"disk", "-o", "fsname=pando-test-disk", NULL};
    struct fuse_args list = FUSE_ARGS_INIT(3, arguments);
    journal->fuse = fuse_new(&list, &operations, sizeof operations, journal);
    fuse_opt_free_args(&list);
    if (!journal->fuse || fuse_mount(journal->fuse, journal->folder) != 0)
        return -1;
    return pthread_create(&journal->thread, NULL, serve, journal) == 0 ? 0 : -1;
}

struct journal *journal_serve(const char *image, const char *path)
{
    struct journal *journal = calloc(1, sizeof *journal);
    struct stat status;
    int fd = open(image, O_RDONLY | O_CLOEXEC);
    assert(journal);
    snprintf(journal->folder, sizeof journal->folder, "%s", path);
    snprintf(journal->file, sizeof journal->file, "%s/disk", path);
    journal->live = journal->stable = -1;
    if (fd >= 0 && fstat(fd, &status) == 0 && mkdir(path, 0700) == 0) {
        journal->size = (uint64_t)status.st_size;
        journal->live = copy_of(fd, path, "live", journal->size);
        journal->stable = copy_of(fd, path, "stable", journal->size);
    }
    if (fd >= 0)
        close(fd);
    if (journal->live >= 0 && journal->stable >= 0 && start_serving(journal) == 0)
        return journal;
    printf("%s cannot be served: %s\n", image, strerror(errno));
    if (journal->fuse)
        fuse_destroy(journal->fuse);
    journal->fuse = NULL;
    journal_free(journal);
    return NULL;
}

const char *journal_file(const struct journal *journal)
{
    return journal->file;
}

void journal_stop(struct journal *journal)
{
    fuse_exit(journal->fuse);
    fuse_unmount(journal->fuse); /* what the loop waits for ends with it */
    pthread_join(journal->thread, NULL);
    fuse_destroy(journal->fuse);
    journal->fuse = NULL;
    rmdir(journal->folder);
}

void journal_free(struct journal *journal)
{
    if (journal->fuse)
        journal_stop(journal);
    for (size_t i = 0; i < journal->length; i++)
        free(journal->entries[i].data);
    free(journal->entries);
    if (journal->live >= 0)
        close(journal->live);
    if (journal->stable >= 0)
        close(journal->stable);
    rmdir(journal->folder);
    free(journal);
}

size_t journal_length(const struct journal *journal)
{
    return journal->length;
}

size_t journal_flushes(const struct journal *journal)
{
    return journal->flushes;
}

int64_t journal_when(const struct journal *journal, size_t moment)
{
    return moment < journal->length ? journal->entries[moment].when : INT64_MAX;
}

size_t journal_after_flush(const struct journal *journal, size_t number)
{
    for (size_t i = 0; i < journal->length; i++)
        if (journal->entries[i].length == 0 && number-- == 0)
            return i + 1;
    return journal->length;
}

/* Writes those of the entry's sectors that the dice choose: all, none, a beginning, or any. */
static int write_some(int fd, const struct entry *entry, uint64_t *dice)
{
    uint64_t kind = random_next(dice) % 4;
    size_t sectors = (entry->length + SECTOR - 1) / SECTOR;
    size_t beginning = random_next(dice) % (sectors + 1);
    int result = 0;
    for (size_t i = 0; i < sectors && result == 0; i++) {
        bool chosen =
            kind == 0 || (kind == 1 && i < beginning) || (kind == 2 && random_next(dice) % 2 == 0);
        size_t at = i * SECTOR, left = entry->length - at;
        if (chosen)
            result = write_whole(fd, entry->data + at, left < SECTOR ? left : SECTOR,
                                 entry->offset + at);
    }
    return result;
}

int journal_rebuild(struct journal *journal, size_t moment, uint64_t dice, const char *path)
{
    size_t flushed = moment;
    while (flushed > 0 && journal->entries[flushed - 1].length != 0)
        flushed--;
    assert(flushed >= journal->settled);
    for (; journal->settled < flushed; journal->settled++) {
        const struct entry *entry = &journal->entries[journal->settled];
        if (write_whole(journal->stable, entry->data, entry->length, entry->offset) != 0)
            return -1;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int result = fd < 0 ? -1 : copy_sparse(journal->stable, fd, journal->size);
    for (size_t i = flushed; i < moment && dice && result == 0; i++)
        result = write_some(fd, &journal->entries[i], &dice);
    if (fd >= 0)
        close(fd);
    return result;
}
