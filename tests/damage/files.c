/*
 * files.c - see files.h.
 */
#include "tests/damage/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/store_dir.h"

#define PATH_ROOM 320
#define HELD_STEP 65536u

void give_up(const char *what)
{
    fprintf(stderr, "damage: %s: %s\n", what, strerror(errno));
    exit(3);
}

static void path_of(char path[PATH_ROOM], const char *dir, const char *name)
{
    int n = snprintf(path, PATH_ROOM, "%s/%s", dir, name);
    must(n > 0 && n < PATH_ROOM, "path too long");
}

static void read_file(struct file_bytes *file, const char *dir, const char *name)
{
    char path[PATH_ROOM];
    struct stat st;
    path_of(path, dir, name);
    int fd = open(path, O_RDONLY);
    must(fd >= 0 && fstat(fd, &st) == 0, path);
    snprintf(file->name, sizeof file->name, "%.31s", name);
    file->size = (size_t)st.st_size;
    file->bytes = malloc(file->size + 1);
    must(file->bytes != NULL, "memory");
    must(pread(fd, file->bytes, file->size, 0) == (ssize_t)file->size, path);
    close(fd);
    file->held = file->size;
    while (file->held > 0 && file->bytes[file->held - 1] == 0) {
        file->held--;
    }
    file->held = (file->held + HELD_STEP) & ~(size_t)(HELD_STEP - 1);
    file->held = file->held < file->size ? file->held : file->size;
    file->bytes = realloc(file->bytes, file->held + 1);
    must(file->bytes != NULL, "memory");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct file_bytes *)a)->name, ((const struct file_bytes *)b)->name);
}

void files_read(struct files *image, const char *dir)
{
    memset(image, 0, sizeof *image);
    read_file(&image->files[image->n++], dir, "pando.db");
    DIR *d = opendir(dir);
    must(d != NULL, dir);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, "log-", 4) == 0) {
            must(image->n < FILES_MOST, "too many segments");
            read_file(&image->files[image->n++], dir, e->d_name);
        }
    }
    closedir(d);
    qsort(image->files + 1, image->n - 1, sizeof *image->files, by_name);
}

void files_copy(struct files *to, const struct files *from)
{
    memset(to, 0, sizeof *to);
    files_restore(to, from);
}

void files_restore(struct files *to, const struct files *from)
{
    for (unsigned i = 0; i < from->n; i++) {
        struct file_bytes *file = &to->files[i];
        if (file->bytes == NULL || file->held != from->files[i].held) {
            free(file->bytes);
            file->bytes = malloc(from->files[i].held + 1);
            must(file->bytes != NULL, "memory");
        }
        memcpy(file->name, from->files[i].name, sizeof file->name);
        file->size = from->files[i].size;
        file->held = from->files[i].held;
        memcpy(file->bytes, from->files[i].bytes, file->held);
    }
    for (unsigned i = from->n; i < to->n; i++) {
        free(to->files[i].bytes);
        to->files[i] = (struct file_bytes){0};
    }
    to->n = from->n;
}

static bool is_kept(const struct files *image, const char *name)
{
    for (unsigned i = 0; i < image->n; i++) {
        if (strcmp(image->files[i].name, name) == 0) {
            return true;
        }
    }
    return strcmp(name, "LOCK") == 0 || name[0] == '.';
}

static void remove_others(const struct files *image, const char *dir)
{
    DIR *d = opendir(dir);
    must(d != NULL, dir);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[PATH_ROOM];
        path_of(path, dir, e->d_name);
        if (!is_kept(image, e->d_name)) {
            must(unlink(path) == 0, path);
        }
    }
    closedir(d);
}

void files_write(const struct files *image, const char *dir)
{
    char path[PATH_ROOM];
    remove_others(image, dir);
    path_of(path, dir, "LOCK");
    int lock = open(path, O_RDWR | O_CREAT, 0600);
    must(lock >= 0, path);
    close(lock);
    for (unsigned i = 0; i < image->n; i++) {
        const struct file_bytes *file = &image->files[i];
        size_t held = file->held < file->size ? file->held : file->size;
        path_of(path, dir, file->name);
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        must(fd >= 0 && ftruncate(fd, (off_t)file->size) == 0, path);
        must(pwrite(fd, file->bytes, held, 0) == (ssize_t)held, path);
        close(fd);
    }
}

void files_free(struct files *image)
{
    for (unsigned i = 0; i < image->n; i++) {
        free(image->files[i].bytes);
    }
    memset(image, 0, sizeof *image);
}
