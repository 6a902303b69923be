/*
 * tree_pages.c - how many pages a tree has, by its branches.
 *
 * A branch says of each child whether it may have runs below (T1), and how many entries there are;
 * so the leaves themselves are counted without being read, but those that may have runs.
 *
 * Threads: the view's.
 */
#include "storage/node.h"
#include "storage/store.h"

static void count_runs(const struct ps_store *store, const struct page *p,
                       struct ps_tree_pages *pages)
{
    for (unsigned i = 0; (p->flags & PAGE_HAS_OVERFLOW) && i < p->count; i++) {
        struct run_ref runs[2];
        node_runs(p, i, &runs[0], &runs[1]);
        for (unsigned k = 0; k < 2; k++) {
            if (runs[k].ref != 0) {
                pages->runs++;
                pages->run_pages += run_pages(runs[k].len, store->page_shift);
                pages->run_bytes += runs[k].len;
            }
        }
    }
}

static int count_below(const struct ps_view *view, const struct child *child, unsigned level,
                       struct ps_tree_pages *pages)
{
    const struct page *p;
    bool leaf = level == 0;
    pages->leaves += leaf;
    pages->branches += !leaf;
    if (leaf && (child->count & CHILD_OVERFLOW) == 0) {
        return 0;
    }
    int rc = page_get(view->store, child, level, &p);
    if (rc != 0) {
        return rc;
    }
    count_runs(view->store, p, pages);
    for (unsigned i = 0; rc == 0 && !leaf && i < p->count; i++) {
        struct child below;
        node_child(p, i, &below);
        rc = count_below(view, &below, level - 1, pages);
    }
    return rc;
}

int ps_tree_pages(struct ps_view *view, ps_tree tree, struct ps_tree_pages *pages)
{
    *pages = (struct ps_tree_pages){0};
    int rc = ps_count(view, tree, &pages->entries);
    if (rc != 0 || pages->entries == 0) {
        return rc;
    }
    const struct tree_root *root = &view->state->trees[tree];
    pages->levels = root->level + 1u;
    return view_end(view, count_below(view, &root->root, root->level, pages));
}
