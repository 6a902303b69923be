/*
 * cases.h - the ways in which a store's files are damaged.
 *
 * A case is a few patches of bytes, or something done to a whole file. Its class says what was hit:
 * a kind of page, a meta, a part of the log; cases of a class are counted together. The cases of a
 * shape are the same each time, in the same order, so that a number names one.
 */
#ifndef PANDO_TESTS_DAMAGE_CASES_H
#define PANDO_TESTS_DAMAGE_CASES_H

#include "tests/damage/atlas.h"
#include "tests/damage/shapes.h"

enum damage_class {
    DAMAGE_META,
    DAMAGE_LEAF,
    DAMAGE_BRANCH,
    DAMAGE_RUN,
    DAMAGE_LONG_RUN,
    DAMAGE_CATALOGUE,
    DAMAGE_MAP,
    DAMAGE_REFERENCES, /* cycles, levels, pages and runs that belong to others */
    DAMAGE_STALE,      /* right pages of another time or place */
    DAMAGE_LOG_HEADER,
    DAMAGE_LOG_RECORD,
    DAMAGE_LOG_PAYLOAD,
    DAMAGE_FILES,  /* missing, short, empty, misnamed */
    DAMAGE_RANDOM, /* bytes anywhere */
    DAMAGE_CLASSES,
};
extern const char *const damage_class_names[DAMAGE_CLASSES];

enum file_damage { FILE_AS_IT_IS, FILE_MISSING, FILE_CUT, FILE_LONGER, FILE_RENAMED, FILE_ZERO };

#define PATCHES     6u
#define PATCH_BYTES 24u

struct patch {
    unsigned file;
    uint64_t offset;
    unsigned len;
    uint8_t bytes[PATCH_BYTES];
};

struct damage {
    enum damage_class class;
    bool fixed;      /* checksums are made right afterwards */
    bool same_value; /* nothing that could be noticed: the result must be as before */
    char what[120];
    unsigned patches;
    struct patch patch[PATCHES];
    enum file_damage file_damage; /* of file `file` */
    unsigned file;
    uint64_t size;         /* FILE_CUT, FILE_LONGER */
    char name[32];         /* FILE_RENAMED */
    const uint8_t *source; /* a whole page instead of patches, to `target` */
    uint64_t target;
    uint32_t source_len;
};

struct damages {
    const struct atlas *atlas;
    const struct shape *shape;
    VEC(struct damage) list;
};

void damages_make(struct damages *d, const struct shape *shape, const struct atlas *atlas);
void damages_free(struct damages *d);
/* A case of random bytes, as a function of the seed and the number. */
void damage_random(const struct damages *d, uint64_t seed, uint64_t number, struct damage *damage);
/* Does it to a copy of the shape's image. */
void damage_do(const struct damages *d, const struct damage *damage, struct files *image);

/* ---- for the files that make cases ------------------------------------------------------------
 */

/* A new case, to be given patches. It is good until the next. */
struct damage *damage_new(struct damages *d, enum damage_class class, bool fixed,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));
void damage_patch(struct damage *damage, unsigned file, uint64_t offset, const void *bytes,
                  unsigned len);
/* Cases that give a little-endian number other values: zero, the largest, one more, one less, a bit
 * less or more, half, double; each with and one of them without right checksums. */
void damage_number(struct damages *d, enum damage_class class, const char *what, unsigned file,
                   uint64_t offset, unsigned width);
/* The same for a reference to a page: also itself, its parent, free pages, metas, others. */
void damage_ref(struct damages *d, enum damage_class class, const char *what, uint64_t offset,
                page_ref self, page_ref parent);
/* What the image has at a place of a file. */
uint64_t damage_was(const struct damages *d, unsigned file, uint64_t offset, unsigned width);

void cases_of_pages(struct damages *d); /* cases_pages.c: leaves, branches, runs */
void cases_of_roots(struct damages *d); /* cases_roots.c: metas, catalogue, space map */
void cases_of_links(struct damages *d); /* cases_links.c: references, stale pages */
void cases_of_log(struct damages *d);   /* cases_log.c: the log, whole files */

#endif
