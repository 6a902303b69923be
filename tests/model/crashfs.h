/*
 * crashfs.h - the operating system's files, with a camera: copies the store's directory as a
 * process killed at that moment would leave it, or a loss of power; and makes log writes fail.
 *
 * Every operation that changes files holds a lock shared; the copy is made holding it alone. So
 * the copy lies between two operations of the engine, or in the middle of a write: just what
 * kill -9 leaves. A loss of power leaves less: see unsynced.h.
 *
 * Threads: all functions from any thread.
 */
#ifndef PANDO_TESTS_MODEL_CRASHFS_H
#define PANDO_TESTS_MODEL_CRASHFS_H

#include "storage/vfs.h"
#include "tests/support/store_dir.h"

#include <stdbool.h>

struct crashfs;

/* Without `real_syncs` a sync reaches no device: it only makes writes safe from power losses here.
 */
struct crashfs *crashfs_new(bool real_syncs);
void crashfs_free(struct crashfs *fs);
const struct ps_vfs *crashfs_vfs(struct crashfs *fs);

/* Copies `from` to the new directory `to` now, between two operations. With `loss` 0 the process
 * was killed; otherwise the power was lost, and the number chooses what of it is there. */
void crashfs_copy(struct crashfs *fs, const char *from, const char *to, uint64_t loss);

/* Copies in the middle of the `after`-th changing operation from now on (1 is the next): a write
 * is then half done, `tear` choosing how much of it. */
void crashfs_arm(struct crashfs *fs, const char *from, const char *to, unsigned after,
                 uint64_t tear, uint64_t loss);
/* Whether the armed copy has been made. */
bool crashfs_taken(struct crashfs *fs);
/* Takes the order back; whether the copy had been made. */
bool crashfs_disarm(struct crashfs *fs);

/* The next write to a log segment fails with this errno, having written part of it. */
void crashfs_fail_log(struct crashfs *fs, int error);
/* Whether it has happened; takes the order back if not. */
bool crashfs_log_failed(struct crashfs *fs);

#endif
