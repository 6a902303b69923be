/* space.h - a real disk that is full, and empty again. */
#ifndef PANDO_TESTS_FAULTS_SPACE_H
#define PANDO_TESTS_FAULTS_SPACE_H

/* A tmpfs of 64 MiB below a directory is filled to the brim by a store and a stranger's file: puts
 * are refused, reads and deletes are not; when the stranger's file goes, writing goes on in the
 * same open store. How many were skipped (for want of the right to mount): 0 or 1. */
unsigned space_on_a_real_disk(const char *dir);

#endif
