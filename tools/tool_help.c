/*
 * tool_help.c - the table of commands printed: as usage, as a command's help, as the manual.
 *
 * Threads: any.
 */
#include "tools/tool.h"

#include <string.h>

static const char *const server_words[] = {
    [TOOL_BESIDE] = "The server may run: then the newest checkpoint is looked at, beside it.",
    [TOOL_STOPPED] = "The server has to be stopped.",
};

const struct tool_command *tool_find_command(const char *name)
{
    for (size_t i = 0; i < tool_command_count; i++) {
        if (strcmp(tool_commands[i].name, name) == 0) {
            return &tool_commands[i];
        }
    }
    return NULL;
}

void tool_usage(FILE *to)
{
    fprintf(to, "usage: pando-tool COMMAND [OPTIONS] DIRECTORY\n\ncommands:\n");
    for (size_t i = 0; i < tool_command_count; i++) {
        const struct tool_command *c = &tool_commands[i];
        fprintf(to, "  %-18s%s%s\n", c->name, c->summary,
                c->server == TOOL_STOPPED ? " (server stopped)" : "");
    }
    fprintf(to, "\npando-tool COMMAND --help tells all about one, pando-tool --manual about all.\n"
                "Exit status: 0 fine, 1 damage or differences found, 2 it could not be done.\n");
}

/* A command's name, arguments and options in a line. */
static void synopsis(FILE *to, const struct tool_command *c)
{
    fprintf(to, "pando-tool %s [OPTIONS] %s", c->name, c->arguments);
}

static void option_name(FILE *to, const struct tool_option *option)
{
    fprintf(to, "%s%s%s", option->name, option->value != NULL ? " " : "",
            option->value != NULL ? option->value : "");
}

static const struct tool_option json = {
    "--json", NULL, "print lines of JSON, of which the last is {\"result\": ...}"};

static const struct tool_option *nth_option(const struct tool_command *c, size_t i)
{
    if (i < TOOL_OPTIONS && c->options[i].name != NULL) {
        return &c->options[i];
    }
    return i == 0 || (i <= TOOL_OPTIONS && c->options[i - 1].name != NULL) ? &json : NULL;
}

void tool_help(FILE *to, const struct tool_command *c)
{
    fprintf(to, "usage: ");
    synopsis(to, c);
    fprintf(to, "\n\n%s: %s\n\n%s\n%s\n\noptions:\n", c->name, c->summary, c->text,
            server_words[c->server]);
    for (size_t i = 0; nth_option(c, i) != NULL; i++) {
        const struct tool_option *option = nth_option(c, i);
        fprintf(to, "  ");
        option_name(to, option);
        fprintf(to, "\n        %s\n", option->help);
        if (option == &json) {
            break;
        }
    }
}

static void manual_of(FILE *to, const struct tool_command *c)
{
    fprintf(to, "\n## %s\n\n    ", c->name);
    synopsis(to, c);
    fprintf(to, "\n\n%s\n%s\n\n| option | |\n|---|---|\n", c->text, server_words[c->server]);
    for (size_t i = 0; nth_option(c, i) != NULL; i++) {
        const struct tool_option *option = nth_option(c, i);
        fprintf(to, "| `");
        option_name(to, option);
        fprintf(to, "` | %s |\n", option->help);
        if (option == &json) {
            break;
        }
    }
}

void tool_manual(FILE *to)
{
    fprintf(to,
            "# pando-tool\n\n"
            "Looks at a directory of data from outside, and moves data in and out. This page is\n"
            "written by `pando-tool --manual`; `pando-tool COMMAND --help` prints a part of it.\n\n"
            "| command | | server |\n|---|---|---|\n");
    for (size_t i = 0; i < tool_command_count; i++) {
        const struct tool_command *c = &tool_commands[i];
        fprintf(to, "| [%s](#%s) | %s | %s |\n", c->name, c->name, c->summary,
                c->server == TOOL_STOPPED ? "stopped" : "may run");
    }
    fprintf(
        to,
        "\nExit status: 0 fine; 1 damage or differences were found; 2 a mistake in the call, or "
        "it\n"
        "could not be done. Findings go to standard output, complaints and (on a terminal) "
        "progress\n"
        "to standard error.\n\n"
        "With `--json` every line of standard output is a JSON object with one member that says\n"
        "what it is: `finding` (`what`, `file`, `offset`), `tree`, `segment`, `record`, `op`, "
        "and,\n"
        "last, `result`, which has `command`, `exit`, `status` (`fine`, `damage`, `error`), "
        "figures,\n"
        "and after a failure `error`. Bytes that are not UTF-8 are base64, in a member whose name\n"
        "ends in `64` (`key64` instead of `key`).\n\n"
        "A directory has one owner at a time. A command that needs the server stopped says so if "
        "it\n"
        "is not; while such a command runs, a server refuses to start. Beside a running server a\n"
        "command opens the file without owning it, sees the state of the newest checkpoint, and\n"
        "begins again if the server has made another one before it was through.\n");
    for (size_t i = 0; i < tool_command_count; i++) {
        manual_of(to, &tool_commands[i]);
    }
}
