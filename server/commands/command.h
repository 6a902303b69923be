/*
 * command.h - the contract between a command and whoever runs it.
 *
 * One table (table.c) describes every command: how it is called, what it costs, what COMMAND says
 * about it, and the handler. Dispatch (server/exec), COMMAND, access control and documentation read
 * nothing else. A handler gets a context: arguments, a view to read, perhaps a transaction to
 * write, and a reply writer. It never touches a socket, a thread or a queue, so the same handlers
 * serve the loops, the writer, EXEC and the reader pool.
 *
 * Invariants
 *  1. A handler runs on one view from its beginning to its end. A row of COST_WRITE gets a
 *     transaction (ctx->txn, and ctx->view is its view); all others get txn == NULL.
 *  2. A handler writes exactly one reply, or sets ctx->rc to a negative ps_error and returns: then
 *     whatever it wrote to ctx->out is cut off again and the runner answers with the error's text.
 *  3. A writing handler validates first, and is repeatable until its first change: PS_BUSY from
 *     command_reserve() makes the runner commit the group and call the handler again from the
 *     start, in a new transaction.
 *  4. After its first change a handler does not fail, unless its row says COMMAND_FAILS_MIDWAY;
 * then it runs under a savepoint, which is rolled back when ctx->rc is negative.
 *  5. Arguments, and slices read from the view, are valid until the handler returns (those from a
 *     transaction's view only until its next change, all of them only until ctx->pause is called).
 *     Nothing may keep them.
 *  6. A read without a bound calls ctx->pause between its steps, so that it holds up nobody.
 *
 * Threads: the table is constant. A context belongs to the thread that runs it; handlers of
 * COST_READ and COST_STATE run on I/O threads and in the writer, COST_POOL in the reader pool (and
 * in the writer when it stands in an EXEC that writes), COST_WRITE only in the writer. Crash: a
 * handler's changes are part of its group's transaction: all there or none.
 */
#ifndef PANDO_SERVER_COMMANDS_COMMAND_H
#define PANDO_SERVER_COMMANDS_COMMAND_H

#include "protocol/resp.h"
#include "storage/pandostore.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server;   /* server/commands/services.h: what handlers may ask of the process */
struct session;  /* server/commands/session.h: database, protocol version, name, user, MULTI */
struct keyspace; /* server/keyspace/keyspace.h */
struct keyspace_pause;
struct config;        /* server/config/config.h */
struct record;        /* server/keyspace/record.h */
struct record_chunks; /* the same */
struct reply_holes;   /* server/commands/reply.h */
struct command;
struct command_ctx;

/* ---- the table ------------------------------------------------------------------------------ */

/* Where a command may run. "Bounded" is about O(log n) plus 16 KiB of output. */
enum command_cost {
    COST_STATE, /* touches the connection's or the server's state only; view may be NULL */
    COST_READ,  /* bounded read: runs inline on the I/O thread */
    COST_POOL,  /* reads or waits without a bound: runs in the reader pool */
    COST_WRITE, /* runs in the writer's transaction */
};

/* What COMMAND reports, in the order in which it reports it. */
enum command_flag {
    CMD_WRITE = 1 << 0,
    CMD_READONLY = 1 << 1,
    CMD_DENYOOM = 1 << 2,
    CMD_MODULE = 1 << 3,
    CMD_ADMIN = 1 << 4,
    CMD_PUBSUB = 1 << 5,
    CMD_NOSCRIPT = 1 << 6,
    CMD_BLOCKING = 1 << 7,
    CMD_LOADING = 1 << 8,
    CMD_STALE = 1 << 9,
    CMD_SKIP_MONITOR = 1 << 10,
    CMD_SKIP_SLOWLOG = 1 << 11,
    CMD_ASKING = 1 << 12,
    CMD_FAST = 1 << 13,
    CMD_NO_AUTH = 1 << 14,
    CMD_MAY_REPLICATE = 1 << 15,
    CMD_NO_MANDATORY_KEYS = 1 << 16,
    CMD_NO_ASYNC_LOADING = 1 << 17,
    CMD_NO_MULTI = 1 << 18,
    CMD_ALLOW_BUSY = 1 << 19,
    CMD_MOVABLEKEYS = 1 << 20,
};

/* What only Pando's own runner reads. */
enum command_trait {
    COMMAND_PREFETCH = 1 << 0,     /* reads one object, argv[first_key]: ctx->found may be set */
    COMMAND_FAILS_MIDWAY = 1 << 1, /* can fail after its first change: run under a savepoint */
    COMMAND_RESERVES = 1 << 2,     /* calls command_reserve() itself; `reserve` is an upper bound
                                    * that is used only where the whole of EXEC is reserved */
    COMMAND_EXEC_CONTROL = 1 << 3, /* MULTI, EXEC, DISCARD, QUIT, RESET...: not queued by MULTI */
};

/* One key specification as COMMAND shows it. */
struct command_keys {
    const char *flags; /* words, e.g. "RW access update"; NULL: no (more) specification */
    int begin;         /* index of the first key */
    int last;          /* last key, relative to begin; negative: counted from the end */
    int step;
    const char *notes; /* or NULL */
};

/* Upper bound of what a call will change. */
struct command_need {
    size_t ops;   /* puts and deletes */
    size_t bytes; /* keys and values of those together */
};

typedef void (*command_handler)(struct command_ctx *ctx);

struct command {
    const char *name; /* lower case; of a subcommand only its own part ("id") */
    int arity;       /* as Redis: negative means at least; includes the command (and "client id") */
    uint32_t flags;  /* enum command_flag */
    uint32_t traits; /* enum command_trait */
    int first_key, last_key, key_step;
    enum command_cost cost;
    /* Chooses the cost by the arguments, e.g. MGET of a thousand keys; NULL: always `cost`. */
    enum command_cost (*cost_of)(size_t argc, const struct ps_slice *argv);
    unsigned value_arg; /* argument that is stored as a whole under the first key; 0: none */
    /* NULL: 2 operations a key and 1, with all arguments' bytes, the keys' three times. */
    void (*reserve)(size_t argc, const struct ps_slice *argv, struct command_need *need);
    command_handler handler;         /* NULL: only its subcommands can be called */
    const char *acl;                 /* categories as COMMAND shows them, "@read @string @fast" */
    const char *tips;                /* words, as COMMAND shows them; NULL: none */
    const struct command_keys *keys; /* ends with flags == NULL; NULL: none */
    const char *since, *group, *complexity, *summary;
    const struct command *subcommands; /* ends with name == NULL; NULL: none */
    const char *full_name;             /* "client|id"; NULL: the same as name */
};

/* The table, sorted by name. */
const struct command *command_table(size_t *count);
/* The row of a command, in any case of letters; NULL: unknown. Called for every command received:
 * O(1), allocates nothing. */
const struct command *command_lookup(struct ps_slice name);
/* The subcommand's row; NULL: unknown. */
const struct command *command_lookup_sub(const struct command *parent, struct ps_slice name);

/* "client|id" of a subcommand, "get" of a command. */
static inline const char *command_full_name(const struct command *row)
{
    return row->full_name != NULL ? row->full_name : row->name;
}

/* Cost, and upper bound of changes, of one call. */
enum command_cost command_cost_of(const struct command *command, size_t argc,
                                  const struct ps_slice *argv);
void command_need_of(const struct command *command, size_t argc, const struct ps_slice *argv,
                     struct command_need *need);

/* ---- a call --------------------------------------------------------------------------------- */

/* What becomes of a large value in a reply: reply.h. */
enum large_values { LARGE_COPY, LARGE_ELSEWHERE, LARGE_HOLES };

/* ctx->rc of a handler that has done nothing, since */
#define COMMAND_ELSEWHERE   (-1001) /* it belongs in the reader pool */
#define COMMAND_UNPUBLISHED (-1002) /* what it saw must be published first */
#define COMMAND_RESTAGE     (-1003) /* rows of its value are missing: write them again */
/* An error for the client: its snapshot could not move to the file. */
#define COMMAND_CROWDED_OUT (-1004)

struct command_ctx {
    struct server *server;
    struct config *config;
    struct session *session;
    struct keyspace *keyspace;
    const struct command *command; /* the row (of the subcommand, where there is one) */
    size_t argc;
    const struct ps_slice *argv;
    struct ps_view
        *view; /* what reads see; NULL only for COST_STATE, and for COST_POOL of no reads */
    struct ps_txn *txn; /* COST_WRITE only */
    struct resp_out *out;
    int64_t now_ms;      /* Unix time, frozen for the call (in a unit and in EXEC for all of it) and
                          * never earlier than that of any unit that was published */
    unsigned db;         /* the session's database when the call began */
    int rc;              /* out: 0, or a negative ps_error (see invariant 2) */
    size_t hits, misses; /* out: keys looked up for the client; the runner counts them once, however
                          * often the handler has to run */
    bool in_exec;        /* runs inside EXEC */
    bool reserved;       /* room for all of it was made: command_reserve() has nothing to do */
    bool changed;        /* set by the handler (or keyspace code) right before its first change */
    const struct ps_lookup *found; /* result for argv[first_key] in `keys`, or NULL: look up */
    /* Tells the writer that a read met an expired key. NULL where nobody listens. */
    void (*hint_expired)(struct command_ctx *ctx, unsigned db, struct ps_slice key);
    void *hint_arg;
    const struct keyspace_pause *pause; /* NULL: the read is short, or nobody would have to wait */
    enum large_values large;
    size_t copied;             /* bytes of a value in chunks that are copied all the same */
    struct reply_holes *holes; /* unless LARGE_COPY everywhere */
    /* The writer's: a snapshot that has this record under the key, for the holes of this unit. 0,
     * COMMAND_UNPUBLISHED, or another error. */
    int (*hold)(struct command_ctx *ctx, struct ps_slice key, const struct record *record);
    void *hold_arg;
    const struct record_chunks *staged; /* the value's rows, if they were written beforehand */
};

/* Makes room for `ops` changes of together `bytes` bytes; call it after validation and before the
 * first change. 0, or a negative error, which is in ctx->rc as well: just return. */
int command_reserve(struct command_ctx *ctx, size_t ops, size_t bytes);

/* What a client reads when ctx->rc is `rc`, e.g. "ERR ..." or "MISCONF ..."; no line end. */
const char *command_rc_text(int rc);

#endif
