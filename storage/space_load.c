/*
 * space_load.c - reading the space map of a checkpoint back.
 */
#include "storage/space.h"

static int bad(struct ps_fault *fault, page_ref ref, uint32_t page_shift, const char *what)
{
    if (fault != NULL) {
        fault->code = PS_CORRUPT;
        fault->offset = ref << page_shift;
        snprintf(fault->what, sizeof fault->what, "page %llu: %s", (unsigned long long)ref, what);
    }
    return PS_CORRUPT;
}

static int read_page(struct space *space, const struct space_root *at, uint8_t *buf,
                     struct ps_fault *fault)
{
    size_t page_size = (size_t)1 << space->page_shift;
    if (at->ref == 0 || at->ref >= space->pages) {
        return bad(fault, at->ref, space->page_shift, "space map outside the file");
    }
    ssize_t n =
        space->vfs->pread(space->vfs->ctx, space->fd, buf, page_size, at->ref << space->page_shift);
    if (n < 0) {
        if (fault != NULL) {
            fault->sys_errno = (int)-n;
        }
        return PS_IO;
    }
    const struct page *p = (const struct page *)(const void *)buf;
    if ((size_t)n != page_size || p->crc != page_crc(p, page_size)) {
        return bad(fault, at->ref, space->page_shift, "checksum of the space map does not match");
    }
    if (p->kind != PAGE_SPACE || p->level != at->level || p->number != at->ref ||
        p->birth != at->birth) {
        return bad(fault, at->ref, space->page_shift, "stale or misplaced page of the space map");
    }
    return 0;
}

static int take_bitmap(struct space *space, size_t i, const uint8_t *buf, page_ref ref,
                       struct ps_fault *fault)
{
    uint64_t per = ((UINT64_C(1) << space->page_shift) - SPACE_HEADER) * 8;
    struct space_node *node = &space->levels[0].at[i];
    memcpy(node->live, buf + SPACE_HEADER, per / 8);
    for (uint64_t k = 0; k < per; k++) {
        bool live = (node->live[k / 64] >> (k % 64)) & 1;
        bool used = (node->used[k / 64] >> (k % 64)) & 1;
        uint64_t page = i * per + k;
        if (live && used) {
            return bad(fault, ref, space->page_shift,
                       page >= space->pages ? "a page in use is outside the file"
                                            : "a reserved page is in use");
        }
        if (live) {
            node->used[k / 64] |= UINT64_C(1) << (k % 64);
            node->free--;
            space->free--;
        }
    }
    return 0;
}

static int load(struct space *space, const struct space_root *at, size_t i, struct ps_fault *fault)
{
    size_t page_size = (size_t)1 << space->page_shift;
    size_t fan = (page_size - SPACE_HEADER) / 24;
    if (i >= space->levels[at->level].n) {
        return bad(fault, at->ref, space->page_shift, "the space map describes too many pages");
    }
    uint8_t *buf = malloc(page_size);
    int rc = buf == NULL ? PS_NOMEM : read_page(space, at, buf, fault);
    if (rc == 0) {
        struct space_node *node = &space->levels[at->level].at[i];
        node->ref = at->ref;
        node->birth = at->birth;
        node->dirty = false;
    }
    if (rc == 0 && at->level == 0) {
        rc = take_bitmap(space, i, buf, at->ref, fault);
    }
    for (size_t k = 0; rc == 0 && at->level > 0 && k < fan; k++) {
        struct space_root below = {.level = at->level - 1};
        memcpy(&below.ref, buf + SPACE_HEADER + 24 * k, 8);
        memcpy(&below.birth, buf + SPACE_HEADER + 24 * k + 8, 8);
        if (below.ref != 0) {
            rc = load(space, &below, i * fan + k, fault);
        }
    }
    free(buf);
    return rc;
}

int space_load(struct space *space, const struct space_root *root, struct ps_fault *fault)
{
    if (root->level > space->top) {
        return bad(fault, root->ref, space->page_shift, "the space map is larger than the file");
    }
    /* A file that grew after the checkpoint may have a taller map by now; it is written anew. */
    return load(space, root, 0, fault);
}
