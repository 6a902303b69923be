/*
 * Shared by the sources of this folder only: growing the vector of arguments.
 */
#ifndef PANDO_PROTOCOL_RESP_INTERNAL_H
#define PANDO_PROTOCOL_RESP_INTERNAL_H

#include "protocol/resp.h"

/* Doubles the vector. 0 or RESP_ENOMEM. */
int resp_args_grow(struct resp_args *args);

static inline int resp_args_push(struct resp_args *args, const char *data, size_t len)
{
    if (__builtin_expect(args->n == args->cap, 0) && resp_args_grow(args) != 0)
        return RESP_ENOMEM;
    args->v[args->n++] = (struct resp_arg){data, len};
    return 0;
}

#endif
