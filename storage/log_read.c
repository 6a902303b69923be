/*
 * log_read.c - the reading side of the log: which epochs lead from a position to the log's end, and
 * the records along them.
 *
 * The way is found backwards. The highest valid header belongs to the epoch that lives, since each
 * new epoch begins above every number ever written to (S2) and declares dead all that it does not
 * continue. Its first header names the epoch before and where that ended, and so on down to the
 * epoch of `from`. What an epoch holds beyond its end is never looked at. If the way does not reach
 * `from`, a segment is missing: damage.
 *
 * Forwards, records must be chained without a gap to each epoch's end. Only in the last epoch may
 * the chain break; log_damage.c decides what that means.
 *
 * Reading changes no file. A crash leaves nothing.
 * Threads: one, while nothing else uses the log.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "storage/log_internal.h"

/* The part of an epoch that is read. */
struct span {
    uint64_t epoch;
    uint64_t start, end; /* positions; the last span ends at LOG_NONE */
    uint32_t crc;        /* what its chain begins with */
    uint64_t seq;        /* of the last commit before it */
};

enum reading { READ_BROKEN = 0, READ_RECORD = 1 }; /* or a negative error */

struct reader {
    struct log *log;
    struct span *spans; /* in the log's order */
    size_t span_count, span_capacity, at;
    uint64_t position;  /* of what is read next */
    uint64_t valid_end; /* of the last valid record */
    uint64_t seq;       /* of the last complete commit */
    uint32_t crc;       /* of the last record */
    bool open;          /* pieces of commit seq + 1 were read, the last was not */
    uint64_t open_stamp;
    uint8_t *bytes; /* of segment `loaded` */
    uint64_t loaded;
    const char *broken; /* after READ_BROKEN: what is wrong */
    struct ps_fault *fault;
};

static int damaged(struct reader *r, uint64_t position, const char *what)
{
    return log_damaged(r->log, position, what, r->fault);
}

int log_damaged(const struct log *log, uint64_t position, const char *what, struct ps_fault *fault)
{
    char path[LOG_PATH_MAX];

    log_segment_path(log, position / log->segment_size, path);
    return log_fail(fault, PS_CORRUPT, path, position % log->segment_size, what);
}

static int reader_no_memory(struct reader *r)
{
    return log_fail(r->fault, PS_NOMEM, r->log->dir, 0, "out of memory");
}

/* ---- the way through the epochs ---------------------------------------------------------------
 */

static int add_span(struct reader *r, const struct span *span)
{
    if (r->span_count == r->span_capacity) {
        size_t capacity = r->span_capacity == 0 ? 8 : r->span_capacity * 2;
        struct span *grown = realloc(r->spans, capacity * sizeof(*grown));
        if (grown == NULL)
            return reader_no_memory(r);
        r->spans = grown;
        r->span_capacity = capacity;
    }
    r->spans[r->span_count++] = *span;
    return 0;
}

static void reverse_spans(struct reader *r)
{
    for (size_t i = 0; i < r->span_count / 2; i++) {
        struct span swapped = r->spans[i];
        r->spans[i] = r->spans[r->span_count - 1 - i];
        r->spans[r->span_count - 1 - i] = swapped;
    }
}

/* The first segment of an epoch; *any: its lowest one that is there. */
static const struct log_segment *find_epoch(const struct log *log, uint64_t epoch,
                                            const struct log_segment **any)
{
    *any = NULL;
    for (size_t i = 0; i < log->segment_count; i++) {
        const struct log_segment *segment = &log->segments[i];

        if (segment->kind != LOG_HEADER_VALID || segment->header.epoch != epoch)
            continue;
        if (*any == NULL)
            *any = segment;
        if (segment->header.prev_epoch != epoch)
            return segment;
    }
    return NULL;
}

/* From the epoch of the highest segment back to that of `from`. */
static int walk_back(struct reader *r, const struct log_segment *top, const struct log_pos *from)
{
    const uint64_t size = r->log->segment_size;
    struct span span = {.epoch = top->header.epoch, .end = LOG_NONE};
    uint64_t below = LOG_NONE;

    while (span.epoch != from->epoch) {
        const struct log_segment *any, *first = find_epoch(r->log, span.epoch, &any);
        int rc;

        if (first == NULL)
            return damaged(r, any != NULL ? any->number * size : below,
                           "the segment with which this log epoch begins is missing or damaged");
        span.start = first->number * size + LOG_HEADER_BYTES;
        span.crc = first->header.crc;
        span.seq = first->header.seq;
        if (span.start <= from->position || span.start >= below ||
            first->header.prev_position >= span.start)
            return damaged(r, first->number * size,
                           "the log epochs do not lead back to the checkpoint's log position");
        rc = add_span(r, &span);
        if (rc != 0)
            return rc;
        below = first->number * size;
        span.epoch = first->header.prev_epoch;
        span.end = first->header.prev_position;
        if (span.epoch == 0 && (from->epoch != 0 || span.end != 0))
            return damaged(r, below, "the log begins after the checkpoint's log position");
    }
    span.start = from->position;
    return add_span(r, &span);
}

static int find_way(struct reader *r, const struct log_pos *from)
{
    struct log *log = r->log;
    const struct log_segment *top = NULL, *here;
    uint64_t number = from->position / log->segment_size;
    struct span only = {.epoch = from->epoch, .start = from->position, .end = LOG_NONE};
    bool anything = false;
    int rc;

    for (size_t i = 0; i < log->segment_count; i++)
        if (log->segments[i].number >= number) {
            anything = true;
            if (log->segments[i].kind == LOG_HEADER_VALID)
                top = &log->segments[i];
        }
    rc = top != NULL ? walk_back(r, top, from) : add_span(r, &only);
    if (rc != 0)
        return rc;
    log_assert(r->span_count > 0 && r->spans != NULL);
    reverse_spans(r);
    if (r->spans[0].end < from->position)
        return damaged(r, from->position, "the log was ended before the checkpoint's log position");
    here = log_segment_find(log, number);
    if (from->position != 0 && anything && r->spans[0].end != from->position &&
        (here == NULL || here->kind != LOG_HEADER_VALID || here->header.epoch != from->epoch))
        return damaged(r, from->position,
                       "the segment of the checkpoint's log position is missing or reused");
    return 0;
}

/* ---- records ----------------------------------------------------------------------------------
 */

static int reader_init(struct reader *r, struct log *log, const struct log_pos *from,
                       struct ps_fault *fault)
{
    memset(r, 0, sizeof(*r));
    r->log = log;
    r->fault = fault;
    r->position = r->valid_end = from->position;
    r->seq = from->seq;
    r->crc = from->crc;
    r->bytes = malloc((size_t)log->segment_size);
    return r->bytes == NULL ? reader_no_memory(r) : find_way(r, from);
}

static void reader_free(struct reader *r)
{
    free(r->spans);
    free(r->bytes);
}

static int broken(struct reader *r, const char *what)
{
    r->broken = what;
    return READ_BROKEN;
}

int log_segment_read(struct log *log, uint64_t number, uint8_t *bytes, struct ps_fault *fault)
{
    char path[LOG_PATH_MAX];
    ssize_t n;
    int fd;

    log_segment_path(log, number, path);
    fd = log->vfs->open(log->vfs->ctx, path, O_RDONLY, 0);
    if (fd < 0)
        return log_fail_call(fault, fd, path, 0, "open");
    n = log->vfs->pread(log->vfs->ctx, fd, bytes, (size_t)log->segment_size, 0);
    (void)log->vfs->close(log->vfs->ctx, fd);
    if (n < 0)
        return log_fail_call(fault, (int)n, path, 0, "pread");
    memset(bytes + n, 0, (size_t)log->segment_size - (size_t)n);
    return 0;
}

/* Brings the segment of the position into memory. READ_RECORD, READ_BROKEN, or an error. */
static int load(struct reader *r)
{
    uint64_t number = r->position / r->log->segment_size;
    const struct log_segment *segment = log_segment_find(r->log, number);
    int rc;

    if (segment == NULL)
        return broken(r, "segment missing");
    if (segment->kind != LOG_HEADER_VALID || segment->header.epoch != r->spans[r->at].epoch)
        return broken(r, "segment header");
    if (r->loaded == number)
        return READ_RECORD;
    rc = log_segment_read(r->log, number, r->bytes, r->fault);
    if (rc != 0)
        return rc;
    r->loaded = number;
    return READ_RECORD;
}

/* From the end of an end-of-segment record to the first record of the next segment. */
static int next_segment(struct reader *r)
{
    uint64_t ended = r->position;
    uint64_t number = ended / r->log->segment_size + 1;
    int rc;

    r->position = number * r->log->segment_size;
    rc = load(r);
    if (rc == READ_RECORD) {
        const struct log_header *header = &log_segment_find(r->log, number)->header;

        if (header->prev_epoch != header->epoch || header->prev_position != ended ||
            header->crc != r->crc)
            return broken(r, "segment header does not continue the segment before");
        r->position += LOG_HEADER_BYTES;
    }
    return rc;
}

/* From the end of an epoch to the beginning of the next. */
static int next_span(struct reader *r)
{
    const struct span *next = &r->spans[r->at + 1];

    if (r->position > r->spans[r->at].end || r->open || r->crc != next->crc || r->seq != next->seq)
        return damaged(r, next->start - LOG_HEADER_BYTES,
                       "this log epoch does not continue the one before");
    r->at++;
    r->position = r->valid_end = next->start;
    return 0;
}

/* Is this valid, chained record the one that must come next (L1, L2)? Written by us it is; only one
 * that a failed write left, and a store that went on without a log passed, has an old sequence. */
static int check_order(struct reader *r, const struct log_record *record)
{
    uint64_t want = r->seq + 1;
    bool first = (record->flags & LOG_FIRST) != 0;

    if (record->type == LOG_END_OF_SEGMENT)
        want = r->open ? r->seq + 1 : r->seq;
    if (record->seq < want)
        return broken(r, "sequence of an earlier commit");
    if (record->seq > want)
        return damaged(r, r->position, "log record out of sequence");
    if (record->type == LOG_COMMIT &&
        (first == r->open || (r->open && record->stamp < r->open_stamp)))
        return damaged(r, r->position, "log record is not the piece that must follow");
    return READ_RECORD;
}

/* The next commit record: *offset is where it is in r->bytes. */
static int next_record(struct reader *r, struct log_record *record, uint64_t *offset)
{
    log_assert(r->spans != NULL && r->at < r->span_count);
    for (;;) {
        const struct span *span = &r->spans[r->at];
        int rc;

        if (r->position >= span->end && ps_rule(RULE_EPOCH_ENDS_BEFORE)) {
            rc = next_span(r);
            if (rc != 0)
                return rc;
            continue;
        }
        rc = load(r);
        if (rc != READ_RECORD)
            return rc;
        *offset = r->position % r->log->segment_size;
        if (!log_record_decode(r->bytes, r->log->segment_size, *offset, record))
            return broken(r, "form");
        if (record->prev_crc != r->crc && ps_rule(RULE_EPOCH_OF_LOG))
            return broken(r, "chain");
        if (record->crc != log_record_crc(r->bytes + *offset, r->crc, span->epoch, record->len) &&
            ps_rule(RULE_RECORD_CHECKSUM))
            return broken(r, "checksum");
        rc = check_order(r, record);
        if (rc != READ_RECORD)
            return rc;
        r->crc = record->crc;
        r->position += log_record_size(record->len);
        r->valid_end = r->position;
        if (record->type == LOG_END_OF_SEGMENT) {
            rc = next_segment(r);
            if (rc != READ_RECORD)
                return rc;
            continue;
        }
        r->open = (record->flags & LOG_LAST) == 0 && ps_rule(RULE_COMPLETE_COMMITS);
        r->open_stamp = record->stamp;
        if (!r->open)
            r->seq = record->seq;
        return READ_RECORD;
    }
}

static struct log_pos reader_pos(const struct reader *r)
{
    struct log_pos pos = {
        .position = r->position, .epoch = r->spans[r->at].epoch, .seq = r->seq, .crc = r->crc};

    return pos;
}

/* ---- the two passes ---------------------------------------------------------------------------
 */

/* A chain that breaks before the last epoch was never torn: the next epoch says that it was whole.
 */
static int broken_inside(struct reader *r)
{
    char what[160];

    (void)snprintf(what, sizeof(what), "log record damaged (%s): commit %" PRIu64 " was durable",
                   r->broken, r->seq + 1);
    return damaged(r, r->position, what);
}

/* How far the torn tail can be seen to reach: valid pieces, and a record that names the last one.
 */
static uint64_t torn_end(const struct reader *r)
{
    uint64_t offset = r->position % r->log->segment_size;
    struct log_record record;

    if (r->loaded == r->position / r->log->segment_size && offset != 0 &&
        log_record_decode(r->bytes, r->log->segment_size, offset, &record) &&
        record.prev_crc == r->crc && record.seq > r->seq)
        return r->position + log_record_size(record.len);
    return r->valid_end;
}

int log_scan(struct log *log, const struct log_pos *from, struct log_pos *end, uint64_t *torn,
             struct ps_fault *fault)
{
    struct log_record record;
    struct reader r;
    uint64_t offset, reach;
    int rc = reader_init(&r, log, from, fault);

    *end = *from;
    *torn = 0;
    if (rc != 0)
        goto out;
    while ((rc = next_record(&r, &record, &offset)) == READ_RECORD)
        if (!r.open)
            *end = reader_pos(&r);
    if (rc < 0)
        goto out;
    if (r.spans[r.at].end != LOG_NONE) {
        rc = broken_inside(&r);
        goto out;
    }
    if (end->position < r.spans[r.at].start) {
        end->position = r.spans[r.at].start;
        end->epoch = r.spans[r.at].epoch;
    }
    reach = torn_end(&r);
    struct log_break at = {.position = r.position,
                           .epoch = r.spans[r.at].epoch,
                           .from = *from,
                           .seq = r.seq,
                           .kind = r.broken};
    rc = log_judge_break(log, &at, &reach, fault);
    if (rc == 0 && reach > end->position)
        *torn = reach - end->position;
out:
    reader_free(&r);
    return rc;
}

int log_crc_after(struct log *log, const struct log_pos *from, uint64_t seq, uint32_t *crc,
                  struct ps_fault *fault)
{
    struct log_record record;
    struct reader r;
    uint64_t offset;
    int rc = reader_init(&r, log, from, fault);

    while (rc == 0 && (r.seq < seq || r.open)) {
        rc = next_record(&r, &record, &offset);
        rc = rc == READ_RECORD ? 0 : rc == READ_BROKEN ? broken_inside(&r) : rc;
    }
    *crc = r.crc;
    reader_free(&r);
    return rc;
}

int log_replay(struct log *log, const struct log_pos *from, const struct log_pos *end,
               log_apply *apply, void *arg, struct ps_fault *fault)
{
    struct log_record record;
    struct reader r;
    uint64_t offset;
    int rc = reader_init(&r, log, from, fault);

    while (rc == 0 && r.seq < end->seq) {
        rc = next_record(&r, &record, &offset);
        if (rc != READ_RECORD) {
            rc = rc == READ_BROKEN ? broken_inside(&r) : rc;
            break;
        }
        struct log_piece piece = {.seq = record.seq,
                                  .stamp = record.stamp,
                                  .payload = r.bytes + offset + LOG_RECORD_BYTES,
                                  .len = record.len,
                                  .first = (record.flags & LOG_FIRST) != 0,
                                  .last = (record.flags & LOG_LAST) != 0,
                                  .after = reader_pos(&r)};
        rc = apply(arg, &piece);
    }
    reader_free(&r);
    return rc;
}

/* Writes the first bytes of an open segment once more. */
static int write_again(struct log *log, int fd, uint64_t bytes)
{
    uint64_t most = 256 * 1024;
    uint8_t *buf = malloc((size_t)most);
    int rc = buf == NULL ? -ENOMEM : 0;

    for (uint64_t at = 0; rc == 0 && at < bytes; at += most) {
        size_t len = (size_t)(bytes - at < most ? bytes - at : most);
        ssize_t n = log->vfs->pread(log->vfs->ctx, fd, buf, len, at);
        rc = n < 0 ? (int)n : log->vfs->pwrite(log->vfs->ctx, fd, buf, (size_t)n, at);
    }
    free(buf);
    return rc;
}

int log_sync_range(struct log *log, const struct log_pos *from, const struct log_pos *end,
                   struct ps_fault *fault)
{
    uint64_t first = from->position / log->segment_size;
    uint64_t last = end->position / log->segment_size;

    for (size_t i = 0; i < log->segment_count; i++) {
        const struct log_segment *segment = &log->segments[i];
        char path[LOG_PATH_MAX];
        int fd, rc;

        if (segment->number < first || segment->number > last || segment->kind != LOG_HEADER_VALID)
            continue;
        log_segment_path(log, segment->number, path);
        fd = log->vfs->open(log->vfs->ctx, path, O_RDWR, 0);
        if (fd < 0)
            return log_fail_call(fault, fd, path, 0, "open");
        /* After a sync that failed in an earlier process the system may believe clean what is not
         * on the device: only what is written again is sure to be synced. */
        rc = !ps_rule(RULE_REWRITE_REPLAYED_TAIL)
                 ? 0
                 : write_again(log, fd,
                               segment->number < last ? log->segment_size
                                                      : end->position % log->segment_size);
        rc = rc != 0 ? rc : log->vfs->fdatasync(log->vfs->ctx, fd);
        (void)log->vfs->close(log->vfs->ctx, fd);
        if (rc != 0)
            return log_fail_call(fault, rc, path, 0, "writing and syncing again");
    }
    return 0;
}
