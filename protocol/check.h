/*
 * RESP_CHECK: an assertion that stays on in every build. For what only a bug in the caller or here
 * can cause; what a peer can cause is an error code.
 */
#ifndef PANDO_PROTOCOL_CHECK_H
#define PANDO_PROTOCOL_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define RESP_CHECK(condition)                                                              \
    do {                                                                                   \
        if (__builtin_expect(!(condition), 0)) {                                           \
            fprintf(stderr, "%s:%d: %s: %s does not hold\n", __FILE__, __LINE__, __func__, \
                    #condition);                                                           \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

#endif
