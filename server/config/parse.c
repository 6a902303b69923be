/*
 * parse.c - settings from files and from the command line.
 *
 * The syntax is redis.conf's: one directive a line, '#' at a line's begin is a comment, words are
 * split by the rules of inline requests (quotes included). `include` reads files in place, patterns
 * expanded, names relative to the working directory, at most 16 deep.
 *
 * Threads: start-up only. The first error ends the reading; where it was is in struct config_error.
 */
#include "server/config/config_private.h"

#include "protocol/resp.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_DEPTH 16
#define MAX_WORDS 64
#define MAX_LINE  (1024 * 1024)

struct source {
    struct config *config;
    struct config_error *error;
    const char *file;
    unsigned line;
    unsigned depth;
};

static int load_file(struct config *config, const char *path, unsigned depth,
                     struct config_error *error);

static int fail(const struct source *source, const char *text, const char *reason)
{
    struct config_error *error = source->error;
    snprintf(error->file, sizeof(error->file), "%s", source->file);
    snprintf(error->text, sizeof(error->text), "%s", text);
    snprintf(error->reason, sizeof(error->reason), "%s", reason);
    error->line = source->line;
    return -1;
}

static int include(const struct source *source, const char *pattern, const char *text)
{
    glob_t found;
    int rc = 0;
    if (source->depth + 1 >= MAX_DEPTH) {
        return fail(source, text, "includes are nested too deeply");
    }
    if (glob(pattern, GLOB_NOCHECK, NULL, &found) != 0) {
        return fail(source, text, "the pattern cannot be expanded");
    }
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++) {
        rc = load_file(source->config, found.gl_pathv[i], source->depth + 1, source->error);
        if (rc != 0 && source->error->line == 0) { /* it cannot be read: say who wanted it */
            char reason[sizeof(source->error->reason)];
            memcpy(reason, source->error->reason, sizeof(reason));
            fail(source, text, reason);
        }
    }
    globfree(&found);
    return rc;
}

static void warn_fixed(struct config *config, enum config_id id, const char *const *words, size_t n)
{
    char text[320], joined[128] = "";
    char *value = config_show(config, id);
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(joined);
        snprintf(joined + used, sizeof(joined) - used, "%s%s", i > 0 ? " " : "", words[i]);
    }
    if (config->warn != NULL && value != NULL && strcasecmp(value, joined) != 0) {
        snprintf(text, sizeof(text), "'%s %s' changes nothing: Pando's is '%s' always. %s",
                 config_row(id)->name, joined, value, config_row(id)->doc);
        config->warn(config->warn_arg, text);
    }
    free(value);
}

/* One directive, in words. `text` is what an error shows. */
static int directive(const struct source *source, const char *const *words, size_t n,
                     const char *text)
{
    char reason[160];
    int id;
    if (strcasecmp(words[0], "include") == 0) {
        return n == 2 ? include(source, words[1], text)
                      : fail(source, text, "Bad directive or wrong number of arguments");
    }
    id = config_find(words[0]);
    if (id < 0 || n < 2) {
        return fail(source, text, "Bad directive or wrong number of arguments");
    }
    if (config_row(id)->flags & CONFIG_FIXED) {
        warn_fixed(source->config, id, words + 1, n - 1);
        return 0;
    }
    if (config_assign(source->config, id, words + 1, n - 1, reason) != 0) {
        return fail(source, config_row(id)->flags & CONFIG_SECRET ? words[0] : text, reason);
    }
    return 0;
}

/* Splits one line and runs it. */
static int run_line(struct source *source, char *line, size_t len)
{
    struct resp_args args = {0};
    const char *words[MAX_WORDS];
    char *copies[MAX_WORDS];
    size_t n;
    int rc = 0;
    while (len > 0 && isspace((unsigned char)line[len - 1])) {
        line[--len] = '\0';
    }
    while (len > 0 && isspace((unsigned char)*line)) {
        line++, len--;
    }
    if (len == 0 || line[0] == '#') {
        return 0;
    }
    if (memchr(line, '\0', len) != NULL || resp_split_line(line, len, &args) != 0) {
        resp_args_free(&args);
        return fail(source, line, "Unbalanced quotes in configuration line");
    }
    for (n = 0; n < args.n && n < MAX_WORDS; n++) {
        words[n] = copies[n] = strndup(args.v[n].data, args.v[n].len);
    }
    if (args.n > MAX_WORDS) {
        rc = fail(source, line, "too many words");
    } else if (n > 0) {
        rc = directive(source, words, n, line);
    }
    for (size_t i = 0; i < n; i++) {
        free(copies[i]);
    }
    resp_args_free(&args);
    return rc;
}

static int load_file(struct config *config, const char *path, unsigned depth,
                     struct config_error *error)
{
    struct source source = {config, error, path, 0, depth};
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    int rc = 0;
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (file == NULL) {
        return fail(&source, "", strerror(errno));
    }
    while (rc == 0 && (errno = 0, len = getline(&line, &cap, file)) >= 0) {
        source.line++;
        rc = len > MAX_LINE ? fail(&source, "", "the line is too long")
                            : run_line(&source, line, (size_t)len);
    }
    if (rc == 0 && ferror(file)) {
        source.line = 0;
        rc = fail(&source, "", strerror(errno != 0 ? errno : EIO));
    }
    free(line);
    if (file != stdin) {
        fclose(file);
    }
    return rc;
}

int config_load_file(struct config *config, const char *path, struct config_error *error)
{
    return load_file(config, path, 0, error);
}

int config_load_args(struct config *config, int argc, char **argv, struct config_error *error)
{
    struct source source = {config, error, "command line", 0, 0};
    for (int i = 0; i < argc;) {
        const char *words[MAX_WORDS];
        char text[sizeof(error->text)] = "";
        size_t n = 0, used = 0;
        if (strncmp(argv[i], "--", 2) != 0 || argv[i][2] == '\0') {
            return fail(&source, argv[i], "a directive begins with '--'");
        }
        words[n++] = argv[i++] + 2;
        while (i < argc && strncmp(argv[i], "--", 2) != 0 && n < MAX_WORDS) {
            words[n++] = argv[i++];
        }
        for (size_t w = 0; w < n && used < sizeof(text); w++) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, w > 0 ? " %s" : "--%s",
                                     words[w]);
        }
        if (directive(&source, words, n, text) != 0) {
            return -1;
        }
    }
    return 0;
}
