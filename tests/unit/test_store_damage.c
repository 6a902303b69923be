/*
 * test_store_damage.c - bytes changed in the files of a closed store are found and told about, with
 * the file and the place; they never crash a reader nor pass for data.
 */
#include "storage/meta.h"
#include "storage/node.h"
#include "tests/support/store_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES   1500u
#define VALUE_LEN 120u
#define PAGE      4096u

static void path_of(struct fixture *f, char *path, const char *name)
{
    snprintf(path, STORE_DIR_PATH + 64, "%s/%s", f->dir, name);
}

static uint64_t size_of(struct fixture *f, const char *name)
{
    char path[STORE_DIR_PATH + 64];
    struct stat st;
    path_of(f, path, name);
    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

static void change(struct fixture *f, const char *name, uint64_t offset, unsigned char mask)
{
    char path[STORE_DIR_PATH + 64];
    unsigned char byte;
    path_of(f, path, name);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= mask;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

static uint64_t offset_of_needle(struct fixture *f, const char *name, unsigned which);

/* The log segment that holds the commits of leave_log(). */
static void log_segment(struct fixture *f, char *name)
{
    DIR *dir = opendir(f->dir);
    assert_non_null(dir);
    name[0] = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strncmp(e->d_name, "log-", 4) == 0 && offset_of_needle(f, e->d_name, 0) != 0)
            snprintf(name, 32, "%.31s", e->d_name);
    }
    closedir(dir);
    assert_true(name[0] != 0);
}

static int setup(void **state)
{
    struct fixture *f = fixture_new();
    fixture_fill(f, 0, ENTRIES, VALUE_LEN);
    fixture_close(f, true);
    *state = f;
    return 0;
}

/* Whether a fault says enough to find the damage. */
static void assert_told(struct fixture *f, const struct ps_fault *fault, const char *file)
{
    assert_int_equal(fault->code, PS_CORRUPT);
    assert_non_null(strstr(fault->file, f->dir));
    assert_non_null(strstr(fault->file, file));
    assert_true(fault->what[0] != 0);
}

/* Reads every entry, both singly and by cursor: each is right, or the answer is PS_CORRUPT. */
static bool read_all(struct fixture *f)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_view *view = ps_snapshot_view(snap);
    struct ps_cursor *cursor = NULL;
    struct ps_slice value;
    char key[32];
    bool corrupt = false;
    for (unsigned i = 0; i < ENTRIES; i++) {
        snprintf(key, sizeof key, "key %05u", i);
        int rc = ps_get(view, f->tree, text(key), &value);
        assert_true(rc == 0 || rc == PS_CORRUPT);
        corrupt |= rc == PS_CORRUPT;
        if (rc == 0) {
            assert_int_equal(value.len, VALUE_LEN);
            assert_int_equal(strtoul(value.data, NULL, 10), i);
        }
    }
    int rc = ps_cursor_open(view, f->tree, &cursor);
    if (rc == 0) {
        unsigned n = 0;
        for (rc = ps_cursor_first(cursor); rc == 0; rc = ps_cursor_next(cursor))
            n++;
        assert_true(rc == PS_CORRUPT || n == ENTRIES);
        ps_cursor_close(cursor);
    }
    corrupt |= rc == PS_CORRUPT;
    ps_snapshot_free(snap);
    return corrupt;
}

static void a_changed_byte_in_any_page_is_found_by_reading_or_by_the_check(void **state)
{
    struct fixture *f = *state;
    uint64_t pages = size_of(f, "pando.db") / PAGE;
    unsigned by_opening = 0, by_reading = 0, by_check = 0;
    for (uint64_t page = 0; page < pages; page++) {
        uint64_t at = page * PAGE + (page * 1237 % PAGE);
        struct ps_fault fault = {0};
        change(f, "pando.db", at, 0x41);
        f->options.read_only_check = true;
        int rc = ps_open(f->dir, &f->options, &f->store, NULL, &fault);
        if (rc) {
            assert_int_equal(rc, PS_CORRUPT);
            assert_told(f, &fault, "pando.db");
            by_opening++;
        } else {
            bool read = read_all(f);
            if (read) {
                ps_last_fault(f->store, &fault);
                assert_told(f, &fault, "pando.db");
                assert_int_equal(fault.offset / PAGE, page);
                by_reading++;
            }
            rc = ps_check(f->store, NULL, NULL);
            assert_true(rc == 0 || rc == PS_CORRUPT);
            assert_true(!read || rc == PS_CORRUPT);
            by_check += rc == PS_CORRUPT;
            fixture_close(f, false);
        }
        change(f, "pando.db", at, 0x41);
    }
    assert_true(by_reading > ENTRIES * VALUE_LEN / PAGE);
    assert_true(by_check >= by_reading);
    f->options.read_only_check = false;
    fixture_open(f);
    assert_false(read_all(f));
    assert_int_equal(ps_check(f->store, NULL, NULL), 0);
    (void)by_opening;
}

static void any_changed_bit_of_a_page_is_found(void **state)
{
    struct fixture *f = *state;
    uint64_t pages = size_of(f, "pando.db") / PAGE, page = 0;
    f->options.read_only_check = true;
    for (; page < pages; page++) { /* a page that reading needs */
        change(f, "pando.db", page * PAGE + 100, 1);
        bool needed = ps_open(f->dir, &f->options, &f->store, NULL, NULL) == 0 && read_all(f);
        if (f->store)
            fixture_close(f, false);
        change(f, "pando.db", page * PAGE + 100, 1);
        if (needed)
            break;
    }
    assert_true(page < pages);
    for (unsigned at = 0; at < PAGE; at += at < 64 ? 1 : 61) {
        change(f, "pando.db", page * PAGE + at, (unsigned char)(1u << at % 8));
        fixture_open(f);
        assert_true(read_all(f));
        fixture_close(f, false);
        change(f, "pando.db", page * PAGE + at, (unsigned char)(1u << at % 8));
    }
}

static void a_page_that_holds_another_pages_bytes_is_found(void **state)
{
    struct fixture *f = *state;
    char path[STORE_DIR_PATH + 64];
    unsigned char a[PAGE], b[PAGE];
    path_of(f, path, "pando.db");
    int fd = open(path, O_RDWR);
    uint64_t pages = size_of(f, "pando.db") / PAGE;
    f->options.read_only_check = true;
    unsigned found = 0;
    for (uint64_t page = 8; page + 1 < pages; page += 3) {
        off_t at = (off_t)(page * PAGE);
        assert_int_equal(pread(fd, a, PAGE, at), PAGE);
        assert_int_equal(pread(fd, b, PAGE, at + PAGE), PAGE);
        assert_int_equal(pwrite(fd, b, PAGE, at), PAGE);
        if (ps_open(f->dir, &f->options, &f->store, NULL, NULL) == 0) {
            found += read_all(f);
            fixture_close(f, false);
        } else {
            found++;
        }
        assert_int_equal(pwrite(fd, a, PAGE, at), PAGE);
    }
    close(fd);
    assert_true(found > 5);
}

static void a_file_that_is_no_store_is_refused(void **state)
{
    struct fixture *f = *state;
    char path[STORE_DIR_PATH + 64];
    struct ps_fault fault = {0};
    path_of(f, path, "pando.db");
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 20000; i++)
        fputs("not a store ", file);
    fclose(file);
    int rc = ps_open(f->dir, &f->options, &f->store, NULL, &fault);
    assert_true(rc == PS_CORRUPT || rc == PS_VERSION);
    assert_non_null(strstr(fault.file, "pando.db"));
    assert_true(fault.what[0] != 0);
}

static void a_file_cut_short_is_refused_or_found(void **state)
{
    struct fixture *f = *state;
    char path[STORE_DIR_PATH + 64];
    struct ps_fault fault = {0};
    uint64_t size = size_of(f, "pando.db");
    static const unsigned parts[] = {0, 1, 5, 9};
    path_of(f, path, "pando.db");
    f->options.read_only_check = true;
    for (int i = 3; i >= 0; i--) {
        assert_int_equal(truncate(path, (off_t)(size * parts[i] / 10 + 100)), 0);
        int rc = ps_open(f->dir, &f->options, &f->store, NULL, &fault);
        assert_true(rc == PS_CORRUPT || rc == PS_VERSION || rc == 0);
        if (rc == 0) {
            assert_true(read_all(f) || ps_check(f->store, NULL, NULL) == PS_CORRUPT);
            fixture_close(f, false);
        }
    }
}

/* Leaves a log with `commits` synced commits since the checkpoint. */
static void leave_log(struct fixture *f, unsigned commits)
{
    f->options.durability = PS_ALWAYS;
    fixture_open(f);
    for (unsigned i = 0; i < commits; i++) {
        char key[16];
        snprintf(key, sizeof key, "log %05u", i);
        fixture_put(f, key, "a value that is found by this text: needle");
    }
    fixture_close(f, false);
}

/* Where the text of that commit is in a segment; 0: nowhere. */
static uint64_t offset_of_needle(struct fixture *f, const char *name, unsigned which)
{
    char path[STORE_DIR_PATH + 64];
    path_of(f, path, name);
    size_t size = size_of(f, name);
    char *bytes = malloc(size);
    int fd = open(path, O_RDONLY);
    assert_int_equal(pread(fd, bytes, size, 0), size);
    close(fd);
    const char *at = bytes;
    for (unsigned i = 0; at && i <= which; i++)
        at = memmem(at + 1, (size_t)(bytes + size - at) - 1, "needle", 6);
    uint64_t offset = at ? (uint64_t)(at - bytes) : 0;
    free(bytes);
    return offset;
}

static void damage_in_the_durable_part_of_the_log_is_refused(void **state)
{
    struct fixture *f = *state;
    char name[32];
    struct ps_fault fault = {0};
    leave_log(f, 50);
    log_segment(f, name);
    uint64_t at = offset_of_needle(f, name, 10);
    change(f, name, at, 0x20);
    assert_int_equal(ps_open(f->dir, &f->options, &f->store, NULL, &fault), PS_CORRUPT);
    assert_null(f->store);
    assert_told(f, &fault, name);
    assert_true(fault.offset <= at && fault.offset + 512 > at);
    change(f, name, at, 0x20);
    fixture_open(f);
    assert_int_equal(f->recovery.replayed_commits, 50);
}

static void a_torn_tail_of_the_log_is_cut(void **state)
{
    struct fixture *f = *state;
    char name[32];
    struct ps_slice value;
    leave_log(f, 50);
    log_segment(f, name);
    change(f, name, offset_of_needle(f, name, 49), 0x20);
    fixture_open(f);
    assert_int_equal(f->recovery.replayed_commits, 49);
    assert_true(f->recovery.torn_bytes > 0);
    struct ps_snapshot *snap = fixture_snapshot(f);
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("log 00048"), &value), 0);
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("log 00049"), &value),
                     PS_NOTFOUND);
    ps_snapshot_free(snap);
    fixture_put(f, "after", "the cut");
    fixture_reopen(f, false);
    snap = fixture_snapshot(f);
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("after"), &value), 0);
    assert_int_equal(ps_get(ps_snapshot_view(snap), f->tree, text("log 00049"), &value),
                     PS_NOTFOUND);
    ps_snapshot_free(snap);
}

/* Opening with one file changed somewhere: refused, or every state that opens is one there was. */
static void changed_bytes_of_the_log_never_pass_for_commits(void **state)
{
    struct fixture *f = *state;
    char name[32], copy[STORE_DIR_PATH + 8];
    leave_log(f, 30);
    log_segment(f, name);
    uint64_t end = offset_of_needle(f, name, 29);
    snprintf(copy, sizeof copy, "%s-copy", f->dir);
    for (uint64_t at = 0; at < end; at += 23) {
        store_dir_copy(f->dir, copy);
        change(f, name, at, 0x08);
        int rc = ps_open(f->dir, &f->options, &f->store, &f->recovery, NULL);
        assert_true(rc == 0 || rc == PS_CORRUPT || rc == PS_VERSION);
        if (rc == 0) {
            uint64_t count = 0;
            struct ps_snapshot *snap = fixture_snapshot(f);
            assert_int_equal(ps_count(ps_snapshot_view(snap), f->tree, &count), 0);
            assert_int_equal(count, ENTRIES + f->recovery.replayed_commits);
            ps_snapshot_free(snap);
            fixture_close(f, false);
        }
        store_dir_remove(f->dir);
        assert_int_equal(rename(copy, f->dir), 0);
    }
}

static void ignore_finding(void *arg, const char *line)
{
    unsigned *findings = arg;
    assert_true(strlen(line) > 0);
    ++*findings;
}

static void the_check_reports_each_finding_in_a_line(void **state)
{
    struct fixture *f = *state;
    unsigned findings = 0, with_findings = 0;
    uint64_t pages = size_of(f, "pando.db") / PAGE;
    f->options.read_only_check = true;
    for (uint64_t page = 4; page < pages; page += 5) {
        change(f, "pando.db", page * PAGE + 2000, 0x10);
        if (ps_open(f->dir, &f->options, &f->store, NULL, NULL) == 0) {
            findings = 0;
            int rc = ps_check(f->store, ignore_finding, &findings);
            assert_int_equal(rc == PS_CORRUPT, findings > 0);
            with_findings += findings > 0;
            fixture_close(f, false);
        }
        change(f, "pando.db", page * PAGE + 2000, 0x10);
    }
    assert_true(with_findings > 3);
}

static void fill_with_long_keys(struct fixture *f, unsigned keys)
{
    char key[3000];
    struct ps_txn *txn = fixture_begin(f);
    memset(key, 'k', sizeof key);
    for (unsigned i = 0; i < keys; i++) {
        snprintf(key + sizeof key - 8, 8, "%05u", i);
        struct ps_slice k = {key, sizeof key};
        assert_int_equal(ps_put(txn, f->tree, k, text("v")), 0);
    }
    fixture_commit(txn);
}

/* The separators of such keys are in runs: where one cannot be read there is no way on. */
static void a_separator_that_cannot_be_read_is_told_to_lookups_of_many(void **state)
{
    enum { KEYS = 120 };
    struct fixture *f = *state;
    static char keys[KEYS][3000];
    struct ps_lookup lookups[KEYS];
    unsigned told = 0;
    fixture_open(f);
    fill_with_long_keys(f, KEYS);
    fixture_close(f, true);
    uint64_t pages = size_of(f, "pando.db") / PAGE;
    f->options.read_only_check = true;
    for (uint64_t page = META_RESERVED / PAGE; page < pages; page += 2) {
        change(f, "pando.db", page * PAGE + 2000, 0x01);
        if (ps_open(f->dir, &f->options, &f->store, NULL, NULL) == 0) {
            struct ps_snapshot *snap = fixture_snapshot(f);
            for (unsigned i = 0; i < KEYS; i++) {
                memset(keys[i], 'k', sizeof keys[i]);
                snprintf(keys[i] + sizeof keys[i] - 8, 8, "%05u", i);
                lookups[i] = (struct ps_lookup){.tree = f->tree, .key = {keys[i], sizeof keys[i]}};
            }
            ps_get_many(ps_snapshot_view(snap), lookups, KEYS);
            for (unsigned i = 0; i < KEYS; i++) {
                assert_true(lookups[i].rc == 0 || lookups[i].rc == PS_CORRUPT);
                told += lookups[i].rc == PS_CORRUPT;
            }
            ps_snapshot_free(snap);
            fixture_close(f, false);
        }
        change(f, "pando.db", page * PAGE + 2000, 0x01);
    }
    assert_true(told > KEYS / 2);
}

/* A branch whose first child is the branch itself, with a right checksum: it was checked as a
 * branch, and must not be taken for a leaf. */
static void a_page_that_was_checked_for_another_level_is_found(void **state)
{
    struct fixture *f = *state;
    char path[STORE_DIR_PATH + 64];
    union {
        struct page page;
        uint8_t bytes[PAGE];
    } p;
    unsigned found = 0;
    path_of(f, path, "pando.db");
    int fd = open(path, O_RDWR);
    uint64_t pages = size_of(f, "pando.db") / PAGE;
    for (uint64_t page = META_RESERVED / PAGE; page < pages; page++) {
        off_t at = (off_t)(page * PAGE);
        assert_int_equal(pread(fd, p.bytes, PAGE, at), PAGE);
        if (p.page.kind != PAGE_BRANCH || p.page.number != page)
            continue;
        struct child self = {page, p.page.birth, 0};
        memcpy(p.bytes + node_offsets(&p.page)[0], &self, 16); /* the count stays */
        p.page.crc = page_crc(&p.page, PAGE);
        assert_int_equal(pwrite(fd, p.bytes, PAGE, at), PAGE);
        found++;
    }
    close(fd);
    assert_true(found > 0);
    f->options.read_only_check = true;
    fixture_open(f);
    assert_true(read_all(f));
    assert_int_equal(ps_check(f->store, NULL, NULL), PS_CORRUPT);
}

/* The log position of a meta says once more which commit its state is. */
static void a_meta_that_contradicts_itself_is_not_taken(void **state)
{
    struct fixture *f = *state;
    struct ps_fault fault = {0};
    uint8_t bytes[META_BYTES];
    struct meta meta;
    char path[STORE_DIR_PATH + 64];
    path_of(f, path, "pando.db");
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(meta_decode(bytes, &meta), 0);
    meta.pos.seq++;
    meta_encode(&meta, bytes);
    assert_int_equal(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
    fixture_open(f); /* by the other one */
    fixture_close(f, false);
    assert_int_equal(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(pwrite(fd, bytes, sizeof bytes, META_STRIDE), sizeof bytes);
    close(fd);
    assert_int_equal(ps_open(f->dir, &f->options, &f->store, NULL, &fault), PS_CORRUPT);
    assert_told(f, &fault, "pando.db");
}

/* Neither is taken: which of the stores the pages belong to, nobody can know. */
static void metas_of_two_stores_in_one_file_are_refused(void **state)
{
    struct fixture *f = *state;
    uint8_t first[META_BYTES], second[META_BYTES];
    struct ps_fault fault = {0};
    struct meta meta;
    char path[STORE_DIR_PATH + 64];
    path_of(f, path, "pando.db");
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, first, sizeof first, 0), sizeof first);
    assert_int_equal(meta_decode(first, &meta), 0);
    meta.id[15] ^= 1;
    meta_encode(&meta, second);
    for (unsigned other = 0; other < 2; other++) {
        assert_int_equal(pwrite(fd, first, sizeof first, META_STRIDE * (1 - other)), META_BYTES);
        assert_int_equal(pwrite(fd, second, sizeof second, META_STRIDE * other), META_BYTES);
        assert_int_equal(ps_open(f->dir, &f->options, &f->store, NULL, &fault), PS_CORRUPT);
        assert_told(f, &fault, "pando.db");
    }
    assert_int_equal(pwrite(fd, first, sizeof first, 0), META_BYTES);
    assert_int_equal(pwrite(fd, first, sizeof first, META_STRIDE), META_BYTES);
    close(fd);
    fixture_open(f);
    assert_false(read_all(f));
}

#define DAMAGE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DAMAGE_TEST(a_changed_byte_in_any_page_is_found_by_reading_or_by_the_check),
        DAMAGE_TEST(any_changed_bit_of_a_page_is_found),
        DAMAGE_TEST(a_page_that_holds_another_pages_bytes_is_found),
        DAMAGE_TEST(a_file_that_is_no_store_is_refused),
        DAMAGE_TEST(a_file_cut_short_is_refused_or_found),
        DAMAGE_TEST(damage_in_the_durable_part_of_the_log_is_refused),
        DAMAGE_TEST(a_torn_tail_of_the_log_is_cut),
        DAMAGE_TEST(changed_bytes_of_the_log_never_pass_for_commits),
        DAMAGE_TEST(a_separator_that_cannot_be_read_is_told_to_lookups_of_many),
        DAMAGE_TEST(a_page_that_was_checked_for_another_level_is_found),
        DAMAGE_TEST(a_meta_that_contradicts_itself_is_not_taken),
        DAMAGE_TEST(metas_of_two_stores_in_one_file_are_refused),
        DAMAGE_TEST(the_check_reports_each_finding_in_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
