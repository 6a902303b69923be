/*
 * disk.h - what the device holds for sure at a place of a journal, and what it may hold.
 *
 * A disk moves forward along a journal. At any place images can be made of it: files as a loss of
 * power there may leave them. For each sector of 512 bytes that was written since it was last
 * synced, the content after any of those writes, or before them, may be there, whatever its
 * neighbours hold; or a mixture of the bytes of two of these contents. Sizes and names lag behind
 * likewise, names in their order or (other file systems) each for itself.
 *
 * Invariants:
 *  1. What was synced is there. A sync that failed makes nothing sure, and what it should have
 *     written the system takes for clean: only writing to the same page again makes it sure.
 *  2. An image follows from the place and the number of the choice alone.
 *
 * Threads: one.
 */
#ifndef PANDO_TESTS_POWERLOSS_DISK_H
#define PANDO_TESTS_POWERLOSS_DISK_H

#include "tests/powerloss/journal.h"

struct disk_file;

struct disk_name {
    char name[FILES_NAME];
    uint32_t file;
};

struct disk_names {
    struct disk_name at[FILES_MOST];
    size_t n;
};

struct disk {
    const struct journal *journal;
    size_t at; /* events before are done */
    struct disk_file *files;
    size_t nfiles;
    struct disk_names names;  /* on the device */
    const struct event **ops; /* on names, not synced */
    size_t nops, ops_room;
    bool dir_seen, dir_sure;
    struct line line; /* what must and may be found */
};

/* At the journal's beginning; what may be found there is copied. */
void disk_init(struct disk *disk, const struct journal *journal, const struct line *line);
void disk_free(struct disk *disk);
/* Does the events before `at`; never backwards. */
void disk_forward(struct disk *disk, size_t at);

/* What the loss of power by a choice leaves; *what says which kind it was. */
void disk_image(const struct disk *disk, uint64_t choice, struct files *image, const char **what);

#endif
