/*
 * cmd_multi.c - MULTI, DISCARD, and EXEC where there is nothing to execute.
 *
 * Queueing and EXEC itself belong to dispatch (server/exec/dispatch.c), which calls cmd_exec only
 * outside of MULTI.
 */
#include "server/commands/cmd_server.h"

#include "server/commands/session.h"

void cmd_multi(struct command_ctx *ctx)
{
    if (session_in_multi(ctx->session)) {
        resp_write_error(ctx->out, "MULTI calls can not be nested");
        return;
    }
    ctx->session->multi = true;
    resp_write_ok(ctx->out);
}

void cmd_discard(struct command_ctx *ctx)
{
    struct session_queue queue;
    if (!session_in_multi(ctx->session)) {
        resp_write_error(ctx->out, "DISCARD without MULTI");
        return;
    }
    queue = session_end_multi(ctx->session);
    session_drop_queue(ctx->session, &queue);
    resp_write_ok(ctx->out);
}

void cmd_exec(struct command_ctx *ctx)
{
    resp_write_error(ctx->out, "EXEC without MULTI");
}
