/*
 * path.h - names of files, and what to say when a call on one fails.
 *
 * Threads: any; pure. Names are the caller's, to be freed; NULL: no memory.
 */
#ifndef PANDO_STORAGE_PATH_H
#define PANDO_STORAGE_PATH_H

#include "storage/pandostore.h"

/* A name in a directory. */
char *path_join(const char *dir, const char *name);
/* The directory that holds this one. */
char *path_parent(const char *dir);
/* The code of a negative errno, after *fault has it with the file and what was being done. */
int fault_at(struct ps_fault *fault, int negative_errno, const char *file, const char *doing);

#endif
