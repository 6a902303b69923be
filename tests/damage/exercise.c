/*
 * exercise.c - see exercise.h. First the store is only looked at, as pando-tool does; then it is
 * opened, recovered, read, changed, checkpointed, and opened once more.
 */
#include "tests/damage/exercise.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/poison.h"
#include "tests/damage/reading.h"

#ifdef POISON_ADDRESSES
/* A damaged file may refer to a page that a change has freed. Its level and its birth are looked at
 * before they are believed, which is no use of freed memory; so here its bytes are overwritten when
 * it is freed, as elsewhere, and looking at them is no finding. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allow_user_poisoning=0";
}
#endif

struct run {
    const struct shape *shape;
    const char *dir;
    bool fixed, in_log;
    struct verdict *verdict;
    struct ps_store *store;
    unsigned lines; /* that ps_check reported */
    bool sound;     /* ps_check passed it when it was only looked at */
    bool told;
};

static void wrong(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void wrong(struct run *run, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (run->verdict->outcome != OUTCOME_WRONG) {
        run->verdict->outcome = OUTCOME_WRONG;
        vsnprintf(run->verdict->why, sizeof run->verdict->why, format, args);
    }
    va_end(args);
}

/* ---- opening ------------------------------------------------------------------------------------
 */

static bool open_store(struct run *run, bool only_look)
{
    struct ps_options options = run->shape->options;
    struct ps_fault fault = {0};
    options.read_only_check = only_look;
    int rc = ps_open(run->dir, &options, &run->store, NULL, &fault);
    if (rc == 0) {
        return true;
    }
    if (rc != PS_CORRUPT && rc != PS_VERSION) {
        wrong(run, "opening answers: %s (%s: %s)", ps_strerror(rc), fault.file, fault.what);
    } else if (fault.code != rc || fault.what[0] == '\0' ||
               strncmp(fault.file, run->dir, strlen(run->dir)) != 0) {
        wrong(run, "opening does not say what and where: '%s', '%s'", fault.file, fault.what);
    }
    return false;
}

static void a_finding(void *arg, const char *line)
{
    struct run *run = arg;
    run->lines++;
    if (strstr(line, "offset ") == NULL || strstr(line, run->dir) == NULL) {
        wrong(run, "a finding without a place: %s", line);
    }
}

static bool check(struct run *run)
{
    run->lines = 0;
    int rc = ps_check(run->store, a_finding, run);
    if (rc != 0 && rc != PS_CORRUPT && rc != PS_POISONED) {
        wrong(run, "ps_check answers: %s", ps_strerror(rc));
    }
    if ((rc == 0) != (run->lines == 0) && rc != PS_POISONED && run->sound) {
        wrong(run, "ps_check answers %d and reports %u findings", rc, run->lines);
    }
    return rc == 0;
}

/* Reads all and compares with what must hold; `known` is what was there, or NULL. */
static bool read_all(struct run *run, const struct known *known, struct reading *reading)
{
    read_everything(run->store, reading);
    if (reading->forbidden[0] != '\0') {
        wrong(run, "%s", reading->forbidden);
    }
    run->told = run->told || reading->errors > 0;
    if (!run->fixed && reading->errors == 0 && reading->unsound[0] != '\0') {
        wrong(run, "read without an error: %s", reading->unsound);
    }
    if (!run->fixed && known != NULL) {
        char text[200];
        unsigned errors = read_known(run->store, known, text);
        run->told = run->told || errors > 0;
        if (text[0] != '\0') {
            wrong(run, "%s", text);
        }
        if (reading->errors == 0 && reading->digest != known->digest) {
            wrong(run, "what is read without an error is not what was there");
        }
    }
    return reading->errors == 0;
}

/* ---- looking ------------------------------------------------------------------------------------
 */

static bool look(struct run *run, struct reading *reading)
{
    if (!open_store(run, true)) {
        return false;
    }
    bool read = read_all(run, &run->shape->at_checkpoint, reading);
    run->sound = true; /* for now: that answer and lines agree is asked for */
    run->sound = check(run);
    if (run->sound && !read) {
        wrong(run, "a read told of damage, and ps_check finds none");
    }
    if (run->sound && reading->unsound[0] != '\0') {
        wrong(run, "ps_check passes a store where %s", reading->unsound);
    }
    (void)ps_close(run->store, false);
    return true;
}

/* ---- changing -----------------------------------------------------------------------------------
 */

struct change {
    struct run *run;
    struct ps_txn *txn;
    int rc; /* of the first that failed */
};

/* Whether the transaction is good to go on with. */
static bool done(struct change *c, int rc, const char *call)
{
    if (rc == 0 || rc == PS_NOTFOUND) {
        return true;
    }
    c->rc = c->rc == 0 ? rc : c->rc;
    if (rc != PS_CORRUPT && rc != PS_POISONED && rc != PS_BUSY && rc != PS_NOSPACE) {
        wrong(c->run, "%s answers: %s", call, ps_strerror(rc));
    }
    if (c->run->sound && rc != PS_BUSY) {
        struct ps_fault fault;
        ps_last_fault(c->run->store, &fault);
        wrong(c->run, "ps_check passed it, and %s answers: %s (%s)", call, ps_strerror(rc),
              fault.what);
    }
    return false;
}

static bool put_some(struct change *c, size_t from, size_t step)
{
    const struct known *known = &c->run->shape->at_end;
    static uint8_t bytes[3000];
    memset(bytes, 'w', sizeof bytes);
    for (size_t i = from; i < known->entries.n; i += step) {
        const struct known_entry *e = &known->entries.at[i];
        struct ps_slice key = {e->key, e->len};
        struct ps_slice value = {bytes, i * 37 % (i % 16 == 0 ? sizeof bytes : 120)};
        int rc = i % 5 == 4 ? ps_delete(c->txn, e->tree, key) : ps_put(c->txn, e->tree, key, value);
        if (!done(c, rc, "changing an entry")) {
            return false;
        }
        if (i % 7 == 0 && e->len < 300) { /* a new one beside it */
            uint8_t longer[320];
            memcpy(longer, e->key, e->len);
            memset(longer + e->len, 'n', 8);
            key = (struct ps_slice){longer, e->len + 8};
            if (!done(c, ps_put(c->txn, e->tree, key, value), "putting an entry")) {
                return false;
            }
        }
    }
    return true;
}

static bool remove_most(struct change *c)
{
    const struct known *known = &c->run->shape->at_end;
    for (size_t i = 0; i < known->entries.n; i++) {
        const struct known_entry *e = &known->entries.at[i];
        struct ps_slice key = {e->key, e->len};
        if (i % 11 != 0 && !done(c, ps_delete(c->txn, e->tree, key), "deleting an entry")) {
            return false;
        }
    }
    return true;
}

static bool trees(struct change *c)
{
    ps_tree made;
    uint64_t deleted;
    struct ps_slice name = {"made afterwards", 15}, one = {"1", 1};
    return done(c, ps_savepoint(c->txn), "a savepoint") && put_some(c, 3, 9) &&
           done(c, ps_savepoint_rollback(c->txn), "rolling back") &&
           done(c, ps_tree_create(c->txn, name, &made), "making a tree") &&
           done(c, ps_put(c->txn, made, one, one), "putting into a new tree") &&
           done(c, ps_delete_range(c->txn, 0, &one, NULL, 9, &deleted), "deleting a range") &&
           done(c, ps_delete_range(c->txn, 0, NULL, &one, 0, &deleted), "deleting a range") &&
           done(c, ps_clear(c->txn, 0), "emptying a tree") &&
           done(c, ps_tree_drop(c->txn, 1), "dropping a tree");
}

static bool in_transaction(struct change *c, unsigned step)
{
    int rc = ps_begin(c->run->store, &c->txn);
    if (!done(c, rc, "beginning")) {
        return false;
    }
    bool good = step == 0 ? put_some(c, 0, 3) : step == 1 ? remove_most(c) : trees(c);
    if (!good && c->rc != PS_BUSY) {
        ps_abort(c->txn);
        return false;
    }
    c->rc = c->rc == PS_BUSY ? 0 : c->rc;
    return done(c, ps_commit(c->txn, PS_EVERYSEC, NULL), "committing");
}

/* Changes, checkpoints, snapshots. False: some of it told of damage. */
static bool change(struct run *run)
{
    struct change c = {.run = run};
    struct ps_snapshot *snap;
    must(ps_snapshot_new(run->store, &snap) == 0, "memory");
    ps_snapshot_renew(snap);
    bool good = true;
    for (unsigned step = 0; good && step < 3; step++) {
        good = in_transaction(&c, step) && done(&c, ps_checkpoint(run->store), "a checkpoint");
    }
    good = good && done(&c, ps_checkpoint(run->store), "a checkpoint");
    ps_snapshot_free(snap);
    run->told = run->told || !good;
    return good;
}

/* ---- all of it ----------------------------------------------------------------------------------
 */

static bool is_a_state(const struct shape *shape, uint64_t digest)
{
    for (unsigned i = 0; i < shape->ndigests; i++) {
        if (shape->digests[i] == digest) {
            return true;
        }
    }
    return false;
}

static void changed_and_reopened(struct run *run)
{
    struct reading reading;
    bool changed = change(run);
    bool checked = check(run);
    if (changed && run->sound && !checked) {
        wrong(run, "after changes ps_check finds damage that was not there before");
    }
    read_all(run, NULL, &reading);
    (void)ps_close(run->store, changed);
    if (!open_store(run, false)) {
        if (run->sound) {
            wrong(run, "a sound store does not open again");
        }
        return;
    }
    struct reading again;
    read_all(run, NULL, &again);
    if (run->sound && changed && again.digest != reading.digest) {
        wrong(run, "another state after opening again");
    }
    (void)ps_close(run->store, false);
}

void exercise(const struct shape *shape, const char *dir, bool fixed, bool in_log,
              struct verdict *verdict)
{
    struct run run = {
        .shape = shape, .dir = dir, .fixed = fixed, .in_log = in_log, .verdict = verdict};
    struct reading reading = {0};
    *verdict = (struct verdict){.outcome = OUTCOME_HARMLESS};
    bool looked = look(&run, &reading);
    bool opened = open_store(&run, false);
    if (opened) {
        bool read = read_all(&run, in_log ? NULL : &shape->at_end, &reading);
        bool state = is_a_state(shape, reading.digest);
        if (!fixed && read && !state) {
            wrong(&run, "a state that there never was");
        }
        bool same = read && reading.digest == shape->at_end.digest;
        changed_and_reopened(&run);
        if (verdict->outcome != OUTCOME_WRONG) {
            verdict->outcome = run.told               ? OUTCOME_TOLD
                               : looked && !run.sound ? OUTCOME_FOUND
                               : same                 ? OUTCOME_HARMLESS
                               : state                ? OUTCOME_CUT
                                                      : OUTCOME_UNNOTICED;
        }
    } else if (verdict->outcome != OUTCOME_WRONG) {
        verdict->outcome = OUTCOME_REFUSED;
    }
}
