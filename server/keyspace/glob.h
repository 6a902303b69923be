/*
 * glob.h - patterns of KEYS and MATCH, as Redis reads them.
 *
 *   *  any bytes    ?  one byte    [abc] [^abc] [a-z]  one byte of (not of) a class
 *   \x the byte x, also inside a class
 *
 * Matching takes time proportional to pattern times text at worst: only the last star is ever tried
 * again, which is enough, since every other token stands for exactly one byte.
 *
 * Two habits of Redis are kept: no pattern but the empty one matches an empty text here (KEYS and
 * SCAN take a lone "*" as "no pattern" before they ask), and a class that is not closed ends with
 * the pattern.
 *
 * Threads: pure functions, any thread.
 */
#ifndef PANDO_SERVER_KEYSPACE_GLOB_H
#define PANDO_SERVER_KEYSPACE_GLOB_H

#include "storage/pandostore.h"

#include <stdbool.h>
#include <stddef.h>

bool glob_match(struct ps_slice pattern, struct ps_slice text, bool ignore_case);

/* A lone "*": everything, the empty text included. */
bool glob_is_all(struct ps_slice pattern);

/* Copies the bytes every matching text begins with to prefix[0..cap); returns their number. */
size_t glob_prefix(struct ps_slice pattern, char *prefix, size_t cap);

#endif
