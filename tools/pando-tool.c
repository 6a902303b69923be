/*
 * pando-tool.c - looks at a store from outside: `check` and `stat`.
 *
 * Invariants:
 *  1. Nothing in the directory is changed: stores are opened with read_only_check.
 *  2. Exit status: 0 clean, 1 findings, 2 wrong usage or a store that cannot be opened.
 *
 * Threads: one. A crash leaves nothing behind.
 */
#include "tools/tool.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct command {
    const char *name;
    int (*run)(struct ps_store *store, const char *dir);
    const char *help;
} commands[] = {
    {"check", tool_check, "verify the newest checkpoint, page by page"},
    {"stat", tool_stat, "show sizes, positions and counts"},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static void usage(FILE *to)
{
    fprintf(to, "usage: pando-tool COMMAND DIRECTORY\n\ncommands:\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-8s%s\n", commands[i].name, commands[i].help);
    fprintf(to, "\nDIRECTORY is that of a store no server has open; nothing in it is changed.\n"
                "Exit status: 0 clean, 1 findings, 2 wrong usage or the store cannot be opened.\n");
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

/* A missing directory, or one without a store, is a mistake in the command: nothing is made. */
static int look_for_store(const char *dir)
{
    char path[4200];
    struct stat st;
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode)) {
        fprintf(stderr, "pando-tool: %s: no such directory\n", dir);
        return TOOL_USAGE;
    }
    int n = snprintf(path, sizeof path, "%s/pando.db", dir);
    if (n < 0 || (size_t)n >= sizeof path || stat(path, &st) != 0) {
        fprintf(stderr, "pando-tool: %s: no store here (there is no pando.db)\n", dir);
        return TOOL_USAGE;
    }
    return TOOL_CLEAN;
}

/* Damage found while opening is a finding; anything else is a store that cannot be opened. */
static int cannot_open(const char *dir, int rc, const struct ps_fault *fault)
{
    if (rc == PS_LOCKED) {
        fprintf(stderr,
                "pando-tool: %s: in use by a running server (or another tool): stop it first\n",
                dir);
        return TOOL_USAGE;
    }
    if (rc == PS_CORRUPT) {
        printf("check of %s\n", dir);
        tool_print_fault(stdout, "finding", fault);
        printf("1 finding: the store cannot be opened\n");
        return TOOL_FINDINGS;
    }
    fprintf(stderr, "pando-tool: %s: %s\n", dir, ps_strerror(rc));
    if (fault->file[0])
        tool_print_fault(stderr, "pando-tool", fault);
    return TOOL_USAGE;
}

int main(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
        usage(stdout);
        return TOOL_CLEAN;
    }
    const struct command *command = argc == 3 ? find_command(argv[1]) : NULL;
    if (!command) {
        usage(stderr);
        return TOOL_USAGE;
    }
    const char *dir = argv[2];
    int status = look_for_store(dir);
    if (status != TOOL_CLEAN)
        return status;

    struct ps_options options = {.read_only_check = true};
    struct ps_store *store = NULL;
    struct ps_fault fault = {0};
    int rc = ps_open(dir, &options, &store, NULL, &fault);
    if (rc)
        return cannot_open(dir, rc, &fault);
    status = command->run(store, dir);
    ps_close(store, false);
    return status;
}
