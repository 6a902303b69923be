/*
 * fault_fixture.h - a store of the fixture on files whose calls can be made to fail; and progress
 * that ends the process.
 */
#ifndef PANDO_TESTS_SUPPORT_FAULT_FIXTURE_H
#define PANDO_TESTS_SUPPORT_FAULT_FIXTURE_H

#include <unistd.h>

#include "tests/support/fault_vfs.h"
#include "tests/support/store_fixture.h"

/* Closes the store; it is opened next on these files, which the caller frees. */
static inline struct fault_vfs *fixture_close_for_faults(struct fixture *f)
{
    struct fault_vfs *files = fault_vfs_new();
    fixture_close(f, true);
    f->options.vfs = fault_vfs(files);
    return files;
}

/* For struct ps_copy_watch, with an int: at that call the process ends with status 9. */
static inline bool end_the_process(void *arg, uint64_t done, uint64_t whole)
{
    (void)done;
    (void)whole;
    if (--*(int *)arg == 0)
        _exit(9);
    return true;
}

#endif
