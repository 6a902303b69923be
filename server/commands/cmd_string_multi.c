/*
 * cmd_string_multi.c - MGET, MSET, MSETNX: several keys at once.
 *
 * Invariant: MSET and MSETNX look at every argument before the first change. Room for all of them
 * is the runner's matter: it may be more than can be promised beforehand. Threads: command.h.
 * Crash: a change is part of the unit's transaction.
 */
#include "server/commands/cmd_data.h"
#include "server/commands/object.h"
#include "server/commands/reply.h"

#define BATCH 64u /* look-ups interleaved at a time */

static bool mget_batch(struct command_ctx *ctx, size_t first, size_t n)
{
    struct ps_lookup lookups[BATCH];

    for (size_t i = 0; i < n; i++)
        keyspace_lookup_prepare(ctx->keyspace, ctx->db, ctx->argv[first + i], &lookups[i]);
    ps_get_many(ctx->view, lookups, n);
    for (size_t i = 0; i < n; i++) {
        struct key_entry entry;
        ctx->rc = keyspace_found(&lookups[i], ctx->now_ms, &entry);
        if (ctx->rc < 0)
            return false;
        object_count(ctx, &entry);
        if (entry.state == KEY_EXPIRED && ctx->hint_expired)
            ctx->hint_expired(ctx, ctx->db, ctx->argv[first + i]);
        if (entry.state != KEY_LIVE || entry.record.type != RECORD_STRING)
            resp_write_null(ctx->out);
        else if (!reply_string(ctx, ctx->argv[first + i], &entry.record))
            return false;
    }
    return true;
}

void cmd_mget(struct command_ctx *ctx)
{
    resp_write_array(ctx->out, ctx->argc - 1);
    for (size_t i = 1; i < ctx->argc; i += BATCH) {
        size_t left = ctx->argc - i;
        if (!mget_batch(ctx, i, left < BATCH ? left : BATCH))
            return;
        ctx->rc = keyspace_pause(ctx->pause);
        if (ctx->rc < 0)
            return;
    }
}

/* Is every key within its limit? And is any key live? */
static bool survey(struct command_ctx *ctx, bool *any)
{
    *any = false;
    for (size_t i = 1; i < ctx->argc; i += 2) {
        struct key_entry old;
        if (!object_key_fits(ctx, ctx->argv[i]) || !object_find(ctx, ctx->argv[i], &old))
            return false;
        *any |= old.state == KEY_LIVE;
    }
    return true;
}

static bool store_all(struct command_ctx *ctx)
{
    for (size_t i = 1; i < ctx->argc; i += 2) {
        struct ps_slice value = ctx->argv[i + 1];
        struct key_entry old;
        if (!object_find(ctx, ctx->argv[i], &old) ||
            !object_put_string(ctx, ctx->argv[i], &old, record_string_encoding(value), value, 0))
            return false;
    }
    return true;
}

/* 1: stored; 0: not, since a key was there and `only_new`; -1: failed, and answered. */
static int mset_generic(struct command_ctx *ctx, bool only_new)
{
    bool any;

    if (ctx->argc % 2 == 0) {
        resp_write_errorf(ctx->out, "wrong number of arguments for '%s' command",
                          ctx->command->name);
        return -1;
    }
    if (!survey(ctx, &any))
        return -1;
    if (any && only_new)
        return 0;
    return store_all(ctx) ? 1 : -1;
}

void cmd_mset(struct command_ctx *ctx)
{
    if (mset_generic(ctx, false) == 1)
        resp_write_ok(ctx->out);
}

void cmd_msetnx(struct command_ctx *ctx)
{
    int stored = mset_generic(ctx, true);

    if (stored >= 0)
        resp_write_int(ctx->out, stored);
}
