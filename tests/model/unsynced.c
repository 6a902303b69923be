/*
 * unsynced.c - which writes a power loss may undo.
 *
 * Invariants:
 *  1. The list is in the order of the writes; an entry leaves it when a sync that began after it
 *     has succeeded. Files are known by inode: log segments change their names.
 *  2. A loss first takes all unsafe writes back, newest first, then does the surviving pieces
 * again, oldest first: so pieces that overlap come out as a disk would have them.
 */
#include "tests/model/unsynced.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE 4096u

struct note {
    struct note *before, *after;
    ino_t file;
    uint64_t number, offset;
    size_t len, had;          /* of `len` bytes, `had` were there before */
    unsigned char *old, *new; /* into one allocation */
};

struct unsynced {
    pthread_mutex_t mutex;
    struct note head; /* of a ring: head.after is the oldest */
    uint64_t number;
};

struct unsynced *unsynced_new(void)
{
    struct unsynced *u = calloc(1, sizeof *u);
    if (!u || pthread_mutex_init(&u->mutex, NULL) != 0)
        abort();
    u->head.before = u->head.after = &u->head;
    return u;
}

static void drop(struct note *note)
{
    note->before->after = note->after;
    note->after->before = note->before;
    free(note->old);
    free(note);
}

void unsynced_free(struct unsynced *u)
{
    while (u->head.after != &u->head)
        drop(u->head.after); /* NOLINT(clang-analyzer-unix.Malloc): it is another one each time */
    pthread_mutex_destroy(&u->mutex);
    free(u);
}

static ino_t file_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        abort();
    return st.st_ino;
}

void unsynced_write(struct unsynced *u, int fd, const void *bytes, size_t len, uint64_t offset)
{
    struct note *note = calloc(1, sizeof *note);
    if (!note || !(note->old = calloc(2, len + 1)))
        abort();
    note->new = note->old + len;
    note->file = file_of(fd);
    note->offset = offset;
    note->len = len;
    ssize_t had = pread(fd, note->old, len, (off_t)offset);
    note->had = had > 0 ? (size_t)had : 0;
    memcpy(note->new, bytes, len);
    pthread_mutex_lock(&u->mutex);
    note->number = ++u->number;
    note->before = u->head.before;
    note->after = &u->head;
    note->before->after = note;
    u->head.before = note;
    pthread_mutex_unlock(&u->mutex);
}

uint64_t unsynced_mark(struct unsynced *u)
{
    pthread_mutex_lock(&u->mutex);
    uint64_t mark = u->number;
    pthread_mutex_unlock(&u->mutex);
    return mark;
}

void unsynced_safe(struct unsynced *u, int fd, uint64_t mark)
{
    ino_t file = file_of(fd);
    pthread_mutex_lock(&u->mutex);
    for (struct note *n = u->head.after, *next; n != &u->head && n->number <= mark; n = next) {
        next = n->after;
        if (n->file == file)
            drop(n);
    }
    pthread_mutex_unlock(&u->mutex);
}

void unsynced_forget(struct unsynced *u, int fd)
{
    unsynced_safe(u, fd, UINT64_MAX);
}

static void write_at(int fd, const unsigned char *bytes, size_t len, uint64_t offset)
{
    if (len && pwrite(fd, bytes, len, (off_t)offset) != (ssize_t)len)
        abort();
}

/* Each piece of the write that a page of the cache would carry is there with `odds` in 8. */
static void redo(int fd, const struct note *note, uint64_t odds, struct rng *rng)
{
    for (size_t at = 0; at < note->len;) {
        size_t part = PIECE - (note->offset + at) % PIECE;
        if (part > note->len - at)
            part = note->len - at;
        if (rng_below(rng, 8) < odds)
            write_at(fd, note->new + at, part, note->offset + at);
        at += part;
    }
}

static void lose_in_file(struct unsynced *u, ino_t file, const char *copy, struct rng *rng)
{
    static const unsigned char zeros[PIECE];
    uint64_t odds = rng_below(rng, 9);
    int fd = open(copy, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        abort();
    for (struct note *n = u->head.before; n != &u->head; n = n->before) {
        if (n->file != file)
            continue;
        write_at(fd, n->old, n->had, n->offset);
        for (size_t at = n->had; at < n->len; at += PIECE) {
            size_t part = n->len - at < PIECE ? n->len - at : PIECE;
            write_at(fd, zeros, part, n->offset + at);
        }
    }
    for (struct note *n = u->head.after; n != &u->head; n = n->after) {
        if (n->file == file)
            redo(fd, n, odds, rng);
    }
    close(fd);
}

void unsynced_lose(struct unsynced *u, const char *dir, const char *copy, struct rng *rng)
{
    char path[512];
    DIR *entries = opendir(dir);
    if (!entries)
        abort();
    pthread_mutex_lock(&u->mutex);
    for (struct dirent *e; (e = readdir(entries)) != NULL;) {
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        snprintf(path, sizeof path, "%s/%s", copy, e->d_name);
        lose_in_file(u, st.st_ino, path, rng);
    }
    pthread_mutex_unlock(&u->mutex);
    closedir(entries);
}
