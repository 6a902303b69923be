/*
 * salvage_scan.c - see salvage.h: which pages of a damaged file are whole, and what is known of
 * the state they belong to.
 *
 * Threads: one. Nothing is written.
 */
#include <fcntl.h>
#include <inttypes.h>

#include "storage/salvage.h"

#define PROGRESS_PAGES 4096u

/* ---- the page size ----------------------------------------------------------------------------
 */

/* Pages of this size that stand where their number says: with a wrong size next to none do. */
static uint64_t pages_of_size(const struct ps_vfs *vfs, int fd, uint64_t bytes, uint32_t size)
{
    uint64_t good = 0;
    uint64_t most = bytes / size;
    for (uint64_t i = META_RESERVED / size; i < most; i++) {
        struct page head = {0};
        ssize_t n = vfs->pread(vfs->ctx, fd, &head, sizeof head, i * size);
        good += n == (ssize_t)sizeof head && head.number == i && head.kind >= PAGE_LEAF &&
                head.kind <= PAGE_FILE_RUN;
    }
    return good;
}

static int vote(const char *dir, uint32_t *page_size, struct ps_fault *fault)
{
    const struct ps_vfs *vfs = ps_vfs_posix();
    char path[4096];
    uint64_t bytes = 0, best = 0;
    snprintf(path, sizeof path, "%s/pando.db", dir);
    int fd = vfs->open(vfs->ctx, path, O_RDONLY, 0);
    int err = fd < 0 ? fd : vfs->size(vfs->ctx, fd, &bytes);
    for (uint32_t size = PAGE_MIN; err == 0 && size <= PAGE_MAX; size *= 2) {
        uint64_t good = pages_of_size(vfs, fd, bytes, size);
        if (good > best) {
            best = good;
            *page_size = size;
        }
    }
    if (fd >= 0) {
        (void)vfs->close(vfs->ctx, fd);
    }
    if (err != 0 || best == 0) {
        int rc = err != 0 ? errno_code(err) : PS_NOTFOUND;
        fault_set(fault, rc, err, path, 0, "no page that is whole, of any size");
        return rc;
    }
    return 0;
}

int salvage_page_size(const char *dir, struct ps_meta metas[2], int newest, uint32_t *page_size,
                      struct ps_fault *fault)
{
    if (newest >= 0) {
        *page_size = metas[newest].page_size;
        return 0;
    }
    return vote(dir, page_size, fault);
}

/* ---- all pages --------------------------------------------------------------------------------
 */

static bool is_whole_node(struct salvage *s, page_ref ref)
{
    const struct page *p = page_at(s->from, ref);
    if (p->number != ref || (p->kind != PAGE_LEAF && p->kind != PAGE_BRANCH) ||
        p->level >= TREE_MAX_LEVELS) {
        return false;
    }
    struct child self = {.ref = ref, .birth = p->birth, .count = COUNT_UNKNOWN};
    return page_problem(s->from, p, &self, p->level) == NULL;
}

static void mark_children(struct salvage *s, page_ref ref)
{
    const struct page *p = page_at(s->from, ref);
    for (unsigned i = 0; p->kind == PAGE_BRANCH && i < p->count; i++) {
        struct child child;
        node_child(p, i, &child);
        if ((s->marks[child.ref] & MARK_NODE) != 0 &&
            page_at(s->from, child.ref)->birth == child.birth) {
            s->marks[child.ref] |= MARK_CHILD;
        }
    }
}

static int progress(struct salvage *s, uint64_t page)
{
    if (s->watch->progress == NULL || page % PROGRESS_PAGES != 0) {
        return 0;
    }
    return s->watch->progress(s->watch->arg, page, s->pages) ? 0 : PS_ENDED;
}

/* The space map, if all of it can be read. */
static void take_map(struct salvage *s)
{
    struct ps_fault fault = {0};
    if (!s->has_meta) {
        return;
    }
    if (space_load(&s->from->space, &s->meta.space, s->meta.file_pages, &fault) != 0) {
        salvage_finding(s, fault.offset >> s->from->page_shift,
                        "%s: which pages are in use is not known", fault.what);
        return;
    }
    s->report->space_map = true;
    for (page_ref page = s->reserved; page < s->pages; page++) {
        if (!space_is_live(&s->from->space, page)) {
            s->marks[page] |= MARK_FREE;
        }
    }
}

int salvage_scan(struct salvage *s)
{
    int rc = 0;
    s->marks = calloc((size_t)s->pages + 1, 1);
    if (s->marks == NULL) {
        return PS_NOMEM;
    }
    take_map(s);
    for (page_ref page = s->reserved; rc == 0 && page < s->pages; page++) {
        if (is_whole_node(s, page)) {
            s->marks[page] |= MARK_NODE;
            s->report->nodes++;
        }
        rc = progress(s, page);
    }
    for (page_ref page = s->reserved; rc == 0 && page < s->pages; page++) {
        if ((s->marks[page] & (MARK_NODE | MARK_FREE)) == MARK_NODE) {
            mark_children(s, page);
        }
    }
    s->report->pages = s->pages;
    return rc;
}

/* ---- the catalogue ----------------------------------------------------------------------------
 */

/* Reads the catalogue that s->from->meta names into *state. */
static int load(struct salvage *s, struct state **state)
{
    struct ps_fault fault = {0};
    *state = state_new(s->from);
    if (*state == NULL) {
        return PS_NOMEM;
    }
    int rc = recovery_load_state(s->from, *state, &fault);
    if (rc != 0) {
        state_give_back(s->from, *state);
        *state = NULL;
    }
    return rc;
}

/* Whether something is below it, and all roots are there. */
static bool roots_are_whole(struct salvage *s, const struct state *state)
{
    bool any = false;
    for (uint32_t i = 0; i < state->ntrees; i++) {
        const struct child *root = &state->trees[i].root;
        if (state->trees[i].name != NULL && root->ref != 0 &&
            (root->ref >= s->pages || !(s->marks[root->ref] & MARK_NODE) ||
             page_at(s->from, root->ref)->birth != root->birth)) {
            return false;
        }
        any = any || (state->trees[i].name != NULL && root->ref != 0);
    }
    return any;
}

/* The newest catalogue in the file whose roots are there; else the newest; else none. */
static int search_catalogue(struct salvage *s)
{
    uint64_t best_birth = 0;
    bool best_whole = false;
    for (page_ref ref = s->reserved; ref < s->pages; ref++) {
        const struct page *p = page_at(s->from, ref);
        if (p->kind != PAGE_CATALOGUE || p->number != ref) {
            continue;
        }
        struct state *state;
        s->from->meta.catalogue = (struct run_ref){ref, p->birth, p->run_len};
        s->from->meta.stamp = p->birth;
        int rc = load(s, &state);
        if (rc == PS_NOMEM) {
            return rc;
        }
        if (rc != 0) {
            continue;
        }
        bool whole = roots_are_whole(s, state);
        bool better = s->state == NULL || (whole && !best_whole) ||
                      (whole == best_whole && p->birth > best_birth);
        struct state *worse = better ? s->state : state;
        if (better) {
            s->state = state;
            best_birth = p->birth;
            best_whole = whole;
        }
        if (worse != NULL) {
            state_give_back(s->from, worse);
        }
    }
    return 0;
}

int salvage_catalogue(struct salvage *s)
{
    if (s->has_meta) {
        s->from->meta = s->meta;
        int rc = load(s, &s->state);
        if (rc == 0 || rc == PS_NOMEM) {
            s->report->catalogue = s->exact = rc == 0;
            return rc;
        }
    }
    int rc = search_catalogue(s);
    if (rc != 0) {
        return rc;
    }
    if (s->has_meta && s->state != NULL) {
        salvage_finding(
            s, s->meta.catalogue.ref,
            "the catalogue cannot be read; one of an older checkpoint, of stamp %" PRIu64
            ", is used: what changed between the two may be missing",
            stamp_of(s->state));
    } else if (s->state == NULL) {
        salvage_finding(s, s->has_meta ? s->meta.catalogue.ref : 0,
                        "no catalogue can be read: the names of trees are lost");
    }
    s->report->catalogue = s->state != NULL;
    return 0;
}
