/*
 * cases_roots.c - metas, the catalogue, the space map.
 */
#include <stdio.h>
#include <string.h>

#include "storage/tree_options.h"
#include "tests/damage/cases.h"

/* ---- metas --------------------------------------------------------------------------------------
 */

static const struct meta_field {
    const char *name;
    unsigned offset, width;
    bool page;
} meta_fields[] = {
    {"version", 12, 4, false},
    {"page size", 16, 4, false},
    {"level of the space map", 20, 4, false},
    {"id", 24, 8, false},
    {"stamp", 40, 8, false},
    {"sequence", 48, 8, false},
    {"log position", 56, 8, false},
    {"log epoch", 64, 8, false},
    {"log sequence", 72, 8, false},
    {"log crc", 80, 4, false},
    {"pages of the catalogue", 84, 4, false},
    {"page of the catalogue", 88, 8, true},
    {"birth of the catalogue", 96, 8, false},
    {"bytes of the catalogue", 104, 8, false},
    {"root of the space map", 112, 8, true},
    {"birth of the space map", 120, 8, false},
    {"pages in the file", 128, 8, false},
    {"time", 136, 8, false},
    {"flags", 144, 4, false},
    {"zeros", 200, 8, false},
};

/* What cases [from, end) do to meta A is done to B as well, or to B alone. */
static void to_both(struct damages *d, size_t from, bool alone)
{
    for (size_t i = from; i < d->list.n; i++) {
        struct damage *c = &d->list.at[i];
        if (alone) {
            c->patch[0].offset += META_STRIDE;
        } else {
            damage_patch(c, 0, c->patch[0].offset + META_STRIDE, c->patch[0].bytes,
                         c->patch[0].len);
        }
    }
}

static void meta_cases(struct damages *d)
{
    for (unsigned which = 0; which < 3; which++) { /* A, B, both */
        static const char *const names[] = {"A", "B", "both metas"};
        for (size_t i = 0; i < sizeof meta_fields / sizeof *meta_fields; i++) {
            const struct meta_field *f = &meta_fields[i];
            size_t from = d->list.n;
            char what[64];
            snprintf(what, sizeof what, "%s: %s", names[which], f->name);
            if (f->page) {
                damage_ref(d, DAMAGE_META, what, f->offset, 0, 0);
            } else {
                damage_number(d, DAMAGE_META, what, 0, f->offset, f->width);
            }
            if (which > 0) {
                to_both(d, from, which == 1);
            }
        }
        size_t from = d->list.n;
        damage_number(d, DAMAGE_META, "magic", 0, 0, 8);
        damage_number(d, DAMAGE_META, "checksum", 0, 8, 4);
        if (which > 0) {
            to_both(d, from, which == 1);
        }
    }
}

/* ---- the catalogue ------------------------------------------------------------------------------
 */

static void catalogue_cases(struct damages *d)
{
    const struct place *p = atlas_find(d->atlas, PAGE_CATALOGUE, -1, 0);
    uint64_t at = atlas_at(d->atlas, p->page);
    const uint8_t *file = d->atlas->image->files[0].bytes;
    damage_number(d, DAMAGE_CATALOGUE, "kind", 0, at + 4, 1);
    damage_number(d, DAMAGE_CATALOGUE, "number", 0, at + 8, 8);
    damage_number(d, DAMAGE_CATALOGUE, "birth", 0, at + 16, 8);
    damage_number(d, DAMAGE_CATALOGUE, "length", 0, at + 24, 8);
    damage_number(d, DAMAGE_CATALOGUE, "number of trees", 0, at + PAGE_HEADER, 4);
    uint32_t trees = (uint32_t)damage_was(d, 0, at + PAGE_HEADER, 4);
    uint64_t first = at + PAGE_HEADER + 4, tree = first;
    for (uint32_t i = 0; i < trees; i++) {
        uint64_t root = tree + 5 + file[tree + 4] + 1;
        damage_number(d, DAMAGE_CATALOGUE, "number of a tree", 0, tree, 4);
        damage_number(d, DAMAGE_CATALOGUE, "length of a name", 0, tree + 4, 1);
        damage_number(d, DAMAGE_CATALOGUE, "level of a root", 0, root - 1, 1);
        damage_ref(d, DAMAGE_CATALOGUE, "root", root, p->page, 0);
        damage_number(d, DAMAGE_CATALOGUE, "birth of a root", 0, root + 8, 8);
        damage_number(d, DAMAGE_CATALOGUE, "count of a root", 0, root + 16, 8);
        if (i > 0) { /* as the first tree: its number, its name, its root */
            struct damage *new = damage_new(d, DAMAGE_CATALOGUE, true, "a tree's number twice");
            damage_patch(new, 0, tree, file + first, 4);
            new = damage_new(d, DAMAGE_CATALOGUE, true, "a tree's name twice");
            damage_patch(new, 0, tree + 5, file + first + 5, file[first + 4]);
            new = damage_new(d, DAMAGE_REFERENCES, true, "a tree's root twice");
            damage_patch(new, 0, root - 1, file + first + 5 + file[first + 4], 1);
            damage_patch(new, 0, root, file + first + 5 + file[first + 4] + 1, 24);
        }
        tree = root + 24;
        if (file[root - 1] & LEVEL_OPTIONS) {
            damage_number(d, DAMAGE_CATALOGUE, "length of a tree's options", 0, tree, 1);
            damage_number(d, DAMAGE_CATALOGUE, "compression of a tree", 0, tree + 1, 1);
            damage_number(d, DAMAGE_CATALOGUE, "threshold of a tree", 0, tree + 2, 4);
            damage_number(d, DAMAGE_CATALOGUE, "a tree's operator", 0, tree + 6, 1);
            tree += 1 + file[tree];
        }
    }
}

/* ---- the space map ------------------------------------------------------------------------------
 */

static void flip_bit(struct damages *d, page_ref page, const char *what)
{
    uint64_t per = (d->atlas->page_size - SPACE_HEADER) * 8;
    const struct place *map = atlas_find(d->atlas, PAGE_SPACE, 0, 0);
    uint64_t at = atlas_at(d->atlas, map->page) + SPACE_HEADER + page % per / 8;
    uint8_t byte = (uint8_t)damage_was(d, 0, at, 1) ^ (uint8_t)(1u << page % 8);
    struct damage *new = damage_new(d, DAMAGE_MAP, true, "the bit of %s (page %llu)", what,
                                    (unsigned long long)page);
    damage_patch(new, 0, at, &byte, 1);
}

static void bitmap_cases(struct damages *d)
{
    static const char *const kinds[] = {
        "", "a leaf", "a branch", "a run", "the space map", "the catalogue", "a long run"};
    const struct atlas *a = d->atlas;
    for (enum page_kind kind = PAGE_LEAF; kind <= PAGE_FILE_RUN; kind++) {
        for (unsigned n = 0; n < 3; n++) {
            const struct place *p = atlas_find(a, kind, -1, n * n * 3);
            if (p != NULL) {
                flip_bit(d, p->page, kinds[kind]);
                if (p->pages > 1) {
                    flip_bit(d, p->page + p->pages - 1, kinds[kind]);
                }
            }
        }
    }
    flip_bit(d, 0, "a meta");
    flip_bit(d, (META_RESERVED >> a->page_shift) - 1, "a reserved page");
    flip_bit(d, a->free_page, "a free page");
    flip_bit(d, a->free_used, "a page that is free again");
    flip_bit(d, (a->pages - 1) % ((a->page_size - SPACE_HEADER) * 8), "the last page");
    if (a->meta.space.level == 0) {
        flip_bit(d, a->pages, "a page outside the file");
    }
}

static void map_cases(struct damages *d)
{
    for (int level = 0; level < 2; level++) {
        const struct place *p = atlas_find(d->atlas, PAGE_SPACE, level, 0);
        if (p == NULL) {
            break;
        }
        uint64_t at = atlas_at(d->atlas, p->page);
        damage_number(d, DAMAGE_MAP, "kind", 0, at + 4, 1);
        damage_number(d, DAMAGE_MAP, "level", 0, at + 5, 1);
        damage_number(d, DAMAGE_MAP, "number", 0, at + 8, 8);
        damage_number(d, DAMAGE_MAP, "birth", 0, at + 16, 8);
        damage_number(d, DAMAGE_MAP, "first page described", 0, at + 24, 8);
        damage_number(d, DAMAGE_MAP, "unused bytes", 0, at + 40, 8);
        if (level > 0) {
            for (unsigned i = 0; i < 3; i++) {
                damage_ref(d, DAMAGE_MAP, "entry of the index", at + SPACE_HEADER + 24 * i, p->page,
                           0);
                damage_number(d, DAMAGE_MAP, "birth in the index", 0,
                              at + SPACE_HEADER + 24 * i + 8, 8);
            }
            const uint8_t *index = d->atlas->image->files[0].bytes + at + SPACE_HEADER;
            struct damage *new = damage_new(d, DAMAGE_MAP, true, "bitmaps swapped");
            damage_patch(new, 0, at + SPACE_HEADER, index + 24, 24);
            damage_patch(new, 0, at + SPACE_HEADER + 24, index, 24);
            new = damage_new(d, DAMAGE_MAP, true, "a bitmap twice");
            damage_patch(new, 0, at + SPACE_HEADER + 24, index, 24);
        }
    }
    bitmap_cases(d);
}

void cases_of_roots(struct damages *d)
{
    meta_cases(d);
    catalogue_cases(d);
    map_cases(d);
}
