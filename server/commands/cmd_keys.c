/*
 * cmd_keys.c - commands on keys of any type: DEL, RENAME, TYPE, DBSIZE, FLUSHDB, ...
 *
 * Threads: command.h. Crash: a change is part of the unit's transaction.
 */
#include "server/commands/cmd_data.h"
#include "server/commands/object.h"
#include "server/commands/options.h"
#include "server/commands/words.h"

#include <string.h>

#define INLINE_KEYS 256u /* more are read in the pool */

enum command_cost cost_of_many(size_t argc, const struct ps_slice *argv)
{
    (void)argv;
    return argc - 1 <= INLINE_KEYS ? COST_READ : COST_POOL;
}

/* ---- reading -------------------------------------------------------------------------------- */

void cmd_exists(struct command_ctx *ctx)
{
    int64_t count = 0;

    for (size_t i = 1; i < ctx->argc; i++) {
        struct key_entry entry;
        if (!object_read(ctx, i, &entry))
            return;
        count += entry.state == KEY_LIVE;
    }
    resp_write_int(ctx->out, count);
}

void cmd_type(struct command_ctx *ctx)
{
    struct key_entry entry;

    if (object_read(ctx, 1, &entry))
        resp_write_simple(ctx->out,
                          entry.state == KEY_LIVE ? record_type_name(entry.record.type) : "none");
}

void cmd_object_encoding(struct command_ctx *ctx)
{
    struct key_entry entry;

    if (!object_read(ctx, 2, &entry))
        return;
    if (entry.state == KEY_LIVE)
        resp_write_bulk_str(ctx->out, record_encoding_name(entry.record.encoding));
    else
        resp_write_null(ctx->out);
}

void cmd_object_help(struct command_ctx *ctx)
{
    static const char *const lines[] = {
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    Return the kind of internal representation used in order to store the value",
        "    associated with a <key>.",
        "HELP",
        "    Print this help.",
    };
    write_help(ctx->out, lines, sizeof(lines) / sizeof(lines[0]));
}

void cmd_dbsize(struct command_ctx *ctx)
{
    uint64_t count;

    ctx->rc = keyspace_count(ctx->keyspace, ctx->view, ctx->db, ctx->now_ms, ctx->pause, &count);
    if (ctx->rc == 0)
        resp_write_int(ctx->out, (int64_t)count);
}

static bool write_key(void *arg, struct ps_slice key, const struct key_entry *entry)
{
    struct command_ctx *ctx = arg;

    (void)entry;
    resp_write_bulk(ctx->out, key.data, key.len);
    return false;
}

void cmd_randomkey(struct command_ctx *ctx)
{
    int rc =
        keyspace_random(ctx->keyspace, ctx->view, ctx->db, ctx->now_ms, ctx->pause, write_key, ctx);

    if (rc == PS_NOTFOUND)
        resp_write_null(ctx->out);
    else
        ctx->rc = rc;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Room was made by the runner. An expired key goes as well, uncounted. */
void cmd_del(struct command_ctx *ctx)
{
    int64_t count = 0;

    for (size_t i = 1; i < ctx->argc; i++) {
        struct key_entry old;
        if (!object_find(ctx, ctx->argv[i], &old) || !object_delete(ctx, ctx->argv[i], &old))
            return;
        count += old.state == KEY_LIVE;
    }
    resp_write_int(ctx->out, count);
}

static bool same_bytes(struct ps_slice a, struct ps_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Moves the object with its expiry; both entries were looked up in this transaction. */
static bool move(struct command_ctx *ctx, const struct key_entry *source,
                 const struct key_entry *target)
{
    struct ps_slice from = ctx->argv[1], to = ctx->argv[2];
    struct key_entry held = *source;

    object_hold_payload(ctx, &held.record);
    if (command_reserve(ctx, KEYSPACE_PUT_OPS + KEYSPACE_DELETE_OPS,
                        RECORD_MAX_HEADER + held.record.payload.len + 3 * to.len +
                            KEYSPACE_PUT_EXTRA) < 0)
        return false;
    ctx->changed = true;
    ctx->rc = keyspace_move(ctx->keyspace, ctx->txn, ctx->db, from, &held, to, target, ctx->now_ms);
    return ctx->rc == 0;
}

/* 1: renamed (or the same key); 0: not, since the target is there and must not be; -1: answered. */
static int rename_generic(struct command_ctx *ctx, bool only_new)
{
    struct key_entry source, target;

    if (!object_find(ctx, ctx->argv[1], &source))
        return -1;
    if (source.state != KEY_LIVE) {
        resp_write_error(ctx->out, "no such key");
        return -1;
    }
    if (same_bytes(ctx->argv[1], ctx->argv[2]))
        return only_new ? 0 : 1;
    if (!object_key_fits(ctx, ctx->argv[2]) || !object_find(ctx, ctx->argv[2], &target))
        return -1;
    if (only_new && target.state == KEY_LIVE)
        return 0;
    return move(ctx, &source, &target) ? 1 : -1;
}

void cmd_rename(struct command_ctx *ctx)
{
    if (rename_generic(ctx, false) == 1)
        resp_write_ok(ctx->out);
}

void cmd_renamenx(struct command_ctx *ctx)
{
    int renamed = rename_generic(ctx, true);

    if (renamed >= 0)
        resp_write_int(ctx->out, renamed);
}

/* SYNC and ASYNC are the same here: emptying a tree costs no time that depends on its size. */
static bool flush_options(struct command_ctx *ctx)
{
    if (ctx->argc == 1 ||
        (ctx->argc == 2 && (option_is(ctx->argv[1], "sync") || option_is(ctx->argv[1], "async"))))
        return true;
    resp_write_error(ctx->out, "syntax error");
    return false;
}

static void flush(struct command_ctx *ctx, unsigned first, unsigned n)
{
    if (!flush_options(ctx) || command_reserve(ctx, 1, 0) < 0) /* clearing takes no room */
        return;
    for (unsigned db = first; db < first + n; db++) {
        uint64_t count;
        ctx->rc = keyspace_records(ctx->keyspace, ctx->view, db, &count);
        if (ctx->rc == 0 && count > 0) {
            ctx->changed = true;
            ctx->rc = keyspace_flush(ctx->keyspace, ctx->txn, db);
        }
        if (ctx->rc < 0)
            return;
    }
    resp_write_ok(ctx->out);
}

void cmd_flushdb(struct command_ctx *ctx)
{
    flush(ctx, ctx->db, 1);
}

void cmd_flushall(struct command_ctx *ctx)
{
    flush(ctx, 0, keyspace_databases(ctx->keyspace));
}
