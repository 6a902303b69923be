/*
 * atlas.h - where everything is in the image of a store that is not damaged.
 *
 * Found by a reader of its own, which follows the format in storage/README.md and uses nothing of
 * the engine but the descriptions of its structures. From it cases are made (cases.h), and by it
 * checksums are made right after damage (fixup.h).
 */
#ifndef PANDO_TESTS_DAMAGE_ATLAS_H
#define PANDO_TESTS_DAMAGE_ATLAS_H

#include "storage/log_format.h"
#include "storage/meta.h"
#include "tests/damage/files.h"

/* A page, or a run of them, and where it is referred to. */
struct place {
    enum page_kind kind;
    page_ref page;
    uint32_t pages;
    unsigned level;
    uint64_t cell; /* offset in pando.db of the reference: {ref, birth, count or length} */
    page_ref parent;
    uint64_t len; /* of runs: bytes of data */
};

struct record_place {
    unsigned file;
    uint64_t offset; /* in the segment */
    struct log_record record;
};

/* Segments of one epoch in a row, as the chain of checksums goes. */
struct atlas {
    const struct files *image;
    struct meta meta;
    uint32_t page_shift, page_size;
    uint64_t pages; /* in the file */
    VEC(struct place) places;
    VEC(struct record_place) records; /* of segments that have a header, in order */
    page_ref free_page;               /* some page that the map has free */
    page_ref free_used;               /* a free page that holds an old node with its checksum */
};

void atlas_make(struct atlas *atlas, const struct files *image);
void atlas_free(struct atlas *atlas);

/* The n-th place of a kind and level (-1: any), or NULL. */
const struct place *atlas_find(const struct atlas *atlas, enum page_kind kind, int level,
                               unsigned n);
/* Byte offset of a page in pando.db. */
uint64_t atlas_at(const struct atlas *atlas, page_ref page);
/* The page in another image of the same store (the damaged copy). */
uint8_t *atlas_bytes(const struct atlas *atlas, const struct files *image, page_ref page);

#endif
