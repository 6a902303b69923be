/*
 * disk_internal.h - what disk.c and choice.c share.
 */
#ifndef PANDO_TESTS_POWERLOSS_DISK_INTERNAL_H
#define PANDO_TESTS_POWERLOSS_DISK_INTERNAL_H

#include "tests/powerloss/disk.h"

#define DISK_SECTOR 512u
#define DISK_PAGE   4096u /* of the system's cache */
#define DISK_SIZES  8u    /* changes of a file's size remembered between two syncs */

/* What is lost together, on purpose: the kinds of bytes between which the engine has an order. */
enum disk_class { CLASS_DATA, CLASS_META, CLASS_LOG, CLASS_LOG_HEADER, DISK_CLASSES };

/* A write, or a part of one, that is not sure to be on the device. */
struct piece {
    uint64_t offset;
    size_t len;
    const unsigned char *bytes; /* the journal's */
    bool lost;                  /* a sync of it failed: the system takes it for clean */
};

struct disk_file {
    enum disk_class class;        /* CLASS_DATA or CLASS_LOG */
    unsigned char *device, *seen; /* of `room` bytes, zeros beyond the lengths */
    size_t room;
    uint64_t device_len, seen_len;
    struct piece *pieces; /* in the order of the writes */
    size_t n, pieces_room;
    uint64_t sizes[DISK_SIZES]; /* that the file has had since the last sync */
    size_t nsizes;
};

/* Does an operation on names, as far as it can be done. */
void disk_names_do(struct disk_names *names, const struct event *op);

#endif
