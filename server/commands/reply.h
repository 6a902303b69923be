/*
 * reply.h - values in replies: written at once, or, if they are large, left to be sent in pieces.
 *
 * A value that is left has its length and its line end in the reply, and a hole between them, which
 * whoever sends the reply fills from a snapshot (server/exec/stream.c). So a reply of any size
 * needs memory for one piece.
 *
 * What becomes of a large value (in chunks, and more than ctx->copied bytes of it) is the
 * executor's choice (ctx->large): LARGE_ELSEWHERE  ctx->rc is COMMAND_ELSEWHERE: nothing was done;
 * the command belongs in the reader pool. A command that writes asks ctx->hold for a snapshot that
 * has the value as it is now, and then leaves a hole LARGE_HOLES      a hole LARGE_COPY       it is
 * copied (EXEC in the writer, which may have made the value itself), up to the limit of the reply
 *
 * A hole's place is a number of bytes: no value belongs inside resp_defer(), whose end moves bytes.
 *
 * Threads: as the context. Crash: nothing is kept.
 */
#ifndef PANDO_SERVER_COMMANDS_REPLY_H
#define PANDO_SERVER_COMMANDS_REPLY_H

#include "server/commands/command.h"
#include "server/keyspace/record.h"

#define REPLY_INLINE_BYTES (64u * 1024)  /* ctx->copied where reads are bounded */
#define REPLY_COPIED_BYTES (256u * 1024) /* the same in the pool */

/* Bytes of a value that belong into a reply before its byte number `at`. */
struct reply_hole {
    size_t at;
    unsigned db;
    struct record_chunks chunks;
    uint64_t offset, len;
};

/* In order of `at`. All zeros is none. */
struct reply_holes {
    struct reply_hole *v;
    size_t n, cap;
};

/* Forgets the holes behind byte `at` of the reply, which is cut there. */
void reply_holes_cut(struct reply_holes *holes, size_t at);
void reply_holes_free(struct reply_holes *holes);

/* Writes the string of a live record as a bulk; `key` is where it was found. Before the command's
 * first change. false: ctx->rc says why not. */
bool reply_string(struct command_ctx *ctx, struct ps_slice key, const struct record *record);
/* The same for bytes [offset, offset + len), which it must have. */
bool reply_range(struct command_ctx *ctx, struct ps_slice key, const struct record *record,
                 uint64_t offset, uint64_t len);

#endif
