/*
 * files.h - the files of a closed store, in memory: to be damaged and written to a directory again.
 */
#ifndef PANDO_TESTS_DAMAGE_FILES_H
#define PANDO_TESTS_DAMAGE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILES_MOST 96u

struct file_bytes {
    char name[32];
    uint8_t *bytes;
    size_t held; /* bytes that are here; from there to `size` the file has zeros */
    size_t size;
};

/* File 0 is pando.db; the log's segments follow in the order of their numbers. */
struct files {
    struct file_bytes files[FILES_MOST];
    unsigned n;
};

void files_read(struct files *image, const char *dir);
void files_copy(struct files *to, const struct files *from);
/* Makes an existing copy equal again, and keeps its memory where sizes allow. */
void files_restore(struct files *to, const struct files *from);
/* The directory holds these files and no others afterwards. */
void files_write(const struct files *image, const char *dir);
void files_free(struct files *image);

/* Ends the program with a message if something fails that the test itself needs. */
_Noreturn void give_up(const char *what);

static inline void must(bool good, const char *what)
{
    if (!good) {
        give_up(what);
    }
}

#endif
