/*
 * check.c - the full check of a checkpoint in the file.
 *
 * Every page of the state is read and verified whatever was verified before; keys ascend and stay
 * within what the parent says, and are found by the prefix and head that stand for them; counts and
 * overflow flags are what the parents say; every page is reached exactly once; and the space map
 * says of every page whether it was reached.
 *
 * Threads: any; holds back checkpoints while it runs, nothing else.
 */
#include <inttypes.h>
#include <stdarg.h>

#include "storage/node.h"
#include "storage/overflow.h"
#include "storage/store.h"

struct check {
    struct ps_store *store;
    void (*report)(void *arg, const char *line);
    void *arg;
    uint64_t *seen;
    uint64_t pages;
    uint64_t findings;
};

static void finding(struct check *c, page_ref page, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void finding(struct check *c, page_ref page, const char *format, ...)
{
    char what[256];
    char line[600];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(line, sizeof line, "%s: offset %" PRIu64 " (page %" PRIu64 "): %s",
             c->store->file_path, page << c->store->page_shift, page, what);
    c->findings++;
    if (c->report != NULL) {
        c->report(c->arg, line);
    }
}

/* Notes that pages are in use; false if they were before. */
static bool reach(struct check *c, page_ref first, uint64_t pages, const char *what)
{
    for (page_ref page = first; page < first + pages; page++) {
        if (page >= c->pages) {
            finding(c, page, "%s outside the file", what);
            return false;
        }
        uint64_t bit = UINT64_C(1) << (page % 64);
        if (c->seen[page / 64] & bit) {
            finding(c, page, "%s is used twice", what);
            return false;
        }
        c->seen[page / 64] |= bit;
    }
    return true;
}

static int order_of(struct ps_slice a, struct ps_slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n > 0 ? memcmp(a.data, b.data, n) : 0;
    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

static void check_run(struct check *c, const struct run_ref *run)
{
    if (run->ref == 0) {
        return;
    }
    if (run_verify(c->store, run) != 0) {
        struct ps_fault fault;
        ps_last_fault(c->store, &fault);
        finding(c, run->ref, "%s", fault.what);
        if (run->len > PS_MAX_VALUE) {
            return;
        }
    }
    reach(c, run->ref, run_pages(run->len, c->store->page_shift), "an overflow run");
}

struct found {
    uint64_t entries;
    bool overflow;
};

static struct found check_node(struct check *c, const struct child *child, unsigned level,
                               const struct ps_slice *low, const struct ps_slice *high);

static void check_child(struct check *c, const struct page *p, unsigned i, unsigned level,
                        struct ps_slice key, const struct ps_slice *low,
                        const struct ps_slice *high, struct found *sum)
{
    struct child child;
    node_child(p, i, &child);
    uint8_t *keybuf = malloc(c->store->page_size);
    struct node_entry next;
    const struct ps_slice *end = high;
    if (keybuf != NULL && i + 1u < p->count && node_read(c->store, p, i + 1, keybuf, &next) == 0) {
        end = &next.key;
    }
    struct found below = check_node(c, &child, level - 1, i == 0 ? low : &key, end);
    if (below.entries != child_entries(&child)) {
        finding(c, p->number, "entry %u says that page %llu has %llu entries, it has %llu", i,
                (unsigned long long)child.ref, (unsigned long long)child_entries(&child),
                (unsigned long long)below.entries);
    }
    if (below.overflow && !(child.count & CHILD_OVERFLOW)) {
        finding(c, p->number, "entry %u says that nothing below overflows", i);
    }
    sum->entries += below.entries;
    sum->overflow = sum->overflow || below.overflow;
    free(keybuf);
}

static struct found check_node(struct check *c, const struct child *child, unsigned level,
                               const struct ps_slice *low, const struct ps_slice *high)
{
    struct found sum = {0};
    if (!reach(c, child->ref, 1, "a node")) {
        return sum;
    }
    if (page_verify(c->store, child, level) != 0) {
        struct ps_fault fault;
        ps_last_fault(c->store, &fault);
        finding(c, child->ref, "%s", fault.what);
        return sum;
    }
    const struct page *p = page_at(c->store, child->ref);
    uint8_t *bufs[2] = {malloc(c->store->page_size), malloc(c->store->page_size)};
    struct ps_slice before = {0};
    bool have_before = false;
    for (unsigned i = 0; i < p->count && bufs[0] != NULL && bufs[1] != NULL; i++) {
        struct run_ref key_run, value_run;
        node_runs(p, i, &key_run, &value_run);
        check_run(c, &key_run);
        check_run(c, &value_run);
        sum.overflow = sum.overflow || key_run.ref != 0 || value_run.ref != 0;
        struct node_entry e;
        if (node_read(c->store, p, i, bufs[i % 2], &e) != 0) {
            continue;
        }
        bool keyed = level == 0 || i > 0;
        if (keyed && !node_holds(p, i, e.key)) {
            finding(c, child->ref, "entry %u is searched for by another key than it has", i);
        }
        if (keyed && have_before && order_of(before, e.key) >= 0) {
            finding(c, child->ref, "entry %u is not greater than the one before", i);
        }
        if (keyed && ((low != NULL && order_of(e.key, *low) < 0) ||
                      (high != NULL && order_of(e.key, *high) >= 0))) {
            finding(c, child->ref, "entry %u is outside what the parent says", i);
        }
        before = e.key;
        have_before = keyed;
        if (level > 0) {
            check_child(c, p, i, level, e.key, low, high, &sum);
        } else {
            sum.entries++;
        }
    }
    free(bufs[0]);
    free(bufs[1]);
    return sum;
}

static void check_map(struct check *c)
{
    struct ps_store *store = c->store;
    pthread_mutex_lock(&store->space.mu); /* the file may grow under us, and the map with it */
    for (unsigned level = 0; level <= store->space.top; level++) {
        for (size_t i = 0; i < store->space.levels[level].n; i++) {
            page_ref ref = store->space.levels[level].at[i].ref;
            if (ref != 0) {
                reach(c, ref, 1, "a page of the space map");
            }
        }
    }
    for (page_ref page = META_RESERVED >> store->page_shift; page < c->pages; page++) {
        bool seen = (c->seen[page / 64] >> (page % 64)) & 1;
        if (seen != space_is_live(&store->space, page)) {
            finding(c, page,
                    seen ? "in use, and free in the space map"
                         : "free, and in use in the space map");
        }
    }
    pthread_mutex_unlock(&store->space.mu);
}

static int check_all(struct check *c)
{
    struct ps_store *store = c->store;
    c->pages = space_pages(&store->space);
    c->seen = calloc((size_t)c->pages / 64 + 1, 8);
    if (c->seen == NULL) {
        return PS_NOMEM;
    }
    const struct state *state = store->file_state;
    for (uint32_t i = 0; i < state->ntrees; i++) {
        const struct tree_root *t = &state->trees[i];
        if (t->name == NULL || t->root.ref == 0) {
            continue;
        }
        struct found found = check_node(c, &t->root, t->level, NULL, NULL);
        if (found.entries != child_entries(&t->root)) {
            finding(c, t->root.ref, "tree '%.*s' has %llu entries, the catalogue says %llu",
                    t->name->len, t->name->bytes, (unsigned long long)found.entries,
                    (unsigned long long)child_entries(&t->root));
        }
    }
    const struct run_ref *catalogue = &store->meta.catalogue;
    reach(c, catalogue->ref, plain_pages(catalogue->len, store->page_shift), "the catalogue");
    check_map(c);
    free(c->seen);
    return c->findings == 0 ? 0 : PS_CORRUPT;
}

int ps_check(struct ps_store *store, void (*report)(void *arg, const char *line), void *arg)
{
    struct check c = {.store = store, .report = report, .arg = arg};
    if (!store->options.read_only_check) {
        int rc = checkpoint_ask(store, true);
        if (rc != 0) {
            return rc;
        }
    }
    pthread_mutex_lock(&store->checkpoint_mu);
    uint64_t losses = losses_ended(store);
    int rc = check_all(&c);
    rc = lost_since(store, losses) ? lost_report(store) : rc;
    pthread_mutex_unlock(&store->checkpoint_mu);
    return rc;
}
