/* The list of accepted differences, exceptions.tsv. See exceptions.c. */
#ifndef TESTS_DIFFERENTIAL_EXCEPTIONS_H
#define TESTS_DIFFERENTIAL_EXCEPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct exception {
    char *command, *pattern, *reason;
    size_t matched;
};

struct exceptions {
    struct exception *items;
    size_t count;
};

/* Reads the file. Returns 0, or -1 with the reason (file, line) on stderr. */
int exceptions_load(struct exceptions *exceptions, const char *path);
void exceptions_free(struct exceptions *exceptions);

/* The entry that accepts this difference, or NULL. `text` is "REQUEST => FIRST REPLY | SECOND
 * REPLY". */
struct exception *exceptions_find(struct exceptions *exceptions, const char *command,
                                  const char *text);

/* Prints each entry with its number of matches; returns how many have none. */
size_t exceptions_print(const struct exceptions *exceptions);

#endif
