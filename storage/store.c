/*
 * store.c - opening and closing (settings of an open store: settings.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include "storage/merge.h"
#include "storage/path.h"
#include "storage/store.h"

#define DEFAULT_DIRTY   (UINT64_C(256) << 20)
#define DEFAULT_MAP     (UINT64_C(1) << 40)
#define DEFAULT_SEGMENT (UINT64_C(16) << 20)
#define LEAST_SLOTS     64u
#define REPLAY_SLOTS    96u /* with which any single put can be replayed, however small */
#define REPLAY_RUNS     6u  /* the arena has become: so many slots and longest runs */
#define FIRST_GROWTH    (UINT64_C(1) << 20)

static void set_defaults(struct ps_options *o)
{
    o->dirty_memory = o->dirty_memory == 0 ? DEFAULT_DIRTY : o->dirty_memory;
    o->map_size = o->map_size == 0 ? DEFAULT_MAP : o->map_size;
    o->log_segment_size = o->log_segment_size == 0 ? DEFAULT_SEGMENT : o->log_segment_size;
    o->max_recovery_ms = o->max_recovery_ms == 0 ? DEFAULT_RECOVERY_MS : o->max_recovery_ms;
}

static void init_locks(struct ps_store *store)
{
    pthread_mutex_init(&store->mu, NULL);
    pthread_mutex_init(&store->log_mu, NULL);
    pthread_mutex_init(&store->checkpoint_mu, NULL);
    pthread_mutex_init(&store->fault_mu, NULL);
    pthread_cond_init(&store->cond, NULL);
    helper_init(&store->helper);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&store->log_cond, &monotonic);
    pthread_cond_init(&store->checkpoint_cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static struct ps_store *store_alloc(const char *dir, const struct ps_options *options)
{
    struct ps_store *store = NULL;
    if (posix_memalign((void **)&store, 64, sizeof *store) != 0) {
        return NULL;
    }
    memset(store, 0, sizeof *store);
    if (options != NULL) {
        store->options = *options;
    }
    set_defaults(&store->options);
    store->vfs = store->options.vfs != NULL ? store->options.vfs : ps_vfs_posix();
    if (IMAGE_ANONYMOUS) {
        store->image = image_new(store->vfs);
        store->vfs = store->image != NULL ? image_vfs(store->image) : store->vfs;
    }
    store->fd = store->lock_fd = -1;
    store->next_stamp = 1;
    atomic_store(&store->durability, (int)store->options.durability);
    atomic_store(&store->max_recovery_ms, store->options.max_recovery_ms);
    atomic_store(&store->max_snapshot_ms, store->options.max_snapshot_ms);
    init_locks(store);
    store->dir = strdup(dir);
    store->file_path = path_join(dir, "pando.db");
    store->listing = calloc(READER_SLOTS, sizeof *store->listing);
    store->operators = merge_table();
    store->noperators = merge_nbuiltins;
    size_t readers = READER_SLOTS * sizeof *store->readers;
    if (posix_memalign((void **)&store->readers, 64, readers) != 0) {
        store->readers = NULL;
    } else {
        memset(store->readers, 0, readers);
    }
    return store;
}

/* Whether there was memory for all of it. */
static bool is_whole(const struct ps_store *store)
{
    return store->readers != NULL && store->listing != NULL && store->operators != NULL &&
           store->dir != NULL && store->file_path != NULL &&
           (!IMAGE_ANONYMOUS || store->image != NULL);
}

/* ---- opening --------------------------------------------------------------------------------- */

static int take_lock(struct ps_store *store, int flags, struct ps_fault *fault)
{
    const struct ps_vfs *vfs = store->vfs;
    char *lock = path_join(store->dir, "LOCK");
    if (lock == NULL) {
        return PS_NOMEM;
    }
    store->lock_fd = vfs->open(vfs->ctx, lock, flags, 0666);
    int err = store->lock_fd < 0 ? store->lock_fd : vfs->lock(vfs->ctx, store->lock_fd);
    int rc = 0;
    if (err == -EWOULDBLOCK) {
        rc = PS_LOCKED;
        fault_set(fault, rc, err, lock, 0, "the directory is in use by another process");
    } else if (err == -ENOENT && store->options.read_only_check) {
        rc = 0; /* a copy of the data: nobody has it open */
    } else if (err != 0) {
        rc = fault_at(fault, err, lock, "opening");
    }
    free(lock);
    return rc;
}

static int open_files(struct ps_store *store, struct ps_fault *fault)
{
    const struct ps_vfs *vfs = store->vfs;
    bool only_look = store->options.read_only_check;
    if (!only_look) {
        int err = vfs->mkdir(vfs->ctx, store->dir, 0777);
        if (err != 0 && err != -EEXIST) {
            return fault_at(fault, err, store->dir, "making the directory");
        }
    }
    int flags = only_look ? O_RDONLY : O_RDWR | O_CREAT;
    int rc = only_look && store->options.without_lock ? 0 : take_lock(store, flags, fault);
    if (rc == 0) {
        store->fd = vfs->open(vfs->ctx, store->file_path, flags, 0666);
        if (store->fd < 0) {
            rc = fault_at(fault, store->fd, store->file_path, "opening");
        }
    }
    return rc;
}

/* Page and segment sizes are looked at where they are used. */
static int check_options(const struct ps_store *store, struct ps_fault *fault)
{
    const struct ps_options *o = &store->options;
    if (!durability_is_valid(o->durability)) {
        fault_set(fault, PS_INVALID, 0, store->dir, 0, "no such level of durability: %d",
                  (int)o->durability);
        return PS_INVALID;
    }
    if (o->dirty_memory > PS_MAX_DIRTY_MEMORY || o->map_size < PS_MIN_MAP_SIZE) {
        fault_set(fault, PS_INVALID, 0, store->dir, 0, "%s outside its range",
                  o->map_size < PS_MIN_MAP_SIZE ? "map size" : "dirty memory");
        return PS_INVALID;
    }
    return 0;
}

static int map_file(struct ps_store *store, struct ps_fault *fault)
{
    const struct ps_vfs *vfs = store->vfs;
    void *at = NULL;
    int err = -ENOMEM;
    size_t bytes = (size_t)store->options.map_size;
    for (; bytes >= PS_MIN_MAP_SIZE; bytes /= 2) {
        err = vfs->mmap(vfs->ctx, store->fd, bytes, &at);
        if (err != -ENOMEM) {
            break;
        }
    }
    if (err != 0) {
        return fault_at(fault, err, store->file_path, "mapping");
    }
    store->map_bytes = bytes;
    store->base[0] = at;
    store->verified_bytes = ((bytes >> store->page_shift) / 8 + 8191) & ~(size_t)4095;
    uint8_t *bits = mmap(NULL, 4 * store->verified_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bits == MAP_FAILED) {
        store->verified_bytes = 0;
        return fault_at(fault, -ENOMEM, store->file_path, "memory for page checks");
    }
    store->verified = (void *)bits;
    store->verified_runs = (void *)(bits + store->verified_bytes);
    store->mapped = (void *)(bits + 2 * store->verified_bytes);
    store->written = (void *)(bits + 3 * store->verified_bytes);
    int rc = lost_watch(store);
    if (rc != 0) {
        fault_set(fault, rc, 0, store->file_path, 0, "watching the mapping");
    }
    return rc;
}

static int open_memory(struct ps_store *store)
{
    store->page_size = store->options.page_size;
    if (store->page_size < PAGE_MIN || store->page_size > PAGE_MAX ||
        (store->page_size & (store->page_size - 1)) != 0) {
        return PS_INVALID;
    }
    store->page_shift = (uint32_t)__builtin_ctz(store->page_size);
    uint64_t slots = store->options.dirty_memory >> store->page_shift;
    uint64_t replay = REPLAY_SLOTS + REPLAY_RUNS * (RUN_ARENA_MAX >> store->page_shift);
    int rc = arena_open(&store->arena, slots < LEAST_SLOTS ? LEAST_SLOTS : slots, replay,
                        store->page_shift);
    store->base[1] = store->arena.memory;
    for (unsigned i = 0; i < 4; i++) {
        store->scratch[i] = malloc(store->page_size);
        store->keys[i] = malloc(store->page_size);
        if (store->scratch[i] == NULL || store->keys[i] == NULL) {
            rc = PS_NOMEM;
        } else {
            memset(store->scratch[i], 0, store->page_size);
        }
    }
    if (!vec_reserve(&store->pins, READER_SLOTS) || !vec_reserve(&store->slot_pins, READER_SLOTS)) {
        rc = PS_NOMEM; /* room for every reader: reclaiming never fails */
    }
    return rc;
}

/* The state to begin with: empty for a new store, the checkpoint's otherwise. */
static int first_state(struct ps_store *store, bool fresh, struct ps_fault *fault)
{
    struct state *state = state_new(store);
    struct state *file_state = fresh ? NULL : state_new(store);
    if (state == NULL || (!fresh && file_state == NULL)) {
        return PS_NOMEM;
    }
    atomic_store(&store->published, state);
    store->tip = state;
    store->file_state = file_state;
    if (fresh) {
        atomic_store(&state->stamp, store->next_stamp++);
        return 0;
    }
    int rc = recovery_load_state(store, file_state, fault);
    rc = rc == 0 ? state_copy(state, file_state) : rc;
    state->pos = file_state->pos;
    atomic_store(&state->stamp, stamp_of(file_state));
    atomic_store(&store->published_seq, state->seq);
    store->next_stamp = store->meta.stamp + 1;
    atomic_store(&store->file_keys, store->meta.file_keys);
    store->meta_stamps[0] = store->meta_stamps[1] = store->meta.stamp;
    watch_meta(store->watch, 0, store->meta.stamp);
    watch_meta(store->watch, 1, store->meta.stamp);
    return rc;
}

static int open_space(struct ps_store *store, bool fresh, struct ps_fault *fault)
{
    const struct ps_vfs *vfs = store->vfs;
    uint64_t bytes;
    int err = vfs->size(vfs->ctx, store->fd, &bytes);
    if (err == 0 && fresh && bytes < META_RESERVED + FIRST_GROWTH) {
        bytes = META_RESERVED + FIRST_GROWTH;
        err = vfs->fallocate(vfs->ctx, store->fd, 0, bytes);
    }
    if (err != 0) {
        return fault_at(fault, err, store->file_path, "sizing");
    }
    uint64_t pages = bytes >> store->page_shift;
    if (!fresh && pages < store->meta.file_pages) {
        fault_set(fault, PS_CORRUPT, 0, store->file_path, bytes,
                  "the file is shorter than its meta says (%llu pages)",
                  (unsigned long long)store->meta.file_pages);
        return PS_CORRUPT;
    }
    if ((pages << store->page_shift) > store->map_bytes) {
        return fault_at(fault, -ENOMEM, store->file_path, "address space");
    }
    int rc = space_init(&store->space, vfs, store->fd, store->page_shift,
                        META_RESERVED >> store->page_shift, pages);
    store->space.most = store->map_bytes >> store->page_shift;
    store->space_open = true;
    atomic_store(&store->file_pages, pages);
    if (rc == 0 && !fresh) {
        rc = space_load(&store->space, &store->meta.space, store->meta.file_pages, fault);
        if (rc != 0) { /* what was read of it means nothing */
            if (fault != NULL) {
                snprintf(fault->file, sizeof fault->file, "%s", store->file_path);
            }
            return rc;
        }
        store->loaded_stamp = store->meta.stamp;
        pages_mapped(store);
    }
    if (rc == 0 && store->image != NULL) {
        store->watch = watch_new(store);
        space_watch(&store->space, (uint8_t *)(uintptr_t)store->base[0], store->watch);
    }
    return rc;
}

/* A blank data file beside a log with commits is not a new store: the file was lost. (A store whose
 * making was interrupted has a log without commits.) And what has a torn meta without a log is
 * somebody else's file. */
static int refuse_lost_file(struct ps_store *store, enum newness found, struct ps_fault *fault)
{
    struct log_pos none = {0};
    struct log_pos end;
    struct log_stats stats;
    uint64_t torn;
    log_get_stats(store->log, &stats);
    if (found == NEW_TORN && stats.segments == 0) {
        fault_set(fault, PS_CORRUPT, 0, store->file_path, 0, "neither meta is valid");
        return PS_CORRUPT;
    }
    int rc = log_scan(store->log, &none, &end, &torn, fault);
    if (rc == PS_CORRUPT || (rc == 0 && end.seq > 0)) {
        fault_set(fault, PS_CORRUPT, 0, store->file_path, 0,
                  "the data file is blank although the log beside it holds commits");
        return PS_CORRUPT;
    }
    return rc;
}

/* A new store is made by its first checkpoint, of nothing. */
static int create(struct ps_store *store, enum newness found, struct ps_fault *fault)
{
    int lost = refuse_lost_file(store, found, fault);
    if (lost != 0) {
        return lost;
    }
    store->meta.page_size = store->page_size;
    if (getrandom(store->meta.id, sizeof store->meta.id, 0) != sizeof store->meta.id) {
        return fault_at(fault, -EIO, store->dir, "random numbers");
    }
    struct log_pos none = {0};
    int rc = log_start(store->log, &none, fault);
    if (rc == 0) {
        log_end(store->log, &store->log_end);
        token_take(store);
        rc = checkpoint_run(store, true);
        token_give(store);
        if (rc != 0) {
            ps_last_fault(store, fault);
        }
    }
    return rc;
}

/* Whether a directory cannot be synced because it is none of this process's business: what it may
 * not read, or what lies on a read-only file system, somebody else has made and answers for. */
static bool is_foreign(int err)
{
    return err == -EACCES || err == -EPERM || err == -EROFS;
}

/* The names of the files, and of their directory, are on the device before the store is served:
 * this process may have made them, or one that was killed before it could do this. */
static int sync_names(struct ps_store *store, struct ps_fault *fault)
{
    const struct ps_vfs *vfs = store->vfs;
    char *parent = path_parent(store->dir);
    if (parent == NULL || !ps_rule(RULE_DIRECTORY_SYNCED)) {
        free(parent);
        return parent == NULL ? PS_NOMEM : 0;
    }
    int err = vfs->sync_dir(vfs->ctx, store->dir);
    if (err == 0) {
        err = vfs->sync_dir(vfs->ctx, parent);
        err = is_foreign(err) ? 0 : err;
    }
    free(parent);
    return err == 0 ? 0 : fault_at(fault, err, store->dir, "syncing its name");
}

/* The file's page size; a caller that asks for another one is told. */
static int settle_page_size(struct ps_store *store, bool fresh, struct ps_fault *fault)
{
    uint32_t asked = store->options.page_size;
    if (fresh) {
        store->options.page_size = asked == 0 ? PAGE_MIN : asked;
        return 0;
    }
    store->options.page_size = store->meta.page_size;
    if (asked == 0 || asked == store->meta.page_size) {
        return 0;
    }
    fault_set(fault, PS_VERSION, 0, store->file_path, 0, "pages of %u bytes, not of %u",
              store->meta.page_size, asked);
    return PS_VERSION;
}

static int open_all(struct ps_store *store, struct ps_recovery *report, struct ps_fault *fault)
{
    enum newness found;
    int rc = check_options(store, fault);
    rc = rc == 0 ? open_files(store, fault) : rc;
    rc = rc == 0 ? recovery_choose_meta(store, &store->meta, &found, fault) : rc;
    if (rc != 0) {
        return rc;
    }
    bool fresh = found != NEW_NOT;
    if (fresh && store->options.read_only_check) {
        fault_set(fault, PS_CORRUPT, 0, store->file_path, 0,
                  "no meta: not a store, or an empty one");
        return PS_CORRUPT;
    }
    rc = settle_page_size(store, fresh, fault);
    if (rc != 0) {
        return rc;
    }
    rc = open_memory(store);
    rc = rc == 0 ? map_file(store, fault) : rc;
    rc = rc == 0 ? open_space(store, fresh, fault) : rc;
    rc = rc == 0 ? first_state(store, fresh, fault) : rc;
    if (lost_since(store, 0)) {
        rc = lost_report(store);
        ps_last_fault(store, fault);
    }
    rc = rc == 0 ? snapshot_init(store, &store->checkpoint_snap) : rc;
    if (rc != 0 || store->options.read_only_check) {
        return rc;
    }
    rc = log_open(store->vfs, store->dir, store->options.log_segment_size, &store->log, fault);
    if (rc != 0) {
        return rc;
    }
    report->created = fresh;
    rc = sync_names(store, fault);
    if (rc != 0) {
        return rc;
    }
    if (fresh) {
        return create(store, found, fault);
    }
    token_take(store);
    rc = recover(store, report, fault);
    token_give(store);
    return rc;
}

int ps_open(const char *dir, const struct ps_options *options, struct ps_store **out,
            struct ps_recovery *recovery, struct ps_fault *fault)
{
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    struct ps_recovery report = {0};
    struct ps_fault unused = {0};
    fault = fault == NULL ? &unused : fault;
    memset(fault, 0, sizeof *fault);
    *out = NULL;
    struct ps_store *store = store_alloc(dir, options);
    if (store == NULL) {
        return PS_NOMEM;
    }
    int rc = is_whole(store) ? open_all(store, &report, fault) : PS_NOMEM;
    if (rc == 0 && !store->options.read_only_check) {
        arena_use_huge_pages(&store->arena);
        rc = helper_start(store);
        rc = rc == 0 ? log_thread_start(store) : rc;
        if (rc == 0 && !store->options.manual_checkpoint) {
            rc = checkpoint_thread_start(store);
        }
    }
    if (rc != 0) {
        if (fault->code == 0) { /* what was found in a page, say, while the log was replayed */
            ps_last_fault(store, fault);
        }
        if (fault->code == 0) {
            fault_set(fault, rc, 0, dir, 0, "%s", ps_strerror(rc));
        }
        store->poisoned = PS_POISONED; /* nothing more is written */
        (void)ps_close(store, false);
        return rc;
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    report.microseconds = (uint64_t)((ended.tv_sec - began.tv_sec) * 1000000 +
                                     (ended.tv_nsec - began.tv_nsec) / 1000);
    if (recovery != NULL) {
        *recovery = report;
    }
    *out = store;
    return 0;
}

/* No state, and any page may be part of something. */
static int believe_nothing(struct ps_store *store, uint64_t pages)
{
    atomic_store(&store->file_pages, pages);
    atomic_store(&store->file_keys, true);
    store->loaded_stamp = UINT64_MAX;
    memset((void *)store->mapped, 0xff, (size_t)pages / 8 + 1);
    store->space_open = true;
    int rc = space_init(&store->space, store->vfs, store->fd, store->page_shift,
                        META_RESERVED >> store->page_shift, pages);
    struct state *nothing = rc == 0 ? state_new(store) : NULL;
    atomic_store(&store->published, nothing);
    return rc == 0 && nothing == NULL ? PS_NOMEM : rc;
}

int store_open_damaged(const char *dir, uint32_t page_size, struct ps_store **out,
                       struct ps_fault *fault)
{
    struct ps_options options = {.read_only_check = true, .page_size = page_size};
    struct ps_store *store = store_alloc(dir, &options);
    uint64_t bytes = 0;
    *out = NULL;
    if (store == NULL || store->readers == NULL || store->file_path == NULL) {
        return PS_NOMEM;
    }
    int rc = open_files(store, fault);
    rc = rc == 0 ? errno_code(store->vfs->size(store->vfs->ctx, store->fd, &bytes)) : rc;
    rc = rc == 0 ? open_memory(store) : rc;
    rc = rc == 0 ? map_file(store, fault) : rc;
    rc = rc == 0 ? believe_nothing(store, bytes >> store->page_shift) : rc;
    if (rc != 0) {
        (void)ps_close(store, false);
        return rc;
    }
    *out = store;
    return 0;
}

/* ---- closing --------------------------------------------------------------------------------- */

static void free_groups(struct group *g)
{
    while (g != NULL) {
        struct group *next = g->next;
        if (g->state != NULL) {
            state_free(g->state);
        }
        group_free(g);
        g = next;
    }
}

static void free_states(struct state *s)
{
    while (s != NULL) {
        struct state *next = s->next;
        state_free(s);
        s = next;
    }
}

static void release_memory(struct ps_store *store)
{
    free_groups(store->groups);
    free_groups(store->group_pool);
    free_states(store->state_pool);
    free_states(store->retired);
    state_free(atomic_load(&store->published));
    state_free(store->file_state);
    while (store->names != NULL) {
        struct tree_name *next = store->names->next;
        free(store->names);
        store->names = next;
    }
    reclaim_close(store);
    vec_free(&store->adopting);
    vec_free(&store->sweep.key);
    vec_free(&store->sweep.next);
    vec_free(&store->spilled.key);
    if (store->space_open) {
        space_destroy(&store->space);
    }
    arena_close(&store->arena);
    for (unsigned i = 0; i < 4; i++) {
        free(store->scratch[i]);
        free(store->keys[i]);
    }
    free(store->items);
    free(store->operators);
    encoder_free(&store->encoder);
    decoded_free(&store->merging);
    decoded_free(&store->txn.view.decoded);
    decoded_free(&store->internal_txn.view.decoded);
    free(store->readers);
    free(store->listing);
    image_free(store->image);
    watch_free(store->watch);
    free(store->dir);
    free(store->file_path);
    free(store);
}

int ps_close(struct ps_store *store, bool checkpoint)
{
    const struct ps_vfs *vfs = store->vfs;
    int rc = 0;
    pthread_mutex_lock(&store->mu);
    bool poisoned = store->poisoned != 0;
    pthread_mutex_unlock(&store->mu);
    if (store->log_thread_runs && !poisoned) {
        rc = publication_wait(store, UINT64_MAX);
        if (rc == 0 && ps_get_durability(store) != PS_NONE) {
            rc = ps_flush(store, ps_published(store));
        }
        if (rc == 0 && checkpoint) {
            rc = checkpoint_ask(store, true);
        }
    }
    checkpoint_thread_stop(store);
    log_thread_stop(store);
    helper_stop(store);
    if (store->log != NULL) {
        log_close(store->log);
    }
    lost_unwatch(store);
    if (store->base[0] != NULL) {
        (void)vfs->munmap(vfs->ctx, (void *)(uintptr_t)store->base[0], store->map_bytes);
    }
    if (store->verified != NULL) {
        munmap((void *)store->verified, 4 * store->verified_bytes);
    }
    if (store->fd >= 0) {
        (void)vfs->close(vfs->ctx, store->fd);
    }
    if (store->lock_fd >= 0) {
        (void)vfs->close(vfs->ctx, store->lock_fd);
    }
    release_memory(store);
    return rc;
}
