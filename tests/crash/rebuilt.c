/*
 * Rounds on rebuilt disks: one load is recorded, below the file system, with all its writes and
 * flushes; then the disk is made as it was at many moments of it, each is mounted, checked, served
 * from, compared. A moment is after a flush, or between two with a choice of sectors.
 *
 * Invariant: what was acknowledged before the entry that follows a moment arrived has all its
 * flushes before that moment, so it must be there.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/crash/journal.h"
#include "tests/crash/test.h"

#define MOMENTS_PER_LOAD 10
#define MAX_FAILURES     3

struct recorded {
    struct journal *journal;
    char image[300]; /* of the disk before the load */
    enum level level;
    size_t begin; /* entries that the empty directory took */
};

/* Loads a server on a recorded disk until it is killed. */
static int load_recorded(struct test *test, struct recorded *load, const char *path)
{
    pthread_t threads[CLIENTS];
    char directory[310], log[310];
    snprintf(directory, sizeof directory, "%s/data", path);
    snprintf(log, sizeof log, "%s.log", path);
    if (disk_mount(&test->disk) != 0)
        return -1;
    int result = test_open(test, directory, log) || test_start(test) ? -1 : 0;
    load->level = test->level;
    load->begin = journal_length(load->journal);
    if (result == 0) {
        test_load(test, threads);
        server_kill(&test->server);
        result = test_join(test, threads);
    }
    server_kill(&test->server);
    return disk_unmount(&test->disk) ? -1 : result;
}

static int record(struct test *test, struct recorded *load)
{
    char path[300], served[310];
    snprintf(path, sizeof path, "%s/disk.%d", test->folder, test->directories + 1);
    snprintf(served, sizeof served, "%s.served", path);
    if (disk_make(&test->disk, path) != 0)
        return -1;
    snprintf(load->image, sizeof load->image, "%s", test->disk.image);
    load->journal = journal_serve(load->image, served);
    if (!load->journal)
        return -1;
    snprintf(test->disk.image, sizeof test->disk.image, "%s", journal_file(load->journal));
    int result = load_recorded(test, load, path);
    snprintf(test->disk.image, sizeof test->disk.image, "%s", load->image);
    if (result == 0)
        journal_stop(load->journal);
    return result;
}

/* The promise at a moment: at `always` all that was acknowledged before; else what was before the
 * server said, before, that the device has it. */
static void promise(struct test *test, const struct recorded *load, size_t moment)
{
    int64_t when = journal_when(load->journal, moment);
    for (int c = 0; c < CLIENTS; c++) {
        struct history *history = &test->histories[c];
        uint64_t count = 0, acknowledged = atomic_load(&history->load.acknowledged);
        while (count < acknowledged && history->load.acknowledged_at[count] < when)
            count++;
        if (load->level != ALWAYS)
            count = test->durable_at && test->durable_at < when ? test->durable[c] : 0;
        model_clear(&history->model);
        history->promised = count;
        if (load->level != ALWAYS)
            test->kept_by_device += count;
        test->acknowledged += count;
    }
}

static int run_moment(struct test *test, const struct recorded *load, size_t moment, uint64_t dice)
{
    test->rounds_at[load->level]++;
    test->torn += dice != 0;
    promise(test, load, moment);
    if (journal_rebuild(load->journal, moment, dice, test->disk.image) != 0 ||
        disk_mount(&test->disk) != 0)
        return -1;
    int result = -1;
    if (test_check(test) == 0 && test_start(test) == 0)
        result = verify_all(test->server.port, test->histories);
    server_kill(&test->server);
    if (result == 0)
        result = disk_unmount(&test->disk);
    return result;
}

static int by_size(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

/* Moments in ascending order: half of them right after a flush, half anywhere. */
static void pick_moments(struct test *test, const struct recorded *load, size_t *moments)
{
    size_t length = journal_length(load->journal), flushes = journal_flushes(load->journal);
    for (int i = 0; i < MOMENTS_PER_LOAD; i++) {
        uint64_t number = random_next(&test->dice);
        size_t moment =
            i % 2 ? journal_after_flush(load->journal, number % flushes) : number % (length + 1);
        moments[i] =
            moment < load->begin ? load->begin + number % (length - load->begin + 1) : moment;
    }
    qsort(moments, MOMENTS_PER_LOAD, sizeof *moments, by_size);
}

static void tell_failure(struct test *test, const struct recorded *load, int round, size_t moment)
{
    printf("round %d failed at durability %s, cut: disk, entry %zu of %zu; left: %s\n", round,
           level_names[load->level], moment, load->journal ? journal_length(load->journal) : 0,
           test->disk.image);
    server_show_log(&test->server);
}

/* One load and its moments, at most so many: the number of those that failed. */
static int run_load(struct test *test, int rounds, int *executed)
{
    struct recorded load = {0};
    size_t moments[MOMENTS_PER_LOAD];
    int failures = 0;
    if (record(test, &load) != 0) {
        failures++;
        ++*executed;
        tell_failure(test, &load, *executed, 0);
        rounds = 0;
    } else {
        pick_moments(test, &load, moments);
    }
    for (int i = 0; i < MOMENTS_PER_LOAD && i < rounds && failures == 0; i++) {
        ++*executed;
        if (run_moment(test, &load, moments[i], i % 2 ? random_next(&test->dice) | 1 : 0) == 0)
            continue;
        failures++;
        tell_failure(test, &load, *executed, moments[i]);
    }
    test_close(test);
    test->turn++;
    if (failures)
        disk_unmount(&test->disk);
    else
        disk_remove(&test->disk);
    if (load.journal)
        journal_free(load.journal);
    return failures;
}

int run_rebuilt(struct test *test, int rounds, int *executed)
{
    int failures = 0;
    while (*executed < rounds && failures < MAX_FAILURES)
        failures += run_load(test, rounds - *executed, executed);
    return failures;
}
