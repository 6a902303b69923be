/*
 * store_dir.h - temporary directories for tests that open stores.
 *
 * All functions end the program with a message on a failing system call: a test that cannot make
 * its directory proves nothing.
 */
#ifndef PANDO_TESTS_SUPPORT_STORE_DIR_H
#define PANDO_TESTS_SUPPORT_STORE_DIR_H

#include <stddef.h>

#define STORE_DIR_PATH 224 /* room for a directory's path, the final zero included */

/* Makes a new directory below $TMPDIR (or /tmp) whose name begins with `name`. */
void store_dir_make(char path[STORE_DIR_PATH], const char *name);

/* The same in memory (/dev/shm) where there is such, unless TMPDIR is set: for tests that open many
 * stores and are not about the disk. */
void store_dir_make_in_memory(char path[STORE_DIR_PATH], const char *name);

/* Removes the files in a directory without folders. */
void store_dir_empty(const char *path);

/* Removes a directory and the files and directories in it. A missing one is fine. */
void store_dir_remove(const char *path);

/* Copies the files of `from` into the new directory `to`; holes stay holes. */
void store_dir_copy(const char *from, const char *to);

#endif
