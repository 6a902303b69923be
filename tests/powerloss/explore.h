/*
 * explore.h - one round: a workload is recorded, and images of its crashes are opened.
 *
 * An image is named by where the power was lost (an event of the journal) and by the number of a
 * choice. Opening it is recorded in a journal of its own, so that images of what was left by a loss
 * of power during recovery, or in the life after it, are named by a path: CUT.CHOICE/CUT.CHOICE.
 *
 * A round runs in a process of its own; the one that started it reads what became of it.
 *
 * Threads: one, besides those of the engine.
 */
#ifndef PANDO_TESTS_POWERLOSS_EXPLORE_H
#define PANDO_TESTS_POWERLOSS_EXPLORE_H

#include "tests/powerloss/tally.h"
#include "tests/powerloss/work.h"
#include "tests/support/store_dir.h"

#define EXPLORE_DEPTH 3 /* crashes in a row, at most */
#define PATH_TEXT     96

/* Shared by a round's process and the one that waits for it. */
struct progress {
    struct tally tally;
    volatile uint64_t moves; /* rises as long as it does not hang */
    volatile uint64_t images, passed;
    bool done, failed;
    char path[PATH_TEXT]; /* of the image that is being looked at; empty: the workload */
    char kind[40];        /* what of it is there */
    char assertion[48];
    char text[900];
    char journal[STORE_DIR_PATH + 64]; /* file with which it can be seen again; or empty */
};

struct order {
    uint64_t seed, round;
    uint64_t images;  /* to be looked at */
    enum shape shape; /* of workloads (work.h) */
    const char *path; /* only this image (NULL: those that the seed says) */
    const char *dir;  /* where stores are made */
    const char *keep; /* where a failing journal is left */
    struct progress *progress;
    bool verbose;
};

/* Does a round and ends the process: 0 if nothing failed. */
void explore_round(const struct order *order) __attribute__((noreturn));
/* Looks at one image of a journal in a file. */
void explore_journal(const struct order *order, const char *file) __attribute__((noreturn));

#endif
