/*
 * space_cut.c - see space.h (S5): the lowest places first, and a shorter file.
 *
 * Threads: any. A crash between the two steps leaves a file that is longer than its metas say.
 */
#include "storage/space_bits.h"

void space_pack(struct space *space, bool on)
{
    pthread_mutex_lock(&space->mu);
    space->packing += on ? 1u : -1u;
    pthread_mutex_unlock(&space->mu);
}

/* The page from which on all are free, no more than `most` of them. */
static uint64_t free_tail(const struct space *space, uint64_t most)
{
    uint64_t per = chunk_pages(space);
    uint64_t end = space->pages;
    while (end > space->reserved && space->pages - end < most &&
           !bit(space->levels[0].at[(end - 1) / per].used, (end - 1) % per)) {
        end--;
    }
    return end;
}

static size_t fan_of(const struct space *space)
{
    return ((UINT64_C(1) << space->page_shift) - SPACE_HEADER) / 24;
}

/* Takes nodes that describe nothing any more off their level; the one above the last changes. */
static void drop_nodes(struct space *space, unsigned level, size_t kept)
{
    bool any = space->levels[level].n > kept;
    while (space->levels[level].n > kept) {
        struct space_node *node = &space->levels[level].at[--space->levels[level].n];
        if (node->ref != 0) {
            struct space_extent e = {node->ref, node->birth, 1};
            vec_put(&space->dropped, e);
        }
        if (level == 0) {
            free(node->used);
            free(node->live);
        }
    }
    if (any && level < space->top && kept > 1) {
        space->levels[level + 1].at[(kept - 1) / fan_of(space)].dirty = true;
    }
}

/* As many nodes on each level as describe the pages that there are. */
static void drop_levels(struct space *space)
{
    size_t kept = (size_t)((space->pages + chunk_pages(space) - 1) / chunk_pages(space));
    unsigned top = space->top;
    for (unsigned level = 0; level <= top; level++) {
        drop_nodes(space, level, kept);
        space->top = kept > 0 ? level : space->top;
        kept = kept > 1 ? (kept + fan_of(space) - 1) / fan_of(space) : 0;
    }
}

uint64_t space_cut(struct space *space, uint64_t keep)
{
    pthread_mutex_lock(&space->mu);
    uint64_t before = space->pages;
    uint64_t per = chunk_pages(space);
    size_t nodes = 0;
    for (unsigned level = 0; level <= space->top; level++) {
        nodes += space->levels[level].n;
    }
    uint64_t end = before;
    if (space->free > keep && vec_reserve(&space->dropped, nodes)) {
        end = free_tail(space, space->free - keep);
    }
    for (uint64_t i = end; i < before; i++) {
        struct space_node *node = &space->levels[0].at[i / per];
        set_bit(node->used, i % per, true);
        node->free--;
        space->free--;
    }
    space->pages = end;
    space->hint = space->hint < end ? space->hint : 0;
    if (end < before) {
        drop_levels(space);
    }
    pthread_mutex_unlock(&space->mu);
    return before - end;
}

int space_shorten(struct space *space)
{
    uint64_t bytes;
    pthread_mutex_lock(&space->mu);
    int err = space->vfs->size(space->vfs->ctx, space->fd, &bytes);
    if (err == 0 && bytes > space->pages << space->page_shift) {
        err = space->vfs->ftruncate(space->vfs->ctx, space->fd, space->pages << space->page_shift);
    }
    pthread_mutex_unlock(&space->mu);
    return err;
}
