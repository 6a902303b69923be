/*
 * cmd_server.c - the server group: configuration, statistics, checkpoints, the end.
 *
 * What may wait (SAVE, CONFIG SET) runs in the reader pool; the rest wherever the session is.
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

static bool asked_for(const struct command_ctx *ctx, const struct config_row *row)
{
    struct ps_slice name = {row->name, strlen(row->name)};
    for (size_t i = 2; i < ctx->argc; i++) {
        if (row->flags & CONFIG_HIDDEN ? word_is(ctx->argv[i], row->name)
                                       : glob_match(ctx->argv[i], name, true)) {
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
        char *value;
        if (!asked_for(ctx, row)) {
            continue;
        }
        value = config_show(server_config(ctx->server), id);
        resp_write_bulk_str(ctx->out, row->name);
        resp_write_bulk_str(ctx->out, value != NULL ? value : "");
        free(value);
        n++;
    }
    resp_defer_map(ctx->out, mark, n);
}

/* Reads the pairs; the values are copies in *text. false: it was answered. */
static bool read_changes(struct command_ctx *ctx, struct config_change *changes, char **values)
{
    for (size_t i = 0; 2 * i + 2 < ctx->argc; i++) {
        struct ps_slice name = ctx->argv[2 * i + 2], value = ctx->argv[2 * i + 3];
        char word[64];
        int id = word_copy(name, word, sizeof(word)) ? config_find(word) : -1;
        values[i] = strndup(value.data, value.len);
        if (id < 0 || values[i] == NULL) {
            resp_write_errorf(ctx->out,
                              "Unknown option or number of arguments for CONFIG SET - '%.*s'",
                              (int)name.len, (const char *)name.data);
            return false;
        }
        changes[i] = (struct config_change){(enum config_id)id, values[i]};
    }
    return true;
}

static bool changes_durability(const struct config_change *changes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (changes[i].id == CONFIG_DURABILITY || changes[i].id == CONFIG_APPENDFSYNC) {
            return true;
        }
    }
    return false;
}

static void apply_changes(struct command_ctx *ctx, const struct config_change *changes, size_t n)
{
    char reason[160];
    size_t bad = 0;
    if (ctx->in_exec && changes_durability(changes, n)) {
        resp_write_error(ctx->out, "CONFIG SET of durability cannot run inside a transaction");
    } else if (config_set(server_config(ctx->server), changes, n, &bad, reason) == 0) {
        resp_write_ok(ctx->out);
    } else {
        resp_write_errorf(ctx->out, "CONFIG SET failed (possibly related to argument '%s') - %s",
                          config_row(changes[bad].id)->name, reason);
    }
}

void cmd_config_set(struct command_ctx *ctx)
{
    size_t n = (ctx->argc - 2) / 2;
    struct config_change *changes;
    char **values;
    if (ctx->argc % 2 != 0) {
        resp_write_error(ctx->out, "syntax error");
        return;
    }
    changes = calloc(n, sizeof(*changes));
    values = calloc(n, sizeof(*values));
    if (changes == NULL || values == NULL) {
        ctx->rc = PS_NOMEM;
    } else if (read_changes(ctx, changes, values)) {
        apply_changes(ctx, changes, n);
    }
    for (size_t i = 0; values != NULL && i < n; i++) {
        free(values[i]);
    }
    free(changes);
    free(values);
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
