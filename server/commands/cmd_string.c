/*
 * cmd_string.c - GET, SET and their relatives: whole values.
 *
 * Invariants: a handler answers errors, and makes room, before its first change. It makes room
 * before it answers an old value in chunks as well: that may keep a state (ctx->hold), in whose
 * dirty memory the room may be.
 * Threads: command.h. Crash: a change is part of the unit's transaction.
 */
#include "server/commands/cmd_data.h"
#include "server/commands/object.h"
#include "server/commands/options.h"
#include "server/commands/reply.h"

/* false: it has to be done elsewhere, or again (ctx->rc); nothing may be changed now. */
static bool write_value(struct command_ctx *ctx, const struct key_entry *entry)
{
    if (entry->state == KEY_LIVE)
        return reply_string(ctx, ctx->argv[1], &entry->record);
    resp_write_null(ctx->out);
    return true;
}

void cmd_get(struct command_ctx *ctx)
{
    struct key_entry entry;

    if (object_read(ctx, 1, &entry) && object_expect(ctx, &entry, RECORD_STRING))
        write_value(ctx, &entry);
}

/* Stores a value as SET does: the encoding follows from the bytes. */
static bool store(struct command_ctx *ctx, const struct key_entry *old, struct ps_slice value,
                  int64_t expire_ms)
{
    struct ps_slice key = ctx->argv[1];

    return object_reserve_put(ctx, key, old, value.len, expire_ms) &&
           object_put_string(ctx, key, old, record_string_encoding(value), value, expire_ms);
}

/* The old value, of a command that writes: the client has read it. As write_value. */
static bool write_old(struct command_ctx *ctx, const struct key_entry *old)
{
    object_count(ctx, old);
    return write_value(ctx, old);
}

static bool in_chunks(const struct key_entry *entry)
{
    return entry->state == KEY_LIVE && entry->record.chunked;
}

/* SET with its options parsed and its time computed (0: none). */
static void set_generic(struct command_ctx *ctx, struct ps_slice value, unsigned flags,
                        int64_t expire_ms)
{
    struct ps_slice key = ctx->argv[1];
    struct key_entry old;

    if (!object_key_fits(ctx, key) || !object_find(ctx, key, &old))
        return;
    bool live = old.state == KEY_LIVE;
    bool stores = !(flags & OPT_NX && live) && !(flags & OPT_XX && !live);
    if (flags & OPT_KEEPTTL)
        expire_ms = object_expire(&old);
    if (flags & OPT_GET) {
        if (!object_expect(ctx, &old, RECORD_STRING) ||
            (stores && in_chunks(&old) &&
             !object_reserve_put(ctx, key, &old, value.len, expire_ms)) ||
            !write_old(ctx, &old))
            return;
    }
    if (!stores) {
        if (!(flags & OPT_GET))
            resp_write_null(ctx->out);
        return;
    }
    if (store(ctx, &old, value, expire_ms) && !(flags & OPT_GET))
        resp_write_ok(ctx->out);
}

void cmd_set(struct command_ctx *ctx)
{
    struct expire_options options;
    int64_t expire_ms = 0;

    if (!options_of_set(ctx, &options))
        return;
    if ((options.flags & OPT_TIME) &&
        !option_expire_time(ctx, options.expire, options.flags, &expire_ms))
        return;
    set_generic(ctx, ctx->argv[2], options.flags, expire_ms);
}

static void setex_generic(struct command_ctx *ctx, unsigned unit)
{
    int64_t expire_ms;

    if (option_expire_time(ctx, ctx->argv[2], unit, &expire_ms))
        set_generic(ctx, ctx->argv[3], 0, expire_ms);
}

void cmd_setex(struct command_ctx *ctx)
{
    setex_generic(ctx, OPT_EX);
}

void cmd_psetex(struct command_ctx *ctx)
{
    setex_generic(ctx, OPT_PX);
}

void cmd_setnx(struct command_ctx *ctx)
{
    struct key_entry old;

    if (!object_key_fits(ctx, ctx->argv[1]) || !object_find(ctx, ctx->argv[1], &old))
        return;
    if (old.state == KEY_LIVE)
        resp_write_int(ctx->out, 0);
    else if (store(ctx, &old, ctx->argv[2], 0))
        resp_write_int(ctx->out, 1);
}

void cmd_getset(struct command_ctx *ctx)
{
    set_generic(ctx, ctx->argv[2], OPT_GET, 0);
}

void cmd_getdel(struct command_ctx *ctx)
{
    struct key_entry old;

    if (!object_find(ctx, ctx->argv[1], &old) || !object_expect(ctx, &old, RECORD_STRING) ||
        (in_chunks(&old) && command_reserve(ctx, KEYSPACE_DELETE_OPS, 0) != 0) ||
        !write_old(ctx, &old))
        return;
    if (old.state == KEY_LIVE && command_reserve(ctx, KEYSPACE_DELETE_OPS, 0) == 0)
        object_delete(ctx, ctx->argv[1], &old);
}

void cmd_getex(struct command_ctx *ctx)
{
    struct expire_options options;
    struct key_entry old;
    int64_t expire_ms = 0;

    if (!options_of_getex(ctx, &options) || !object_find(ctx, ctx->argv[1], &old))
        return;
    if (old.state != KEY_LIVE) {
        write_old(ctx, &old);
        return;
    }
    if (!object_expect(ctx, &old, RECORD_STRING))
        return;
    if ((options.flags & OPT_TIME) &&
        !option_expire_time(ctx, options.expire, options.flags, &expire_ms))
        return;
    bool sets =
        options.flags & OPT_TIME || (options.flags & OPT_PERSIST && old.record.expire_ms != 0);
    if (sets && in_chunks(&old)) {
        object_hold_payload(ctx, &old.record);
        if (!object_reserve_expire(ctx, ctx->argv[1], &old, expire_ms))
            return;
    }
    if (write_old(ctx, &old) && sets)
        object_set_expire(ctx, ctx->argv[1], &old, expire_ms);
}
