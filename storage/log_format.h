/*
 * log_format.h - the bytes of segment headers and records, as storage/log.h specifies them.
 *
 * Private to storage/log*.c (and to tests that write broken logs). Pure functions: any thread.
 */
#ifndef PANDO_STORAGE_LOG_FORMAT_H
#define PANDO_STORAGE_LOG_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_VERSION      1u
#define LOG_HEADER_BYTES 64u
#define LOG_RECORD_BYTES 40u
#define LOG_PIECE_MAX    (1024u * 1024u)
/* A commit record leaves room for an end-of-segment record, and that one 8 bytes: so every position
 * where a record ends lies within the segment that holds the record. */
#define LOG_AFTER_COMMIT 48u
#define LOG_AFTER_END    8u
#define LOG_SEGMENT_MIN  PS_MIN_LOG_SEGMENT
#define LOG_SEGMENT_MAX  PS_MAX_LOG_SEGMENT

enum log_type { LOG_COMMIT = 1, LOG_END_OF_SEGMENT = 2 };
enum log_flag { LOG_FIRST = 1, LOG_LAST = 2 };

struct log_header {
    uint64_t segment;
    uint64_t epoch;
    uint64_t prev_epoch; /* the same epoch: not the epoch's first segment */
    uint64_t prev_position;
    uint32_t crc; /* of the record that ended at prev_position */
    uint32_t segment_kib;
    uint64_t seq;
};

struct log_record {
    uint32_t crc;
    uint32_t prev_crc;
    uint32_t len;
    uint8_t type;
    uint8_t flags;
    uint64_t seq;
    uint64_t stamp;
    uint64_t durable;
};

enum log_header_kind {
    LOG_HEADER_VALID,
    LOG_HEADER_ZERO,    /* never written under this number, or lost */
    LOG_HEADER_VERSION, /* valid, but of another version of the format */
    LOG_HEADER_DAMAGED,
};

void log_header_encode(const struct log_header *header, uint8_t out[LOG_HEADER_BYTES]);
/* Fills *header from the bytes whatever they are. */
enum log_header_kind log_header_decode(const uint8_t in[LOG_HEADER_BYTES],
                                       struct log_header *header);

/* Bytes of a record with len bytes of payload, padding included. */
static inline uint64_t log_record_size(uint64_t len)
{
    return LOG_RECORD_BYTES + ((len + 7) & ~(uint64_t)7);
}

/* Writes record->crc as well; *record's crc field is set. The payload is copied. */
void log_record_encode(struct log_record *record, uint64_t epoch, const void *payload,
                       uint8_t *out);

/* Reads the record at offset `offset` of a segment's bytes. False if what stands there cannot be a
 * record by its form: type, flags, zeros, room. Its crc is not looked at. */
bool log_record_decode(const uint8_t *segment, uint64_t segment_size, uint64_t offset,
                       struct log_record *record);

/* The crc that the record at `in` with len bytes of payload should have. */
uint32_t log_record_crc(const uint8_t *in, uint32_t prev_crc, uint64_t epoch, uint32_t len);

/* What the crc of a record is seeded with. */
uint32_t log_record_seed(uint32_t prev_crc, uint64_t epoch);

#endif
