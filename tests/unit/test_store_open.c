/*
 * test_store_open.c - opening, closing, and what opening says it did.
 */
#include "storage/vfs.h"
#include "tests/support/store_fixture.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_missing_directory_is_made_and_opening_says_created(void **state)
{
    struct fixture *f = *state;
    store_dir_remove(f->dir);
    fixture_open(f);
    assert_true(f->recovery.created);
    assert_int_equal(f->recovery.replayed_commits, 0);
    struct stat st;
    assert_int_equal(stat(f->dir, &st), 0);
}

static void options_may_be_missing(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(ps_open(f->dir, NULL, &f->store, NULL, NULL), 0);
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    assert_int_equal(stat.page_size, 4096);
}

static void after_a_closing_checkpoint_nothing_is_replayed(void **state)
{
    struct fixture *f = *state;
    uint64_t seq = fixture_put(f, "a", "1");
    fixture_reopen(f, true);
    assert_false(f->recovery.created);
    assert_int_equal(f->recovery.replayed_commits, 0);
    assert_int_equal(f->recovery.replayed_ops, 0);
    assert_int_equal(f->recovery.checkpoint_seq, seq);
    assert_int_equal(ps_published(f->store), seq);
}

static void a_closing_checkpoint_holds_commits_that_were_only_started(void **state)
{
    struct fixture *f = *state;
    f->options.durability = PS_ALWAYS;
    for (unsigned i = 0; i < 20; i++) {
        uint64_t seq = 0;
        fixture_reopen(f, true);
        assert_int_equal(f->recovery.replayed_commits, 0);
        for (unsigned k = 0; k < 3; k++) {
            struct ps_txn *txn = fixture_begin(f);
            assert_int_equal(ps_put(txn, f->tree, text("a"), text("1")), 0);
            assert_int_equal(ps_commit_start(txn, PS_ALWAYS, false, &seq), 0);
        }
        fixture_reopen(f, true);
        assert_int_equal(f->recovery.replayed_commits, 0);
        assert_int_equal(f->recovery.checkpoint_seq, seq);
    }
}

static void without_a_checkpoint_the_commits_after_the_last_one_are_replayed(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(ps_checkpoint(f->store), 0);
    uint64_t first = fixture_put(f, "a", "1");
    fixture_put(f, "b", "2");
    fixture_put(f, "c", "3");
    fixture_reopen(f, false);
    assert_int_equal(f->recovery.checkpoint_seq, first - 1);
    assert_int_equal(f->recovery.replayed_commits, 3);
    assert_int_equal(f->recovery.replayed_ops, 3);
    assert_int_equal(f->recovery.torn_bytes, 0);
    assert_true(f->recovery.log_to > f->recovery.log_from);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice value;
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("c"), &value), 0);
    assert_slice(value, "3");
    ps_snapshot_free(snap);
}

static void a_transaction_larger_than_the_dirty_memory_is_replayed_all_the_same(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, 3000, 300);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_clear(txn, f->tree), 0);
    fixture_commit(txn);
    fixture_fill(f, 1000, 4000, 300);
    uint64_t seq = ps_published(f->store), count = 0;
    f->options.dirty_memory = 64 * 4096;
    fixture_reopen(f, false);
    assert_int_equal(ps_published(f->store), seq);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_view *view = ps_snapshot_view(snap);
    struct ps_slice value;
    assert_int_equal(ps_count(view, f->tree, &count), 0);
    assert_int_equal(count, 3000);
    assert_int_equal(ps_get(view, f->tree, text("key 00999"), &value), PS_NOTFOUND);
    assert_int_equal(ps_get(view, f->tree, text("key 03999"), &value), 0);
    ps_snapshot_free(snap);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
}

static void sequences_go_on_after_reopening(void **state)
{
    struct fixture *f = *state;
    uint64_t seq = fixture_put(f, "a", "1");
    fixture_reopen(f, false);
    assert_int_equal(fixture_put(f, "b", "2"), seq + 1);
    fixture_reopen(f, true);
    assert_int_equal(fixture_put(f, "c", "3"), seq + 2);
}

static void a_directory_that_is_open_is_refused_within_the_process(void **state)
{
    struct fixture *f = *state;
    struct ps_store *second = (struct ps_store *)f;
    struct ps_fault fault = {0};
    assert_int_equal(ps_open(f->dir, &f->options, &second, NULL, &fault), PS_LOCKED);
    assert_null(second);
    assert_int_equal(fault.code, PS_LOCKED);
    assert_non_null(strstr(fault.file, f->dir));
}

static void a_directory_that_is_open_is_refused_to_another_process(void **state)
{
    struct fixture *f = *state;
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct ps_store *second;
        int rc = ps_open(f->dir, &f->options, &second, NULL, NULL);
        _exit(write(pipe_ends[1], &rc, sizeof rc) == sizeof rc ? 0 : 1);
    }
    int rc = 0, status;
    assert_int_equal(read(pipe_ends[0], &rc, sizeof rc), sizeof rc);
    assert_int_equal(rc, PS_LOCKED);
    waitpid(child, &status, 0);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

static void a_checker_is_refused_while_the_store_is_open(void **state)
{
    struct fixture *f = *state;
    struct ps_options options = {.read_only_check = true};
    struct ps_store *second;
    assert_int_equal(ps_open(f->dir, &options, &second, NULL, NULL), PS_LOCKED);
}

static void a_store_opened_to_be_looked_at_takes_no_writes(void **state)
{
    struct fixture *f = *state;
    struct ps_txn *txn;
    fixture_put(f, "a", "1");
    fixture_close(f, true);
    f->options.read_only_check = true;
    fixture_open(f);
    assert_int_equal(ps_begin(f->store, &txn), PS_INVALID);
    assert_null(txn);
    assert_int_equal(ps_set_durability(f->store, PS_NONE), PS_INVALID);
    assert_int_equal(ps_set_durability(f->store, PS_ALWAYS), PS_INVALID);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_close(f, true);
    f->options.read_only_check = false;
    fixture_open(f);
    fixture_put(f, "b", "2");
}

static void after_closing_it_can_be_opened_again_at_once(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 5; i++)
        fixture_reopen(f, i % 2);
}

/* Of a commit that is made now. */
static uint64_t stamp_of_next(struct fixture *f)
{
    struct ps_snapshot_info info = {0};
    fixture_put(f, "a", "1");
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_int_equal(ps_snapshots(f->store, &info, 1), 1);
    ps_snapshot_free(snap);
    return info.stamp;
}

/* What a process left in the file that is in no log, of pages born after the last record, must not
 * be taken for pages of the next one: also where all of them began with the same meta. */
static void stamps_go_on_far_above_all_that_the_log_tells_of(void **state)
{
    struct fixture *f = *state;
    uint64_t last = stamp_of_next(f);
    for (int i = 0; i < 5; i++) {
        fixture_reopen(f, false);
        uint64_t now = stamp_of_next(f);
        assert_true(now >> 32 > last >> 32);
        last = now;
    }
}

static void page_sizes_out_of_range_are_invalid(void **state)
{
    struct fixture *f = *state;
    static const uint32_t sizes[] = {1, 2048, 4095, 4097, 6000, 12288, 131072};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        f->options.page_size = sizes[i];
        struct ps_store *store;
        assert_int_equal(ps_open(f->dir, &f->options, &store, NULL, NULL), PS_INVALID);
    }
}

static void every_page_size_works(void **state)
{
    struct fixture *f = *state;
    for (uint32_t size = 4096; size <= 65536; size *= 2) {
        store_dir_remove(f->dir);
        f->options.page_size = size;
        f->options.dirty_memory = (uint64_t)size * 512;
        fixture_open(f);
        struct ps_txn *txn = fixture_begin(f);
        assert_int_equal(ps_tree_create(txn, text("tree"), &f->tree), 0);
        fixture_commit(txn);
        fixture_fill(f, 0, 1000, 100);
        fixture_reopen(f, size % 3 == 0);
        uint64_t count = 0;
        struct ps_snapshot *snap = fixture_snapshot(f);
        assert_int_equal(ps_count(ps_snapshot_view(snap), f->tree, &count), 0);
        assert_int_equal(count, 1000);
        ps_snapshot_free(snap);
        assert_int_equal(ps_check(f->store, NULL, NULL), 0);
        fixture_close(f, true);
    }
}

static void another_page_size_than_the_files_is_refused(void **state)
{
    struct fixture *f = *state;
    fixture_close(f, true);
    f->options.page_size = 8192;
    assert_int_equal(ps_open(f->dir, &f->options, &f->store, NULL, NULL), PS_VERSION);
    assert_null(f->store);
}

static void without_a_page_size_the_files_is_taken(void **state)
{
    struct fixture *f = *state;
    f->options.page_size = 16384;
    fixture_open(f);
    f->options.page_size = 0;
    fixture_reopen(f, true);
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    assert_int_equal(stat.page_size, 16384);
}

static void a_path_that_is_a_file_is_an_error_that_names_it(void **state)
{
    struct fixture *f = *state;
    char path[STORE_DIR_PATH + 8];
    snprintf(path, sizeof path, "%s/file", f->dir);
    FILE *file = fopen(path, "w");
    fclose(file);
    struct ps_fault fault = {0};
    assert_int_equal(ps_open(path, &f->options, &f->store, NULL, &fault), PS_IO);
    assert_int_equal(fault.code, PS_IO);
    assert_true(fault.sys_errno != 0);
    assert_non_null(strstr(fault.file, path));
    assert_true(fault.what[0] != 0);
}

static void a_check_only_opening_changes_no_file(void **state)
{
    struct fixture *f = *state;
    char command[2 * STORE_DIR_PATH], before[4096] = "", after[4096] = "";
    fixture_fill(f, 0, 500, 100);
    fixture_close(f, false);
    snprintf(command, sizeof command,
             "cd %s && ls -l --time-style=full-iso | grep -v lock && "
             "md5sum *",
             f->dir);
    FILE *pipe_end = popen(command, "r");
    assert_true(fread(before, 1, sizeof before - 1, pipe_end) > 0);
    pclose(pipe_end);
    struct ps_options options = {.read_only_check = true};
    assert_int_equal(ps_open(f->dir, &options, &f->store, NULL, NULL), 0);
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    fixture_close(f, false);
    pipe_end = popen(command, "r");
    assert_true(fread(after, 1, sizeof after - 1, pipe_end) > 0);
    pclose(pipe_end);
    assert_string_equal(before, after);
}

static void at_level_none_the_last_checkpoint_is_what_survives(void **state)
{
    struct fixture *f = *state;
    f->options.durability = PS_NONE;
    f->options.manual_checkpoint = true;
    fixture_reopen(f, true);
    fixture_put(f, "kept", "1");
    assert_int_equal(ps_checkpoint(f->store), 0);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("lost"), text("2")), 0);
    assert_int_equal(ps_commit(txn, PS_NONE, NULL), 0);
    fixture_reopen(f, false);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice value;
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("kept"), &value), 0);
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("lost"), &value), PS_NOTFOUND);
    ps_snapshot_free(snap);
}

static void raising_the_level_from_none_makes_what_is_there_durable(void **state)
{
    struct fixture *f = *state;
    f->options.durability = PS_NONE;
    f->options.manual_checkpoint = true;
    fixture_reopen(f, true);
    struct ps_txn *txn = fixture_begin(f);
    uint64_t seq;
    assert_int_equal(ps_put(txn, f->tree, text("a"), text("1")), 0);
    assert_int_equal(ps_commit(txn, PS_NONE, &seq), 0);
    assert_int_equal(ps_set_durability(f->store, PS_ALWAYS), 0);
    assert_int_equal(ps_get_durability(f->store), PS_ALWAYS);
    assert_true(ps_durable(f->store) >= seq);
}

static void lowering_the_level_to_none_leaves_durable_what_was_logged(void **state)
{
    struct fixture *f = *state;
    uint64_t seq = fixture_put(f, "a", "1");
    assert_int_equal(ps_set_durability(f->store, PS_NONE), 0);
    assert_true(ps_durable(f->store) >= seq);
}

static void a_lost_data_file_beside_a_log_with_commits_is_refused(void **state)
{
    struct fixture *f = *state;
    fixture_put(f, "a", "1");
    fixture_close(f, false);
    char path[STORE_DIR_PATH + 16];
    snprintf(path, sizeof path, "%s/pando.db", f->dir);
    assert_int_equal(unlink(path), 0);
    struct ps_fault fault = {0};
    assert_int_equal(ps_open(f->dir, &f->options, &f->store, NULL, &fault), PS_CORRUPT);
    assert_non_null(strstr(fault.file, "pando.db"));
    assert_non_null(strstr(fault.what, "log beside it holds commits"));
}

static void remove_segment(void *arg, const char *name)
{
    char path[STORE_DIR_PATH + 64];
    if (strncmp(name, "log-", 4) == 0) {
        snprintf(path, sizeof path, "%s/%s", (const char *)arg, name);
        assert_int_equal(unlink(path), 0);
    }
}

static void a_store_without_its_log_is_refused(void **state)
{
    struct fixture *f = *state;
    fixture_put(f, "a", "1");
    fixture_close(f, true);
    const struct ps_vfs *vfs = ps_vfs_posix();
    assert_int_equal(vfs->list(vfs->ctx, f->dir, remove_segment, f->dir), 0);
    struct ps_fault fault = {0};
    assert_int_equal(ps_open(f->dir, &f->options, &f->store, NULL, &fault), PS_CORRUPT);
    assert_non_null(strstr(fault.what, "the log is missing"));
}

static void reopening_without_writing_keeps_no_segments(void **state)
{
    struct fixture *f = *state;
    f->options.manual_checkpoint = true;
    fixture_put(f, "a", "1");
    fixture_reopen(f, true);
    for (unsigned i = 0; i < 10; i++)
        fixture_reopen(f, false);
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    assert_true(stat.log_segments <= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DIRECTORY_TEST(a_missing_directory_is_made_and_opening_says_created),
        DIRECTORY_TEST(options_may_be_missing),
        STORE_TEST(after_a_closing_checkpoint_nothing_is_replayed),
        STORE_TEST(a_closing_checkpoint_holds_commits_that_were_only_started),
        STORE_TEST(without_a_checkpoint_the_commits_after_the_last_one_are_replayed),
        STORE_TEST(a_transaction_larger_than_the_dirty_memory_is_replayed_all_the_same),
        STORE_TEST(sequences_go_on_after_reopening),
        STORE_TEST(a_directory_that_is_open_is_refused_within_the_process),
        STORE_TEST(a_directory_that_is_open_is_refused_to_another_process),
        STORE_TEST(a_checker_is_refused_while_the_store_is_open),
        STORE_TEST(a_store_opened_to_be_looked_at_takes_no_writes),
        STORE_TEST(after_closing_it_can_be_opened_again_at_once),
        STORE_TEST(stamps_go_on_far_above_all_that_the_log_tells_of),
        DIRECTORY_TEST(page_sizes_out_of_range_are_invalid),
        DIRECTORY_TEST(every_page_size_works),
        STORE_TEST(another_page_size_than_the_files_is_refused),
        DIRECTORY_TEST(without_a_page_size_the_files_is_taken),
        DIRECTORY_TEST(a_path_that_is_a_file_is_an_error_that_names_it),
        STORE_TEST(a_check_only_opening_changes_no_file),
        STORE_TEST(at_level_none_the_last_checkpoint_is_what_survives),
        STORE_TEST(raising_the_level_from_none_makes_what_is_there_durable),
        STORE_TEST(lowering_the_level_to_none_leaves_durable_what_was_logged),
        STORE_TEST(a_lost_data_file_beside_a_log_with_commits_is_refused),
        STORE_TEST(a_store_without_its_log_is_refused),
        STORE_TEST(reopening_without_writing_keeps_no_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
