/*
 * log.c - the writing side of the log: opening, epochs, appending, writing, syncing.
 *
 * What a crash leaves (L and S: the invariants of log.h and log_internal.h):
 *   - in log_start(), before its header is on the device: the epoch before, up to where it was read
 *     or what was written of it since; after: the new epoch, empty, which ends the one before.
 *     What the header says came before was synced first, so that it can never be found missing.
 *   - between log_write() and log_sync(): any part of what was written, in any order. The chain
 * ends at the first missing record; what follows it carries no durable mark at or above the missing
 *     commit, so it is cut as a torn tail (L3). A segment's header that went missing is such a
 * tail.
 *   - after log_sync(): everything, since segments were filled, named and synced before (S1).
 *
 * A failed write or sync stops the log (`running` false): the end of what is on the device is not
 * known, so nothing may be chained to it. log_start() goes on in a new epoch that declares all of
 * it dead. A failed sync is not repeated; whether to go on after one is the caller's decision.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "storage/log_internal.h"

/* A rest of a segment smaller than this is not worth a piece. */
#define REST_MIN(log) ((log)->segment_size / 8 < 1024 ? (log)->segment_size / 8 : 1024)

#define BUFFER_KEPT ((size_t)4 << 20) /* a larger write buffer is given back after the write */

/* ---- opening and closing ----------------------------------------------------------------------
 */

/* The new directory's name must be on the device before anything in it counts. */
static int make_dir(const struct ps_vfs *vfs, const char *dir, struct ps_fault *fault)
{
    char parent[LOG_PATH_MAX];
    char *slash;
    int rc = vfs->mkdir(vfs->ctx, dir, 0700);

    if (rc == -EEXIST)
        return 0;
    if (rc != 0)
        return log_fail_call(fault, rc, dir, 0, "mkdir");
    (void)snprintf(parent, sizeof(parent), "%s", dir);
    slash = strrchr(parent, '/');
    if (slash == NULL)
        (void)strcpy(parent, ".");
    else
        slash[slash == parent] = '\0';
    rc = vfs->sync_dir(vfs->ctx, parent);
    return rc != 0 ? log_fail_call(fault, rc, parent, 0, "fsync of the directory") : 0;
}

int log_open(const struct ps_vfs *vfs, const char *dir, uint64_t segment_size, struct log **out,
             struct ps_fault *fault)
{
    struct log *log;
    int rc;

    *out = NULL;
    if (segment_size < LOG_SEGMENT_MIN || segment_size > LOG_SEGMENT_MAX ||
        segment_size % 1024 != 0 || strlen(dir) + 32 > LOG_PATH_MAX)
        return log_fail(fault, PS_INVALID, dir, 0, "segment size or path outside its range");
    rc = make_dir(vfs, dir, fault);
    if (rc != 0)
        return rc;
    log = calloc(1, sizeof(*log));
    if (log == NULL || (log->dir = strdup(dir)) == NULL) {
        free(log);
        return log_fail(fault, PS_NOMEM, dir, 0, "out of memory");
    }
    log->vfs = vfs;
    log->segment_size = segment_size;
    log->unsynced_first = log->in_sync_first = LOG_NONE;
    pthread_mutex_init(&log->making, NULL);
    pthread_mutex_init(&log->mutex, NULL);
    rc = log_segments_list(log, fault);
    if (rc != 0)
        log_close(log);
    else
        *out = log;
    return rc;
}

void log_close(struct log *log)
{
    if (log == NULL)
        return;
    for (size_t i = 0; i < log->segment_count; i++)
        if (log->segments[i].fd >= 0)
            (void)log->vfs->close(log->vfs->ctx, log->segments[i].fd);
    pthread_mutex_destroy(&log->making);
    pthread_mutex_destroy(&log->mutex);
    free(log->buffer.data);
    free(log->buffer.extents);
    free(log->writing.data);
    free(log->writing.extents);
    free(log->segments);
    free(log->dir);
    free(log);
}

uint64_t log_segment_size(const struct log *log)
{
    return log->segment_size;
}

void log_get_stats(struct log *log, struct log_stats *stats)
{
    pthread_mutex_lock(&log->mutex);
    *stats = log->stats;
    stats->segments = log->segment_count;
    pthread_mutex_unlock(&log->mutex);
}

/* ---- epochs -----------------------------------------------------------------------------------
 */

static int random_epoch(uint64_t not_this, uint64_t *epoch)
{
    ssize_t n;

    do {
        n = getrandom(epoch, sizeof(*epoch), 0);
        if (n < 0 && errno != EINTR)
            return -errno;
    } while (n != (ssize_t)sizeof(*epoch) || *epoch == 0 || *epoch == not_this);
    return 0;
}

/* Stops writing for good in the current epoch, and picks the number of the next segment (S2). */
static uint64_t stop_epoch(struct log *log, const struct log_pos *from)
{
    uint64_t from_segment = from->position / log->segment_size;
    uint64_t number;

    pthread_mutex_lock(&log->mutex);
    log->running = false;
    log->open = false;
    log->buffer.used = log->buffer.count = 0;
    if (log->highest_used < from_segment) {
        log->highest_used = from_segment;
        for (size_t i = 0; i < log->segment_count; i++)
            log->segments[i].state = LOG_SEGMENT_DEAD;
    }
    number = log->highest_used + 1;
    pthread_mutex_unlock(&log->mutex);
    return number;
}

/* Writes and syncs the header that begins an epoch. */
static int write_header(struct log *log, const struct log_header *header, struct ps_fault *fault)
{
    uint8_t bytes[LOG_HEADER_BYTES];
    char path[LOG_PATH_MAX];
    struct log_segment *segment;
    int fd, rc;

    log_segment_path(log, header->segment, path);
    log_header_encode(header, bytes);
    pthread_mutex_lock(&log->mutex);
    segment = log_segment_find(log, header->segment);
    segment->state = LOG_SEGMENT_USED;
    segment->kind = LOG_HEADER_VALID;
    segment->header = *header;
    log->highest_used = header->segment;
    fd = segment->fd;
    pthread_mutex_unlock(&log->mutex);

    rc = log->vfs->pwrite(log->vfs->ctx, fd, bytes, sizeof(bytes), 0);
    if (rc != 0)
        return log_fail_call(fault, rc, path, 0, "pwrite");
    rc = ps_rule(RULE_EPOCH_SYNC_BEFORE_UNKNOWN) ? log->vfs->fdatasync(log->vfs->ctx, fd) : 0;
    if (rc != 0)
        log_segment_forget(log, header->segment); /* it must not be synced again, by a recycling */
    return rc != 0 ? log_fail_call(fault, rc, path, 0, "fdatasync") : 0;
}

/* From here on nothing leads to what lies between the old epoch's end and the new one. */
static void run_epoch(struct log *log, const struct log_header *header)
{
    uint64_t ended = header->prev_position / log->segment_size;

    pthread_mutex_lock(&log->mutex);
    for (size_t i = 0; i < log->segment_count; i++)
        if (log->segments[i].number > ended && log->segments[i].number < header->segment)
            log->segments[i].state = LOG_SEGMENT_DEAD;
    log->epoch = header->epoch;
    log->segment = header->segment;
    log->offset = LOG_HEADER_BYTES;
    log->seq = header->seq;
    log->crc = header->crc;
    log->running = true;
    log->stats.epochs++;
    log->stats.bytes_written += LOG_HEADER_BYTES;
    log_segments_close_old(log);
    pthread_mutex_unlock(&log->mutex);
}

static int sync_unsynced(struct log *log, struct ps_fault *fault);

int log_start(struct log *log, const struct log_pos *from, struct ps_fault *fault)
{
    struct log_header header = {
        .prev_epoch = from->epoch,
        .prev_position = from->position,
        .crc = from->crc,
        .seq = from->seq,
        .segment_kib = (uint32_t)(log->segment_size / 1024),
    };
    bool ready;
    int rc;

    pthread_mutex_lock(&log->making);
    header.segment = stop_epoch(log, from);
    rc = log->sync_failed
             ? log_fail(fault, PS_POISONED, log->dir, 0, "a sync of the log failed before")
             : sync_unsynced(log, fault);
    if (rc == 0 && (rc = random_epoch(from->epoch, &header.epoch)) != 0)
        rc = log_fail_call(fault, rc, log->dir, 0, "getrandom");
    if (rc == 0) {
        pthread_mutex_lock(&log->mutex);
        ready = log_segments_ready(log) != 0;
        pthread_mutex_unlock(&log->mutex);
        if (!ready)
            rc = log_segment_make(log, header.segment, fault);
    }
    if (rc == 0)
        rc = write_header(log, &header, fault);
    if (rc == 0)
        run_epoch(log, &header);
    pthread_mutex_unlock(&log->making);
    return rc;
}

void log_end(const struct log *log, struct log_pos *end)
{
    end->position = log->segment * log->segment_size + log->offset;
    end->epoch = log->epoch;
    end->seq = log->seq;
    end->crc = log->crc;
}

/* ---- space ------------------------------------------------------------------------------------
 */

/* READY segments needed for commits of so many bytes, at the worst cut of pieces. With `mutex`. */
static uint64_t segments_for(const struct log *log, uint64_t commits, uint64_t bytes)
{
    const uint64_t framing = LOG_RECORD_BYTES + 8; /* header and padding of a piece */
    const uint64_t waste = LOG_AFTER_COMMIT + REST_MIN(log) + 2 * framing;
    const uint64_t usable = log->segment_size - LOG_HEADER_BYTES - waste;
    uint64_t need = (commits + bytes / LOG_PIECE_MAX) * framing + bytes;
    uint64_t left = 0;

    if (!log->running)
        return 1 + (need + usable - 1) / usable;
    if (log->segment_size - log->offset > waste)
        left = log->segment_size - log->offset - waste;
    return need <= left ? 0 : (need - left + usable - 1) / usable;
}

/* Makes READY segments until there are `count`, or as many as `commits` and `bytes` ask for. */
static int make_ready(struct log *log, uint64_t count, uint64_t commits, uint64_t bytes,
                      struct ps_fault *fault)
{
    int rc = 0;

    pthread_mutex_lock(&log->making);
    while (rc == 0) {
        uint64_t ready, needed, number;

        pthread_mutex_lock(&log->mutex);
        ready = log_segments_ready(log);
        needed = count != 0 ? count : segments_for(log, commits, bytes);
        number = log->highest_used + ready + 1;
        pthread_mutex_unlock(&log->mutex);
        if (ready >= needed)
            break;
        rc = log_segment_make(log, number, fault);
    }
    pthread_mutex_unlock(&log->making);
    return rc;
}

int log_reserve(struct log *log, uint64_t commits, uint64_t bytes, struct ps_fault *fault)
{
    bool enough;

    pthread_mutex_lock(&log->mutex);
    enough = log_segments_ready(log) >= segments_for(log, commits, bytes);
    pthread_mutex_unlock(&log->mutex);
    return enough ? 0 : make_ready(log, 0, commits, bytes, fault);
}

int log_prepare(struct log *log, struct ps_fault *fault)
{
    return make_ready(log, 1, 0, 0, fault);
}

/* ---- appending --------------------------------------------------------------------------------
 */

/* Room for `bytes` more in the buffer, which stays where it is for the pointers of one append. */
static int need_buffer(struct log_buffer *buffer, size_t bytes, size_t extents)
{
    if (buffer->capacity - buffer->used < bytes) {
        size_t capacity = buffer->capacity == 0 ? (size_t)64 << 10 : buffer->capacity;
        uint8_t *grown;
        while (capacity - buffer->used < bytes)
            capacity *= 2;
        grown = realloc(buffer->data, capacity);
        if (grown == NULL)
            return PS_NOMEM;
        buffer->data = grown;
        buffer->capacity = capacity;
    }
    if (buffer->extent_capacity - buffer->count < extents) {
        size_t capacity = (buffer->count + extents) * 2;
        struct log_extent *grown = realloc(buffer->extents, capacity * sizeof(*grown));
        if (grown == NULL)
            return PS_NOMEM;
        buffer->extents = grown;
        buffer->extent_capacity = capacity;
    }
    return 0;
}

/* Where the next `bytes` bytes of the current segment are built. Room was made. */
static uint8_t *take_buffer(struct log *log, uint64_t bytes)
{
    struct log_buffer *buffer = &log->buffer;
    uint8_t *at = buffer->data + buffer->used;

    if (buffer->count == 0 || buffer->extents[buffer->count - 1].segment != log->segment) {
        struct log_extent *extent = &buffer->extents[buffer->count++];
        extent->segment = log->segment;
        extent->offset = log->offset;
        extent->start = buffer->used;
    }
    buffer->used += (size_t)bytes;
    log->offset += bytes;
    return at;
}

static void append_record(struct log *log, struct log_record *record, const void *payload)
{
    record->prev_crc = log->crc;
    log_record_encode(record, log->epoch, payload, take_buffer(log, log_record_size(record->len)));
    log->crc = record->crc;
}

/* Ends the current segment and begins the next, which is READY. */
static void append_segment(struct log *log, uint64_t seq, uint64_t stamp, uint64_t durable_seq)
{
    struct log_record end = {
        .type = LOG_END_OF_SEGMENT, .seq = seq, .stamp = stamp, .durable = durable_seq};
    struct log_header header = {.epoch = log->epoch,
                                .prev_epoch = log->epoch,
                                .segment_kib = (uint32_t)(log->segment_size / 1024),
                                .seq = seq};
    struct log_segment *segment;

    append_record(log, &end, NULL);
    header.prev_position = log->segment * log->segment_size + log->offset;
    header.crc = log->crc;
    log->segment++;
    log->offset = 0;
    header.segment = log->segment;
    segment = log_segment_find(log, log->segment);
    log_assert(segment != NULL && segment->state == LOG_SEGMENT_READY);
    segment->state = LOG_SEGMENT_USED;
    segment->kind = LOG_HEADER_VALID;
    segment->header = header;
    log->highest_used = log->segment;
    log_header_encode(&header, take_buffer(log, LOG_HEADER_BYTES));
}

/* Payload bytes of the next piece in what is left of the segment, 0 if it is not worth one. */
static uint32_t piece_room(const struct log *log, size_t left)
{
    uint64_t room = log->segment_size - log->offset;
    uint64_t frame = LOG_RECORD_BYTES + LOG_AFTER_COMMIT;
    uint64_t most = room <= frame ? 0 : (room - frame) & ~(uint64_t)7;

    if (most > LOG_PIECE_MAX)
        most = LOG_PIECE_MAX;
    if (left <= most && room >= frame)
        return (uint32_t)left;
    return most < REST_MIN(log) ? 0 : (uint32_t)most;
}

/* With `mutex` held, and READY segments and buffer for the worst case. `whole`: the last of these
 * pieces completes the commit. */
static void append_pieces(struct log *log, struct log_record *record, const uint8_t *payload,
                          size_t left, bool whole)
{
    bool done = false;

    while (!done) {
        uint64_t room = log->segment_size - log->offset;
        uint32_t piece = piece_room(log, left);

        if (piece == 0 && (left != 0 || room < LOG_RECORD_BYTES + LOG_AFTER_COMMIT)) {
            append_segment(log, log->open ? record->seq : log->seq, record->stamp, record->durable);
            continue;
        }
        done = piece == left;
        record->len = piece;
        record->flags = (uint8_t)((log->open ? 0 : LOG_FIRST) | (done && whole ? LOG_LAST : 0));
        if (record->flags != (LOG_FIRST | LOG_LAST))
            log->stats.pieces++;
        append_record(log, record, payload);
        log->open = (record->flags & LOG_LAST) == 0;
        payload += piece;
        left -= piece;
    }
}

/* A commit, or with `end` NULL a part of one. */
static int append(struct log *log, struct log_record *record, const void *payload, size_t len,
                  struct log_pos *end)
{
    uint64_t crossings;
    int rc = 0;

    pthread_mutex_lock(&log->mutex);
    crossings = segments_for(log, 1, len);
    while (log->running && log_segments_ready(log) < crossings) {
        pthread_mutex_unlock(&log->mutex);
        rc = make_ready(log, 0, 1, len, NULL);
        if (rc != 0)
            return rc;
        pthread_mutex_lock(&log->mutex);
    }
    if (!log->running)
        rc = PS_IO;
    if (rc == 0)
        rc = need_buffer(&log->buffer,
                         len + (size_t)(crossings + 2 + len / LOG_PIECE_MAX) *
                                   (LOG_RECORD_BYTES * 2 + LOG_HEADER_BYTES + 8),
                         (size_t)crossings + 1);
    if (rc == 0) {
        log_assert(record->seq == log->seq + 1 && record->durable < record->seq); /* L2, L3 */
        append_pieces(log, record, payload, len, end != NULL);
        if (end != NULL) {
            log->seq = record->seq;
            log_end(log, end);
        }
    }
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

int log_append(struct log *log, uint64_t seq, uint64_t stamp, uint64_t durable_seq,
               const void *payload, size_t len, struct log_pos *end)
{
    struct log_record record = {
        .type = LOG_COMMIT, .seq = seq, .stamp = stamp, .durable = durable_seq};

    return append(log, &record, payload, len, end);
}

int log_append_part(struct log *log, uint64_t seq, uint64_t stamp, uint64_t durable_seq,
                    const void *payload, size_t len)
{
    struct log_record record = {
        .type = LOG_COMMIT, .seq = seq, .stamp = stamp, .durable = durable_seq};

    return append(log, &record, payload, len, NULL);
}

/* ---- writing and syncing ----------------------------------------------------------------------
 */

static int stop_running(struct log *log, int rc)
{
    pthread_mutex_lock(&log->mutex);
    log->running = false;
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

/* Takes what was appended; from here on appends go to the other buffer. */
static bool take_appended(struct log *log, struct log_buffer *taken)
{
    pthread_mutex_lock(&log->mutex);
    if (!log->running) {
        pthread_mutex_unlock(&log->mutex);
        return false;
    }
    *taken = log->buffer;
    log->buffer = log->writing;
    log->buffer.used = log->buffer.count = 0;
    log->writing = *taken;
    if (taken->count != 0) {
        if (log->unsynced_first == LOG_NONE)
            log->unsynced_first = taken->extents[0].segment;
        log->unsynced_last = taken->extents[taken->count - 1].segment;
    }
    pthread_mutex_unlock(&log->mutex);
    return true;
}

/* Files of segments that are still needed stay open. */
static int fd_of(struct log *log, uint64_t number)
{
    struct log_segment *segment;
    int fd;

    pthread_mutex_lock(&log->mutex);
    segment = log_segment_find(log, number);
    log_assert(segment != NULL && segment->fd >= 0);
    fd = segment->fd;
    pthread_mutex_unlock(&log->mutex);
    return fd;
}

static int write_extent(struct log *log, const struct log_buffer *from, size_t i,
                        struct ps_fault *fault)
{
    const struct log_extent *extent = &from->extents[i];
    size_t stop = i + 1 < from->count ? from->extents[i + 1].start : from->used;
    char path[LOG_PATH_MAX];
    int rc = log->vfs->pwrite(log->vfs->ctx, fd_of(log, extent->segment),
                              from->data + extent->start, stop - extent->start, extent->offset);

    if (rc == 0)
        return 0;
    log_segment_path(log, extent->segment, path);
    return log_fail_call(fault, rc, path, extent->offset, "pwrite");
}

int log_write(struct log *log, struct ps_fault *fault)
{
    struct log_buffer taken;
    int rc = 0;

    if (!take_appended(log, &taken))
        return log_fail(fault, PS_IO, log->dir, 0, "the log failed before");
    for (size_t i = 0; rc == 0 && i < taken.count; i++)
        rc = write_extent(log, &taken, i, fault);
    pthread_mutex_lock(&log->mutex);
    if (rc == 0)
        log->stats.bytes_written += taken.used;
    if (log->writing.capacity > BUFFER_KEPT) {
        free(log->writing.data);
        log->writing.data = NULL;
        log->writing.capacity = 0;
    }
    pthread_mutex_unlock(&log->mutex);
    return rc != 0 ? stop_running(log, rc) : 0;
}

/* Syncs what was written since the last sync, running or not. */
static int sync_unsynced(struct log *log, struct ps_fault *fault)
{
    uint64_t first, last;
    int rc = 0;

    pthread_mutex_lock(&log->mutex);
    first = log->unsynced_first;
    last = log->unsynced_last;
    log->in_sync_first = first;
    log->unsynced_first = LOG_NONE;
    log->stats.syncs += first != LOG_NONE;
    pthread_mutex_unlock(&log->mutex);
    for (uint64_t number = first; rc == 0 && first != LOG_NONE && number <= last; number++) {
        char path[LOG_PATH_MAX];

        rc = log->vfs->fdatasync(log->vfs->ctx, fd_of(log, number));
        if (rc != 0 && !ps_rule(RULE_FAILED_SYNC_POISONS))
            rc = log->vfs->fdatasync(log->vfs->ctx, fd_of(log, number));
        if (rc != 0) {
            log_segment_path(log, number, path);
            rc = log_fail_call(fault, rc, path, 0, "fdatasync");
        }
    }
    pthread_mutex_lock(&log->mutex);
    log->sync_failed |= rc != 0;
    log->in_sync_first = LOG_NONE;
    log_segments_close_old(log);
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

int log_sync(struct log *log, struct ps_fault *fault)
{
    bool running;
    int rc;

    pthread_mutex_lock(&log->mutex);
    running = log->running;
    pthread_mutex_unlock(&log->mutex);
    if (!running)
        return log_fail(fault, PS_IO, log->dir, 0, "the log failed before");
    rc = sync_unsynced(log, fault);
    return rc != 0 ? stop_running(log, rc) : 0;
}
