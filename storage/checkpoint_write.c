/*
 * checkpoint_write.c - step (b): pages of T that live in the arena get their places in the file.
 *
 * The walk follows references into the arena only, children before parents and in key order, so
 * that places are handed out in key order. A page is copied, its references are replaced by file
 * pages, and consecutive pages are written with one pwrite. Pages with an image from an earlier
 * checkpoint are not visited: everything below them has one, too.
 */
#include "storage/checkpoint.h"
#include "storage/node.h"
#include "storage/tree_options.h"

#include <time.h>

#define BUFFER_PAGES  64u /* pages written at a time, at most */
#define PACE_BYTES    (UINT64_C(1) << 20)
#define PACE_PAUSE_NS 4000000L

static int failed(struct checkpoint *c, int err, uint64_t offset)
{
    int rc = errno_code(err);
    return store_fault(c->store, rc, err, c->store->file_path, offset,
                       c->moving ? "moving a snapshot" : "writing a checkpoint");
}

/* The log grew faster than this checkpoint shortens it: replaying would soon take too long. */
static bool late(struct ps_store *store)
{
    return atomic_load(&store->ops_since_checkpoint) > replay_budget(store) / 4 * 3;
}

/* Lets others have the device and, unless someone waits for slots, pauses. */
static int pace(struct checkpoint *c)
{
    struct ps_store *store = c->store;
    if (!c->paced || c->unsynced_bytes < PACE_BYTES) {
        return 0;
    }
    int err = store->vfs->sync_file_range(store->vfs->ctx, store->fd, c->unsynced_from,
                                          c->unsynced_bytes);
    if (err != 0) { /* whatever it is: a later sync would not report again what was lost here */
        return store_fault(store, PS_POISONED, err, store->file_path, c->unsynced_from,
                           "writing out a part of a checkpoint");
    }
    c->unsynced_bytes = 0;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PACE_PAUSE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&store->mu);
    int timed_out = 0;
    while (!store->hurry && !late(store) && timed_out == 0) {
        timed_out = pthread_cond_timedwait(&store->checkpoint_cond, &store->mu, &until);
    }
    pthread_mutex_unlock(&store->mu);
    return 0;
}

static int flush(struct checkpoint *c)
{
    struct ps_store *store = c->store;
    if (c->buffer_pages == 0) {
        return 0;
    }
    uint64_t offset = c->buffer_first << store->page_shift;
    size_t bytes = (size_t)c->buffer_pages << store->page_shift;
    int err = data_write(store, c->buffer, bytes, offset);
    if (err != 0) {
        return failed(c, err, offset);
    }
    if (c->unsynced_bytes == 0 || offset != c->unsynced_from + c->unsynced_bytes) {
        c->unsynced_from = c->unsynced_bytes == 0 ? offset : c->unsynced_from;
    }
    c->unsynced_bytes += bytes;
    c->written_pages += c->buffer_pages;
    c->buffer_pages = 0;
    return pace(c);
}

/* Consecutive places for `pages` pages. */
static int take_places(struct checkpoint *c, uint32_t pages, page_ref *first)
{
    struct ps_store *store = c->store;
    if (c->left < pages) {
        if (c->left > 0) {
            space_free(&store->space, c->next, c->left);
            c->left = 0;
        }
        uint32_t want = pages < BUFFER_PAGES ? BUFFER_PAGES : pages;
        int rc = c->spare > 0 ? space_reserve(&store->space, want + c->spare) : 0;
        rc = rc == 0 ? space_alloc(&store->space, pages, want, &c->next, &c->left) : rc;
        file_pages_grew(store);
        if (rc != 0) {
            return store_fault(store, rc, 0, store->file_path, 0, "no room for a %s",
                               c->moving ? "snapshot" : "checkpoint");
        }
    }
    struct space_extent e = {c->next, stamp_of(c->state), pages};
    if (!vec_push(&c->taken, e)) {
        return PS_NOMEM;
    }
    *first = c->next;
    c->next += pages;
    c->left -= pages;
    watch_taken(store->watch, *first, pages);
    page_unverify(store, *first, pages);
    lost_restore(store, *first, pages);
    return 0;
}

/* Room in the buffer for the image of [first, first + pages). */
static int buffer_room(struct checkpoint *c, page_ref first, uint32_t pages, uint8_t **at)
{
    if (c->buffer_pages > 0 &&
        (first != c->buffer_first + c->buffer_pages || c->buffer_pages + pages > BUFFER_PAGES)) {
        int rc = flush(c);
        if (rc != 0) {
            return rc;
        }
    }
    if (c->buffer_pages == 0) {
        c->buffer_first = first;
    }
    *at = c->buffer + ((size_t)c->buffer_pages << c->store->page_shift);
    c->buffer_pages += pages;
    return 0;
}

static int note(struct checkpoint *c, page_ref slot, page_ref file)
{
    struct checkpoint_page cp = {slot, file};
    if (!vec_push(&c->pages, cp)) {
        return PS_NOMEM;
    }
    if (!c->moving) {
        uint32_t pages = arena_side(&c->store->arena, slot)->pages;
        atomic_fetch_add_explicit(&c->store->placed, pages, memory_order_relaxed);
    }
    return 0;
}

/* The file page of an overflow run, which is written if it has none. */
static int write_run(struct checkpoint *c, const struct run_ref *run, page_ref *file)
{
    struct ps_store *store = c->store;
    *file = 0;
    if (!ref_in_arena(run->ref)) {
        return 0;
    }
    *file = arena_side(&store->arena, run->ref)->file;
    if (*file != 0) {
        return 0;
    }
    uint32_t pages = run_pages(run->len, store->page_shift);
    uint8_t *at;
    int rc = take_places(c, pages, file);
    rc = rc == 0 ? buffer_room(c, *file, pages, &at) : rc;
    if (rc != 0) {
        return rc;
    }
    size_t used = PAGE_HEADER + (size_t)run->len;
    memcpy(at, page_at(store, run->ref), used);
    memset(at + used, 0, ((size_t)pages << store->page_shift) - used);
    struct page *p = (struct page *)(void *)at;
    p->number = *file;
    p->crc = page_crc(p, used);
    return note(c, run->ref, *file);
}

/* Replaces references to runs in the arena in a copied node. */
static int translate_runs(struct checkpoint *c, struct page *image)
{
    for (unsigned i = 0; i < image->count; i++) {
        struct run_ref key, value;
        node_runs(image, i, &key, &value);
        page_ref key_file, value_file;
        int rc = write_run(c, &key, &key_file);
        rc = rc == 0 ? write_run(c, &value, &value_file) : rc;
        if (rc != 0) {
            return rc;
        }
        node_set_runs(image, i, key_file, value_file);
    }
    return 0;
}

/* Writes a leaf without runs: nothing in it is replaced. */
static int write_leaf(struct checkpoint *c, struct child *child, const struct page *leaf)
{
    struct ps_store *store = c->store;
    page_ref file = 0;
    uint8_t *at;
    int rc = take_places(c, 1, &file);
    rc = rc == 0 ? buffer_room(c, file, 1, &at) : rc;
    if (rc != 0) {
        return rc;
    }
    memcpy(at, leaf, store->page_size);
    struct page *image = (struct page *)(void *)at;
    image->number = file;
    image->crc = page_crc(image, store->page_size);
    page_ref slot = child->ref;
    child->ref = file;
    return note(c, slot, file);
}

/* Writes a node and all below it that is in the arena; the entry gets its file page. */
static int write_node(struct checkpoint *c, struct child *child, unsigned level)
{
    struct ps_store *store = c->store;
    if (!ref_in_arena(child->ref)) {
        return 0;
    }
    page_ref slot = child->ref;
    page_ref file = arena_side(&store->arena, slot)->file;
    if (file != 0) {
        child->ref = file;
        return 0;
    }
    const struct page *node = page_at(store, slot);
    if (level == 0 && !(node->flags & PAGE_HAS_OVERFLOW)) {
        return write_leaf(c, child, node);
    }
    if (c->images[level] == NULL) {
        c->images[level] = malloc(store->page_size);
        if (c->images[level] == NULL) {
            return PS_NOMEM;
        }
    }
    struct page *image = (struct page *)(void *)c->images[level];
    memcpy(image, node, store->page_size);
    int rc = 0;
    for (unsigned i = 0; rc == 0 && level > 0 && i < image->count; i++) {
        struct child below;
        node_child(image, i, &below);
        rc = write_node(c, &below, level - 1);
        node_set_child(image, i, &below);
    }
    if (rc == 0 && (image->flags & PAGE_HAS_OVERFLOW)) {
        rc = translate_runs(c, image);
    }
    uint8_t *at;
    rc = rc == 0 ? take_places(c, 1, &file) : rc;
    rc = rc == 0 ? buffer_room(c, file, 1, &at) : rc;
    if (rc != 0) {
        return rc;
    }
    image->number = file;
    image->crc = page_crc(image, store->page_size);
    memcpy(at, image, store->page_size);
    child->ref = file;
    return note(c, slot, file);
}

uint32_t catalogue_pages(struct ps_store *store, const struct state *state)
{
    size_t bytes = 4;
    uint8_t options[OPTIONS_MOST];
    for (uint32_t i = 0; i < state->ntrees; i++) {
        if (state->trees[i].name != NULL) {
            size_t n = tree_options_write(store, &state->trees[i], options);
            bytes += 4 + 1 + state->trees[i].name->len + 1 + 24 + (n > 0 ? 1 + n : 0);
        }
    }
    return plain_pages(bytes, store->page_shift);
}

/* The catalogue: u32 trees; for each u32 number, u8 name length, name, u8 level, u64 root,
 * u64 birth, u64 entries (with the overflow bit), its options if there are (tree_options.h). */
void catalogue_image(struct ps_store *store, const struct state *state, uint8_t *run,
                     struct run_ref *ref)
{
    uint8_t *at = run + PAGE_HEADER + 4;
    uint8_t options[OPTIONS_MOST];
    uint32_t trees = 0;
    for (uint32_t i = 0; i < state->ntrees; i++) {
        const struct tree_root *t = &state->trees[i];
        if (t->name != NULL) {
            memcpy(at, &i, 4);
            at[4] = t->name->len;
            memcpy(at + 5, t->name->bytes, t->name->len);
            at += 5 + t->name->len;
            size_t n = tree_options_write(store, t, options);
            *at++ = (uint8_t)(t->level | (n > 0 ? LEVEL_OPTIONS : 0));
            memcpy(at, &t->root, 24);
            at += 24;
            if (n > 0) {
                *at++ = (uint8_t)n;
                memcpy(at, options, n);
                at += n;
            }
            trees++;
        }
    }
    memcpy(run + PAGE_HEADER, &trees, 4);
    struct page *p = (struct page *)(void *)run;
    size_t bytes = (size_t)(at - run);
    ref->len = bytes - PAGE_HEADER;
    p->kind = PAGE_CATALOGUE;
    p->number = ref->ref;
    p->birth = ref->birth;
    p->run_len = ref->len;
    p->crc = page_crc(p, bytes);
}

static int write_catalogue(struct checkpoint *c)
{
    struct ps_store *store = c->store;
    uint32_t pages = catalogue_pages(store, c->file_state);
    page_ref first = 0;
    int rc = flush(c);
    rc = rc == 0 ? take_places(c, pages, &first) : rc;
    uint8_t *run = rc == 0 ? calloc(pages, store->page_size) : NULL;
    if (run == NULL) {
        return rc != 0 ? rc : PS_NOMEM;
    }
    c->catalogue = (struct run_ref){.ref = first, .birth = stamp_of(c->state)};
    catalogue_image(store, c->file_state, run, &c->catalogue);
    int err =
        data_write(store, run, (size_t)pages << store->page_shift, first << store->page_shift);
    free(run);
    return err == 0 ? 0 : failed(c, err, first << store->page_shift);
}

static int give_back_rest(struct checkpoint *c, int rc)
{
    if (c->left > 0) {
        space_free(&c->store->space, c->next, c->left);
        c->left = 0;
    }
    return rc;
}

int checkpoint_write_trees(struct checkpoint *c)
{
    struct ps_store *store = c->store;
    c->buffer = malloc((size_t)BUFFER_PAGES << store->page_shift);
    c->file_state = state_new(store);
    if (c->buffer == NULL || c->file_state == NULL) {
        return PS_NOMEM;
    }
    int rc = state_copy(c->file_state, c->state);
    c->file_state->pos = c->state->pos;
    atomic_store(&c->file_state->stamp, stamp_of(c->state));
    for (uint32_t i = 0; rc == 0 && i < c->file_state->ntrees; i++) {
        struct tree_root *t = &c->file_state->trees[i];
        rc = write_node(c, &t->root, t->level);
    }
    rc = rc == 0 ? flush(c) : rc;
    return c->moving || rc != 0 ? give_back_rest(c, rc) : rc;
}

int checkpoint_write_pages(struct checkpoint *c)
{
    int rc = checkpoint_write_trees(c);
    return rc != 0 ? rc : give_back_rest(c, write_catalogue(c));
}

void checkpoint_free(struct checkpoint *c)
{
    if (c->file_state != NULL) {
        pthread_mutex_lock(&c->store->mu);
        state_retire(c->store, c->file_state);
        pthread_mutex_unlock(&c->store->mu);
    }
    for (unsigned i = 0; i < TREE_MAX_LEVELS; i++) {
        free(c->images[i]);
    }
    free(c->buffer);
    vec_free(&c->pages);
    vec_free(&c->taken);
    vec_free(&c->deaths);
    vec_free(&c->fresh);
}
