/*
 * scratch_dir.h - a directory of a test's own, without folders inside.
 */
#ifndef PANDO_TESTS_SUPPORT_SCRATCH_DIR_H
#define PANDO_TESTS_SUPPORT_SCRATCH_DIR_H

#define SCRATCH_DIR_MAX 256

/* Makes a new one below $TMPDIR, or in memory (/dev/shm), or in /tmp. Aborts if it cannot. */
void scratch_dir_make(char path[SCRATCH_DIR_MAX]);
/* Removes the files in it; and it. */
void scratch_dir_empty(const char *path);
void scratch_dir_remove(const char *path);
/* Replaces the files of one by copies of another's: what a machine finds after a crash now. */
void scratch_dir_copy(const char *to, const char *from);

#endif
