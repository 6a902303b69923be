/*
 * reply.c - see reply.h.
 */
#include "server/commands/reply.h"

#include "server/keyspace/keyspace.h"

#include <stdio.h>
#include <stdlib.h>

void reply_holes_cut(struct reply_holes *holes, size_t at)
{
    while (holes->n > 0 && holes->v[holes->n - 1].at > at)
        holes->n--;
}

void reply_holes_free(struct reply_holes *holes)
{
    free(holes->v);
    *holes = (struct reply_holes){NULL, 0, 0};
}

static bool copy_range(struct command_ctx *ctx, const struct record_chunks *chunks, uint64_t offset,
                       uint64_t len)
{
    char *to = resp_write_bulk_space(ctx->out, (size_t)len);

    if (to) /* else the reply has its status, which closes the connection */
        ctx->rc = keyspace_chunks_read(ctx->keyspace, ctx->view, ctx->db, chunks, offset, to,
                                       (size_t)len);
    return ctx->rc == 0;
}

static bool leave_hole(struct command_ctx *ctx, const struct record_chunks *chunks, uint64_t offset,
                       uint64_t len)
{
    struct reply_holes *holes = ctx->holes;
    char header[32];

    if (holes->n == holes->cap) {
        size_t cap = holes->cap > 0 ? 2 * holes->cap : 4;
        struct reply_hole *grown = realloc(holes->v, cap * sizeof(*grown));
        if (!grown) {
            ctx->rc = PS_NOMEM;
            return false;
        }
        holes->v = grown;
        holes->cap = cap;
    }
    int n = snprintf(header, sizeof(header), "$%llu\r\n", (unsigned long long)len);
    resp_write_raw(ctx->out, header, (size_t)n);
    holes->v[holes->n++] = (struct reply_hole){ctx->out->len, ctx->db, *chunks, offset, len};
    resp_write_raw(ctx->out, "\r\n", 2);
    return true;
}

bool reply_range(struct command_ctx *ctx, struct ps_slice key, const struct record *record,
                 uint64_t offset, uint64_t len)
{
    if (__builtin_expect(!record->chunked, 1)) {
        resp_write_bulk(ctx->out, (const char *)record->payload.data + offset, (size_t)len);
        return true;
    }
    if (ctx->large == LARGE_COPY || len <= ctx->copied)
        return copy_range(ctx, &record->chunks, offset, len);
    if (ctx->large == LARGE_ELSEWHERE) {
        ctx->rc = ctx->txn ? ctx->hold(ctx, key, record) : COMMAND_ELSEWHERE;
        if (ctx->rc < 0)
            return false;
    }
    return leave_hole(ctx, &record->chunks, offset, len);
}

bool reply_string(struct command_ctx *ctx, struct ps_slice key, const struct record *record)
{
    return reply_range(ctx, key, record, 0, record_string_len(record));
}
