/*
 * lookup.c - finds a command's row, and asks it what a call costs.
 *
 * The tables are sorted by name; a unit test proves it.
 *
 * Threads: any; everything here is constant.
 */
#include "server/commands/command.h"
#include "server/keyspace/keyspace.h"

#include <string.h>

#define NAME_MAX_LEN 31u

/* Lower-case copy with a NUL; false: longer than any command. */
static bool fold_name(struct ps_slice name, char folded[NAME_MAX_LEN + 1])
{
    const char *s = name.data;

    if (name.len > NAME_MAX_LEN)
        return false;
    bool text = true;
    for (size_t i = 0; i < name.len; i++) {
        folded[i] = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] | 0x20) : s[i];
        text &= s[i] != '\0';
    }
    folded[name.len] = '\0';
    return text;
}

const struct command *command_lookup(struct ps_slice name)
{
    char folded[NAME_MAX_LEN + 1];
    size_t low = 0, high;
    const struct command *table = command_table(&high);

    if (!fold_name(name, folded))
        return NULL;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(folded, table[middle].name);
        if (order == 0)
            return &table[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct command *command_lookup_sub(const struct command *parent, struct ps_slice name)
{
    char folded[NAME_MAX_LEN + 1];

    if (!parent->subcommands || !fold_name(name, folded))
        return NULL;
    for (const struct command *c = parent->subcommands; c->name; c++)
        if (strcmp(folded, c->name) == 0)
            return c;
    return NULL;
}

enum command_cost command_cost_of(const struct command *command, size_t argc,
                                  const struct ps_slice *argv)
{
    return command->cost_of ? command->cost_of(argc, argv) : command->cost;
}

void command_need_of(const struct command *command, size_t argc, const struct ps_slice *argv,
                     struct command_need *need)
{
    if (command->reserve) {
        command->reserve(argc, argv, need);
        return;
    }
    size_t keys = 0;
    need->bytes = KEYSPACE_PUT_EXTRA;
    for (size_t i = 0; i < argc; i++)
        need->bytes += argv[i].len;
    size_t last =
        command->last_key < 0 ? argc - (size_t)-command->last_key : (size_t)command->last_key;
    for (size_t i = (size_t)command->first_key; i > 0 && i <= last && i < argc;
         i += (size_t)command->key_step) {
        keys++;
        need->bytes += RECORD_MAX_HEADER + 2 * argv[i].len;
    }
    need->ops = 2 * keys + 1;
}
