/*
 * cmd_string_part.c - parts of values (APPEND, GETRANGE, ...) and numbers (INCR, ...).
 *
 * Invariant: a new value that stands in its record is built in the keyspace's payload room, which
 * nobody sees; then room is made; then it is stored. A longer one is changed in the chunks that are
 * touched: a string becomes one in chunks when such a change makes it longer than a chunk.
 * Threads: command.h. Crash: a change is part of the unit's transaction.
 */
#include "server/commands/cmd_data.h"
#include "server/commands/object.h"
#include "server/commands/options.h"
#include "server/commands/reply.h"

#include "protocol/number.h"

#include <math.h>
#include <string.h>

static const struct ps_slice nothing = {"", 0};

/* The string under argv[1] for a writing command, and its length; 0 if there is none. */
static bool find_string(struct command_ctx *ctx, struct key_entry *old, uint64_t *len)
{
    if (!object_key_fits(ctx, ctx->argv[1]) || !object_find(ctx, ctx->argv[1], old) ||
        !object_expect(ctx, old, RECORD_STRING))
        return false;
    *len = old->state == KEY_LIVE ? record_string_len(&old->record) : 0;
    return true;
}

/* The bytes of one that stands in its record. */
static struct ps_slice bytes_of(const struct key_entry *old)
{
    return old->state == KEY_LIVE && !old->record.chunked ? old->record.payload : nothing;
}

/* Stores what was built, with the expiry that the key has. */
static bool store(struct command_ctx *ctx, const struct key_entry *old,
                  enum record_encoding encoding, struct ps_slice value)
{
    struct ps_slice key = ctx->argv[1];

    return object_reserve_put(ctx, key, old, value.len, object_expire(old)) &&
           object_put_string(ctx, key, old, encoding, value, object_expire(old));
}

void cmd_strlen(struct command_ctx *ctx)
{
    struct key_entry entry;

    if (!object_read(ctx, 1, &entry) || !object_expect(ctx, &entry, RECORD_STRING))
        return;
    resp_write_int(ctx->out,
                   entry.state == KEY_LIVE ? (int64_t)record_string_len(&entry.record) : 0);
}

/* [start, end] counted from either end -> offset and length within `len` bytes. */
static size_t clip_range(int64_t start, int64_t end, int64_t len, size_t *offset)
{
    *offset = 0;
    if (start < 0 && end < 0 && start > end)
        return 0;
    start = start < 0 ? start + len : start;
    end = end < 0 ? end + len : end;
    start = start < 0 ? 0 : start;
    end = end < 0 ? 0 : end;
    end = end >= len ? len - 1 : end;
    if (start > end || len == 0)
        return 0;
    *offset = (size_t)start;
    return (size_t)(end - start + 1);
}

void cmd_getrange(struct command_ctx *ctx)
{
    struct key_entry entry;
    int64_t start, end;

    if (!option_int(ctx, ctx->argv[2], &start) || !option_int(ctx, ctx->argv[3], &end) ||
        !object_read(ctx, 1, &entry) || !object_expect(ctx, &entry, RECORD_STRING))
        return;
    size_t offset, len = 0;
    if (entry.state == KEY_LIVE)
        len = clip_range(start, end, (int64_t)record_string_len(&entry.record), &offset);
    if (len > 0)
        reply_range(ctx, ctx->argv[1], &entry.record, offset, len);
    else
        resp_write_bulk(ctx->out, "", 0);
}

/* Writes `patch` at an offset of a string in chunks, or of one that becomes so, and answers with
 * the new length. */
static void patch_chunks(struct command_ctx *ctx, const struct key_entry *old, uint64_t offset,
                         struct ps_slice patch)
{
    struct ps_slice value = bytes_of(old);
    uint8_t *room = keyspace_payload_room(ctx->keyspace);
    struct record_chunks chunks;

    if (value.len > 0)
        memcpy(room, value.data, value.len); /* making room may move the pages */
    value.data = room;
    if (!object_reserve_chunks(ctx, ctx->argv[1], old, patch.len))
        return;
    ctx->changed = true;
    if (old->state == KEY_LIVE && old->record.chunked)
        chunks = old->record.chunks;
    else
        ctx->rc = keyspace_chunks_new(ctx->keyspace, ctx->txn, &chunks);
    if (ctx->rc == 0)
        ctx->rc = keyspace_chunks_write(ctx->keyspace, ctx->txn, ctx->db, &chunks, 0, value);
    if (ctx->rc == 0)
        ctx->rc = keyspace_chunks_write(ctx->keyspace, ctx->txn, ctx->db, &chunks, offset, patch);
    if (ctx->rc == 0 && object_put_chunks(ctx, ctx->argv[1], old, &chunks))
        resp_write_int(ctx->out, (int64_t)chunks.len);
}

/* Does the string, of `len` bytes after the change, live in chunks from then on? */
static bool goes_to_chunks(const struct key_entry *old, uint64_t len)
{
    return len > KEYSPACE_CHUNK || (old->state == KEY_LIVE && old->record.chunked);
}

static void append_new(struct command_ctx *ctx, const struct key_entry *old, struct ps_slice value)
{
    if (store(ctx, old, record_string_encoding(value), value))
        resp_write_int(ctx->out, (int64_t)value.len);
}

void cmd_append(struct command_ctx *ctx)
{
    struct ps_slice more = ctx->argv[2];
    struct key_entry old;
    uint64_t len;

    if (!find_string(ctx, &old, &len))
        return;
    if (old.state != KEY_LIVE) {
        append_new(ctx, &old, more);
        return;
    }
    if (!object_grows_to(ctx, len + more.len))
        return;
    if (goes_to_chunks(&old, len + more.len)) {
        patch_chunks(ctx, &old, len, more);
        return;
    }
    struct ps_slice value = bytes_of(&old);
    uint8_t *room = keyspace_payload_room(ctx->keyspace);
    if (value.len > 0)
        memcpy(room, value.data, value.len);
    if (more.len > 0)
        memcpy(room + value.len, more.data, more.len);
    struct ps_slice built = {room, value.len + more.len};
    if (store(ctx, &old, RECORD_ENC_RAW, built))
        resp_write_int(ctx->out, (int64_t)built.len);
}

/* In the record: the value with the patch, and zeros between. */
static struct ps_slice patched(struct command_ctx *ctx, struct ps_slice value, size_t at,
                               struct ps_slice patch)
{
    uint8_t *room = keyspace_payload_room(ctx->keyspace);
    size_t end = at + patch.len;

    if (value.len > 0)
        memcpy(room, value.data, value.len);
    if (at > value.len)
        memset(room + value.len, 0, at - value.len);
    memcpy(room + at, patch.data, patch.len);
    return (struct ps_slice){room, value.len > end ? value.len : end};
}

void cmd_setrange(struct command_ctx *ctx)
{
    struct ps_slice patch = ctx->argv[3];
    struct key_entry old;
    int64_t offset;
    uint64_t len;

    if (!option_int(ctx, ctx->argv[2], &offset))
        return;
    if (offset < 0) {
        resp_write_error(ctx->out, "offset is out of range");
        return;
    }
    if (!find_string(ctx, &old, &len))
        return;
    if (patch.len == 0) {
        resp_write_int(ctx->out, (int64_t)len);
        return;
    }
    uint64_t end = (uint64_t)offset + patch.len;
    if (!object_grows_to(ctx, end))
        return;
    if (goes_to_chunks(&old, end > len ? end : len)) {
        patch_chunks(ctx, &old, (uint64_t)offset, patch);
        return;
    }
    struct ps_slice built = patched(ctx, bytes_of(&old), (size_t)offset, patch);
    if (store(ctx, &old, RECORD_ENC_RAW, built))
        resp_write_int(ctx->out, (int64_t)built.len);
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* What is in chunks is no number, and neither is "no bytes", which bytes_of() says of it. */

static void incr_generic(struct command_ctx *ctx, int64_t by)
{
    struct key_entry old;
    int64_t number = 0;
    uint64_t len;

    if (!find_string(ctx, &old, &len))
        return;
    if (old.state == KEY_LIVE && !option_int(ctx, bytes_of(&old), &number))
        return;
    if (__builtin_add_overflow(number, by, &number)) {
        resp_write_error(ctx->out, "increment or decrement would overflow");
        return;
    }
    char *room = (char *)keyspace_payload_room(ctx->keyspace);
    struct ps_slice built = {room, number_from_int(number, room)};
    if (store(ctx, &old, RECORD_ENC_INT, built))
        resp_write_int(ctx->out, number);
}

void cmd_incr(struct command_ctx *ctx)
{
    incr_generic(ctx, 1);
}

void cmd_decr(struct command_ctx *ctx)
{
    incr_generic(ctx, -1);
}

void cmd_incrby(struct command_ctx *ctx)
{
    int64_t by;

    if (option_int(ctx, ctx->argv[2], &by))
        incr_generic(ctx, by);
}

void cmd_decrby(struct command_ctx *ctx)
{
    int64_t by;

    if (!option_int(ctx, ctx->argv[2], &by))
        return;
    if (by == INT64_MIN)
        resp_write_error(ctx->out, "decrement would overflow");
    else
        incr_generic(ctx, -by);
}

static bool to_float(struct command_ctx *ctx, struct ps_slice text, long double *value)
{
    if (number_to_long_double(text.data, text.len, value) == 0)
        return true;
    resp_write_error(ctx->out, "value is not a valid float");
    return false;
}

void cmd_incrbyfloat(struct command_ctx *ctx)
{
    long double number = 0, by;
    struct key_entry old;
    uint64_t len;

    if (!find_string(ctx, &old, &len))
        return;
    if (old.state == KEY_LIVE && !to_float(ctx, bytes_of(&old), &number))
        return;
    if (!to_float(ctx, ctx->argv[2], &by))
        return;
    number += by;
    if (isnan(number) || isinf(number)) {
        resp_write_error(ctx->out, "increment would produce NaN or Infinity");
        return;
    }
    char *room = (char *)keyspace_payload_room(ctx->keyspace);
    struct ps_slice built = {room, number_from_long_double(number, room)};
    resp_write_bulk(ctx->out, room, built.len); /* before the room can be used again */
    store(ctx, &old, record_text_encoding(built), built);
}
