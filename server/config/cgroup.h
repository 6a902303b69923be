/*
 * cgroup.h - what the kernel says about this process's memory: its limit, and whether pages of
 * files that were thrown out are read again.
 *
 * Control groups of version 1 and 2 are understood, nested ones too (the smallest limit on the way
 * up counts), and a container that sees its own group as the root.
 *
 * Threads: any; nothing is kept. `root` is put before every path: "" but in tests.
 */
#ifndef PANDO_SERVER_CONFIG_CGROUP_H
#define PANDO_SERVER_CONFIG_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of memory that this process may use: its group's limit, or the machine's memory. */
int64_t cgroup_memory_limit(const char *root);

/* Pages of files that this process's group has read again soon after they were thrown out, since
 * the group was made. false: the kernel does not say. */
bool cgroup_refaults(const char *root, uint64_t *pages);

#endif
