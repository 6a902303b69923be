/*
 * build.h - trees made bottom-up from entries in the order of their keys: pages are full, and each
 * is written once.
 *
 * Where pages go is the caller's: it hands out places and memory for their images. Used by copies
 * of a store (copy.c) and bulk loads (bulk.c).
 *
 *  B1 Keys ascend strictly; each is compared with the one before.
 *  B2 What is made is what puts in the same order could have made: the same cells, separators and
 *     runs (node.h), so nobody else has to know how a tree came to be.
 *  B3 A page is complete, with number, birth and checksum, before the next place is asked for; one
 *     page per level is held in memory, and the last key.
 *
 * Threads: one. What a crash leaves of the pages is up to the caller.
 */
#ifndef PANDO_STORAGE_BUILD_H
#define PANDO_STORAGE_BUILD_H

#include "storage/node.h"
#include "storage/store.h"

/* Where pages go. Each function answers 0 or an error that ends the build. */
struct build_out {
    void *arg;
    uint32_t page_size;
    /* Consecutive pages, and memory for what they shall hold, until the next call. */
    int (*place)(void *arg, uint32_t pages, page_ref *first, uint8_t **at);
    /* A run over RUN_ARENA_MAX bytes: takes pages for it and writes it. */
    int (*long_run)(void *arg, struct ps_slice bytes, struct run_ref *run);
    /* The birth of what place() gave last. */
    uint64_t (*birth)(void *arg);
};

struct build;

/* NULL: no memory. The functions of `out` are called until build_free(). */
struct build *build_new(const struct build_out *out);
void build_free(struct build *build);
/* The next entry; encoded: so is the value (encode.h). PS_INVALID: its key is not greater than the
 * one before; nothing changed. */
int build_put(struct build *build, struct ps_slice key, struct ps_slice value, bool encoded);
/* Completes the tree; *root gets root and level (its name is left alone), empty if there were no
 * entries. The build can be used for another tree then. */
int build_finish(struct build *build, struct tree_root *root);

/* The image of a run of up to RUN_ARENA_MAX bytes, from its header to the end of its last page. */
void build_run_image(uint8_t *at, uint32_t page_shift, const struct run_ref *run,
                     const void *bytes);
/* Writes a long run with pwrite, a few pieces at a time: 0 or -errno. */
int build_write_long_run(const struct ps_vfs *vfs, int fd, uint32_t page_shift,
                         const struct run_ref *run, const void *bytes);

#endif
