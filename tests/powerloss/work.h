/*
 * work.h - lives of a store: opening, random steps, kills, failures; and what must be true of it.
 *
 * The store's files go through a recorder, so every step leaves events; every commit, promise and
 * word about lost commits is an event, too. Whatever the store answers is held against the line of
 * states that are possible.
 *
 * Invariants:
 *  1. work->line is what the journal's words say so far, work->now the newest state of it.
 *  2. A difference, or an error that nothing excuses, ends the round (work->fail does not return).
 *
 * Threads: one, the writer; a second one of the test makes checkpoints beside it.
 */
#ifndef PANDO_TESTS_POWERLOSS_WORK_H
#define PANDO_TESTS_POWERLOSS_WORK_H

#include <pthread.h>

#include "tests/model/rng.h"
#include "tests/powerloss/recorder.h"
#include "tests/powerloss/tally.h"

#define WORK_HELD 2

/* Workloads made for one purpose. */
enum shape {
    SHAPE_ANY,  /* for none: drawn */
    SHAPE_EVEN, /* commits of one put and one size: old records of the log fit where new ones go */
    SHAPE_BESIDE, /* commits of short values in few slots beside every checkpoint, which is held up
                   */
    SHAPE_LONG,   /* long values in few keys: their pages are free and used again while written */
    SHAPES
};

struct config {
    uint32_t page_size;
    uint64_t slots; /* of dirty memory */
    enum ps_durability level;
    uint64_t segment;
    enum keys keys;
    unsigned numbers; /* of keys in use */
    unsigned hold_up; /* one in so many changes of background threads; 0: none */
    unsigned steps;
    bool own_checkpoints; /* the engine makes some by itself */
    enum shape shape;
    bool bulk, long_values, failures, kills, snapshots, levels;
    bool options; /* trees get some, and values are merged */
};

struct held {
    struct ps_snapshot *snap; /* NULL: none */
    const struct state *state;
};

struct work {
    struct config config;
    struct rng rng;
    struct recorder *rec;
    const char *dir;
    struct states *states;
    struct line line;
    struct state now;
    struct tally *tally;
    void (*fail)(struct work *work, const char *assertion, const char *text);
    void *arg; /* fail's */

    struct ps_store *store; /* NULL: closed */
    ps_tree ids[STATE_TREES];
    uint64_t tags;
    uint64_t system; /* sequence that a killed process leaves */
    bool over;       /* this life is: the process is dead, or the store takes no more writes */
    bool excused;    /* a failure was ordered in this life */
    struct held held[WORK_HELD];
    pthread_t checkpointer;
    bool checkpoint_runs;
    int checkpoint_rc;
    unsigned char key[KEY_ROOM], value[VALUE_ROOM];
};

struct config config_make(uint64_t seed, uint64_t round, enum shape shape);
/* Its name on the command line: "any", "even", "beside", "long". */
const char *shape_name(enum shape shape);
/* Opens the directory and holds what is found against the line, from sequence `low` on. */
void work_open(struct work *work, uint64_t low);
/* Checks the store's structure, and its content again. */
void work_check(struct work *work);
/* Goes on for so many steps, over as many lives as it takes. */
void work_steps(struct work *work, unsigned steps);
/* Closes and opens again, unless the life is ending anyway. */
void work_reopen(struct work *work);
void work_close(struct work *work, bool checkpoint);

#endif
