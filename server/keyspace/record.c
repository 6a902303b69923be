/*
 * record.c - object records: bytes <-> struct record. Layout, invariants, threads: record.h.
 */
#include "server/keyspace/record.h"

#include "protocol/number.h"

#include <assert.h>
#include <string.h>

#define FLAG_VERSION_LEN 0x07u
#define FLAG_EXPIRY      0x08u
#define FLAG_INDEX       0x10u
#define FLAG_ROWS        0x20u
#define FLAGS_KNOWN      (FLAG_VERSION_LEN | FLAG_EXPIRY | FLAG_INDEX | FLAG_ROWS)

#define EMBSTR_MAX 44 /* bytes; Redis's OBJ_ENCODING_EMBSTR_SIZE_LIMIT */

/* Which encodings a type may have: bit e of valid_encodings[type]. */
#define BIT(e) (1u << (e))
static const uint16_t valid_encodings[16] = {
    [RECORD_STRING] = BIT(RECORD_ENC_INT) | BIT(RECORD_ENC_EMBSTR) | BIT(RECORD_ENC_RAW),
    [RECORD_LIST] = BIT(RECORD_ENC_QUICKLIST) | BIT(RECORD_ENC_LISTPACK),
    [RECORD_SET] = BIT(RECORD_ENC_INTSET) | BIT(RECORD_ENC_HASHTABLE) | BIT(RECORD_ENC_LISTPACK),
    [RECORD_ZSET] = BIT(RECORD_ENC_LISTPACK) | BIT(RECORD_ENC_SKIPLIST),
    [RECORD_HASH] = BIT(RECORD_ENC_LISTPACK) | BIT(RECORD_ENC_HASHTABLE),
    [RECORD_STREAM] = BIT(RECORD_ENC_STREAM),
};

static uint64_t load_le(const uint8_t *p, size_t len)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

static void store_le(uint8_t *p, uint64_t value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        p[i] = (uint8_t)(value >> (8 * i));
}

static size_t version_length(uint64_t version)
{
    return version == 0 ? 1 : (size_t)(71 - __builtin_clzll(version)) / 8;
}

/* Expiry and index time, for the records that have them. */
static int decode_times(const uint8_t **p, size_t *left, unsigned flags, struct record *record)
{
    if (*left < 8)
        return PS_CORRUPT;
    record->expire_ms = (int64_t)load_le(*p, 8);
    *p += 8;
    *left -= 8;
    if (record->expire_ms <= 0)
        return PS_CORRUPT;
    record->index_ms = record->expire_ms;
    if (!(flags & FLAG_INDEX))
        return 0;
    if (*left < 8)
        return PS_CORRUPT;
    record->index_ms = (int64_t)load_le(*p, 8);
    *p += 8;
    *left -= 8;
    if (record->index_ms <= 0 || record->index_ms >= record->expire_ms)
        return PS_CORRUPT;
    return 0;
}

/* Where the rows are. Only strings have any so far, and only long ones. */
static int decode_rows(struct record *record)
{
    const uint8_t *p = record->payload.data;

    if (record->type != RECORD_STRING || record->encoding != RECORD_ENC_RAW ||
        record->payload.len != RECORD_CHUNKS)
        return PS_CORRUPT;
    record->chunked = true;
    record->chunks =
        (struct record_chunks){load_le(p, 8), load_le(p + 8, 8), (uint32_t)load_le(p + 16, 4)};
    if (record->chunks.id == 0 || record->chunks.len == 0 ||
        record->chunks.size < RECORD_MIN_CHUNK || record->chunks.size > RECORD_MAX_CHUNK ||
        (record->chunks.len - 1) / record->chunks.size > UINT32_MAX)
        return PS_CORRUPT;
    return 0;
}

int record_decode(struct ps_slice bytes, struct record *record)
{
    const uint8_t *p = bytes.data;
    size_t left = bytes.len;

    if (left < 3)
        return PS_CORRUPT;
    unsigned type = p[0] & 15u;
    unsigned encoding = p[0] >> 4;
    unsigned flags = p[1];
    size_t version_len = (flags & FLAG_VERSION_LEN) + 1;
    if (!(valid_encodings[type] & BIT(encoding)) || (flags & ~FLAGS_KNOWN) ||
        (flags & (FLAG_EXPIRY | FLAG_INDEX)) == FLAG_INDEX || left < 2 + version_len)
        return PS_CORRUPT;
    p += 2;
    record->version = load_le(p, version_len);
    if (version_length(record->version) != version_len)
        return PS_CORRUPT;
    p += version_len;
    left -= 2 + version_len;
    record->type = (enum record_type)type;
    record->encoding = (enum record_encoding)encoding;
    record->expire_ms = 0;
    record->index_ms = 0;
    if (flags & FLAG_EXPIRY) {
        int rc = decode_times(&p, &left, flags, record);
        if (rc < 0)
            return rc;
    }
    record->payload = (struct ps_slice){p, left};
    record->chunked = false;
    return __builtin_expect((flags & FLAG_ROWS) != 0, 0) ? decode_rows(record) : 0;
}

void record_encode_chunks(const struct record_chunks *chunks, uint8_t payload[RECORD_CHUNKS])
{
    store_le(payload, chunks->id, 8);
    store_le(payload + 8, chunks->len, 8);
    store_le(payload + 16, chunks->size, 4);
}

size_t record_encode_header(const struct record *record, uint8_t header[RECORD_MAX_HEADER])
{
    size_t version_len = version_length(record->version);
    size_t len = 2 + version_len;
    unsigned flags = (unsigned)version_len - 1;

    assert(valid_encodings[record->type & 15] & BIT(record->encoding));
    assert(record->expire_ms >= 0 && record->index_ms <= record->expire_ms);
    assert((record->expire_ms == 0) == (record->index_ms == 0));
    store_le(header + 2, record->version, version_len);
    if (record->expire_ms != 0) {
        flags |= FLAG_EXPIRY;
        store_le(header + len, (uint64_t)record->expire_ms, 8);
        len += 8;
    }
    if (record->index_ms != record->expire_ms) {
        flags |= FLAG_INDEX;
        store_le(header + len, (uint64_t)record->index_ms, 8);
        len += 8;
    }
    if (record->chunked)
        flags |= FLAG_ROWS;
    header[0] = (uint8_t)((unsigned)record->type | (unsigned)record->encoding << 4);
    header[1] = (uint8_t)flags;
    return len;
}

const char *record_type_name(enum record_type type)
{
    static const char *const names[] = {
        [RECORD_STRING] = "string", [RECORD_LIST] = "list", [RECORD_SET] = "set",
        [RECORD_ZSET] = "zset",     [RECORD_HASH] = "hash", [RECORD_STREAM] = "stream",
    };

    assert(type >= RECORD_STRING && type <= RECORD_STREAM);
    return names[type];
}

const char *record_encoding_name(enum record_encoding encoding)
{
    static const char *const names[] = {
        [RECORD_ENC_INT] = "int",
        [RECORD_ENC_EMBSTR] = "embstr",
        [RECORD_ENC_RAW] = "raw",
        [RECORD_ENC_LISTPACK] = "listpack",
        [RECORD_ENC_QUICKLIST] = "quicklist",
        [RECORD_ENC_INTSET] = "intset",
        [RECORD_ENC_HASHTABLE] = "hashtable",
        [RECORD_ENC_SKIPLIST] = "skiplist",
        [RECORD_ENC_STREAM] = "stream",
    };

    assert(encoding >= RECORD_ENC_INT && encoding <= RECORD_ENC_STREAM);
    return names[encoding];
}

enum record_encoding record_text_encoding(struct ps_slice value)
{
    return value.len <= EMBSTR_MAX ? RECORD_ENC_EMBSTR : RECORD_ENC_RAW;
}

enum record_encoding record_string_encoding(struct ps_slice value)
{
    int64_t ignored;

    if (value.len <= NUMBER_INT_MAX && number_to_int(value.data, value.len, &ignored) == 0)
        return RECORD_ENC_INT;
    return record_text_encoding(value);
}
