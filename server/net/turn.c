/*
 * turn.c - the second half of a loop's turn: commands out of input, replies out of commands.
 *
 * Invariants
 *  1. All commands of a turn that are executed here see one snapshot (or, of theirs, none).
 *  2. A connection's commands run in order: nothing behind a command that went to the writer or the
 *     pool runs before that came back.
 *  3. A lookup made ahead is used only for the database and snapshot that it was made for: nothing
 *     is looked up ahead behind a command that may change the connection's state, or a write.
 *  4. In the disk regime (exec/regime.h) no command is executed here whose pages are not in memory,
 *     and nothing goes to the writer whose pages are not: the reader pool waits for the disk.
 *
 * Passes: input is parsed for all connections up to the sizes of the loop's vectors, looked up,
 * executed; and again while something complete is left.
 */
#include "server/net/loop.h"

#include "server/config/config.h"
#include "server/exec/ahead.h"
#include "server/exec/pool.h"
#include "server/keyspace/keyspace.h"
#include "server/observe/metrics.h"
#include "server/security/auth.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SEND_BYTES (256u * 1024) /* replies of one connection are sent when they are more */
#define KEEP_BYTES (64u * 1024)  /* the reply buffer's memory between turns */
#define DISK_READS 64u           /* reads that go to the pool together */

/* ---- parsing -------------------------------------------------------------------------------- */

/* The words of the command that was just parsed, in the loop's own vector. */
static bool copy_words(struct loop *loop, const struct resp_request *request)
{
    size_t need = request->first + request->argc;
    if (need > loop->argv_cap) {
        size_t cap = need + need / 2 + 1024;
        struct ps_slice *grown = realloc(loop->argv, cap * sizeof(*grown));
        if (grown == NULL) {
            return false;
        }
        loop->argv = grown;
        loop->argv_cap = cap;
    }
    for (size_t i = request->first; i < need; i++) {
        loop->argv[i] = (struct ps_slice){loop->args.v[i].data, loop->args.v[i].len};
    }
    return true;
}

/* Prepares a lookup ahead if the command is of that kind. false: nothing behind it may be. */
static bool look_ahead(struct loop *loop, const struct conn *conn, const struct unit_source *c,
                       struct loop_place *place)
{
    const struct command *row = c->row;
    if (row == NULL || row->cost == COST_READ) {
        if (row != NULL && (row->traits & COMMAND_PREFETCH)) {
            place->lookup = (int32_t)loop->lookup_n++;
            keyspace_lookup_prepare(loop->env->keyspace, session_db(&conn->session),
                                    loop->argv[c->first + (size_t)row->first_key],
                                    &loop->lookups[place->lookup]);
        }
        return true;
    }
    return false;
}

static int parse_one(struct loop *loop, struct conn *conn, struct resp_request *request)
{
    size_t used = 0;
    int rc = resp_parse(&conn->parser, &loop->limits, conn->data + conn->parsed_off,
                        conn->data_len - conn->parsed_off, &loop->args, request, &used);
    conn->parsed_off += used;
    if (rc == RESP_OK && !copy_words(loop, request)) {
        rc = RESP_ENOMEM;
    }
    return rc;
}

/* It may take the authentication away, and then less is accepted of what comes next. */
static bool is_reset(const struct command *row)
{
    return row != NULL && (row->traits & COMMAND_EXEC_CONTROL) && strcmp(row->name, "reset") == 0;
}

/* Makes commands of a connection's input, up to `max`. */
static void parse(struct loop *loop, struct conn *conn, size_t max)
{
    bool ahead;
    int rc = RESP_OK;
    if (!conn->session.authenticated && !auth_required(loop->env->config)) {
        conn->session.authenticated = true; /* the password was taken away */
    }
    ahead = !session_in_multi(&conn->session) && conn->session.authenticated;
    loop->limits.authenticated = conn->session.authenticated;
    if (!conn->session.authenticated && max > 1) {
        max = 1; /* AUTH changes what may come next */
    }
    conn->first = loop->command_n;
    conn->count = 0;
    conn->bad = 0;
    conn->parsed_off = conn->data_off;
    while (conn->count < max && conn->parsed_off < conn->data_len) {
        struct resp_request request;
        struct unit_source *c = &loop->commands[loop->command_n];
        struct loop_place *place = &loop->places[loop->command_n];
        rc = parse_one(loop, conn, &request);
        if (rc != RESP_OK) {
            break;
        }
        *c = (struct unit_source){dispatch_resolve(request.argc, loop->argv + request.first),
                                  (uint32_t)request.first, (uint32_t)request.argc};
        *place = (struct loop_place){conn->parsed_off, -1};
        ahead = ahead && look_ahead(loop, conn, c, place);
        loop->command_n++;
        conn->count++;
        if (is_reset(c->row)) {
            break;
        }
    }
    conn->more = rc == RESP_OK && conn->parsed_off < conn->data_len;
    conn->bad = rc == RESP_OK || rc == RESP_NEED_MORE ? 0 : rc;
}

/* ---- units ---------------------------------------------------------------------------------- */

/* What a command behind the first does to the unit that is being cut: followed through MULTI. */
struct cut {
    bool multi, writes, unbounded;
};

/* Whether the unit ends before this command. */
static bool ends_before(struct cut *cut, const struct command *row, const struct unit_source *c,
                        const struct ps_slice *argv)
{
    enum command_cost cost;
    if (row == NULL) {
        cut->multi = false; /* an EXEC with arguments is refused and ends its MULTI */
        return false;
    }
    if (row->traits & COMMAND_EXEC_CONTROL) {
        bool end = cut->multi && cut->unbounded && !cut->writes && strcmp(row->name, "exec") == 0;
        cut->multi = strcmp(row->name, "multi") == 0;
        cut->writes = cut->unbounded = false;
        return end;
    }
    cost = command_cost_of(row, c->argc, argv + c->first);
    if (cost == COST_POOL && (row->flags & CMD_NO_MULTI)) {
        return true; /* MULTI may have been refused, and SAVE in the writer would wait for itself */
    }
    if (cut->multi) {
        cut->writes |= cost == COST_WRITE;
        cut->unbounded |= cost == COST_POOL;
        return false;
    }
    return cost == COST_POOL;
}

/* Too large to be copied into a unit: it is alone in one, which takes the input over. */
static bool is_large(const struct loop *loop, const struct conn *conn, size_t index)
{
    size_t begin = index > 0 ? loop->places[conn->first + index - 1].end : conn->data_off;
    return loop->places[conn->first + index].end - begin > UNIT_MAX_BYTES;
}

/* How many of the connection's commands from `from` on are one unit. */
static size_t cut_unit(const struct loop *loop, const struct conn *conn, size_t from)
{
    const struct unit_source *commands = loop->commands + conn->first;
    size_t start = loop->places[conn->first + from].end, n = 1;
    struct cut cut = {false, false, false};
    if (is_large(loop, conn, from)) {
        return 1;
    }
    while (from + n < conn->count && n < UNIT_MAX_COMMANDS) {
        const struct unit_source *c = &commands[from + n];
        if (loop->places[conn->first + from + n].end - start > UNIT_MAX_BYTES ||
            ends_before(&cut, c->row, c, loop->argv)) {
            break;
        }
        n++;
    }
    return n;
}

static void stall(struct loop *loop, struct conn *conn)
{
    conn->stalled = true;
    conn_want_read(conn, false);
    if (!loop->room.waiting) {
        loop->room.waiting = true;
        writer_want_room(loop->env->writer, &loop->room);
    }
}

/* How many commands from `from` on, which would wait for the disk, are short reads: they go to the
 * pool together, since those behind the first have to wait for it anyway. */
static size_t cut_reads(const struct loop *loop, const struct conn *conn, size_t from)
{
    const struct unit_source *c = loop->commands + conn->first + from;
    size_t start = loop->places[conn->first + from].end, n = 1;
    while (c->row->cost == COST_READ && from + n < conn->count && n < DISK_READS &&
           loop->places[conn->first + from + n].end - start <= UNIT_MAX_BYTES) {
        const struct command *row = c[n].row;
        if (row == NULL || row->cost != COST_READ ||
            command_cost_of(row, c[n].argc, loop->argv + c[n].first) != COST_READ) {
            break;
        }
        n++;
    }
    return n;
}

/* How many commands from `from` on go away together, and what for. */
static size_t cut(const struct loop *loop, const struct conn *conn, size_t from,
                  enum dispatch_place place, enum unit_errand *errand)
{
    *errand = place == PLACE_POOL ? ERRAND_LONG : ERRAND_READ;
    return place == PLACE_WRITER ? cut_unit(loop, conn, from)
           : place == PLACE_POOL ? 1
                                 : cut_reads(loop, conn, from);
}

/* To the writer, perhaps by way of the pool, which then reads what it needs into memory. */
static void submit_write(struct loop *loop, struct conn *conn, struct unit *unit, size_t from)
{
    const struct unit_source *commands = loop->commands + conn->first + from;
    writer_expect(loop->env->writer, unit);
    if (loop->disk && ahead_write_waits(&loop->x, &conn->session, commands, unit->count, loop->argv,
                                        loop->residency)) {
        unit->errand = ERRAND_WALK;
        pool_submit(loop->env->pool, unit);
        return;
    }
    writer_submit_expected(loop->env->writer, unit);
    loop->submitted = true;
}

/* Sends commands from `from` on away; PLACE_HERE: they would wait for the disk. Returns how many;
 * 0: not now. */
static size_t submit(struct loop *loop, struct conn *conn, size_t from, enum dispatch_place place)
{
    enum unit_errand errand;
    size_t n = cut(loop, conn, from, place, &errand);
    char *input = NULL;
    struct unit *unit;
    if (place == PLACE_WRITER && writer_full(loop->env->writer)) {
        stall(loop, conn);
        return 0;
    }
    if (is_large(loop, conn, from) && conn->data == conn->in) {
        input = conn->in; /* conn_keep_input leaves it to the unit */
    }
    unit = unit_new(&loop->units, &conn->session, loop->commands + conn->first + from, n,
                    loop->argv, input, conn_room(conn));
    if (unit == NULL) {
        conn_kill(conn);
        return 0;
    }
    conn->given = input != NULL;
    unit->owner = conn;
    unit->home = &loop->box;
    unit->errand = errand;
    conn->unit = unit;
    if (place == PLACE_WRITER) {
        submit_write(loop, conn, unit, from);
        return n;
    }
    if (place == PLACE_HERE) {
        metrics_add(&loop->metrics->disk_reads, n);
    }
    pool_submit(loop->env->pool, unit);
    return n;
}

/* ---- executing ------------------------------------------------------------------------------ */

static void send_replies(struct loop *loop, struct conn *conn)
{
    if (loop->out.status != 0) {
        conn_over_limit(conn);
    } else {
        conn_send(conn, loop->out.buf, loop->out.len);
    }
    resp_out_begin(&loop->out, session_resp(&conn->session), conn_room(conn));
}

/* Runs one command here. false: it turned out to belong in the pool. */
static bool run_here(struct loop *loop, struct conn *conn, size_t index)
{
    const struct unit_source *c = &loop->commands[index];
    const struct loop_place *place = &loop->places[index];
    if (dispatch_run(&loop->x, &conn->session, c->row, c->argc, loop->argv + c->first,
                     place->lookup >= 0 ? &loop->lookups[place->lookup] : NULL) != 0) {
        return false;
    }
    if (loop->out.len > SEND_BYTES || loop->out.status != 0) {
        send_replies(loop, conn);
    }
    return true;
}

/* Whether a command that belongs here would wait for the disk. */
static bool waits_for_disk(struct loop *loop, const struct conn *conn, size_t index)
{
    const struct unit_source *c = &loop->commands[index];
    int32_t lookup = loop->places[index].lookup;
    if (lookup >= 0) {
        return keyspace_lookup_waits(&loop->lookups[lookup]);
    }
    return ahead_read_waits(&loop->x, &conn->session, c->row, c->argc, loop->argv + c->first,
                            loop->residency);
}

/* Runs a connection's commands of this pass, up to the first that goes elsewhere. */
static size_t run_commands(struct loop *loop, struct conn *conn)
{
    size_t i;
    for (i = 0; i < conn->count && conn->stage == CONN_OPEN && !conn->session.closing; i++) {
        const struct unit_source *c = &loop->commands[conn->first + i];
        enum dispatch_place place;
        if (atomic_load_explicit(&conn->session.killed, memory_order_relaxed)) {
            conn_kill(conn);
            break;
        }
        place = dispatch_place(&conn->session, c->row, c->argc, loop->argv + c->first);
        if (place == PLACE_HERE && !(loop->disk && waits_for_disk(loop, conn, conn->first + i))) {
            if (run_here(loop, conn, conn->first + i)) {
                continue;
            }
            place = PLACE_POOL;
        }
        send_replies(loop, conn); /* before the unit is away: it may come back any time */
        return conn->stage == CONN_OPEN ? i + submit(loop, conn, i, place) : i;
    }
    return i;
}

static void answer_bad_input(struct loop *loop, struct conn *conn)
{
    if (conn->bad == RESP_EPROTO) {
        resp_write_protocol_error(&loop->out, &conn->parser);
    }
    conn->session.closing = true;
    conn->linger = !loop->stopping;
}

static void execute(struct loop *loop, struct conn *conn)
{
    size_t done;
    resp_out_begin(&loop->out, session_resp(&conn->session), conn_room(conn));
    done = run_commands(loop, conn);
    if (conn->unit != NULL || done < conn->count) {
        /* What follows is parsed again when it is its turn. */
        conn->data_off = done > 0 ? loop->places[conn->first + done - 1].end : conn->data_off;
        resp_parser_reset(&conn->parser);
        conn->more = false;
    } else {
        conn->data_off = conn->parsed_off;
        if (conn->bad != 0 && !conn->session.closing) {
            answer_bad_input(loop, conn);
        }
    }
    if (conn->unit != NULL) {
        return; /* the session is not ours any more */
    }
    send_replies(loop, conn);
    if (conn->session.closing) {
        conn_finish(conn);
    }
}

/* ---- the turn ------------------------------------------------------------------------------- */

/* One pass over all active connections; those with nothing more to do leave the list. */
static void pass(struct loop *loop)
{
    size_t n = loop->active.n, left = 0, parsed;
    loop->command_n = 0;
    loop->lookup_n = 0;
    resp_args_reset(&loop->args);
    for (parsed = 0; parsed < n && loop->command_n < LOOP_PASS_COMMANDS; parsed++) {
        size_t max = LOOP_PASS_COMMANDS - loop->command_n;
        parse(loop, loop->active.v[parsed], max < UNIT_MAX_COMMANDS ? max : UNIT_MAX_COMMANDS);
    }
    ps_view_resume(loop->x.ctx.view);
    if (loop->disk) {
        ps_get_many_resident(loop->x.ctx.view, loop->lookups, loop->lookup_n, loop->residency);
    } else if (loop->lookup_n > 1) {
        ps_get_many(loop->x.ctx.view, loop->lookups, loop->lookup_n);
    } else if (loop->lookup_n == 1) {
        struct ps_lookup *one = loop->lookups;
        one->rc = ps_get(loop->x.ctx.view, one->tree, one->key, &one->value);
    }
    for (size_t i = 0; i < parsed; i++) {
        struct conn *conn = loop->active.v[i];
        execute(loop, conn);
        if (conn->stage == CONN_OPEN && conn->unit == NULL && conn->more) {
            loop->active.v[left++] = conn;
            continue;
        }
        conn->active = false;
        conn_keep_input(conn);
        if (conn->eof && conn->unit == NULL && !conn->stalled) {
            conn_finish(conn);
        }
    }
    memmove(loop->active.v + left, loop->active.v + parsed, (n - parsed) * sizeof(struct conn *));
    loop->active.n = left + (n - parsed);
}

void loop_turn(struct loop *loop)
{
    uint64_t before = loop->x.commands;
    if (loop->active.n == 0) {
        return;
    }
    loop->limits.max_bulk = (uint64_t)config_number(loop->env->config, CONFIG_PROTO_MAX_BULK_LEN);
    loop->limits.max_request =
        (uint64_t)config_number(loop->env->config, CONFIG_CLIENT_QUERY_BUFFER_LIMIT);
    ps_snapshot_renew(loop->snapshot);
    loop->x.ctx.view = ps_snapshot_view(loop->snapshot);
    loop->x.ctx.now_ms = loop->now_ms;
    loop->disk = atomic_load_explicit(&loop->env->disk_regime, memory_order_relaxed);
    loop->x.ctx.copied = loop->disk ? 0 : REPLY_INLINE_BYTES; /* chunks are not looked at ahead */
    ps_residency_renew(loop->residency, loop->now_ms);
    while (loop->active.n > 0) {
        pass(loop);
    }
    if (loop->submitted) {
        loop->submitted = false;
        writer_wake(loop->env->writer);
    }
    ps_snapshot_reset(loop->snapshot);
    resp_out_shrink(&loop->out, KEEP_BYTES);
    metrics_add(&loop->metrics->turns, 1);
    metrics_add(&loop->metrics->commands, loop->x.commands - before);
}
