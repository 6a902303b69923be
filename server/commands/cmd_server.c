/*
 * cmd_server.c - the server group: configuration, statistics, checkpoints, the end.
 *
 * What may wait (SAVE, CONFIG SET, CONFIG REWRITE) runs in the reader pool; the rest wherever the
 * session is.
 */
#include "server/commands/cmd_server.h"

#include "server/commands/services.h"
#include "server/commands/session.h"
#include "server/commands/words.h"
#include "server/config/config.h"
#include "server/keyspace/glob.h"

#include <stdlib.h>
#include <time.h>

/* ---- CONFIG --------------------------------------------------------------------------------- */

/* Redis looks for a pattern up to the first NUL. */
static bool is_pattern(struct ps_slice word)
{
    const char *bytes = word.data;
    for (size_t i = 0; i < word.len && bytes[i] != '\0'; i++) {
        if (strchr("[*?", bytes[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* Whether a row was asked for, and by what name: one that is no pattern is answered as it was
 * written. */
static bool asked_for(const struct command_ctx *ctx, const struct config_row *row,
                      struct ps_slice *name)
{
    struct ps_slice own = {row->name, strlen(row->name)};
    for (size_t i = 2; i < ctx->argc && !(row->flags & CONFIG_FILE_ONLY); i++) {
        bool pattern = is_pattern(ctx->argv[i]);
        *name = pattern ? own : ctx->argv[i];
        if (pattern ? !(row->flags & CONFIG_HIDDEN) && glob_match(ctx->argv[i], own, true)
                    : word_is(ctx->argv[i], row->name)) {
            return true;
        }
    }
    return false;
}

void cmd_config_get(struct command_ctx *ctx)
{
    size_t mark = resp_defer(ctx->out);
    uint64_t n = 0;
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = config_row(id);
        struct ps_slice name;
        char *value;
        if (!asked_for(ctx, row, &name)) {
            continue;
        }
        value = config_show(server_config(ctx->server), id);
        resp_write_bulk(ctx->out, name.data, name.len);
        resp_write_bulk_str(ctx->out, value != NULL ? value : "");
        free(value);
        n++;
    }
    resp_defer_map(ctx->out, mark, n);
}

static bool is_durability(struct ps_slice name)
{
    return word_is(name, "durability") || word_is(name, "appendfsync");
}

static void answer_set(struct command_ctx *ctx, const struct config_change *changes,
                       enum config_set_result result, size_t bad, const char *reason)
{
    const char *name = changes[bad].name;
    int id;
    switch (result) {
    case CONFIG_SET_OK:
        resp_write_ok(ctx->out);
        break;
    case CONFIG_SET_UNKNOWN:
        resp_write_errorf(ctx->out, "Unknown option or number of arguments for CONFIG SET - '%s'",
                          name);
        break;
    case CONFIG_SET_FAILED: /* from here on Redis calls it by the name in its table */
        id = config_find(name);
        name = id < 0 ? name : config_row(id)->name;
        /* fall through */
    case CONFIG_SET_FIXED:
        resp_write_errorf(ctx->out, "CONFIG SET failed (possibly related to argument '%s') - %s",
                          name, reason);
        break;
    }
}

/* The pairs as texts that end. Up to the first NUL, as in Redis. */
static bool copy_pairs(const struct command_ctx *ctx, struct config_change *changes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct ps_slice name = ctx->argv[2 * i + 2], value = ctx->argv[2 * i + 3];
        changes[i].name = strndup(name.data, name.len);
        changes[i].value = strndup(value.data, value.len);
        if (changes[i].name == NULL || changes[i].value == NULL) {
            return false;
        }
    }
    return true;
}

static void set_pairs(struct command_ctx *ctx, const struct config_change *changes, size_t n)
{
    char reason[CONFIG_REASON] = "";
    enum config_set_result result;
    size_t bad = 0;
    for (size_t i = 0; i < n && ctx->in_exec; i++) {
        if (is_durability(ctx->argv[2 * i + 2])) {
            resp_write_error(ctx->out, "CONFIG SET of durability cannot run inside a transaction");
            return;
        }
    }
    result = config_set(server_config(ctx->server), changes, n, &bad, reason);
    answer_set(ctx, changes, result, bad, reason);
}

void cmd_config_set(struct command_ctx *ctx)
{
    size_t n = (ctx->argc - 2) / 2;
    struct config_change *changes;
    if (ctx->argc % 2 != 0) {
        resp_write_error(ctx->out, "syntax error");
        return;
    }
    changes = calloc(n, sizeof(*changes));
    if (changes == NULL || !copy_pairs(ctx, changes, n)) {
        ctx->rc = PS_NOMEM;
    } else {
        set_pairs(ctx, changes, n);
    }
    for (size_t i = 0; changes != NULL && i < n; i++) {
        free((char *)changes[i].name);
        free((char *)changes[i].value);
    }
    free(changes);
}

void cmd_config_rewrite(struct command_ctx *ctx)
{
    char reason[CONFIG_REASON];
    if (!server_has_config_file(ctx->server)) {
        resp_write_error(ctx->out, "The server is running without a config file");
    } else if (server_rewrite_config(ctx->server, reason) != 0) {
        resp_write_errorf(ctx->out, "Rewriting config file: %s", reason);
    } else {
        resp_write_ok(ctx->out);
    }
}

void cmd_config_resetstat(struct command_ctx *ctx)
{
    server_reset_statistics(ctx->server);
    resp_write_ok(ctx->out);
}

void cmd_config_help(struct command_ctx *ctx)
{
    static const char *const lines[] = {
        "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET <pattern>",
        "    Return parameters matching the glob-like <pattern> and their values.",
        "SET <directive> <value>",
        "    Set the configuration <directive> to <value>.",
        "RESETSTAT",
        "    Reset statistics reported by the INFO command.",
        "REWRITE",
        "    Rewrite the configuration file.",
        "HELP",
        "    Prints this help.",
    };
    write_help(ctx->out, lines, sizeof(lines) / sizeof(lines[0]));
}

/* ---- INFO and TIME -------------------------------------------------------------------------- */

void cmd_info(struct command_ctx *ctx)
{
    size_t len;
    char *text = server_info(ctx, ctx->argv + 1, ctx->argc - 1, &len);
    if (text == NULL) {
        ctx->rc = PS_NOMEM;
        return;
    }
    resp_write_verbatim(ctx->out, "txt", text, len);
    free(text);
}

void cmd_time(struct command_ctx *ctx)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    resp_write_array(ctx->out, 2);
    resp_write_bulk_int(ctx->out, now.tv_sec);
    resp_write_bulk_int(ctx->out, now.tv_nsec / 1000);
}

/* ---- checkpoints and the end ---------------------------------------------------------------- */

void cmd_save(struct command_ctx *ctx)
{
    ctx->rc = server_checkpoint(ctx->server);
    if (ctx->rc == 0) {
        resp_write_ok(ctx->out);
    }
}

void cmd_bgsave(struct command_ctx *ctx)
{
    if (ctx->argc > 2 || (ctx->argc == 2 && !word_is(ctx->argv[1], "schedule"))) {
        resp_write_error(ctx->out, "syntax error");
    } else if (server_checkpoint_start(ctx->server)) {
        resp_write_simple(ctx->out, "Background saving started");
    } else {
        resp_write_error(ctx->out, "Background save already in progress");
    }
}

void cmd_lastsave(struct command_ctx *ctx)
{
    resp_write_int(ctx->out, server_last_checkpoint(ctx->server));
}

struct shutdown_options {
    bool save, nosave, now, force, abort;
};

static bool read_shutdown(const struct command_ctx *ctx, struct shutdown_options *o)
{
    *o = (struct shutdown_options){0};
    for (size_t i = 1; i < ctx->argc; i++) {
        struct ps_slice word = ctx->argv[i];
        if (word_is(word, "nosave")) {
            o->nosave = true;
        } else if (word_is(word, "save")) {
            o->save = true;
        } else if (word_is(word, "now")) {
            o->now = true;
        } else if (word_is(word, "force")) {
            o->force = true;
        } else if (word_is(word, "abort")) {
            o->abort = true;
        } else {
            return false;
        }
    }
    return !(o->abort && (o->save || o->nosave || o->now || o->force)) && !(o->save && o->nosave);
}

/* The connection closes without a reply when the server begins to end. */
void cmd_shutdown(struct command_ctx *ctx)
{
    struct shutdown_options options;
    if (!read_shutdown(ctx, &options)) {
        resp_write_error(ctx->out, "syntax error");
    } else if (options.abort) {
        resp_write_error(ctx->out, "No shutdown in progress.");
    } else {
        ctx->session->closing = true;
        server_shutdown(ctx->server, !options.nosave, options.now);
    }
}
