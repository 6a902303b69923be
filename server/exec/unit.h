/*
 * unit.h - commands of one connection on their way through the writer or the reader pool.
 *
 * Invariants
 *  1. A unit owns its commands and arguments: copies of them, or, when they are large, the
 *     connection's buffer itself (`input`).
 *  2. While a unit exists for a connection, the unit's holder owns the connection's session.
 *  3. After unit_rewind the unit is as it was at unit_mark: commands after the mark run again, with
 *     the session they ran with before.
 *  4. A unit's replies leave only after the newest state that it could have seen is durable at its
 *     level (writer.c); they are in `out` when it is posted to `home`, complete but for large
 * values
 *     (`holes`), which pieces from the pool fill in (stream.c).
 *
 * Threads: one holder at a time: loop -> writer or pool (or the pool, then the writer) -> loop.
 */
#ifndef PANDO_SERVER_EXEC_UNIT_H
#define PANDO_SERVER_EXEC_UNIT_H

#include "server/commands/command.h"
#include "server/commands/reply.h"
#include "server/commands/session.h"
#include "server/exec/mailbox.h"

#define UNIT_MAX_COMMANDS 1000u
#define UNIT_MAX_BYTES    (1024u * 1024u)

struct unit_command {
    const struct command *row; /* as dispatch_resolve said; may be NULL */
    uint32_t first, argc;      /* in unit->argv */
};

/* What a unit is in the pool for. */
enum unit_errand {
    ERRAND_LONG, /* one command without a bound, or EXEC of reads */
    ERRAND_READ, /* short reads that wait for the disk */
    ERRAND_WALK, /* it is on its way to the writer: what it needs is read into memory first */
    ERRAND_DUE,  /* the same for the writer's background work; the unit is empty */
};

/* A value that is written in steps, before the command that stores it runs (stage.c). */
struct unit_stage {
    struct record_chunks chunks,
        mark; /* what is written, and was when the group began; id 0: nothing */
    unsigned tries;
    bool done;
};

struct unit_stream; /* stream.c */

struct unit {
    struct mail mail; /* first: a unit is posted by it */
    enum unit_errand errand;
    struct mailbox *home;
    struct session *session;
    void *owner;  /* the connection; nobody but home's receiver looks at it */
    size_t cap;   /* bytes of the block */
    size_t bytes; /* of memory in use: what the writer's queue is bounded by */
    uint32_t count, done;
    struct unit_command *commands;
    struct ps_slice *argv;
    struct resp_out out;
    uint64_t seq;      /* released when this is published */
    uint64_t ticket;   /* order of arrival in the pool */
    struct unit *next; /* lists of the writer and the pool */
    struct session_queued *spent;
    char *input;                  /* the arguments lie in it; NULL: in the unit */
    struct reply_holes holes;     /* of `out` */
    struct ps_snapshot *snapshot; /* that has their values */
    struct unit_stream *stream;   /* the replies are being sent in pieces */
    struct unit_stage stage;
    struct {
        uint32_t done;
        size_t out_len;
        int version;
        struct session_state session;
    } mark;
};

/* A command as the loop has it: its words in `argv` (a vector of all parsed commands). */
struct unit_source {
    const struct command *row;
    uint32_t first, argc;
};

/* Units that were let go of, with their reply buffers, for use again. One thread's. */
struct unit_stock {
    struct unit *head;
    size_t count;
};

/* Copies n commands; if `input` is not NULL, their arguments lie in that block of memory, which is
 * the unit's from then on. Replies are limited to out_limit bytes. NULL: no memory. */
struct unit *unit_new(struct unit_stock *stock, struct session *session,
                      const struct unit_source *commands, size_t n, const struct ps_slice *argv,
                      char *input, size_t out_limit);
/* Writes the commands that were not executed as a client would send them. */
void unit_write_rest(const struct unit *unit, struct resp_out *out);
/* Gives a unit back to the stock, or frees it when it is large or the stock is full. */
void unit_release(struct unit_stock *stock, struct unit *unit);
void unit_stock_free(struct unit_stock *stock);

void unit_mark(struct unit *unit);
void unit_rewind(struct unit *unit);
/* Replaces the replies since the mark by one error for each command, up to a QUIT, and does nothing
 * of them, except that a MULTI ends where they end it, and one they begin cannot be executed. */
void unit_fail(struct unit *unit, int rc);

#endif
