/*
 * ahead.c - see ahead.h.
 *
 * A unit's commands are followed through SELECT, so that keys are looked for in the right database;
 * what MULTI has queued comes first. A SELECT that will be refused, or one that EXEC discards,
 * makes a key be looked for in a wrong one: that costs time only.
 */
#include "server/exec/ahead.h"

#include "protocol/number.h"
#include "server/keyspace/keyspace.h"

#include <string.h>

#define PROBED_KEYS  64u /* of one command or unit; with more it is left to the pool unseen */
#define RECORD_EXTRA 64u /* bytes that a record takes besides key and value, at most */

/* Going through the keys of some commands: probing while there is a residency, else touching. */
struct tour {
    const struct executor *x;
    struct ps_residency *residency;
    unsigned db;
    bool reads_only; /* what names no key counts as waiting */
    size_t keys;
    uint64_t writes;
};

/* Bytes that may be put under one of the command's keys; 0: it only reads. */
static size_t bytes_put(const struct command *row, size_t argc, const struct ps_slice *argv)
{
    size_t longest = 0;
    if (row->cost != COST_WRITE) {
        return 0;
    }
    for (size_t i = 1; i < argc; i++) {
        longest = argv[i].len > longest ? argv[i].len : longest;
    }
    return 2 * longest + RECORD_EXTRA;
}

/* true: goes on. */
static bool visit_key(struct tour *tour, struct ps_slice key, size_t write)
{
    const struct command_ctx *ctx = &tour->x->ctx;
    if (tour->residency == NULL) {
        keyspace_touch(ctx->keyspace, ctx->view, tour->db, key, write);
        return true;
    }
    return ++tour->keys <= PROBED_KEYS &&
           !keyspace_would_wait(ctx->keyspace, ctx->view, tour->db, key, write, tour->residency);
}

static void follow_select(struct tour *tour, const struct command *row, size_t argc,
                          const struct ps_slice *argv)
{
    int64_t db;
    if (argc == 2 && strcmp(row->name, "select") == 0 &&
        number_to_int(argv[1].data, argv[1].len, &db) == 0 && db >= 0 &&
        db < (int64_t)keyspace_databases(tour->x->ctx.keyspace)) {
        tour->db = (unsigned)db;
    }
}

/* All keys of a command. true: goes on. */
static bool visit(struct tour *tour, const struct command *row, size_t argc,
                  const struct ps_slice *argv)
{
    size_t last, write;
    if (row == NULL) {
        return true;
    }
    if (row->cost == COST_STATE) {
        follow_select(tour, row, argc, argv);
        return true;
    }
    tour->writes += row->cost == COST_WRITE;
    if (command_cost_of(row, argc, argv) == COST_POOL) {
        return true; /* it runs in the pool, or without a bound */
    }
    if (row->first_key == 0) {
        return !tour->reads_only;
    }
    last = row->last_key < 0 ? argc - (size_t)-row->last_key : (size_t)row->last_key;
    write = bytes_put(row, argc, argv);
    for (size_t i = (size_t)row->first_key; i <= last && i < argc; i += (size_t)row->key_step) {
        if (!visit_key(tour, argv[i], write)) {
            return false;
        }
    }
    return true;
}

static bool visit_queue(struct tour *tour, const struct session *session)
{
    const struct session_queued *q = session->queue.head;
    while (q != NULL && visit(tour, q->command, q->argc, q->argv)) {
        q = q->next;
    }
    return q == NULL;
}

bool ahead_read_waits(const struct executor *x, const struct session *session,
                      const struct command *row, size_t argc, const struct ps_slice *argv,
                      struct ps_residency *residency)
{
    struct tour tour = {x, residency, session_db(session), true, 0, 0};
    if (row == NULL || !session->authenticated) {
        return false;
    }
    if (session_in_multi(session)) {
        return (row->traits & COMMAND_EXEC_CONTROL) && strcmp(row->name, "exec") == 0 &&
               !session->multi_dirty && !visit_queue(&tour, session);
    }
    return row->cost == COST_READ && !visit(&tour, row, argc, argv);
}

bool ahead_write_waits(const struct executor *x, const struct session *session,
                       const struct unit_source *commands, size_t n, const struct ps_slice *argv,
                       struct ps_residency *residency)
{
    struct tour tour = {x, residency, session_db(session), false, 0, 0};
    bool on = visit_queue(&tour, session);
    for (size_t i = 0; i < n && on; i++) {
        on = visit(&tour, commands[i].row, commands[i].argc, argv + commands[i].first);
    }
    return !on;
}

uint64_t ahead_touch(const struct executor *x, unsigned *db, const struct command *row, size_t argc,
                     const struct ps_slice *argv)
{
    struct tour tour = {x, NULL, *db, false, 0, 0};
    visit(&tour, row, argc, argv);
    *db = tour.db;
    return tour.writes;
}
