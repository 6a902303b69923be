/*
 * scrub.c - reading everything again and again (pandostore.h, "scrubbing").
 *
 *  1. A step has a snapshot of its own, of the newest state, and goes on at the key where the one
 *     before ended: what is overwritten meanwhile is never kept.
 *  2. Nodes and runs are checked whatever was checked before (walk.h); what is in the arena was
 *     never read from anywhere, and is passed over.
 *  3. Behind damage it goes on with the next page.
 *
 * Threads: the caller's, or one of its own; mu guards the report and the end.
 */
#include <time.h>

#include "storage/age.h"
#include "storage/walk.h"

#define PARTS_A_SECOND 10u
#define LEAST_PART     (UINT64_C(64) << 10)
#define ENOUGH         1 /* what ends a step; no error is positive */

struct ps_scrub {
    struct ps_store *store;
    struct ps_snapshot *snap;
    struct walk walk;
    ps_tree tree;  /* where it is */
    byte_vec key;  /* the next entry there */
    bool within;   /* the key counts */
    uint64_t left; /* bytes of this step */
    bool fresh;    /* it has not met an entry yet: it ends behind one at the earliest */
    pthread_mutex_t mu;
    pthread_cond_t cond;
    pthread_t thread;
    bool runs, stop;
    uint64_t pace;
    struct ps_scrub_report report; /* mu */
};

/* ---- what a walk finds ------------------------------------------------------------------------
 */

static int entry(void *arg, struct ps_slice key, struct ps_slice value, bool encoded)
{
    struct ps_scrub *s = arg;
    (void)value;
    (void)encoded;
    if (s->left > 0 || s->fresh) {
        s->fresh = false;
        return 0;
    }
    if (!bytes_keep(&s->key, key)) {
        return PS_NOMEM;
    }
    s->within = true;
    return ENOUGH;
}

static int pages(void *arg, uint64_t n)
{
    struct ps_scrub *s = arg;
    uint64_t bytes = n << s->store->page_shift;
    s->left -= bytes < s->left ? bytes : s->left;
    pthread_mutex_lock(&s->mu);
    s->report.bytes += bytes;
    bool over = s->stop;
    pthread_mutex_unlock(&s->mu);
    if (over) {
        s->left = 0;
    }
    return view_is_over(ps_snapshot_view(s->snap)) ? PS_ENDED : 0;
}

static int unreadable(void *arg, int rc)
{
    struct ps_scrub *s = arg;
    struct ps_fault fault;
    ps_last_fault(s->store, &fault);
    fault.code = rc;
    store_message(s->store, 1, "scrubbing: %s, %s at %llu", fault.what, fault.file,
                  (unsigned long long)fault.offset);
    pthread_mutex_lock(&s->mu);
    s->report.findings++;
    s->report.fault = fault;
    pthread_mutex_unlock(&s->mu);
    ps_view_resume(ps_snapshot_view(s->snap));
    return 0;
}

/* ---- steps -------------------------------------------------------------------------------------
 */

int ps_scrub_new(struct ps_store *store, struct ps_scrub **scrub)
{
    struct ps_scrub *s = calloc(1, sizeof *s);
    *scrub = NULL;
    int rc = s == NULL ? PS_NOMEM : ps_snapshot_new(store, &s->snap);
    if (rc != 0) {
        free(s);
        return rc;
    }
    s->store = store;
    s->walk = (struct walk){
        .store = store, .entry = entry, .pages = pages, .unreadable = unreadable, .arg = s};
    pthread_mutex_init(&s->mu, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *scrub = s;
    return 0;
}

void ps_scrub_free(struct ps_scrub *s)
{
    if (s == NULL) {
        return;
    }
    ps_scrub_stop(s);
    ps_snapshot_free(s->snap);
    walk_free(&s->walk);
    vec_free(&s->key);
    pthread_cond_destroy(&s->cond);
    pthread_mutex_destroy(&s->mu);
    free(s);
}

static int walk_on(struct ps_scrub *s, const struct state *state)
{
    const struct tree_root *root = &state->trees[s->tree];
    if (root->name == NULL) {
        return 0;
    }
    if (!s->within) {
        return walk_tree(&s->walk, root);
    }
    struct ps_slice from = bytes_slice(&s->key);
    void *copy = slice_copy(&from); /* the place moves meanwhile */
    if (copy == NULL) {
        return PS_NOMEM;
    }
    int rc = walk_tree_from(&s->walk, root, from);
    free(copy);
    return rc;
}

int ps_scrub_step(struct ps_scrub *s, uint64_t bytes, bool *end)
{
    int rc = 0;
    s->left = bytes;
    s->fresh = true;
    *end = false;
    ps_snapshot_renew(s->snap);
    const struct state *state = ps_snapshot_view(s->snap)->state;
    while (rc == 0 && s->tree < state->ntrees) {
        rc = walk_on(s, state);
        if (rc == 0) {
            s->tree++;
            s->within = false;
        }
    }
    if (rc == 0) {
        *end = true;
        s->tree = 0;
        pthread_mutex_lock(&s->mu);
        s->report.rounds++;
        pthread_mutex_unlock(&s->mu);
    }
    ps_snapshot_reset(s->snap);
    return rc == ENOUGH || rc == PS_ENDED ? 0 : rc;
}

void ps_scrub_read(struct ps_scrub *s, struct ps_scrub_report *report)
{
    pthread_mutex_lock(&s->mu);
    *report = s->report;
    pthread_mutex_unlock(&s->mu);
}

/* ---- the thread --------------------------------------------------------------------------------
 */

/* Until what was read should have taken so long; with mu. */
static void rest(struct ps_scrub *s, struct timespec *until, uint64_t bytes)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec > until->tv_sec + 1) { /* the device is slower than that: no debt to pay off */
        *until = now;
    }
    uint64_t ns = (uint64_t)((double)bytes / (double)s->pace * 1e9) + (uint64_t)until->tv_nsec;
    until->tv_sec += (time_t)(ns / 1000000000u);
    until->tv_nsec = (long)(ns % 1000000000u);
    int timed_out = 0;
    while (!s->stop && timed_out == 0) {
        timed_out = pthread_cond_timedwait(&s->cond, &s->mu, until);
    }
}

static void *scrub_main(void *arg)
{
    struct ps_scrub *s = arg;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t part = s->pace / PARTS_A_SECOND < LEAST_PART ? LEAST_PART : s->pace / PARTS_A_SECOND;
    pthread_mutex_lock(&s->mu);
    while (!s->stop) {
        uint64_t before = s->report.bytes;
        bool end;
        pthread_mutex_unlock(&s->mu);
        int rc = ps_scrub_step(s, part, &end);
        pthread_mutex_lock(&s->mu);
        uint64_t did = s->report.bytes - before;
        rest(s, &until, rc != 0 || end || did < part ? did + part : did);
    }
    pthread_mutex_unlock(&s->mu);
    return NULL;
}

int ps_scrub_start(struct ps_scrub *s, uint64_t bytes_per_second)
{
    if (s->runs) {
        return PS_EXISTS;
    }
    if (bytes_per_second == 0) {
        return PS_INVALID;
    }
    s->pace = bytes_per_second;
    s->stop = false;
    s->runs = pthread_create(&s->thread, NULL, scrub_main, s) == 0;
    return s->runs ? 0 : PS_NOMEM;
}

void ps_scrub_stop(struct ps_scrub *s)
{
    if (!s->runs) {
        return;
    }
    pthread_mutex_lock(&s->mu);
    s->stop = true;
    pthread_cond_signal(&s->cond);
    pthread_mutex_unlock(&s->mu);
    pthread_join(s->thread, NULL);
    s->runs = s->stop = false;
}
