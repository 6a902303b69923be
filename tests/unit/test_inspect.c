/*
 * test_inspect.c - a store looked at from outside: metas, pages, log, beside its owner too; and
 * salvage of one whose savepoints went to the log in pieces.
 */
#include <fcntl.h>
#include <unistd.h>

#include "storage/inspect.h"
#include "storage/vfs.h"
#include "tests/support/store_fixture.h"

struct seen {
    uint64_t findings, calls, trees, entries, records, ops, segments;
    uint64_t stop_after; /* calls of progress; 0: never */
    char last[192];
};

static void see_finding(void *arg, const struct ps_fault *fault)
{
    struct seen *seen = arg;
    seen->findings++;
    snprintf(seen->last, sizeof seen->last, "%s", fault->what);
}

static bool see_progress(void *arg, uint64_t done, uint64_t whole)
{
    struct seen *seen = arg;
    assert_true(done <= whole);
    return ++seen->calls != seen->stop_after;
}

static void see_tree(void *arg, const struct ps_tree_figures *tree)
{
    struct seen *seen = arg;
    seen->trees++;
    seen->entries += tree->entries;
}

static void see_segment(void *arg, const struct ps_log_segment *segment)
{
    assert_memory_equal(segment->file, "log-", 4);
    ((struct seen *)arg)->segments++;
}

static void see_record(void *arg, const struct ps_log_record *record)
{
    assert_true(record->position > 0);
    ((struct seen *)arg)->records++;
}

static void see_op(void *arg, const struct ps_log_op *op)
{
    assert_non_null(op->name);
    ((struct seen *)arg)->ops++;
}

/* The store of the fixture's directory, beside the one that has it. */
static struct ps_store *open_beside(struct fixture *f)
{
    struct ps_options options = {
        .read_only_check = true, .without_lock = true, .map_size = UINT64_C(1) << 32};
    struct ps_store *store = NULL;
    struct ps_fault fault;
    assert_int_equal(ps_open(f->dir, &options, &store, NULL, &fault), 0);
    return store;
}

static void flip(struct fixture *f, uint64_t offset)
{
    char path[STORE_DIR_PATH + 16];
    uint8_t byte;
    snprintf(path, sizeof path, "%s/pando.db", f->dir);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

static void both_metas_are_read_and_the_newest_is_named(void **state)
{
    struct fixture *f = *state;
    struct ps_meta metas[2];
    struct ps_fault fault;
    int newest;
    fixture_put(f, "a", "1");
    assert_int_equal(ps_checkpoint(f->store), 0);
    assert_int_equal(ps_read_metas(f->dir, metas, &newest, &fault), 0);
    assert_true(newest == 0 && metas[0].code == 0 && metas[1].code == 0);
    assert_int_equal(metas[0].seq, ps_published(f->store));
    assert_int_equal(metas[0].stamp, metas[1].stamp);
    assert_int_equal(metas[0].page_size, 4096);
    flip(f, 100);
    assert_int_equal(ps_read_metas(f->dir, metas, &newest, &fault), 0);
    assert_true(newest == 1 && metas[0].code == PS_CORRUPT);
    flip(f, 100);
    assert_int_equal(ps_read_metas("/no/such/directory", metas, &newest, &fault), PS_IO);
    assert_non_null(strstr(fault.file, "/no/such/directory"));
}

static void a_checkpoint_is_looked_at_beside_its_owner_until_both_metas_name_another(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, 2000, 100);
    assert_int_equal(ps_checkpoint(f->store), 0);
    struct ps_store *beside = open_beside(f);
    struct seen seen = {0};
    struct ps_watch watch = {see_finding, see_progress, &seen};
    struct ps_figures figures;
    uint64_t checked;
    fixture_fill(f, 2000, 2100, 100); /* no checkpoint: nothing of it is seen */
    assert_int_equal(ps_survey(beside, &watch, see_tree, &figures), 0);
    assert_int_equal(seen.entries, 2000);
    assert_int_equal(seen.trees, 1);
    assert_int_equal(figures.pages, figures.reserved + figures.free_pages + figures.leaves +
                                        figures.branches + figures.catalogue_pages +
                                        figures.map_pages);
    assert_int_equal(ps_verify_pages(beside, &watch, &checked), 0);
    assert_int_equal(checked, figures.pages - figures.reserved - figures.free_pages);
    assert_int_equal(seen.findings, 0);
    assert_true(ps_checkpoint_stands(beside));
    assert_int_equal(ps_checkpoint(f->store), 0);
    assert_false(ps_checkpoint_stands(beside));
    assert_int_equal(ps_close(beside, false), 0);
}

static void a_survey_stops_when_it_is_told_to(void **state)
{
    struct fixture *f = *state;
    fixture_fill(f, 0, 20000, 100);
    struct seen seen = {.stop_after = 2};
    struct ps_watch watch = {see_finding, see_progress, &seen};
    struct ps_figures figures;
    assert_int_equal(ps_survey(f->store, &watch, see_tree, &figures), PS_ENDED);
    assert_int_equal(seen.calls, 2);
    assert_int_equal(seen.findings + seen.trees, 0);
}

static void the_log_is_read_beside_its_writer(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    struct ps_log_watch watch = {see_segment, see_record, see_op, &seen};
    struct ps_log_report report;
    struct ps_meta metas[2];
    struct ps_fault fault;
    int newest;
    assert_int_equal(ps_checkpoint(f->store), 0);
    for (int i = 0; i < 10; i++) {
        fixture_put(f, "a", "1");
    }
    assert_int_equal(ps_read_metas(f->dir, metas, &newest, &fault), 0);
    assert_int_equal(ps_log_read(f->dir, &metas[newest].log, &watch, &report, &fault), 0);
    assert_int_equal(report.commits, 10);
    assert_int_equal(seen.ops, 10);
    assert_int_equal(seen.records, 10);
    assert_int_equal(report.to.seq, ps_published(f->store));
    assert_true(seen.segments == report.segments && report.torn_bytes == 0);
    assert_int_equal(ps_log_read(f->dir, NULL, NULL, &report, &fault), 0);
    assert_true(report.commits >= 10);
}

/* Files of which a reader meets a record while it is being written, so many times. */
struct half_written {
    struct ps_vfs vfs;
    const struct ps_vfs *system;
    uint64_t offset; /* of a byte in it, in its segment */
    unsigned times, reads;
};

static ssize_t read_half(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    struct half_written *h = ctx;
    ssize_t n = h->system->pread(h->system->ctx, fd, buf, len, offset);
    if (n > 0 && h->offset >= offset && h->offset < offset + (uint64_t)n) {
        h->reads++;
        if (h->times > 0) {
            h->times--;
            ((uint8_t *)buf)[h->offset - offset] ^= 1;
        }
    }
    return n;
}

static void keep_offset(void *arg, const struct ps_log_record *record)
{
    uint64_t *offsets = arg;
    offsets[++offsets[0]] = record->offset;
}

static void a_record_that_was_read_half_written_is_no_damage_and_one_that_stays_so_is(void **state)
{
    struct fixture *f = *state;
    uint64_t offsets[16] = {0};
    struct ps_log_watch watch = {.record = keep_offset, .arg = offsets};
    struct ps_log_report report;
    struct ps_meta metas[2];
    struct ps_fault fault;
    int newest;
    f->options.durability = PS_ALWAYS;
    fixture_reopen(f, true);
    for (int i = 0; i < 10; i++) {
        fixture_put(f, "a", "1");
    }
    assert_int_equal(ps_read_metas(f->dir, metas, &newest, &fault), 0);
    const struct ps_log_place *from = &metas[newest].log;
    assert_int_equal(ps_log_read(f->dir, from, &watch, &report, &fault), 0);
    assert_int_equal(offsets[0], 10);
    struct half_written h = {.vfs = *ps_vfs_posix(), .system = ps_vfs_posix()};
    h.vfs.ctx = &h;
    h.vfs.pread = read_half;
    h.offset = offsets[5] + 9; /* in the head of the fifth */
    h.times = 1;
    assert_int_equal(log_inspect(&h.vfs, f->dir, from, NULL, &report, &fault), 0);
    assert_int_equal(report.commits, 10);
    assert_true(h.times == 0 && h.reads > 1);
    h.times = UINT32_MAX;
    assert_int_equal(log_inspect(&h.vfs, f->dir, from, NULL, &report, &fault), PS_CORRUPT);
    assert_int_equal(report.commits, 4);
}

/* ---- salvage ----------------------------------------------------------------------------------
 */

struct saved {
    char dir[STORE_DIR_PATH + 8];
    struct ps_salvage_report report;
    struct ps_store *store;
    struct ps_snapshot *snap;
    ps_tree tree;
};

static int salvage(struct fixture *f, struct saved *saved, struct seen *seen)
{
    char place[STORE_DIR_PATH];
    struct ps_watch watch = {see_finding, NULL, seen};
    struct ps_options options = {.map_size = UINT64_C(1) << 32};
    struct ps_fault fault;
    store_dir_make(place, "pando-salvaged");
    snprintf(saved->dir, sizeof saved->dir, "%s/new", place);
    int rc = ps_salvage(f->dir, saved->dir, &watch, &saved->report, &fault);
    assert_int_equal(ps_open(saved->dir, &options, &saved->store, NULL, &fault), 0);
    assert_int_equal(ps_snapshot_new(saved->store, &saved->snap), 0);
    ps_snapshot_renew(saved->snap);
    assert_int_equal(ps_tree_find(ps_snapshot_view(saved->snap), text("tree"), &saved->tree), 0);
    return rc;
}

static void drop_saved(struct saved *saved)
{
    ps_snapshot_free(saved->snap);
    assert_int_equal(ps_check(saved->store, NULL, NULL), 0);
    assert_int_equal(ps_close(saved->store, false), 0);
    *strrchr(saved->dir, '/') = '\0';
    store_dir_remove(saved->dir);
}

static void assert_saved(struct saved *saved, const char *key, int rc)
{
    struct ps_slice value;
    assert_int_equal(ps_get(ps_snapshot_view(saved->snap), saved->tree, text(key), &value), rc);
}

static void what_savepoints_took_back_is_not_salvaged_from_the_log(void **state)
{
    struct fixture *f = *state;
    struct saved saved;
    struct seen seen = {0};
    char *large = calloc(1, 3u << 20);
    struct ps_slice value = {large, 3u << 20}; /* more than is gathered: the marks go to the log */
    assert_int_equal(ps_checkpoint(f->store), 0);
    struct ps_txn *txn = fixture_begin(f);
    ps_keep_whole(txn);
    ps_tree other;
    assert_int_equal(ps_put(txn, f->tree, text("kept"), value), 0);
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(ps_tree_create(txn, text("other"), &other), 0);
    assert_int_equal(ps_put(txn, f->tree, text("taken back"), value), 0);
    assert_int_equal(ps_savepoint_rollback(txn), 0);
    assert_int_equal(ps_savepoint(txn), 0);
    assert_int_equal(ps_put(txn, f->tree, text("released"), value), 0);
    assert_int_equal(ps_savepoint_release(txn), 0);
    assert_int_equal(ps_tree_create(txn, text("other"), &other), 0);
    assert_int_equal(ps_put(txn, other, text("x"), text("y")), 0);
    fixture_commit(txn);
    struct ps_stat stat;
    ps_stats(f->store, &stat);
    assert_true(stat.log_pieces_early > 0);
    fixture_close(f, false);
    assert_int_equal(salvage(f, &saved, &seen), 0);
    assert_int_equal(seen.findings, 0);
    assert_int_equal(saved.report.log_commits, 1);
    assert_saved(&saved, "kept", 0);
    assert_saved(&saved, "released", 0);
    assert_saved(&saved, "taken back", PS_NOTFOUND);
    assert_int_equal(ps_tree_find(ps_snapshot_view(saved.snap), text("other"), &other), 0);
    drop_saved(&saved);
    free(large);
    fixture_open(f);
}

static void trees_that_the_log_drops_and_makes_again_are_salvaged_as_they_are_last(void **state)
{
    struct fixture *f = *state;
    struct saved saved;
    struct seen seen = {0};
    ps_tree a, b;
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_tree_create(txn, text("a"), &a), 0);
    assert_int_equal(ps_put(txn, a, text("in a"), text("1")), 0);
    fixture_commit(txn);
    assert_int_equal(ps_checkpoint(f->store), 0);
    txn = fixture_begin(f);
    assert_int_equal(ps_tree_drop(txn, a), 0);
    assert_int_equal(ps_tree_create(txn, text("b"), &b), 0);
    assert_int_equal(a, b); /* the number is used again */
    assert_int_equal(ps_put(txn, b, text("in b"), text("2")), 0);
    fixture_commit(txn);
    fixture_close(f, false);
    assert_int_equal(salvage(f, &saved, &seen), 0);
    struct ps_view *view = ps_snapshot_view(saved.snap);
    struct ps_slice value;
    assert_int_equal(ps_tree_find(view, text("a"), &a), PS_NOTFOUND);
    assert_int_equal(ps_tree_find(view, text("b"), &b), 0);
    assert_int_equal(ps_get(view, b, text("in b"), &value), 0);
    assert_int_equal(ps_get(view, b, text("in a"), &value), PS_NOTFOUND);
    drop_saved(&saved);
    fixture_open(f);
}

static void a_store_that_is_open_is_not_salvaged(void **state)
{
    struct fixture *f = *state;
    struct ps_salvage_report report;
    struct ps_fault fault;
    char place[STORE_DIR_PATH], dir[STORE_DIR_PATH + 8];
    store_dir_make(place, "pando-salvaged");
    snprintf(dir, sizeof dir, "%s/new", place);
    assert_int_equal(ps_salvage(f->dir, dir, NULL, &report, &fault), PS_LOCKED);
    assert_int_equal(access(dir, F_OK), -1);
    assert_int_equal(ps_salvage(f->dir, f->dir, NULL, &report, &fault), PS_EXISTS);
    store_dir_remove(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(both_metas_are_read_and_the_newest_is_named),
        STORE_TEST(a_checkpoint_is_looked_at_beside_its_owner_until_both_metas_name_another),
        STORE_TEST(a_survey_stops_when_it_is_told_to),
        STORE_TEST(the_log_is_read_beside_its_writer),
        STORE_TEST(a_record_that_was_read_half_written_is_no_damage_and_one_that_stays_so_is),
        STORE_TEST(what_savepoints_took_back_is_not_salvaged_from_the_log),
        STORE_TEST(trees_that_the_log_drops_and_makes_again_are_salvaged_as_they_are_last),
        STORE_TEST(a_store_that_is_open_is_not_salvaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
