/*
 * Accepted differences: a file of lines COMMAND <tab> PATTERN <tab> REASON; '#' begins a comment
 * line.
 *
 * COMMAND is the command's name, or (raw) for raw bytes; PATTERN is a shell pattern over the line
 * "REQUEST => FIRST REPLY | SECOND REPLY" as reports print it; REASON says why the difference is
 * right.
 *
 * Invariant: an entry accepts the comparison of one reply and nothing else; an entry that accepts
 * nothing in a full run is an error (main.c), so the list can't outlive its reasons.
 */
#include "tests/differential/exceptions.h"

#include <assert.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int add_line(struct exceptions *exceptions, char *line)
{
    char *rest = NULL;
    struct exception entry = {0};
    entry.command = strtok_r(line, "\t", &rest);
    entry.pattern = strtok_r(NULL, "\t", &rest);
    entry.reason = strtok_r(NULL, "\t", &rest);
    if (entry.reason == NULL || strtok_r(NULL, "\t", &rest) != NULL)
        return -1;
    entry.command = strdup(entry.command);
    entry.pattern = strdup(entry.pattern);
    entry.reason = strdup(entry.reason);
    exceptions->items = realloc(exceptions->items, (exceptions->count + 1) * sizeof entry);
    assert(exceptions->items != NULL);
    exceptions->items[exceptions->count++] = entry;
    return 0;
}

int exceptions_load(struct exceptions *exceptions, const char *path)
{
    char line[2048];
    int number = 0, rc = 0;
    *exceptions = (struct exceptions){0};
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    while (rc == 0 && fgets(line, sizeof line, file) != NULL) {
        number++;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0' && line[0] != '#')
            rc = add_line(exceptions, line);
    }
    fclose(file);
    if (rc < 0)
        fprintf(stderr, "%s:%d: expected COMMAND<tab>PATTERN<tab>REASON\n", path, number);
    return rc;
}

void exceptions_free(struct exceptions *exceptions)
{
    for (size_t i = 0; i < exceptions->count; i++) {
        free(exceptions->items[i].command);
        free(exceptions->items[i].pattern);
        free(exceptions->items[i].reason);
    }
    free(exceptions->items);
    *exceptions = (struct exceptions){0};
}

struct exception *exceptions_find(struct exceptions *exceptions, const char *command,
                                  const char *text)
{
    for (size_t i = 0; i < exceptions->count; i++) {
        struct exception *entry = &exceptions->items[i];
        if (strcasecmp(entry->command, command) == 0 && fnmatch(entry->pattern, text, 0) == 0)
            return entry;
    }
    return NULL;
}

size_t exceptions_print(const struct exceptions *exceptions)
{
    size_t unused = 0;
    for (size_t i = 0; i < exceptions->count; i++) {
        const struct exception *entry = &exceptions->items[i];
        printf("exception: %6zu matches of %s %s (%s)\n", entry->matched, entry->command,
               entry->pattern, entry->reason);
        unused += entry->matched == 0;
    }
    return unused;
}
