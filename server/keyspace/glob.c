/*
 * glob.c - matching with a single point to go back to: the last star (glob.h).
 */
#include "server/keyspace/glob.h"

#include <ctype.h>
#include <string.h>

static int fold(char c, bool ignore_case)
{
    return ignore_case ? tolower((unsigned char)c) : c;
}

/* A range of a class; Redis compares signed bytes and takes the ends in either order. */
static bool in_range(char from, char to, char c, bool ignore_case)
{
    int low = fold(from, ignore_case), high = fold(to, ignore_case), it = fold(c, ignore_case);

    return low <= high ? low <= it && it <= high : high <= it && it <= low;
}

/* Does c belong to the class behind the '[' at p[-1]? *used: bytes of the class, its ']' included
 * where there is one. */
static bool match_class(const char *p, size_t len, char c, bool ignore_case, size_t *used)
{
    size_t i = 0;
    bool match = false;
    bool negate = len > 0 && p[0] == '^';

    if (negate)
        i++;
    while (i < len && p[i] != ']') {
        if (p[i] == '\\' && len - i >= 2) {
            match |= p[i + 1] == c;
            i += 2;
        } else if (len - i >= 3 && p[i + 1] == '-') {
            match |= in_range(p[i], p[i + 2], c, ignore_case);
            i += 3;
        } else {
            match |= fold(p[i], ignore_case) == fold(c, ignore_case);
            i++;
        }
    }
    *used = i < len ? i + 1 : i;
    return match != negate;
}

/* Does the token at p (len bytes left, no star) match c? *used: the token's bytes. */
static bool match_one(const char *p, size_t len, char c, bool ignore_case, size_t *used)
{
    *used = 1;
    switch (p[0]) {
    case '?':
        return true;
    case '[': {
        bool match = match_class(p + 1, len - 1, c, ignore_case, used);
        *used += 1;
        return match;
    }
    case '\\':
        if (len >= 2) {
            *used = 2;
            p++;
        }
        break;
    default:
        break;
    }
    return fold(p[0], ignore_case) == fold(c, ignore_case);
}

bool glob_match(struct ps_slice pattern, struct ps_slice text, bool ignore_case)
{
    const char *p = pattern.data, *t = text.data;
    size_t pi = 0, ti = 0, used;
    size_t star = SIZE_MAX, star_text = 0; /* pattern behind the last star, text it was tried at */

    if (text.len == 0)
        return pattern.len == 0;
    while (ti < text.len) {
        if (pi < pattern.len && p[pi] == '*') {
            star = ++pi;
            star_text = ti;
        } else if (pi < pattern.len &&
                   match_one(p + pi, pattern.len - pi, t[ti], ignore_case, &used)) {
            pi += used;
            ti++;
        } else if (star != SIZE_MAX) {
            pi = star;
            ti = ++star_text;
        } else {
            return false;
        }
    }
    while (pi < pattern.len && p[pi] == '*')
        pi++;
    return pi == pattern.len;
}

bool glob_is_all(struct ps_slice pattern)
{
    return pattern.len == 1 && *(const char *)pattern.data == '*';
}

size_t glob_prefix(struct ps_slice pattern, char *prefix, size_t cap)
{
    const char *p = pattern.data;
    size_t n = 0;

    for (size_t i = 0; i < pattern.len && n < cap; i++) {
        if (p[i] == '*' || p[i] == '?' || p[i] == '[')
            break;
        if (p[i] == '\\' && i + 1 < pattern.len)
            i++;
        prefix[n++] = p[i];
    }
    return n;
}
