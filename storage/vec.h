/*
 * vec.h - a growing array, for lists of pages and pins. Elements are plain data.
 */
#ifndef PANDO_STORAGE_VEC_H
#define PANDO_STORAGE_VEC_H

#include <stdlib.h>

#include "storage/page.h"

#define VEC(type)       \
    struct {            \
        type *at;       \
        size_t n, room; \
    }

/* Makes room for `more` elements; false when out of memory. */
#define vec_reserve(v, more) \
    vec_grow((void **)&(v)->at, (v)->n + (more), &(v)->room, sizeof *(v)->at)
/* Appends; false when out of memory. */
#define vec_push(v, element) (vec_reserve(v, 1) ? ((v)->at[(v)->n++] = (element), true) : false)
/* Appends where room was made before. */
#define vec_put(v, element)                               \
    do {                                                  \
        PS_ASSERT((v)->at != NULL && (v)->n < (v)->room); \
        (v)->at[(v)->n++] = (element);                    \
    } while (0)
#define vec_free(v) (free((v)->at), (v)->at = NULL, (v)->n = (v)->room = 0)

/* Memory that grows; NULL: none (vec.c). */
void *vec_realloc(void *at, size_t bytes);

static inline int vec_grow(void **at, size_t need, size_t *room, size_t size)
{
    if (need <= *room) {
        return 1;
    }
    size_t wanted = *room < 16 ? 16 : *room * 2;
    while (wanted < need) {
        wanted *= 2;
    }
    void *grown = vec_realloc(*at, wanted * size);
    if (grown == NULL) {
        return 0;
    }
    *at = grown;
    *room = wanted;
    return 1;
}

#endif
