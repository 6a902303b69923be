/*
 * Rounds that end with a cut of the process, or of it and the power of its disk: load, cut at a
 * random moment, check, restart, compare. Several rounds follow each other on one directory.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/crash/test.h"

#define ROUNDS_PER_DIRECTORY 10
#define MAX_FAILURES         3

static int open_directory(struct test *test)
{
    char path[300], directory[310], log[310];
    snprintf(path, sizeof path, "%s/data.%d", test->folder, test->directories + 1);
    snprintf(log, sizeof log, "%s.log", path);
    snprintf(directory, sizeof directory, "%s%s", path, test->cut == CUT_POWER ? "/data" : "");
    if (test->cut == CUT_POWER && (disk_make(&test->disk, path) || disk_mount(&test->disk)))
        return -1;
    return test_open(test, directory, log) ? -1 : test_start(test);
}

static void leave_directory(struct test *test, bool good)
{
    char command[600];
    test_close(test);
    if (test->cut == CUT_POWER) {
        if (good)
            disk_remove(&test->disk);
        else
            disk_unmount(&test->disk); /* the image stays, to be looked at */
    } else if (good) {
        snprintf(command, sizeof command, "rm -rf -- '%s'", test->server.directory);
        if (system(command) != 0)
            printf("left: %s\n", test->server.directory);
    }
}

/* Stops the server first, so that nothing is acknowledged that the disk can no longer take; then
 * the disk goes, then the process. */
static int cut(struct test *test)
{
    if (test->cut == CUT_KILL) {
        server_kill(&test->server);
        return 0;
    }
    kill(test->server.pid, SIGSTOP);
    waitpid(test->server.pid, NULL, WUNTRACED);
    int result = disk_cut(&test->disk);
    server_kill(&test->server);
    return result;
}

static int run_round(struct test *test)
{
    pthread_t threads[CLIENTS];
    enum level level = test->level;
    test->rounds_at[level]++;
    test_load(test, threads);
    int result = cut(test);
    result |= test_join(test, threads);
    test_promise(test, level);
    if (result == 0 && test->cut == CUT_POWER)
        result = disk_unmount(&test->disk) || disk_mount(&test->disk) ? -1 : 0;
    test->turn++;
    if (result != 0 || test_check(test) != 0 || test_start(test) != 0)
        return -1;
    if (verify_all(test->server.port, test->histories) != 0)
        return -1;
    test_count(test);
    return 0;
}

/* An orderly stop keeps everything at every level; then the directory is done with. */
static int close_directory(struct test *test)
{
    test_renew_loads(test, 0);
    int status = server_stop(&test->server);
    if (status != 0) {
        printf("exit status %d after SIGTERM\n", status);
        return -1;
    }
    if (test->cut == CUT_POWER && (disk_cut(&test->disk) != 0 || disk_unmount(&test->disk) != 0 ||
                                   disk_mount(&test->disk) != 0))
        return -1;
    if (test_check(test) != 0 || test_start(test) != 0)
        return -1;
    return verify_all(test->server.port, test->histories);
}

static void tell_failure(struct test *test, int round)
{
    printf("round %d failed at durability %s, cut: %s; left: %s\n", round, level_names[test->level],
           cut_names[test->cut],
           test->cut == CUT_POWER ? test->disk.image : test->server.directory);
    server_show_log(&test->server);
    leave_directory(test, false);
}

int run_cuts(struct test *test, int rounds, int *executed)
{
    int failures = 0, in_directory = 0;
    for (int round = 1; round <= rounds && failures < MAX_FAILURES; round++) {
        int result = in_directory == 0 ? open_directory(test) : 0;
        ++*executed;
        if (result == 0)
            result = run_round(test);
        bool last = ++in_directory == ROUNDS_PER_DIRECTORY || round == rounds;
        if (result == 0 && last)
            result = close_directory(test);
        if (result != 0) {
            failures++;
            tell_failure(test, round);
        } else if (last) {
            leave_directory(test, true);
        }
        if (result != 0 || last)
            in_directory = 0;
    }
    return failures;
}
