/*
 * checkpoint.h - what the two halves of checkpointing share: checkpoint.c decides and completes,
 * checkpoint_write.c carries pages from the arena to the file.
 */
#ifndef PANDO_STORAGE_CHECKPOINT_H
#define PANDO_STORAGE_CHECKPOINT_H

#include "storage/store.h"

struct checkpoint {
    struct ps_store *store;
    const struct state *state; /* T, pinned */
    bool paced;                /* nobody waits: leave the device to others between pieces */
    bool moving;               /* no checkpoint: a reader's state is to be in the file (move.c) */
    uint64_t spare;            /* pages of the file that must stay free */
    struct state *file_state;  /* T with all references in the file */
    VEC(struct checkpoint_page) pages;
    space_extents taken; /* of the file, all that was written */
    deaths deaths;       /* of file pages, up to T */
    deaths fresh;        /* births up to T that no map has (fresh.h); death: 0 */
    struct run_ref catalogue;

    uint8_t *images[TREE_MAX_LEVELS]; /* a page being translated on each level */
    uint8_t *buffer;                  /* consecutive pages not written yet */
    page_ref buffer_first;
    uint32_t buffer_pages;
    page_ref next; /* of the current extent */
    uint32_t left;
    uint64_t unsynced_from, unsynced_bytes;
    uint64_t written_pages;
};

/* Writes all pages of T that have no place in the file, and the catalogue. PS_NOSPACE: nothing is
 * lost. Other errors poison. */
int checkpoint_write_pages(struct checkpoint *c);
/* The same without the catalogue: what c->file_state refers to is in the file. */
int checkpoint_write_trees(struct checkpoint *c);
void checkpoint_free(struct checkpoint *c);

/* The catalogue of a state whose references are in the file: pages of its run, and the image of
 * that, in zeroed memory; ref->len is set. */
uint32_t catalogue_pages(struct ps_store *store, const struct state *state);
void catalogue_image(struct ps_store *store, const struct state *state, uint8_t *run,
                     struct run_ref *ref);

#endif
