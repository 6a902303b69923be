/*
 * files.c - see files.h.
 */
#include "tests/powerloss/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/store_dir.h"

#define PATH_ROOM (STORE_DIR_PATH + FILES_NAME + 2)

static void must(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "files: %s: %s\n", what, strerror(errno));
        exit(3);
    }
}

struct named_file *files_add(struct files *image, const char *name, size_t len)
{
    if (!image->at)
        image->at = calloc(FILES_MOST, sizeof *image->at);
    must(image->at && image->n < FILES_MOST && strlen(name) < FILES_NAME, "too many files");
    struct named_file *file = &image->at[image->n++];
    *file = (struct named_file){.len = len, .room = len};
    strcpy(file->name, name);
    file->bytes = calloc(1, len + 1);
    must(file->bytes != NULL, "memory");
    return file;
}

struct named_file *files_find(const struct files *image, const char *name)
{
    for (size_t i = 0; i < image->n; i++)
        if (strcmp(image->at[i].name, name) == 0)
            return &image->at[i];
    return NULL;
}

void files_free(struct files *image)
{
    for (size_t i = 0; i < image->n; i++)
        free(image->at[i].bytes);
    free(image->at);
    *image = (struct files){0};
}

/* What is there under other names would be taken for the store's. */
static void remove_others(const struct files *image, const char *dir)
{
    char path[PATH_ROOM + 256];
    DIR *entries = opendir(dir);
    must(entries != NULL, dir);
    for (struct dirent *e; (e = readdir(entries)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            files_find(image, e->d_name))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        must(unlink(path) == 0, path);
    }
    closedir(entries);
}

void files_write(const struct files *image, const char *dir)
{
    char path[PATH_ROOM];
    if (!image->exists) {
        store_dir_remove(dir);
        return;
    }
    must(mkdir(dir, 0700) == 0 || errno == EEXIST, dir);
    remove_others(image, dir);
    for (size_t i = 0; i < image->n; i++) {
        const struct named_file *file = &image->at[i];
        snprintf(path, sizeof path, "%s/%s", dir, file->name);
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        must(fd >= 0, path);
        must(pwrite(fd, file->bytes, file->len, 0) == (ssize_t)file->len, path);
        must(ftruncate(fd, (off_t)file->len) == 0, path);
        close(fd);
    }
}
