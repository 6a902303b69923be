/*
 * check.c - the full check of a checkpoint in the file, and the figures it yields.
 *
 * Every page of the state is read and verified whatever was verified before; keys ascend and stay
 * within what the parent says, and are found by the prefix and head that stand for them; counts and
 * overflow flags are what the parents say; every page is reached exactly once; and the space map
 * says of every page whether it was reached.
 *
 * Nodes are copied before they are checked and taken apart: what another process writes meanwhile
 * (inspect.h) may make findings, but cannot lead anywhere. Of runs, only their bytes are looked at.
 *
 * Threads: any; holds back checkpoints while it runs, nothing else.
 */
#include <inttypes.h>
#include <stdarg.h>

#include "storage/inspect.h"
#include "storage/node.h"
#include "storage/overflow.h"
#include "storage/store.h"
#include "storage/walk.h"

#define PROGRESS_PAGES 256u

/* What is needed while a node of one level is worked on. */
struct frame {
    uint8_t *room; /* of all of it */
    struct page *page;
    uint8_t *keys[2], *next;
};

struct check {
    struct ps_store *store;
    const struct ps_watch *watch;
    struct ps_figures *figures;
    struct ps_tree_figures tree; /* the one that is walked */
    struct frame frames[TREE_MAX_LEVELS];
    uint64_t *seen;
    uint64_t pages;
    uint64_t done, shown, whole; /* pages reached; at the last report; to be reached */
    bool stopped;
    struct decoded decoded;
};

static void finding(struct check *c, page_ref page, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void finding(struct check *c, page_ref page, const char *format, ...)
{
    char what[sizeof((struct ps_fault *)0)->what - 32];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    c->figures->findings++;
    if (c->watch->finding != NULL) {
        struct ps_fault fault;
        fault_set(&fault, PS_CORRUPT, 0, c->store->file_path, page << c->store->page_shift,
                  "page %" PRIu64 ": %s", page, what);
        c->watch->finding(c->watch->arg, &fault);
    }
}

/* What a function that checks by itself has found: its text names the page. */
static void finding_of_fault(struct check *c)
{
    struct ps_fault fault;
    ps_last_fault(c->store, &fault);
    c->figures->findings++;
    if (c->watch->finding != NULL) {
        c->watch->finding(c->watch->arg, &fault);
    }
}

static void progress(struct check *c, uint64_t pages)
{
    c->done += pages;
    if (c->watch->progress == NULL || c->done - c->shown < PROGRESS_PAGES) {
        return;
    }
    c->shown = c->done;
    c->stopped = c->stopped || !c->watch->progress(c->watch->arg, c->done, c->whole);
}

/* Notes that pages are in use; false if they were before. */
static bool reach(struct check *c, page_ref first, uint64_t pages, const char *what)
{
    progress(c, pages);
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

static void count_run(struct check *c, const struct run_ref *run, uint64_t pages)
{
    struct ps_tree_figures *t = &c->tree;
    if (run_is_long(run->len)) {
        t->long_runs++;
        t->long_run_pages += pages;
        t->long_run_bytes += run->len;
    } else {
        t->runs++;
        t->run_pages += pages;
        t->run_bytes += run->len;
    }
}

static void check_run(struct check *c, const struct run_ref *run)
{
    if (run->ref == 0) {
        return;
    }
    if (run_verify_fully(c->store, run) != 0) {
        finding_of_fault(c);
        if (run->len > PS_MAX_VALUE) {
            return;
        }
    }
    uint64_t pages = run_pages(run->len, c->store->page_shift);
    if (reach(c, run->ref, pages, "an overflow run")) {
        count_run(c, run, pages);
    }
}

/* That a compressed value is one. */
static void check_value(struct check *c, const struct node_entry *e)
{
    struct ps_slice value = e->value;
    if (!e->encoded) {
        return;
    }
    if (e->value_run.ref != 0) {
        const uint8_t *data;
        if (run_data(c->store, &e->value_run, &data) != 0) {
            return; /* check_run has said so */
        }
        value = (struct ps_slice){data, (size_t)e->value_run.len};
    }
    uint64_t len;
    c->tree.compressed++;
    c->tree.compressed_bytes += value.len;
    bool possible = encoded_length(value, &len);
    if (possible && decoded_room(&c->decoded, (size_t)len) != 0) {
        finding(c, 0, "no memory to decompress %" PRIu64 " bytes", len);
    } else if (!possible || value_decode(&c->decoded, value, c->decoded.at, (size_t)len) != 0) {
        page_ref page = e->value_run.ref != 0 ? e->value_run.ref : c->frames[0].page->number;
        finding(c, page, "the compressed value of an entry does not decompress");
    } else {
        c->tree.compressed_from_bytes += len;
    }
}

struct found {
    uint64_t entries;
    bool overflow;
};

static struct found check_node(struct check *c, const struct child *child, unsigned level,
                               const struct ps_slice *low, const struct ps_slice *high);

static void check_child(struct check *c, const struct frame *f, unsigned i, unsigned level,
                        struct ps_slice key, const struct ps_slice *low,
                        const struct ps_slice *high, struct found *sum)
{
    const struct page *p = f->page;
    struct child child;
    node_child(p, i, &child);
    struct node_entry next;
    const struct ps_slice *end = high;
    if (i + 1u < p->count && node_read(c->store, p, i + 1, f->next, &next) == 0) {
        end = &next.key;
    }
    struct found below = check_node(c, &child, level - 1, i == 0 ? low : &key, end);
    if (c->stopped) {
        return;
    }
    if (below.entries != child_entries(&child)) {
        finding(c, p->number,
                "entry %u says that page %" PRIu64 " has %" PRIu64 " entries, it has %" PRIu64, i,
                child.ref, child_entries(&child), below.entries);
    }
    if (below.overflow && !(child.count & CHILD_OVERFLOW)) {
        finding(c, p->number, "entry %u says that nothing below overflows", i);
    }
    sum->entries += below.entries;
    sum->overflow = sum->overflow || below.overflow;
}

/* Whether the map has the page: what only damage refers to may be given out at any moment. */
static bool is_live(struct check *c, page_ref ref)
{
    pthread_mutex_lock(&c->store->space.mu);
    bool live = space_is_live(&c->store->space, ref);
    pthread_mutex_unlock(&c->store->space.mu);
    return live;
}

/* The child's page, copied into the frame of its level and sound in itself. */
static bool take_node(struct check *c, const struct child *child, unsigned level)
{
    struct frame *f = &c->frames[level];
    uint32_t size = c->store->page_size;
    if (f->room == NULL) {
        f->room = malloc((size_t)size * 4);
        if (f->room == NULL) {
            finding(c, child->ref, "no memory to check it");
            return false;
        }
        f->page = (struct page *)(void *)f->room;
        f->keys[0] = f->room + size;
        f->keys[1] = f->keys[0] + size;
        f->next = f->keys[1] + size;
    }
    if (!is_live(c, child->ref)) {
        return false; /* check_map() says so */
    }
    memcpy(f->page, page_at(c->store, child->ref), size);
    const char *problem = page_problem(c->store, f->page, child, level);
    if (problem != NULL) {
        finding(c, child->ref, "%s",
                lost_within(c->store, child->ref, 1) ? "cannot be read" : problem);
        return false;
    }
    if (level == 0) {
        c->tree.leaves++;
        c->tree.leaf_bytes += node_used(f->page, size);
    } else {
        c->tree.branches++;
        c->tree.branch_bytes += node_used(f->page, size);
        walk_read_ahead(c->store, f->page);
    }
    return true;
}

static void check_order(struct check *c, page_ref ref, unsigned i, struct ps_slice key,
                        const struct ps_slice *before, const struct ps_slice *low,
                        const struct ps_slice *high)
{
    if (before != NULL && slice_order(*before, key) >= 0) {
        finding(c, ref, "entry %u is not greater than the one before", i);
    }
    if ((low != NULL && slice_order(key, *low) < 0) ||
        (high != NULL && slice_order(key, *high) >= 0)) {
        finding(c, ref, "entry %u is outside what the parent says", i);
    }
}

static struct found check_node(struct check *c, const struct child *child, unsigned level,
                               const struct ps_slice *low, const struct ps_slice *high)
{
    struct found sum = {0};
    if (!reach(c, child->ref, 1, "a node") || !take_node(c, child, level)) {
        return sum;
    }
    const struct frame *f = &c->frames[level];
    const struct page *p = f->page;
    struct ps_slice before = {0};
    bool have_before = false;
    for (unsigned i = 0; i < p->count && !c->stopped; i++) {
        struct run_ref key_run, value_run;
        node_runs(p, i, &key_run, &value_run);
        check_run(c, &key_run);
        check_run(c, &value_run);
        sum.overflow = sum.overflow || key_run.ref != 0 || value_run.ref != 0;
        struct node_entry e;
        if (node_read(c->store, p, i, f->keys[i % 2], &e) != 0) {
            continue;
        }
        bool keyed = level == 0 || i > 0;
        if (keyed && !node_holds(p, i, e.key)) {
            finding(c, child->ref, "entry %u is searched for by another key than it has", i);
        }
        if (keyed) {
            check_order(c, child->ref, i, e.key, have_before ? &before : NULL, low, high);
        }
        before = e.key;
        have_before = keyed;
        if (level > 0) {
            check_child(c, f, i, level, e.key, low, high, &sum);
        } else {
            sum.entries++;
            check_value(c, &e);
        }
    }
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
                c->figures->map_pages++;
                reach(c, ref, 1, "a page of the space map");
            }
        }
    }
    for (page_ref page = c->figures->reserved; page < c->pages; page++) {
        bool seen = (c->seen[page / 64] >> (page % 64)) & 1;
        bool live = space_is_live(&store->space, page);
        c->figures->free_pages += !live;
        if (seen != live) {
            finding(c, page,
                    seen ? "in use, and free in the space map"
                         : "free, and in use in the space map");
        }
    }
    pthread_mutex_unlock(&store->space.mu);
}

static void check_tree(struct check *c, ps_tree id, const struct tree_root *t,
                       void (*tree)(void *arg, const struct ps_tree_figures *tree))
{
    struct ps_tree_figures *figures = &c->tree;
    *figures = (struct ps_tree_figures){.tree = id, .name = {t->name->bytes, t->name->len}};
    if (t->root.ref != 0) {
        figures->levels = t->level + 1u;
        struct found found = check_node(c, &t->root, t->level, NULL, NULL);
        figures->entries = found.entries;
        if (!c->stopped && found.entries != child_entries(&t->root)) {
            finding(c, t->root.ref,
                    "tree '%.*s' has %" PRIu64 " entries, the catalogue says %" PRIu64,
                    t->name->len > 80 ? 80 : t->name->len, t->name->bytes, found.entries,
                    child_entries(&t->root));
        }
    }
    c->figures->trees++;
    c->figures->leaves += figures->leaves;
    c->figures->branches += figures->branches;
    c->figures->run_pages += figures->run_pages;
    c->figures->long_run_pages += figures->long_run_pages;
    if (tree != NULL && !c->stopped) {
        tree(c->watch->arg, figures);
    }
}

static int check_all(struct check *c, void (*tree)(void *arg, const struct ps_tree_figures *tree))
{
    struct ps_store *store = c->store;
    c->pages = space_pages(&store->space);
    c->whole = c->pages - space_free_pages(&store->space);
    c->figures->page_size = store->page_size;
    c->figures->pages = c->pages;
    c->figures->reserved = META_RESERVED >> store->page_shift;
    c->seen = calloc((size_t)c->pages / 64 + 1, 8);
    if (c->seen == NULL) {
        return PS_NOMEM;
    }
    const struct state *state = store->file_state;
    for (uint32_t i = 0; i < state->ntrees && !c->stopped; i++) {
        if (state->trees[i].name != NULL) {
            check_tree(c, i, &state->trees[i], tree);
        }
    }
    const struct run_ref *catalogue = &store->meta.catalogue;
    c->figures->catalogue_pages = plain_pages(catalogue->len, store->page_shift);
    if (!c->stopped) {
        reach(c, catalogue->ref, c->figures->catalogue_pages, "the catalogue");
        check_map(c);
    }
    free(c->seen);
    decoded_free(&c->decoded);
    for (unsigned level = 0; level < TREE_MAX_LEVELS; level++) {
        free(c->frames[level].room);
    }
    return c->stopped ? PS_ENDED : c->figures->findings == 0 ? 0 : PS_CORRUPT;
}

int ps_survey(struct ps_store *store, const struct ps_watch *watch,
              void (*tree)(void *arg, const struct ps_tree_figures *tree),
              struct ps_figures *figures)
{
    static const struct ps_watch nobody;
    struct check c = {.store = store, .watch = watch == NULL ? &nobody : watch, .figures = figures};
    *figures = (struct ps_figures){0};
    if (!store->options.read_only_check) {
        int rc = checkpoint_ask(store, true);
        if (rc != 0) {
            return rc;
        }
    }
    pthread_mutex_lock(&store->checkpoint_mu);
    uint64_t losses = losses_ended(store);
    int rc = check_all(&c, tree);
    rc = lost_since(store, losses) ? lost_report(store) : rc;
    pthread_mutex_unlock(&store->checkpoint_mu);
    return rc;
}

/* Findings as lines. */
struct lines {
    void (*report)(void *arg, const char *line);
    void *arg;
};

static void report_line(void *arg, const struct ps_fault *fault)
{
    const struct lines *lines = arg;
    char line[600];
    snprintf(line, sizeof line, "%s: offset %" PRIu64 ": %s", fault->file, fault->offset,
             fault->what);
    lines->report(lines->arg, line);
}

int ps_check(struct ps_store *store, void (*report)(void *arg, const char *line), void *arg)
{
    struct lines lines = {report, arg};
    struct ps_watch watch = {.finding = report == NULL ? NULL : report_line, .arg = &lines};
    struct ps_figures figures;
    return ps_survey(store, &watch, NULL, &figures);
}
