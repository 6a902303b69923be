/*
 * pando-tool.c - looks at a store from outside, and moves data in and out.
 *
 * Invariants:
 *  1. Exit status: 0 fine, 1 damage or differences, 2 a mistake in the call or it could not be
 * done.
 *  2. What the commands are, take and need is in one table (tool_commands.c).
 *
 * Threads: one.
 */
#include "tools/tool.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A stream that was closed by whoever called is one that fails: no file that is opened takes its
 * place, and what cannot be said is noticed. */
static bool streams_exist(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    return fd >= 0 && close(fd) == 0;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

/* Calls that are about the program itself; -1: it is another. */
static int about(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--manual") == 0) {
        tool_manual(stdout);
        return TOOL_FINE;
    }
    if (argc == 2 && is_help(argv[1])) {
        tool_usage(stdout);
        return TOOL_FINE;
    }
    bool after = argc >= 3 && is_help(argv[2]);
    const char *name = after ? argv[1] : argc == 3 && is_help(argv[1]) ? argv[2] : NULL;
    const struct tool_command *command = name == NULL ? NULL : tool_find_command(name);
    if (command != NULL) {
        tool_help(stdout, command);
        return TOOL_FINE;
    }
    return -1;
}

int main(int argc, char **argv)
{
    if (!streams_exist()) {
        return TOOL_ERROR;
    }
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error */
    int status = about(argc, argv);
    if (status >= 0) {
        return status;
    }
    static char output[1 << 18];
    setvbuf(stdout, output, _IOFBF, sizeof output);
    struct tool tool = {.command = argc >= 2 ? tool_find_command(argv[1]) : NULL};
    if (tool.command == NULL) {
        tool_usage(stderr);
        return TOOL_ERROR;
    }
    bool fine = tool_take_arguments(&tool, argc - 2, argv + 2);
    status = fine ? tool.command->run(&tool) : TOOL_ERROR;
    tool_end_progress(&tool);
    tool_end(&tool, status);
    free(tool.findings);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("pando-tool: standard output");
        return TOOL_ERROR;
    }
    return status;
}
