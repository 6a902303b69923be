/*
 * dispatch.c - see dispatch.h.
 *
 * Invariants
 *  1. A command that is refused before it runs makes the MULTI it stands in fail at EXEC.
 *  2. A writing command runs only when its worst case fits (ps_reserve), so that it does not fail
 * in its middle; EXEC reserves for all of its commands before the first, so it is never split.
 *  3. Without a savepoint a failure after the first change undoes the whole group (DISPATCH_RETRY).
 */
#include "server/exec/dispatch.h"

#include "server/commands/reply.h"
#include "server/config/config.h"
#include "server/keyspace/keyspace.h"
#include "server/observe/logger.h"

#include <string.h>
#include <strings.h>
#include <time.h>

int64_t exec_now(const struct exec_env *env)
{
    struct timespec ts;
    int64_t now, floor = atomic_load_explicit(&env->time_floor, memory_order_relaxed);
    clock_gettime(CLOCK_REALTIME, &ts);
    now = (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
    return now > floor ? now : floor;
}

void executor_init(struct executor *x, struct exec_env *env)
{
    memset(x, 0, sizeof(*x));
    x->env = env;
    x->ctx.server = env->server;
    x->ctx.config = env->config;
    x->ctx.keyspace = env->keyspace;
}

/* ---- resolving ------------------------------------------------------------------------------ */

static bool arity_fits(const struct command *row, size_t argc)
{
    return row->arity >= 0 ? argc == (size_t)row->arity : argc >= (size_t)-row->arity;
}

const struct command *dispatch_resolve(size_t argc, const struct ps_slice *argv)
{
    const struct command *row = command_lookup(argv[0]);
    if (row != NULL && row->subcommands != NULL && argc > 1) {
        row = command_lookup_sub(row, argv[1]);
    }
    return row != NULL && row->handler != NULL && arity_fits(row, argc) ? row : NULL;
}

/* ---- answers to what cannot run ------------------------------------------------------------- */

static void refuse(struct executor *x, struct session *session, const char *text)
{
    if (session_in_multi(session)) {
        session->multi_dirty = true;
    }
    resp_write_error(x->ctx.out, text);
}

/* An EXEC that is refused ends the MULTI. */
static void refuse_exec(struct executor *x, struct session *session, const char *text)
{
    struct session_queue queue = session_end_multi(session);
    session_drop_queue(session, &queue);
    resp_write_errorf(x->ctx.out, "-EXECABORT Transaction discarded because of: %s", text);
}

static void refuse_unknown(struct executor *x, struct session *session, size_t argc,
                           const struct ps_slice *argv)
{
    char text[512];
    size_t used, args = 0;
    used =
        (size_t)snprintf(text, sizeof(text), "unknown command '%.*s', with args beginning with: ",
                         argv[0].len < 128 ? (int)argv[0].len : 128, (const char *)argv[0].data);
    for (size_t i = 1; i < argc && args < 128; i++) {
        size_t room = 128 - args, len = argv[i].len < room ? argv[i].len : room;
        size_t n = (size_t)snprintf(text + used, sizeof(text) - used, "'%.*s' ", (int)len,
                                    (const char *)argv[i].data);
        used += n;
        args += n;
    }
    refuse(x, session, text);
}

static void refuse_subcommand(struct executor *x, struct session *session,
                              const struct command *parent, struct ps_slice sub)
{
    char text[256], name[32];
    size_t n = strlen(parent->name);
    for (size_t i = 0; i <= n && i < sizeof(name) - 1; i++) {
        name[i] = parent->name[i] >= 'a' && parent->name[i] <= 'z' ? parent->name[i] - 32
                                                                   : parent->name[i];
    }
    name[sizeof(name) - 1] = '\0';
    snprintf(text, sizeof(text), "unknown subcommand '%.*s'. Try %s HELP.",
             sub.len < 128 ? (int)sub.len : 128, (const char *)sub.data, name);
    refuse(x, session, text);
}

/* What a browser sends first: the page that made it send may hide commands in what follows. */
static bool is_browser(struct ps_slice word)
{
    return (word.len == 4 && strncasecmp(word.data, "post", 4) == 0) ||
           (word.len == 5 && strncasecmp(word.data, "host:", 5) == 0);
}

/* Answers a command line that dispatch_resolve has no row for. */
static void explain(struct executor *x, struct session *session, size_t argc,
                    const struct ps_slice *argv)
{
    const struct command *row = command_lookup(argv[0]);
    const struct command *sub = row;
    char text[128];
    if (row != NULL && row->subcommands != NULL && argc > 1) {
        sub = command_lookup_sub(row, argv[1]);
    }
    atomic_store_explicit(&session->last, sub, memory_order_relaxed);
    if (is_browser(argv[0])) {
        logger_write(x->env->log, LOG_WARNING,
                     "Possible cross-protocol scripting: a connection that sent POST or Host: is "
                     "closed.");
        session->closing = true;
        return;
    }
    if (row == NULL) {
        refuse_unknown(x, session, argc, argv);
        return;
    }
    if (sub == NULL) {
        refuse_subcommand(x, session, row, argv[1]);
        return;
    }
    row = sub;
    snprintf(text, sizeof(text), "wrong number of arguments for '%s' command",
             command_full_name(row));
    if (strcmp(row->name, "exec") == 0) {
        refuse_exec(x, session, text);
        return;
    }
    refuse(x, session, text);
}

/* ---- where it belongs ----------------------------------------------------------------------- */

static enum dispatch_place place_of(enum command_cost cost)
{
    return cost == COST_WRITE ? PLACE_WRITER : cost == COST_POOL ? PLACE_POOL : PLACE_HERE;
}

static enum dispatch_place place_of_queue(const struct session *session)
{
    enum dispatch_place place = PLACE_HERE;
    size_t output = 0;
    if (session->multi_dirty) {
        return PLACE_HERE;
    }
    for (const struct session_queued *q = session->queue.head; q != NULL; q = q->next) {
        enum dispatch_place p = place_of(command_cost_of(q->command, q->argc, q->argv));
        if (p == PLACE_WRITER) {
            return PLACE_WRITER;
        }
        if (p == PLACE_POOL || ++output > 64) {
            place = PLACE_POOL;
        }
    }
    return place;
}

static bool is_exec(const struct command *row)
{
    return (row->traits & COMMAND_EXEC_CONTROL) && strcmp(row->name, "exec") == 0;
}

enum dispatch_place dispatch_place(const struct session *session, const struct command *row,
                                   size_t argc, const struct ps_slice *argv)
{
    if (row == NULL || row->cost == COST_READ || row->cost == COST_STATE) {
        if (row == NULL || row->cost_of == NULL) {
            return row != NULL && session_in_multi(session) && is_exec(row)
                       ? place_of_queue(session)
                       : PLACE_HERE;
        }
    }
    if (session_in_multi(session) || !session->authenticated) {
        return PLACE_HERE; /* it is queued, or refused */
    }
    return place_of(command_cost_of(row, argc, argv));
}

/* ---- running -------------------------------------------------------------------------------- */

static void fill_context(struct executor *x, struct session *session, const struct command *row,
                         size_t argc, const struct ps_slice *argv, const struct ps_lookup *found)
{
    struct command_ctx *ctx = &x->ctx;
    ctx->session = session;
    ctx->command = row;
    ctx->argc = argc;
    ctx->argv = argv;
    ctx->db = session_db(session);
    ctx->rc = 0;
    ctx->changed = false;
    ctx->found = found;
}

/* Takes back what was written since the reply was `mark` bytes long. */
static void cut_reply(struct executor *x, size_t mark)
{
    resp_out_truncate(x->ctx.out, mark);
    if (x->ctx.holes != NULL) {
        reply_holes_cut(x->ctx.holes, mark);
    }
}

/* The handler did nothing and asks for something else (command.h). */
static bool is_put_off(int rc)
{
    return rc == COMMAND_ELSEWHERE || rc == COMMAND_UNPUBLISHED || rc == COMMAND_RESTAGE;
}

/* A page that the command saw could not be read. So can what was looked up ahead of others: they
 * fail as well, until the view is renewed. */
static void note_loss(struct executor *x)
{
    if (!is_put_off(x->ctx.rc)) {
        x->ctx.rc = PS_IO;
    }
    if (!x->ahead) {
        ps_view_resume(x->ctx.view);
    }
}

static void call(struct executor *x, const struct command *row)
{
    size_t mark = x->ctx.out->len;
    row->handler(&x->ctx);
    x->commands++;
    if (__builtin_expect(x->ctx.view != NULL && ps_view_check(x->ctx.view) != 0, 0)) {
        note_loss(x);
    }
    if (x->ctx.rc != 0) {
        cut_reply(x, mark);
    }
}

static void answer_rc(struct executor *x, int rc)
{
    x->errors++;
    resp_write_errorf(x->ctx.out, "-%s", command_rc_text(rc));
}

/* Room for the worst case. Where that is more than dirty memory can ever hold, room for as much of
 * it as can be had: what happens is mostly a fraction of it. *uncertain says that it may still fail
 * midway, so that there must be a savepoint to go back to. */
static int make_room(struct executor *x, struct command_need need, bool *uncertain)
{
    int rc = ps_reserve(x->ctx.txn, need.ops, need.bytes);
    while (rc == PS_TXNFULL && x->held == 0 && need.ops > 1) {
        *uncertain = true;
        need.ops /= 2;
        need.bytes /= 2;
        rc = ps_reserve(x->ctx.txn, need.ops, need.bytes);
    }
    return rc;
}

/* Room for one command. */
static int reserve(struct executor *x, const struct command *row, size_t argc,
                   const struct ps_slice *argv, bool *uncertain)
{
    struct command_need need;
    if (x->ctx.reserved || (row->traits & COMMAND_RESERVES)) {
        return 0;
    }
    command_need_of(row, argc, argv, &need);
    return make_room(x, need, uncertain);
}

/* What does not fit beside the group's changes so far fits, or does not, in a transaction of its
 * own: PS_BUSY, as long as there is something to commit first. */
static int settle_busy(const struct executor *x, int rc)
{
    return rc == PS_BUSY || rc == PS_TXNFULL ? (x->held > 0 ? PS_BUSY : PS_TXNFULL) : rc;
}

/* A command that writes, in the writer. 0 or as dispatch_run. */
static int run_write(struct executor *x, const struct command *row)
{
    struct command_ctx *ctx = &x->ctx;
    bool guarded = x->careful || (row->traits & COMMAND_FAILS_MIDWAY);
    int rc = reserve(x, row, ctx->argc, ctx->argv, &guarded);
    if (rc == 0 && guarded) {
        rc = ps_savepoint(ctx->txn);
    }
    if (rc != 0) {
        rc = settle_busy(x, rc);
        if (rc == PS_BUSY) {
            return rc;
        }
        answer_rc(x, rc);
        return 0;
    }
    call(x, row);
    rc = ctx->rc;
    if (guarded) {
        int end = rc == 0 ? ps_savepoint_release(ctx->txn) : ps_savepoint_rollback(ctx->txn);
        rc = rc != 0 ? rc : end;
    } else if (rc != 0 && ctx->changed) {
        return DISPATCH_RETRY;
    }
    if (rc == 0) {
        x->held += ctx->changed;
        return 0;
    }
    ctx->changed = false;
    rc = settle_busy(x, rc);
    if (rc == PS_BUSY || is_put_off(rc)) {
        return rc;
    }
    answer_rc(x, rc);
    return 0;
}

static int run_row(struct executor *x, const struct command *row)
{
    if (row->cost == COST_WRITE && x->ctx.txn != NULL) {
        return run_write(x, row);
    }
    struct ps_txn *txn = x->ctx.txn;
    x->ctx.txn = NULL;
    call(x, row);
    x->ctx.txn = txn;
    if (is_put_off(x->ctx.rc)) {
        return x->ctx.rc;
    }
    if (x->ctx.rc != 0) {
        answer_rc(x, x->ctx.rc);
    }
    return 0;
}

/* ---- EXEC ----------------------------------------------------------------------------------- */

static int reserve_queue(struct executor *x, const struct session_queue *queue, bool *writes,
                         bool *uncertain)
{
    struct command_need need, sum = {0, 0};
    *writes = false;
    for (const struct session_queued *q = queue->head; q != NULL; q = q->next) {
        if (q->command->cost == COST_WRITE) {
            command_need_of(q->command, q->argc, q->argv, &need);
            sum.ops += need.ops;
            sum.bytes += need.bytes;
            *writes = true;
        }
    }
    return *writes ? settle_busy(x, make_room(x, sum, uncertain)) : 0;
}

/* The session is still in MULTI meanwhile: that is what CLIENT LIST shows. */
static int run_queue(struct executor *x, struct session *session)
{
    int rc = 0;
    x->ctx.in_exec = true;
    resp_write_array(x->ctx.out, session->queue.count);
    for (const struct session_queued *q = session->queue.head; q != NULL && rc == 0; q = q->next) {
        fill_context(x, session, q->command, q->argc, q->argv, NULL);
        rc = run_row(x, q->command);
        (void)keyspace_pause(x->ctx.pause); /* if it fails, what is left answers so */
    }
    x->ctx.in_exec = false;
    return rc;
}

static void end_multi(struct session *session)
{
    struct session_queue queue = session_end_multi(session);
    session_drop_queue(session, &queue);
}

static int fail_exec(struct executor *x, struct session *session, int rc)
{
    end_multi(session);
    answer_rc(x, rc);
    return 0;
}

/* All of it on one view; or, with nothing done, COMMAND_ELSEWHERE. */
static int run_exec_read(struct executor *x, struct session *session)
{
    struct session_state before;
    size_t mark = x->ctx.out->len;
    session_save(session, &before);
    int rc = run_queue(x, session);
    if (rc != 0) {
        session_restore(session, &before);
        cut_reply(x, mark);
        return rc;
    }
    end_multi(session);
    return 0;
}

/* In the writer: all of it in one transaction, or nothing of it. */
static int run_exec_write(struct executor *x, struct session *session)
{
    struct session_state before;
    size_t mark = x->ctx.out->len;
    uint64_t held = x->held;
    bool writes, guarded = false;
    int rc = reserve_queue(x, &session->queue, &writes, &guarded);
    if (rc == PS_BUSY) {
        return rc;
    }
    if (rc != 0) {
        return fail_exec(x, session, rc);
    }
    if (!writes) {
        return run_exec_read(x, session);
    }
    guarded = guarded || x->careful;
    if (guarded) {
        rc = ps_savepoint(x->ctx.txn);
    }
    if (rc != 0) {
        return fail_exec(x, session, rc);
    }
    session_save(session, &before);
    x->ctx.reserved = true;
    enum large_values large = x->ctx.large;
    x->ctx.large = LARGE_COPY; /* no snapshot has what this EXEC itself writes */
    rc = run_queue(x, session);
    x->ctx.large = large;
    x->ctx.reserved = false;
    if (rc == 0) {
        if (guarded) {
            ps_savepoint_release(x->ctx.txn);
        }
        x->held++;
        end_multi(session);
        return 0;
    }
    session_restore(session, &before);
    cut_reply(x, mark);
    x->held = held;
    if (!guarded) {
        return DISPATCH_RETRY;
    }
    ps_savepoint_rollback(x->ctx.txn);
    x->ctx.changed = false;
    rc = settle_busy(x, rc == DISPATCH_RETRY ? x->ctx.rc : rc);
    return rc == PS_BUSY ? rc : fail_exec(x, session, rc);
}

static int run_exec(struct executor *x, struct session *session, const struct command *row)
{
    bool dirty = session->multi_dirty;
    if (!session_in_multi(session)) {
        call(x, row); /* the handler has the answer for EXEC without MULTI */
        return 0;
    }
    x->commands++;
    if (!dirty && x->ctx.txn != NULL) {
        return run_exec_write(x, session);
    }
    if (!dirty) {
        return run_exec_read(x, session);
    }
    resp_write_error(x->ctx.out, "-EXECABORT Transaction discarded because of previous errors.");
    end_multi(session);
    return 0;
}

static void enqueue(struct executor *x, struct session *session, const struct command *row,
                    size_t argc, const struct ps_slice *argv)
{
    if (row->flags & CMD_NO_MULTI) {
        refuse(x, session, "Command not allowed inside a transaction");
        return;
    }
    if (session->multi_dirty) {
        resp_write_simple(x->ctx.out, "QUEUED"); /* it will not run: nothing is kept */
        return;
    }
    if (session->queue.bytes >
            (size_t)config_number(x->env->config, CONFIG_CLIENT_QUERY_BUFFER_LIMIT) ||
        session_enqueue(session, row, argc, argv) != 0) {
        session->closing = true;
        return;
    }
    resp_write_simple(x->ctx.out, "QUEUED");
}

static int run_one(struct executor *x, struct session *session, const struct command *row,
                   size_t argc, const struct ps_slice *argv, const struct ps_lookup *found)
{
    if (__builtin_expect(row == NULL, 0)) {
        explain(x, session, argc, argv);
        return 0;
    }
    if (__builtin_expect(!session->authenticated, 0) && !(row->flags & CMD_NO_AUTH)) {
        if (is_exec(row)) {
            refuse_exec(x, session, "NOAUTH Authentication required.");
        } else {
            refuse(x, session, "-NOAUTH Authentication required.");
        }
        return 0;
    }
    atomic_store_explicit(&session->last, row, memory_order_relaxed);
    if (session_in_multi(session) && !(row->traits & COMMAND_EXEC_CONTROL)) {
        enqueue(x, session, row, argc, argv);
        return 0;
    }
    fill_context(x, session, row, argc, argv, found);
    if (row->traits & COMMAND_EXEC_CONTROL) {
        if (is_exec(row)) {
            return run_exec(x, session, row);
        }
        call(x, row);
        return 0;
    }
    return run_row(x, row);
}

int dispatch_run(struct executor *x, struct session *session, const struct command *row,
                 size_t argc, const struct ps_slice *argv, const struct ps_lookup *found)
{
    uint64_t commands = x->commands;
    x->ctx.hits = x->ctx.misses = 0;
    int rc = run_one(x, session, row, argc, argv, found);
    if (__builtin_expect(rc != 0, 0)) {
        x->commands = commands; /* it will be run again, and counted then */
    } else if (x->ctx.hits + x->ctx.misses > 0) {
        keyspace_count_lookups(x->ctx.keyspace, x->ctx.view, x->ctx.hits, x->ctx.misses);
    }
    return rc;
}
