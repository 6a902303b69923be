/*
 * files.h - the files of one directory, in memory: what a device holds.
 *
 * Threads: one.
 */
#ifndef PANDO_TESTS_POWERLOSS_FILES_H
#define PANDO_TESTS_POWERLOSS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILES_NAME 32 /* room for a file's name */
#define FILES_MOST 1024

struct named_file {
    char name[FILES_NAME];
    unsigned char *bytes;
    size_t len, room;
};

struct files {
    bool exists; /* the directory does */
    size_t n;
    struct named_file *at;
};

/* A file of `len` zeros. */
struct named_file *files_add(struct files *image, const char *name, size_t len);
struct named_file *files_find(const struct files *image, const char *name);
void files_free(struct files *image); /* leaves an empty one */
/* Makes the directory hold just these files; it is made, or removed if it does not exist. */
void files_write(const struct files *image, const char *dir);

#endif
