/*
 * store_dir.c - temporary directories for tests that open stores.
 *
 * Threads: any; the functions share nothing.
 */
#include "tests/support/store_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_ROOM  512
#define COPY_PIECE 65536u

static void must(bool good, const char *what, const char *path)
{
    if (!good) {
        fprintf(stderr, "%s %s: %s\n", what, path, strerror(errno));
        exit(3);
    }
}

static void join(char to[PATH_ROOM], const char *dir, const char *name)
{
    int n = snprintf(to, PATH_ROOM, "%s/%s", dir, name);
    must(n > 0 && n < PATH_ROOM, "path too long:", name);
}

static void make_below(const char *base, char path[STORE_DIR_PATH], const char *name)
{
    int n = snprintf(path, STORE_DIR_PATH, "%s/%s-XXXXXX", base, name);
    must(n > 0 && n < STORE_DIR_PATH, "path too long:", name);
    must(mkdtemp(path) != NULL, "mkdtemp", path);
}

void store_dir_make(char path[STORE_DIR_PATH], const char *name)
{
    const char *base = getenv("TMPDIR");
    make_below(base && *base ? base : "/tmp", path, name);
}

void store_dir_make_in_memory(char path[STORE_DIR_PATH], const char *name)
{
    const char *base = getenv("TMPDIR");
    if ((!base || !*base) && access("/dev/shm", W_OK) == 0)
        make_below("/dev/shm", path, name);
    else
        store_dir_make(path, name);
}

void store_dir_empty(const char *path)
{
    DIR *dir = opendir(path);
    must(dir != NULL, "opendir", path);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char name[PATH_ROOM];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        join(name, path, e->d_name);
        must(unlink(name) == 0, "unlink", name);
    }
    closedir(dir);
}

void store_dir_remove(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) {
        must(errno == ENOENT, "opendir", path);
        return;
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        char name[PATH_ROOM];
        struct stat st;
        join(name, path, e->d_name);
        if (lstat(name, &st) == 0 && S_ISDIR(st.st_mode))
            store_dir_remove(name);
        else
            must(unlink(name) == 0 || errno == ENOENT, "unlink", name);
    }
    closedir(dir);
    must(rmdir(path) == 0 || errno == ENOENT, "rmdir", path);
}

/* Copies [at, end) of one open file to another. */
static void copy_range(int in, int out, off_t at, off_t end, const char *path)
{
    char buffer[COPY_PIECE];
    while (at < end) {
        size_t want = end - at < (off_t)sizeof buffer ? (size_t)(end - at) : sizeof buffer;
        ssize_t n = pread(in, buffer, want, at);
        must(n > 0, "pread", path);
        must(pwrite(out, buffer, (size_t)n, at) == n, "pwrite a copy of", path);
        at += n;
    }
}

static void copy_file(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    must(in >= 0, "open", from);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    must(out >= 0, "create", to);
    struct stat st;
    must(fstat(in, &st) == 0, "stat", from);
    must(ftruncate(out, st.st_size) == 0, "ftruncate", to);
    for (off_t end = 0; end < st.st_size;) {
        off_t at = lseek(in, end, SEEK_DATA);
        if (at < 0)
            break;
        end = lseek(in, at, SEEK_HOLE);
        must(end > at, "SEEK_HOLE", from);
        copy_range(in, out, at, end, from);
    }
    close(in);
    close(out);
}

void store_dir_copy(const char *from, const char *to)
{
    must(mkdir(to, 0700) == 0, "mkdir", to);
    DIR *dir = opendir(from);
    must(dir != NULL, "opendir", from);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        char source[PATH_ROOM], target[PATH_ROOM];
        join(source, from, e->d_name);
        join(target, to, e->d_name);
        copy_file(source, target);
    }
    closedir(dir);
}
