/*
 * cases_links.c - references that are right in form and lead to the wrong place, and pages that are
 * right but of another time.
 */
#include <string.h>

#include "storage/node.h"
#include "tests/damage/cases.h"

#define LINKS 4u /* of each kind */

static const uint8_t *cell_of(const struct damages *d, const struct place *p)
{
    return d->atlas->image->files[0].bytes + p->cell;
}

/* The child at `where` becomes what `as` is, with the birth and count that it has, or its own. */
static void relink(struct damages *d, const struct place *where, const struct place *as,
                   const char *what)
{
    if (where == NULL || as == NULL || as->cell == 0 || where->cell == 0 || where == as) {
        return;
    }
    struct damage *new = damage_new(d, DAMAGE_REFERENCES, true, "%s, with its birth", what);
    damage_patch(new, 0, where->cell, cell_of(d, as), 16);
    new = damage_new(d, DAMAGE_REFERENCES, true, "%s, with its birth and count", what);
    damage_patch(new, 0, where->cell, cell_of(d, as), 24);
}

static const struct place *place_of(const struct atlas *atlas, page_ref page)
{
    for (size_t i = 0; i < atlas->places.n; i++) {
        if (atlas->places.at[i].page == page) {
            return &atlas->places.at[i];
        }
    }
    return NULL;
}

static void child_links(struct damages *d)
{
    const struct atlas *a = d->atlas;
    for (int level = 0; level < 3; level++) {
        for (unsigned n = 0; n < LINKS; n++) {
            enum page_kind kind = level == 0 ? PAGE_LEAF : PAGE_BRANCH;
            const struct place *p = atlas_find(a, kind, level, n * n);
            if (p == NULL) {
                break;
            }
            const struct place *parent = place_of(a, p->parent);
            relink(d, p, parent, "a child is its parent");
            relink(d, p, parent == NULL ? NULL : place_of(a, parent->parent),
                   "a child is its grandparent");
            relink(d, p, atlas_find(a, kind, level, n * n + 1), "a child is its sibling");
            relink(d, p, atlas_find(a, PAGE_LEAF, 0, 2), "a child is a leaf");
            relink(d, p, atlas_find(a, PAGE_BRANCH, 1, 0), "a child is a branch of leaves");
            relink(d, p, atlas_find(a, PAGE_OVERFLOW, -1, 0), "a child is a run");
            relink(d, p, atlas_find(a, PAGE_FILE_RUN, -1, 0), "a child is a long run");
        }
    }
}

/* A node is the only child below itself, and says that it has the entries it says. */
static void cycles(struct damages *d)
{
    const struct atlas *a = d->atlas;
    for (int level = 1; level < 3; level++) {
        const struct place *p = atlas_find(a, PAGE_BRANCH, level, 0);
        if (p == NULL) {
            return;
        }
        uint64_t at = atlas_at(a, p->page);
        const struct page *page = (const void *)(a->image->files[0].bytes + at);
        for (unsigned i = 0; i<page->count; i += page->count> 1 ? page->count - 1u : 1u) {
            struct damage *new =
                damage_new(d, DAMAGE_REFERENCES, true, "entry %u of a branch is the branch", i);
            damage_patch(new, 0, at + node_offsets(page)[i], cell_of(d, p), 16);
            new = damage_new(d, DAMAGE_REFERENCES, true,
                             "entry %u of a branch is the branch, level 0", i);
            uint8_t zero = 0;
            damage_patch(new, 0, at + node_offsets(page)[i], cell_of(d, p), 16);
            damage_patch(new, 0, at + 5, &zero, 1);
        }
    }
}

/* Runs that belong to other cells. */
static void run_links(struct damages *d)
{
    const struct atlas *a = d->atlas;
    static const enum page_kind kinds[] = {PAGE_OVERFLOW, PAGE_FILE_RUN};
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned n = 0; n < LINKS; n++) {
            const struct place *p = atlas_find(a, kinds[k], -1, n * 2);
            if (p == NULL) {
                break;
            }
            for (unsigned other = 0; other < 4; other++) {
                const struct place *q = atlas_find(a, kinds[other % 2], -1, other * 3 + 1);
                if (q == NULL || q == p) {
                    continue;
                }
                struct damage *new =
                    damage_new(d, DAMAGE_REFERENCES, true, "a cell has another cell's run");
                damage_patch(new, 0, p->cell, cell_of(d, q), 24);
                uint64_t longer = q->len + 100, shorter = q->len - 100;
                new = damage_new(d, DAMAGE_REFERENCES, true, "another cell's run, and more");
                damage_patch(new, 0, p->cell, cell_of(d, q), 16);
                damage_patch(new, 0, p->cell + 16, &longer, 8);
                new = damage_new(d, DAMAGE_REFERENCES, true, "another cell's run, not all of it");
                damage_patch(new, 0, p->cell, cell_of(d, q), 16);
                damage_patch(new, 0, p->cell + 16, &shorter, 8);
            }
            page_ref inside = p->page + 1;
            struct damage *new = damage_new(d, DAMAGE_REFERENCES, true, "a run begins inside one");
            damage_patch(new, 0, p->cell, &inside, 8);
            relink(d, p, atlas_find(a, PAGE_LEAF, 0, 0), "a run is a leaf");
        }
    }
}

static void whole_page(struct damages *d, enum damage_class class, bool fixed, page_ref to,
                       const uint8_t *bytes, const char *what)
{
    struct damage *new = damage_new(d, class, fixed, "%s, page %llu", what, (unsigned long long)to);
    new->source = bytes;
    new->target = atlas_at(d->atlas, to);
    new->source_len = d->atlas->page_size;
}

/* Pages as they were at an earlier checkpoint, and pages that were never written. */
static void stale_pages(struct damages *d)
{
    static const uint8_t zeros[PAGE_MAX];
    const struct atlas *a = d->atlas;
    const struct file_bytes *before = &d->shape->before.files[0];
    for (size_t i = 0; i < a->places.n; i += 1 + a->places.n / 150) {
        const struct place *p = &a->places.at[i];
        uint64_t at = atlas_at(a, p->page);
        whole_page(d, DAMAGE_STALE, false, p->page, zeros, "never written");
        if (d->shape->before.n > 0 && at + a->page_size <= before->held &&
            memcmp(before->bytes + at, a->image->files[0].bytes + at, a->page_size) != 0) {
            whole_page(d, DAMAGE_STALE, false, p->page, before->bytes + at, "an older page");
        }
        const struct place *other = &a->places.at[(i + 1) % a->places.n];
        whole_page(d, DAMAGE_STALE, false, p->page, atlas_bytes(a, a->image, other->page),
                   "another page");
        whole_page(d, DAMAGE_STALE, true, p->page, atlas_bytes(a, a->image, other->page),
                   "another page, checksums right");
    }
}

void cases_of_links(struct damages *d)
{
    child_links(d);
    cycles(d);
    run_links(d);
    stale_pages(d);
}
