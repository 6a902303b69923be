/*
 * A run of the test, and the steps that all kinds of cuts share.
 *
 * Kinds of cuts: `kill` ends the process; `power` takes the power from the disk below it, too;
 * `disk` records all that the disk is asked for and rebuilds it as it was at many moments.
 */
#ifndef TESTS_CRASH_TEST_H
#define TESTS_CRASH_TEST_H

#include <pthread.h>
#include <stdbool.h>

#include "tests/crash/disk.h"
#include "tests/crash/server.h"
#include "tests/crash/verify.h"

enum level { ALWAYS, EVERYSEC, NONE, LEVELS };
enum cut { CUT_KILL, CUT_POWER, CUT_DISK, CUTS };

extern const char *const level_names[LEVELS];
extern const char *const cut_names[CUTS];

struct test {
    struct server server;
    char folder[256]; /* everything of this run */
    enum cut cut;
    struct disk disk; /* the server's directory is on it, unless the cut is `kill` */
    uint64_t seed, dice;
    enum level level; /* of the running server */
    int turn;         /* the level of what loses its power; that of what is killed is chance */
    struct history histories[CLIENTS];
    /* What was acknowledged, by client, before the server said that it had it on the device, and
     * when it said so; 0: it did not. */
    uint64_t durable[CLIENTS];
    int64_t durable_at;
    /* what happened */
    uint64_t acknowledged, unacknowledged_found, lost, kept_by_device;
    int rounds_at[LEVELS], start_kills, saves, directories, torn;
};

void pause_us(uint64_t us);
/* Starts the server at a level picked for this start, now and then killing a start first. */
int test_start(struct test *test);
int test_check(struct test *test);
/* A new directory with the next variant of options: `path`, its log beside it; nothing sent. */
int test_open(struct test *test, const char *path, const char *log);
/* Ends the server, forgets what was sent. */
void test_close(struct test *test);
/* Loads the server until a random moment. The load goes on; then cut, and test_join. */
void test_load(struct test *test, pthread_t threads[CLIENTS]);
/* Waits for the load to end: 0, or -1 after printing what a client has to say. */
int test_join(struct test *test, pthread_t threads[CLIENTS]);
/* Prepares the next load: a new range of numbers, nothing sent. */
void test_renew_loads(struct test *test, int port);
/* The promise of the level that the load ran at: what was acknowledged, as far as it survives. */
void test_promise(struct test *test, enum level level);
/* After verify_all: counts what was found and what was not. */
void test_count(struct test *test);

/* Rounds of load, cut, check, restart, compare (`kill`, `power`), and of load, then many rebuilt
 * disks (`disk`). The number that failed; `*executed` tells how many ran. */
int run_cuts(struct test *test, int rounds, int *executed);
int run_rebuilt(struct test *test, int rounds, int *executed);

#endif
