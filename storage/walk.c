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

/* What a walk that goes on after damage does with it. */
static int judge(const struct walk *w, int rc)
{
    return w->unreadable != NULL && (rc == PS_CORRUPT || rc == PS_IO) ? w->unreadable(w->arg, rc)
                                                                      : rc;
}

/* A run, checked whatever was checked before. */
static int read_run(struct walk *w, const struct run_ref *run, struct ps_slice *bytes)
{
    struct ps_store *store = w->store;
    int rc = ref_in_arena(run->ref) ? 0 : run_verify_fully(store, run);
    const uint8_t *data = NULL;
    rc = rc == 0 ? run_data(store, run, &data) : rc;
    *bytes = (struct ps_slice){data, (size_t)run->len};
    return rc == 0 && w->pages != NULL ? w->pages(w->arg, run_pages(run->len, store->page_shift))
                                       : rc;
}

static int check_key(struct walk *w, const struct page *p, unsigned i)
{
    struct run_ref key, value;
    struct ps_slice ignored;
    node_runs(p, i, &key, &value);
    return key.ref == 0 ? 0 : read_run(w, &key, &ignored);
}

static int give(struct walk *w, const struct page *p, unsigned i)
{
    struct ps_store *store = w->store;
    struct node_entry e;
    uint64_t losses = losses_ended(store);
    int rc = check_key(w, p, i);
    rc = rc == 0 ? node_read(store, p, i, w->rooms[0] + store->page_size, &e) : rc;
    if (rc == 0 && e.value_run.ref != 0) {
        rc = read_run(w, &e.value_run, &e.value);
    }
    if (rc != 0) {
        return judge(w, rc);
    }
    rc = w->entry(w->arg, e.key, e.value, e.encoded);
    return rc == 0 && lost_since(store, losses) ? judge(w, lost_report(store)) : rc;
}

static int begin_at(struct walk *w, const struct page *p, unsigned level,
                    const struct ps_slice *from, unsigned *i)
{
    bool exact;
    *i = 0;
    return from == NULL ? 0
           : level > 0  ? node_search_child(w->store, p, *from, i)
                        : node_search(w->store, p, *from, 0, i, &exact);
}

static int walk_node(struct walk *w, const struct child *child, unsigned level,
                     const struct ps_slice *from)
{
    const struct page *p = NULL;
    int rc = take(w, child, level, &p);
    if (rc != 0) {
        return judge(w, rc);
    }
    PS_ASSERT(p != NULL);
    if (level > 0) {
        walk_read_ahead(w->store, p);
    }
    unsigned i;
    rc = begin_at(w, p, level, from, &i);
    for (; rc == 0 && i < p->count; i++, from = NULL) {
        if (level == 0) {
            rc = give(w, p, i);
            continue;
        }
        struct child below;
        node_child(p, i, &below);
        rc = judge(w, check_key(w, p, i));
        rc = rc == 0 ? walk_node(w, &below, level - 1, from) : rc;
    }
    return rc;
}

int walk_tree(struct walk *w, const struct tree_root *root)
{
    return root->root.ref == 0 ? 0 : walk_node(w, &root->root, root->level, NULL);
}

int walk_tree_from(struct walk *w, const struct tree_root *root, struct ps_slice from)
{
    return root->root.ref == 0 ? 0 : walk_node(w, &root->root, root->level, &from);
}

void walk_free(struct walk *w)
{
    for (unsigned i = 0; i < TREE_MAX_LEVELS; i++) {
        free(w->rooms[i]);
        w->rooms[i] = NULL;
    }
}
