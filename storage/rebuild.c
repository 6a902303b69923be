/*
 * rebuild.c - see rebuild.h: gathering entries, measuring prefixes, building nodes.
 *
 * Each part gets the prefix with which it takes the least room. What is new above is put into the
 * parent by a fresh descent, so that a parent that splits in turn needs no special case.
 *
 * Threads: the holder of the token, in a transaction. A failure in the middle leaves the
 * transaction good for rolling back only.
 */
#include "storage/rebuild.h"

#include "storage/overflow.h"

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

/* ---- gathering ------------------------------------------------------------------------------ */

int rebuild_gather(struct rebuild *r, unsigned new_at, bool with_new)
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
int rebuild_measure(struct rebuild *r, unsigned from, unsigned to, uint32_t *prefix, uint32_t *size)
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
    uint32_t longest = slice_common(a.key, b.key);
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
    int rc = rebuild_measure(r, from, to, &prefix, &size);
    *yes = rc == 0 && size <= page_size_of(r);
    return rc;
}

/* ---- choosing the parts --------------------------------------------------------------------- */

void rebuild_set_parts(struct rebuild *r, unsigned a, unsigned b)
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

int rebuild_two_fit(struct rebuild *r, unsigned at, bool *yes)
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
unsigned rebuild_middle(const struct rebuild *r)
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

/* ---- building ------------------------------------------------------------------------------- */

/* Lays out part k in a scratch page; *first gets the entry it begins with (key in keys[3]). */
int rebuild_part(struct rebuild *r, unsigned k, struct child *child)
{
    struct ps_store *store = r->txn->view.store;
    unsigned from = r->bounds[k];
    unsigned to = r->bounds[k + 1];
    uint32_t prefix, size;
    int rc = rebuild_measure(r, from, to, &prefix, &size);
    if (rc != 0) {
        return rc;
    }
    rc = view_end(&r->txn->view, 0); /* keys in runs were compared */
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

/* Only in a damaged file: a page's own order was checked, that of two pages was not. */
static int out_of_order(struct rebuild *r, unsigned at)
{
    struct ps_store *store = r->txn->view.store;
    const struct page *p = r->items[at].page;
    page_ref ref = p != NULL ? p->number : 0;
    return store_fault(store, PS_CORRUPT, 0, store->file_path, ref << store->page_shift,
                       "keys of two pages are out of order");
}

/* The key that separates part k from the one before. In branches the first key moves up. */
static int separator_of(struct rebuild *r, unsigned k, uint8_t *copy, struct node_entry *sep)
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
        sep->key.len = slice_common(before.key, e.key) + 1u;
        if (sep->key.len > e.key.len) {
            return out_of_order(r, at);
        }
        if (sep->key.len > key_inline_max(store->page_size)) {
            rc = run_make(r->txn, sep->key, &sep->key_run);
            store->stat.overflow_separators++;
        }
    }
    if (rc != 0 || sep->key_run.ref != 0) {
        return rc; /* its bytes are in a run, or the caller's: they stay where they are */
    }
    memcpy(copy, sep->key.data, sep->key.len); /* outlives the sources and the scratch keys */
    sep->key.data = copy;
    return 0;
}

/* A separator in a run of the file needs pages that only a put of its own has reserved. */
int rebuild_may_cut(struct rebuild *r, unsigned at, bool *yes)
{
    struct ps_store *store = r->txn->view.store;
    struct node_entry before, e;
    if (!*yes || r->level > 0 || !atomic_load_explicit(&store->file_keys, memory_order_relaxed)) {
        return 0;
    }
    int rc = item_read(r, at - 1, store->keys[1], &before);
    rc = rc == 0 ? item_read(r, at, store->keys[2], &e) : rc;
    *yes = rc == 0 && !run_is_long(slice_common(before.key, e.key) + 1u);
    return rc;
}

/* Recomputes what the ancestors say of the path's nodes from a level upwards. */
void recount(struct tree_root *root, const struct path *path, unsigned level)
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
    if (r->root->level + 1u == TREE_MAX_LEVELS) {
        return store_fault(store, PS_CORRUPT, 0, store->file_path, 0,
                           "a tree of more levels than trees grow to");
    }
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

/* Whether part 0 is the only source as it is: a leaf without garbage that is left full, when a new
 * entry goes to a page of its own. */
static bool first_part_stays(const struct rebuild *r)
{
    return r->level == 0 && r->nsources == 1 && r->nparts == 2 && r->bounds[1] == r->n - 1 &&
           r->items[r->n - 1].override == NEW_ITEM && r->source[0]->dead == 0;
}

/* Builds all parts in scratch pages, finds what separates them, and gives each its page. */
static int lay_out(struct rebuild *r, const struct child source[2], uint8_t *sep_keys,
                   struct child parts[MAX_PARTS], struct node_entry seps[MAX_PARTS])
{
    struct ps_store *store = r->txn->view.store;
    int rc = 0;
    unsigned from = first_part_stays(r) ? 1 : 0;
    if (from > 0) {
        parts[0].count = r->source[0]->count;
        parts[0].count |= r->source[0]->flags & PAGE_HAS_OVERFLOW ? CHILD_OVERFLOW : 0;
    }
    for (unsigned k = from; rc == 0 && k < r->nparts; k++) {
        rc = rebuild_part(r, k, &parts[k]);
        if (rc == 0 && k > 0) {
            uint8_t *key = sep_keys + (k - 1) * key_inline_max(store->page_size);
            rc = separator_of(r, k, key, &seps[k]);
        }
    }
    for (unsigned k = 0; rc == 0 && k < r->nparts; k++) {
        rc = place(r, k, source, &parts[k]);
    }
    for (unsigned k = from; rc == 0 && k < r->nparts; k++) {
        struct page *p = page_mut(store, parts[k].ref);
        memcpy(p, store->scratch[k], store->page_size);
        p->birth = parts[k].birth;
        p->number = 0;
    }
    return rc;
}

/* Tells the parent (or a new root) of the first part; a second source's entry goes. */
static int tell_parent(struct rebuild *r, struct path *path, const struct child *first)
{
    struct ps_store *store = r->txn->view.store;
    if (r->parent == NULL) {
        return r->nparts > 1 ? raise_tree(r, first) : 0;
    }
    node_set_child(r->parent, r->parent_index, first);
    int rc = 0;
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
    return rc;
}

/* Carries the plan out. `source` are the children of the sources as their parent knows them. */
int rebuild_run(struct rebuild *r, struct path *path, const struct child source[2])
{
    struct child parts[MAX_PARTS] = {{0}};
    struct node_entry seps[MAX_PARTS];
    uint8_t *sep_keys = malloc(2 * (size_t)key_inline_max(page_size_of(r)));
    if (sep_keys == NULL) {
        return PS_NOMEM;
    }
    int rc = lay_out(r, source, sep_keys, parts, seps);
    if (rc == 0 && r->nparts < r->nsources) {
        rc = txn_drop(r->txn, source[1].ref, source[1].birth, 1);
    }
    rc = rc == 0 ? tell_parent(r, path, &parts[0]) : rc;
    for (unsigned k = 1; rc == 0 && k < r->nparts; k++) {
        seps[k].child = parts[k];
        rc = branch_put(r->txn, r->root, r->level + 1, &seps[k]);
    }
    free(sep_keys);
    return rc;
}
