/*
 * options.h - words and numbers behind a command's key, read as redis-server 7.0 reads them.
 *
 * Invariant: nothing here looks at the data; a function that fails has written the error.
 * Threads: pure but for ctx->out. Crash: nothing is kept.
 */
#ifndef PANDO_SERVER_COMMANDS_OPTIONS_H
#define PANDO_SERVER_COMMANDS_OPTIONS_H

#include "server/commands/command.h"

enum option_flag {
    OPT_NX = 1 << 0,
    OPT_XX = 1 << 1,
    OPT_GET = 1 << 2,
    OPT_KEEPTTL = 1 << 3,
    OPT_PERSIST = 1 << 4,
    OPT_EX = 1 << 5,
    OPT_PX = 1 << 6,
    OPT_EXAT = 1 << 7,
    OPT_PXAT = 1 << 8,
    OPT_GT = 1 << 9,
    OPT_LT = 1 << 10,
};

#define OPT_TIME (OPT_EX | OPT_PX | OPT_EXAT | OPT_PXAT)

struct expire_options {
    unsigned flags;         /* enum option_flag */
    struct ps_slice expire; /* the text of the time, if one of OPT_TIME is set */
};

/* Is the argument this word (lower case), in any case of letters? Like Redis, which compares C
 * strings, it looks at the bytes before the first NUL only. */
bool option_is(struct ps_slice arg, const char *word);

/* The argument as a 64-bit integer; else the error "value is not an integer or out of range". */
bool option_int(struct command_ctx *ctx, struct ps_slice arg, int64_t *value);

/* What may stand behind SET key value; and behind GETEX key. */
bool options_of_set(struct command_ctx *ctx, struct expire_options *options);
bool options_of_getex(struct command_ctx *ctx, struct expire_options *options);

/* NX, XX, GT, LT behind EXPIRE key time and its relatives. */
bool options_of_expire(struct command_ctx *ctx, unsigned *flags);

/* The time a key gets, in Unix milliseconds, from `text` under one of OPT_TIME: above 0. */
bool option_expire_time(struct command_ctx *ctx, struct ps_slice text, unsigned flags,
                        int64_t *expire_ms);

/* "invalid expire time in '...' command" */
void option_expire_error(struct command_ctx *ctx);

/* SCAN's cursor, by strtoul's idea of a number; else "invalid cursor". */
bool option_cursor(struct command_ctx *ctx, struct ps_slice arg, uint64_t *cursor);

struct scan_options {
    int64_t count;           /* at least 1; 10 if not given */
    struct ps_slice pattern; /* data NULL: none */
    struct ps_slice type;    /* data NULL: any */
};

/* COUNT, MATCH, TYPE from argv[first] on. */
bool options_of_scan(struct command_ctx *ctx, size_t first, struct scan_options *options);

#endif
