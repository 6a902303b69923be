/*
 * tool_arguments.c - the command line, as the command's row of the table says.
 *
 * Options may stand anywhere behind the command; `--name value` and `--name=value` are the same;
 * behind `--` come arguments only.
 *
 * Threads: one.
 */
#include "tools/tool.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct tool_option every_command[] = {
    {"--json", NULL, "print lines of JSON, the last one {\"result\": ...}"},
};

static const struct tool_option *find_option(const struct tool_command *command, const char *word,
                                             size_t len)
{
    for (size_t i = 0; i < TOOL_OPTIONS && command->options[i].name != NULL; i++) {
        if (strlen(command->options[i].name) == len &&
            strncmp(command->options[i].name, word, len) == 0) {
            return &command->options[i];
        }
    }
    bool json = len == strlen("--json") && strncmp(word, "--json", len) == 0;
    return json ? &every_command[0] : NULL;
}

static bool complain(struct tool *tool, const char *what, const char *word)
{
    tool_fail(tool, "%s%s%s", what, word[0] ? " " : "", word);
    fprintf(stderr, "usage: pando-tool %s [OPTIONS] %s; more: pando-tool %s --help\n",
            tool->command->name, tool->command->arguments, tool->command->name);
    return false;
}

/* Takes the option at argv[0]; the words it takes, or 0 after a complaint. */
static int take_option(struct tool *tool, int argc, char **argv)
{
    const char *word = argv[0];
    const char *equals = strchr(word, '=');
    size_t len = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const struct tool_option *option = find_option(tool->command, word, len);
    if (option == NULL) {
        complain(tool, "no such option:", word);
        return 0;
    }
    if ((option->value == NULL && equals != NULL) || tool->ngiven == TOOL_GIVEN) {
        complain(tool, "takes no value, or too many options:", word);
        return 0;
    }
    const char *value = option->value == NULL ? "" : equals != NULL ? equals + 1 : NULL;
    int words = 1;
    if (value == NULL) {
        if (argc < 2) {
            complain(tool, "needs a value:", word);
            return 0;
        }
        value = argv[1];
        words = 2;
    }
    tool->given[tool->ngiven].option = option;
    tool->given[tool->ngiven++].value = value;
    return words;
}

static unsigned wanted(const struct tool_command *command)
{
    unsigned n = 1;
    for (const char *at = command->arguments; *at != '\0'; at++) {
        n += *at == ' ';
    }
    return n;
}

/* Known before the rest: complaints about that are told in the same form. */
static bool asks_for_json(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], every_command[0].name) == 0) {
            return true;
        }
    }
    return false;
}

bool tool_take_arguments(struct tool *tool, int argc, char **argv)
{
    unsigned n = 0, want = wanted(tool->command);
    bool options = true;
    tool->json = asks_for_json(argc, argv);
    tool->result = tool->json ? json_object() : NULL;
    assert(want <= TOOL_ARGUMENTS);
    for (int i = 0; i < argc;) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
            i++;
        } else if (options && argv[i][0] == '-' && argv[i][1] != '\0') {
            int words = take_option(tool, argc - i, argv + i);
            if (words == 0) {
                return false;
            }
            i += words;
        } else if (n == want) {
            return complain(tool, "one argument too many:", argv[i]);
        } else {
            tool->arguments[n++] = argv[i++];
        }
    }
    if (n < want) {
        return complain(tool, "arguments are missing", "");
    }
    return true;
}

const char *tool_option(const struct tool *tool, const char *name, unsigned nth)
{
    assert(find_option(tool->command, name, strlen(name)) != NULL);
    for (unsigned i = 0; i < tool->ngiven; i++) {
        if (strcmp(tool->given[i].option->name, name) == 0 && nth-- == 0) {
            return tool->given[i].value;
        }
    }
    return NULL;
}

bool tool_number(struct tool *tool, const char *name, uint64_t otherwise, uint64_t most,
                 uint64_t *number)
{
    const char *text = tool_option(tool, name, 0);
    char *end;
    *number = otherwise;
    if (text == NULL) {
        return true;
    }
    *number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || *number < 1 || *number > most) {
        tool_fail(tool, "%s: a number from 1 to %" PRIu64 ", not '%s'", name, most, text);
        return false;
    }
    return true;
}
