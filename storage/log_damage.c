/*
 * log_damage.c - where the chain of the last epoch breaks: was something lost, or is it torn?
 *
 * A crash may lose any part of what was written since the last sync, and nothing else. So what
 * broke is a torn tail unless something later proves that it had been synced:
 *   - a valid record of the epoch whose durable mark is at or above the first missing commit.
 *     Records validate by themselves (they name the crc before them), so all that follows is
 *     searched for one, at every multiple of 8, whether or not a chain leads there (L3);
 *   - a record at the beginning of a segment without a valid header, if an epoch began with it:
 *     headers of epochs are on the device before their records (L4). What stands there was written
 *     under the segment's number (S3). It was the first of its epoch if it names the crc of the
 *     commit before it; one of this epoch, of which a part may have been lost so that it does not
 *     validate, names that of an end-of-segment record.
 * Old records of this epoch in recycled segments have sequences at or below the kept position's, so
 * they cannot have such a mark.
 *
 * Cost: one pass over the segments. A record's payload is chosen by clients and may be full of
 * things that look like large records; checksums of these are taken from running ones in a few
 * hundred steps, so that nobody can make the search expensive.
 *
 * Reading only. Threads: one, while nothing else uses the log.
 */
#include <inttypes.h>
#include <string.h>

#include "storage/crc32c.h"
#include "storage/log_internal.h"

#define DIRECT_BYTES 1024u /* a record up to this size is checksummed as it stands */

struct search {
    struct log *log;
    const struct log_break *at;
    uint64_t number; /* segment in `bytes` */
    uint8_t *bytes;
    uint32_t *sums; /* crc32c of the first 8 * i bytes; made when first needed */
    bool summed;    /* `sums` are of this segment */
    struct ps_fault *fault;
};

static int take_sums(struct search *s)
{
    size_t count = (size_t)(s->log->segment_size / 8);
    uint32_t crc = 0;

    if (s->sums == NULL && (s->sums = calloc(count, sizeof(*s->sums))) == NULL)
        return log_fail(s->fault, PS_NOMEM, s->log->dir, 0, "out of memory");
    for (size_t i = 0; i < count; i++) {
        s->sums[i] = crc;
        crc = crc32c(crc, s->bytes + 8 * i, 8);
    }
    s->summed = true;
    return 0;
}

static uint32_t sum_to(const struct search *s, uint64_t offset)
{
    return crc32c(s->sums[offset / 8], s->bytes + offset / 8 * 8, offset % 8);
}

/* 1: the record validates under the epoch with the crc it names itself. 0: not. Or an error. */
static int validates(struct search *s, uint64_t offset, const struct log_record *record,
                     uint64_t epoch)
{
    size_t covered = LOG_RECORD_BYTES - 4 + (size_t)record->len;
    uint32_t before;

    if (record->len <= DIRECT_BYTES)
        return record->crc ==
               log_record_crc(s->bytes + offset, record->prev_crc, epoch, record->len);
    if (!s->summed) {
        int rc = take_sums(s);
        if (rc != 0)
            return rc;
    }
    before = sum_to(s, offset + 4) ^ log_record_seed(record->prev_crc, epoch);
    return record->crc == (sum_to(s, offset + 4 + covered) ^ crc32c_shift(before, covered));
}

static int refuse(struct search *s, uint64_t position, const char *kind, uint64_t seq)
{
    char path[LOG_PATH_MAX], what[160];

    log_segment_path(s->log, position / s->log->segment_size, path);
    (void)snprintf(what, sizeof(what), "log record damaged (%s): commit %" PRIu64 " was durable",
                   kind, seq);
    return log_fail(s->fault, PS_CORRUPT, path, position % s->log->segment_size, what);
}

/* Could it have been written after the break, by its sequences? */
static bool is_later(const struct search *s, const struct log_record *record)
{
    if (record->type == LOG_END_OF_SEGMENT)
        return record->seq >= s->at->seq && record->durable <= record->seq;
    return record->seq > s->at->seq && record->durable < record->seq;
}

static int search_records(struct search *s, uint64_t offset, uint64_t *torn_end)
{
    const uint64_t size = s->log->segment_size;
    struct log_record record;

    for (; offset + LOG_RECORD_BYTES <= size; offset += 8) {
        uint64_t end;
        int rc;

        if (!log_record_decode(s->bytes, size, offset, &record) || !is_later(s, &record))
            continue;
        rc = validates(s, offset, &record, s->at->epoch);
        if (rc < 0)
            return rc;
        if (rc == 0)
            continue;
        if (record.durable > s->at->seq)
            return refuse(s, s->at->position, s->at->kind, s->at->seq + 1);
        end = s->number * size + offset + log_record_size(record.len);
        if (end > *torn_end)
            *torn_end = end;
    }
    return 0;
}

/* A segment without a valid header: is there a record that proves that it had one? */
static int search_header(struct search *s, const struct log_segment *segment)
{
    struct log_record record;
    uint32_t crc;
    int rc;

    if (!log_record_decode(s->bytes, s->log->segment_size, LOG_HEADER_BYTES, &record) ||
        record.type != LOG_COMMIT || (record.flags & LOG_FIRST) == 0 ||
        record.seq <= s->at->from.seq || record.seq > s->at->seq + 1)
        return 0;
    rc = log_crc_after(s->log, &s->at->from, record.seq - 1, &crc, s->fault);
    if (rc != 0 || crc != record.prev_crc)
        return rc;
    return refuse(s, segment->number * s->log->segment_size, "segment header", record.seq);
}

int log_judge_break(struct log *log, const struct log_break *at, uint64_t *torn_end,
                    struct ps_fault *fault)
{
    struct search s = {.log = log, .at = at, .fault = fault};
    uint64_t first = at->position / log->segment_size;
    int rc = 0;

    s.bytes = malloc((size_t)log->segment_size);
    if (s.bytes == NULL)
        return log_fail(fault, PS_NOMEM, log->dir, 0, "out of memory");
    for (size_t i = 0; rc == 0 && i < log->segment_count; i++) {
        const struct log_segment *segment = &log->segments[i];
        uint64_t offset = LOG_HEADER_BYTES;

        if (segment->number < first)
            continue;
        if (segment->number == first && at->position % log->segment_size > offset)
            offset = at->position % log->segment_size;
        rc = log_segment_read(log, segment->number, s.bytes, fault);
        s.number = segment->number;
        s.summed = false;
        if (rc == 0 && at->epoch != 0)
            rc = search_records(&s, offset, torn_end);
        if (rc == 0 && segment->kind != LOG_HEADER_VALID)
            rc = search_header(&s, segment);
    }
    free(s.bytes);
    free(s.sums);
    return rc;
}
