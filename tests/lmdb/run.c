/*
 * run.c - runs a stream's operations, and says where the stores differ.
 */
#include "tests/lmdb/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    void (*run)(struct run *r);
} actions[OP_KINDS] = {
#define X(name, weight, uses) {do_##name},
    OPERATIONS(X)
#undef X
};

void differ(struct run *r, const char *assertion, const char *format, ...)
{
    static char text[REPORT_TEXT - 32];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct ps_fault fault = {0};
    if (r->engine.store)
        ps_last_fault(r->engine.store, &fault);
    if (fault.code && n >= 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, "; last fault: %s, %s at %llu: %s (errno %d)",
                 ps_strerror(fault.code), fault.file, (unsigned long long)fault.offset, fault.what,
                 fault.sys_errno);
    if (!r->report) {
        fprintf(stderr, "%s: %s: %s\n", r->op ? op_names[r->op->kind] : "the end", assertion, text);
        abort();
    }
    snprintf(r->report->assertion, sizeof r->report->assertion, "%s", assertion);
    snprintf(r->report->text, sizeof r->report->text, "%s: %s",
             r->op ? op_names[r->op->kind] : "the end", text);
    _exit(1);
}

void must(struct run *r, int rc, const char *call)
{
    if (rc)
        differ(r, call, "answered %d (%s)", rc, ps_strerror(rc));
}

bool slices_equal(struct ps_slice a, struct ps_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

bool same_answer(struct run *r, const struct side *side, const char *assertion, int rc, bool found)
{
    if (rc != (found ? 0 : PS_NOTFOUND))
        differ(r, assertion, "%s: answered %d (%s), LMDB %s", side->name, rc, ps_strerror(rc),
               found ? "found it" : "found nothing");
    return found;
}

void same_bytes(struct run *r, const struct side *side, const char *assertion,
                struct ps_slice pando, struct ps_slice lmdb)
{
    size_t at = 0, least = pando.len < lmdb.len ? pando.len : lmdb.len;
    if (slices_equal(pando, lmdb))
        return;
    while (at < least && ((const char *)pando.data)[at] == ((const char *)lmdb.data)[at])
        at++;
    differ(r, assertion, "%s: %s, LMDB has %s; the first difference is at byte %zu", side->name,
           show(pando), show(lmdb), at);
}

/* ---- what is read --------------------------------------------------------------------------- */

struct side take_side(struct run *r)
{
    unsigned view = r->op->view;
    if (view >= 8 && r->held[(view - 8) % HELD].snap) {
        struct held *held = &r->held[(view - 8) % HELD];
        engine_look_again(&r->engine, held->snap);
        return (struct side){
            ps_snapshot_view(held->snap), {r->oracle, held->lmdb}, "held snapshot"};
    }
    if (view < 11 && r->engine.txn)
        return txn_side(r);
    ensure_published(r);
    ps_snapshot_renew(r->fresh);
    r->fresh_lmdb = oracle_snapshot(r->oracle);
    return (struct side){ps_snapshot_view(r->fresh), {r->oracle, r->fresh_lmdb}, "fresh snapshot"};
}

void leave_side(struct run *r)
{
    if (r->fresh_lmdb) {
        oracle_abort(r->fresh_lmdb);
        ps_snapshot_reset(r->fresh);
    }
    r->fresh_lmdb = NULL;
}

static struct ps_slice tree_name(unsigned tree)
{
    static char longest[PS_MAX_TREE_NAME];
    static const char *const names[] = {"keys", "elements", "e", "elements0", "\xff\x01 x"};
    if (tree < 5)
        return (struct ps_slice){names[tree], strlen(names[tree])};
    memset(longest, 'N', sizeof longest);
    return (struct ps_slice){longest, sizeof longest};
}

bool find_tree(struct run *r, const struct side *side, unsigned tree, ps_tree *number)
{
    ps_tree expected = 0;
    bool found = oracle_tree_find(side->lmdb, tree, &expected);
    int rc = ps_tree_find(side->pando, tree_name(tree), number);
    if (!same_answer(r, side, "tree: found", rc, found))
        return false;
    if (*number != expected)
        differ(r, "tree: number", "%s: tree %u is number %u, and was made as %u", side->name, tree,
               *number, expected);
    return true;
}

void do_make_tree(struct run *r)
{
    begin_for_change(r);
    struct side side = txn_side(r);
    ps_tree number = 0, before = 0;
    bool there = find_tree(r, &side, r->op->tree, &before);
    int rc = ps_tree_create(r->engine.txn, tree_name(r->op->tree), &number);
    if (rc) {
        if (make_way(r, rc, "ps_tree_create", 0))
            do_make_tree(r);
        return;
    }
    if (there && number != before)
        differ(r, "make tree: number", "made again as %u, it is %u", number, before);
    for (unsigned i = 0; !there && i < ORACLE_TREES; i++) {
        ps_tree taken;
        if (oracle_tree_find(side.lmdb, i, &taken) && taken == number)
            differ(r, "make tree: number", "tree %u was given number %u, which tree %u has",
                   r->op->tree, number, i);
    }
    if (!there)
        oracle_tree_make(side.lmdb, r->op->tree, number);
}

/* ---- the run -------------------------------------------------------------------------------- */

static void finish(struct run *r)
{
    r->op = NULL;
    settle(r);
    release_all(r);
    must(r, ps_check(r->engine.store, NULL, NULL), "ps_check");
    close_stores(r, true);
    open_stores(r);
    close_stores(r, true);
}

static void make_dirs(struct run *r, const char *base)
{
    int a = snprintf(r->pando_dir, sizeof r->pando_dir, "%s/pando", base);
    int b = snprintf(r->lmdb_dir, sizeof r->lmdb_dir, "%s/lmdb", base);
    store_dir_remove(r->pando_dir);
    store_dir_remove(r->lmdb_dir);
    if (a < 0 || b < 0 || (size_t)a >= sizeof r->pando_dir || (size_t)b >= sizeof r->lmdb_dir ||
        mkdir(r->pando_dir, 0700) || mkdir(r->lmdb_dir, 0700)) {
        perror(base);
        exit(3);
    }
}

void run_stream(const struct stream *stream, const struct run_options *options)
{
    struct report *report = options->report;
    struct run *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->config = &stream->config;
    r->arena = r->config->arena;
    r->engine.fault = options->fault;
    r->report = report;
    make_dirs(r, options->base);
    open_stores(r);
    for (size_t i = 0; i < stream->n; i++) {
        r->op = &stream->ops[i];
        if (options->verbose)
            op_print(r->config, r->op, i);
        actions[r->op->kind].run(r);
        if (report) {
            report->totals.operations[r->op->kind]++;
            report->operations++;
        }
    }
    finish(r);
    store_dir_remove(r->pando_dir);
    store_dir_remove(r->lmdb_dir);
    if (report)
        report->done = true;
    free(r);
}
