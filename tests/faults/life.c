/* life.c - see life.h. */
#include "tests/faults/life.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/calls.h"
#include "tests/faults/model.h"

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED true /* its own mappings are counted, too; but it finds lost memory */
#else
#define SANITIZED false
#endif

#define DIRTY       (128u * 4096)
#define PACED_DIRTY (8u << 20)
#define ATTEMPTS    4 /* of what fails because there is no space: parts of it are asked for later */
#define GIVE_UP     20000 /* ms that space may take to be noticed */

char life_case[LIFE_CASE];

void life_describe(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(life_case, sizeof life_case, format, args);
    va_end(args);
}

void finding(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("FAILED %s: ", life_case);
    vprintf(format, args);
    printf("\n");
    va_end(args);
    fflush(stdout);
    _exit(1);
}

/* ---- looking ----------------------------------------------------------------------------------
 */

static void no_violation(void)
{
    if (calls_violation() != NULL) {
        finding("%s", calls_violation());
    }
}

static uint64_t look(struct life *l, struct ps_snapshot *snap)
{
    const char *what;
    int rc;
    int64_t n = model_seen(ps_snapshot_view(snap), &rc, &what);
    if (n < 0) {
        struct ps_fault fault;
        ps_last_fault(l->store, &fault);
        finding("the state cannot be read: %s; %s (%s)", what == NULL ? "" : what, ps_strerror(rc),
                fault.what);
    }
    return (uint64_t)n;
}

static uint64_t published(struct life *l)
{
    struct ps_snapshot *snap;
    if (ps_snapshot_new(l->store, &snap) != 0) {
        finding("no snapshot");
    }
    ps_snapshot_renew(snap);
    uint64_t n = look(l, snap);
    ps_snapshot_free(snap);
    return n;
}

/* The published state is the one that it must be, and the file as long as the store believes. */
static void look_around(struct life *l)
{
    struct stat st;
    char path[512];
    uint64_t n = published(l);
    if (n != l->live) {
        finding("state %llu is published, not %llu", (unsigned long long)n,
                (unsigned long long)l->live);
    }
    snprintf(path, sizeof path, "%s/pando.db", l->dir);
    if (stat(path, &st) != 0 || (uint64_t)st.st_size < ps_file_bytes(l->store)) {
        finding("the file is shorter than the store believes");
    }
    no_violation();
}

static bool is_poisoned(struct life *l)
{
    struct ps_txn *txn;
    int rc = ps_begin(l->store, &txn);
    if (rc == 0) {
        ps_abort(txn);
    }
    return rc == PS_POISONED;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* An error was answered. Whether to try the same again. */
static bool goes_on(struct life *l, const char *call, int rc, unsigned attempt, int64_t began)
{
    struct ps_fault fault;
    ps_last_fault(l->store, &fault);
    l->errors++;
    if (!calls_failed()) {
        finding("%s failed without a reason: %s (%s)", call, ps_strerror(rc), fault.what);
    }
    if (l->harmless) {
        finding("%s failed: %s (%s)", call, ps_strerror(rc), fault.what);
    }
    bool busy = rc == PS_BUSY && l->resumes; /* what cannot go to the file stays in memory */
    if (rc != PS_IO && rc != PS_NOSPACE && rc != PS_UNKNOWN && rc != PS_POISONED &&
        rc != PS_NOMEM && !busy) {
        finding("%s answered %s (%s)", call, ps_strerror(rc), fault.what);
    }
    look_around(l);
    l->poisoned = is_poisoned(l);
    if (l->poisoned && l->resumes) {
        finding("%s: without space the store takes no more writes: %s", call, fault.what);
    }
    calls_space();
    if (!l->poisoned && (attempt > ATTEMPTS && (!l->resumes || now_ms() - began > GIVE_UP))) {
        finding("%s goes on failing: %s (%s)", call, ps_strerror(rc), fault.what);
    }
    l->retries += !l->poisoned;
    return !l->poisoned;
}

/* ---- steps: false ends the life ---------------------------------------------------------------
 */

static int make_commit(struct life *l, uint64_t n, enum ps_durability level)
{
    struct ps_txn *txn;
    int rc = ps_begin(l->store, &txn);
    if (rc != 0) {
        return rc;
    }
    rc = model_apply(txn, n);
    if (rc != 0) {
        ps_abort(txn);
        return rc;
    }
    return ps_commit(txn, level, NULL);
}

static bool commit(struct life *l, enum ps_durability level)
{
    uint64_t n = l->live + 1;
    int64_t began = now_ms();
    for (unsigned attempt = 1;; attempt++) {
        int rc = make_commit(l, n, level);
        if (rc == 0) {
            l->live = l->tried = n;
            l->floor = level != PS_NONE ? n : l->floor;
            return true;
        }
        if (!goes_on(l, "a commit", rc, attempt, began)) {
            /* Its record may have been written by a log that could not be synced. */
            l->tried = rc == PS_UNKNOWN ? n : l->tried;
            return false;
        }
    }
}

static bool checkpoint(struct life *l)
{
    int64_t began = now_ms();
    for (unsigned attempt = 1;; attempt++) {
        int rc = ps_checkpoint(l->store);
        if (rc == 0) {
            l->floor = l->live;
            return true;
        }
        if (!goes_on(l, "a checkpoint", rc, attempt, began)) {
            return false;
        }
    }
}

static bool set_level(struct life *l, enum ps_durability level)
{
    int64_t began = now_ms();
    for (unsigned attempt = 1;; attempt++) {
        int rc = ps_set_durability(l->store, level);
        if (rc == 0) {
            l->floor = level != PS_NONE ? l->live : l->floor;
            return true;
        }
        if (!goes_on(l, "a change of durability", rc, attempt, began)) {
            return false;
        }
    }
}

static bool flush(struct life *l)
{
    int64_t began = now_ms();
    for (unsigned attempt = 1;; attempt++) {
        int rc = ps_flush(l->store, ps_published(l->store));
        if (rc == 0) {
            l->floor = l->live;
            return true;
        }
        if (!goes_on(l, "a flush", rc, attempt, began)) {
            return false;
        }
    }
}

/* A snapshot is held over a commit, moves to the file, and is still what it was; or it has ended.
 */
static bool long_read(struct life *l)
{
    struct ps_snapshot *snap;
    uint64_t before = l->live;
    if (ps_snapshot_new(l->store, &snap) != 0) {
        finding("no snapshot");
    }
    ps_snapshot_renew(snap);
    bool on = commit(l, PS_EVERYSEC);
    int rc = ps_snapshot_move(snap);
    if (rc == 0) {
        if (look(l, snap) != before) {
            finding("a snapshot that moved shows another state");
        }
    } else {
        ps_tree tree;
        l->errors++;
        if (l->harmless || !calls_failed()) {
            finding("a move failed: %s", ps_strerror(rc));
        }
        if (ps_tree_find(ps_snapshot_view(snap), (struct ps_slice){"first", 5}, &tree) !=
            PS_ENDED) {
            finding("a snapshot whose move failed can still be read");
        }
        calls_space();
    }
    ps_snapshot_free(snap);
    return on;
}

static void nothing_is_left_open(void)
{
    if (calls_open_files() != 0) {
        finding("%u files are still open", calls_open_files());
    }
    if (!SANITIZED && calls_open_mappings() != 0) {
        finding("%d mappings are still there", calls_open_mappings());
    }
}

static bool open_once(struct life *l, bool paced)
{
    struct ps_options options = {
        .dirty_memory = paced ? PACED_DIRTY : DIRTY,
        .map_size = UINT64_C(1) << 30,
        .log_segment_size = 1u << 20,
        .durability = PS_EVERYSEC,
        .manual_checkpoint = !paced,
        .vfs = l->vfs,
    };
    struct ps_fault fault;
    calls_new_life();
    int rc = ps_open(l->dir, &options, &l->store, NULL, &fault);
    no_violation();
    if (rc == 0) {
        return true;
    }
    if (l->harmless || !calls_failed()) {
        finding("opening failed: %s: %s: %s", ps_strerror(rc), fault.file, fault.what);
    }
    if (l->store != NULL || fault.what[0] == '\0') {
        finding("opening failed without saying where");
    }
    l->errors++;
    nothing_is_left_open();
    calls_space();
    return false;
}

/* What fails once may be tried again at once; only the memory of it is gone. */
static bool open_store(struct life *l, bool paced)
{
    if (!open_once(l, paced)) {
        l->retries++;
        if (!open_once(l, paced)) {
            finding("opening fails again");
        }
    }
    uint64_t n = published(l);
    if (n < l->floor || n > l->tried) {
        finding("state %llu was found, not one of [%llu, %llu]", (unsigned long long)n,
                (unsigned long long)l->floor, (unsigned long long)l->tried);
    }
    l->live = l->tried = n;
    l->floor = n;
    return true;
}

static void close_store(struct life *l, bool with_checkpoint)
{
    int rc = ps_close(l->store, with_checkpoint);
    l->store = NULL;
    no_violation();
    nothing_is_left_open();
    if (rc != 0) {
        l->errors++;
        if (l->harmless || !calls_failed()) {
            finding("closing failed: %s", ps_strerror(rc));
        }
        calls_space();
    } else if (with_checkpoint) {
        l->floor = l->live;
    }
}

/* ---- lives ------------------------------------------------------------------------------------
 */

void life_of_all(struct life *l)
{
    bool on = open_store(l, false) && commit(l, PS_ALWAYS) && commit(l, PS_EVERYSEC) &&
              commit(l, PS_ALWAYS) && checkpoint(l) && commit(l, PS_EVERYSEC) &&
              commit(l, PS_ALWAYS) /* 5: larger than memory */ && long_read(l) &&
              commit(l, PS_ALWAYS) && checkpoint(l) && commit(l, PS_EVERYSEC) && flush(l) &&
              commit(l, PS_EVERYSEC);
    if (!on) {
        return;
    }
    close_store(l, false);
    on = open_store(l, false) && set_level(l, PS_NONE) && commit(l, PS_NONE) && flush(l) &&
         commit(l, PS_NONE) && checkpoint(l) && commit(l, PS_NONE) && set_level(l, PS_EVERYSEC) &&
         commit(l, PS_ALWAYS) && commit(l, PS_EVERYSEC) /* 14 */ && checkpoint(l) &&
         commit(l, PS_ALWAYS) && checkpoint(l) && commit(l, PS_ALWAYS);
    if (!on) {
        return;
    }
    close_store(l, true);
    if (open_store(l, false)) {
        (void)(commit(l, PS_ALWAYS) && checkpoint(l));
    }
}

static uint64_t checkpoints(struct life *l)
{
    struct ps_stat stat;
    ps_stats(l->store, &stat);
    return stat.checkpoints;
}

/* Bytes that say nothing of the state, in a tree of their own. */
static int put_ballast(struct life *l, unsigned i)
{
    static char bytes[60000];
    struct ps_txn *txn;
    ps_tree tree;
    int rc = ps_begin(l->store, &txn);
    if (rc != 0) {
        return rc;
    }
    rc = ps_tree_create(txn, (struct ps_slice){"ballast", 7}, &tree);
    for (unsigned k = 0; rc == 0 && k < 8; k++) {
        unsigned key = 8 * i + k;
        rc = ps_put(txn, tree, (struct ps_slice){&key, sizeof key},
                    (struct ps_slice){bytes, sizeof bytes});
    }
    if (rc != 0) {
        ps_abort(txn);
        return rc;
    }
    return ps_commit(txn, PS_EVERYSEC, NULL);
}

static bool ballast(struct life *l, unsigned i)
{
    int64_t began = now_ms();
    for (unsigned attempt = 1;; attempt++) {
        int rc = put_ballast(l, i);
        if (rc == 0 || !goes_on(l, "a commit of ballast", rc, attempt, began)) {
            return rc == 0;
        }
    }
}

/* Half of dirty memory is filled, so that a checkpoint begins; it ends, or the store takes no more.
 */
void life_of_pacing(struct life *l)
{
    bool on = open_store(l, true) && commit(l, PS_EVERYSEC);
    uint64_t before = on ? checkpoints(l) : 0;
    for (unsigned i = 0; on && i < PACED_DIRTY / 2 / (8 * 60000) + 2; i++) {
        on = ballast(l, i);
    }
    while (on && checkpoints(l) == before) {
        l->poisoned = is_poisoned(l);
        on = !l->poisoned;
        sched_yield();
    }
    if (on) {
        (void)commit(l, PS_ALWAYS);
    }
}

static void print_finding(void *arg, const char *line)
{
    (void)arg;
    printf("  %s\n", line);
}

void life_after(struct life *l)
{
    if (l->store != NULL) {
        look_around(l);
        close_store(l, false);
    }
    calls_fail(CALLS, 0, 0);
    l->harmless = true;
    l->resumes = l->poisoned = false;
    (void)open_store(l, false);
    if (ps_check(l->store, print_finding, NULL) != 0) {
        finding("the structure is not sound");
    }
    (void)commit(l, PS_ALWAYS);
    close_store(l, true);
    (void)open_store(l, false);
    if (ps_check(l->store, print_finding, NULL) != 0) {
        finding("the structure is not sound after a checkpoint");
    }
    close_store(l, false);
}
