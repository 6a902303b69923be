/*
 * words.h - small readings of an argument, and the answer of HELP.
 *
 * Pure; any thread.
 */
#ifndef PANDO_SERVER_COMMANDS_WORDS_H
#define PANDO_SERVER_COMMANDS_WORDS_H

#include "protocol/resp.h"
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

/* What a HELP subcommand answers: each line is a simple string. */
static inline void write_help(struct resp_out *out, const char *const *lines, size_t n)
{
    resp_write_array(out, n);
    for (size_t i = 0; i < n; i++) {
        resp_write_simple(out, lines[i]);
    }
}

#endif
