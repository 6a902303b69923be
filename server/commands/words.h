/*
 * words.h - small readings of an argument, for handlers of the server and connection groups.
 *
 * Pure; any thread.
 */
#ifndef PANDO_SERVER_COMMANDS_WORDS_H
#define PANDO_SERVER_COMMANDS_WORDS_H

#include "storage/pandostore.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* Whether the argument is this word, in any case of letters. */
static inline bool word_is(struct ps_slice arg, const char *word)
{
    return arg.len == strlen(word) && strncasecmp(arg.data, word, arg.len) == 0;
}

/* Copies an argument as a C string; false if it does not fit or has a NUL inside. */
static inline bool word_copy(struct ps_slice arg, char *to, size_t size)
{
    if (arg.len >= size || memchr(arg.data, '\0', arg.len) != NULL) {
        return false;
    }
    memcpy(to, arg.data, arg.len);
    to[arg.len] = '\0';
    return true;
}

#endif
