/*
 * life.h - what a store goes through while one system call fails, and what must be true of it.
 *
 * A life goes on after an error as long as the store does, and notes what was acknowledged and what
 * may be there. After every error the published state is looked at as a whole. life_after() opens
 * the store again without faults and expects a state that is allowed.
 *
 * A finding ends the program, with the case that led to it.
 */
#ifndef PANDO_TESTS_FAULTS_LIFE_H
#define PANDO_TESTS_FAULTS_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "storage/pandostore.h"

struct life {
    const char *dir;
    const struct ps_vfs *vfs; /* NULL: the operating system's */
    struct ps_store *store;   /* NULL: not open */
    bool harmless;            /* the fault must not be noticed at all */
    bool resumes;             /* the fault is that there is no space: nothing ends for good */
    bool poisoned;            /* the store took no more writes */
    uint64_t live;            /* the state that is published */
    uint64_t floor, tried;    /* states that may be found later: [floor, tried] */
    uint64_t errors;          /* that were answered */
    uint64_t retries;         /* of what then succeeded, without opening again */
};

/* Creation; commits at every level, large and small, with savepoints; checkpoints; a long read that
 * moves; closing both ways; recovery; changes of durability; recycling of the log. */
void life_of_all(struct life *life);
/* Checkpoints that are paced, by their own thread. */
void life_of_pacing(struct life *life);
/* Closes; then without faults: an allowed state, sound, and it goes on. */
void life_after(struct life *life);

#define LIFE_CASE 200
/* What a finding is about, for its message. */
extern char life_case[LIFE_CASE];
void life_describe(const char *format, ...) __attribute__((format(printf, 1, 2)));
void finding(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
