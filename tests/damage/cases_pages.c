/*
 * cases_pages.c - every field of leaves, branches and runs.
 *
 * Some pages of each kind and level are taken: the first, one in the middle, the last; of each some
 * entries. Where a fact is written down twice (an entry's count in its parent, a length in cell and
 * run), there are also cases in which both say the same wrong thing.
 */
#include <stdio.h>
#include <string.h>

#include "storage/node.h"
#include "tests/damage/cases.h"

struct field {
    const char *name;
    unsigned offset, width;
};

static const struct field header_fields[] = {
    {"kind", 4, 1},   {"level", 5, 1},  {"prefix length", 6, 2}, {"number", 8, 8}, {"birth", 16, 8},
    {"count", 24, 2}, {"flags", 26, 2}, {"heap", 28, 4},         {"dead", 32, 4},  {"zero", 36, 4},
};
static const struct field run_fields[] = {
    {"kind", 4, 1}, {"level", 5, 1}, {"number", 8, 8}, {"birth", 16, 8}, {"length", 24, 8}};

static const struct page *page_of(const struct damages *d, page_ref page)
{
    return (const struct page *)(const void *)atlas_bytes(d->atlas, d->atlas->image, page);
}

static void fields_of(struct damages *d, enum damage_class class, const char *kind, uint64_t at,
                      const struct field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char what[64];
        snprintf(what, sizeof what, "%s's %s", kind, fields[i].name);
        damage_number(d, class, what, 0, at + fields[i].offset, fields[i].width);
    }
}

/* ---- cells --------------------------------------------------------------------------------------
 */

static void run_in_cell(struct damages *d, enum damage_class class, const char *what,
                        const struct run_ref *run, uint64_t cell_at, const struct place *p)
{
    const uint8_t *bytes = d->atlas->image->files[0].bytes + cell_at;
    const uint8_t *found = memmem(bytes, 128 + PAGE_MIN / 8, run, sizeof *run);
    if (run->ref == 0 || found == NULL) {
        return;
    }
    uint64_t at = cell_at + (uint64_t)(found - bytes);
    char text[64];
    snprintf(text, sizeof text, "%s run's page", what);
    damage_ref(d, class, text, at, p->page, p->parent);
    snprintf(text, sizeof text, "%s run's birth", what);
    damage_number(d, class, text, 0, at + 8, 8);
    snprintf(text, sizeof text, "%s run's length", what);
    damage_number(d, class, text, 0, at + 16, 8);
    /* Cell and run agree on a wrong length. */
    const uint64_t lens[] = {0, 1, run->len + 1, run->len - 1, run->len + 4096, RUN_ARENA_MAX + 1};
    for (unsigned i = 0; i < sizeof lens / sizeof *lens; i++) {
        struct damage *new = damage_new(d, class, true, "%s and its run: length %llu", text,
                                        (unsigned long long)lens[i]);
        damage_patch(new, 0, at + 16, &lens[i], 8);
        damage_patch(new, 0, atlas_at(d->atlas, run->ref) + 24, &lens[i], 8);
    }
}

static uint64_t run_data_at(const struct damages *d, const struct run_ref *run)
{
    uint64_t head = run_head_pages(run->len, d->atlas->page_shift);
    return run_is_long(run->len) ? head << d->atlas->page_shift : PAGE_HEADER;
}

/* Its head, and the bytes that follow. */
static void compressed_value(struct damages *d, uint64_t at)
{
    damage_number(d, DAMAGE_LEAF, "algorithm of a compressed value", 0, at, 1);
    damage_number(d, DAMAGE_LEAF, "length of a compressed value", 0, at + 1, 4);
    damage_number(d, DAMAGE_LEAF, "a compressed value's beginning", 0, at + 5, 4);
    damage_number(d, DAMAGE_LEAF, "a compressed value's bytes", 0, at + 12, 8);
}

static void leaf_cell(struct damages *d, const struct place *p, const struct page *page, unsigned i)
{
    uint64_t at = atlas_at(d->atlas, p->page) + node_offsets(page)[i];
    damage_number(d, DAMAGE_LEAF, "leaf cell's key length", 0, at, 2);
    damage_number(d, DAMAGE_LEAF, "leaf cell's value length", 0, at + 2, 2);
    struct run_ref key, value;
    struct ps_slice stored;
    node_runs(page, i, &key, &value);
    run_in_cell(d, DAMAGE_LEAF, "key", &key, at, p);
    run_in_cell(d, DAMAGE_LEAF, "value", &value, at, p);
    if (node_value(page, i, &stored, &value)) {
        const struct file_bytes *file = &d->atlas->image->files[0];
        compressed_value(d, value.ref == 0
                                ? (uint64_t)((const uint8_t *)stored.data - file->bytes)
                                : atlas_at(d->atlas, value.ref) + run_data_at(d, &value));
    }
}

static void branch_cell(struct damages *d, const struct place *p, const struct page *page,
                        unsigned i)
{
    uint64_t at = atlas_at(d->atlas, p->page) + node_offsets(page)[i];
    damage_ref(d, DAMAGE_BRANCH, "branch cell's child", at, p->page, p->parent);
    damage_number(d, DAMAGE_BRANCH, "branch cell's birth", 0, at + 8, 8);
    damage_number(d, DAMAGE_BRANCH, "branch cell's count", 0, at + 16, 8);
    damage_number(d, DAMAGE_BRANCH, "branch cell's key length", 0, at + 24, 2);
    struct run_ref key, value;
    node_runs(page, i, &key, &value);
    run_in_cell(d, DAMAGE_BRANCH, "separator", &key, at, p);
}

static void index_of(struct damages *d, enum damage_class class, const struct place *p,
                     const struct page *page, unsigned i)
{
    uint64_t heads = atlas_at(d->atlas, p->page) + node_heads_at(page);
    uint64_t offsets = heads + 4u * page->count;
    damage_number(d, class, "a head", 0, heads + 4u * i, 4);
    damage_number(d, class, "a cell's offset", 0, offsets + 2u * i, 2);
    unsigned other = i > 0 ? i - 1 : i + 1;
    if (other >= page->count) {
        return;
    }
    uint16_t mine = node_offsets(page)[i], its = node_offsets(page)[other];
    struct damage *new = damage_new(d, class, true, "entries %u and %u swapped", i, other);
    damage_patch(new, 0, offsets + 2u * i, &its, 2);
    damage_patch(new, 0, offsets + 2u * other, &mine, 2);
    damage_patch(new, 0, heads + 4u * i, &node_heads(page)[other], 4);
    damage_patch(new, 0, heads + 4u * other, &node_heads(page)[i], 4);
    new = damage_new(d, class, true, "entry %u twice, instead of %u", other, i);
    damage_patch(new, 0, offsets + 2u * i, &its, 2);
    damage_patch(new, 0, heads + 4u * i, &node_heads(page)[other], 4);
}

/* ---- nodes --------------------------------------------------------------------------------------
 */

/* Header and parent agree on something wrong. */
static void agreed(struct damages *d, enum damage_class class, const struct place *p,
                   const struct page *page)
{
    uint64_t at = atlas_at(d->atlas, p->page);
    const uint64_t births[] = {0,
                               1,
                               page->birth - 1,
                               d->atlas->meta.stamp + 1,
                               UINT64_C(1) << 40,
                               UINT64_C(1) << 62,
                               UINT64_MAX};
    for (unsigned i = 0; i < sizeof births / sizeof *births; i++) {
        struct damage *new = damage_new(d, class, true, "birth %#llx, in the parent too",
                                        (unsigned long long)births[i]);
        damage_patch(new, 0, at + 16, &births[i], 8);
        damage_patch(new, 0, p->cell + 8, &births[i], 8);
    }
    for (int delta = -1; delta <= 1; delta += 2) {
        uint64_t count = damage_was(d, 0, p->cell + 16, 8) + (uint64_t)delta;
        struct damage *new = damage_new(d, class, true, "the parent's count %+d", delta);
        damage_patch(new, 0, p->cell + 16, &count, 8);
        uint16_t entries = (uint16_t)(page->count + delta);
        new = damage_new(d, class, true, "count %+d, in the parent too", delta);
        damage_patch(new, 0, at + 24, &entries, 2);
        damage_patch(new, 0, p->cell + 16, &count, 8);
    }
    uint64_t flag = damage_was(d, 0, p->cell + 16, 8) ^ CHILD_OVERFLOW;
    damage_patch(damage_new(d, class, true, "the parent's overflow flag"), 0, p->cell + 16, &flag,
                 8);
}

static void node_cases(struct damages *d, const struct place *p)
{
    const struct page *page = page_of(d, p->page);
    enum damage_class class = p->level == 0 ? DAMAGE_LEAF : DAMAGE_BRANCH;
    uint64_t at = atlas_at(d->atlas, p->page);
    fields_of(d, class, p->level == 0 ? "leaf" : "branch", at, header_fields,
              sizeof header_fields / sizeof *header_fields);
    agreed(d, class, p, page);
    if (page->prefix_len > 0) {
        damage_number(d, class, "the prefix", 0, at + PAGE_HEADER, 1);
    }
    const unsigned entries[] = {0, page->count / 2u, page->count - 1u};
    for (unsigned k = 0; k < 3; k++) {
        if (k > 0 && entries[k] == entries[k - 1]) {
            continue;
        }
        index_of(d, class, p, page, entries[k]);
        if (p->level == 0) {
            leaf_cell(d, p, page, entries[k]);
        } else {
            branch_cell(d, p, page, entries[k]);
        }
    }
    struct run_ref key, value; /* entries with runs, wherever they are */
    unsigned found = 0;
    for (unsigned i = 0; i < page->count && found < 2; i++) {
        node_runs(page, i, &key, &value);
        if (key.ref != 0 || value.ref != 0) {
            found++;
            if (p->level == 0) {
                leaf_cell(d, p, page, i);
            } else {
                branch_cell(d, p, page, i);
            }
        }
    }
}

static void run_cases(struct damages *d, const struct place *p)
{
    enum damage_class class = p->kind == PAGE_OVERFLOW ? DAMAGE_RUN : DAMAGE_LONG_RUN;
    uint64_t at = atlas_at(d->atlas, p->page);
    fields_of(d, class, "run", at, run_fields, sizeof run_fields / sizeof *run_fields);
    uint64_t head = p->kind == PAGE_OVERFLOW
                        ? PAGE_HEADER
                        : (uint64_t)run_head_pages(p->len, d->atlas->page_shift)
                              << d->atlas->page_shift;
    damage_number(d, class, "the first byte", 0, at + head, 1);
    damage_number(d, class, "the last byte", 0, at + head + p->len - 1, 1);
    if (p->kind == PAGE_FILE_RUN) {
        uint8_t bytes[4] = {1, 2, 3, 4};
        struct damage *new = damage_new(d, class, false, "the checksum of a piece");
        damage_patch(new, 0, at + PAGE_HEADER, bytes, 4);
        damage_number(d, class, "a byte of the second piece", 0, at + head + RUN_PIECE, 1);
    }
}

void cases_of_pages(struct damages *d)
{
    static const enum page_kind kinds[] = {PAGE_LEAF, PAGE_BRANCH, PAGE_OVERFLOW, PAGE_FILE_RUN};
    for (unsigned k = 0; k < 4; k++) {
        for (int level = 0; level < 4; level++) {
            unsigned n = 0;
            while (atlas_find(d->atlas, kinds[k], level, n) != NULL) {
                n++;
            }
            const unsigned chosen[] = {0, n / 2, n - 1};
            for (unsigned i = 0; i < 3 && i < n; i++) {
                const struct place *p = atlas_find(d->atlas, kinds[k], level, chosen[i]);
                if (kinds[k] == PAGE_LEAF || kinds[k] == PAGE_BRANCH) {
                    node_cases(d, p);
                } else if (p->len > 0) {
                    run_cases(d, p);
                }
            }
        }
    }
}
