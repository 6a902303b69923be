/*
 * main.c - a snapshot is held while everything is overwritten again and again: what it costs.
 *
 *   growth [--rounds N] [--keys N] [--value N] [--dirty-mib N]
 *
 * N rounds (100) of overwriting N keys (8,000) with values of N bytes (1000), a hundred in a
 * transaction, over dirty memory of N MiB (4), the background threads at work. Three cases:
 *
 *   pinned   a snapshot that was pinned to a checkpoint
 *   moved    one that was just taken, sees dirty memory, and moves when it is asked to
 *   both     one of each, of different states: two copies
 *
 * With D the bytes of the pages that the data take, A those of dirty memory, and C the number of
 * snapshots (copies), asserted after every round, and at the end:
 *
 *   G1 Pages of the file in use: at most C * D more than before, and A, and 1 MiB for maps and
 *      branches. After the second round they grow by no more than A and 1 MiB.
 *   G2 The file: at most C * D and 2 * A larger than before, and 4 MiB, by which it grows ahead.
 *      After round 10 it does not grow any more, but for A.
 *   G3 Slots in use: never more than dirty memory has; and none is retained by them at the end of a
 *      round for longer than it takes to ask (no snapshot that has moved, or is pinned, has any).
 *   G4 What is listed as retained is what is in use beyond the data, within A and 1 MiB.
 *   G5 Every tenth round the snapshots still read what was there when they were taken, all of it.
 *   G6 After they have gone, pages in use are what they were before, within 64 pages.
 *
 * LMDB's file, under the same work with one reader held, is printed beside it.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "storage/pandostore.h"
#include "tests/growth/lmdb.h"
#include "tests/support/store_dir.h"

#define STEP   100u
#define MIB    (UINT64_C(1) << 20)
#define WARM   4u /* rounds before a snapshot is taken */
#define CASES  3u
#define STEADY 10u

static const struct plan {
    const char *name;
    bool pinned, moved;
} plans[CASES] = {{"pinned", true, false}, {"moved", false, true}, {"both", true, true}};

struct options {
    uint64_t rounds, keys, value, dirty_mib;
};

struct held {
    struct ps_snapshot *snap; /* NULL: none */
    unsigned round;           /* of the values that it sees */
    bool pinned;
};

struct run {
    struct options o;
    const struct plan *plan;
    struct ps_store *store;
    ps_tree tree;
    struct held held[2];
    uint64_t data, dirty, copies; /* bytes, bytes, number */
    uint64_t base_used, base_file, used_after_two, file_after_ten;
    char *value;
};

static void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("FAILED ");
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
    exit(1);
}

static void must(int rc, const char *call)
{
    if (rc != 0)
        die("%s answered %d (%s)", call, rc, ps_strerror(rc));
}

static uint64_t used(const struct ps_stat *stat)
{
    return (stat->file_pages - stat->file_pages_free) * stat->page_size;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (double)MIB;
}

static void expect_at_most(struct run *r, unsigned round, const char *what, uint64_t is,
                           uint64_t most)
{
    if (is > most)
        die("%s, round %u: %s is %llu bytes, more than %llu", r->plan->name, round, what,
            (unsigned long long)is, (unsigned long long)most);
}

/* ---- the work -------------------------------------------------------------------------------- */

static struct ps_slice key_of(char text[32], unsigned i)
{
    int n = snprintf(text, 32, "key %08u", i);
    return (struct ps_slice){text, (size_t)n};
}

static void move_if_asked(struct run *r)
{
    for (unsigned i = 0; i < 2; i++) {
        struct ps_snapshot *snap = r->held[i].snap;
        if (snap != NULL && ps_snapshot_should_move(snap))
            must(ps_snapshot_move(snap), "ps_snapshot_move");
    }
}

/* The snapshots' thread is the writer's: they move before a transaction could wait for them. */
static void overwrite(struct run *r, unsigned round)
{
    struct ps_slice value = {r->value, r->o.value};
    memset(r->value, (int)('a' + round % 26), r->o.value);
    for (unsigned from = 0; from < r->o.keys; from += STEP) {
        struct ps_txn *txn;
        move_if_asked(r);
        must(ps_begin(r->store, &txn), "ps_begin");
        must(ps_reserve(txn, STEP, STEP * (r->o.value + 16)), "ps_reserve");
        for (unsigned i = from; i < from + STEP && i < r->o.keys; i++) {
            char text[32];
            must(ps_put(txn, r->tree, key_of(text, i), value), "ps_put");
        }
        must(ps_commit(txn, PS_NONE, NULL), "ps_commit");
    }
}

/* Two checkpoints, so that neither meta has an older state, and a look at what died. */
static void settle(struct run *r, struct ps_stat *stat)
{
    struct ps_txn *txn;
    for (unsigned i = 0; i < 2; i++) {
        must(ps_checkpoint(r->store), "ps_checkpoint");
        must(ps_begin(r->store, &txn), "ps_begin");
        ps_abort(txn);
    }
    ps_stats(r->store, stat);
}

/* ---- what is asserted ------------------------------------------------------------------------ */

static void check_sizes(struct run *r, unsigned round, const struct ps_stat *stat)
{
    uint64_t more = used(stat) > r->base_used ? used(stat) - r->base_used : 0;
    uint64_t kept = stat->snapshots_retained_file;
    r->used_after_two = round == 2 ? used(stat) : r->used_after_two;
    r->file_after_ten = round == STEADY ? stat->file_bytes : r->file_after_ten;
    expect_at_most(r, round, "what is in use", used(stat),
                   r->base_used + r->copies * r->data + r->dirty + MIB);
    expect_at_most(r, round, "the file", stat->file_bytes,
                   r->base_file + r->copies * r->data + 2 * r->dirty + 4 * MIB);
    if (round > 2)
        expect_at_most(r, round, "what is in use", used(stat), r->used_after_two + r->dirty + MIB);
    if (round > STEADY)
        expect_at_most(r, round, "the file", stat->file_bytes, r->file_after_ten + r->dirty);
    expect_at_most(r, round, "dirty memory", stat->arena_slots_peak * stat->page_size, r->dirty);
    expect_at_most(r, round, "dirty memory retained", stat->snapshots_retained_memory,
                   round > 1 ? 0 : r->dirty);
    expect_at_most(r, round, "what is retained", kept, more + r->dirty + MIB);
    expect_at_most(r, round, "what is in use and not listed", more, kept + r->dirty + MIB);
}

static void check_held(struct run *r, unsigned round)
{
    for (unsigned k = 0; k < 2; k++) {
        struct held *h = &r->held[k];
        struct ps_cursor *c;
        unsigned i = 0;
        if (h->snap == NULL)
            continue;
        must(ps_cursor_open(ps_snapshot_view(h->snap), r->tree, &c), "ps_cursor_open");
        for (int rc = ps_cursor_first(c); rc == 0; rc = ps_cursor_next(c), i++) {
            struct ps_slice key, value;
            char text[32];
            must(ps_cursor_get(c, &key, &value), "ps_cursor_get");
            struct ps_slice want = key_of(text, i);
            if (key.len != want.len || memcmp(key.data, text, want.len) != 0 ||
                value.len != r->o.value ||
                ((const char *)value.data)[value.len / 2] != (char)('a' + h->round % 26))
                die("%s, round %u: key %u is not what it was", r->plan->name, round, i);
        }
        ps_cursor_close(c);
        if (i != r->o.keys)
            die("%s, round %u: %u keys are left", r->plan->name, round, i);
    }
}

static void finding(void *arg, const char *line)
{
    (void)arg;
    printf("ps_check: %s\n", line);
}

/* ---- a case ---------------------------------------------------------------------------------- */

static void begin_case(struct run *r, const char *dir)
{
    struct ps_options options = {.dirty_memory = r->dirty, .durability = PS_NONE};
    struct ps_txn *txn;
    struct ps_stat stat;
    must(ps_open(dir, &options, &r->store, NULL, NULL), "ps_open");
    must(ps_begin(r->store, &txn), "ps_begin");
    must(ps_tree_create(txn, (struct ps_slice){"tree", 4}, &r->tree), "ps_tree_create");
    must(ps_commit(txn, PS_NONE, NULL), "ps_commit");
    for (unsigned round = 0; round < WARM; round++)
        overwrite(r, round);
    settle(r, &stat);
    r->base_used = r->data = used(&stat);
    r->base_file = stat.file_bytes;
}

/* The plain one is taken when much of its state is in dirty memory. */
static void take_snapshots(struct run *r)
{
    for (unsigned k = 0; k < 2; k++) {
        struct held *h = &r->held[k];
        *h = (struct held){.round = WARM - 1 + k, .pinned = k == 0};
        if (!(k == 0 ? r->plan->pinned : r->plan->moved))
            continue;
        if (k == 1)
            overwrite(r, h->round);
        must(ps_snapshot_new(r->store, &h->snap), "ps_snapshot_new");
        ps_snapshot_renew(h->snap);
        if (h->pinned)
            must(ps_snapshot_pin(h->snap), "ps_snapshot_pin");
        r->copies++;
    }
}

static void run_case(const struct options *o, const struct plan *plan, const char *dir)
{
    struct run r = {.o = *o, .plan = plan, .dirty = o->dirty_mib * MIB};
    struct ps_stat stat = {0};
    uint64_t at_one = 0;
    r.value = malloc(o->value);
    if (r.value == NULL)
        die("out of memory");
    begin_case(&r, dir);
    take_snapshots(&r);
    for (unsigned round = 1; round <= o->rounds; round++) {
        overwrite(&r, WARM + 1 + round);
        settle(&r, &stat);
        move_if_asked(&r);
        check_sizes(&r, round, &stat);
        at_one = round == 1 ? stat.file_bytes : at_one;
        if (round % 10 == 0)
            check_held(&r, round);
    }
    if (plan->moved && stat.snapshots_moved != 1)
        die("%s: the snapshot has not moved", plan->name);
    printf("NOTE %-7s data %.1f MiB, file %.1f before, %.1f after 1 round, %.1f after %llu; in use "
           "%.1f before, %.1f after; retained %.1f; slots at most %.1f of %.1f MiB",
           plan->name, mib(r.data), mib(r.base_file), mib(at_one), mib(stat.file_bytes),
           (unsigned long long)o->rounds, mib(r.base_used), mib(used(&stat)),
           mib(stat.snapshots_retained_file), mib(stat.arena_slots_peak * stat.page_size),
           mib(r.dirty));
    for (unsigned k = 0; k < 2; k++)
        ps_snapshot_free(r.held[k].snap);
    settle(&r, &stat);
    printf("; %.1f in use after release\n", mib(used(&stat)));
    expect_at_most(&r, (unsigned)o->rounds, "what is in use after release", used(&stat),
                   r.base_used + 64 * (uint64_t)stat.page_size);
    expect_at_most(&r, (unsigned)o->rounds, "what is retained after release",
                   stat.snapshots_retained_file + stat.snapshots_retained_memory, 0);
    must(ps_check(r.store, finding, NULL), "ps_check");
    must(ps_close(r.store, true), "ps_close");
    free(r.value);
}

static void compare(const struct options *o, const char *dir)
{
    struct lmdb_growth g;
    int rc = mkdir(dir, 0700) != 0 ? -1
                                   : lmdb_grow(dir, (unsigned)o->keys, (unsigned)o->value, STEP,
                                               (unsigned)o->rounds, &g);
    if (rc != 0) {
        printf("NOTE LMDB answered %d: not compared\n", rc);
        return;
    }
    printf("NOTE LMDB with one reader held: file %.1f MiB before, %.1f after 1 round, %.1f after "
           "%llu; %.1f one round after its release\n",
           mib(g.base), mib(g.after_one), mib(g.after_all), (unsigned long long)o->rounds,
           mib(g.after_release));
}

static void parse(int argc, char **argv, struct options *o)
{
    const struct {
        const char *name;
        uint64_t *number;
    } known[] = {{"--rounds", &o->rounds},
                 {"--keys", &o->keys},
                 {"--value", &o->value},
                 {"--dirty-mib", &o->dirty_mib}};
    for (int i = 1; i < argc; i += 2) {
        size_t k = 0;
        while (k < 4 && strcmp(argv[i], known[k].name) != 0)
            k++;
        char *end = NULL;
        uint64_t n = k < 4 && i + 1 < argc ? strtoull(argv[i + 1], &end, 10) : 0;
        if (end == NULL || *end != '\0' || n == 0) {
            fprintf(stderr, "%s: %s is not an option with a number\n", argv[0], argv[i]);
            exit(2);
        }
        *known[k].number = n;
    }
}

int main(int argc, char **argv)
{
    struct options o = {.rounds = 100, .keys = 8000, .value = 1000, .dirty_mib = 4};
    char dir[STORE_DIR_PATH], path[STORE_DIR_PATH + 16];
    parse(argc, argv, &o);
    store_dir_make(dir, "pando-growth");
    for (unsigned i = 0; i < CASES; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, plans[i].name);
        run_case(&o, &plans[i], path);
        store_dir_remove(path);
    }
    snprintf(path, sizeof path, "%s/lmdb", dir);
    compare(&o, path);
    store_dir_remove(dir);
    unsigned long long rounds = CASES * o.rounds;
    printf("SUITE growth required=%llu executed=%llu passed=%llu failed=0 skipped=0\n", rounds,
           rounds, rounds);
    return 0;
}
