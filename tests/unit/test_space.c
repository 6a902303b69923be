/*
 * test_space.c - the map of the file's pages beside an array of bytes: giving out, taking back,
 * marking, writing and loading, with several bitmaps and several levels above them.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/space.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/store_dir.h"

#define SHIFT    12u
#define PER      ((4096u - SPACE_HEADER) * 8) /* pages that one bitmap describes */
#define RESERVED 32u
#define MOST     (200u * PER)

enum { FREE, USED, LIVE };

struct pair {
    char dir[STORE_DIR_PATH];
    struct fault_vfs *files;
    int fd;
    struct space space;
    uint8_t *model; /* of each page */
    struct space_extent given[20000];
    unsigned n;
    uint64_t stamp;
    uint32_t seed;
};

static uint32_t next_random(struct pair *t)
{
    t->seed = t->seed * 1664525u + 1013904223u;
    return t->seed >> 8;
}

static const struct ps_vfs *vfs(struct pair *t)
{
    return fault_vfs(t->files);
}

static int set_up(void **state)
{
    struct pair *t = calloc(1, sizeof *t);
    assert_non_null(t);
    store_dir_make_in_memory(t->dir, "pando-space");
    char path[STORE_DIR_PATH + 16];
    snprintf(path, sizeof path, "%s/pando.db", t->dir);
    t->files = fault_vfs_new();
    t->fd = vfs(t)->open(vfs(t)->ctx, path, O_RDWR | O_CREAT, 0666);
    t->model = calloc(MOST, 1);
    assert_true(t->fd >= 0 && t->model != NULL);
    t->stamp = 1;
    t->seed = 3;
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *t = *state;
    vfs(t)->close(vfs(t)->ctx, t->fd);
    store_dir_remove(t->dir);
    fault_vfs_free(t->files);
    free(t->model);
    free(t);
    return 0;
}

static void open_map(struct pair *t, uint64_t pages)
{
    assert_int_equal(vfs(t)->ftruncate(vfs(t)->ctx, t->fd, pages << SHIFT), 0);
    assert_int_equal(space_init(&t->space, vfs(t), t->fd, SHIFT, RESERVED, pages), 0);
}

static void set_model(struct pair *t, page_ref first, uint32_t pages, uint8_t from, uint8_t to)
{
    for (uint32_t i = 0; i < pages; i++) {
        assert_true(first + i >= RESERVED && first + i < space_pages(&t->space));
        assert_int_equal(t->model[first + i], from);
        t->model[first + i] = to;
    }
}

static void give_one(struct pair *t, uint32_t min, uint32_t want)
{
    struct space_extent e = {0};
    assert_int_equal(space_alloc(&t->space, min, want, &e.first, &e.pages), 0);
    assert_in_range(e.pages, min, want);
    set_model(t, e.first, e.pages, FREE, USED);
    t->given[t->n++] = e;
}

static void take_one(struct pair *t, unsigned i)
{
    struct space_extent e = t->given[i];
    space_free(&t->space, e.first, e.pages);
    set_model(t, e.first, e.pages, USED, FREE);
    t->given[i] = t->given[--t->n];
}

static void assert_same_counts(struct pair *t)
{
    uint64_t free_pages = 0;
    for (page_ref p = RESERVED; p < space_pages(&t->space); p++) {
        free_pages += t->model[p] == FREE;
        assert_int_equal(space_is_live(&t->space, p), t->model[p] == LIVE);
    }
    assert_int_equal(space_free_pages(&t->space), free_pages);
}

static void pages_are_given_once_and_never_beyond_the_file(void **state)
{
    struct pair *t = *state;
    open_map(t, 256);
    for (unsigned i = 0; i < 20000; i++) {
        if (t->n > 0 && next_random(t) % 20 < 9) {
            take_one(t, next_random(t) % t->n);
        } else {
            uint32_t min = next_random(t) % 3 ? 1 : 1 + next_random(t) % 20;
            give_one(t, min, min + next_random(t) % 64);
        }
    }
    assert_true(space_pages(&t->space) > PER); /* across a border between bitmaps */
    assert_same_counts(t);
    space_destroy(&t->space);
}

static void a_full_disk_gives_what_there_is_and_then_says_so(void **state)
{
    struct pair *t = *state;
    open_map(t, 256);
    fault_vfs_full(t->files, true);
    assert_int_equal(space_reserve(&t->space, 256 - RESERVED), 0);
    assert_int_equal(space_reserve(&t->space, 256 - RESERVED + 1), PS_NOSPACE);
    struct space_extent e;
    int rc;
    while ((rc = space_alloc(&t->space, 3, 50, &e.first, &e.pages)) == 0) {
        set_model(t, e.first, e.pages, FREE, USED);
    }
    assert_int_equal(rc, PS_NOSPACE);
    assert_in_range(space_free_pages(&t->space), 0, 2);
    fault_vfs_full(t->files, false);
    give_one(t, 3, 50);
    t->space.most = space_pages(&t->space); /* the end of the mapping is a full disk, too */
    assert_int_equal(space_reserve(&t->space, MOST), PS_NOSPACE);
    assert_same_counts(t);
    space_destroy(&t->space);
}

/* A checkpoint: some extents become live, some dead; map pages take and give back pages. */
static void write_map(struct pair *t, struct space_root *root, int expected)
{
    space_extents freed = {0};
    for (unsigned i = 0; i < t->n; i++) {
        bool live = t->model[t->given[i].first] == LIVE;
        if (next_random(t) % 2) {
            space_mark_live(&t->space, t->given[i].first, t->given[i].pages, !live);
            set_model(t, t->given[i].first, t->given[i].pages, live ? LIVE : USED,
                      live ? USED : LIVE);
        }
    }
    t->stamp++;
    assert_int_equal(space_write(&t->space, t->stamp, root, &freed), expected);
    if (expected != 0) {
        space_unwrite(&t->space);
        vec_free(&freed);
        return;
    }
    for (unsigned level = 0; level <= t->space.top; level++) {
        for (size_t i = 0; i < t->space.levels[level].n; i++) {
            const struct space_node *node = &t->space.levels[level].at[i];
            if (node->moved) {
                set_model(t, node->ref, 1, FREE, LIVE);
                assert_int_equal(node->birth, t->stamp);
            }
        }
    }
    for (size_t i = 0; i < freed.n; i++) {
        set_model(t, freed.at[i].first, 1, LIVE, USED);
    }
    space_written(&t->space);
    for (size_t i = 0; i < freed.n; i++) {
        space_free(&t->space, freed.at[i].first, 1);
        set_model(t, freed.at[i].first, 1, USED, FREE);
    }
    vec_free(&freed);
}

/* A new process: what was not live is free. */
static void reopen_map(struct pair *t, const struct space_root *root)
{
    uint64_t pages = space_pages(&t->space);
    space_destroy(&t->space);
    assert_int_equal(space_init(&t->space, vfs(t), t->fd, SHIFT, RESERVED, pages), 0);
    struct ps_fault fault = {0};
    assert_int_equal(space_load(&t->space, root, 0, &fault), 0);
    for (page_ref p = 0; p < pages; p++) {
        t->model[p] = t->model[p] == USED ? FREE : t->model[p];
    }
    for (unsigned i = 0; i < t->n;) {
        if (t->model[t->given[i].first] == LIVE) {
            i++;
        } else {
            t->given[i] = t->given[--t->n];
        }
    }
    assert_same_counts(t);
}

static void long_runs_are_found_across_bitmaps_and_go_to_the_end_otherwise(void **state)
{
    struct pair *t = *state;
    open_map(t, 256);
    give_one(t, PER + 1000, PER + 1000);
    assert_true(space_pages(&t->space) < PER + 1000 + 256 + 2 * RESERVED); /* the rest was grown */
    for (unsigned i = 0; i < 300; i++) {
        if (t->n > 0 && next_random(t) % 20 < 9) {
            take_one(t, next_random(t) % t->n);
        } else {
            uint32_t most = i % 10 == 0 ? PER + PER / 2 : 2000;
            uint32_t pages = 1 + next_random(t) % most;
            give_one(t, pages, pages);
        }
    }
    assert_same_counts(t);
    while (t->n > 0) {
        take_one(t, 0);
    }
    uint64_t pages = space_pages(&t->space);
    give_one(t, (uint32_t)(pages - RESERVED), (uint32_t)(pages - RESERVED)); /* all of it */
    assert_int_equal(space_pages(&t->space), pages);
    assert_int_equal(space_free_pages(&t->space), 0);
    fault_vfs_full(t->files, true);
    struct space_extent e;
    assert_int_equal(space_alloc(&t->space, 70, 70, &e.first, &e.pages), PS_NOSPACE);
    assert_same_counts(t);
    struct space_root root;
    fault_vfs_full(t->files, false);
    write_map(t, &root, 0);
    write_map(t, &root, 0);
    reopen_map(t, &root);
    space_destroy(&t->space);
}

static void write_and_load(struct pair *t, unsigned rounds)
{
    struct space_root root;
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < 150; i++) {
            unsigned k = t->n > 0 ? next_random(t) % t->n : 0;
            if (t->n > 0 && next_random(t) % 3 == 0 && t->model[t->given[k].first] == USED) {
                take_one(t, k);
            } else {
                give_one(t, 1, 1 + next_random(t) % 200);
            }
        }
        write_map(t, &root, 0);
        if (round % 3 == 2) {
            reopen_map(t, &root);
        }
    }
    reopen_map(t, &root);
}

static void a_map_is_loaded_as_it_was_written(void **state)
{
    struct pair *t = *state;
    open_map(t, 256);
    write_and_load(t, 10);
    assert_int_equal(t->space.top, 1); /* it grew beyond one bitmap */
    space_destroy(&t->space);
}

static void a_map_of_several_bitmaps_is_loaded_as_it_was_written(void **state)
{
    struct pair *t = *state;
    open_map(t, 3 * PER - 5);
    write_and_load(t, 6);
    space_destroy(&t->space);
}

static void a_map_of_three_levels_is_loaded_as_it_was_written(void **state)
{
    struct pair *t = *state;
    open_map(t, 180 * PER + 77); /* 22 GiB, of which little is ever written */
    assert_int_equal(t->space.top, 2);
    t->space.hint = 175 * PER;
    write_and_load(t, 3);
    space_destroy(&t->space);
}

static void a_map_that_is_given_up_changes_nothing(void **state)
{
    struct pair *t = *state;
    struct space_root root, ignored;
    open_map(t, PER - 100);
    for (unsigned i = 0; i < 60; i++) {
        give_one(t, 1, 20);
    }
    write_map(t, &root, 0);
    for (unsigned i = 0; i < 6; i++) {
        give_one(t, 1, 200);
        fault_vfs_fail(t->files, FAULT_PWRITE, FAULT_ANY, 1 + i % 2, i % 2 ? EIO : ENOSPC, false);
        write_map(t, &ignored, i % 2 && t->space.top == 0 ? 0 : i % 2 ? PS_IO : PS_NOSPACE);
        fault_vfs_fail(t->files, FAULT_CALLS, 0, 0, 0, false);
        assert_same_counts(t);
        write_map(t, &root, 0);
        assert_same_counts(t);
    }
    reopen_map(t, &root);
    space_destroy(&t->space);
}

static void damage_in_the_map_is_an_error_that_names_the_place(void **state)
{
    struct pair *t = *state;
    struct space_root root;
    open_map(t, 2 * PER);
    give_one(t, 1, 20);
    write_map(t, &root, 0);
    assert_int_equal(root.level, 1);
    for (unsigned i = 0; i < 3; i++) {
        page_ref ref = i < 2 ? t->space.levels[0].at[i].ref : root.ref;
        struct space again;
        struct ps_fault fault = {0};
        uint8_t byte;
        assert_int_equal(vfs(t)->pread(vfs(t)->ctx, t->fd, &byte, 1, (ref << SHIFT) + 999), 1);
        byte ^= 4;
        assert_int_equal(vfs(t)->pwrite(vfs(t)->ctx, t->fd, &byte, 1, (ref << SHIFT) + 999), 0);
        assert_int_equal(space_init(&again, vfs(t), t->fd, SHIFT, RESERVED, 2 * PER), 0);
        assert_int_equal(space_load(&again, &root, 0, &fault), PS_CORRUPT);
        assert_int_equal(fault.offset, ref << SHIFT);
        space_destroy(&again);
        byte ^= 4;
        assert_int_equal(vfs(t)->pwrite(vfs(t)->ctx, t->fd, &byte, 1, (ref << SHIFT) + 999), 0);
    }
    space_destroy(&t->space);
}

static void a_page_that_is_freed_or_marked_twice_is_refused(void **state)
{
    struct pair *t = *state;
    page_ref first;
    uint32_t got;
    open_map(t, 256);
    assert_int_equal(space_alloc(&t->space, 4, 4, &first, &got), 0);
    uint64_t free_pages = space_free_pages(&t->space);
    assert_int_equal(space_mark_live(&t->space, first, 4, false), PS_CORRUPT);
    assert_int_equal(atomic_load(&t->space.damage), first);
    assert_int_equal(space_mark_live(&t->space, first, 4, true), 0);
    assert_int_equal(space_mark_live(&t->space, first + 1, 1, true), PS_CORRUPT);
    assert_int_equal(space_free(&t->space, first, 4), PS_CORRUPT); /* the map has it */
    assert_int_equal(space_mark_live(&t->space, first, 4, false), 0);
    assert_int_equal(space_free_pages(&t->space), free_pages);
    assert_int_equal(space_free(&t->space, first, 4), 0);
    assert_int_equal(space_free(&t->space, first + 3, 1), PS_CORRUPT);
    assert_int_equal(space_free(&t->space, RESERVED - 1, 1), PS_CORRUPT);
    assert_int_equal(space_free(&t->space, 255, 2), PS_CORRUPT); /* beyond the file */
    assert_int_equal(space_free_pages(&t->space), free_pages + 4);
    space_destroy(&t->space);
}

/* Each is right by itself, and would give out what the other has in use. */
static void bitmaps_in_each_others_places_are_refused(void **state)
{
    struct pair *t = *state;
    struct space_root root;
    space_extents freed = {0};
    struct ps_fault fault = {0};
    struct space again;
    union {
        struct page page;
        uint8_t bytes[1 << SHIFT];
    } index;
    open_map(t, 2 * PER);
    assert_int_equal(space_write(&t->space, 9, &root, &freed), 0);
    assert_int_equal(root.level, 1);
    off_t at = (off_t)(root.ref << SHIFT);
    assert_int_equal(vfs(t)->pread(vfs(t)->ctx, t->fd, index.bytes, sizeof index, (uint64_t)at),
                     sizeof index);
    for (unsigned i = 0; i < 24; i++) {
        uint8_t byte = index.bytes[SPACE_HEADER + i];
        index.bytes[SPACE_HEADER + i] = index.bytes[SPACE_HEADER + 24 + i];
        index.bytes[SPACE_HEADER + 24 + i] = byte;
    }
    index.page.crc = page_crc(&index.page, sizeof index);
    assert_int_equal(vfs(t)->pwrite(vfs(t)->ctx, t->fd, index.bytes, sizeof index, (uint64_t)at),
                     0);
    assert_int_equal(space_init(&again, vfs(t), t->fd, SHIFT, RESERVED, 2 * PER), 0);
    assert_int_equal(space_load(&again, &root, 2 * PER, &fault), PS_CORRUPT);
    assert_non_null(strstr(fault.what, "in another's place"));
    space_destroy(&again);
    space_destroy(&t->space);
    vec_free(&freed);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(pages_are_given_once_and_never_beyond_the_file),
        TEST(long_runs_are_found_across_bitmaps_and_go_to_the_end_otherwise),
        TEST(a_full_disk_gives_what_there_is_and_then_says_so),
        TEST(a_map_is_loaded_as_it_was_written),
        TEST(a_map_of_several_bitmaps_is_loaded_as_it_was_written),
        TEST(a_map_of_three_levels_is_loaded_as_it_was_written),
        TEST(a_map_that_is_given_up_changes_nothing),
        TEST(damage_in_the_map_is_an_error_that_names_the_place),
        TEST(a_page_that_is_freed_or_marked_twice_is_refused),
        TEST(bitmaps_in_each_others_places_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
