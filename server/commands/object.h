/*
 * object.h - how handlers read and write the object under a key.
 *
 * Invariant: a function that returns false has set ctx->rc or written an error; the handler
 * returns. Threads: as the context. Crash: changes are part of the context's transaction.
 */
#ifndef PANDO_SERVER_COMMANDS_OBJECT_H
#define PANDO_SERVER_COMMANDS_OBJECT_H

#include "server/commands/command.h"
#include "server/keyspace/keyspace.h"

/* Looks argv[arg] up for a reading command: counts a hit or a miss, and hints at an expired key. */
bool object_read(struct command_ctx *ctx, size_t arg, struct key_entry *entry);

/* Looks a key up for a writing command: in the transaction, uncounted. */
bool object_find(struct command_ctx *ctx, struct ps_slice key, struct key_entry *entry);
/* Counts a hit or a miss, of a writing command that answers what was there. */
static inline void object_count(struct command_ctx *ctx, const struct key_entry *entry)
{
    ctx->hits += entry->state == KEY_LIVE;
    ctx->misses += entry->state != KEY_LIVE;
}

/* True unless the key is live and holds another type: then the error WRONGTYPE. */
bool object_expect(struct command_ctx *ctx, const struct key_entry *entry, enum record_type type);

/* Within the limit of this version? Else an error that names it. */
bool object_key_fits(struct command_ctx *ctx, struct ps_slice key);
/* May a string have `len` bytes (proto-max-bulk-len)? Else Redis's error. */
bool object_grows_to(struct command_ctx *ctx, uint64_t len);

/* Makes room for storing a string of `len` bytes with this expiry (0: none) in place of `old`.
 * Before the first change. */
bool object_reserve_put(struct command_ctx *ctx, struct ps_slice key, const struct key_entry *old,
                        size_t len, int64_t expire_ms);
/* The same for changing `len` bytes of a string whose bytes are rows, or will be from now on. */
bool object_reserve_chunks(struct command_ctx *ctx, struct ps_slice key,
                           const struct key_entry *old, uint64_t len);

/* The same for object_set_expire. */
bool object_reserve_expire(struct command_ctx *ctx, struct ps_slice key,
                           const struct key_entry *old, int64_t expire_ms);

/* Copies a record's payload to the keyspace's room, so that it outlives making room for changes. */
void object_hold_payload(struct command_ctx *ctx, struct record *record);

/* Stores a string (room was made): in its record, or, a long one, in chunks. If its bytes are rows
 * already (ctx->staged), they are linked. expire_ms 0: none; one that has come removes the key. */
bool object_put_string(struct command_ctx *ctx, struct ps_slice key, const struct key_entry *old,
                       enum record_encoding encoding, struct ps_slice value, int64_t expire_ms);

/* Stores the record of a string in chunks, with the expiry that the key has. */
bool object_put_chunks(struct command_ctx *ctx, struct ps_slice key, const struct key_entry *old,
                       const struct record_chunks *chunks);

/* Gives a live key another expiry (0: none). Makes room for itself; one that has come removes the
 * key. */
bool object_set_expire(struct command_ctx *ctx, struct ps_slice key, const struct key_entry *old,
                       int64_t expire_ms);

/* Removes what `old` says is there (room was made: KEYSPACE_DELETE_OPS, no bytes). */
bool object_delete(struct command_ctx *ctx, struct ps_slice key, const struct key_entry *old);

/* Expiry of a live key, 0: none; of a key that is not there, 0. */
static inline int64_t object_expire(const struct key_entry *entry)
{
    return entry->state == KEY_LIVE ? entry->record.expire_ms : 0;
}

/* Upper bounds of what calls change (struct command.reserve). */
void need_put(size_t argc, const struct ps_slice *argv, struct command_need *need);     /* SET */
void need_put_all(size_t argc, const struct ps_slice *argv, struct command_need *need); /* MSET */
void need_rewrite(size_t argc, const struct ps_slice *argv, struct command_need *need); /* APPEND */
void need_rename(size_t argc, const struct ps_slice *argv, struct command_need *need);
void need_delete(size_t argc, const struct ps_slice *argv, struct command_need *need);
void need_flush(size_t argc, const struct ps_slice *argv, struct command_need *need);

#endif
