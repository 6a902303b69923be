/*
 * saved.h - a journal in a file: enough to see a failing image again, whatever threads did.
 *
 * The format is this program's own memory, for the same build on the same machine.
 */
#ifndef PANDO_TESTS_POWERLOSS_SAVED_H
#define PANDO_TESTS_POWERLOSS_SAVED_H

#include "tests/powerloss/work.h"

struct saved {
    struct journal journal;
    struct line line; /* at its beginning */
    struct config config;
};

bool saved_write(const struct saved *saved, const char *path);
/* The states are kept with `states`. */
bool saved_read(struct saved *saved, struct states *states, const char *path);

#endif
