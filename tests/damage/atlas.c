/*
 * atlas.c - see atlas.h.
 */
#include "tests/damage/atlas.h"

#include <stdlib.h>
#include <string.h>

#include "storage/node.h"
#include "storage/tree_options.h"

uint64_t atlas_at(const struct atlas *atlas, page_ref page)
{
    return page << atlas->page_shift;
}

uint8_t *atlas_bytes(const struct atlas *atlas, const struct files *image, page_ref page)
{
    uint64_t at = atlas_at(atlas, page);
    must(at + atlas->page_size <= image->files[0].held, "a page that the image does not hold");
    return image->files[0].bytes + at;
}

static const struct page *page_of(const struct atlas *atlas, page_ref page)
{
    return (const struct page *)(const void *)atlas_bytes(atlas, atlas->image, page);
}

static void add(struct atlas *atlas, struct place place)
{
    must(vec_push(&atlas->places, place), "memory");
}

/* ---- trees -------------------------------------------------------------------------------------
 */

static void add_run(struct atlas *atlas, const struct run_ref *run, uint64_t cell, page_ref parent)
{
    if (run->ref != 0) {
        add(atlas, (struct place){.kind = run_is_long(run->len) ? PAGE_FILE_RUN : PAGE_OVERFLOW,
                                  .page = run->ref,
                                  .pages = run_pages(run->len, atlas->page_shift),
                                  .cell = cell,
                                  .parent = parent,
                                  .len = run->len});
    }
}

static uint64_t offset_of_run(const struct atlas *atlas, const struct page *p, unsigned i,
                              const struct run_ref *run)
{
    const uint8_t *cell = node_cell(p, i);
    const uint8_t *found = memmem(cell, node_cell_size(p, i), run, sizeof *run);
    must(run->ref == 0 || found != NULL, "a run's reference is not in its cell");
    return found == NULL ? 0 : (uint64_t)(found - atlas->image->files[0].bytes);
}

static void walk(struct atlas *atlas, const struct child *child, unsigned level, uint64_t cell,
                 page_ref parent)
{
    const struct page *p = page_of(atlas, child->ref);
    must(p->number == child->ref && p->level == level, "the atlas cannot read the image");
    add(atlas, (struct place){.kind = level == 0 ? PAGE_LEAF : PAGE_BRANCH,
                              .page = child->ref,
                              .pages = 1,
                              .level = level,
                              .cell = cell,
                              .parent = parent});
    for (unsigned i = 0; i < p->count; i++) {
        struct run_ref key, value;
        node_runs(p, i, &key, &value);
        add_run(atlas, &key, offset_of_run(atlas, p, i, &key), child->ref);
        add_run(atlas, &value, offset_of_run(atlas, p, i, &value), child->ref);
        if (level > 0) {
            struct child below;
            node_child(p, i, &below);
            walk(atlas, &below, level - 1, atlas_at(atlas, child->ref) + node_offsets(p)[i],
                 child->ref);
        }
    }
}

static void walk_catalogue(struct atlas *atlas)
{
    const struct run_ref *run = &atlas->meta.catalogue;
    add(atlas, (struct place){.kind = PAGE_CATALOGUE,
                              .page = run->ref,
                              .pages = plain_pages(run->len, atlas->page_shift),
                              .len = run->len});
    const uint8_t *at = (const uint8_t *)page_of(atlas, run->ref) + PAGE_HEADER;
    uint32_t trees;
    memcpy(&trees, at, 4);
    at += 4;
    for (uint32_t i = 0; i < trees; i++) {
        at += 5 + at[4];
        bool has_options = (*at & LEVEL_OPTIONS) != 0;
        unsigned level = *at++ & ~LEVEL_OPTIONS;
        struct child root;
        memcpy(&root, at, sizeof root);
        if (root.ref != 0) {
            walk(atlas, &root, level, (uint64_t)(at - atlas->image->files[0].bytes), run->ref);
        }
        at += sizeof root;
        at += has_options ? 1 + *at : 0;
    }
}

/* ---- the space map ------------------------------------------------------------------------------
 */

static void look_for_free(struct atlas *atlas, const uint8_t *bitmap, uint64_t first)
{
    uint64_t per = (atlas->page_size - SPACE_HEADER) * 8;
    uint64_t reserved = META_RESERVED >> atlas->page_shift;
    for (uint64_t i = 0; i < per; i++) {
        page_ref page = first * per + i;
        if (page < reserved || page >= atlas->pages || (bitmap[i / 8] >> (i % 8) & 1) != 0) {
            continue;
        }
        atlas->free_page = atlas->free_page == 0 ? page : atlas->free_page;
        if (atlas_at(atlas, page + 1) <= atlas->image->files[0].held && atlas->free_used == 0) {
            const struct page *p = page_of(atlas, page);
            if (p->number == page && p->crc == page_crc(p, atlas->page_size)) {
                atlas->free_used = page;
            }
        }
    }
}

static void walk_map(struct atlas *atlas, page_ref ref, unsigned level, uint64_t index,
                     uint64_t cell, page_ref parent)
{
    const uint8_t *bytes = (const uint8_t *)page_of(atlas, ref) + SPACE_HEADER;
    uint64_t fan = (atlas->page_size - SPACE_HEADER) / 24;
    add(atlas, (struct place){.kind = PAGE_SPACE,
                              .page = ref,
                              .pages = 1,
                              .level = level,
                              .cell = cell,
                              .parent = parent});
    if (level == 0) {
        look_for_free(atlas, bytes, index);
        return;
    }
    for (uint64_t i = 0; i < fan; i++) {
        page_ref below;
        memcpy(&below, bytes + 24 * i, 8);
        if (below != 0) {
            walk_map(atlas, below, level - 1, index * fan + i,
                     atlas_at(atlas, ref) + SPACE_HEADER + 24 * i, ref);
        }
    }
}

/* ---- the log ------------------------------------------------------------------------------------
 */

static void walk_segment(struct atlas *atlas, unsigned file)
{
    const struct file_bytes *f = &atlas->image->files[file];
    struct log_header header;
    if (f->held < LOG_HEADER_BYTES || log_header_decode(f->bytes, &header) != LOG_HEADER_VALID) {
        return;
    }
    uint32_t crc = header.crc;
    for (uint64_t at = LOG_HEADER_BYTES; at + LOG_RECORD_BYTES <= f->held;) {
        struct record_place r = {.file = file, .offset = at};
        if (!log_record_decode(f->bytes, f->held, at, &r.record) || r.record.prev_crc != crc ||
            r.record.crc != log_record_crc(f->bytes + at, crc, header.epoch, r.record.len)) {
            break;
        }
        crc = r.record.crc;
        must(vec_push(&atlas->records, r), "memory");
        at += log_record_size(r.record.len);
    }
}

void atlas_make(struct atlas *atlas, const struct files *image)
{
    memset(atlas, 0, sizeof *atlas);
    atlas->image = image;
    must(meta_decode(image->files[0].bytes, &atlas->meta) == 0, "no meta in the image");
    atlas->page_size = atlas->meta.page_size;
    atlas->page_shift = (uint32_t)__builtin_ctz(atlas->page_size);
    atlas->pages = image->files[0].size >> atlas->page_shift;
    walk_map(atlas, atlas->meta.space.ref, atlas->meta.space.level, 0, 112, 0);
    walk_catalogue(atlas);
    for (unsigned i = 1; i < image->n; i++) {
        walk_segment(atlas, i);
    }
}

void atlas_free(struct atlas *atlas)
{
    vec_free(&atlas->places);
    vec_free(&atlas->records);
}

const struct place *atlas_find(const struct atlas *atlas, enum page_kind kind, int level,
                               unsigned n)
{
    for (size_t i = 0; i < atlas->places.n; i++) {
        const struct place *p = &atlas->places.at[i];
        if (p->kind == kind && (level < 0 || p->level == (unsigned)level) && n-- == 0) {
            return p;
        }
    }
    return NULL;
}
