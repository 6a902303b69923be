/*
 * lies.h - vfs tables that keep something from the engine, or do what must not be done: what the
 * suite has to find.
 */
#ifndef PANDO_TESTS_FAULTS_LIES_H
#define PANDO_TESTS_FAULTS_LIES_H

#include "storage/vfs.h"
#include "tests/faults/calls.h"

struct lie {
    enum call call; /* that is made to fail while it is told */
    const char *what;
    void (*tell)(struct ps_vfs *vfs);
};

extern const struct lie lies[];
extern const unsigned lies_count;

const struct ps_vfs *lies_vfs(const struct lie *lie);

#endif
