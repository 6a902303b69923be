/*
 * encode.c - see encode.h.
 */
#include "storage/encode.h"

#include <lz4.h>
#include <zstd.h>

#include "storage/store.h"

#define LEAST_BYTES 16u        /* shorter values cannot become smaller by enough */
#define KEPT_BYTES  (1u << 20) /* of a buffer while nobody needs more */
#define ZSTD_LEVEL  3
#define LZ4_RATIO   255u       /* bytes that one byte of an LZ4 block stands for, at most */
#define ZSTD_BLOCK  (1u << 17) /* bytes that a block of zstd stands for, at most ... */
#define ZSTD_LEAST  4u         /* ... and the fewest that a block that stands for any takes */

/* Bytes that a value may take encoded (Z1). */
static size_t most_stored(size_t len)
{
    return len - len / 16;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static bool room_for(uint8_t **at, size_t *room, size_t bytes)
{
    if (*at == NULL || *room < bytes || (*room > KEPT_BYTES && bytes < KEPT_BYTES)) {
        free(*at);
        *room = bytes < 4096 ? 4096 : bytes;
        *at = malloc(*room);
        *room = *at == NULL ? 0 : *room;
    }
    return *at != NULL;
}

/* Bytes of what was compressed; 0: it does not fit into `room`. */
static size_t compress(struct encoder *e, enum ps_compression how, struct ps_slice value,
                       uint8_t *to, size_t room)
{
    if (how == PS_LZ4) {
        return (size_t)LZ4_compress_default(value.data, (char *)to, (int)value.len, (int)room);
    }
    if (e->zstd == NULL) {
        e->zstd = ZSTD_createCCtx();
        if (e->zstd == NULL) {
            return 0;
        }
    }
    size_t n = ZSTD_compressCCtx(e->zstd, to, room, value.data, value.len, ZSTD_LEVEL);
    return ZSTD_isError(n) ? 0 : n;
}

void value_encode(struct encoder *e, enum ps_compression how, struct ps_slice value,
                  struct ps_slice *encoded, bool *shrank)
{
    *encoded = value;
    *shrank = false;
    size_t most = most_stored(value.len);
    if (value.len < LEAST_BYTES || !room_for(&e->at, &e->room, most)) {
        return;
    }
    size_t n = compress(e, how, value, e->at + ENCODED_HEAD, most - ENCODED_HEAD);
    if (n > 0) {
        uint32_t len = (uint32_t)value.len;
        e->at[0] = (uint8_t)how;
        memcpy(e->at + 1, &len, sizeof len);
        *encoded = (struct ps_slice){e->at, ENCODED_HEAD + n};
        *shrank = true;
    }
}

static void trim(uint8_t **at, size_t *room)
{
    if (*room > KEPT_BYTES) {
        free(*at);
        *at = NULL;
        *room = 0;
    }
}

void encoder_trim(struct encoder *e)
{
    trim(&e->at, &e->room);
}

void encoder_free(struct encoder *e)
{
    free(e->at);
    ZSTD_freeCCtx(e->zstd);
    *e = (struct encoder){0};
}

/* ---- decoding -------------------------------------------------------------------------------- */

bool encoded_length(struct ps_slice encoded, uint64_t *len)
{
    if (encoded.len <= ENCODED_HEAD) {
        return false;
    }
    const uint8_t *at = encoded.data;
    uint64_t bytes = encoded.len - ENCODED_HEAD;
    uint32_t n;
    memcpy(&n, at + 1, sizeof n);
    *len = n;
    uint64_t most = at[0] == PS_LZ4    ? bytes * LZ4_RATIO
                    : at[0] == PS_ZSTD ? (bytes / ZSTD_LEAST + 1) * ZSTD_BLOCK
                                       : 0;
    return n <= PS_MAX_VALUE && n <= most && encoded.len <= most_stored(n);
}

int decoded_room(struct decoded *d, size_t bytes)
{
    d->of = NULL;
    return room_for(&d->at, &d->room, bytes) ? 0 : PS_NOMEM;
}

int value_decode(struct decoded *d, struct ps_slice encoded, void *to, size_t len)
{
    const uint8_t *from = (const uint8_t *)encoded.data + ENCODED_HEAD;
    size_t bytes = encoded.len - ENCODED_HEAD;
    if (*(const uint8_t *)encoded.data == PS_LZ4) {
        int n = LZ4_decompress_safe((const char *)from, to, (int)bytes, (int)len);
        return n >= 0 && (size_t)n == len ? 0 : PS_CORRUPT;
    }
    if (d->zstd == NULL) {
        d->zstd = ZSTD_createDCtx();
        if (d->zstd == NULL) {
            return PS_NOMEM;
        }
    }
    size_t n = ZSTD_decompressDCtx(d->zstd, to, len, from, bytes);
    return !ZSTD_isError(n) && n == len ? 0 : PS_CORRUPT;
}

void decoded_trim(struct decoded *d)
{
    d->of = NULL;
    trim(&d->at, &d->room);
}

void decoded_free(struct decoded *d)
{
    free(d->at);
    ZSTD_freeDCtx(d->zstd);
    *d = (struct decoded){0};
}

/* ---- values of a store ----------------------------------------------------------------------- */

int encoded_damaged(struct ps_store *store, struct ps_slice encoded)
{
    uint64_t at = (uint64_t)((uintptr_t)encoded.data - (uintptr_t)store->base[0]);
    if (at >= store->map_bytes) {
        return store_fault(store, PS_CORRUPT, 0, store->file_path, 0,
                           "a compressed value in memory, out of the log, does not decompress");
    }
    if (lost_within(store, at >> store->page_shift, (encoded.len >> store->page_shift) + 2)) {
        return lost_report(store);
    }
    return store_fault(store, PS_CORRUPT, 0, store->file_path, at,
                       "page %llu: a compressed value does not decompress",
                       (unsigned long long)(at >> store->page_shift));
}

bool store_encode(struct ps_store *store, const struct tree_root *t, struct ps_slice value,
                  struct ps_slice *stored)
{
    bool shrank;
    *stored = value;
    if (t->compression == PS_UNCOMPRESSED || value.len <= t->compress_over) {
        return false;
    }
    value_encode(&store->encoder, t->compression, value, stored, &shrank);
    store->stat.values_compressed += shrank;
    store->stat.values_incompressible += !shrank;
    store->stat.bytes_compressed_away += value.len - stored->len;
    return shrank;
}

static int decode_to(struct ps_store *store, struct decoded *d, struct ps_slice *value, void *to,
                     size_t len)
{
    int rc = value_decode(d, *value, to, len);
    if (rc != 0) {
        return rc == PS_CORRUPT ? encoded_damaged(store, *value) : rc;
    }
    *value = (struct ps_slice){to, len};
    return 0;
}

int store_decode(struct ps_store *store, struct decoded *d, struct ps_slice *value)
{
    uint64_t len;
    if (!encoded_length(*value, &len)) {
        return encoded_damaged(store, *value);
    }
    int rc = decoded_room(d, (size_t)len);
    atomic_fetch_add_explicit(&store->values_decompressed, 1, memory_order_relaxed);
    return rc == 0 ? decode_to(store, d, value, d->at, (size_t)len) : rc;
}

void lookups_decode(struct ps_view *view, struct ps_lookup *lookups, size_t n)
{
    uint64_t sum = 0, len, count = 0;
    for (size_t i = 0; i < n; i++) {
        if (lookups[i].rc == VALUE_ENCODED) {
            bool possible = encoded_length(lookups[i].value, &len);
            lookups[i].rc =
                possible ? VALUE_ENCODED : encoded_damaged(view->store, lookups[i].value);
            sum += possible ? len : 0;
            count += possible;
        }
    }
    int rc = decoded_room(&view->decoded, (size_t)sum);
    uint8_t *at = view->decoded.at;
    for (size_t i = 0; i < n; i++) {
        if (lookups[i].rc == VALUE_ENCODED) {
            (void)encoded_length(lookups[i].value, &len);
            lookups[i].rc = rc != 0 ? rc
                                    : decode_to(view->store, &view->decoded, &lookups[i].value, at,
                                                (size_t)len);
            at += rc == 0 ? len : 0;
        }
    }
    atomic_fetch_add_explicit(&view->store->values_decompressed, count, memory_order_relaxed);
}
