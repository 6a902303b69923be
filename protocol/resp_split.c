/*
 * Arguments: the vector of slices, and the splitting of a line into them by Redis's quoting rules.
 *
 * Invariants:
 *  1. Slices never move: unquoted text lives in blocks that stay where they are until the vector is
 *     reset; only the vector itself may be reallocated.
 *  2. A failed split leaves the number of arguments as it was (a block made for it stays until the
 *     next reset).
 *  3. A line is split without a block unless it holds a quote.
 *
 * Threads: a vector belongs to one thread at a time. Crash: nothing is kept.
 */
#include <stdlib.h>
#include <string.h>

#include "protocol/resp_internal.h"

enum { ARGS_KEPT = 65536 };

struct resp_block {
    struct resp_block *next;
    char text[];
};

void resp_args_reset(struct resp_args *args)
{
    while (args->blocks != NULL) {
        struct resp_block *block = args->blocks;
        args->blocks = block->next;
        free(block);
    }
    args->n = 0;
    if (args->cap > ARGS_KEPT) {
        free(args->v);
        args->v = NULL;
        args->cap = 0;
    }
}

void resp_args_free(struct resp_args *args)
{
    resp_args_reset(args);
    free(args->v);
    *args = (struct resp_args){0};
}

int resp_args_grow(struct resp_args *args)
{
    size_t cap = args->cap == 0 ? 64 : args->cap * 2;
    struct resp_arg *v = realloc(args->v, cap * sizeof(*v));
    if (v == NULL)
        return RESP_ENOMEM;
    args->v = v;
    args->cap = cap;
    return 0;
}

/* The C locale's blanks, whatever the locale. */
static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Ends an unquoted stretch. '\v' and '\f' do not, as in Redis, though they are skipped between. */
static bool ends_word(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* p is behind a backslash inside "..." that is not the line's last byte. Returns the next place. */
static const char *unescape(const char *p, const char *end, char *out)
{
    static const char from[] = "nrtba", to[] = "\n\r\t\b\a";
    if (*p == 'x' && end - p >= 3) {
        int high = hex_digit(p[1]), low = hex_digit(p[2]);
        if (high >= 0 && low >= 0) {
            *out = (char)(high * 16 + low);
            return p + 3;
        }
    }
    const char *known = memchr(from, *p, sizeof(from) - 1);
    *out = known != NULL ? to[known - from] : *p;
    return p + 1;
}

/*
 * p is behind an opening quote. Appends the text to *out and returns the place behind the closing
 * quote; NULL if there is none, or if neither a blank nor the end follows it.
 */
static const char *read_quoted(const char *p, const char *end, char quote, char **out)
{
    while (p < end) {
        char c = *p++;
        if (c == quote)
            return p == end || is_blank(*p) ? p : NULL;
        if (c == '\\' && p < end && quote == '"')
            p = unescape(p, end, &c);
        else if (c == '\\' && p < end && *p == '\'')
            c = *p++;
        *(*out)++ = c;
    }
    return NULL;
}

/* One argument that begins at p, its text written to *out. NULL: unbalanced quotes. */
static const char *read_word(const char *p, const char *end, char **out)
{
    while (p < end && !ends_word(*p)) {
        char c = *p++;
        if (c == '"' || c == '\'')
            return read_quoted(p, end, c, out);
        *(*out)++ = c;
    }
    return p;
}

static const char *skip_blanks(const char *p, const char *end)
{
    while (p < end && is_blank(*p))
        p++;
    return p;
}

static int split_plain(const char *p, const char *end, struct resp_args *args)
{
    while ((p = skip_blanks(p, end)) < end) {
        const char *start = p;
        while (p < end && !ends_word(*p))
            p++;
        if (resp_args_push(args, start, (size_t)(p - start)) != 0)
            return RESP_ENOMEM;
    }
    return 0;
}

static int split_quoted(const char *p, const char *end, struct resp_args *args)
{
    /* No rule makes text longer, so the line's length is enough for all its arguments. */
    struct resp_block *block = malloc(sizeof(*block) + (size_t)(end - p));
    if (block == NULL)
        return RESP_ENOMEM;
    block->next = args->blocks;
    args->blocks = block;
    char *out = block->text;
    while ((p = skip_blanks(p, end)) < end) {
        char *start = out;
        p = read_word(p, end, &out);
        if (p == NULL)
            return RESP_EPROTO;
        if (resp_args_push(args, start, (size_t)(out - start)) != 0)
            return RESP_ENOMEM;
    }
    return 0;
}

int resp_split_line(const char *line, size_t len, struct resp_args *args)
{
    size_t before = args->n;
    const char *nul = memchr(line, '\0', len);
    const char *end = nul != NULL ? nul : line + len;
    bool quoted = memchr(line, '"', len) != NULL || memchr(line, '\'', len) != NULL;
    int rc = quoted ? split_quoted(line, end, args) : split_plain(line, end, args);
    if (rc != 0)
        args->n = before;
    return rc;
}
