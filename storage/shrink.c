/*
 * shrink.c - moving pages from the file's end to free places before it, and cutting the file off.
 *
 *  H1 A page is moved as it would be changed: copied into the arena with the path above it, in a
 *     transaction that changes no entry; a checkpoint gives it a place, and while somebody shrinks
 *     those are the lowest there are (space_pack). Long runs are copied from place to place.
 *  H2 A step holds the token for a few hundred pages; others write in between.
 *  H3 The end of the file is cut off when nothing there is used or live: so no pinned state, and no
 *     meta, has a page of it. Both metas say the new length before the file has it; until then, and
 *     after a crash in between, it is longer than they say, which it may always be.
 *
 * Threads: one at a time; the token for each step. A crash leaves what the last checkpoint has.
 */
#include "storage/build.h"
#include "storage/checkpoint.h"
#include "storage/overflow.h"
#include "storage/tree.h"

#define STEP_PATHS 256u /* leaves, or branches without their leaves, in a step, at most */
#define PART       4u   /* of the arena that a step may take */
#define ROUNDS     8u
#define SLACK      (FILE_RESERVE + 64u) /* pages that stay free */

/* Where something has to move: the path to this key, down to this level. */
struct target {
    size_t key_at, key_len;
    unsigned level;
};

struct shrink {
    struct ps_store *store;
    const struct ps_copy_watch *watch;
    uint64_t limit; /* pages from here on are to move */
    uint64_t whole, seen, moved;
    ps_tree tree;
    byte_vec from;  /* where the next step goes on in that tree */
    bool more;      /* the step found as much as it may */
    uint64_t slots; /* that it will take */
    VEC(struct target) targets;
    VEC(uint8_t) keys;
    uint8_t *keybufs[TREE_MAX_LEVELS];
};

/* ---- finding -----------------------------------------------------------------------------------
 */

static bool is_high(const struct shrink *s, page_ref ref)
{
    return !ref_in_arena(ref) && ref >= s->limit;
}

/* Counts the slots that a run will take. */
static bool run_is_high(struct shrink *s, const struct run_ref *run)
{
    if (run->ref == 0 || !is_high(s, run->ref)) {
        return false;
    }
    s->slots += run_is_long(run->len) ? 0 : run_pages(run->len, s->store->page_shift);
    return true;
}

static bool has_high_runs(struct shrink *s, const struct page *p)
{
    bool any = false;
    for (unsigned i = 0; (p->flags & PAGE_HAS_OVERFLOW) && i < p->count; i++) {
        struct run_ref key, value;
        node_runs(p, i, &key, &value);
        any = run_is_high(s, &key) || any;
        any = run_is_high(s, &value) || any;
    }
    return any;
}

/* Slots that a step may take, and whether it has found enough to move. */
static uint64_t budget(const struct ps_store *store)
{
    return store->arena.capacity / PART;
}

static bool enough(const struct shrink *s)
{
    return s->targets.n >= STEP_PATHS || s->slots >= budget(s->store);
}

static int note(struct shrink *s, struct ps_slice key, unsigned level)
{
    struct target t = {s->keys.n, key.len, level};
    if (!vec_reserve(&s->targets, 1) || !vec_reserve(&s->keys, key.len + 1)) {
        return PS_NOMEM;
    }
    if (key.len > 0) {
        memcpy(s->keys.at + s->keys.n, key.data, key.len);
    }
    s->keys.n += key.len;
    s->slots += s->store->stat.depth_max + 1u;
    s->targets.at[s->targets.n++] = t;
    return 0;
}

/* The node at a level whose keys begin with `low`: itself, and what is below it from `from` on. */
static int look(struct shrink *s, const struct child *child, unsigned level, struct ps_slice low,
                const struct ps_slice *from)
{
    struct ps_store *store = s->store;
    const struct page *p;
    bool high = is_high(s, child->ref);
    if (level == 0 && (high || (child->count & CHILD_OVERFLOW) == 0)) {
        return high ? note(s, low, 0) : 0; /* leaves are not read for that */
    }
    int rc = page_get(store, child, level, &p);
    if (rc == 0 && (high || has_high_runs(s, p))) {
        rc = note(s, low, level);
    }
    unsigned i = 0;
    if (rc == 0 && level > 0 && from != NULL) {
        rc = node_search_child(store, p, *from, &i);
    }
    for (; rc == 0 && level > 0 && i < p->count && !s->more; i++, from = NULL) {
        struct child below;
        struct node_entry e;
        node_child(p, i, &below);
        rc = node_read(store, p, i, s->keybufs[level], &e);
        if (rc == 0 && i > 0 && enough(s)) {
            s->more = true;
            return bytes_keep(&s->from, e.key) ? 0 : PS_NOMEM;
        }
        rc = rc == 0 ? look(s, &below, level - 1, i == 0 ? low : e.key, from) : rc;
    }
    return rc;
}

static int find(struct shrink *s, const struct state *state)
{
    int rc = 0;
    s->targets.n = s->keys.n = 0;
    s->slots = 0;
    s->more = false;
    while (rc == 0 && !s->more && s->targets.n == 0 && s->tree < state->ntrees) {
        const struct tree_root *root = &state->trees[s->tree];
        struct ps_slice from = bytes_slice(&s->from);
        struct ps_slice none = {NULL, 0};
        void *copy = slice_copy(&from); /* the place moves meanwhile */
        if (copy == NULL) {
            return PS_NOMEM;
        }
        if (root->name != NULL && root->root.ref != 0) {
            rc = look(s, &root->root, root->level, none, from.len > 0 ? &from : NULL);
        }
        free(copy);
        if (!s->more) {
            s->tree++;
            s->from.n = 0;
            if (s->targets.n > 0) {
                break;
            }
        }
    }
    return rc;
}

/* ---- moving ------------------------------------------------------------------------------------
 */

static int move_long_run(struct shrink *s, struct ps_txn *txn, struct run_ref *run)
{
    struct ps_store *store = s->store;
    const uint8_t *data;
    struct run_ref made = {.len = run->len};
    int rc = run_data(store, run, &data);
    rc = rc == 0 ? txn_alloc_file(txn, run_pages(run->len, store->page_shift), &made.ref) : rc;
    if (rc != 0) {
        return rc;
    }
    made.birth = txn->stamp;
    int err = build_write_long_run(store->vfs, store->fd, store->page_shift, &made, data);
    if (err != 0) {
        store_fault(store, PS_POISONED, err, store->file_path, made.ref << store->page_shift,
                    "moving an overflow run");
        return store_poison(store, PS_POISONED);
    }
    rc = lost_since(store, txn->view.losses) ? lost_report(store) : 0;
    rc = rc == 0 ? run_drop(txn, run) : rc;
    *run = made;
    return rc;
}

static int move_run(struct shrink *s, struct ps_txn *txn, struct run_ref *run)
{
    struct ps_store *store = s->store;
    if (run->ref == 0 || !is_high(s, run->ref)) {
        run->ref = 0; /* stays as it is */
        return 0;
    }
    s->moved += run_pages(run->len, store->page_shift);
    if (run_is_long(run->len)) {
        return move_long_run(s, txn, run);
    }
    const uint8_t *data;
    struct run_ref made;
    int rc = run_data(store, run, &data);
    rc = rc == 0 ? run_make(txn, (struct ps_slice){data, (size_t)run->len}, &made) : rc;
    rc = rc == 0 && lost_since(store, txn->view.losses) ? lost_report(store) : rc;
    rc = rc == 0 ? run_drop(txn, run) : rc;
    *run = rc == 0 ? made : *run;
    return rc;
}

static int move_runs(struct shrink *s, struct ps_txn *txn, struct page *p)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && (p->flags & PAGE_HAS_OVERFLOW) && i < p->count; i++) {
        struct run_ref key, value;
        node_runs(p, i, &key, &value);
        rc = move_run(s, txn, &key);
        rc = rc == 0 ? move_run(s, txn, &value) : rc;
        if (rc == 0) {
            node_move_runs(p, i, &key, &value);
        }
    }
    return rc;
}

static int move_all(struct shrink *s, struct ps_txn *txn, ps_tree tree)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->targets.n; i++) {
        const struct target *t = &s->targets.at[i];
        struct tree_root *root = &txn->state->trees[tree];
        struct path path;
        rc = path_own(txn, root, (struct ps_slice){s->keys.at + t->key_at, t->key_len}, t->level,
                      &path);
        rc = rc == 0 ? move_runs(s, txn, path.page[t->level]) : rc;
        s->moved++;
    }
    return view_end(&txn->view, rc);
}

/* Waits until all that was executed is published. Not 0: the log or the store failed meanwhile. */
static int settle(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    while (store->unpublished > 0 && store->poisoned == 0 && !store->log_broken) {
        pthread_cond_wait(&store->cond, &store->mu);
    }
    int rc = store->poisoned != 0 ? store->poisoned : store->log_broken ? PS_BUSY : 0;
    pthread_mutex_unlock(&store->mu);
    return rc != 0 ? rc : harvest(store);
}

/* Slots and places for a step; *yes false: a checkpoint first. */
static bool has_room(struct ps_store *store)
{
    return txn_free_slots(store) >= 2 * budget(store) + slots_kept_back(store);
}

/* With the token. *did: there was something, and perhaps there is more. */
static int step(struct shrink *s, bool *did)
{
    struct ps_store *store = s->store;
    struct ps_txn *txn = &store->internal_txn;
    *did = false;
    int rc = settle(store);
    rc = rc == 0 ? txn_open(store, txn, false) : rc;
    if (rc != 0) {
        return rc;
    }
    rc = find(s, txn->state);
    *did = rc == 0 && (s->targets.n > 0 || s->more);
    ps_tree tree = s->more ? s->tree : s->tree - 1;
    rc = rc == 0 && s->targets.n > 0 ? move_all(s, txn, tree) : view_end(&txn->view, rc);
    if (rc != 0 || s->targets.n == 0) {
        txn_discard(txn);
        return rc;
    }
    rc = commit_internal(store, txn);
    store->stat.shrink_steps++;
    (void)harvest(store);
    reclaim(store);
    return rc;
}

static int take_turn(struct shrink *s, bool *did)
{
    struct ps_store *store = s->store;
    token_take(store);
    int rc = token_prepare(store);
    if (rc == 0 && !has_room(store)) {
        token_give(store);
        rc = checkpoint_ask(store, true);
        token_take(store);
        rc = rc == 0 ? token_prepare(store) : rc;
        if (rc == 0 && !has_room(store)) {
            rc = PS_TXNFULL; /* readers keep the slots, or there are too few at all */
        }
    }
    rc = rc == 0 ? step(s, did) : rc;
    token_give(store);
    return rc;
}

/* ---- the end of the file -----------------------------------------------------------------------
 */

/* What died is known to be free. */
static int come_to_rest(struct ps_store *store)
{
    int rc = checkpoint_ask(store, true);
    token_take(store);
    int prepared = token_prepare(store);
    if (prepared == 0) {
        reclaim(store);
    }
    token_give(store);
    return rc != 0 ? rc : prepared;
}

/* A state of its own for the checkpoint that says the new length: metas that name one state are
 * the same (inspect.h). */
static int new_stamp(struct ps_store *store)
{
    struct ps_txn *txn = &store->internal_txn;
    int rc = settle(store);
    rc = rc == 0 ? txn_open(store, txn, false) : rc;
    return rc == 0 ? commit_internal(store, txn) : rc;
}

static int cut(struct ps_store *store)
{
    token_take(store);
    int rc = token_prepare(store);
    uint64_t pages = rc == 0 ? space_cut(&store->space, store->arena.used + SLACK) : 0;
    file_pages_grew(store);
    rc = pages > 0 ? new_stamp(store) : rc;
    store->stat.shrink_cuts += pages > 0;
    store->stat.shrink_cut_pages += pages;
    token_give(store);
    if (rc != 0 || pages == 0) {
        return rc;
    }
    if (!ps_rule(RULE_CUT_AFTER_METAS)) {
        (void)space_shorten(&store->space);
    }
    rc = come_to_rest(store);
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&store->checkpoint_mu);
    bool said = store->meta.file_pages <= space_pages(&store->space);
    int err = said ? space_shorten(&store->space) : 0;
    pthread_mutex_unlock(&store->checkpoint_mu);
    return err == 0 ? 0
                    : store_fault(store, errno_code(err), err, store->file_path, 0,
                                  "cutting the file off");
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

/* What is beyond the length that all pages together need. False: it is not worth moving. */
static bool aim(struct shrink *s)
{
    struct space *space = &s->store->space;
    uint64_t pages = space_pages(space);
    uint64_t used = pages - space_free_pages(space);
    s->limit = used + used / 256 + SLACK;
    s->tree = 0;
    s->from.n = 0;
    s->whole = pages > s->limit ? pages - s->limit : 0;
    return s->whole > SLACK;
}

static int go_round(struct shrink *s)
{
    bool did = true;
    int rc = 0;
    while (rc == 0 && did) {
        rc = take_turn(s, &did);
        if (rc == 0 && s->watch != NULL && s->watch->progress != NULL) {
            uint64_t done = s->moved < s->whole ? s->moved : s->whole;
            rc = s->watch->progress(s->watch->arg, done, s->whole) ? 0 : PS_ENDED;
        }
    }
    return rc;
}

static int shrink(struct shrink *s)
{
    struct ps_store *store = s->store;
    int rc = come_to_rest(store);
    for (unsigned round = 0; rc == 0 && round < ROUNDS && aim(s); round++) {
        uint64_t before = space_pages(&store->space);
        s->moved = 0;
        rc = go_round(s);
        store->stat.shrink_moved += s->moved;
        int rest = rc == 0 || rc == PS_ENDED ? come_to_rest(store) : rc;
        rest = rest == 0 ? cut(store) : rest;
        rc = rc == 0 ? rest : rc;
        if (space_pages(&store->space) >= before) {
            break; /* snapshots hold what is left, or others write as much */
        }
    }
    return rc == 0 ? cut(store) : rc;
}

int ps_shrink(struct ps_store *store, const struct ps_copy_watch *watch, uint64_t *freed)
{
    struct shrink s = {.store = store, .watch = watch};
    uint64_t unused = 0;
    freed = freed == NULL ? &unused : freed;
    *freed = 0;
    if (store->options.read_only_check) {
        return PS_INVALID;
    }
    if (atomic_exchange(&store->shrinking, true)) {
        return PS_BUSY;
    }
    int rc = 0;
    for (unsigned i = 0; i < TREE_MAX_LEVELS; i++) {
        s.keybufs[i] = malloc(store->page_size);
        rc = s.keybufs[i] == NULL ? PS_NOMEM : rc;
    }
    uint64_t before = space_pages(&store->space);
    space_pack(&store->space, true);
    rc = rc == 0 ? shrink(&s) : rc;
    space_pack(&store->space, false);
    uint64_t after = space_pages(&store->space);
    *freed = after < before ? (before - after) << store->page_shift : 0;
    for (unsigned i = 0; i < TREE_MAX_LEVELS; i++) {
        free(s.keybufs[i]);
    }
    vec_free(&s.from);
    vec_free(&s.targets);
    vec_free(&s.keys);
    atomic_store(&store->shrinking, false);
    return rc;
}
