/*
 * test_lost.c - pages of the mapping that cannot be read: SIGBUS becomes an error of that call.
 *
 * A file that somebody cuts off is cut off; a media error is a page of the mapping that is replaced
 * by one of an empty file. Where the image is anonymous memory nothing of this can happen, and
 * each test shows that instead.
 */
#include "tests/support/store_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/image.h"
#include "storage/vfs.h"

#define KEYS  6000u
#define VALUE 100u

/* The fixture, and what is behind the store's back. */
struct world {
    struct fixture *f;
    struct ps_vfs vfs;
    int empty;
};

static uint8_t *mapping; /* the last one that was made */

static int note_mmap(void *ctx, int fd, size_t len, void **address)
{
    int rc = ps_vfs_posix()->mmap(ctx, fd, len, address);
    mapping = rc == 0 ? *address : NULL;
    return rc;
}

static struct ps_slice key_of(char buf[16], unsigned i)
{
    return (struct ps_slice){buf, (size_t)snprintf(buf, 16, "key %05u", i)};
}

static bool is_value(struct ps_slice value, unsigned i)
{
    char begin[16];
    snprintf(begin, sizeof begin, "%014u", i);
    return value.len == VALUE && memcmp(value.data, begin, 14) == 0;
}

/* A store with all its pages in the file. It is opened by the test: cmocka handles SIGBUS itself
 * from the beginning of each test on. */
static int set_up_pages(void **state, uint32_t page_size)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->f = fixture_directory();
    w->vfs = *ps_vfs_posix();
    w->vfs.mmap = note_mmap;
    w->empty = memfd_create("empty", MFD_CLOEXEC);
    assert_true(w->empty >= 0);
    w->f->options.vfs = &w->vfs;
    w->f->options.page_size = page_size;
    w->f->options.manual_checkpoint = true;
    fixture_open(w->f);
    struct ps_txn *txn = fixture_begin(w->f);
    assert_int_equal(ps_tree_create(txn, text("tree"), &w->f->tree), 0);
    fixture_commit(txn);
    fixture_fill(w->f, 0, KEYS, VALUE);
    fixture_close(w->f, true);
    *state = w;
    alarm(120);
    return 0;
}

static int set_up(void **state)
{
    return set_up_pages(state, 4096);
}

static int set_up_large_pages(void **state)
{
    return set_up_pages(state, 16384);
}

static int tear_down(void **state)
{
    struct world *w = *state;
    if (w != NULL) {
        if (w->f->store != NULL) {
            (void)ps_close(w->f->store, false);
        }
        store_dir_remove(w->f->dir);
        close(w->empty);
        free(w->f);
        free(w);
    }
    alarm(0);
    return 0;
}

static off_t size_of(struct world *w)
{
    char path[STORE_DIR_PATH + 16];
    struct stat st;
    snprintf(path, sizeof path, "%s/pando.db", w->f->dir);
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void cut_off(struct world *w, off_t bytes)
{
    char path[STORE_DIR_PATH + 16];
    snprintf(path, sizeof path, "%s/pando.db", w->f->dir);
    assert_int_equal(truncate(path, bytes), 0);
}

/* Where in the file the leaf with a key is. */
static uint64_t place_of(struct world *w, unsigned i)
{
    struct ps_snapshot *snap = fixture_snapshot(w->f);
    struct ps_slice value;
    char buf[16];
    assert_int_equal(ps_get(ps_snapshot_view(snap), w->f->tree, key_of(buf, i), &value), 0);
    assert_true(is_value(value, i));
    uint64_t at = (uint64_t)((const uint8_t *)value.data - mapping);
    ps_snapshot_free(snap);
    assert_true(at < (uint64_t)size_of(w));
    return at / w->f->options.page_size * w->f->options.page_size;
}

/* The 4 KiB at an offset cannot be read any more. */
static void break_at(struct world *w, uint64_t offset)
{
    void *at = mmap(mapping + offset, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, w->empty, 0);
    assert_ptr_equal(at, mapping + offset);
}

static struct ps_stat stats(struct world *w)
{
    struct ps_stat stat;
    ps_stats(w->f->store, &stat);
    return stat;
}

/* Every key by itself: right or PS_IO. How many were right. */
static unsigned count_right(struct world *w)
{
    struct ps_snapshot *snap = fixture_snapshot(w->f);
    unsigned right = 0;
    for (unsigned i = 0; i < KEYS; i++) {
        char buf[16];
        struct ps_slice value;
        int rc = ps_get(ps_snapshot_view(snap), w->f->tree, key_of(buf, i), &value);
        assert_true(rc == 0 || rc == PS_IO);
        bool fits = rc == 0 && is_value(value, i);
        if (ps_view_check(ps_snapshot_view(snap)) != 0) {
            ps_view_resume(ps_snapshot_view(snap));
        } else if (rc == 0) {
            assert_true(fits);
            right++;
        }
    }
    ps_snapshot_free(snap);
    return right;
}

/* Where the image is memory there is nothing to lose: then that is what each of these tests shows.
 */
static bool nothing_can_be_lost(struct world *w)
{
    fixture_open(w->f);
    if (IMAGE_ANONYMOUS) {
        cut_off(w, 131072);
        assert_int_equal(count_right(w), KEYS);
    }
    return IMAGE_ANONYMOUS;
}

#define OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w) \
    if (nothing_can_be_lost(w)) {            \
        return;                              \
    }

static void a_file_that_is_cut_off_fails_the_reads_that_need_the_rest_and_no_others(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    struct ps_fault fault;
    /* The root was written last, and before it what is read first: known before the cut. */
    assert_int_equal(count_right(w), KEYS);
    cut_off(w, size_of(w) / 8 / 4096 * 4096);
    unsigned right = count_right(w);
    assert_true(right < KEYS);
    ps_last_fault(w->f->store, &fault);
    assert_int_equal(fault.code, PS_IO);
    assert_non_null(strstr(fault.what, "cut off"));
    assert_true(stats(w).losses > 0);
    assert_int_equal(count_right(w), right);
}

static void a_store_whose_file_was_cut_off_takes_no_more_writes(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    struct ps_txn *txn;
    cut_off(w, 131072);
    assert_int_equal(count_right(w), 0);
    assert_int_equal(ps_begin(w->f->store, &txn), PS_POISONED);
    assert_int_equal(ps_checkpoint(w->f->store), PS_POISONED);
}

static void a_checkpoint_notices_that_the_file_was_cut_off(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    struct ps_txn *txn = fixture_begin(w->f);
    ps_tree other;
    assert_int_equal(ps_tree_create(txn, text("other"), &other), 0);
    fixture_commit(txn);
    off_t bytes = size_of(w);
    cut_off(w, bytes - 4096);
    assert_int_equal(ps_checkpoint(w->f->store), PS_POISONED);
    cut_off(w, bytes);
}

static void a_page_with_a_media_error_fails_its_readers_alone_and_writing_goes_on(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    break_at(w, place_of(w, 3000));
    unsigned right = count_right(w);
    assert_true(right < KEYS && right > KEYS - KEYS / 10);
    assert_int_equal(stats(w).losses, 1);
    char buf[16];
    for (unsigned i = KEYS; i < KEYS + 50; i++) {
        struct ps_txn *txn = fixture_begin(w->f);
        assert_int_equal(ps_put(txn, w->f->tree, key_of(buf, i), text("more")), 0);
        fixture_commit(txn);
    }
    assert_int_equal(ps_checkpoint(w->f->store), 0);
    assert_int_equal(count_right(w), right);
    assert_int_equal(ps_check(w->f->store, NULL, NULL), PS_CORRUPT);
}

static void a_lost_page_that_is_written_again_can_be_read_again(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    break_at(w, place_of(w, 3000));
    assert_true(count_right(w) < KEYS);
    /* All pages are given back, and then used again. */
    struct ps_txn *txn = fixture_begin(w->f);
    assert_int_equal(ps_clear(txn, w->f->tree), 0);
    fixture_commit(txn);
    for (unsigned round = 0; round < 4; round++) {
        fixture_fill(w->f, 0, KEYS, VALUE);
        assert_int_equal(ps_checkpoint(w->f->store), 0);
    }
    fixture_put(w->f, "z", "z"); /* the idle store looks at the file only */
    assert_int_equal(ps_checkpoint(w->f->store), 0);
    assert_int_equal(count_right(w), KEYS);
    assert_int_equal(ps_check(w->f->store, NULL, NULL), 0);
}

static void after_too_many_media_errors_every_read_fails(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    for (off_t at = 131072; at < size_of(w); at += 4096) {
        break_at(w, (uint64_t)at);
    }
    assert_int_equal(count_right(w), 0);
    assert_int_equal(count_right(w), 0);
}

static void a_cursor_that_stands_on_a_lost_page_says_so(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    struct ps_snapshot *snap = fixture_snapshot(w->f);
    struct ps_view *view = ps_snapshot_view(snap);
    struct ps_cursor *cursor;
    struct ps_slice key, value;
    unsigned seen = 0;
    int rc;
    assert_int_equal(ps_cursor_open(view, w->f->tree, &cursor), 0);
    for (rc = ps_cursor_first(cursor); rc == 0; rc = ps_cursor_next(cursor)) {
        rc = ps_cursor_get(cursor, &key, &value);
        if (rc != 0 || ps_view_check(view) != 0) {
            break;
        }
        assert_true(is_value(value, seen));
        if (++seen == KEYS / 2) {
            cut_off(w, 131072);
        }
    }
    assert_true(seen >= KEYS / 2 && seen < KEYS);
    assert_int_equal(rc == 0 ? ps_view_check(view) : rc, PS_IO);
    ps_view_resume(view);
    /* It stands nowhere; nothing is made up. */
    assert_true(ps_cursor_next(cursor) < 0);
    assert_true(ps_cursor_get(cursor, &key, &value) < 0);
    assert_int_equal(ps_cursor_last(cursor), PS_IO);
    ps_cursor_close(cursor);
    ps_snapshot_free(snap);
}

static void what_was_returned_before_is_checked_afterwards(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    struct ps_snapshot *snap = fixture_snapshot(w->f);
    struct ps_view *view = ps_snapshot_view(snap);
    struct ps_slice value;
    char buf[16];
    assert_int_equal(ps_get(view, w->f->tree, key_of(buf, 7), &value), 0);
    assert_true(is_value(value, 7));
    assert_int_equal(ps_view_check(view), 0);
    cut_off(w, 131072);
    assert_false(is_value(value, 7));
    assert_int_equal(ps_view_check(view), PS_IO);
    assert_int_equal(ps_get(view, w->f->tree, key_of(buf, 7), &value), PS_IO);
    ps_view_resume(view);
    assert_int_equal(ps_view_check(view), 0);
    assert_int_equal(ps_get(view, w->f->tree, key_of(buf, 7), &value), PS_IO);
    ps_snapshot_free(snap);
}

static void a_transaction_does_not_put_what_may_be_zeros(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    struct ps_slice value;
    char buf[16];
    fixture_put(w->f, "dirty", "memory");
    struct ps_txn *txn = fixture_begin(w->f);
    assert_int_equal(ps_get(ps_txn_view(txn), w->f->tree, key_of(buf, 3000), &value), 0);
    cut_off(w, 131072);
    assert_false(is_value(value, 3000));
    assert_int_equal(ps_put(txn, w->f->tree, text("copy"), value), PS_IO);
    ps_abort(txn);
}

static void a_change_on_lost_pages_leaves_nothing_of_itself(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    for (unsigned round = 0; round < 3; round++) {
        struct ps_txn *txn = fixture_begin(w->f);
        char buf[16];
        if (round == 0) {
            break_at(w, place_of(w, 0));
        }
        struct ps_slice key = key_of(buf, round);
        int rc = round == 0   ? ps_put(txn, w->f->tree, key, text("x"))
                 : round == 1 ? ps_delete(txn, w->f->tree, key)
                              : ps_tree_drop(txn, w->f->tree);
        if (rc == 0) { /* nothing that was lost is needed to drop a tree */
            assert_int_equal(round, 2);
            ps_abort(txn);
        } else {
            assert_int_equal(rc, PS_IO);
            assert_int_equal(ps_commit(txn, PS_EVERYSEC, NULL), round == 0 ? PS_IO : 0);
        }
        uint64_t count;
        struct ps_snapshot *snap = fixture_snapshot(w->f);
        assert_int_equal(ps_count(ps_snapshot_view(snap), w->f->tree, &count), 0);
        assert_int_equal(count, KEYS);
        ps_snapshot_free(snap);
    }
}

struct reader {
    struct world *w;
    pthread_t thread;
    unsigned seed;
    uint64_t right, lost;
};

#define MUST(condition)                                                     \
    do { /* cmocka's assertions belong to the main thread */                \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

static _Atomic bool readers_stop;

static void read_some(struct reader *r, struct ps_view *view)
{
    struct ps_lookup lookups[20];
    char keys[20][16];
    unsigned first = (unsigned)rand_r(&r->seed) % (KEYS - 20);
    for (unsigned i = 0; i < 20; i++) {
        lookups[i] = (struct ps_lookup){.tree = r->w->f->tree, .key = key_of(keys[i], first + i)};
    }
    ps_get_many(view, lookups, 20);
    for (unsigned i = 0; i < 20; i++) {
        bool fits = lookups[i].rc == 0 && is_value(lookups[i].value, first + i);
        bool lost = ps_view_check(view) != 0;
        MUST(fits || lost || lookups[i].rc == PS_IO);
        r->right += fits && !lost;
        r->lost += !fits;
    }
}

static void walk_some(struct reader *r, struct ps_view *view)
{
    struct ps_cursor *cursor;
    struct ps_slice value;
    char buf[16];
    unsigned at = (unsigned)rand_r(&r->seed) % KEYS;
    bool forward = at % 2 == 0;
    MUST(ps_cursor_open(view, r->w->f->tree, &cursor) == 0);
    int rc = ps_cursor_seek(cursor, key_of(buf, at), PS_EQ);
    for (unsigned i = 0; rc == 0 && i < 200; i++) {
        rc = ps_cursor_get(cursor, NULL, &value);
        bool fits = rc == 0 && is_value(value, forward ? at + i : at - i);
        MUST(fits || rc == PS_IO || ps_view_check(view) != 0);
        if (rc == 0) {
            rc = forward ? ps_cursor_next(cursor) : ps_cursor_prev(cursor);
        }
    }
    MUST(rc == 0 || rc == PS_IO || rc == PS_NOTFOUND);
    ps_cursor_close(cursor);
}

static _Atomic unsigned rounds_read; /* by all readers */

static void *read_on(void *arg)
{
    struct reader *r = arg;
    struct ps_snapshot *snap;
    MUST(ps_snapshot_new(r->w->f->store, &snap) == 0);
    while (!atomic_load(&readers_stop)) {
        ps_snapshot_renew(snap);
        read_some(r, ps_snapshot_view(snap));
        ps_snapshot_renew(snap);
        walk_some(r, ps_snapshot_view(snap));
        atomic_fetch_add(&rounds_read, 1);
    }
    ps_snapshot_free(snap);
    return NULL;
}

/* While others read, the file gets shorter and shorter. */
static void readers_survive_a_file_that_shrinks(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    struct reader readers[3];
    uint64_t lost = 0, right = 0;
    atomic_store(&readers_stop, false);
    atomic_store(&rounds_read, 0);
    for (unsigned i = 0; i < 3; i++) {
        readers[i] = (struct reader){.w = w, .seed = i};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]), 0);
    }
    while (atomic_load(&rounds_read) < 3) /* something is read while all is there */
        sched_yield();
    for (off_t bytes = size_of(w); bytes > 131072; bytes -= 8192) {
        cut_off(w, bytes / 4096 * 4096);
        sched_yield();
    }
    struct ps_stat stat;
    do {
        stat = stats(w);
        sched_yield();
    } while (stat.losses == 0);
    atomic_store(&readers_stop, true);
    for (unsigned i = 0; i < 3; i++) {
        pthread_join(readers[i].thread, NULL);
        lost += readers[i].lost;
        right += readers[i].right;
    }
    assert_true(lost > 0 && right > 0);
}

static void a_file_that_is_cut_off_before_it_is_opened_is_refused(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    fixture_close(w->f, false);
    cut_off(w, 131072);
    struct ps_fault fault;
    assert_int_equal(ps_open(w->f->dir, &w->f->options, &w->f->store, NULL, &fault), PS_CORRUPT);
    assert_non_null(strstr(fault.what, "shorter"));
}

static uint8_t *volatile foreign; /* a mapping that is no store's */
static _Atomic unsigned foreign_faults;

static void on_foreign(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    assert_ptr_equal(info->si_addr, foreign);
    foreign_faults++;
    (void)mmap(foreign, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void a_sigbus_elsewhere_goes_to_the_handler_that_was_there_before(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    struct sigaction mine = {.sa_flags = SA_SIGINFO, .sa_sigaction = on_foreign}, was, now;
    fixture_close(w->f, false);
    assert_int_equal(sigaction(SIGBUS, &mine, &was), 0);
    fixture_open(w->f);
    foreign = mmap(NULL, 4096, PROT_READ, MAP_SHARED, w->empty, 0);
    assert_int_equal(*(volatile uint8_t *)foreign, 0);
    assert_int_equal(foreign_faults, 1);
    munmap(foreign, 4096);
    assert_int_equal(count_right(w), KEYS);
    fixture_close(w->f, false);
    assert_int_equal(sigaction(SIGBUS, &was, &now), 0);
    assert_true(now.sa_sigaction == on_foreign); /* it is as it was */
}

static struct sigaction ours; /* the engine's handler, for one that came after it */
static void (*ours_is)(int, siginfo_t *, void *);

static void go_on_to_ours(int number, siginfo_t *info, void *context)
{
    foreign_faults++;
    ours_is(number, info, context);
}

/* How a process ends that does this beside a store of its own: its wait status. */
static int end_of_child(struct world *w, void (*act)(struct world *w))
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct sigaction usual = {.sa_handler = SIG_DFL};
        (void)sigaction(SIGBUS, &usual, NULL);
        (void)alarm(60);
        act(w);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static bool open_in_child(struct world *w)
{
    return ps_open(w->f->dir, &w->f->options, &w->f->store, NULL, NULL) == 0;
}

static void touch_foreign(struct world *w)
{
    foreign = mmap(NULL, 4096, PROT_READ, MAP_SHARED, w->empty, 0);
    (void)*(volatile uint8_t *)foreign;
}

static void come_after_and_stay(struct world *w)
{
    struct sigaction mine = {.sa_flags = SA_SIGINFO, .sa_sigaction = go_on_to_ours};
    for (int i = 0; i < 2; i++) {
        if (!open_in_child(w))
            _exit(1);
        if (i == 0) {
            (void)sigaction(SIGBUS, &mine, &ours);
            ours_is = ours.sa_sigaction;
        }
        (void)ps_close(w->f->store, false);
    }
    if (open_in_child(w))
        touch_foreign(w);
}

/* Neither may it end in a circle of the two. */
static void a_sigbus_elsewhere_ends_the_process_though_a_handler_came_after_and_stayed(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    fixture_close(w->f, false);
    int status = end_of_child(w, come_after_and_stay);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
}

static void send_the_signal(struct world *w)
{
    if (open_in_child(w))
        (void)raise(SIGBUS);
}

static void send_the_signal_that_is_ignored(struct world *w)
{
    struct sigaction none = {.sa_handler = SIG_IGN}, now;
    (void)sigaction(SIGBUS, &none, NULL);
    if (!open_in_child(w))
        _exit(1);
    (void)raise(SIGBUS);
    if (sigaction(SIGBUS, NULL, &now) != 0 || now.sa_handler == SIG_DFL)
        _exit(2);
}

/* It is about no page: it does what it did before, and losses are noticed as ever. */
static void a_sigbus_that_somebody_sent_does_what_it_would_do_without_a_store(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    fixture_close(w->f, false);
    int status = end_of_child(w, send_the_signal);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
    status = end_of_child(w, send_the_signal_that_is_ignored);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void stores_in_one_process_do_not_disturb_each_other(void **state)
{
    struct world *w = *state;
    OPEN_OR_SHOW_THAT_NOTHING_IS_LOST(w);
    void *other;
    assert_int_equal(set_up_pages(&other, 4096), 0);
    fixture_open(((struct world *)other)->f);
    cut_off(other, 131072);
    assert_int_equal(count_right(other), 0);
    assert_int_equal(count_right(w), KEYS);
    assert_int_equal(tear_down(&other), 0);
    cut_off(w, 131072);
    assert_int_equal(count_right(w), 0);
}

int main(void)
{
#define TEST(name)  cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define LARGE(name) cmocka_unit_test_setup_teardown(name, set_up_large_pages, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_file_that_is_cut_off_fails_the_reads_that_need_the_rest_and_no_others),
        TEST(a_store_whose_file_was_cut_off_takes_no_more_writes),
        TEST(a_checkpoint_notices_that_the_file_was_cut_off),
        TEST(a_page_with_a_media_error_fails_its_readers_alone_and_writing_goes_on),
        TEST(a_lost_page_that_is_written_again_can_be_read_again),
        TEST(after_too_many_media_errors_every_read_fails),
        TEST(a_cursor_that_stands_on_a_lost_page_says_so),
        TEST(what_was_returned_before_is_checked_afterwards),
        TEST(a_transaction_does_not_put_what_may_be_zeros),
        TEST(a_change_on_lost_pages_leaves_nothing_of_itself),
        TEST(readers_survive_a_file_that_shrinks),
        LARGE(readers_survive_a_file_that_shrinks),
        TEST(a_file_that_is_cut_off_before_it_is_opened_is_refused),
        TEST(a_sigbus_elsewhere_goes_to_the_handler_that_was_there_before),
        TEST(a_sigbus_elsewhere_ends_the_process_though_a_handler_came_after_and_stayed),
        TEST(a_sigbus_that_somebody_sent_does_what_it_would_do_without_a_store),
        TEST(stores_in_one_process_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
