/*
 * object.c - the object under a key, for handlers. Rules: object.h.
 */
#include "server/commands/object.h"

#include "server/config/config.h"

#include <string.h>

bool object_find(struct command_ctx *ctx, struct ps_slice key, struct key_entry *entry)
{
    ctx->rc = keyspace_find(ctx->keyspace, ctx->view, ctx->db, key, ctx->now_ms, entry);
    return ctx->rc == 0;
}

bool object_read(struct command_ctx *ctx, size_t arg, struct key_entry *entry)
{
    if (ctx->found && arg == (size_t)ctx->command->first_key)
        ctx->rc = keyspace_found(ctx->found, ctx->now_ms, entry);
    else
        object_find(ctx, ctx->argv[arg], entry);
    if (ctx->rc < 0)
        return false;
    object_count(ctx, entry);
    if (entry->state == KEY_EXPIRED && ctx->hint_expired)
        ctx->hint_expired(ctx, ctx->db, ctx->argv[arg]);
    return true;
}

bool object_expect(struct command_ctx *ctx, const struct key_entry *entry, enum record_type type)
{
    if (entry->state != KEY_LIVE || entry->record.type == type)
        return true;
    resp_write_error(ctx->out,
                     "-WRONGTYPE Operation against a key holding the wrong kind of value");
    return false;
}

bool object_key_fits(struct command_ctx *ctx, struct ps_slice key)
{
    if (key.len <= KEYSPACE_MAX_KEY)
        return true;
    resp_write_errorf(ctx->out, "key exceeds the maximum of %u bytes", KEYSPACE_MAX_KEY);
    return false;
}

bool object_grows_to(struct command_ctx *ctx, uint64_t len)
{
    uint64_t limit = (uint64_t)config_number(ctx->config, CONFIG_PROTO_MAX_BULK_LEN);

    if (len <= limit && len <= KEYSPACE_MAX_STRING)
        return true;
    resp_write_error(ctx->out, "string exceeds maximum allowed size (proto-max-bulk-len)");
    return false;
}

/* Bytes that a put of `len` bytes may write: the record, and three rows at most that hold the key.
 */
static size_t put_bytes(size_t key_len, size_t len)
{
    return RECORD_MAX_HEADER + len + 3 * key_len + KEYSPACE_PUT_EXTRA;
}

/* Adds what storing a string of `len` bytes may change. */
static void need_string(size_t key_len, size_t len, struct command_need *need)
{
    bool rows = len > KEYSPACE_MAX_INLINE;

    need->ops += KEYSPACE_PUT_OPS;
    need->bytes += put_bytes(key_len, rows ? RECORD_CHUNKS : len);
    if (rows)
        keyspace_chunks_need(len, &need->ops, &need->bytes);
}

/* Of KEYSPACE_PUT_OPS, those that are not needed. */
static size_t ops_spared(const struct key_entry *old, int64_t expire_ms)
{
    bool unfile = old->state != KEY_ABSENT && old->record.index_ms != 0;
    bool drop = old->state != KEY_ABSENT && old->record.chunked;

    return (size_t)!unfile + !drop + (expire_ms == 0);
}

bool object_reserve_put(struct command_ctx *ctx, struct ps_slice key, const struct key_entry *old,
                        size_t len, int64_t expire_ms)
{
    struct command_need need = {0, 0};

    need_string(key.len, ctx->staged ? RECORD_CHUNKS : len, &need);
    return command_reserve(ctx, need.ops - ops_spared(old, expire_ms) + (ctx->staged != NULL),
                           need.bytes) == 0;
}

bool object_reserve_chunks(struct command_ctx *ctx, struct ps_slice key,
                           const struct key_entry *old, uint64_t len)
{
    struct command_need need = {KEYSPACE_PUT_OPS, put_bytes(key.len, RECORD_CHUNKS)};

    if (old->state == KEY_LIVE && !old->record.chunked) /* what is there becomes rows as well */
        keyspace_chunks_need(old->record.payload.len, &need.ops, &need.bytes);
    keyspace_chunks_need(len, &need.ops, &need.bytes);
    need.bytes += 2 * (size_t)KEYSPACE_CHUNK; /* the first and the last are written whole */
    return command_reserve(ctx, need.ops, need.bytes) == 0;
}

bool object_delete(struct command_ctx *ctx, struct ps_slice key, const struct key_entry *old)
{
    if (old->state == KEY_ABSENT)
        return true;
    ctx->changed = true;
    ctx->rc = keyspace_delete(ctx->keyspace, ctx->txn, ctx->db, key, old);
    return ctx->rc == 0;
}

/* Where the rows of a string that is stored are: written now, or before. */
static bool put_rows(struct command_ctx *ctx, struct ps_slice value, struct record_chunks *chunks)
{
    bool whole = true;

    if (ctx->staged) {
        *chunks = *ctx->staged;
        ctx->rc = keyspace_stage_link(ctx->keyspace, ctx->txn, ctx->db, chunks, &whole);
        if (ctx->rc == 0 && !whole)
            ctx->rc = COMMAND_RESTAGE;
        ctx->changed = ctx->rc != COMMAND_RESTAGE;
        return ctx->rc == 0;
    }
    ctx->changed = true;
    ctx->rc = keyspace_chunks_new(ctx->keyspace, ctx->txn, chunks);
    if (ctx->rc == 0)
        ctx->rc = keyspace_chunks_write(ctx->keyspace, ctx->txn, ctx->db, chunks, 0, value);
    return ctx->rc == 0;
}

bool object_put_string(struct command_ctx *ctx, struct ps_slice key, const struct key_entry *old,
                       enum record_encoding encoding, struct ps_slice value, int64_t expire_ms)
{
    struct record record = {
        .type = RECORD_STRING, .encoding = encoding, .expire_ms = expire_ms, .payload = value};

    if (record_expired(&record, ctx->now_ms))
        return object_delete(ctx, key, old);
    if (value.len > KEYSPACE_MAX_INLINE) {
        record.chunked = true;
        if (!put_rows(ctx, value, &record.chunks))
            return false;
    }
    ctx->changed = true;
    ctx->rc = keyspace_put(ctx->keyspace, ctx->txn, ctx->db, key, old, &record, ctx->now_ms);
    return ctx->rc == 0;
}

bool object_put_chunks(struct command_ctx *ctx, struct ps_slice key, const struct key_entry *old,
                       const struct record_chunks *chunks)
{
    struct record record = {.type = RECORD_STRING,
                            .encoding = RECORD_ENC_RAW,
                            .expire_ms = object_expire(old),
                            .chunked = true,
                            .chunks = *chunks};

    ctx->rc = keyspace_put(ctx->keyspace, ctx->txn, ctx->db, key, old, &record, ctx->now_ms);
    return ctx->rc == 0;
}

void object_hold_payload(struct command_ctx *ctx, struct record *record)
{
    uint8_t *room = keyspace_payload_room(ctx->keyspace);

    if (record->payload.len > 0 && record->payload.data != room)
        memcpy(room, record->payload.data, record->payload.len);
    record->payload.data = room;
}

bool object_reserve_expire(struct command_ctx *ctx, struct ps_slice key,
                           const struct key_entry *old, int64_t expire_ms)
{
    if (expire_ms != 0 && expire_ms <= ctx->now_ms)
        return command_reserve(ctx, KEYSPACE_DELETE_OPS, 0) == 0;
    return object_reserve_put(ctx, key, old, old->record.payload.len, expire_ms);
}

bool object_set_expire(struct command_ctx *ctx, struct ps_slice key, const struct key_entry *old,
                       int64_t expire_ms)
{
    struct record record = old->record;

    object_hold_payload(ctx, &record);
    record.expire_ms = expire_ms;
    if (!object_reserve_expire(ctx, key, old, expire_ms))
        return false;
    if (record_expired(&record, ctx->now_ms))
        return object_delete(ctx, key, old);
    ctx->changed = true;
    ctx->rc = keyspace_put(ctx->keyspace, ctx->txn, ctx->db, key, old, &record, ctx->now_ms);
    return ctx->rc == 0;
}

void need_put(size_t argc, const struct ps_slice *argv, struct command_need *need)
{
    size_t len = 0;

    for (size_t i = 2; i < argc; i++)
        len += argv[i].len;
    *need = (struct command_need){0, 0};
    need_string(argv[1].len, len, need);
}

void need_put_all(size_t argc, const struct ps_slice *argv, struct command_need *need)
{
    *need = (struct command_need){0, 0};
    for (size_t i = 1; i + 1 < argc; i += 2)
        need_string(argv[i].len, argv[i + 1].len, need);
}

/* A string that is in its record is written again as a whole, perhaps as rows. */
void need_rewrite(size_t argc, const struct ps_slice *argv, struct command_need *need)
{
    *need = (struct command_need){KEYSPACE_PUT_OPS, put_bytes(argv[1].len, KEYSPACE_MAX_INLINE)};
    keyspace_chunks_need(KEYSPACE_MAX_INLINE, &need->ops, &need->bytes);
    for (size_t i = 2; i < argc; i++)
        keyspace_chunks_need(argv[i].len, &need->ops, &need->bytes);
    need->bytes += 2 * (size_t)KEYSPACE_CHUNK;
}

void need_rename(size_t argc, const struct ps_slice *argv, struct command_need *need)
{
    (void)argc;
    need->ops = KEYSPACE_PUT_OPS + KEYSPACE_DELETE_OPS;
    need->bytes = put_bytes(argv[2].len, KEYSPACE_MAX_INLINE);
}

void need_delete(size_t argc, const struct ps_slice *argv, struct command_need *need)
{
    (void)argv;
    need->ops = KEYSPACE_DELETE_OPS * (argc - 1);
    need->bytes = 0;
}

void need_flush(size_t argc, const struct ps_slice *argv, struct command_need *need)
{
    (void)argc;
    (void)argv;
    need->ops = 3;
    need->bytes = 0;
}
