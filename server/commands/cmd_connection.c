/*
 * cmd_connection.c - the connection group: who the client is, how it speaks, which database.
 *
 * All touch the session only (and the registry of connections through services.h); the thread that
 * owns the session runs them.
 */
#include "server/commands/cmd_server.h"

#include "protocol/number.h"
#include "server/commands/services.h"
#include "server/commands/session.h"
#include "server/commands/words.h"
#include "server/config/config.h"
#include "server/security/auth.h"

#include <limits.h>
#include <stdlib.h>

static const char wrong_password[] =
    "-WRONGPASS invalid username-password pair or user is disabled.";
static const char bad_name[] =
    "Client names cannot contain spaces, newlines or special characters.";

/* Reads an integer, or answers that it is none. */
static bool read_int(struct command_ctx *ctx, struct ps_slice arg, int64_t *value)
{
    if (number_to_int(arg.data, arg.len, value) != 0) {
        resp_write_error(ctx->out, "value is not an integer or out of range");
        return false;
    }
    return true;
}

void cmd_ping(struct command_ctx *ctx)
{
    if (ctx->argc > 2) {
        resp_write_error(ctx->out, "wrong number of arguments for 'ping' command");
    } else if (ctx->argc == 2) {
        resp_write_bulk(ctx->out, ctx->argv[1].data, ctx->argv[1].len);
    } else {
        resp_write_simple(ctx->out, "PONG");
    }
}

void cmd_echo(struct command_ctx *ctx)
{
    resp_write_bulk(ctx->out, ctx->argv[1].data, ctx->argv[1].len);
}

void cmd_quit(struct command_ctx *ctx)
{
    ctx->session->closing = true;
    resp_write_ok(ctx->out);
}

void cmd_select(struct command_ctx *ctx)
{
    int64_t db, databases = config_number(server_config(ctx->server), CONFIG_DATABASES);
    if (!read_int(ctx, ctx->argv[1], &db)) {
        return;
    }
    if (db < INT_MIN || db > INT_MAX) {
        resp_write_error(ctx->out, "value is out of range, value must between -2147483648 and "
                                   "2147483647");
        return;
    }
    if (db < 0 || db >= databases) {
        resp_write_error(ctx->out, "DB index is out of range");
        return;
    }
    session_select(ctx->session, (unsigned)db);
    resp_write_ok(ctx->out);
}

static void set_version(struct command_ctx *ctx, int version)
{
    ctx->session->resp = version;
    ctx->out->version = version;
}

void cmd_reset(struct command_ctx *ctx)
{
    struct session_queue queue = session_end_multi(ctx->session);
    session_drop_queue(ctx->session, &queue);
    session_select(ctx->session, 0);
    set_version(ctx, 2);
    server_client_rename(ctx->server, ctx->session, "", 0);
    ctx->session->authenticated = !auth_required(server_config(ctx->server));
    resp_write_simple(ctx->out, "RESET");
}

/* ---- AUTH and HELLO ------------------------------------------------------------------------- */

static bool authenticate(struct command_ctx *ctx, struct ps_slice user, struct ps_slice password)
{
    if (!auth_check(server_config(ctx->server), user, password)) {
        resp_write_error(ctx->out, wrong_password);
        return false;
    }
    ctx->session->authenticated = true;
    return true;
}

void cmd_auth(struct command_ctx *ctx)
{
    struct ps_slice user = {"default", strlen("default")};
    if (ctx->argc > 3) {
        resp_write_error(ctx->out, "syntax error");
        return;
    }
    if (ctx->argc == 2 && !auth_required(server_config(ctx->server))) {
        resp_write_error(ctx->out,
                         "AUTH <password> called without any password configured for the default "
                         "user. Are you sure your configuration is correct?");
        return;
    }
    if (ctx->argc == 3) {
        user = ctx->argv[1];
    }
    if (authenticate(ctx, user, ctx->argv[ctx->argc - 1])) {
        resp_write_ok(ctx->out);
    }
}

static bool name_is_valid(struct ps_slice name)
{
    const unsigned char *bytes = name.data;
    for (size_t i = 0; i < name.len; i++) {
        if (bytes[i] < '!' || bytes[i] > '~') {
            return false;
        }
    }
    return true;
}

/* HELLO's options take effect one after the other, as in Redis. false: it was answered. */
static bool take_hello_options(struct command_ctx *ctx)
{
    for (size_t i = 2; i < ctx->argc; i++) {
        const struct ps_slice *arg = &ctx->argv[i];
        size_t more = ctx->argc - 1 - i;
        if (word_is(*arg, "auth") && more >= 2) {
            if (!authenticate(ctx, arg[1], arg[2])) {
                return false;
            }
            i += 2;
        } else if (word_is(*arg, "setname") && more >= 1) {
            if (!name_is_valid(arg[1])) {
                resp_write_error(ctx->out, bad_name);
                return false;
            }
            server_client_rename(ctx->server, ctx->session, arg[1].data, arg[1].len);
            i++;
        } else {
            resp_write_errorf(ctx->out, "Syntax error in HELLO option '%.*s'", (int)arg->len,
                              (const char *)arg->data);
            return false;
        }
    }
    return true;
}

static void describe_server(struct command_ctx *ctx)
{
    resp_write_map(ctx->out, 7);
    resp_write_bulk_str(ctx->out, "server");
    resp_write_bulk_str(ctx->out, "redis");
    resp_write_bulk_str(ctx->out, "version");
    resp_write_bulk_str(ctx->out, "7.0.15");
    resp_write_bulk_str(ctx->out, "proto");
    resp_write_int(ctx->out, session_resp(ctx->session));
    resp_write_bulk_str(ctx->out, "id");
    resp_write_int(ctx->out, (int64_t)ctx->session->id);
    resp_write_bulk_str(ctx->out, "mode");
    resp_write_bulk_str(ctx->out, "standalone");
    resp_write_bulk_str(ctx->out, "role");
    resp_write_bulk_str(ctx->out, "master");
    resp_write_bulk_str(ctx->out, "modules");
    resp_write_array(ctx->out, 0);
}

void cmd_hello(struct command_ctx *ctx)
{
    int64_t version = 0; /* stays */
    if (ctx->argc > 1 && number_to_int(ctx->argv[1].data, ctx->argv[1].len, &version) != 0) {
        resp_write_error(ctx->out, "Protocol version is not an integer or out of range");
        return;
    }
    if (ctx->argc > 1 && (version < 2 || version > 3)) {
        resp_write_error(ctx->out, "-NOPROTO unsupported protocol version");
        return;
    }
    if (!take_hello_options(ctx)) {
        return;
    }
    if (!ctx->session->authenticated) {
        resp_write_error(ctx->out,
                         "-NOAUTH HELLO must be called with the client already authenticated, "
                         "otherwise the HELLO AUTH <user> <pass> option can be used to "
                         "authenticate the client and select the RESP protocol version at the "
                         "same time");
        return;
    }
    if (version != 0) {
        set_version(ctx, (int)version);
    }
    describe_server(ctx);
}

/* ---- CLIENT --------------------------------------------------------------------------------- */

void cmd_client_id(struct command_ctx *ctx)
{
    resp_write_int(ctx->out, (int64_t)ctx->session->id);
}

void cmd_client_getname(struct command_ctx *ctx)
{
    if (ctx->session->name != NULL) {
        resp_write_bulk_str(ctx->out, ctx->session->name);
    } else {
        resp_write_null(ctx->out);
    }
}

void cmd_client_setname(struct command_ctx *ctx)
{
    if (!name_is_valid(ctx->argv[2])) {
        resp_write_error(ctx->out, bad_name);
        return;
    }
    ctx->rc = server_client_rename(ctx->server, ctx->session, ctx->argv[2].data, ctx->argv[2].len);
    if (ctx->rc == 0) {
        resp_write_ok(ctx->out);
    }
}

static void write_list(struct command_ctx *ctx, const struct client_filter *filter)
{
    size_t len;
    char *text = server_client_list(ctx->server, filter, &len);
    if (text == NULL) {
        ctx->rc = PS_NOMEM;
        return;
    }
    resp_write_verbatim(ctx->out, "txt", text, len);
    free(text);
}

void cmd_client_info(struct command_ctx *ctx)
{
    struct client_filter filter = {.ids = &ctx->session->id, .id_count = 1};
    write_list(ctx, &filter);
}

/* A type's name: 1: such connections exist; 0: none has it; -1: unknown (answered). */
static int read_type(struct command_ctx *ctx, struct ps_slice arg)
{
    static const char *const none[] = {"master", "slave", "replica", "pubsub"};
    if (word_is(arg, "normal")) {
        return 1;
    }
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        if (word_is(arg, none[i])) {
            return 0;
        }
    }
    resp_write_errorf(ctx->out, "Unknown client type '%.*s'", (int)arg.len, (const char *)arg.data);
    return -1;
}

void cmd_client_list(struct command_ctx *ctx)
{
    struct client_filter filter = {0};
    uint64_t *ids = NULL;
    int64_t id;
    if (ctx->argc == 4 && word_is(ctx->argv[2], "type")) {
        int type = read_type(ctx, ctx->argv[3]);
        if (type < 0) {
            return;
        }
        filter.never = type == 0;
    } else if (ctx->argc > 3 && word_is(ctx->argv[2], "id")) {
        ids = malloc((ctx->argc - 3) * sizeof(*ids));
        for (size_t i = 3; ids != NULL && i < ctx->argc; i++) {
            if (number_to_int(ctx->argv[i].data, ctx->argv[i].len, &id) != 0) {
                resp_write_error(ctx->out, "Invalid client ID");
                free(ids);
                return;
            }
            ids[filter.id_count++] = (uint64_t)id;
        }
        filter.ids = ids;
    } else if (ctx->argc != 2) {
        resp_write_error(ctx->out, "syntax error");
        return;
    }
    write_list(ctx, &filter);
    free(ids);
}

struct kill_text {
    char addr[128], laddr[128];
    uint64_t id;
};

/* One option of CLIENT KILL and its value. false: it was answered. */
static bool read_kill_option(struct command_ctx *ctx, struct ps_slice name, struct ps_slice value,
                             struct client_filter *filter, struct kill_text *text, bool *skip_me)
{
    int64_t id;
    if (word_is(name, "id")) {
        if (number_to_int(value.data, value.len, &id) != 0 || id < 1) {
            resp_write_error(ctx->out, "client-id should be greater than 0");
            return false;
        }
        text->id = (uint64_t)id;
        filter->ids = &text->id;
        filter->id_count = 1;
    } else if (word_is(name, "type")) {
        int type = read_type(ctx, value);
        filter->never |= type == 0;
        return type >= 0;
    } else if (word_is(name, "addr")) {
        filter->addr = word_copy(value, text->addr, sizeof(text->addr)) ? text->addr : "";
    } else if (word_is(name, "laddr")) {
        filter->laddr = word_copy(value, text->laddr, sizeof(text->laddr)) ? text->laddr : "";
    } else if (word_is(name, "user")) {
        if (value.len != strlen("default") || memcmp(value.data, "default", value.len) != 0) {
            resp_write_errorf(ctx->out, "No such user '%.*s'", (int)value.len,
                              (const char *)value.data);
            return false;
        }
    } else if (word_is(name, "skipme") && (word_is(value, "yes") || word_is(value, "no"))) {
        *skip_me = word_is(value, "yes");
    } else {
        resp_write_error(ctx->out, "syntax error");
        return false;
    }
    return true;
}

void cmd_client_kill(struct command_ctx *ctx)
{
    struct client_filter filter = {0};
    struct kill_text text;
    bool skip_me = true;
    if (ctx->argc == 3) {
        filter.addr = word_copy(ctx->argv[2], text.addr, sizeof(text.addr)) ? text.addr : "";
        if (server_client_kill(ctx->server, ctx->session, &filter) == 0) {
            resp_write_error(ctx->out, "No such client");
        } else {
            resp_write_ok(ctx->out);
        }
        return;
    }
    for (size_t i = 2; i < ctx->argc; i += 2) {
        if (i + 1 == ctx->argc) {
            resp_write_error(ctx->out, "syntax error");
            return;
        }
        if (!read_kill_option(ctx, ctx->argv[i], ctx->argv[i + 1], &filter, &text, &skip_me)) {
            return;
        }
    }
    filter.except = skip_me ? ctx->session->id : 0;
    resp_write_int(ctx->out, (int64_t)server_client_kill(ctx->server, ctx->session, &filter));
}

void cmd_client_help(struct command_ctx *ctx)
{
    static const char *const lines[] = {
        "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GETNAME",
        "    Return the name of the current connection.",
        "ID",
        "    Return the ID of the current connection.",
        "INFO",
        "    Return information about the current client connection.",
        "KILL <ip:port>",
        "    Kill connection made from <ip:port>.",
        "KILL <option> <value> [<option> <value> [...]]",
        "    Kill connections. Options are:",
        "    * ADDR <ip:port>",
        "      Kill connections made from the specified address",
        "    * ID <client-id>",
        "      Kill the connection with this ID",
        "    * LADDR <ip:port>",
        "      Kill connections made to specified local address",
        "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
        "      Kill connections by type.",
        "    * USER <username>",
        "      Kill connections authenticated by <username>.",
        "    * SKIPME (YES|NO)",
        "      Skip killing current connection (default: yes).",
        "LIST [options ...]",
        "    Return information about client connections. Options:",
        "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
        "      Return clients of specified type.",
        "    * ID <client-id> [<client-id> ...]",
        "      Return clients of specified IDs.",
        "SETNAME <name>",
        "    Assign the name <name> to the current connection.",
        "HELP",
        "    Prints this help.",
    };
    write_help(ctx->out, lines, sizeof(lines) / sizeof(lines[0]));
}
