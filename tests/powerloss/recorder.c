/*
 * recorder.c - see recorder.h.
 */
#include "tests/powerloss/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/model/rng.h"
#include "tests/support/store_dir.h"

#define DESCRIPTORS 1024
#define NO_FILE     UINT32_MAX
#define LONGEST_NS  2000000L /* that a thread is held up when the writer does nothing */
#define META_SIZE   512u     /* a write of so many bytes to the data file is that of a meta */

struct name {
    char name[FILES_NAME];
    uint32_t file;
};

struct recorder {
    struct ps_vfs vfs;
    const struct ps_vfs *base;
    char dir[STORE_DIR_PATH];
    pthread_mutex_t mu;
    pthread_cond_t cond;
    struct journal *journal;
    struct rng rng;
    struct name names[FILES_MOST];
    size_t nnames;
    uint32_t file_of[DESCRIPTORS];
    bool is_log[DESCRIPTORS];

    bool dead;
    unsigned kill_after; /* changes; 0: no order */
    enum failure failure;
    unsigned before; /* such calls that work before the one that fails */
    bool failed;

    pthread_t writer;
    unsigned one_in;
    bool waits;
    uint64_t steps, held;
};

/* ---- names ------------------------------------------------------------------------------------
 */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static struct name *find(struct recorder *rec, const char *name)
{
    for (size_t i = 0; i < rec->nnames; i++)
        if (strcmp(rec->names[i].name, name) == 0)
            return &rec->names[i];
    return NULL;
}

static void forget(struct recorder *rec, const char *name)
{
    struct name *found = find(rec, name);
    if (found)
        *found = rec->names[--rec->nnames];
}

static void enter(struct recorder *rec, const char *name, uint32_t file)
{
    forget(rec, name);
    if (rec->nnames == FILES_MOST || strlen(name) >= FILES_NAME)
        abort();
    struct name *to = &rec->names[rec->nnames++];
    strcpy(to->name, name);
    to->file = file;
}

static struct event *add(struct recorder *rec, enum event_kind kind, uint32_t file, uint64_t offset)
{
    return journal_add(rec->journal, kind, file, offset);
}

static void add_name(struct recorder *rec, enum event_kind kind, uint32_t file, const char *name,
                     const char *to)
{
    struct event *event = add(rec, kind, file, 0);
    snprintf(event->name, sizeof event->name, "%s", name);
    snprintf(event->to, sizeof event->to, "%s", to);
}

/* ---- before and after a change ----------------------------------------------------------------
 */

/* Holds a background thread up while the writer does a few steps; before a meta more often, and
 * longer; mu held. */
static void hold_up(struct recorder *rec, bool longer)
{
    if (rec->one_in == 0 || rec->waits || pthread_equal(pthread_self(), rec->writer) ||
        !rng_one_in(&rec->rng, longer ? 2 : rec->one_in))
        return;
    uint64_t until = rec->steps + rng_between(&rec->rng, 1, longer ? 8 : 4);
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_nsec += longer ? 8 * LONGEST_NS : LONGEST_NS;
    limit.tv_sec += limit.tv_nsec / 1000000000;
    limit.tv_nsec %= 1000000000;
    rec->held++;
    while (!rec->waits && !rec->dead && rec->steps < until)
        if (pthread_cond_timedwait(&rec->cond, &rec->mu, &limit) != 0)
            break;
}

/* Takes the lock; false: the process is dead, or dies now (then *dies is set: do a part of it). */
static bool begin_for(struct recorder *rec, bool meta, bool *dies)
{
    pthread_mutex_lock(&rec->mu);
    hold_up(rec, meta);
    *dies = false;
    if (rec->dead)
        return false;
    if (rec->kill_after && --rec->kill_after == 0) {
        *dies = rec->dead = true;
        pthread_cond_broadcast(&rec->cond);
        return false;
    }
    return true;
}

static bool begin(struct recorder *rec, bool *dies)
{
    return begin_for(rec, false, dies);
}

static int end(struct recorder *rec, int rc)
{
    pthread_mutex_unlock(&rec->mu);
    return rc;
}

static bool fails(struct recorder *rec, enum failure failure)
{
    if (rec->failure != failure || rec->failed || rec->before-- > 0)
        return false;
    rec->failed = true;
    return true;
}

/* ---- the operations ---------------------------------------------------------------------------
 */

static void write_and_note(struct recorder *rec, int fd, const void *buf, size_t len,
                           uint64_t offset)
{
    if (len == 0 || rec->file_of[fd] == NO_FILE)
        return;
    struct event *event = add(rec, EV_WRITE, rec->file_of[fd], offset);
    event->len = len;
    event->bytes = malloc(len);
    if (!event->bytes)
        abort();
    memcpy(event->bytes, buf, len);
    if (rec->base->pwrite(rec->base->ctx, fd, buf, len, offset) != 0)
        abort();
}

static int rec_pwrite(void *ctx, int fd, const void *buf, size_t len, uint64_t offset)
{
    struct recorder *rec = ctx;
    bool dies;
    if (!begin_for(rec, !rec->is_log[fd] && len == META_SIZE, &dies)) {
        if (dies)
            write_and_note(rec, fd, buf, (size_t)rng_below(&rec->rng, len + 1), offset);
        return end(rec, -EIO);
    }
    if (rec->is_log[fd] && fails(rec, FAIL_LOG_WRITE)) {
        size_t part = rng_one_in(&rec->rng, 2) ? len : (size_t)rng_below(&rec->rng, len + 1);
        write_and_note(rec, fd, buf, part, offset);
        return end(rec, -EIO);
    }
    write_and_note(rec, fd, buf, len, offset);
    return end(rec, 0);
}

static int rec_open(void *ctx, const char *path, int flags, int mode)
{
    struct recorder *rec = ctx;
    const char *name = base_name(path);
    bool dies = false;
    pthread_mutex_lock(&rec->mu);
    const struct name *found = find(rec, name);
    bool makes = (!found && (flags & O_CREAT)) || (flags & O_TRUNC);
    if (makes) {
        pthread_mutex_unlock(&rec->mu);
        if (!begin(rec, &dies))
            return end(rec, -EIO);
    }
    int fd = rec->base->open(rec->base->ctx, path, flags, mode);
    if (fd >= DESCRIPTORS)
        abort();
    if (fd >= 0) {
        if (makes) {
            enter(rec, name, rec->journal->files);
            add_name(rec, EV_ADD, rec->journal->files++, name, "");
        }
        found = find(rec, name);
        rec->file_of[fd] = found ? found->file : NO_FILE;
        rec->is_log[fd] = strncmp(name, "log-", 4) == 0;
    }
    return end(rec, fd);
}

static int rec_close(void *ctx, int fd)
{
    struct recorder *rec = ctx;
    return rec->base->close(rec->base->ctx, fd);
}

static ssize_t rec_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    struct recorder *rec = ctx;
    return rec->base->pread(rec->base->ctx, fd, buf, len, offset);
}

static int rec_fallocate(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    struct recorder *rec = ctx;
    bool dies;
    if (!begin(rec, &dies))
        return end(rec, -EIO);
    add(rec, EV_SIZE, rec->file_of[fd], offset + len);
    return end(rec, rec->base->fallocate(rec->base->ctx, fd, offset, len));
}

static int rec_ftruncate(void *ctx, int fd, uint64_t len)
{
    struct recorder *rec = ctx;
    bool dies;
    if (!begin(rec, &dies))
        return end(rec, -EIO);
    add(rec, EV_CUT, rec->file_of[fd], len);
    return end(rec, rec->base->ftruncate(rec->base->ctx, fd, len));
}

static int rec_sync(void *ctx, int fd)
{
    struct recorder *rec = ctx;
    bool dies;
    if (!begin(rec, &dies))
        return end(rec, -EIO);
    if (fails(rec, rec->is_log[fd] ? FAIL_LOG_SYNC : FAIL_DATA_SYNC)) {
        add(rec, EV_SYNC_FAILED, rec->file_of[fd], 0);
        return end(rec, -EIO);
    }
    add(rec, EV_SYNC, rec->file_of[fd], 0);
    return end(rec, 0);
}

static int rec_sync_file_range(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    (void)ctx, (void)fd, (void)offset, (void)len;
    return 0;
}

static int rec_size(void *ctx, int fd, uint64_t *bytes)
{
    struct recorder *rec = ctx;
    return rec->base->size(rec->base->ctx, fd, bytes);
}

static int rec_mmap(void *ctx, int fd, size_t len, void **address)
{
    struct recorder *rec = ctx;
    return rec->base->mmap(rec->base->ctx, fd, len, address);
}

static int rec_munmap(void *ctx, void *address, size_t len)
{
    struct recorder *rec = ctx;
    return rec->base->munmap(rec->base->ctx, address, len);
}

static int rec_resident(void *ctx, const void *address, size_t len, unsigned char *there)
{
    struct recorder *rec = ctx;
    return rec->base->resident(rec->base->ctx, address, len, there);
}

static void rec_prefetch(void *ctx, const void *address, size_t len)
{
    struct recorder *rec = ctx;
    rec->base->prefetch(rec->base->ctx, address, len);
}

static int rec_rename(void *ctx, const char *from, const char *to)
{
    struct recorder *rec = ctx;
    bool dies;
    if (!begin(rec, &dies))
        return end(rec, -EIO);
    const struct name *found = find(rec, base_name(from));
    int rc = rec->base->rename(rec->base->ctx, from, to);
    if (rc == 0 && found) {
        uint32_t file = found->file;
        add_name(rec, EV_RENAME, file, base_name(from), base_name(to));
        forget(rec, base_name(from));
        enter(rec, base_name(to), file);
    }
    return end(rec, rc);
}

static int rec_unlink(void *ctx, const char *path)
{
    struct recorder *rec = ctx;
    bool dies;
    if (!begin(rec, &dies))
        return end(rec, -EIO);
    int rc = rec->base->unlink(rec->base->ctx, path);
    if (rc == 0) {
        add_name(rec, EV_REMOVE, NO_FILE, base_name(path), "");
        forget(rec, base_name(path));
    }
    return end(rec, rc);
}

static int rec_mkdir(void *ctx, const char *path, int mode)
{
    struct recorder *rec = ctx;
    bool dies;
    if (!begin(rec, &dies))
        return end(rec, -EIO);
    int rc = rec->base->mkdir(rec->base->ctx, path, mode);
    if (rc == 0)
        add(rec, EV_MAKE_DIR, NO_FILE, 0);
    return end(rec, rc);
}

static int rec_sync_dir(void *ctx, const char *path)
{
    struct recorder *rec = ctx;
    bool dies;
    if (!begin(rec, &dies))
        return end(rec, -EIO);
    add(rec, strcmp(path, rec->dir) == 0 ? EV_SYNC_DIR : EV_SYNC_PARENT, NO_FILE, 0);
    return end(rec, 0);
}

static int rec_list(void *ctx, const char *path, void (*each)(void *arg, const char *name),
                    void *arg)
{
    struct recorder *rec = ctx;
    return rec->base->list(rec->base->ctx, path, each, arg);
}

/* The process that died may still be closing its files. */
static int rec_lock(void *ctx, int fd)
{
    struct recorder *rec = ctx;
    return rec->base->lock(rec->base->ctx, fd);
}

static const struct ps_vfs table = {
    .open = rec_open,
    .close = rec_close,
    .pread = rec_pread,
    .pwrite = rec_pwrite,
    .fallocate = rec_fallocate,
    .ftruncate = rec_ftruncate,
    .fdatasync = rec_sync,
    .fsync = rec_sync,
    .sync_file_range = rec_sync_file_range,
    .size = rec_size,
    .mmap = rec_mmap,
    .munmap = rec_munmap,
    .resident = rec_resident,
    .prefetch = rec_prefetch,
    .rename = rec_rename,
    .unlink = rec_unlink,
    .mkdir = rec_mkdir,
    .sync_dir = rec_sync_dir,
    .list = rec_list,
    .lock = rec_lock,
};

/* ---- the recorder itself ----------------------------------------------------------------------
 */

struct recorder *recorder_new(const char *dir, struct journal *journal, uint64_t seed)
{
    struct recorder *rec = calloc(1, sizeof *rec);
    if (!rec)
        abort();
    rec->vfs = table;
    rec->vfs.ctx = rec;
    rec->base = ps_vfs_posix();
    rec->journal = journal;
    rec->rng = rng_seed(seed, 0x726563);
    rec->writer = pthread_self();
    snprintf(rec->dir, sizeof rec->dir, "%s", dir);
    pthread_mutex_init(&rec->mu, NULL);
    pthread_cond_init(&rec->cond, NULL);
    for (size_t i = 0; i < journal->base.n; i++)
        enter(rec, journal->base.at[i].name, (uint32_t)i);
    return rec;
}

void recorder_free(struct recorder *rec)
{
    pthread_mutex_destroy(&rec->mu);
    pthread_cond_destroy(&rec->cond);
    free(rec);
}

const struct ps_vfs *recorder_vfs(struct recorder *rec)
{
    return &rec->vfs;
}

bool recorder_say(struct recorder *rec, enum event_kind kind, uint64_t seq)
{
    pthread_mutex_lock(&rec->mu);
    bool alive = !rec->dead;
    if (alive)
        add(rec, kind, NO_FILE, seq);
    pthread_mutex_unlock(&rec->mu);
    return alive;
}

bool recorder_commit(struct recorder *rec, const struct state *state)
{
    pthread_mutex_lock(&rec->mu);
    bool alive = !rec->dead;
    if (alive)
        add(rec, EV_COMMIT, NO_FILE, state->seq)->state = state;
    pthread_mutex_unlock(&rec->mu);
    return alive;
}

void recorder_kill_after(struct recorder *rec, unsigned n)
{
    pthread_mutex_lock(&rec->mu);
    rec->kill_after = n;
    pthread_mutex_unlock(&rec->mu);
}

bool recorder_is_dead(struct recorder *rec)
{
    pthread_mutex_lock(&rec->mu);
    bool dead = rec->dead;
    pthread_mutex_unlock(&rec->mu);
    return dead;
}

void recorder_revive(struct recorder *rec)
{
    pthread_mutex_lock(&rec->mu);
    rec->dead = rec->failed = false;
    rec->kill_after = 0;
    rec->failure = FAIL_NOTHING;
    pthread_mutex_unlock(&rec->mu);
}

void recorder_fail(struct recorder *rec, enum failure failure, unsigned n)
{
    pthread_mutex_lock(&rec->mu);
    rec->failure = failure;
    rec->before = n - 1;
    rec->failed = false;
    pthread_mutex_unlock(&rec->mu);
}

enum failure recorder_failed(struct recorder *rec)
{
    enum failure failure = FAIL_NOTHING;
    pthread_mutex_lock(&rec->mu);
    if (rec->failed) {
        failure = rec->failure;
        rec->failure = FAIL_NOTHING;
        rec->failed = false;
    }
    pthread_mutex_unlock(&rec->mu);
    return failure;
}

void recorder_hold_up(struct recorder *rec, unsigned one_in)
{
    pthread_mutex_lock(&rec->mu);
    rec->writer = pthread_self();
    rec->one_in = one_in;
    pthread_mutex_unlock(&rec->mu);
}

void recorder_step(struct recorder *rec)
{
    pthread_mutex_lock(&rec->mu);
    rec->steps++;
    pthread_cond_broadcast(&rec->cond);
    pthread_mutex_unlock(&rec->mu);
}

void recorder_waits(struct recorder *rec, bool waits)
{
    pthread_mutex_lock(&rec->mu);
    rec->waits = waits;
    pthread_cond_broadcast(&rec->cond);
    pthread_mutex_unlock(&rec->mu);
}

uint64_t recorder_held(struct recorder *rec)
{
    pthread_mutex_lock(&rec->mu);
    uint64_t held = rec->held;
    rec->held = 0;
    pthread_mutex_unlock(&rec->mu);
    return held;
}
