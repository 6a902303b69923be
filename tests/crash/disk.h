/*
 * A disk of the test's own: an ext4 in an image file, mounted through a loop device, that can lose
 * its power.
 *
 * Invariants:
 *  1. Mounts are made in a namespace of this process: they vanish with it, however it ends.
 *  2. After disk_cut nothing that was not on the device reaches it; the next disk_mount finds what
 *     a machine without power would have left.
 *
 * Needs root, mkfs.ext4, mount and umount.
 */
#ifndef TESTS_CRASH_DISK_H
#define TESTS_CRASH_DISK_H

#include <stdint.h>

#define DISK_BYTES ((uint64_t)2 << 30)

struct disk {
    char image[512];
    char mount[512];
    int mounted;
};

/* Gives this process mounts of its own: 0, or -1 when it may not. Once, before any thread. */
int disk_prepare(void);
/* An empty file system in the image `path`.img, to be mounted at `path`: 0, or -1. */
int disk_make(struct disk *disk, const char *path);
/* Mounts the image; what an earlier mount left in the journal is replayed: 0, or -1. */
int disk_mount(struct disk *disk);
int disk_unmount(struct disk *disk);
/* The power goes: whatever the device does not have is lost. To be unmounted then. */
int disk_cut(struct disk *disk);
/* Unmounts it and removes image and folder. */
void disk_remove(struct disk *disk);

#endif
