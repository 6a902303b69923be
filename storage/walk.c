/*
 * walk.c - see walk.h.
 */
#include "storage/walk.h"

#include <inttypes.h>

#include "storage/overflow.h"

void walk_read_ahead(struct ps_store *store, const struct page *p)
{
    const struct ps_vfs *vfs = store->vfs;
    page_ref first = 0;
    uint64_t pages = 0;
    for (unsigned i = 0; i <= p->count; i++) {
        struct child child = {0};
        if (i < p->count) {
            node_child(p, i, &child);
        }
        if (i < p->count && pages > 0 && child.ref == first + pages) {
            pages++;
            continue;
        }
        if (pages > 1 && !ref_in_arena(first)) {
            vfs->prefetch(vfs->ctx, page_at(store, first), (size_t)pages << store->page_shift);
        }
        first = child.ref;
        pages = 1;
    }
}

/* A copy of the child's page, sound in itself. */
static int take(struct walk *w, const struct child *child, unsigned level, const struct page **page)
{
    struct ps_store *store = w->store;
    size_t size = store->page_size;
    if (w->rooms[level] == NULL && (w->rooms[level] = malloc(2 * size)) == NULL) {
        return PS_NOMEM;
    }
    uint64_t losses = losses_ended(store);
    if (!ref_in_arena(child->ref) && !pages_belong(store, child->ref, 1, child->birth)) {
        return page_misplaced(store, child->ref);
    }
    memcpy(w->rooms[level], page_at(store, child->ref), size);
    const struct page *p = (const struct page *)(const void *)w->rooms[level];
    if (lost_since(store, losses)) {
        return lost_report(store);
    }
    const char *problem = ref_in_arena(child->ref) ? NULL : page_problem(store, p, child, level);
    if (problem != NULL) {
        return store_fault(store, PS_CORRUPT, 0, store->file_path, child->ref << store->page_shift,
                           "page %" PRIu64 ": %s", child->ref, problem);
    }
    *page = p;
    return w->pages != NULL ? w->pages(w->arg, 1) : 0;
}

static int give(struct walk *w, const struct page *p, unsigned i)
{
    struct ps_store *store = w->store;
    struct node_entry e;
    uint64_t losses = losses_ended(store);
    int rc = node_read(store, p, i, w->rooms[0] + store->page_size, &e);
    if (rc == 0 && e.value_run.ref != 0) {
        const uint8_t *data;
        rc = run_data(store, &e.value_run, &data);
        e.value = (struct ps_slice){data, (size_t)e.value_run.len};
        if (rc == 0 && w->pages != NULL) {
            rc = w->pages(w->arg, run_pages(e.value_run.len, store->page_shift));
        }
    }
    rc = rc == 0 ? w->entry(w->arg, e.key, e.value, e.encoded) : rc;
    return rc == 0 && lost_since(store, losses) ? lost_report(store) : rc;
}

static int walk_node(struct walk *w, const struct child *child, unsigned level)
{
    const struct page *p = NULL;
    int rc = take(w, child, level, &p);
    if (rc == 0 && level > 0) {
        walk_read_ahead(w->store, p);
    }
    for (unsigned i = 0; rc == 0 && i < p->count; i++) {
        if (level == 0) {
            rc = give(w, p, i);
            continue;
        }
        struct child below;
        node_child(p, i, &below);
        rc = walk_node(w, &below, level - 1);
    }
    return rc;
}

int walk_tree(struct walk *w, const struct tree_root *root)
{
    return root->root.ref == 0 ? 0 : walk_node(w, &root->root, root->level);
}

void walk_free(struct walk *w)
{
    for (unsigned i = 0; i < TREE_MAX_LEVELS; i++) {
        free(w->rooms[i]);
        w->rooms[i] = NULL;
    }
}
