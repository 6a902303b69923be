/*
 * log_segments.c - the files of the log: listing, making, recycling and removing them.
 *
 * Making segment N, from a dead file or a new one, in this order; a crash after any step leaves:
 *   1. the start of the dead file K is zeroed and synced, or "log-new" is filled with zeros,
 * synced
 *      -> K is still a dead file below the kept position; log-new is overwritten by the next
 * making;
 *   2. renamed to log-N  -> the old name or the new one: a dead file, or a spare above the last
 * used;
 *   3. the directory is synced  -> a spare. Only now may anything be written to it: what is synced
 *      into log-N would be lost with its name.
 * Recycled files keep their old records. Those are linked to by nothing (S3 in log_internal.h),
 * their own chain does not continue the one that will run into them, and of the records of the same
 * epoch all sequences lie below the kept position's, hence below any that could be missing there.
 *
 * A file whose making failed, or the sync of whose header, is forgotten (neither used nor removed)
 * until the log is opened again: after a failed sync nobody knows what it holds.
 *
 * Threads: see the locks in log_internal.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "storage/log_internal.h"

#define ZERO_CHUNK ((size_t)256 * 1024)
/* A header's word is taken for segments up to this size; memory for larger ones is taken only if a
 * file is as large. */
#define SIZE_BELIEVED (UINT64_C(16) << 20)

/* ---- faults ---------------------------------------------------------------------------------- */

/* The end of a text that is too long says more than its beginning: the file's name is there. */
static void copy_end(char *to, size_t size, const char *text)
{
    size_t len = strlen(text);

    if (len >= size)
        text += len - (size - 1);
    memcpy(to, text, strlen(text) + 1);
}

static void fill_fault(struct ps_fault *fault, int code, int err, const char *file, uint64_t offset,
                       const char *what)
{
    if (fault == NULL)
        return;
    fault->code = code;
    fault->sys_errno = err;
    fault->offset = offset;
    copy_end(fault->file, sizeof(fault->file), file);
    copy_end(fault->what, sizeof(fault->what), what);
}

int log_fail(struct ps_fault *fault, int code, const char *file, uint64_t offset, const char *what)
{
    fill_fault(fault, code, 0, file, offset, what);
    return code;
}

int log_fail_call(struct ps_fault *fault, int rc, const char *file, uint64_t offset,
                  const char *call)
{
    int code = PS_IO;

    if (rc == -ENOSPC || rc == -EDQUOT)
        code = PS_NOSPACE;
    else if (rc == -ENOMEM)
        code = PS_NOMEM;
    fill_fault(fault, code, -rc, file, offset, call);
    return code;
}

/* ---- the table ------------------------------------------------------------------------------- */

void log_segment_path(const struct log *log, uint64_t number, char path[LOG_PATH_MAX])
{
    (void)snprintf(path, LOG_PATH_MAX, "%s/log-%016" PRIx64, log->dir, number);
}

struct log_segment *log_segment_find(struct log *log, uint64_t number)
{
    size_t low = 0, high = log->segment_count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (log->segments[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < log->segment_count && log->segments[low].number == number ? &log->segments[low]
                                                                           : NULL;
}

/* Adds a segment that is not in the table yet. With `mutex` held. */
static int add_segment(struct log *log, const struct log_segment *segment)
{
    size_t at = log->segment_count;

    if (log->segment_count == log->segment_capacity) {
        size_t capacity = log->segment_capacity == 0 ? 16 : log->segment_capacity * 2;
        struct log_segment *grown = realloc(log->segments, capacity * sizeof(*grown));
        if (grown == NULL)
            return PS_NOMEM;
        log->segments = grown;
        log->segment_capacity = capacity;
    }
    while (at > 0 && log->segments[at - 1].number > segment->number)
        at--;
    memmove(&log->segments[at + 1], &log->segments[at],
            (log->segment_count - at) * sizeof(*segment));
    log->segments[at] = *segment;
    log->segment_count++;
    return 0;
}

static void remove_segment(struct log *log, struct log_segment *segment)
{
    size_t at = (size_t)(segment - log->segments);

    log->segment_count--;
    memmove(segment, segment + 1, (log->segment_count - at) * sizeof(*segment));
}

void log_segment_forget(struct log *log, uint64_t number)
{
    struct log_segment *segment;

    pthread_mutex_lock(&log->mutex);
    segment = log_segment_find(log, number);
    if (segment->fd >= 0)
        (void)log->vfs->close(log->vfs->ctx, segment->fd);
    remove_segment(log, segment);
    pthread_mutex_unlock(&log->mutex);
}

uint64_t log_segments_ready(const struct log *log)
{
    uint64_t ready = 0;

    for (size_t i = log->segment_count; i > 0 && log->segments[i - 1].number > log->highest_used;
         i--)
        ready += log->segments[i - 1].state == LOG_SEGMENT_READY;
    return ready;
}

uint64_t log_segments_needed(const struct log *log)
{
    uint64_t lowest = log->running ? log->segment : LOG_NONE;

    if (log->buffer.count != 0 && log->buffer.extents[0].segment < lowest)
        lowest = log->buffer.extents[0].segment;
    if (log->unsynced_first < lowest)
        lowest = log->unsynced_first;
    return log->in_sync_first < lowest ? log->in_sync_first : lowest;
}

void log_segments_close_old(struct log *log)
{
    uint64_t needed = log_segments_needed(log);

    for (size_t i = 0; i < log->segment_count && log->segments[i].number < needed; i++)
        if (log->segments[i].fd >= 0 && log->segments[i].state != LOG_SEGMENT_READY) {
            (void)log->vfs->close(log->vfs->ctx, log->segments[i].fd);
            log->segments[i].fd = -1;
        }
}

/* ---- listing --------------------------------------------------------------------------------- */

struct listing {
    struct log *log;
    int rc;
    uint64_t strange; /* 0, or the number of a file that no log comes to */
};

static void list_name(void *arg, const char *name)
{
    struct listing *listing = arg;
    struct log_segment segment = {.fd = -1, .state = LOG_SEGMENT_DEAD, .kind = LOG_HEADER_ZERO};

    if (strncmp(name, "log-", 4) != 0 || strlen(name) != 20 ||
        strspn(name + 4, "0123456789abcdef") != 16)
        return;
    segment.number = strtoull(name + 4, NULL, 16);
    if (segment.number > LOG_NUMBER_MAX)
        listing->strange = segment.number;
    else if (listing->rc == 0 && segment.number != 0)
        listing->rc = add_segment(listing->log, &segment);
}

/* Reads what a file's header and size say. */
static int look_at(struct log *log, struct log_segment *segment, uint64_t *size,
                   struct ps_fault *fault)
{
    uint8_t bytes[LOG_HEADER_BYTES] = {0};
    char path[LOG_PATH_MAX];
    ssize_t n = 0;
    int fd, rc;

    log_segment_path(log, segment->number, path);
    fd = log->vfs->open(log->vfs->ctx, path, O_RDONLY, 0);
    if (fd < 0)
        return log_fail_call(fault, fd, path, 0, "open");
    rc = log->vfs->size(log->vfs->ctx, fd, size);
    if (rc == 0)
        n = log->vfs->pread(log->vfs->ctx, fd, bytes, sizeof(bytes), 0);
    (void)log->vfs->close(log->vfs->ctx, fd);
    if (rc != 0 || n < 0)
        return log_fail_call(fault, rc != 0 ? rc : (int)n, path, 0, rc != 0 ? "fstat" : "pread");
    segment->kind = log_header_decode(bytes, &segment->header);
    if (segment->kind == LOG_HEADER_VERSION)
        return log_fail(fault, PS_VERSION, path, 8, "log segment of another format version");
    if (segment->kind == LOG_HEADER_VALID && segment->header.segment != segment->number)
        segment->kind = LOG_HEADER_DAMAGED;
    return 0;
}

/* All segments of a log have one size, that of its making: what the headers say goes before what
 * the caller asked for. */
static int adopt_size(struct log *log, const uint64_t *sizes, struct ps_fault *fault)
{
    uint32_t kib = 0;
    uint64_t largest = SIZE_BELIEVED;

    for (size_t i = 0; i < log->segment_count; i++) {
        struct log_segment *segment = &log->segments[i];
        char path[LOG_PATH_MAX];
        uint64_t size = (uint64_t)segment->header.segment_kib * 1024;

        largest = sizes[i] > largest ? sizes[i] : largest;
        if (segment->kind != LOG_HEADER_VALID)
            continue;
        log_segment_path(log, segment->number, path);
        if (size < LOG_SEGMENT_MIN || size > LOG_SEGMENT_MAX)
            return log_fail(fault, PS_CORRUPT, path, 52, "impossible segment size in the header");
        if (kib != 0 && kib != segment->header.segment_kib)
            return log_fail(fault, PS_CORRUPT, path, 52, "segments of different sizes");
        kib = segment->header.segment_kib;
    }
    if (kib != 0)
        log->segment_size = (uint64_t)kib * 1024;
    if (log->segment_size > largest && kib != 0)
        return log_fail(fault, PS_CORRUPT, log->dir, 0,
                        "no log segment is as large as the headers say");
    return 0;
}

int log_segments_list(struct log *log, struct ps_fault *fault)
{
    struct listing listing = {.log = log, .rc = 0};
    uint64_t *sizes;
    int rc = log->vfs->list(log->vfs->ctx, log->dir, list_name, &listing);

    if (rc != 0)
        return log_fail_call(fault, rc, log->dir, 0, "list directory");
    if (listing.rc != 0)
        return log_fail(fault, listing.rc, log->dir, 0, "out of memory");
    if (listing.strange != 0) {
        char path[LOG_PATH_MAX];

        log_segment_path(log, listing.strange, path);
        return log_fail(fault, PS_CORRUPT, path, 0, "impossible number of a log segment");
    }
    sizes = calloc(log->segment_count + 1, sizeof(*sizes));
    if (sizes == NULL)
        return log_fail(fault, PS_NOMEM, log->dir, 0, "out of memory");
    for (size_t i = 0; rc == 0 && i < log->segment_count; i++)
        rc = look_at(log, &log->segments[i], &sizes[i], fault);
    if (rc == 0)
        rc = adopt_size(log, sizes, fault);
    for (size_t i = 0; rc == 0 && i < log->segment_count; i++) {
        struct log_segment *segment = &log->segments[i];

        segment->whole = sizes[i] == log->segment_size;
        if (segment->kind != LOG_HEADER_VALID)
            continue;
        segment->state = LOG_SEGMENT_USED;
        log->highest_used = segment->number;
    }
    free(sizes);
    return rc;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* May this file be made into another segment, or removed? With `mutex` held. */
static bool is_dead(const struct log *log, const struct log_segment *segment)
{
    if (segment->number > log->highest_used)
        return segment->state == LOG_SEGMENT_DEAD;
    return ((segment->number + 1) * log->segment_size <= log->kept ||
            segment->state == LOG_SEGMENT_DEAD) &&
           segment->number < log_segments_needed(log);
}

/* Takes a dead file out of the table: the one of this very number if there is one (it would be in
 * the way), else the lowest. 0: there is none. */
static uint64_t take_dead(struct log *log, uint64_t number, bool *whole)
{
    struct log_segment *found;
    uint64_t taken = 0;

    pthread_mutex_lock(&log->mutex);
    found = log_segment_find(log, number);
    for (size_t i = 0; found == NULL && i < log->segment_count; i++)
        if (is_dead(log, &log->segments[i]))
            found = &log->segments[i];
    if (found != NULL) {
        taken = found->number;
        *whole = found->whole;
        if (found->fd >= 0)
            (void)log->vfs->close(log->vfs->ctx, found->fd);
        remove_segment(log, found);
    }
    pthread_mutex_unlock(&log->mutex);
    return taken;
}

/* Step 1 for a dead file. */
static int wipe_start(struct log *log, const char *path, int *fd, struct ps_fault *fault)
{
    static const uint8_t zeros[LOG_HEADER_BYTES + LOG_RECORD_BYTES];
    const struct ps_vfs *vfs = log->vfs;
    int rc;

    *fd = vfs->open(vfs->ctx, path, O_RDWR, 0);
    if (*fd < 0)
        return log_fail_call(fault, *fd, path, 0, "open");
    if (!ps_rule(RULE_SEGMENT_START_WIPED))
        return 0;
    rc = vfs->pwrite(vfs->ctx, *fd, zeros, sizeof(zeros), 0);
    if (rc != 0)
        return log_fail_call(fault, rc, path, 0, "pwrite");
    rc = vfs->fdatasync(vfs->ctx, *fd);
    return rc != 0 ? log_fail_call(fault, rc, path, 0, "fdatasync") : 0;
}

static int write_zeros(struct log *log, const char *path, int fd, struct ps_fault *fault)
{
    uint8_t *zeros = calloc(1, ZERO_CHUNK);
    uint64_t at = 0;
    int rc = 0;

    if (zeros == NULL)
        return log_fail(fault, PS_NOMEM, path, 0, "out of memory");
    while (rc == 0 && at < log->segment_size) {
        uint64_t left = log->segment_size - at;
        size_t n = left < ZERO_CHUNK ? (size_t)left : ZERO_CHUNK;

        rc = log->vfs->pwrite(log->vfs->ctx, fd, zeros, n, at);
        if (rc == 0)
            at += n;
    }
    free(zeros);
    return rc != 0 ? log_fail_call(fault, rc, path, at, "pwrite") : 0;
}

/* Step 1 for a new file. fallocate says early that there is no room and keeps the file in one
 * place; the zeros then turn it into written extents, so that a later sync changes no metadata. */
static int fill_new(struct log *log, const char *path, int *fd, struct ps_fault *fault)
{
    const struct ps_vfs *vfs = log->vfs;
    int rc;

    *fd = vfs->open(vfs->ctx, path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (*fd < 0)
        return log_fail_call(fault, *fd, path, 0, "open");
    rc = vfs->fallocate(vfs->ctx, *fd, 0, log->segment_size);
    if (rc != 0)
        return log_fail_call(fault, rc, path, 0, "fallocate");
    rc = write_zeros(log, path, *fd, fault);
    if (rc != 0)
        return rc;
    rc = vfs->fsync(vfs->ctx, *fd);
    return rc != 0 ? log_fail_call(fault, rc, path, 0, "fsync") : 0;
}

/* Steps 2 and 3. */
static int give_name(struct log *log, const char *path, uint64_t number, struct ps_fault *fault)
{
    const struct ps_vfs *vfs = log->vfs;
    char name[LOG_PATH_MAX];
    int rc;

    log_segment_path(log, number, name);
    if (strcmp(path, name) != 0) {
        rc = vfs->rename(vfs->ctx, path, name);
        if (rc != 0)
            return log_fail_call(fault, rc, path, 0, "rename");
    }
    rc = ps_rule(RULE_SEGMENT_NAME_SYNCED) ? vfs->sync_dir(vfs->ctx, log->dir) : 0;
    return rc != 0 ? log_fail_call(fault, rc, log->dir, 0, "fsync of the directory") : 0;
}

static int enter_ready(struct log *log, uint64_t number, int fd, bool recycled,
                       struct ps_fault *fault)
{
    struct log_segment segment = {.number = number,
                                  .fd = fd,
                                  .state = LOG_SEGMENT_READY,
                                  .kind = LOG_HEADER_ZERO,
                                  .whole = true};
    int rc;

    pthread_mutex_lock(&log->mutex);
    rc = add_segment(log, &segment);
    if (rc == 0) {
        log->stats.segments_recycled += recycled;
        log->stats.segments_made += !recycled;
    }
    pthread_mutex_unlock(&log->mutex);
    return rc != 0 ? log_fail(fault, rc, log->dir, 0, "out of memory") : 0;
}

int log_segment_make(struct log *log, uint64_t number, struct ps_fault *fault)
{
    char path[LOG_PATH_MAX];
    bool whole = false, recycled;
    int fd = -1, rc;
    uint64_t dead;

    while ((dead = take_dead(log, number, &whole)) != 0 && !whole) {
        log_segment_path(log, dead, path);
        (void)log->vfs->unlink(log->vfs->ctx, path);
    }
    recycled = dead != 0;
    if (recycled) {
        log_segment_path(log, dead, path);
        rc = wipe_start(log, path, &fd, fault);
    } else {
        (void)snprintf(path, sizeof(path), "%s/log-new", log->dir);
        rc = fill_new(log, path, &fd, fault);
        if (rc != 0)
            (void)log->vfs->unlink(log->vfs->ctx, path);
    }
    if (rc == 0)
        rc = give_name(log, path, number, fault);
    if (rc == 0)
        rc = enter_ready(log, number, fd, recycled, fault);
    if (rc != 0 && fd >= 0)
        (void)log->vfs->close(log->vfs->ctx, fd);
    return rc;
}

/* ---- recycling ------------------------------------------------------------------------------- */

/* Removes dead files beyond what the log is likely to need again before the next time: as many as
 * were in use at most lately. */
static void remove_surplus(struct log *log)
{
    for (;;) {
        char path[LOG_PATH_MAX];
        uint64_t dead = 0, victim = 0;

        pthread_mutex_lock(&log->mutex);
        for (size_t i = 0; i < log->segment_count; i++)
            if (is_dead(log, &log->segments[i])) {
                dead++;
                if (victim == 0)
                    victim = log->segments[i].number;
            }
        if (dead <= log->spare_target)
            victim = 0;
        if (victim != 0)
            remove_segment(log, log_segment_find(log, victim));
        pthread_mutex_unlock(&log->mutex);
        if (victim == 0)
            return;
        log_segment_path(log, victim, path);
        (void)log->vfs->unlink(log->vfs->ctx, path);
    }
}

void log_recycle(struct log *log, const struct log_pos *keep)
{
    uint64_t live = 0;

    pthread_mutex_lock(&log->making);
    pthread_mutex_lock(&log->mutex);
    for (size_t i = 0; i < log->segment_count; i++)
        live += !is_dead(log, &log->segments[i]);
    if (keep->position > log->kept)
        log->kept = keep->position;
    log->spare_target -= log->spare_target / 8;
    if (live > log->spare_target)
        log->spare_target = live;
    pthread_mutex_unlock(&log->mutex);
    remove_surplus(log);
    pthread_mutex_unlock(&log->making);
}
