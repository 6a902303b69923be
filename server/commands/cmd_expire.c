/*
 * cmd_expire.c - EXPIRE, TTL, PERSIST and their relatives.
 *
 * Threads: command.h. Crash: a change is part of the unit's transaction.
 */
#include "server/commands/cmd_data.h"
#include "server/commands/object.h"
#include "server/commands/options.h"

/* Do NX, XX, GT, LT allow this time for a key whose expiry is `current` (0: none)? */
static bool allowed(unsigned flags, int64_t current, int64_t when)
{
    if (flags & OPT_NX && current != 0)
        return false;
    if (flags & OPT_XX && current == 0)
        return false;
    if (flags & OPT_GT && (current == 0 || when <= current))
        return false;
    return !(flags & OPT_LT && current != 0 && when >= current);
}

/* Time in the unit of the command, from `base_ms` on -> Unix milliseconds (any sign). */
static bool compute_time(struct command_ctx *ctx, int64_t base_ms, bool seconds, int64_t *when)
{
    if (!option_int(ctx, ctx->argv[2], when))
        return false;
    if ((seconds && __builtin_mul_overflow(*when, 1000, when)) ||
        __builtin_add_overflow(*when, base_ms, when)) {
        option_expire_error(ctx);
        return false;
    }
    return true;
}

static void expire_generic(struct command_ctx *ctx, int64_t base_ms, bool seconds)
{
    struct key_entry old;
    unsigned flags;
    int64_t when;

    if (!options_of_expire(ctx, &flags) || !compute_time(ctx, base_ms, seconds, &when) ||
        !object_find(ctx, ctx->argv[1], &old))
        return;
    if (old.state != KEY_LIVE || !allowed(flags, old.record.expire_ms, when)) {
        resp_write_int(ctx->out, 0);
        return;
    }
    /* A time in the past, which may be no valid one for a record, removes the key: so does now. */
    if (object_set_expire(ctx, ctx->argv[1], &old, when > ctx->now_ms ? when : ctx->now_ms))
        resp_write_int(ctx->out, 1);
}

void cmd_expire(struct command_ctx *ctx)
{
    expire_generic(ctx, ctx->now_ms, true);
}

void cmd_pexpire(struct command_ctx *ctx)
{
    expire_generic(ctx, ctx->now_ms, false);
}

void cmd_expireat(struct command_ctx *ctx)
{
    expire_generic(ctx, 0, true);
}

void cmd_pexpireat(struct command_ctx *ctx)
{
    expire_generic(ctx, 0, false);
}

void cmd_persist(struct command_ctx *ctx)
{
    struct key_entry old;

    if (!object_find(ctx, ctx->argv[1], &old))
        return;
    if (object_expire(&old) == 0)
        resp_write_int(ctx->out, 0);
    else if (object_set_expire(ctx, ctx->argv[1], &old, 0))
        resp_write_int(ctx->out, 1);
}

/* -2: no key; -1: no expiry; else the expiry, or the time until then, in ms or rounded to s. */
static void ttl_generic(struct command_ctx *ctx, int64_t base_ms, bool seconds)
{
    struct key_entry entry;

    if (!object_read(ctx, 1, &entry))
        return;
    int64_t expire_ms = object_expire(&entry);
    if (entry.state != KEY_LIVE) {
        resp_write_int(ctx->out, -2);
    } else if (expire_ms == 0) {
        resp_write_int(ctx->out, -1);
    } else {
        uint64_t ms = (uint64_t)(expire_ms - base_ms); /* positive: the key is live */
        resp_write_int(ctx->out, (int64_t)(seconds ? (ms + 500) / 1000 : ms));
    }
}

void cmd_ttl(struct command_ctx *ctx)
{
    ttl_generic(ctx, ctx->now_ms, true);
}

void cmd_pttl(struct command_ctx *ctx)
{
    ttl_generic(ctx, ctx->now_ms, false);
}

void cmd_expiretime(struct command_ctx *ctx)
{
    ttl_generic(ctx, 0, true);
}

void cmd_pexpiretime(struct command_ctx *ctx)
{
    ttl_generic(ctx, 0, false);
}
