/*
 * test_file_run.c - keys and values over 65 KiB: written to the file by the helper, checked by the
 * piece, undone, replayed, and found when damaged.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "storage/file_run.h"
#include "storage/store.h"
#include "tests/support/fault_fixture.h"
#include "tests/support/store_fixture.h"

#define KIB   ((size_t)1 << 10)
#define PIECE ((size_t)RUN_PIECE)

/* Bytes that differ from place to place and from seed to seed. */
static unsigned char *pattern(size_t len, unsigned seed)
{
    unsigned char *bytes = malloc(len + 8);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = (i + seed * UINT64_C(1000003)) * UINT64_C(0x9e3779b97f4a7c15);
        memcpy(bytes + i, &word, 8);
    }
    return bytes;
}

static struct ps_slice slice(const void *bytes, size_t len)
{
    return (struct ps_slice){bytes, len};
}

static struct ps_stat stat_of(struct fixture *f)
{
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    return stat;
}

static void must_put(struct fixture *f, const char *key, struct ps_slice value)
{
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text(key), value), 0);
    fixture_commit(txn);
}

static void assert_value(struct fixture *f, const char *key, struct ps_slice expected)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice got;
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text(key), &got), 0);
    assert_int_equal(got.len, expected.len);
    assert_memory_equal(got.data, expected.data, got.len);
    ps_snapshot_free(snap);
}

static void print_finding(void *arg, const char *line)
{
    (void)arg;
    print_error("%s\n", line);
}

static void assert_sound(struct fixture *f)
{
    assert_int_equal(ps_check(f->store, print_finding, NULL), 0);
}

static uint64_t used_pages(struct fixture *f)
{
    struct ps_stat stat = stat_of(f);
    return stat.file_pages - stat.file_pages_free;
}

/* What is in use once nothing that died is waiting any more. */
static uint64_t settled_pages(struct fixture *f)
{
    for (unsigned i = 0; i < 3; i++) {
        struct ps_txn *txn = fixture_begin(f);
        ps_abort(txn);
        assert_int_equal(ps_checkpoint(f->store), 0);
    }
    ps_abort(fixture_begin(f));
    return used_pages(f);
}

/* The same store with files of which the test makes calls fail. */
static struct fault_vfs *with_faults(struct fixture *f)
{
    struct fault_vfs *files = fixture_close_for_faults(f);
    fixture_open(f);
    return files;
}

static const size_t sizes[] = {
    RUN_ARENA_MAX - 1,     RUN_ARENA_MAX, RUN_ARENA_MAX + 1, 2 * PIECE - 1, 2 * PIECE,
    2 * PIECE + 1,         4 * PIECE,     4 * PIECE + 1,     5 * PIECE - 7, 1000 * KIB,
    4096 * KIB + PIECE / 2};
#define SIZES (sizeof sizes / sizeof *sizes)

static void values_and_keys_of_every_size_come_back(struct fixture *f)
{
    char name[32];
    unsigned char *bytes[SIZES];
    for (unsigned i = 0; i < SIZES; i++) {
        snprintf(name, sizeof name, "value %u", i);
        bytes[i] = pattern(sizes[i], i);
        must_put(f, name, slice(bytes[i], sizes[i]));
        struct ps_txn *txn = fixture_begin(f);
        assert_int_equal(ps_put(txn, f->tree, slice(bytes[i], sizes[i]), text(name)), 0);
        fixture_commit(txn);
    }
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < SIZES; i++) {
            snprintf(name, sizeof name, "value %u", i);
            assert_value(f, name, slice(bytes[i], sizes[i]));
            struct ps_snapshot *snap = fixture_snapshot(f);
            struct ps_slice got;
            struct ps_slice key = slice(bytes[i], sizes[i]);
            assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, key, &got), 0);
            assert_slice(got, name);
            ps_snapshot_free(snap);
        }
        if (round == 0) {
            assert_true(stat_of(f).file_runs >= 2 * (SIZES - 2));
            fixture_reopen(f, false); /* replays */
            assert_true(stat_of(f).file_runs_rebuilt > 0);
        } else {
            fixture_reopen(f, true);
        }
        assert_sound(f);
    }
    for (unsigned i = 0; i < SIZES; i++) {
        free(bytes[i]);
    }
}

static void long_values_and_keys_come_back_after_replay_and_after_a_checkpoint(void **state)
{
    struct fixture *f = *state;
    f->options.manual_checkpoint = true;
    fixture_reopen(f, true);
    values_and_keys_of_every_size_come_back(f);
}

static void so_they_do_with_pages_of_64_kib(void **state)
{
    struct fixture *f = *state;
    f->options.page_size = 65536;
    f->options.manual_checkpoint = true;
    fixture_open(f);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_tree_create(txn, text("tree"), &f->tree), 0);
    fixture_commit(txn);
    values_and_keys_of_every_size_come_back(f);
}

static void the_bytes_need_to_live_only_until_put_returns(void **state)
{
    struct fixture *f = *state;
    size_t len = 30 * PIECE + 5;
    unsigned char *bytes = pattern(len, 1);
    unsigned char *same = pattern(len, 1);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("k"), slice(bytes, len)), 0);
    memset(bytes, 0xee, len);
    struct ps_slice got; /* and the transaction reads its own, written or not */
    assert_int_equal(ps_get(ps_txn_view(txn), f->tree, text("k"), &got), 0);
    assert_int_equal(got.len, len);
    assert_memory_equal(got.data, same, len);
    assert_int_equal(ps_put(txn, f->tree, text("copy"), got), 0); /* what was read can be put */
    fixture_commit(txn);
    assert_value(f, "k", slice(same, len));
    assert_value(f, "copy", slice(same, len));
    free(bytes);
    free(same);
}

/* ---- space ------------------------------------------------------------------------------------
 */

static void what_is_undone_overwritten_or_deleted_gives_its_pages_back(void **state)
{
    struct fixture *f = *state;
    f->options.manual_checkpoint = true;
    fixture_reopen(f, true);
    size_t len = 20 * PIECE;
    unsigned char *bytes = pattern(len, 2);
    must_put(f, "kept", slice(bytes, len));
    uint64_t before = settled_pages(f);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("a"), slice(bytes, len)), 0);
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(ps_put(txn, f->tree, text("b"), slice(bytes, len)), 0);
    assert_int_equal(ps_put(txn, f->tree, text("kept"), slice(bytes, len - 9)), 0);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    ps_abort(txn);
    assert_int_equal(settled_pages(f), before);
    assert_value(f, "kept", slice(bytes, len));
    for (unsigned i = 0; i < 50; i++) { /* no checkpoint is needed for the place to be used again */
        must_put(f, "again and again", slice(bytes, len));
    }
    assert_true(used_pages(f) <= before + 5 * len / 4096);
    txn = fixture_begin(f);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(ps_put(txn, f->tree, text("in one transaction"), slice(bytes, len)), 0);
    }
    assert_true(used_pages(f) <= before + 5 * len / 4096);
    fixture_commit(txn);
    txn = fixture_begin(f);
    assert_int_equal(ps_delete(txn, f->tree, text("again and again")), 0);
    assert_int_equal(ps_delete(txn, f->tree, text("in one transaction")), 0);
    assert_int_equal(ps_delete(txn, f->tree, text("kept")), 0);
    fixture_commit(txn);
    assert_true(settled_pages(f) <= before - len / 4096);
    assert_sound(f);
    free(bytes);
}

static void a_full_disk_refuses_before_anything_has_changed_and_deletes_go_on(void **state)
{
    struct fixture *f = *state;
    struct fault_vfs *files = with_faults(f);
    size_t len = 10 * PIECE;
    unsigned char *bytes = pattern(len, 3);
    must_put(f, "deleted later", slice(bytes, len));
    must_put(f, "small", text("value"));
    assert_int_equal(ps_checkpoint(f->store), 0);
    fault_vfs_full(files, true);
    unsigned put = 0;
    int rc = 0;
    for (; rc == 0; put++) {
        char key[16];
        snprintf(key, sizeof key, "%u", put);
        struct ps_txn *txn = fixture_begin(f);
        rc = ps_put(txn, f->tree, text(key), slice(bytes, len));
        assert_true(put < 1000);
        if (rc == 0) {
            fixture_commit(txn);
            continue;
        }
        assert_false(ps_txn_changed(txn));
        assert_int_equal(ps_put(txn, f->tree, slice(bytes, len), text("long key")), rc);
        assert_false(ps_txn_changed(txn));
        assert_int_equal(ps_delete(txn, f->tree, text("deleted later")), 0);
        fixture_commit(txn);
    }
    assert_int_equal(rc, PS_NOSPACE);
    assert_int_equal(ps_checkpoint(f->store), 0);
    fault_vfs_full(files, false);
    must_put(f, "afterwards", slice(bytes, len));
    assert_value(f, "afterwards", slice(bytes, len));
    assert_sound(f);
    fixture_close(f, true);
    fault_vfs_free(files);
    free(bytes);
}

/* ---- the helper -------------------------------------------------------------------------------
 */

static void a_commit_is_published_when_its_runs_are_written(void **state)
{
    struct fixture *f = *state;
    f->options.manual_checkpoint = true;
    struct fault_vfs *files = with_faults(f);
    unsigned char *bytes = pattern(3 * PIECE, 4);
    uint64_t before = ps_published(f->store);
    fault_vfs_hold(files, FAULT_PWRITE, FAULT_DATA);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("k"), slice(bytes, 3 * PIECE)), 0);
    uint64_t seq;
    assert_int_equal(ps_commit_start(txn, PS_ALWAYS, false, &seq), 0);
    fault_vfs_await_held(files, 1);
    txn = fixture_begin(f); /* the next one goes on meanwhile */
    assert_int_equal(ps_put(txn, f->tree, text("small"), text("v")), 0);
    assert_int_equal(ps_published(f->store), before);
    fault_vfs_release(files, FAULT_ANY);
    fixture_commit(txn);
    assert_int_equal(ps_published(f->store), seq + 1);
    assert_value(f, "k", slice(bytes, 3 * PIECE));
    fixture_close(f, false);
    fault_vfs_free(files);
    free(bytes);
}

struct putter {
    struct fixture *f;
    struct ps_slice value;
    _Atomic bool returned;
};

static void *put_and_abort(void *arg)
{
    struct putter *p = arg;
    struct ps_txn *txn = NULL;
    if (ps_begin(p->f->store, &txn) == 0) {
        int rc = ps_put(txn, p->f->tree, text("k"), p->value);
        p->returned = rc == 0;
        ps_abort(txn);
    }
    return NULL;
}

static void the_writer_waits_when_much_is_handed_over_and_an_abort_gives_it_up(void **state)
{
    struct fixture *f = *state;
    f->options.manual_checkpoint = true;
    struct fault_vfs *files = with_faults(f);
    size_t len = (HELPER_JOBS + 2) * 4 * PIECE;
    unsigned char *bytes = pattern(len, 5);
    uint64_t before = settled_pages(f);
    struct putter putter = {.f = f, .value = slice(bytes, len)};
    fault_vfs_hold(files, FAULT_PWRITE, FAULT_DATA);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, put_and_abort, &putter), 0);
    while (stat_of(f).file_run_waits == 0) {
        sched_yield();
    }
    assert_false(putter.returned);
    fault_vfs_release(files, FAULT_ANY);
    pthread_join(thread, NULL);
    assert_true(putter.returned);
    assert_true(settled_pages(f) <= before);
    assert_sound(f);
    fixture_close(f, false);
    fault_vfs_free(files);
    free(bytes);
}

static void a_run_that_cannot_be_written_poisons_and_is_published_never(void **state)
{
    struct fixture *f = *state;
    f->options.manual_checkpoint = true;
    struct fault_vfs *files = with_faults(f);
    unsigned char *bytes = pattern(3 * PIECE, 6);
    fixture_put(f, "before", "1");
    uint64_t before = ps_published(f->store);
    fault_vfs_fail(files, FAULT_PWRITE, FAULT_DATA, 1, EIO, false);
    struct ps_txn *txn = fixture_begin(f);
    int rc = ps_put(txn, f->tree, text("k"), slice(bytes, 3 * PIECE));
    assert_int_equal(rc, 0);
    struct ps_slice got; /* no word of damage */
    assert_int_equal(ps_get(ps_txn_view(txn), f->tree, text("k"), &got), PS_POISONED);
    rc = ps_commit(txn, PS_ALWAYS, NULL);
    assert_true(rc == PS_UNKNOWN || rc == PS_POISONED);
    assert_int_equal(ps_begin(f->store, &txn), PS_POISONED);
    assert_int_equal(ps_published(f->store), before);
    struct ps_fault fault;
    ps_last_fault(f->store, &fault);
    assert_int_equal(fault.sys_errno, EIO);
    assert_non_null(strstr(fault.what, "overflow run"));
    ps_close(f->store, false);
    f->options.vfs = NULL;
    fixture_open(f);
    assert_value(f, "before", text("1"));
    assert_sound(f);
    fault_vfs_free(files);
    free(bytes);
}

static void without_the_helper_the_writer_writes(void **state)
{
    struct fixture *f = *state;
    helper_stop(f->store);
    f->store->arena.ask_at = UINT64_MAX;
    for (unsigned i = 0; i < SIZES; i++) {
        unsigned char *bytes = pattern(sizes[i], i);
        must_put(f, "k", slice(bytes, sizes[i]));
        assert_value(f, "k", slice(bytes, sizes[i]));
        free(bytes);
    }
    assert_sound(f);
}

/* ---- checking ---------------------------------------------------------------------------------
 */

static void a_part_is_read_and_checked_by_the_piece(void **state)
{
    struct fixture *f = *state;
    size_t len = 40 * PIECE + 17;
    unsigned char *bytes = pattern(len, 7);
    must_put(f, "k", slice(bytes, len));
    must_put(f, "short", text("0123456789"));
    fixture_reopen(f, true);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_view *view = ps_snapshot_view(snap);
    struct ps_slice part;
    uint64_t whole;
    assert_int_equal(ps_get_part(view, f->tree, text("k"), 7 * PIECE + 5, 1, &part, &whole), 0);
    assert_int_equal(part.len, 1);
    assert_int_equal(*(const unsigned char *)part.data, bytes[7 * PIECE + 5]);
    assert_int_equal(whole, len);
    assert_int_equal(stat_of(f).run_pieces_verified, 1);
    static const size_t froms[] = {0, 1, PIECE - 1, 7 * PIECE, 39 * PIECE, 40 * PIECE + 16};
    for (unsigned i = 0; i < sizeof froms / sizeof *froms; i++) {
        assert_int_equal(ps_get_part(view, f->tree, text("k"), froms[i], PIECE + 2, &part, NULL),
                         0);
        size_t expected = len - froms[i] < PIECE + 2 ? len - froms[i] : PIECE + 2;
        assert_int_equal(part.len, expected);
        assert_memory_equal(part.data, bytes + froms[i], expected);
    }
    uint64_t checked = stat_of(f).run_pieces_verified;
    assert_true(checked < 12);
    assert_int_equal(ps_get_part(view, f->tree, text("k"), 8, 8, &part, NULL), 0);
    assert_int_equal(stat_of(f).run_pieces_verified, checked); /* they are remembered */
    assert_int_equal(ps_get_part(view, f->tree, text("k"), len, 9, &part, NULL), 0);
    assert_int_equal(part.len, 0);
    assert_int_equal(ps_get_part(view, f->tree, text("k"), UINT64_MAX, 9, &part, NULL), 0);
    assert_int_equal(part.len, 0);
    assert_int_equal(ps_get_part(view, f->tree, text("short"), 3, 4, &part, &whole), 0);
    assert_slice(part, "3456");
    assert_int_equal(whole, 10);
    assert_int_equal(ps_get_part(view, f->tree, text("none"), 3, 4, &part, &whole), PS_NOTFOUND);
    assert_int_equal(ps_get_part(view, f->tree + 1, text("k"), 3, 4, &part, NULL), PS_NOTFOUND);
    ps_snapshot_free(snap);
    free(bytes);
}

static void flip(struct fixture *f, uint64_t offset)
{
    char path[STORE_DIR_PATH + 16];
    unsigned char byte;
    snprintf(path, sizeof path, "%s/pando.db", f->dir);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

static void note_finding(void *arg, const char *line)
{
    char *first = arg;
    if (first[0] == 0) {
        snprintf(first, 600, "%s", line);
    }
}

static void damage_in_one_piece_is_named_and_the_others_can_be_read(void **state)
{
    struct fixture *f = *state;
    size_t len = 9 * PIECE + 100;
    unsigned char *bytes = pattern(len, 8);
    must_put(f, "k", slice(bytes, len));
    fixture_reopen(f, true);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice part;
    assert_int_equal(ps_get_part(ps_snapshot_view(snap), f->tree, text("k"), 0, 1, &part, NULL), 0);
    uint64_t data = (uint64_t)((const uint8_t *)part.data - f->store->base[0]);
    uint64_t head = data - ((uint64_t)run_head_pages(len, 12) << 12);
    ps_snapshot_free(snap);
    struct {
        uint64_t offset, named;
        const char *what;
    } places[] = {{data + 4 * PIECE + 1234, data + 4 * PIECE, "checksum of piece 4"},
                  {data + len - 1, data + 9 * PIECE, "checksum of piece 9"},
                  {head + PAGE_HEADER + 5, head, "checksum of the head"},
                  {head + 16, head, "stale or misplaced"}};
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        fixture_close(f, true);
        flip(f, places[i].offset);
        fixture_open(f);
        snap = fixture_snapshot(f);
        struct ps_view *view = ps_snapshot_view(snap);
        struct ps_slice got;
        assert_int_equal(ps_get(view, f->tree, text("k"), &got), PS_CORRUPT);
        struct ps_fault fault;
        ps_last_fault(f->store, &fault);
        assert_non_null(strstr(fault.file, "pando.db"));
        assert_int_equal(fault.offset, places[i].named);
        assert_non_null(strstr(fault.what, places[i].what));
        bool head_is_good = places[i].named != head;
        int rc = ps_get_part(view, f->tree, text("k"), 3 * PIECE, PIECE, &part, NULL);
        assert_int_equal(rc, head_is_good ? 0 : PS_CORRUPT);
        char line[600] = "";
        assert_int_equal(ps_check(f->store, note_finding, line), PS_CORRUPT);
        assert_non_null(strstr(line, places[i].what));
        ps_snapshot_free(snap);
        fixture_close(f, false);
        flip(f, places[i].offset);
        fixture_open(f);
        assert_sound(f);
    }
    free(bytes);
}

/* ---- keys -------------------------------------------------------------------------------------
 */

/* Long keys that differ in their last byte alone: what parts them in branches is as long. */
static void separators_may_be_long_too(void **state)
{
    struct fixture *f = *state;
    enum { KEYS = 400, LEN = 70000 };
    unsigned char *bytes = pattern(LEN, 9);
    static char rest[200];
    for (unsigned i = 0; i < KEYS; i++) {
        unsigned k = i * 7 % KEYS;
        bytes[LEN - 2] = (unsigned char)(k >> 8);
        bytes[LEN - 1] = (unsigned char)k;
        struct ps_txn *txn = fixture_begin(f);
        int rc = ps_put(txn, f->tree, slice(bytes, LEN), slice(rest, sizeof rest));
        assert_int_equal(rc, 0);
        fixture_commit(txn);
    }
    struct ps_stat stat = stat_of(f);
    assert_true(stat.overflow_separators > 0);
    assert_true(stat.file_runs > KEYS);
    assert_sound(f);
    fixture_reopen(f, false);
    assert_sound(f);
    struct ps_cursor *cursor;
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice key;
    assert_int_equal(ps_cursor_open(ps_snapshot_view(snap), f->tree, &cursor), 0);
    assert_int_equal(ps_cursor_first(cursor), 0);
    for (unsigned i = 0; i < KEYS; i++) {
        assert_int_equal(ps_cursor_get(cursor, &key, NULL), 0);
        bytes[LEN - 2] = (unsigned char)(i >> 8);
        bytes[LEN - 1] = (unsigned char)i;
        assert_int_equal(key.len, LEN);
        assert_memory_equal(key.data, bytes, LEN);
        assert_int_equal(ps_cursor_next(cursor), i + 1 < KEYS ? 0 : PS_NOTFOUND);
    }
    ps_cursor_close(cursor);
    ps_snapshot_free(snap);
    for (unsigned i = 0; i < KEYS; i++) {
        bytes[LEN - 2] = (unsigned char)(i >> 8);
        bytes[LEN - 1] = (unsigned char)i;
        struct ps_txn *txn = fixture_begin(f);
        assert_int_equal(ps_put(txn, f->tree, slice(bytes, LEN), text("new")), 0);
        assert_int_equal(ps_delete(txn, f->tree, slice(bytes, LEN)), 0);
        assert_int_equal(ps_delete(txn, f->tree, slice(bytes, LEN)), PS_NOTFOUND);
        fixture_commit(txn);
    }
    assert_sound(f);
    assert_int_equal(stat_of(f).entries, 0);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(long_values_and_keys_come_back_after_replay_and_after_a_checkpoint),
        DIRECTORY_TEST(so_they_do_with_pages_of_64_kib),
        STORE_TEST(the_bytes_need_to_live_only_until_put_returns),
        STORE_TEST(what_is_undone_overwritten_or_deleted_gives_its_pages_back),
        STORE_TEST(a_full_disk_refuses_before_anything_has_changed_and_deletes_go_on),
        STORE_TEST(a_commit_is_published_when_its_runs_are_written),
        STORE_TEST(the_writer_waits_when_much_is_handed_over_and_an_abort_gives_it_up),
        STORE_TEST(a_run_that_cannot_be_written_poisons_and_is_published_never),
        STORE_TEST(without_the_helper_the_writer_writes),
        STORE_TEST(a_part_is_read_and_checked_by_the_piece),
        STORE_TEST(damage_in_one_piece_is_named_and_the_others_can_be_read),
        STORE_TEST(separators_may_be_long_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
