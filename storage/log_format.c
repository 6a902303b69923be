/*
 * log_format.c - the bytes of segment headers and records. See log_format.h.
 */
#include "storage/log_format.h"

#include <endian.h>
#include <string.h>

#include "storage/crc32c.h"
#include "storage/rules.h"

static const uint8_t magic[8] = {'P', 'A', 'N', 'D', 'O', 'L', 'O', 'G'};

static void put32(uint8_t *p, uint32_t value)
{
    value = htole32(value);
    memcpy(p, &value, sizeof(value));
}

static void put64(uint8_t *p, uint64_t value)
{
    value = htole64(value);
    memcpy(p, &value, sizeof(value));
}

static uint32_t get32(const uint8_t *p)
{
    uint32_t value;

    memcpy(&value, p, sizeof(value));
    return le32toh(value);
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t value;

    memcpy(&value, p, sizeof(value));
    return le64toh(value);
}

static uint32_t header_crc(const uint8_t in[LOG_HEADER_BYTES])
{
    return crc32c(crc32c(0, in, 12), in + 16, LOG_HEADER_BYTES - 16);
}

void log_header_encode(const struct log_header *header, uint8_t out[LOG_HEADER_BYTES])
{
    memcpy(out, magic, sizeof(magic));
    put32(out + 8, LOG_VERSION);
    put64(out + 16, header->segment);
    put64(out + 24, header->epoch);
    put64(out + 32, header->prev_epoch);
    put64(out + 40, header->prev_position);
    put32(out + 48, header->crc);
    put32(out + 52, header->segment_kib);
    put64(out + 56, header->seq);
    put32(out + 12, header_crc(out));
}

enum log_header_kind log_header_decode(const uint8_t in[LOG_HEADER_BYTES],
                                       struct log_header *header)
{
    static const uint8_t zeros[LOG_HEADER_BYTES];

    header->segment = get64(in + 16);
    header->epoch = get64(in + 24);
    header->prev_epoch = get64(in + 32);
    header->prev_position = get64(in + 40);
    header->crc = get32(in + 48);
    header->segment_kib = get32(in + 52);
    header->seq = get64(in + 56);
    if (memcmp(in, zeros, LOG_HEADER_BYTES) == 0)
        return LOG_HEADER_ZERO;
    if (memcmp(in, magic, sizeof(magic)) != 0 || get32(in + 12) != header_crc(in))
        return LOG_HEADER_DAMAGED;
    return get32(in + 8) == LOG_VERSION ? LOG_HEADER_VALID : LOG_HEADER_VERSION;
}

uint32_t log_record_seed(uint32_t prev_crc, uint64_t epoch)
{
    uint8_t bytes[8];

    if (!ps_rule(RULE_EPOCH_OF_LOG))
        return 0;
    put64(bytes, epoch);
    return crc32c(prev_crc, bytes, sizeof(bytes));
}

uint32_t log_record_crc(const uint8_t *in, uint32_t prev_crc, uint64_t epoch, uint32_t len)
{
    return crc32c(log_record_seed(prev_crc, epoch), in + 4, LOG_RECORD_BYTES - 4 + (size_t)len);
}

void log_record_encode(struct log_record *record, uint64_t epoch, const void *payload, uint8_t *out)
{
    size_t len = record->len;

    put32(out + 4, record->prev_crc);
    put32(out + 8, record->len);
    out[12] = record->type;
    out[13] = record->flags;
    out[14] = out[15] = 0;
    put64(out + 16, record->seq);
    put64(out + 24, record->stamp);
    put64(out + 32, record->durable);
    if (len != 0)
        memcpy(out + LOG_RECORD_BYTES, payload, len);
    memset(out + LOG_RECORD_BYTES + len, 0, (size_t)log_record_size(len) - LOG_RECORD_BYTES - len);
    record->crc = log_record_crc(out, record->prev_crc, epoch, record->len);
    put32(out, record->crc);
}

bool log_record_decode(const uint8_t *segment, uint64_t segment_size, uint64_t offset,
                       struct log_record *record)
{
    const uint8_t *in = segment + offset;
    uint64_t after;

    if (offset + LOG_RECORD_BYTES + LOG_AFTER_END > segment_size)
        return false;
    record->crc = get32(in);
    record->prev_crc = get32(in + 4);
    record->len = get32(in + 8);
    record->type = in[12];
    record->flags = in[13];
    record->seq = get64(in + 16);
    record->stamp = get64(in + 24);
    record->durable = get64(in + 32);
    if (in[14] != 0 || in[15] != 0 || record->len > LOG_PIECE_MAX)
        return false;
    if (record->type == LOG_COMMIT)
        after = LOG_AFTER_COMMIT;
    else if (record->type == LOG_END_OF_SEGMENT && record->flags == 0 && record->len == 0)
        after = LOG_AFTER_END;
    else
        return false;
    return (record->flags & ~(LOG_FIRST | LOG_LAST)) == 0 &&
           offset + log_record_size(record->len) + after <= segment_size;
}
