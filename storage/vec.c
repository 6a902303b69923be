/*
 * vec.c - see vec.h: where growing arrays get their memory. Alone in this file, so that a test that
 * has a function of this name is linked with its own, which fails when it says so.
 *
 * Threads: any.
 */
#include "storage/vec.h"

void *vec_realloc(void *at, size_t bytes)
{
    return realloc(at, bytes);
}
