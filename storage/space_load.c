/*
 * space_load.c - reading the space map of a checkpoint back.
 *
 * A map is taken only if it can be one: its pages describe what their places in the tree say, none
 * of those that the file had then is missing, and the pages of the map are, each once, in the map.
 */
#include "storage/space.h"

/* A map in the making. */
struct loading {
    struct space *space;
    uint64_t stamp;  /* of the checkpoint: nothing in it is younger */
    uint64_t mapped; /* pages of the file then */
    struct ps_fault *fault;
};

static int bad(struct ps_fault *fault, page_ref ref, uint32_t page_shift, const char *what)
{
    if (fault != NULL) {
        fault->code = PS_CORRUPT;
        fault->offset = ref << page_shift;
        snprintf(fault->what, sizeof fault->what, "page %llu: %s", (unsigned long long)ref, what);
    }
    return PS_CORRUPT;
}

static int compare_refs(const void *a, const void *b)
{
    page_ref x = *(const page_ref *)a;
    page_ref y = *(const page_ref *)b;
    return (x > y) - (x < y);
}

static int read_page(struct space *space, const struct space_root *at, uint8_t *buf,
                     struct ps_fault *fault)
{
    size_t page_size = (size_t)1 << space->page_shift;
    if (at->ref < space->reserved || at->ref >= space->pages) {
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

/* Pages of the file that one page of the map describes. */
static uint64_t described(const struct space *space, unsigned level)
{
    uint64_t page_size = UINT64_C(1) << space->page_shift;
    uint64_t n = (page_size - SPACE_HEADER) * 8;
    for (; level > 0; level--) {
        n *= (page_size - SPACE_HEADER) / 24;
    }
    return n;
}

static int load(struct loading *l, const struct space_root *at, size_t i)
{
    struct space *space = l->space;
    struct ps_fault *fault = l->fault;
    size_t page_size = (size_t)1 << space->page_shift;
    size_t fan = (page_size - SPACE_HEADER) / 24;
    if (i >= space->levels[at->level].n) {
        return bad(fault, at->ref, space->page_shift, "the space map describes too many pages");
    }
    uint8_t *buf = calloc(1, page_size);
    int rc = buf == NULL ? PS_NOMEM : read_page(space, at, buf, fault);
    const struct page *p = (const struct page *)(const void *)buf;
    if (rc == 0 &&
        (p->first != i * (at->level == 0 ? described(space, 0) : fan) || at->birth > l->stamp)) {
        rc = bad(fault, at->ref, space->page_shift, "a page of the space map in another's place");
    }
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
            rc = load(l, &below, i * fan + k);
        } else if ((i * fan + k) * described(space, below.level) < l->mapped) {
            rc = bad(fault, at->ref, space->page_shift, "a part of the space map is missing");
        }
    }
    free(buf);
    return rc;
}

/* The map's own pages, each once, are in the map. */
static int check_own(struct space *space, struct ps_fault *fault)
{
    VEC(page_ref) own = {0};
    int rc = 0;
    for (unsigned level = 0; rc == 0 && level <= space->top; level++) {
        for (size_t i = 0; rc == 0 && i < space->levels[level].n; i++) {
            page_ref ref = space->levels[level].at[i].ref;
            if (ref != 0 && !space_is_live(space, ref)) {
                rc = bad(fault, ref, space->page_shift, "a page of the space map is free in it");
            } else if (ref != 0 && !vec_push(&own, ref)) {
                rc = PS_NOMEM;
            }
        }
    }
    if (own.n > 1) {
        qsort(own.at, own.n, sizeof *own.at, compare_refs);
    }
    for (size_t i = 1; rc == 0 && i < own.n; i++) {
        if (own.at[i] == own.at[i - 1]) {
            rc = bad(fault, own.at[i], space->page_shift, "a page of the space map is used twice");
        }
    }
    vec_free(&own);
    return rc;
}

int space_load(struct space *space, const struct space_root *root, uint64_t mapped,
               struct ps_fault *fault)
{
    struct loading l = {.space = space, .stamp = root->birth, .mapped = mapped, .fault = fault};
    if (root->level > space->top) {
        return bad(fault, root->ref, space->page_shift, "the space map is larger than the file");
    }
    if (described(space, root->level) < mapped) {
        return bad(fault, root->ref, space->page_shift, "the space map is smaller than the file");
    }
    /* A file that grew after the checkpoint may have a taller map by now; it is written anew. */
    int rc = load(&l, root, 0);
    return rc == 0 ? check_own(space, fault) : rc;
}
