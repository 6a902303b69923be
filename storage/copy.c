/*
 * copy.c - a state as a data file of its own (pandostore.h, "copies").
 *
 *  C1 Pages are numbered as they are written: one after another, from the first that is not the
 *     metas'. All have the state's stamp as their birth.
 *  C2 The metas are written when all else is on the device.
 *
 * Threads: the snapshot's. A crash leaves a file without metas, in ps_copy() under another name.
 */
#include "storage/copy.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

#include "storage/age.h"
#include "storage/build.h"
#include "storage/checkpoint.h"
#include "storage/walk.h"

#define BUFFER_PAGES 128u
#define SHOW_PAGES   256u
#define SYNC_BYTES   (UINT64_C(8) << 20) /* written out while more is being made */

struct copy {
    struct ps_view *view;
    const struct ps_vfs *vfs;
    int fd;
    uint32_t page_shift;
    uint64_t stamp;
    uint8_t *buffer;
    page_ref first, next; /* of the file: what the buffer begins with; the next place */
    uint64_t unsynced_from;
    struct build *build;
    const struct ps_copy_watch *watch;
    uint64_t done, shown, whole;
    uint64_t entries, trees;
};

static int failed(struct copy *c, int err, uint64_t offset)
{
    return store_fault(c->view->store, errno_code(err), err, c->view->store->dir, offset,
                       "writing a copy");
}

/* ---- what build.h asks for --------------------------------------------------------------------
 */

static int flush(struct copy *c)
{
    uint64_t offset = c->first << c->page_shift;
    uint64_t end = c->next << c->page_shift;
    int err = end == offset
                  ? 0
                  : c->vfs->pwrite(c->vfs->ctx, c->fd, c->buffer, (size_t)(end - offset), offset);
    c->first = c->next;
    if (err == 0 && end - c->unsynced_from >= SYNC_BYTES) {
        err = c->vfs->sync_file_range(c->vfs->ctx, c->fd, c->unsynced_from, end - c->unsynced_from);
        c->unsynced_from = end;
    }
    return err == 0 ? 0 : failed(c, err, offset);
}

static int place(void *arg, uint32_t pages, page_ref *first, uint8_t **at)
{
    struct copy *c = arg;
    if (c->next - c->first + pages > BUFFER_PAGES) {
        int rc = flush(c);
        if (rc != 0) {
            return rc;
        }
    }
    *first = c->next;
    *at = c->buffer + ((size_t)(c->next - c->first) << c->page_shift);
    c->next += pages;
    return 0;
}

static int long_run(void *arg, struct ps_slice bytes, struct run_ref *run)
{
    struct copy *c = arg;
    int rc = flush(c);
    if (rc != 0) {
        return rc;
    }
    *run = (struct run_ref){c->next, c->stamp, bytes.len};
    int err = build_write_long_run(c->vfs, c->fd, c->page_shift, run, bytes.data);
    c->next += run_pages(bytes.len, c->page_shift);
    c->first = c->next;
    return err == 0 ? 0 : failed(c, err, run->ref << c->page_shift);
}

static uint64_t birth(void *arg)
{
    const struct copy *c = arg;
    return c->stamp;
}

/* ---- what walk.h gives ------------------------------------------------------------------------
 */

static int entry(void *arg, struct ps_slice key, struct ps_slice value, bool encoded)
{
    struct copy *c = arg;
    struct ps_store *store = c->view->store;
    int rc = build_put(c->build, key, value, encoded);
    if (rc == PS_INVALID) {
        return store_fault(store, PS_CORRUPT, 0, store->file_path, 0,
                           "keys of two pages are out of order");
    }
    c->entries++;
    return rc;
}

static int show(struct copy *c)
{
    c->shown = c->done;
    if (view_is_over(c->view)) {
        return PS_ENDED;
    }
    bool go_on = c->watch == NULL || c->watch->progress == NULL ||
                 c->watch->progress(c->watch->arg, c->done, c->whole);
    return go_on ? 0 : PS_ENDED;
}

static int pages_read(void *arg, uint64_t n)
{
    struct copy *c = arg;
    c->done += n;
    c->whole = c->done > c->whole ? c->done : c->whole;
    return c->done - c->shown < SHOW_PAGES ? 0 : show(c);
}

/* ---- parts of the file ------------------------------------------------------------------------
 */

static int copy_trees(struct copy *c, struct state *to)
{
    struct ps_store *store = c->view->store;
    const struct build_out out = {c, store->page_size, place, long_run, birth};
    struct walk walk = {.store = store, .entry = entry, .pages = pages_read, .arg = c};
    c->build = build_new(&out);
    int rc = c->build == NULL ? PS_NOMEM : 0;
    for (uint32_t i = 0; rc == 0 && i < to->ntrees; i++) {
        if (to->trees[i].name == NULL) {
            continue;
        }
        uint64_t before = c->entries;
        uint64_t entries = child_entries(&to->trees[i].root);
        rc = walk_tree(&walk, &to->trees[i]);
        rc = rc == 0 ? build_finish(c->build, &to->trees[i]) : rc;
        if (rc == 0 && c->entries - before != entries) {
            rc = store_fault(store, PS_CORRUPT, 0, store->file_path, 0,
                             "a tree has not as many entries as its root says");
        }
        c->trees++;
    }
    walk_free(&walk);
    build_free(c->build);
    return rc;
}

static int write_catalogue(struct copy *c, const struct state *state, struct run_ref *ref)
{
    uint32_t pages = catalogue_pages(c->view->store, state);
    int rc = flush(c);
    uint8_t *run = rc == 0 ? calloc(pages, (size_t)1 << c->page_shift) : NULL;
    if (run == NULL) {
        return rc != 0 ? rc : PS_NOMEM;
    }
    *ref = (struct run_ref){.ref = c->next, .birth = c->stamp};
    catalogue_image(c->view->store, state, run, ref);
    int err = c->vfs->pwrite(c->vfs->ctx, c->fd, run, (size_t)pages << c->page_shift,
                             c->next << c->page_shift);
    free(run);
    c->next += pages;
    c->first = c->next;
    return err == 0 ? 0 : failed(c, err, ref->ref << c->page_shift);
}

/* Pages of the map of a file with `pages` pages besides those. */
static uint64_t map_pages(uint64_t pages, uint32_t page_shift)
{
    uint64_t room = (UINT64_C(1) << page_shift) - SPACE_HEADER;
    uint64_t n = 0;
    for (uint64_t before = UINT64_MAX; before != n;) {
        before = n;
        uint64_t level = (pages + n + room * 8 - 1) / (room * 8);
        for (n = level; level > 1; n += level) {
            level = (level + room / 24 - 1) / (room / 24);
        }
    }
    return n;
}

/* The map: all of the file is in use. */
static int write_map(struct copy *c, struct space_root *root)
{
    uint64_t reserved = META_RESERVED >> c->page_shift;
    uint64_t pages = c->next + map_pages(c->next, c->page_shift);
    uint64_t used = c->next - reserved;
    int err = c->vfs->ftruncate(c->vfs->ctx, c->fd, pages << c->page_shift);
    if (err != 0) {
        return failed(c, err, pages << c->page_shift);
    }
    struct space space;
    space_extents freed = {0};
    int rc = space_init(&space, c->vfs, c->fd, c->page_shift, reserved, pages);
    while (rc == 0 && used > 0) {
        page_ref first;
        uint32_t got;
        uint32_t want = used < UINT32_MAX / 2 ? (uint32_t)used : UINT32_MAX / 2;
        rc = space_alloc(&space, want, want, &first, &got);
        rc = rc == 0 ? space_mark_live(&space, first, got, true) : rc;
        PS_ASSERT(rc != 0 || first + used == c->next);
        used -= want;
    }
    rc = rc == 0 ? space_write(&space, c->stamp, root, &freed) : rc;
    PS_ASSERT(rc != 0 || (space_pages(&space) == pages && space_free_pages(&space) == 0));
    space_destroy(&space);
    vec_free(&freed);
    c->next = pages;
    return rc;
}

static int sync_copy(struct copy *c)
{
    int err = c->vfs->fsync(c->vfs->ctx, c->fd);
    return err == 0 ? 0 : failed(c, err, 0);
}

static int write_metas(struct copy *c, const struct meta *meta)
{
    uint8_t buf[META_BYTES];
    int rc = sync_copy(c);
    meta_encode(meta, buf);
    for (unsigned k = 0; rc == 0 && k < 2; k++) {
        int err = c->vfs->pwrite(c->vfs->ctx, c->fd, buf, sizeof buf, k * META_STRIDE);
        rc = err == 0 ? 0 : failed(c, err, k * META_STRIDE);
    }
    return rc == 0 ? sync_copy(c) : rc;
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static int copy_all(struct copy *c, struct state *to, struct meta *meta)
{
    struct ps_store *store = c->view->store;
    uint64_t first = META_RESERVED >> c->page_shift;
    c->first = c->next = first;
    c->unsynced_from = META_RESERVED;
    uint64_t pages = space_pages(&store->space);
    uint64_t unused = space_free_pages(&store->space);
    c->whole = (pages > unused ? pages - unused : 0) + store->arena.used;
    c->buffer = malloc((size_t)BUFFER_PAGES << c->page_shift);
    int rc = c->buffer == NULL ? PS_NOMEM : copy_trees(c, to);
    c->done = c->whole;
    rc = rc == 0 ? show(c) : rc; /* all is read: was it what it should be? */
    rc = rc == 0 ? write_catalogue(c, to, &meta->catalogue) : rc;
    rc = rc == 0 ? write_map(c, &meta->space) : rc;
    meta->file_pages = c->next;
    rc = rc == 0 ? write_metas(c, meta) : rc;
    free(c->buffer);
    return rc;
}

int copy_image(struct ps_view *view, const struct meta *like, const struct ps_vfs *vfs, int fd,
               const struct ps_copy_watch *watch, struct ps_copy_report *report)
{
    struct ps_store *store = view->store;
    const struct state *state = view_state(view);
    struct copy c = {
        .view = view, .vfs = vfs, .fd = fd, .page_shift = store->page_shift, .watch = watch};
    *report = (struct ps_copy_report){0};
    if (state == NULL) {
        return nothing_there(view) == PS_ENDED ? PS_ENDED : PS_INVALID;
    }
    c.stamp = stamp_of(state);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct meta meta = {.page_size = store->page_size,
                        .stamp = c.stamp,
                        .seq = state->seq,
                        .pos = like->pos,
                        .written_us =
                            (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u,
                        .file_keys = atomic_load(&store->file_keys)};
    memcpy(meta.id, like->id, sizeof meta.id);
    meta.pos.seq = state->seq;
    struct state *to = state_new(store);
    int rc = to == NULL ? PS_NOMEM : state_copy(to, state);
    rc = rc == 0 ? copy_all(&c, to, &meta) : rc;
    if (to != NULL) {
        state_give_back(store, to);
    }
    *report = (struct ps_copy_report){c.trees, c.entries, meta.file_pages,
                                      meta.file_pages << c.page_shift};
    return rc;
}

int ps_copy_fd(struct ps_snapshot *snap, int fd, const struct ps_copy_watch *watch,
               struct ps_copy_report *report)
{
    struct meta like = {0};
    if (getrandom(like.id, sizeof like.id, 0) != sizeof like.id) {
        return PS_IO;
    }
    return copy_image(&snap->view, &like, snap->view.store->vfs, fd, watch, report);
}
