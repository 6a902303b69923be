/*
 * salvage_log.c - see salvage.h: the commits since the checkpoint, as far as the log can be read.
 *
 * Operations are results: applied once more they change nothing. So where it is not known what the
 * trees hold already, since no meta is left, the log is applied from its oldest segment from which
 * it can be read to its end.
 *
 * Threads: one. The log is not changed.
 */
#include <inttypes.h>

#include "storage/log_internal.h"
#include "storage/log_ops.h"
#include "storage/salvage.h"
#include "storage/tree_options.h"

struct applier {
    struct salvage *s;
    struct log_op_reader ops;
    unsigned savepoints; /* open in the commit that is applied */
    int rc;              /* of the new store; what the log itself is like is not in it */
};

/* The tree that the log means by a number. */
static int tree_of(struct salvage *s, ps_tree old, size_t *tree)
{
    for (size_t i = 0; i < s->trees.n; i++) {
        if (s->trees.at[i].known && s->trees.at[i].old == old) {
            *tree = i;
            return 0;
        }
    }
    char name[40];
    int len = snprintf(name, sizeof name, "lost+found.tree-%u", old);
    int rc = salvage_tree(s, (struct ps_slice){name, (size_t)len}, tree);
    if (rc == 0) {
        s->trees.at[*tree].old = old;
        s->trees.at[*tree].known = true;
        salvage_finding(s, 0, "the log names a tree, number %u, whose name is lost: see '%s'", old,
                        name);
    }
    return rc;
}

static int create(struct salvage *s, const struct replay_op *op)
{
    size_t tree;
    for (size_t i = 0; i < s->trees.n; i++) {
        s->trees.at[i].known = s->trees.at[i].known && s->trees.at[i].old != op->tree;
    }
    if (op->key.len == 0 || op->key.len > PS_MAX_TREE_NAME) {
        return PS_CORRUPT;
    }
    int rc = salvage_tree(s, op->key, &tree);
    if (rc == 0) {
        struct old_tree *t = &s->trees.at[tree];
        t->old = op->tree;
        t->known = true;
        t->dropped = false;
        rc = ps_tree_create(s->txn, op->key, &t->made); /* its making may have been rolled back */
    }
    return rc;
}

/* A value that was compressed: as the new tree's options want it. */
static int put_decoded(struct salvage *s, ps_tree made, const struct replay_op *op)
{
    struct ps_slice value = op->value;
    int rc = store_decode(s->from, &s->decoded, &value);
    if (rc == PS_CORRUPT) {
        char text[80];
        salvage_finding(s, 0, "the log: the value of key '%s' does not decompress: it is lost",
                        salvage_key(op->key, text));
        s->report->lost_values++;
        return 0;
    }
    return rc == 0 ? ps_put(s->txn, made, op->key, value) : rc;
}

/* A dropped tree is emptied, and removed when all is done (if it is still empty then): so rolling
 * back needs no undoing in the list of trees. */
static int change(struct salvage *s, const struct replay_op *op)
{
    struct ps_tree_options options;
    size_t tree;
    int rc = tree_of(s, op->tree, &tree);
    if (rc != 0) {
        return rc;
    }
    ps_tree made = s->trees.at[tree].made;
    uint64_t deleted;
    switch (op->op) {
    case OP_PUT:
        rc = ps_put(s->txn, made, op->key, op->value);
        break;
    case OP_PUT_ENCODED:
        rc = put_decoded(s, made, op);
        break;
    case OP_OPTIONS:
        rc = tree_options_parse(op->key, &options);
        rc = rc == 0 ? ps_tree_set(s->txn, made, &options) : rc;
        break;
    case OP_DELETE:
        rc = ps_delete(s->txn, made, op->key);
        break;
    case OP_DELETE_RANGE:
        rc = ps_delete_range(s->txn, made, &op->key, op->value.len > 0 ? &op->value : NULL, 0,
                             &deleted);
        break;
    default:
        rc = ps_clear(s->txn, made);
        s->trees.at[tree].dropped = op->op == OP_DROP;
        break;
    }
    return rc == PS_NOTFOUND ? 0 : rc;
}

static int drop_empty(struct salvage *s)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->trees.n; i++) {
        uint64_t entries = 0;
        if (!s->trees.at[i].dropped) {
            continue;
        }
        rc = s->txn != NULL ? 0 : ps_begin(s->to, &s->txn);
        rc = rc == 0 ? ps_count(ps_txn_view(s->txn), s->trees.at[i].made, &entries) : rc;
        if (rc == 0 && entries == 0) {
            rc = ps_tree_drop(s->txn, s->trees.at[i].made);
            s->report->trees--;
        }
    }
    return rc == PS_NOTFOUND ? 0 : rc;
}

static int end_savepoints(struct applier *a, unsigned down_to, bool keep)
{
    int rc = 0;
    while (rc == 0 && a->savepoints > down_to) {
        rc = keep ? ps_savepoint_release(a->s->txn) : ps_savepoint_rollback(a->s->txn);
        a->savepoints--;
    }
    return rc;
}

static int mark(struct applier *a, const struct replay_op *op)
{
    if (op->op != OP_SAVEPOINT) {
        return op->savepoint < a->savepoints
                   ? end_savepoints(a, op->savepoint, op->op == OP_RELEASE)
                   : 0;
    }
    int rc = ps_savepoint(a->s->txn);
    a->savepoints += rc == 0;
    return rc;
}

static int apply_op(void *arg, const struct replay_op *op)
{
    struct applier *a = arg;
    struct salvage *s = a->s;
    if (s->txn == NULL) {
        a->rc = ps_begin(s->to, &s->txn);
        if (a->rc != 0) {
            return a->rc;
        }
        ps_keep_whole(s->txn);
    }
    a->rc = op_is_mark(op->op) ? mark(a, op) : op->op == OP_CREATE ? create(s, op) : change(s, op);
    s->report->log_ops++;
    s->txn_ops++;
    s->txn_bytes += op->key.len + op->value.len;
    return a->rc;
}

static int apply_piece(void *arg, const struct log_piece *piece)
{
    struct applier *a = arg;
    int rc = log_ops_read(&a->ops, piece->payload, piece->len, piece->last, apply_op, a);
    if (rc == 0 && piece->last) {
        a->rc = a->savepoints > 0 ? end_savepoints(a, 0, true) : 0;
        a->s->report->log_commits++;
        a->rc = a->rc == 0 ? salvage_commit(a->s, false) : a->rc;
        rc = a->rc;
    }
    return rc;
}

static void log_finding(struct salvage *s, const struct ps_fault *fault, const char *consequence)
{
    struct ps_fault out = *fault;
    size_t n = strlen(out.what);
    s->report->findings++;
    snprintf(out.what + n, sizeof out.what - n, ": %s", consequence);
    if (s->watch->finding != NULL) {
        s->watch->finding(s->watch->arg, &out);
    }
}

/* Applies what is whole from a position on. *damage: where and why it ends early. */
static int apply_from(struct salvage *s, struct log *log, const struct log_pos *from, int *damage,
                      struct ps_fault *fault)
{
    struct log_pos end = *from;
    uint64_t torn;
    struct applier a = {.s = s};
    *damage = log_scan(log, from, &end, &torn, fault);
    if (*damage != 0 && *damage != PS_CORRUPT) {
        return *damage;
    }
    if (end.seq > from->seq) {
        struct ps_fault second = {0};
        int rc = log_replay(log, from, &end, apply_piece, &a, &second);
        if (rc != 0 && a.rc == 0 && *damage == 0) {
            *damage = rc;
            *fault = second;
        }
    }
    log_ops_free(&a.ops);
    a.rc = a.rc == 0 && a.savepoints > 0 ? end_savepoints(&a, 0, false) : a.rc;
    a.rc = a.rc == 0 ? drop_empty(s) : a.rc;
    if (a.rc != 0 && s->fault->code == 0) {
        ps_last_fault(s->to, s->fault);
    }
    return a.rc;
}

/* The beginning of the oldest segment from which the log can be read to its end; false: none. */
static bool oldest_readable(struct log *log, struct log_pos *from)
{
    for (size_t i = 0; i < log->segment_count; i++) {
        const struct log_segment *segment = &log->segments[i];
        struct ps_fault fault;
        struct log_pos end;
        uint64_t torn;
        if (segment->kind != LOG_HEADER_VALID) {
            continue;
        }
        *from = (struct log_pos){segment->number * log->segment_size + LOG_HEADER_BYTES,
                                 segment->header.epoch, segment->header.seq, segment->header.crc};
        if (log_scan(log, from, &end, &torn, &fault) == 0) {
            return true;
        }
    }
    return false;
}

int salvage_log(struct salvage *s, const char *dir)
{
    struct ps_fault fault = {0};
    struct log *log;
    struct log_pos from = s->meta.pos;
    int damage = 0;
    int rc = log_open(s->from->vfs, dir, UINT64_C(16) << 20, &log, &fault);
    if (rc != 0) {
        log_finding(s, &fault, "nothing of the log is applied");
        return rc == PS_NOMEM ? rc : 0;
    }
    if (log->segment_count == 0) {
        log_fail(&fault, PS_CORRUPT, dir, 0, "there is no log");
        log_finding(s, &fault, "commits after the checkpoint are lost");
    } else if (s->has_meta || oldest_readable(log, &from)) {
        rc = apply_from(s, log, &from, &damage, &fault);
        if (rc == 0 && damage != 0) {
            log_finding(s, &fault, "commits from there on are lost");
        }
    } else {
        log_fail(&fault, PS_CORRUPT, dir, 0, "no part of the log can be read to its end");
        log_finding(s, &fault, "commits after the checkpoint are lost");
    }
    log_close(log);
    return rc;
}
