/*
 * cmd_command.c - COMMAND: the table as clients see it. Reads constant data only; any thread.
 */
#include "server/commands/cmd_server.h"

#include "server/commands/words.h"
#include "server/keyspace/glob.h"

static const char *const flag_names[] = {
    "write",         "readonly",          "denyoom",          "module",   "admin",
    "pubsub",        "noscript",          "blocking",         "loading",  "stale",
    "skip_monitor",  "skip_slowlog",      "asking",           "fast",     "no_auth",
    "may_replicate", "no_mandatory_keys", "no_async_loading", "no_multi", "allow_busy",
    "movablekeys",
};

static void write_flags(struct resp_out *out, uint32_t flags)
{
    resp_write_set(out, (uint64_t)__builtin_popcount(flags));
    for (size_t i = 0; i < sizeof(flag_names) / sizeof(flag_names[0]); i++) {
        if (flags & (1u << i)) {
            resp_write_simple(out, flag_names[i]);
        }
    }
}

/* Blank-separated words as a set (or array) of simple strings (or bulks). */
static void write_words(struct resp_out *out, const char *words, bool bulk)
{
    size_t mark = resp_defer(out);
    uint64_t n = 0;
    while (words != NULL && *words != '\0') {
        size_t len = strcspn(words, " ");
        if (bulk) {
            resp_write_bulk(out, words, len);
        } else {
            resp_write_simple_n(out, words, len);
        }
        words += len + (words[len] == ' ');
        n++;
    }
    resp_defer_set(out, mark, n);
}

static void write_key_spec(struct resp_out *out, const struct command_keys *keys)
{
    resp_write_map(out, keys->notes != NULL ? 4 : 3);
    if (keys->notes != NULL) {
        resp_write_bulk_str(out, "notes");
        resp_write_bulk_str(out, keys->notes);
    }
    resp_write_bulk_str(out, "flags");
    write_words(out, keys->flags, false);
    resp_write_bulk_str(out, "begin_search");
    resp_write_map(out, 2);
    resp_write_bulk_str(out, "type");
    resp_write_bulk_str(out, "index");
    resp_write_bulk_str(out, "spec");
    resp_write_map(out, 1);
    resp_write_bulk_str(out, "index");
    resp_write_int(out, keys->begin);
    resp_write_bulk_str(out, "find_keys");
    resp_write_map(out, 2);
    resp_write_bulk_str(out, "type");
    resp_write_bulk_str(out, "range");
    resp_write_bulk_str(out, "spec");
    resp_write_map(out, 3);
    resp_write_bulk_str(out, "lastkey");
    resp_write_int(out, keys->last);
    resp_write_bulk_str(out, "keystep");
    resp_write_int(out, keys->step);
    resp_write_bulk_str(out, "limit");
    resp_write_int(out, 0);
}

static void write_key_specs(struct resp_out *out, const struct command *row)
{
    uint64_t n = 0;
    while (row->keys != NULL && row->keys[n].flags != NULL) {
        n++;
    }
    resp_write_set(out, n);
    for (uint64_t i = 0; i < n; i++) {
        write_key_spec(out, &row->keys[i]);
    }
}

static uint64_t subcommand_count(const struct command *row)
{
    uint64_t n = 0;
    while (row->subcommands != NULL && row->subcommands[n].name != NULL) {
        n++;
    }
    return n;
}

/* The first ten columns of COMMAND INFO; the last is the subcommands, of the same form. */
static void write_row(struct resp_out *out, const struct command *row, bool nested)
{
    uint64_t n = nested ? 0 : subcommand_count(row);
    resp_write_array(out, 10);
    resp_write_bulk_str(out, command_full_name(row));
    resp_write_int(out, row->arity);
    write_flags(out, row->flags);
    resp_write_int(out, row->first_key);
    resp_write_int(out, row->last_key);
    resp_write_int(out, row->key_step);
    write_words(out, row->acl, false);
    write_words(out, row->tips, true);
    write_key_specs(out, row);
    resp_write_set(out, n);
    for (uint64_t i = 0; i < n; i++) {
        write_row(out, &row->subcommands[i], true);
    }
}

/* A row by its name, "client|id" included. */
static const struct command *find(struct ps_slice name)
{
    const char *bar = memchr(name.data, '|', name.len);
    const struct command *row;
    struct ps_slice first = name, second;
    if (bar == NULL) {
        return command_lookup(name);
    }
    first.len = (size_t)(bar - (const char *)name.data);
    second = (struct ps_slice){bar + 1, name.len - first.len - 1};
    row = command_lookup(first);
    return row == NULL || row->subcommands == NULL ? NULL : command_lookup_sub(row, second);
}

static void write_all(struct command_ctx *ctx)
{
    size_t n;
    const struct command *table = command_table(&n);
    resp_write_array(ctx->out, n);
    for (size_t i = 0; i < n; i++) {
        write_row(ctx->out, &table[i], false);
    }
}

void cmd_command(struct command_ctx *ctx)
{
    write_all(ctx);
}

void cmd_command_info(struct command_ctx *ctx)
{
    if (ctx->argc == 2) {
        write_all(ctx);
        return;
    }
    resp_write_array(ctx->out, ctx->argc - 2);
    for (size_t i = 2; i < ctx->argc; i++) {
        const struct command *row = find(ctx->argv[i]);
        if (row == NULL) {
            resp_write_null(ctx->out);
        } else {
            write_row(ctx->out, row, strchr(command_full_name(row), '|') != NULL);
        }
    }
}

void cmd_command_count(struct command_ctx *ctx)
{
    size_t n;
    command_table(&n);
    resp_write_int(ctx->out, (int64_t)n);
}

/* ---- DOCS ----------------------------------------------------------------------------------- */

static void write_docs(struct resp_out *out, const struct command *row)
{
    uint64_t n = subcommand_count(row);
    resp_write_bulk_str(out, command_full_name(row));
    resp_write_map(out, 3 + (row->complexity != NULL) + (n > 0));
    resp_write_bulk_str(out, "summary");
    resp_write_bulk_str(out, row->summary);
    resp_write_bulk_str(out, "since");
    resp_write_bulk_str(out, row->since);
    resp_write_bulk_str(out, "group");
    resp_write_bulk_str(out, row->group);
    if (row->complexity != NULL) {
        resp_write_bulk_str(out, "complexity");
        resp_write_bulk_str(out, row->complexity);
    }
    if (n > 0) {
        resp_write_bulk_str(out, "subcommands");
        resp_write_map(out, n);
        for (uint64_t i = 0; i < n; i++) {
            write_docs(out, &row->subcommands[i]);
        }
    }
}

void cmd_command_docs(struct command_ctx *ctx)
{
    size_t n, mark = resp_defer(ctx->out);
    const struct command *table = command_table(&n);
    uint64_t found = 0;
    if (ctx->argc == 2) {
        for (; found < n; found++) {
            write_docs(ctx->out, &table[found]);
        }
    }
    for (size_t i = 2; i < ctx->argc; i++) {
        const struct command *row = find(ctx->argv[i]);
        if (row != NULL) {
            write_docs(ctx->out, row);
            found++;
        }
    }
    resp_defer_map(ctx->out, mark, found);
}

/* ---- LIST ----------------------------------------------------------------------------------- */

enum list_filter { LIST_ALL, LIST_NONE, LIST_CATEGORY, LIST_PATTERN };

static bool has_category(const struct command *row, struct ps_slice category)
{
    for (const char *w = row->acl; w != NULL && *w != '\0';) {
        size_t len = strcspn(w, " ");
        if (len == category.len + 1 && strncasecmp(w + 1, category.data, category.len) == 0) {
            return true;
        }
        w += len + (w[len] == ' ');
    }
    return false;
}

static uint64_t list_rows(struct resp_out *out, const struct command *rows, uint64_t n,
                          enum list_filter filter, struct ps_slice word)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct ps_slice name = {command_full_name(&rows[i]), strlen(command_full_name(&rows[i]))};
        if (filter == LIST_ALL || (filter == LIST_CATEGORY && has_category(&rows[i], word)) ||
            (filter == LIST_PATTERN && glob_match(word, name, true))) {
            resp_write_bulk(out, name.data, name.len);
            found++;
        }
        found += list_rows(out, rows[i].subcommands, subcommand_count(&rows[i]), filter, word);
    }
    return found;
}

void cmd_command_list(struct command_ctx *ctx)
{
    enum list_filter filter = LIST_ALL;
    struct ps_slice word = {"", 0};
    const struct command *table;
    size_t n, mark;
    if (ctx->argc != 2 && (ctx->argc != 5 || !word_is(ctx->argv[2], "filterby"))) {
        resp_write_error(ctx->out, "syntax error");
        return;
    }
    if (ctx->argc == 5) {
        word = ctx->argv[4];
        if (word_is(ctx->argv[3], "aclcat")) {
            filter = LIST_CATEGORY;
        } else if (word_is(ctx->argv[3], "pattern")) {
            filter = LIST_PATTERN;
        } else if (word_is(ctx->argv[3], "module")) {
            filter = LIST_NONE;
        } else {
            resp_write_error(ctx->out, "syntax error");
            return;
        }
    }
    mark = resp_defer(ctx->out);
    table = command_table(&n);
    resp_defer_array(ctx->out, mark, list_rows(ctx->out, table, n, filter, word));
}

/* ---- GETKEYS -------------------------------------------------------------------------------- */

void cmd_command_getkeys(struct command_ctx *ctx)
{
    size_t argc = ctx->argc - 2;
    const struct ps_slice *argv = ctx->argv + 2;
    const struct command *row = command_lookup(argv[0]);
    int64_t last;
    if (row != NULL && row->subcommands != NULL && argc > 1) {
        row = command_lookup_sub(row, argv[1]);
    }
    if (row == NULL) {
        resp_write_error(ctx->out, "Invalid command specified");
        return;
    }
    if (row->first_key == 0) {
        resp_write_error(ctx->out, "The command has no key arguments");
        return;
    }
    if (row->arity >= 0 ? argc != (size_t)row->arity : argc < (size_t)-row->arity) {
        resp_write_error(ctx->out, "Invalid number of arguments specified for command");
        return;
    }
    last = row->last_key < 0 ? (int64_t)argc + row->last_key : row->last_key;
    resp_write_array(ctx->out, (uint64_t)((last - row->first_key) / row->key_step + 1));
    for (int64_t i = row->first_key; i <= last; i += row->key_step) {
        resp_write_bulk(ctx->out, argv[i].data, argv[i].len);
    }
}

void cmd_command_help(struct command_ctx *ctx)
{
    static const char *const lines[] = {
        "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(no subcommand)",
        "    Return details about all Redis commands.",
        "COUNT",
        "    Return the total number of commands in this Redis server.",
        "LIST",
        "    Return a list of all commands in this Redis server.",
        "INFO [<command-name> ...]",
        "    Return details about multiple Redis commands.",
        "    If no command names are given, documentation details for all",
        "    commands are returned.",
        "DOCS [<command-name> ...]",
        "    Return documentation details about multiple Redis commands.",
        "    If no command names are given, documentation details for all",
        "    commands are returned.",
        "GETKEYS <full-command>",
        "    Return the keys from a full Redis command.",
        "HELP",
        "    Prints this help.",
    };
    write_help(ctx->out, lines, sizeof(lines) / sizeof(lines[0]));
}
