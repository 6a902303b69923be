/*
 * cmd_scan.c - KEYS and SCAN.
 *
 * Invariants
 *  1. An expired key is never shown; the first few that a walk meets are hinted at.
 *  2. COUNT is how many keys a step looks at; a step also ends when its reply has grown to
 *     SCAN_REPLY_BYTES, so that long keys cannot make it large.
 *
 * Threads: command.h. Crash: nothing is changed here.
 */
#include "server/commands/cmd_data.h"
#include "server/commands/object.h"
#include "server/commands/options.h"

#include "protocol/number.h"

#define SCAN_INLINE_COUNT   128  /* larger steps run in the pool */
#define SCAN_INLINE_PATTERN 256u /* longer patterns too: matching is pattern times key at worst */
#define SCAN_REPLY_BYTES    (1u << 20)
#define MAX_HINTS           16u

struct listing {
    struct command_ctx *ctx;
    uint64_t shown;
    unsigned hints;
    size_t stop_len;      /* end the walk when the output is this long */
    struct ps_slice type; /* data NULL: any */
};

static bool show_key(void *arg, struct ps_slice key, const struct key_entry *entry)
{
    struct listing *listing = arg;
    struct command_ctx *ctx = listing->ctx;

    if (entry->state == KEY_EXPIRED) {
        if (ctx->hint_expired && listing->hints++ < MAX_HINTS)
            ctx->hint_expired(ctx, ctx->db, key);
        return true;
    }
    if (!listing->type.data || option_is(listing->type, record_type_name(entry->record.type))) {
        resp_write_bulk(ctx->out, key.data, key.len);
        listing->shown++;
    }
    return ctx->out->status == 0 && ctx->out->len < listing->stop_len;
}

void cmd_keys(struct command_ctx *ctx)
{
    struct listing listing = {.ctx = ctx, .stop_len = SIZE_MAX};
    struct keyspace_walk walk = {.db = ctx->db,
                                 .now_ms = ctx->now_ms,
                                 .pattern = ctx->argv[1],
                                 .visit = show_key,
                                 .arg = &listing,
                                 .pause = ctx->pause};
    size_t mark = resp_defer(ctx->out);

    ctx->rc = keyspace_walk_all(ctx->keyspace, ctx->view, &walk);
    if (ctx->rc == 0)
        resp_defer_array(ctx->out, mark, listing.shown);
}

enum command_cost cost_of_scan(size_t argc, const struct ps_slice *argv)
{
    for (size_t i = 2; i + 1 < argc; i++) {
        int64_t count;
        if (option_is(argv[i], "count") &&
            number_to_int(argv[i + 1].data, argv[i + 1].len, &count) == 0 &&
            count > SCAN_INLINE_COUNT)
            return COST_POOL;
        if (argv[i + 1].len > SCAN_INLINE_PATTERN)
            return COST_POOL;
    }
    return COST_READ;
}

/* The cursor stands before the keys in the reply and is known behind them: it gets its place, of
 * the width of the largest one, first. */
static void write_step(struct command_ctx *ctx, const struct keyspace_walk *walk, uint64_t cursor)
{
    struct listing *listing = walk->arg;
    struct resp_out keys;

    resp_out_init(&keys);
    resp_out_begin(&keys, ctx->out->version, resp_out_room(ctx->out));
    struct resp_out *out = ctx->out;
    ctx->out = &keys;
    ctx->rc = keyspace_walk_step(ctx->keyspace, ctx->view, walk, &cursor);
    ctx->out = out;
    if (ctx->rc == 0 && keys.status != 0) {
        resp_write_error(out, "reply exceeds the client's output buffer limit");
    } else if (ctx->rc == 0) {
        char digits[NUMBER_INT_MAX];
        resp_write_array(out, 2);
        resp_write_bulk(out, digits, number_from_uint(cursor, digits));
        resp_write_array(out, listing->shown);
        resp_write_raw(out, keys.buf, keys.len);
    }
    resp_out_free(&keys);
}

void cmd_scan(struct command_ctx *ctx)
{
    struct scan_options options;
    uint64_t cursor;

    if (!option_cursor(ctx, ctx->argv[1], &cursor) || !options_of_scan(ctx, 2, &options))
        return;
    struct listing listing = {.ctx = ctx, .stop_len = SCAN_REPLY_BYTES, .type = options.type};
    struct keyspace_walk walk = {.db = ctx->db,
                                 .now_ms = ctx->now_ms,
                                 .pattern = options.pattern,
                                 .limit = (uint64_t)options.count,
                                 .visit = show_key,
                                 .arg = &listing,
                                 .pause = ctx->pause};
    write_step(ctx, &walk, cursor);
}
