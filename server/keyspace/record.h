/*
 * record.h - the bytes under which an object stands in a `keys:N` tree.
 *
 * A record describes itself: two header bytes say what follows. README.md in this folder draws the
 * layout; it is final, and it has room for the types that are not written yet.
 *
 *   byte 0   bits 0-3 type, bits 4-7 encoding (what OBJECT ENCODING says)
 *   byte 1   bits 0-2 bytes of the version minus 1; bit 3 expiry follows; bit 4 index time follows;
 *            bit 5 the payload says where the rows are (in `elements:N`); bits 6-7 zero
 *   version  1 to 8 bytes, little endian, without leading (high) zero bytes
 *   expiry   8 bytes, little endian: Unix time in milliseconds, above 0       (if bit 3)
 *   index    8 bytes, little endian: the time in the key's row in `expires:N`  (if bit 4)
 *   payload  the rest; with bit 5, of a string: object id (8), length (8), bytes of a chunk (4),
 * all little endian
 *
 * Invariants
 *  1. Decoding copies nothing and reads only the bytes given; whatever they are, the answer is a
 *     record or PS_CORRUPT.
 *  2. A record has one form only: what decodes, encodes to the same bytes.
 *  3. expire_ms > 0 exactly if the key has a row in `expires:N`, at index_ms <= expire_ms. Without
 *     bit 4 the two are equal.
 *
 * Threads: pure functions, any thread. Crash: nothing is kept here.
 */
#ifndef PANDO_SERVER_KEYSPACE_RECORD_H
#define PANDO_SERVER_KEYSPACE_RECORD_H

#include "storage/pandostore.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum record_type {
    RECORD_STRING = 1,
    RECORD_LIST = 2,
    RECORD_SET = 3,
    RECORD_ZSET = 4,
    RECORD_HASH = 5,
    RECORD_STREAM = 6,
};

/* A logical attribute that follows Redis's rules; it says nothing of the layout. */
enum record_encoding {
    RECORD_ENC_INT = 1,
    RECORD_ENC_EMBSTR = 2,
    RECORD_ENC_RAW = 3,
    RECORD_ENC_LISTPACK = 4,
    RECORD_ENC_QUICKLIST = 5,
    RECORD_ENC_INTSET = 6,
    RECORD_ENC_HASHTABLE = 7,
    RECORD_ENC_SKIPLIST = 8,
    RECORD_ENC_STREAM = 9,
};

#define RECORD_MAX_HEADER 26u /* 2 + version 8 + expiry 8 + index time 8 */
#define RECORD_CHUNKS     20u /* bytes of the payload of a string in chunks */

#define RECORD_MIN_CHUNK 512u
#define RECORD_MAX_CHUNK 65536u

/* A string in chunks: row (id, n) of `elements:N` has its bytes from n * size on. */
struct record_chunks {
    uint64_t id;   /* of the object, above 0 */
    uint64_t len;  /* bytes of the string, above 0 */
    uint32_t size; /* bytes of a chunk */
};

struct record {
    enum record_type type;
    enum record_encoding encoding;
    uint64_t version;
    int64_t expire_ms; /* 0: never expires */
    int64_t index_ms;  /* time of the row in the expiry index; 0 exactly if expire_ms is 0 */
    struct ps_slice payload;
    bool chunked;                /* a string whose bytes are rows: `chunks` says which */
    struct record_chunks chunks; /* if chunked */
};

/* 0, or PS_CORRUPT. The payload points into `bytes`. */
int record_decode(struct ps_slice bytes, struct record *record);

/* Writes the header of `record` (payload not looked at); returns its length. */
size_t record_encode_header(const struct record *record, uint8_t header[RECORD_MAX_HEADER]);

/* The payload of a string in chunks. */
void record_encode_chunks(const struct record_chunks *chunks, uint8_t payload[RECORD_CHUNKS]);

/* Bytes of a string. */
static inline uint64_t record_string_len(const struct record *record)
{
    return record->chunked ? record->chunks.len : record->payload.len;
}

/* "string", "list", ...: what TYPE answers. */
const char *record_type_name(enum record_type type);
/* "int", "embstr", ...: what OBJECT ENCODING answers. */
const char *record_encoding_name(enum record_encoding encoding);

/* The encoding that Redis gives to a string stored as a whole (SET and the like). */
enum record_encoding record_string_encoding(struct ps_slice value);
/* The same for one that is never taken for an integer (INCRBYFLOAT). */
enum record_encoding record_text_encoding(struct ps_slice value);

static inline bool record_expired(const struct record *record, int64_t now_ms)
{
    return record->expire_ms != 0 && record->expire_ms <= now_ms;
}

#endif
