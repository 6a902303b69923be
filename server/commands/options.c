/*
 * options.c - option words and numbers of commands. Rules: options.h.
 */
#include "server/commands/options.h"

#include "protocol/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SYNTAX_ERROR "syntax error"

bool option_is(struct ps_slice arg, const char *word)
{
    size_t len = strlen(word);
    const char *s = arg.data;

    return arg.len >= len && strncasecmp(s, word, len) == 0 && (arg.len == len || s[len] == '\0');
}

bool option_int(struct command_ctx *ctx, struct ps_slice arg, int64_t *value)
{
    if (number_to_int(arg.data, arg.len, value) == 0)
        return true;
    resp_write_error(ctx->out, "value is not an integer or out of range");
    return false;
}

struct word {
    const char *text;
    unsigned flag;
    unsigned excludes; /* flags that must not have come before */
    bool takes_time;
};

static bool parse_words(struct command_ctx *ctx, size_t first, const struct word *words,
                        struct expire_options *options)
{
    options->flags = 0;
    options->expire = (struct ps_slice){NULL, 0};
    for (size_t i = first; i < ctx->argc; i++) {
        const struct word *w = words;
        while (w->text && !(option_is(ctx->argv[i], w->text) && !(options->flags & w->excludes) &&
                            (!w->takes_time || i + 1 < ctx->argc)))
            w++;
        if (!w->text) {
            resp_write_error(ctx->out, SYNTAX_ERROR);
            return false;
        }
        options->flags |= w->flag;
        if (w->takes_time)
            options->expire = ctx->argv[++i];
    }
    return true;
}

#define OTHER_TIMES(flag) (OPT_KEEPTTL | OPT_PERSIST | (OPT_TIME & ~(unsigned)(flag)))

bool options_of_set(struct command_ctx *ctx, struct expire_options *options)
{
    static const struct word words[] = {
        {"nx", OPT_NX, OPT_XX, false},
        {"xx", OPT_XX, OPT_NX, false},
        {"get", OPT_GET, 0, false},
        {"keepttl", OPT_KEEPTTL, OPT_TIME, false},
        {"ex", OPT_EX, OTHER_TIMES(OPT_EX), true},
        {"px", OPT_PX, OTHER_TIMES(OPT_PX), true},
        {"exat", OPT_EXAT, OTHER_TIMES(OPT_EXAT), true},
        {"pxat", OPT_PXAT, OTHER_TIMES(OPT_PXAT), true},
        {NULL, 0, 0, false},
    };

    return parse_words(ctx, 3, words, options);
}

bool options_of_getex(struct command_ctx *ctx, struct expire_options *options)
{
    static const struct word words[] = {
        {"persist", OPT_PERSIST, OPT_TIME, false},
        {"ex", OPT_EX, OTHER_TIMES(OPT_EX), true},
        {"px", OPT_PX, OTHER_TIMES(OPT_PX), true},
        {"exat", OPT_EXAT, OTHER_TIMES(OPT_EXAT), true},
        {"pxat", OPT_PXAT, OTHER_TIMES(OPT_PXAT), true},
        {NULL, 0, 0, false},
    };

    return parse_words(ctx, 2, words, options);
}

bool options_of_expire(struct command_ctx *ctx, unsigned *flags)
{
    *flags = 0;
    for (size_t i = 3; i < ctx->argc; i++) {
        struct ps_slice arg = ctx->argv[i];
        if (option_is(arg, "nx")) {
            *flags |= OPT_NX;
        } else if (option_is(arg, "xx")) {
            *flags |= OPT_XX;
        } else if (option_is(arg, "gt")) {
            *flags |= OPT_GT;
        } else if (option_is(arg, "lt")) {
            *flags |= OPT_LT;
        } else {
            resp_write_errorf(ctx->out, "Unsupported option %.*s",
                              (int)strnlen(arg.data, arg.len < 512 ? arg.len : 512),
                              (const char *)arg.data);
            return false;
        }
    }
    if ((*flags & OPT_NX) && (*flags & (OPT_XX | OPT_GT | OPT_LT))) {
        resp_write_error(ctx->out,
                         "NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if ((*flags & OPT_GT) && (*flags & OPT_LT)) {
        resp_write_error(ctx->out, "GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

void option_expire_error(struct command_ctx *ctx)
{
    resp_write_errorf(ctx->out, "invalid expire time in '%s' command", ctx->command->name);
}

bool option_expire_time(struct command_ctx *ctx, struct ps_slice text, unsigned flags,
                        int64_t *expire_ms)
{
    int64_t value;

    if (!option_int(ctx, text, &value))
        return false;
    bool seconds = (flags & (OPT_EX | OPT_EXAT)) != 0;
    bool relative = (flags & (OPT_EX | OPT_PX)) != 0;
    bool valid = value > 0 && !(seconds && value > INT64_MAX / 1000);
    if (valid && seconds)
        value *= 1000;
    if (valid && relative)
        valid = !__builtin_add_overflow(value, ctx->now_ms, &value);
    if (!valid) {
        option_expire_error(ctx);
        return false;
    }
    *expire_ms = value;
    return true;
}

bool option_cursor(struct command_ctx *ctx, struct ps_slice arg, uint64_t *cursor)
{
    char text[128], *end;
    size_t len = strnlen(arg.data, arg.len);

    if (len < sizeof(text)) {
        if (len > 0)
            memcpy(text, arg.data, len);
        text[len] = '\0';
        errno = 0;
        *cursor = strtoul(text, &end, 10);
        if (!isspace((unsigned char)text[0]) && *end == '\0' && errno != ERANGE)
            return true;
    }
    resp_write_error(ctx->out, "invalid cursor");
    return false;
}

bool options_of_scan(struct command_ctx *ctx, size_t first, struct scan_options *options)
{
    *options = (struct scan_options){.count = 10};
    for (size_t i = first; i < ctx->argc; i += 2) {
        struct ps_slice word = ctx->argv[i];
        bool more = i + 1 < ctx->argc;
        bool valid = true;
        if (more && option_is(word, "count")) {
            if (!option_int(ctx, ctx->argv[i + 1], &options->count))
                return false;
            valid = options->count >= 1;
        } else if (more && option_is(word, "match")) {
            options->pattern = ctx->argv[i + 1];
        } else if (more && option_is(word, "type")) {
            options->type = ctx->argv[i + 1];
        } else {
            valid = false;
        }
        if (!valid) {
            resp_write_error(ctx->out, SYNTAX_ERROR);
            return false;
        }
    }
    return true;
}
