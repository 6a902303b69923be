/*
 * salvage_trees.c - see salvage.h: entries out of the trees, and of leaves that have lost theirs.
 *
 * Threads: one.
 */
#include <inttypes.h>

#include "storage/overflow.h"
#include "storage/salvage.h"

/* ---- leaves -----------------------------------------------------------------------------------
 */

static void take_run(struct salvage *s, const struct run_ref *run)
{
    if (run->ref == 0) {
        return;
    }
    uint32_t n = run_pages(run->len, s->from->page_shift);
    for (page_ref page = run->ref; page < run->ref + n && page < s->pages; page++) {
        s->marks[page] |= MARK_TAKEN;
    }
}

static int lost_value(struct salvage *s, size_t tree, struct ps_slice key, page_ref page,
                      uint64_t bytes)
{
    char text[80];
    struct ps_fault fault;
    ps_last_fault(s->from, &fault);
    salvage_finding(s, page, "%s: the value of key '%s' of tree '%.*s' is lost, %" PRIu64 " bytes",
                    fault.what, salvage_key(key, text), s->trees.at[tree].name_len,
                    s->trees.at[tree].name, bytes);
    s->report->lost_values++;
    return 0;
}

/* One entry of a leaf; what cannot be read of it is a finding. */
static int take_entry(struct salvage *s, size_t tree, const struct page *p, unsigned i,
                      bool if_absent)
{
    struct node_entry e;
    struct ps_fault fault;
    if (node_read(s->from, p, i, s->keybuf[0][0], &e) != 0) {
        ps_last_fault(s->from, &fault);
        salvage_finding(
            s, e.key_run.ref,
            "%s: an entry of tree '%.*s' is lost, key and value (entry %u of page %" PRIu64 ")",
            fault.what, s->trees.at[tree].name_len, s->trees.at[tree].name, i, p->number);
        s->report->lost_values++;
        return 0;
    }
    take_run(s, &e.key_run);
    if (e.value_run.ref != 0) {
        const uint8_t *data;
        if (run_data(s->from, &e.value_run, &data) != 0) {
            return lost_value(s, tree, e.key, e.value_run.ref, e.value_run.len);
        }
        take_run(s, &e.value_run);
        e.value = (struct ps_slice){data, (size_t)e.value_run.len};
    }
    size_t stored = e.value.len;
    int rc = e.encoded ? store_decode(s->from, &s->decoded, &e.value) : 0;
    if (rc != 0) {
        return rc == PS_NOMEM ? rc : lost_value(s, tree, e.key, p->number, stored);
    }
    return salvage_put(s, tree, e.key, e.value, if_absent);
}

static int take_leaf(struct salvage *s, size_t tree, page_ref ref, bool if_absent)
{
    const struct page *p = page_at(s->from, ref);
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < p->count; i++) {
        rc = take_entry(s, tree, p, i, if_absent);
    }
    return rc;
}

/* ---- trees ------------------------------------------------------------------------------------
 */

static bool is_there(const struct salvage *s, const struct child *child, unsigned level)
{
    return child->ref < s->pages && (s->marks[child->ref] & MARK_NODE) != 0 &&
           (s->marks[child->ref] & MARK_TAKEN) == 0 &&
           page_at(s->from, child->ref)->birth == child->birth &&
           page_at(s->from, child->ref)->level == level;
}

static bool is_whole_child(const struct salvage *s, const struct page *parent,
                           const struct child *child)
{
    return child->ref < s->pages && (s->marks[child->ref] & MARK_NODE) != 0 &&
           page_at(s->from, child->ref)->birth == child->birth &&
           page_at(s->from, child->ref)->level + 1u == parent->level;
}

static int make_hole(struct salvage *s, size_t tree, const struct child *child, unsigned level,
                     const struct ps_slice *low, const struct ps_slice *high)
{
    struct hole hole = {.tree = tree,
                        .child = *child,
                        .level = level,
                        .has_low = low != NULL,
                        .has_high = high != NULL};
    bool kept = (low == NULL || bytes_keep(&hole.low, *low)) &&
                (high == NULL || bytes_keep(&hole.high, *high));
    if (!kept || !vec_push(&s->holes, hole)) {
        vec_free(&hole.low);
        vec_free(&hole.high);
        return PS_NOMEM;
    }
    return 0;
}

/* Entries below a child, in order. Bounds are those that the parents know. */
static int walk(struct salvage *s, size_t tree, const struct child *child, unsigned level,
                const struct ps_slice *low, const struct ps_slice *high)
{
    if (!is_there(s, child, level)) {
        return make_hole(s, tree, child, level, low, high);
    }
    s->marks[child->ref] |= MARK_TAKEN;
    if (level == 0) {
        return take_leaf(s, tree, child->ref, false);
    }
    const struct page *p = page_at(s->from, child->ref);
    struct ps_slice key = {0};
    const struct ps_slice *from = low;
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < p->count; i++) {
        struct child below;
        node_child(p, i, &below);
        struct node_entry next = {0};
        const struct ps_slice *to = high;
        if (i + 1u < p->count &&
            node_read(s->from, p, i + 1, s->keybuf[level][i % 2], &next) == 0) {
            to = &next.key;
            take_run(s, &next.key_run);
        }
        rc = walk(s, tree, &below, level - 1, from, to);
        if (to == &next.key) {
            key = next.key;
            from = &key;
        }
    }
    return rc;
}

/* ---- roots without names ----------------------------------------------------------------------
 */

struct orphan {
    page_ref ref;
    uint64_t birth;
};

static int newest_first(const void *a, const void *b)
{
    const struct orphan *x = a;
    const struct orphan *y = b;
    if (x->birth != y->birth) {
        return x->birth > y->birth ? -1 : 1;
    }
    return (x->ref > y->ref) - (x->ref < y->ref);
}

/* Whole leaves (or branches that no branch names) that no tree has, newest first. */
static int list_orphans(struct salvage *s, unsigned kind, struct orphan **list, size_t *n)
{
    VEC(struct orphan) v = {0};
    for (page_ref ref = s->reserved; ref < s->pages; ref++) {
        if ((s->marks[ref] & (MARK_NODE | MARK_TAKEN | MARK_FREE)) != MARK_NODE) {
            continue;
        }
        const struct page *p = page_at(s->from, ref);
        if (p->kind != kind || (kind == PAGE_BRANCH && (s->marks[ref] & MARK_CHILD))) {
            continue;
        }
        struct orphan orphan = {ref, p->birth};
        if (!vec_push(&v, orphan)) {
            vec_free(&v);
            return PS_NOMEM;
        }
    }
    if (v.n > 0) {
        qsort(v.at, v.n, sizeof *v.at, newest_first);
    }
    *list = v.at;
    *n = v.n;
    return 0;
}

/* Whether a page below was read already: the subtree is an older version of something. */
static bool shares(struct salvage *s, page_ref ref)
{
    const struct page *p = page_at(s->from, ref);
    if (s->marks[ref] & MARK_TAKEN) {
        return true;
    }
    for (unsigned i = 0; p->kind == PAGE_BRANCH && i < p->count; i++) {
        struct child child;
        node_child(p, i, &child);
        if (is_whole_child(s, p, &child) && shares(s, child.ref)) {
            return true;
        }
    }
    return false;
}

static void disown(struct salvage *s, page_ref ref)
{
    const struct page *p = page_at(s->from, ref);
    s->marks[ref] |= MARK_TAKEN;
    for (unsigned i = 0; p->kind == PAGE_BRANCH && i < p->count; i++) {
        struct child child;
        node_child(p, i, &child);
        if (is_whole_child(s, p, &child) && !(s->marks[child.ref] & MARK_TAKEN)) {
            disown(s, child.ref);
        }
    }
}

/* A tree of the catalogue that some page below is part of, + 1; 0: none. */
static size_t owner_below(struct salvage *s, page_ref ref)
{
    const struct page *p = page_at(s->from, ref);
    size_t owner = s->owners != NULL ? s->owners[ref] : 0;
    for (unsigned i = 0; owner == 0 && p->kind == PAGE_BRANCH && i < p->count; i++) {
        struct child child;
        node_child(p, i, &child);
        if (is_whole_child(s, p, &child)) {
            owner = owner_below(s, child.ref);
        }
    }
    return owner;
}

/* Notes which pages are below a root of the catalogue. */
static void own_below(struct salvage *s, const struct child *child, unsigned level, uint16_t owner)
{
    const struct page *p = page_at(s->from, child->ref);
    if (s->owners[child->ref] != 0) {
        return;
    }
    s->owners[child->ref] = owner;
    for (unsigned i = 0; level > 0 && i < p->count; i++) {
        struct child below;
        node_child(p, i, &below);
        if (is_there(s, &below, level - 1)) {
            own_below(s, &below, level - 1, owner);
        }
    }
}

static int note_owners(struct salvage *s)
{
    s->owners = calloc((size_t)s->pages + 1, sizeof *s->owners);
    if (s->owners == NULL) {
        return PS_NOMEM;
    }
    for (uint32_t i = 0; i < s->state->ntrees; i++) {
        const struct tree_root *t = &s->state->trees[i];
        if (t->name != NULL && t->root.ref != 0 && is_there(s, &t->root, t->level)) {
            own_below(s, &t->root, t->level, (uint16_t)(i + 1));
        }
    }
    return 0;
}

/* The tree that a root without a name is: one of the catalogue that it shares pages with, and of
 * which no newer version was found; else one with a name of its own. */
static int name_root(struct salvage *s, page_ref ref, size_t *tree)
{
    char name[32];
    size_t owner = owner_below(s, ref);
    if (owner > 0 && !s->renewed[owner - 1]) {
        const struct tree_root *t = &s->state->trees[owner - 1];
        s->renewed[owner - 1] = true;
        salvage_finding(s, ref, "the root of a newer version of tree '%.*s' than the catalogue has",
                        t->name->len > 80 ? 80 : t->name->len, t->name->bytes);
        int rc = salvage_known_tree(s, t, tree);
        if (rc == 0) {
            s->trees.at[*tree].old = (ps_tree)(owner - 1);
            s->trees.at[*tree].known = true;
        }
        return rc;
    }
    int len = snprintf(name, sizeof name, "lost+found.%zu", ++s->nameless);
    salvage_finding(s, ref, "the root of a tree without a name: see '%s'", name);
    return salvage_tree(s, (struct ps_slice){name, (size_t)len}, tree);
}

/* Branches that nothing names are roots; of each tree, the newest version. */
static int nameless_trees(struct salvage *s)
{
    struct orphan *roots;
    size_t n;
    uint64_t since = s->state != NULL ? stamp_of(s->state) : 0;
    int rc = list_orphans(s, PAGE_BRANCH, &roots, &n);
    for (size_t i = 0; rc == 0 && i < n && roots[i].birth > since; i++) {
        size_t tree;
        unsigned level = page_at(s->from, roots[i].ref)->level;
        if (shares(s, roots[i].ref)) {
            disown(s, roots[i].ref);
            continue;
        }
        rc = name_root(s, roots[i].ref, &tree);
        struct child root = {.ref = roots[i].ref, .birth = roots[i].birth};
        rc = rc == 0 ? walk(s, tree, &root, level, NULL, NULL) : rc;
    }
    free(roots);
    return rc;
}

static int named_trees(struct salvage *s)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < s->state->ntrees; i++) {
        const struct tree_root *t = &s->state->trees[i];
        size_t tree;
        if (t->name == NULL || s->renewed[i]) {
            continue;
        }
        rc = salvage_known_tree(s, t, &tree);
        if (rc == 0) {
            s->trees.at[tree].old = i;
            s->trees.at[tree].known = true;
            rc = t->root.ref == 0 ? 0 : walk(s, tree, &t->root, t->level, NULL, NULL);
        }
    }
    return rc;
}

int salvage_trees(struct salvage *s)
{
    int rc = s->state != NULL && !s->exact ? note_owners(s) : 0;
    rc = rc == 0 && !s->exact ? nameless_trees(s) : rc;
    return rc == 0 && s->state != NULL ? named_trees(s) : rc;
}

/* ---- leaves without parents -------------------------------------------------------------------
 */

static bool fits(struct salvage *s, const struct hole *hole, const struct page *p)
{
    struct node_entry first, last;
    /* A page may be older than what is below it, by transactions that made both; not the state. */
    if (hole->level == 0 || (s->exact && p->birth > stamp_of(s->state)) ||
        node_read(s->from, p, 0, s->keybuf[0][0], &first) != 0 ||
        node_read(s->from, p, p->count - 1u, s->keybuf[0][1], &last) != 0) {
        return false;
    }
    struct ps_slice low = bytes_slice(&hole->low);
    struct ps_slice high = bytes_slice(&hole->high);
    return (!hole->has_low || slice_order(first.key, low) >= 0) &&
           (!hole->has_high || slice_order(last.key, high) < 0);
}

/* The tree whose hole a leaf fits into; in those of several, or in none: lost+found. False: it is
 * of an older state. */
static bool place_of(struct salvage *s, const struct page *p, struct hole **hole)
{
    bool several = false;
    *hole = NULL;
    for (size_t i = 0; i < s->holes.n; i++) {
        if (!fits(s, &s->holes.at[i], p)) {
            continue;
        }
        several = *hole != NULL && (*hole)->tree != s->holes.at[i].tree;
        if (several) {
            *hole = NULL;
            break;
        }
        *hole = &s->holes.at[i];
    }
    bool current =
        s->report->space_map || s->state == NULL || (!s->exact && p->birth > stamp_of(s->state));
    return *hole != NULL || several || current;
}

static int lost_and_found(struct salvage *s, size_t *tree)
{
    if (s->lost_and_found == 0) {
        int rc = salvage_tree(s, (struct ps_slice){"lost+found", 10}, tree);
        s->lost_and_found = rc == 0 ? *tree + 1 : 0;
        return rc;
    }
    *tree = s->lost_and_found - 1;
    return 0;
}

static void report_hole(struct salvage *s, const struct hole *hole)
{
    char low[80], high[80];
    uint64_t entries = child_entries(&hole->child);
    uint64_t lost = entries > hole->found ? entries - hole->found : 0;
    const struct old_tree *tree = &s->trees.at[hole->tree];
    salvage_key(bytes_slice(&hole->low), low);
    salvage_key(bytes_slice(&hole->high), high);
    s->report->lost_subtrees++;
    s->report->lost_entries += lost;
    salvage_finding(s, hole->child.ref,
                    "%s of tree '%.*s' cannot be read: keys from %s%s%s to %s%s%s; %" PRIu64
                    " entries, %" PRIu64 " of them found elsewhere",
                    hole->level == 0 ? "a leaf" : "a branch",
                    tree->name_len > 40 ? 40 : tree->name_len, tree->name,
                    hole->has_low ? "'" : "the first", hole->has_low ? low : "",
                    hole->has_low ? "'" : "", hole->has_high ? "before '" : "the last",
                    hole->has_high ? high : "", hole->has_high ? "'" : "", entries, hole->found);
}

int salvage_orphans(struct salvage *s)
{
    struct orphan *leaves = NULL;
    size_t n = 0;
    int rc = s->holes.n > 0 || !s->exact ? list_orphans(s, PAGE_LEAF, &leaves, &n) : 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct page *p = page_at(s->from, leaves[i].ref);
        struct hole *hole;
        size_t tree;
        if (s->marks[leaves[i].ref] & MARK_TAKEN) {
            continue; /* part of a run, after all */
        }
        if (!place_of(s, p, &hole)) {
            continue;
        }
        tree = hole != NULL ? hole->tree : 0;
        rc = hole != NULL ? 0 : lost_and_found(s, &tree);
        if (rc != 0) {
            break;
        }
        uint64_t before = s->report->entries;
        s->marks[leaves[i].ref] |= MARK_TAKEN;
        rc = take_leaf(s, tree, leaves[i].ref, true);
        s->report->orphans++;
        s->report->orphan_entries += s->report->entries - before;
        if (hole != NULL) {
            hole->found += s->report->entries - before;
        }
    }
    free(leaves);
    if (rc == 0 && s->report->orphans > 0 && !s->report->space_map) {
        salvage_finding(
            s, 0,
            "without a space map, leaves of older states cannot be told from lost ones: "
            "among the %" PRIu64 " entries found elsewhere may be some that were deleted "
            "or changed later",
            s->report->orphan_entries);
    }
    for (size_t i = 0; rc == 0 && i < s->holes.n; i++) {
        report_hole(s, &s->holes.at[i]);
    }
    return rc;
}
