/*
 * lost.c - see lost.h.
 */
#include "storage/lost.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "storage/store.h"

#define WATCHED PS_MAX_STORES

/* A store is found by its mapping; `bytes` is 0 while an entry is not in use. */
static struct watched {
    _Atomic uintptr_t base;
    _Atomic size_t bytes;
    struct ps_store *store;
} watched[WATCHED];
static pthread_mutex_t watching = PTHREAD_MUTEX_INITIALIZER;
static unsigned watched_stores; /* watching */
static struct sigaction before; /* set before the handler can be called */
/* A handler that came after ours stayed when the last store was closed, and may go on to ours for
 * ever: if ours is installed again, above it, each goes on to the other. Then `below` is next. */
static struct sigaction below;
static _Atomic bool left_below; /* set by watching */
static _Thread_local bool passing_on;

static void lock(struct lost *lost)
{
    while (atomic_flag_test_and_set_explicit(&lost->lock, memory_order_acquire)) {
    }
}

static void unlock(struct lost *lost)
{
    atomic_flag_clear_explicit(&lost->lock, memory_order_release);
}

/* ---- in the handler: nothing that is not safe there -------------------------------------------
 */

/* lock held */
static bool is_lost(const struct lost *lost, page_ref first, page_ref end)
{
    for (unsigned i = 0; i < atomic_load(&lost->count); i++) {
        if (first < lost->ranges[i].end && end > lost->ranges[i].first) {
            return true;
        }
    }
    return false;
}

/* What is lost with a page: all beyond the end of a file that ends before it; all there is where
 * there have been too many losses (L4); else the page. */
static struct lost_range extent_of(struct ps_store *store, page_ref page)
{
    struct lost *lost = &store->lost;
    page_ref all = store->map_bytes >> store->page_shift;
    struct stat st;
    if (fstat(store->fd, &st) == 0 && (uint64_t)st.st_size < (page + 1) << store->page_shift) {
        atomic_store(&lost->cut_off, true);
        return (struct lost_range){(uint64_t)st.st_size >> store->page_shift, all};
    }
    if (atomic_load(&lost->count) >= LOST_RANGES - 2) { /* one is kept for the end of the file */
        return (struct lost_range){0, all};
    }
    return (struct lost_range){page, page + 1};
}

static bool put_zeros(struct ps_store *store, const struct lost_range *range)
{
    uint8_t *at = (uint8_t *)(uintptr_t)store->base[0] + (range->first << store->page_shift);
    size_t bytes = (size_t)((range->end - range->first) << store->page_shift);
    return mmap(at, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
                0) != MAP_FAILED;
}

/* Runs contain pages that have no bit of their own: none counts as checked. */
static void forget_checks(struct ps_store *store)
{
    uint64_t words = atomic_load(&store->file_pages) / 64 + 1;
    for (uint64_t i = 0; i < words; i++) {
        atomic_store_explicit(&store->verified[i], 0, memory_order_relaxed);
        atomic_store_explicit(&store->verified_runs[i], 0, memory_order_relaxed);
    }
}

static bool lose(struct ps_store *store, page_ref page)
{
    struct lost *lost = &store->lost;
    bool done = true;
    lock(lost);
    if (!is_lost(lost, page, page + 1)) {
        atomic_fetch_add(&store->losses_begun, 1);
        struct lost_range range = extent_of(store, page);
        done = put_zeros(store, &range);
        if (done) {
            unsigned n = atomic_load(&lost->count);
            lost->ranges[n < LOST_RANGES ? n : LOST_RANGES - 1] = range;
            atomic_store(&lost->count, n < LOST_RANGES ? n + 1 : n);
            forget_checks(store);
        }
        atomic_fetch_add(&lost->ended, 1);
    }
    unlock(lost);
    return done;
}

/* Whether somebody sent the signal: there is no address, and no instruction to be repeated. */
static bool was_sent(const siginfo_t *info)
{
    return info->si_code <= 0;
}

/* As if this handler were not there. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    bool left = atomic_load(&left_below);
    const struct sigaction *next = left && passing_on ? &below : &before;
    bool outer = passing_on;
    passing_on = left;
    if ((next->sa_flags & SA_SIGINFO) != 0) {
        next->sa_sigaction(number, info, context);
    } else if (next->sa_handler != SIG_DFL && next->sa_handler != SIG_IGN) {
        next->sa_handler(number);
    } else if (next->sa_handler == SIG_DFL || !was_sent(info)) {
        struct sigaction usual = {.sa_handler = SIG_DFL};
        (void)sigaction(number, &usual, NULL); /* the instruction is repeated, and ends it */
        if (was_sent(info)) {
            (void)raise(number); /* when the handler is over */
        }
    }
    passing_on = outer;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    int kept = errno;
    uintptr_t at = (uintptr_t)info->si_addr;
    for (unsigned i = 0; i < WATCHED && !was_sent(info); i++) {
        size_t bytes = atomic_load(&watched[i].bytes);
        uintptr_t base = atomic_load(&watched[i].base);
        if (bytes != 0 && at - base < bytes) {
            struct ps_store *store = watched[i].store;
            bool done = lose(store, (at - base) >> store->page_shift);
            errno = kept;
            if (done) {
                return;
            }
        }
    }
    pass_on(number, info, context);
    errno = kept;
}

/* ---- watching ---------------------------------------------------------------------------------
 */

static int install(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    action.sa_sigaction = on_bus_error;
    sigfillset(&action.sa_mask);
    sigdelset(&action.sa_mask, SIGSEGV);
    if (sigaction(SIGBUS, NULL, &before) != 0) {
        return PS_IO;
    }
    if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
        atomic_store(&left_below, false); /* it is gone since */
    }
    return sigaction(SIGBUS, &action, NULL) == 0 ? 0 : PS_IO;
}

/* Unless somebody came after and goes on to this one. */
static void uninstall(void)
{
    struct sigaction now;
    if (sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
        now.sa_sigaction == on_bus_error) {
        (void)sigaction(SIGBUS, &before, NULL);
    } else if (!atomic_load(&left_below)) {
        below = before;
        atomic_store(&left_below, true);
    }
}

int lost_watch(struct ps_store *store)
{
    bool faults = store->image == NULL; /* else the image is memory, and only counted */
    pthread_mutex_lock(&watching);
    unsigned i = 0;
    while (i < WATCHED && atomic_load(&watched[i].bytes) != 0) {
        i++;
    }
    int rc = i == WATCHED ? PS_LIMIT : watched_stores == 0 && faults ? install() : 0;
    if (rc == 0) {
        watched[i].store = store;
        atomic_store(&watched[i].base, (uintptr_t)store->base[0]);
        atomic_store(&watched[i].bytes, store->map_bytes);
        watched_stores++;
        store->watched = true;
    }
    pthread_mutex_unlock(&watching);
    return rc;
}

void lost_unwatch(struct ps_store *store)
{
    if (!store->watched) {
        return;
    }
    pthread_mutex_lock(&watching);
    for (unsigned i = 0; i < WATCHED; i++) {
        if (atomic_load(&watched[i].bytes) != 0 && watched[i].store == store) {
            atomic_store(&watched[i].bytes, 0);
        }
    }
    if (--watched_stores == 0) {
        uninstall();
    }
    pthread_mutex_unlock(&watching);
    store->watched = false;
}

/* ---- afterwards -------------------------------------------------------------------------------
 */

bool lost_within(struct ps_store *store, page_ref first, uint64_t pages)
{
    if (likely(atomic_load_explicit(&store->lost.count, memory_order_relaxed) == 0)) {
        return false;
    }
    lock(&store->lost);
    bool yes = is_lost(&store->lost, first, first + pages);
    unlock(&store->lost);
    return yes;
}

void lost_restore(struct ps_store *store, page_ref first, uint64_t pages)
{
    struct lost *lost = &store->lost;
    if (likely(atomic_load_explicit(&lost->count, memory_order_relaxed) == 0)) {
        return;
    }
    lock(lost);
    for (unsigned i = 0; i < atomic_load(&lost->count);) {
        struct lost_range range = lost->ranges[i];
        uint8_t *at = (uint8_t *)(uintptr_t)store->base[0] + (range.first << store->page_shift);
        if (range.first >= first && range.end == range.first + 1 && range.end <= first + pages &&
            mmap(at, store->page_size, PROT_READ, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, store->fd,
                 (off_t)(range.first << store->page_shift)) != MAP_FAILED) {
            unsigned n = atomic_load(&lost->count) - 1;
            lost->ranges[i] = lost->ranges[n];
            atomic_store(&lost->count, n);
        } else {
            i++;
        }
    }
    unlock(lost);
}

int lost_report(struct ps_store *store)
{
    struct lost *lost = &store->lost;
    bool cut_off = atomic_load(&lost->cut_off);
    lock(lost);
    unsigned n = atomic_load(&lost->count);
    struct lost_range range = n > 0 ? lost->ranges[n - 1] : (struct lost_range){0, 0};
    unlock(lost);
    uint64_t offset = range.first << store->page_shift;
    const char *what = cut_off ? "the file was cut off by somebody else" : "a page cannot be read";
    store_fault(store, PS_IO, EIO, store->file_path, offset, "%s (SIGBUS)", what);
    uint64_t losses = atomic_load(&lost->ended);
    if (atomic_exchange(&lost->told, losses) != losses) {
        store_message(store, 1, "%s: offset %llu: %s", store->file_path, (unsigned long long)offset,
                      what);
    }
    return cut_off && !atomic_exchange(&lost->poisoned, true) ? store_poison(store, PS_IO) : PS_IO;
}
