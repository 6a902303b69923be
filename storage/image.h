/*
 * image.h - the data file's mapping replaced by memory, in builds that watch for races.
 *
 * A page of the file changes under a mapping by pwrite, in the kernel, where no sanitizer looks: a
 * reader that is on the page at that moment goes unnoticed. Here the mapping is anonymous memory of
 * the same size; what is in the file is read into it when it is mapped, and every write to the file
 * is followed by a copy into it, by code that is instrumented. The engine above knows nothing of
 * it.
 *
 * It stands between the store and its file operations, so there is no way around it.
 *
 *  M1 Between two operations the memory holds what the file does, but for pages that are free
 *     (poison.h) and what somebody else wrote into the file.
 *
 * Threads: as vfs.h. Where PS_IMAGE_ANONYMOUS is not defined, image_new() is never called.
 */
#ifndef PANDO_STORAGE_IMAGE_H
#define PANDO_STORAGE_IMAGE_H

#include "storage/vfs.h"

#ifdef PS_IMAGE_ANONYMOUS
#define IMAGE_ANONYMOUS 1
#else
#define IMAGE_ANONYMOUS 0
#endif

struct image;

/* File operations over `base`, for one store: one file is mapped at a time. NULL: no memory. */
struct image *image_new(const struct ps_vfs *base);
void image_free(struct image *image);
const struct ps_vfs *image_vfs(const struct image *image);
/* Called before each write to the mapped file, by the thread that writes. */
void image_before_write(struct image *image, void (*before)(void *arg, uint64_t offset, size_t len),
                        void *arg);

#endif
