/*
 * reading.h - reading all of a store, in every way there is.
 */
#ifndef PANDO_TESTS_DAMAGE_READING_H
#define PANDO_TESTS_DAMAGE_READING_H

#include "tests/damage/shapes.h"

struct reading {
    uint64_t digest; /* of all that a walk forwards found */
    uint64_t entries;
    unsigned errors;     /* answers of PS_CORRUPT */
    char unsound[200];   /* what does not agree with what; empty: all does */
    char forbidden[200]; /* an answer that damage must not lead to, or a walk without end */
};

/* Of the newest state. Nothing that is found is compared with what should be there. */
void read_everything(struct ps_store *store, struct reading *reading);

/* Looks each known entry up: an answer that is neither right nor PS_CORRUPT is described in
 * wrong[]. Returns how often it was PS_CORRUPT. */
unsigned read_known(struct ps_store *store, const struct known *known, char wrong[200]);

#endif
