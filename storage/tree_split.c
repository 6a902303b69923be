/*
 * tree_split.c - nodes that overflow or run low are rebuilt from their entries.
 *
 * One mechanism does it all: the entries of one node, or of two siblings, with a new one among
 * them, are laid out again over one to three nodes (rebuild). Splitting is one node over two,
 * sharing two over two, merging two over one. Each part gets the longest prefix that pays. What is
 * new above is put into the parent by a fresh descent, so that a parent that splits in turn needs
 * no special case.
 *
 * A leaf that overflows first shares with a sibling that has room, so that random insertion fills
 * pages well; an insertion at the end of the last leaf leaves the full one full.
 */
#include "storage/overflow.h"
#include "storage/tree.h"

#define MAX_PARTS 3u
#define NEW_ITEM  1u /* override: the entry being put */
#define SEPARATOR 2u /* override: the second source's first child, with its key from the parent */

/* One entry on its way from a source to a part. */
struct item {
    const struct page *page;
    uint16_t index;
    uint8_t override;
    bool key_in_run;
    uint32_t key_len;
    uint32_t fixed; /* bytes of cell besides an inline key, and 6 of index */
};

struct rebuild {
    struct ps_txn *txn;
    struct tree_root *root;
    unsigned level;
    struct item *items;
    unsigned n;
    struct node_entry new_entry, separator;
    struct page *source[2];
    unsigned nsources;
    struct page *parent; /* NULL: the node is the root */
    unsigned parent_index;
    unsigned bounds[MAX_PARTS + 1]; /* part k: items [bounds[k], bounds[k + 1]) */
    unsigned nparts;
};

static uint32_t page_size_of(const struct rebuild *r)
{
    return r->txn->view.store->page_size;
}

static uint32_t inline_rest(uint32_t key_len, uint32_t prefix)
{
    uint32_t suffix = key_len > prefix ? key_len - prefix : 0;
    return suffix > 4 ? suffix - 4 : 0;
}

static struct item item_of_entry(const struct node_entry *e, bool leaf, uint8_t override)
{
    struct item it = {
        .override = override, .key_in_run = e->key_run.ref != 0, .key_len = (uint32_t)e->key.len};
    it.fixed = 6 + entry_cell_size(e, leaf, (uint32_t)e->key.len);
    return it;
}

static struct item item_of_cell(const struct page *p, unsigned i)
{
    struct item it = {.page = p, .index = (uint16_t)i};
    uint32_t suffix;
    node_key_size(p, i, &suffix, &it.key_in_run);
    it.key_len = it.key_in_run ? UINT32_MAX : p->prefix_len + suffix;
    it.fixed = 6 + node_cell_size(p, i) - (it.key_in_run || suffix <= 4 ? 0 : suffix - 4);
    return it;
}

static uint32_t item_size(const struct item *it, uint32_t prefix)
{
    return it->fixed + (it->key_in_run ? 0 : inline_rest(it->key_len, prefix));
}

static int item_read(struct rebuild *r, unsigned i, uint8_t *keybuf, struct node_entry *e)
{
    const struct item *it = &r->items[i];
    if (it->override != 0) {
        *e = it->override == NEW_ITEM ? r->new_entry : r->separator;
        return 0;
    }
    return node_read(r->txn->view.store, it->page, it->index, keybuf, e);
}

static uint32_t common(struct ps_slice a, struct ps_slice b)
{
    const uint8_t *x = a.data;
    const uint8_t *y = b.data;
    size_t n = a.len < b.len ? a.len : b.len;
    uint32_t i = 0;
    while (i < n && x[i] == y[i]) {
        i++;
    }
    return i;
}

/* ---- gathering ------------------------------------------------------------------------------ */

static int gather(struct rebuild *r, unsigned new_at, bool with_new)
{
    struct ps_store *store = r->txn->view.store;
    size_t most = 1;
    for (unsigned s = 0; s < r->nsources; s++) {
        most += r->source[s]->count;
    }
    if (vec_grow((void **)&store->items, most * sizeof(struct item), &store->items_room, 1) == 0) {
        return PS_NOMEM;
    }
    r->items = (struct item *)(void *)store->items;
    r->n = 0;
    bool leaf = r->level == 0;
    for (unsigned s = 0; s < r->nsources; s++) {
        const struct page *p = r->source[s];
        for (unsigned i = 0; i < p->count; i++) {
            if (with_new && r->n == new_at) {
                r->items[r->n++] = item_of_entry(&r->new_entry, leaf, NEW_ITEM);
            }
            r->items[r->n++] = s > 0 && i == 0 && !leaf
                                   ? item_of_entry(&r->separator, leaf, SEPARATOR)
                                   : item_of_cell(p, i);
        }
    }
    if (with_new && r->n == new_at) {
        r->items[r->n++] = item_of_entry(&r->new_entry, leaf, NEW_ITEM);
    }
    return 0;
}

/* The entries of a part that have a key: all, but for the first of a branch. */
static unsigned first_keyed(const struct rebuild *r, unsigned from)
{
    return r->level == 0 ? from : from + 1;
}

static uint32_t size_with(const struct rebuild *r, unsigned from, unsigned to, uint32_t prefix)
{
    uint32_t size = PAGE_HEADER + ((prefix + 3) & ~3u);
    unsigned keyed = first_keyed(r, from);
    for (unsigned i = from; i < to && size <= 2 * PAGE_MAX; i++) {
        const struct item *it = &r->items[i];
        if (i >= keyed) {
            size += item_size(it, prefix);
        } else {
            size += 6 + (uint32_t)sizeof(struct child) + 2;
        }
    }
    return size;
}

/* The prefix with which items [from, to) take the least room, and that room. */
static int measure(struct rebuild *r, unsigned from, unsigned to, uint32_t *prefix, uint32_t *size)
{
    struct ps_store *store = r->txn->view.store;
    unsigned keyed = first_keyed(r, from);
    *prefix = 0;
    *size = size_with(r, from, to, 0);
    if (to < keyed + 2) {
        return 0;
    }
    struct node_entry a, b;
    int rc = item_read(r, keyed, store->keys[1], &a);
    if (rc == 0) {
        rc = item_read(r, to - 1, store->keys[2], &b);
    }
    if (rc != 0) {
        return rc;
    }
    uint32_t longest = common(a.key, b.key);
    uint32_t most = key_inline_max(store->page_size);
    longest = longest > most ? most : longest;
    const struct page *p = r->items[keyed].page;
    uint32_t candidates[2] = {longest, p != NULL && p->prefix_len < longest ? p->prefix_len : 0};
    for (unsigned k = 0; k < 2; k++) {
        uint32_t with = candidates[k] == 0 ? *size : size_with(r, from, to, candidates[k]);
        if (with < *size) {
            *size = with;
            *prefix = candidates[k];
        }
    }
    return 0;
}

static int fits(struct rebuild *r, unsigned from, unsigned to, bool *yes)
{
    uint32_t prefix, size;
    int rc = measure(r, from, to, &prefix, &size);
    *yes = rc == 0 && size <= page_size_of(r);
    return rc;
}

/* ---- choosing the parts --------------------------------------------------------------------- */

static void set_parts(struct rebuild *r, unsigned a, unsigned b)
{
    r->bounds[0] = 0;
    r->nparts = 1;
    if (a > 0 && a < r->n) {
        r->bounds[r->nparts++] = a;
    }
    if (b > a && b < r->n) {
        r->bounds[r->nparts++] = b;
    }
    r->bounds[r->nparts] = r->n;
}

static int two_fit(struct rebuild *r, unsigned at, bool *yes)
{
    *yes = false;
    if (at == 0 || at >= r->n) {
        return 0;
    }
    int rc = fits(r, 0, at, yes);
    if (rc == 0 && *yes) {
        rc = fits(r, at, r->n, yes);
    }
    return rc;
}

/* Where both halves are about equal in bytes. */
static unsigned middle(const struct rebuild *r)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < r->n; i++) {
        total += item_size(&r->items[i], 0);
    }
    uint64_t sum = 0;
    unsigned at = 0;
    while (at < r->n && sum + item_size(&r->items[at], 0) / 2 < total / 2) {
        sum += item_size(&r->items[at++], 0);
    }
    return at < 1 ? 1 : at >= r->n ? r->n - 1 : at;
}

/* Siblings with prefixes of their own may take more room together than apart, so that what should
 * be shared does not fit into two nodes: then their border stays, and the one with the new entry
 * splits. A key in its middle shares its prefix; then one side of the new entry has room for it. */
static int split_apart(struct rebuild *r, unsigned new_at)
{
    unsigned border = r->source[0]->count;
    unsigned from = new_at < border ? 0 : border;
    unsigned to = new_at < border ? border + 1 : r->n;
    unsigned tries[] = {from + (to - from) / 2, new_at, new_at + 1};
    bool yes = false;
    int rc = 0;
    if (new_at == border) {
        set_parts(r, border, border + 1);
        return 0;
    }
    for (unsigned k = 0; rc == 0 && k < sizeof tries / sizeof *tries; k++) {
        if (tries[k] <= from || tries[k] >= to) {
            continue;
        }
        rc = fits(r, from, tries[k], &yes);
        if (rc == 0 && yes) {
            rc = fits(r, tries[k], to, &yes);
        }
        if (rc == 0 && yes) {
            set_parts(r, from == 0 ? tries[k] : border, from == 0 ? to : tries[k]);
            return 0;
        }
    }
    PS_ASSERT(rc != 0);
    return rc;
}

/* Two parts if that is possible anywhere near: the middle, its neighbours, the edges of the new
 * entry (which may be what has no prefix in common with the rest). Otherwise three. */
static int choose_split(struct rebuild *r, unsigned new_at, bool ascending)
{
    struct ps_store *store = r->txn->view.store;
    unsigned mid = ascending ? r->n - 1 : middle(r);
    unsigned tries[] = {mid, middle(r), mid + 1, mid - 1, new_at, new_at + 1};
    for (unsigned k = 0; k < sizeof tries / sizeof *tries; k++) {
        bool yes;
        int rc = two_fit(r, tries[k], &yes);
        if (rc != 0) {
            return rc;
        }
        if (yes) {
            store->stat.edge_splits += k >= 4;
            set_parts(r, tries[k], 0);
            return 0;
        }
    }
    store->stat.edge_splits++;
    if (r->nsources == 2) {
        return split_apart(r, new_at);
    }
    set_parts(r, new_at, new_at + 1);
    if (new_at == 0) {
        set_parts(r, 1, 0);
    }
    return 0;
}

/* ---- building ------------------------------------------------------------------------------- */

/* Lays out part k in a scratch page; *first gets the entry it begins with (key in keys[3]). */
static int build(struct rebuild *r, unsigned k, struct child *child)
{
    struct ps_store *store = r->txn->view.store;
    unsigned from = r->bounds[k];
    unsigned to = r->bounds[k + 1];
    uint32_t prefix, size;
    int rc = measure(r, from, to, &prefix, &size);
    if (rc != 0) {
        return rc;
    }
    PS_ASSERT(size <= store->page_size);
    struct node_entry e = {0};
    if (prefix > 0) {
        rc = item_read(r, first_keyed(r, from), store->keys[1], &e);
    }
    struct page *p = (struct page *)(void *)store->scratch[k];
    node_init(p, store->page_size, r->level == 0 ? PAGE_LEAF : PAGE_BRANCH, (uint8_t)r->level,
              e.key.data, prefix);
    uint64_t count = 0;
    uint64_t flag = 0;
    for (unsigned i = from; rc == 0 && i < to; i++) {
        rc = item_read(r, i, store->keys[1], &e);
        if (rc != 0) {
            break;
        }
        if (i < first_keyed(r, from)) {
            e.key.len = 0;
            e.key_run.ref = 0;
        }
        node_insert(p, i - from, &e);
        count += r->level == 0 ? 1 : child_entries(&e.child);
        flag |= e.child.count & CHILD_OVERFLOW;
    }
    flag |= p->flags & PAGE_HAS_OVERFLOW ? CHILD_OVERFLOW : 0;
    child->count = count | flag;
    return rc;
}

/* The key that separates part k from the one before. In branches the first key moves up. */
static int separator_of(struct rebuild *r, unsigned k, struct node_entry *sep)
{
    struct ps_store *store = r->txn->view.store;
    unsigned at = r->bounds[k];
    memset(sep, 0, sizeof *sep);
    struct node_entry e, before;
    int rc = item_read(r, at, store->keys[1], &e);
    if (rc != 0) {
        return rc;
    }
    sep->key = e.key;
    if (r->level > 0) {
        sep->key_run = e.key_run;
    } else {
        rc = item_read(r, at - 1, store->keys[2], &before);
        if (rc != 0) {
            return rc;
        }
        sep->key.len = common(before.key, e.key) + 1u;
        if (sep->key.len > key_inline_max(store->page_size)) {
            rc = run_make(r->txn, sep->key, &sep->key_run);
            store->stat.overflow_separators++;
        }
    }
    if (rc != 0 || sep->key_run.ref != 0) {
        if (rc == 0) {
            const uint8_t *data;
            rc = run_data(store, &sep->key_run, &data);
            sep->key = (struct ps_slice){data, sep->key_run.len};
        }
        return rc;
    }
    uint8_t *copy = malloc(sep->key.len + 1); /* outlives the sources and the scratch keys */
    if (copy == NULL) {
        return PS_NOMEM;
    }
    memcpy(copy, sep->key.data, sep->key.len);
    sep->key.data = copy;
    return 0;
}

/* Recomputes what the ancestors say of the path's nodes from a level upwards. */
static void recount(struct tree_root *root, const struct path *path, unsigned level)
{
    for (unsigned l = level; l < path->levels; l++) {
        const struct page *p = path->page[l];
        uint64_t count = 0;
        uint64_t flag = p->flags & PAGE_HAS_OVERFLOW ? CHILD_OVERFLOW : 0;
        for (unsigned i = 0; i < p->count; i++) {
            struct child child;
            node_child(p, i, &child);
            count += child_entries(&child);
            flag |= child.count & CHILD_OVERFLOW;
        }
        if (l + 1 == path->levels) {
            root->root.count = count | flag;
        } else {
            struct child child;
            node_child(path->page[l + 1], path->index[l + 1], &child);
            child.count = count | flag;
            node_set_child(path->page[l + 1], path->index[l + 1], &child);
        }
    }
}

static int branch_put(struct ps_txn *txn, struct tree_root *root, unsigned level,
                      const struct node_entry *e)
{
    struct path path;
    unsigned i;
    int rc = path_own(txn, root, e->key, level, &path);
    if (rc == 0) {
        rc = node_search_child(txn->view.store, path.page[level], e->key, &i);
    }
    return rc == 0 ? node_put(txn, root, &path, level, i + 1, e) : rc;
}

/* A new root over the old one. */
static int raise_tree(struct rebuild *r, const struct child *first)
{
    struct ps_store *store = r->txn->view.store;
    page_ref ref;
    int rc = txn_alloc(r->txn, 1, &ref);
    if (rc != 0) {
        return rc;
    }
    struct page *p = page_mut(store, ref);
    memset(p, 0, PAGE_HEADER);
    p->birth = r->txn->stamp;
    node_init(p, store->page_size, PAGE_BRANCH, (uint8_t)(r->level + 1), NULL, 0);
    struct node_entry e = {.child = *first};
    node_insert(p, 0, &e);
    r->root->root = (struct child){ref, r->txn->stamp, first->count};
    r->root->level++;
    PS_ASSERT(r->root->level < TREE_MAX_LEVELS);
    if (store->stat.depth_max < r->root->level + 1u) {
        store->stat.depth_max = r->root->level + 1u;
    }
    return 0;
}

/* Gives part k its page: a source's, or a new slot. */
static int place(struct rebuild *r, unsigned k, const struct child *source, struct child *child)
{
    if (k < r->nsources) {
        child->ref = source[k].ref;
        child->birth = source[k].birth;
        return 0;
    }
    child->birth = r->txn->stamp;
    return txn_alloc(r->txn, 1, &child->ref);
}

/* Carries the plan out. `source` are the children of the sources as their parent knows them. */
static int rebuild_run(struct rebuild *r, struct path *path, const struct child source[2])
{
    struct ps_store *store = r->txn->view.store;
    struct child parts[MAX_PARTS] = {{0}};
    struct node_entry seps[MAX_PARTS];
    int rc = 0;
    for (unsigned k = 0; rc == 0 && k < r->nparts; k++) {
        rc = build(r, k, &parts[k]);
        if (rc == 0 && k > 0) {
            rc = separator_of(r, k, &seps[k]);
        }
    }
    for (unsigned k = 0; rc == 0 && k < r->nparts; k++) {
        rc = place(r, k, source, &parts[k]);
    }
    if (rc != 0) {
        return rc;
    }
    for (unsigned k = 0; k < r->nparts; k++) {
        struct page *p = page_mut(store, parts[k].ref);
        memcpy(p, store->scratch[k], store->page_size);
        p->birth = parts[k].birth;
        p->number = 0;
    }
    if (r->nparts < r->nsources) {
        rc = txn_drop(r->txn, source[1].ref, source[1].birth, 1);
    }
    if (rc == 0 && r->parent == NULL) {
        rc = r->nparts > 1 ? raise_tree(r, &parts[0]) : 0;
    } else if (rc == 0) {
        node_set_child(r->parent, r->parent_index, &parts[0]);
        if (r->nsources == 2) {
            /* Between leaves a new separator is made, if there still are two. */
            if (r->level == 0 && r->separator.key_run.ref != 0) {
                rc = run_drop(r->txn, &r->separator.key_run);
            }
            node_remove(r->parent, r->parent_index + 1, store->page_size);
        }
        if (r->nparts == 1) {
            recount(r->root, path, r->level + 1);
        }
    }
    for (unsigned k = 1; k < r->nparts; k++) {
        seps[k].child = parts[k];
        rc = rc == 0 ? branch_put(r->txn, r->root, r->level + 1, &seps[k]) : rc;
        if (seps[k].key_run.ref == 0) {
            free((void *)(uintptr_t)seps[k].key.data);
        }
    }
    return rc;
}

/* ---- overflowing ---------------------------------------------------------------------------- */

static void child_on_path(const struct path *path, const struct tree_root *root, unsigned level,
                          struct child *child)
{
    if (level + 1 == path->levels) {
        *child = root->root;
    } else {
        node_child(path->page[level + 1], path->index[level + 1], child);
    }
}

/* The key between two sources: a branch's first child takes it along. */
static int read_separator(struct rebuild *r, unsigned i)
{
    struct ps_store *store = r->txn->view.store;
    int rc = node_read(store, r->parent, i, store->keys[3], &r->separator);
    if (rc == 0 && r->level > 0) {
        node_child(r->source[1], 0, &r->separator.child);
    }
    return rc;
}

/* Makes the sources the path's node and the sibling on one side of it, both owned. */
static int take_sibling(struct rebuild *r, struct path *path, bool right, struct child source[2])
{
    struct page *parent = path->page[r->level + 1];
    unsigned i = path->index[r->level + 1];
    unsigned s = right ? i + 1 : i - 1;
    struct child sibling;
    node_child(parent, s, &sibling);
    struct page *page;
    int rc = page_own(r->txn, &sibling, r->level, &page);
    if (rc != 0) {
        return rc;
    }
    node_set_child(parent, s, &sibling);
    struct child own;
    node_child(parent, i, &own);
    r->parent = parent;
    r->parent_index = right ? i : s;
    r->nsources = 2;
    r->source[0] = right ? path->page[r->level] : page;
    r->source[1] = right ? page : path->page[r->level];
    source[0] = right ? own : sibling;
    source[1] = right ? sibling : own;
    return read_separator(r, r->parent_index + 1);
}

/* A sibling leaf with room for a fair share of an overflowing one's entries. */
static int find_roomy(struct rebuild *r, const struct path *path, uint32_t more, int *side)
{
    struct ps_store *store = r->txn->view.store;
    const struct page *parent = path->page[r->level + 1];
    unsigned i = path->index[r->level + 1];
    uint32_t used = node_used(path->page[r->level], store->page_size) + more;
    *side = 0;
    for (int d = 1; d >= -1; d -= 2) {
        if ((d < 0 && i == 0) || (d > 0 && i + 1 >= parent->count)) {
            continue;
        }
        struct child child;
        node_child(parent, (unsigned)((int)i + d), &child);
        const struct page *sibling;
        int rc = page_get(store, &child, r->level, &sibling);
        if (rc != 0) {
            return rc;
        }
        uint32_t both = used + node_used(sibling, store->page_size);
        if (both <= 2 * store->page_size - store->page_size / 5) {
            *side = d;
            return 0;
        }
    }
    return 0;
}

static bool at_right_edge(const struct path *path, unsigned level)
{
    for (unsigned l = level + 1; l < path->levels; l++) {
        if (path->index[l] + 1u < path->page[l]->count) {
            return false;
        }
    }
    return true;
}

static int overflow(struct ps_txn *txn, struct tree_root *root, struct path *path, unsigned level,
                    unsigned i, const struct node_entry *e)
{
    struct ps_store *store = txn->view.store;
    struct rebuild r = {.txn = txn, .root = root, .level = level, .new_entry = *e, .nsources = 1};
    struct child source[2];
    r.source[0] = path->page[level];
    child_on_path(path, root, level, &source[0]);
    bool has_parent = level + 1 < path->levels;
    bool ascending = i == r.source[0]->count && at_right_edge(path, level);
    int rc = 0;
    if (level == 0 && has_parent && !ascending) {
        int side;
        rc = find_roomy(&r, path, 6 + entry_cell_size(e, true, 0), &side);
        if (rc == 0 && side != 0) {
            rc = take_sibling(&r, path, side > 0, source);
            unsigned at = side > 0 ? i : r.source[0]->count + i;
            rc = rc == 0 ? gather(&r, at, true) : rc;
            bool yes = false;
            unsigned mid = rc == 0 ? middle(&r) : 0;
            rc = rc == 0 ? two_fit(&r, mid, &yes) : rc;
            if (rc == 0 && yes) {
                store->stat.shares++;
                set_parts(&r, mid, 0);
                return rebuild_run(&r, path, source);
            }
            r.nsources = 1;
            r.source[0] = path->page[level];
            child_on_path(path, root, level, &source[0]);
        }
    }
    if (rc == 0 && has_parent) {
        r.parent = path->page[level + 1];
        r.parent_index = path->index[level + 1];
    }
    rc = rc == 0 ? gather(&r, i, true) : rc;
    rc = rc == 0 ? choose_split(&r, i, ascending) : rc;
    store->stat.splits++;
    return rc == 0 ? rebuild_run(&r, path, source) : rc;
}

/* Lays the node out again in place, without garbage and with the prefix that suits a new entry.
 * *done: the entry is in. */
static int rebuild_in_place(struct ps_txn *txn, struct path *path, unsigned level, unsigned i,
                            const struct node_entry *e, bool *done)
{
    struct ps_store *store = txn->view.store;
    struct page *p = path->page[level];
    struct rebuild r = {.txn = txn, .level = level, .new_entry = *e, .nsources = 1};
    r.source[0] = p;
    *done = false;
    int rc = gather(&r, i, true);
    uint32_t prefix, size;
    rc = rc == 0 ? measure(&r, 0, r.n, &prefix, &size) : rc;
    if (rc != 0 || size > store->page_size) {
        return rc;
    }
    set_parts(&r, 0, 0);
    struct child ignored;
    rc = build(&r, 0, &ignored);
    if (rc == 0) {
        uint64_t birth = p->birth;
        memcpy(p, store->scratch[0], store->page_size);
        p->birth = birth;
        p->number = 0;
        *done = true;
    }
    return rc;
}

int node_put(struct ps_txn *txn, struct tree_root *root, struct path *path, unsigned level,
             unsigned i, const struct node_entry *e)
{
    struct page *p = path->page[level];
    uint32_t plen = p->prefix_len;
    bool prefixed =
        plen == 0 || (e->key.len >= plen && memcmp(e->key.data, node_prefix(p), plen) == 0);
    bool done = prefixed && node_gap(p) >= 6 + entry_cell_size(e, level == 0, plen);
    int rc = 0;
    if (done) {
        node_insert(p, i, e);
    } else {
        rc = rebuild_in_place(txn, path, level, i, e, &done);
    }
    if (rc == 0 && !done) {
        return overflow(txn, root, path, level, i, e);
    }
    if (rc == 0 && level > 0) {
        recount(root, path, level);
    }
    return rc;
}

/* ---- running low ---------------------------------------------------------------------------- */

/* Lowers the tree while its root has a single child; an empty root goes. */
static int lower_tree(struct ps_txn *txn, struct tree_root *root)
{
    struct ps_store *store = txn->view.store;
    int rc = 0;
    while (rc == 0 && root->root.ref != 0) {
        const struct page *p;
        rc = page_get(store, &root->root, root->level, &p);
        if (rc != 0 || (p->count > 0 && (root->level == 0 || p->count > 1))) {
            break;
        }
        struct child old = root->root;
        if (p->count == 0) {
            memset(&root->root, 0, sizeof root->root);
            root->level = 0;
        } else {
            node_child(p, 0, &root->root);
            root->level--;
        }
        rc = txn_drop(txn, old.ref, old.birth, 1);
    }
    return rc;
}

/* The path's node has no entry left: takes it out of its parent. */
static int remove_empty(struct ps_txn *txn, struct tree_root *root, struct path *path,
                        unsigned level)
{
    struct ps_store *store = txn->view.store;
    struct page *parent = path->page[level + 1];
    unsigned i = path->index[level + 1];
    struct child gone;
    node_child(parent, i, &gone);
    int rc = txn_drop(txn, gone.ref, gone.birth, 1);
    if (rc == 0 && parent->count > 1) {
        struct run_ref key, value;
        unsigned out = i == 0 ? 1 : i; /* entry 0 has no key: the next child takes its place */
        node_runs(parent, out, &key, &value);
        rc = key.ref != 0 ? run_drop(txn, &key) : 0;
        if (i == 0) {
            struct child next;
            node_child(parent, 1, &next);
            node_set_child(parent, 0, &next);
        }
        node_remove(parent, out, store->page_size);
    } else if (rc == 0) {
        node_remove(parent, 0, store->page_size);
    }
    if (rc == 0) {
        recount(root, path, level + 1);
        rc = node_thinned(txn, root, path, level + 1);
    }
    return rc;
}

int node_thinned(struct ps_txn *txn, struct tree_root *root, struct path *path, unsigned level)
{
    struct ps_store *store = txn->view.store;
    struct page *p = path->page[level];
    if (level + 1 == path->levels) {
        return lower_tree(txn, root);
    }
    if (p->count == 0) {
        return remove_empty(txn, root, path, level);
    }
    struct page *parent = path->page[level + 1];
    if (node_used(p, store->page_size) >= store->page_size / 4 || parent->count < 2) {
        return 0;
    }
    struct rebuild r = {.txn = txn, .root = root, .level = level};
    struct child source[2];
    int rc = take_sibling(&r, path, path->index[level + 1] + 1u < parent->count, source);
    rc = rc == 0 ? gather(&r, 0, false) : rc;
    uint32_t prefix, size;
    rc = rc == 0 ? measure(&r, 0, r.n, &prefix, &size) : rc;
    if (rc != 0) {
        return rc;
    }
    if (size <= store->page_size - store->page_size / 8) {
        set_parts(&r, 0, 0);
        store->stat.merges++;
        rc = rebuild_run(&r, path, source);
        return rc == 0 ? node_thinned(txn, root, path, level + 1) : rc;
    }
    bool yes;
    unsigned mid = middle(&r);
    rc = two_fit(&r, mid, &yes);
    if (rc != 0 || !yes) {
        return rc; /* it stays thin */
    }
    store->stat.shares++;
    set_parts(&r, mid, 0);
    return rebuild_run(&r, path, source);
}
