/*
 * space.h - which pages of the file are free, in memory and on disk.
 *
 * In memory each page has two bits. `used`: not to be given out (a tree of some pinned state, or of
 * a meta, has it). `live`: part of the state that the next checkpoint describes; this is what the
 * space map on disk holds, so that a crash gives back at once what only snapshots kept.
 *
 * On disk the map is a tree of PAGE_SPACE pages, written anew where it changed: level 0 is a bitmap
 * of (page size - 64) * 8 pages, from byte 64 of the page on; higher levels are arrays of
 * {u64 page, u64 birth, u32 free pages, u32 zero} from byte 64 on. The meta names the root.
 *
 * Invariants:
 *  S1 live implies used; a page is given out only when it is neither.
 *  S2 Everything given out was allocated in the file system before (no ENOSPC on writing it).
 *  S3 The pages of the map are part of the map: all new ones are allocated before any is written.
 *  S4 A page is freed, or enters or leaves the map, once. Only a damaged file that refers to a page
 *     twice, or to a free one, can lead to anything else: that is refused (PS_CORRUPT, and `damage`
 *     is the page), and changes nothing of that page.
 *
 *  S5 The file is cut off in two steps (space_cut, space_shorten): first its end is nobody's in
 *     memory, then, when both metas say so, in the file system.
 *
 * Threads: any; one mutex inside, never taken per operation. A crash leaves the map of the last
 * complete checkpoint.
 */
#ifndef PANDO_STORAGE_SPACE_H
#define PANDO_STORAGE_SPACE_H

#include <pthread.h>
#include <stdatomic.h>

#include "storage/page.h"
#include "storage/pandostore.h"
#include "storage/vec.h"
#include "storage/vfs.h"
#include "storage/watch.h"

#define SPACE_HEADER 64u
#define SPACE_LEVELS 5u

struct space_extent {
    page_ref first;
    uint64_t birth;
    uint32_t pages;
};
typedef VEC(struct space_extent) space_extents;

struct space_node {
    page_ref ref, old_ref; /* where it is; where it was before this checkpoint */
    uint64_t birth, old_birth;
    uint32_t free;         /* pages not used (level 0), or the sum below */
    bool dirty;            /* differs from what is on disk */
    bool moved;            /* has its new page in this checkpoint */
    uint64_t *used, *live; /* level 0 */
};

struct space {
    const struct ps_vfs *vfs;
    int fd;
    uint32_t page_shift;
    pthread_mutex_t mu;
    VEC(struct space_node) levels[SPACE_LEVELS];
    unsigned top;             /* level of the root */
    uint64_t reserved;        /* pages at the file's beginning that are nobody's */
    uint64_t pages;           /* in the file */
    uint64_t most;            /* it may grow to: what is mapped */
    _Atomic uint64_t free;    /* not used; changed under mu, read without */
    uint64_t hint;            /* where to look next */
    _Atomic uint64_t written; /* bytes of maps */
    uint8_t *image;           /* its free pages are poisoned (poison.h); NULL: none are */
    struct watch *watch;      /* told of the map's own pages; NULL: nobody watches */
    unsigned packing;         /* whoever wants the lowest places, however small */
    space_extents dropped; /* pages of the map beyond its end: out of it with the next checkpoint */
    bool no_extents;       /* no run of SPACE_EXTENT pages was found in a whole round */
    _Atomic uint64_t damage; /* S4: the first page that was refused; 0: none */
};

struct space_root {
    page_ref ref;
    uint64_t birth;
    uint32_t level;
};

int space_init(struct space *space, const struct ps_vfs *vfs, int fd, uint32_t page_shift,
               uint64_t reserved, uint64_t pages);
void space_destroy(struct space *space);
/* Reads the map of a checkpoint, when the file had `mapped` pages; everything not in it is free. */
int space_load(struct space *space, const struct space_root *root, uint64_t mapped,
               struct ps_fault *fault);

/* From now on free pages are poisoned in this image of the file, and somebody watches. */
void space_watch(struct space *space, uint8_t *image, struct watch *watch);

/* Between min and want consecutive pages; grows the file when that is better than crumbs. */
int space_alloc(struct space *space, uint32_t min, uint32_t want, page_ref *first, uint32_t *got);
/* 0, or PS_CORRUPT (S4). */
int space_free(struct space *space, page_ref first, uint32_t pages);
int space_mark_live(struct space *space, page_ref first, uint32_t pages, bool live);
static inline uint64_t space_written_bytes(const struct space *space)
{
    return atomic_load_explicit(&space->written, memory_order_relaxed);
}
/* At least `pages` pages free, growing the file if need be. */
int space_reserve(struct space *space, uint64_t pages);
uint64_t space_free_pages(struct space *space);
uint64_t space_pages(struct space *space); /* in the file */

/* From now on (until as many calls with false) the lowest free pages are given out. */
void space_pack(struct space *space, bool on);
/* Takes free pages at the file's end out of it, but for `keep` free ones in all; returns how many.
 * A checkpoint has to write metas with the new length; then space_shorten() makes it so. */
uint64_t space_cut(struct space *space, uint64_t keep);
/* 0 or a negative errno: the file is longer than need be then. */
int space_shorten(struct space *space);

/* Writes what changed of the map for a checkpoint with this stamp. Old map pages go to `freed`. */
int space_write(struct space *space, uint64_t stamp, struct space_root *root, space_extents *freed);
/* Pages that the map has now: no more of them can go to `freed`. */
size_t space_map_pages(struct space *space);
/* After the checkpoint is complete, or was abandoned. */
void space_written(struct space *space);
void space_unwrite(struct space *space);

/* Calls each for every live page range, for the checker. */
bool space_is_live(struct space *space, page_ref page);

#endif
