/*
 * log_inspect.c - the log, looked at from outside (inspect.h): its segments, records, operations.
 *
 * What counts is read by the same code as in recovery (log_scan, log_replay). Without a place to
 * begin at, each segment is read from its header on, up to where its own chain ends.
 *
 * Reading changes no file. Threads: one; another process may go on writing: then segments come and
 * go, and what seems damaged may be a segment that was used again meanwhile.
 */
#include <inttypes.h>
#include <string.h>

#include "storage/encode.h"
#include "storage/inspect.h"
#include "storage/log_internal.h"
#include "storage/log_ops.h"
#include "storage/tree_options.h"

#define ANY_SEGMENT_SIZE (UINT64_C(16) << 20) /* the headers say which it is */

struct inspection {
    struct log *log;
    const struct ps_log_watch *watch;
    struct ps_log_report *report;
    struct log_op_reader ops;
    struct decoded decoded;
    struct ps_fault *fault;
    uint64_t open_seq; /* read_alone: the commit whose pieces were read so far; 0: none */
};

/* ---- segments ---------------------------------------------------------------------------------
 */

static void name_segment(uint64_t number, char file[32])
{
    (void)snprintf(file, 32, "log-%016" PRIx64, number);
}

static void show_segment(struct inspection *i, const struct log_segment *segment)
{
    struct ps_log_segment out = {
        .number = segment->number,
        .kind = segment->kind == LOG_HEADER_VALID  ? PS_SEGMENT_USED
                : segment->kind == LOG_HEADER_ZERO ? PS_SEGMENT_BLANK
                                                   : PS_SEGMENT_DAMAGED,
        .whole = segment->whole,
        .bytes = i->log->segment_size,
    };

    name_segment(segment->number, out.file);
    if (out.kind == PS_SEGMENT_USED) {
        out.epoch = segment->header.epoch;
        out.prev_epoch = segment->header.prev_epoch;
        out.prev_position = segment->header.prev_position;
        out.seq_before = segment->header.seq;
    }
    i->report->segments++;
    if (i->watch->segment != NULL)
        i->watch->segment(i->watch->arg, &out);
}

/* ---- records ----------------------------------------------------------------------------------
 */

/* What was put. */
static int take_decoded(struct inspection *i, struct ps_slice *value)
{
    uint64_t len;
    int rc = encoded_length(*value, &len) ? 0 : PS_CORRUPT;

    rc = rc == 0 ? decoded_room(&i->decoded, (size_t)len) : rc;
    rc = rc == 0 ? value_decode(&i->decoded, *value, i->decoded.at, (size_t)len) : rc;
    if (rc == 0)
        *value = (struct ps_slice){i->decoded.at, (size_t)len};
    return rc;
}

static int take_op(void *arg, const struct replay_op *op)
{
    static const char *const names[] = {
        [OP_PUT] = "put",
        [OP_DELETE] = "delete",
        [OP_CREATE] = "create",
        [OP_DROP] = "drop",
        [OP_CLEAR] = "clear",
        [OP_SAVEPOINT] = "savepoint",
        [OP_ROLLBACK] = "rollback",
        [OP_RELEASE] = "release",
        [OP_DELETE_RANGE] = "delete-range",
        [OP_PUT_ENCODED] = "put-compressed",
        [OP_OPTIONS] = "options",
    };
    struct inspection *i = arg;
    struct ps_log_op out = {.name = names[op->op],
                            .tree = op_is_mark(op->op) ? op->savepoint : op->tree,
                            .key = op->key,
                            .value = op->value};
    char text[OPTIONS_TEXT];
    int rc = op->op == OP_PUT_ENCODED ? take_decoded(i, &out.value) : 0;

    if (op->op == OP_OPTIONS)
        rc = tree_options_text(op->key, text, &out.key);

    if (rc != 0)
        return rc;
    i->report->ops++;
    if (i->watch->op != NULL)
        i->watch->op(i->watch->arg, &out);
    return 0;
}

/* A piece whose commit's first pieces are gone cannot be taken apart. */
static bool has_beginning(struct inspection *i, const struct ps_log_record *record)
{
    bool known = record->first || i->open_seq == record->seq;

    if (record->first)
        log_ops_free(&i->ops); /* what was open ended without its end */
    i->open_seq = known && !record->last ? record->seq : 0;
    return known;
}

static int show_record(struct inspection *i, const struct ps_log_record *record,
                       const uint8_t *payload)
{
    int rc;

    i->report->records++;
    i->report->commits += record->last;
    i->report->payload += record->payload;
    if (i->watch->record != NULL)
        i->watch->record(i->watch->arg, record);
    if (!has_beginning(i, record))
        return 0;
    rc = log_ops_read(&i->ops, payload, record->payload, record->last, take_op, i);
    if (rc == PS_CORRUPT) {
        char path[LOG_PATH_MAX];

        log_segment_path(i->log, record->segment, path);
        return log_fail(i->fault, PS_CORRUPT, path, record->offset,
                        "a commit has an impossible operation");
    }
    return rc;
}

static int take_piece(void *arg, const struct log_piece *piece)
{
    struct inspection *i = arg;
    uint64_t position = piece->after.position - log_record_size(piece->len);
    struct ps_log_record record = {.position = position,
                                   .segment = position / i->log->segment_size,
                                   .offset = position % i->log->segment_size,
                                   .epoch = piece->after.epoch,
                                   .seq = piece->seq,
                                   .stamp = piece->stamp,
                                   .payload = piece->len,
                                   .first = piece->first,
                                   .last = piece->last};

    return show_record(i, &record, piece->payload);
}

static struct ps_log_place place_of(const struct log_pos *pos)
{
    return (struct ps_log_place){pos->position, pos->epoch, pos->seq, pos->crc};
}

#define SCANS 4

/* Beside a process that writes, a record may be read half written, and a later one that says it is
 * durable after that. So damage is what another scan, which begins after both, finds there too.
 * What moves on with each scan is where the writer is. */
static int scan_again(struct inspection *i, const struct log_pos *from, struct log_pos *end,
                      uint64_t *torn)
{
    uint64_t before = UINT64_MAX;

    for (unsigned n = 0; n < SCANS; n++) {
        *end = *from;
        int damage = log_scan(i->log, from, end, torn, i->fault);

        if (damage != PS_CORRUPT || end->position == before)
            return damage;
        before = end->position;
    }
    return 0;
}

/* What a checkpoint's log has: from its position to the end. */
static int read_from(struct inspection *i, const struct ps_log_place *place)
{
    struct log_pos from = {place->position, place->epoch, place->seq, place->crc};
    struct log_pos end = from;
    uint64_t torn = 0;
    int damage = scan_again(i, &from, &end, &torn);

    if (damage != 0 && damage != PS_CORRUPT)
        return damage;
    i->report->from = *place;
    i->report->to = place_of(&end);
    i->report->torn_bytes = torn;
    i->report->torn_offset = end.position % i->log->segment_size;
    name_segment(end.position / i->log->segment_size, i->report->torn_file);
    if (end.seq > from.seq) { /* whole, even if damage follows */
        struct ps_fault unused;
        int rc = log_replay(i->log, &from, &end, take_piece, i, damage == 0 ? i->fault : &unused);

        if (damage == 0)
            return rc;
    }
    return damage;
}

/* A segment by itself: records chained from its header on. */
static int read_alone(struct inspection *i, const struct log_segment *segment, uint8_t *bytes)
{
    struct log *log = i->log;
    uint32_t crc = segment->header.crc;
    struct log_record record;
    int rc = log_segment_read(log, segment->number, bytes, i->fault);

    for (uint64_t at = LOG_HEADER_BYTES;
         rc == 0 && log_record_decode(bytes, log->segment_size, at, &record) &&
         record.prev_crc == crc &&
         record.crc == log_record_crc(bytes + at, crc, segment->header.epoch, record.len);
         at += log_record_size(record.len)) {
        crc = record.crc;
        if (record.type != LOG_COMMIT)
            continue;
        struct ps_log_record out = {.position = segment->number * log->segment_size + at,
                                    .segment = segment->number,
                                    .offset = at,
                                    .epoch = segment->header.epoch,
                                    .seq = record.seq,
                                    .stamp = record.stamp,
                                    .payload = record.len,
                                    .first = (record.flags & LOG_FIRST) != 0,
                                    .last = (record.flags & LOG_LAST) != 0};
        i->report->to = (struct ps_log_place){out.position + log_record_size(record.len), out.epoch,
                                              out.seq, crc};
        rc = show_record(i, &out, bytes + at + LOG_RECORD_BYTES);
    }
    return rc;
}

static int read_each(struct inspection *i)
{
    uint8_t *bytes = malloc((size_t)i->log->segment_size);
    int rc = bytes == NULL ? PS_NOMEM : 0;

    for (size_t k = 0; rc == 0 && k < i->log->segment_count; k++)
        if (i->log->segments[k].kind == LOG_HEADER_VALID)
            rc = read_alone(i, &i->log->segments[k], bytes);
    free(bytes);
    return rc;
}

int log_inspect(const struct ps_vfs *vfs, const char *dir, const struct ps_log_place *from,
                const struct ps_log_watch *watch, struct ps_log_report *report,
                struct ps_fault *fault)
{
    static const struct ps_log_watch nobody;
    struct inspection i = {
        .watch = watch == NULL ? &nobody : watch, .report = report, .fault = fault};
    int rc;

    memset(report, 0, sizeof(*report));
    memset(fault, 0, sizeof(*fault));
    rc = log_open(vfs, dir, ANY_SEGMENT_SIZE, &i.log, fault);
    if (rc != 0)
        return rc;
    report->segment_bytes = i.log->segment_size;
    for (size_t k = 0; k < i.log->segment_count; k++)
        show_segment(&i, &i.log->segments[k]);
    if (i.log->segment_count == 0 && (from == NULL || from->position != 0))
        rc = log_fail(fault, PS_CORRUPT, dir, 0, "the log is missing: there is no segment");
    else
        rc = from != NULL ? read_from(&i, from) : read_each(&i);
    log_ops_free(&i.ops);
    decoded_free(&i.decoded);
    log_close(i.log);
    return rc;
}

int ps_log_read(const char *dir, const struct ps_log_place *from, const struct ps_log_watch *watch,
                struct ps_log_report *report, struct ps_fault *fault)
{
    return log_inspect(ps_vfs_posix(), dir, from, watch, report, fault);
}
