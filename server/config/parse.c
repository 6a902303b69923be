/*
 * parse.c - settings from files and from the command line.
 *
 * The syntax is redis.conf's: one directive a line, '#' at a line's begin is a comment, words are
 * split by the rules of inline requests (quotes included). `include` reads files in place, patterns
 * expanded (one that matches nothing is no error), names relative to the working directory, at most
 * 16 deep.
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

static int include_file(const struct source *source, const char *path, const char *text)
{
    int rc = load_file(source->config, path, source->depth + 1, source->error);
    if (rc != 0 && source->error->line == 0) { /* it cannot be read: say who wanted it */
        char reason[sizeof(source->error->reason)];
        snprintf(reason, sizeof(reason), "%.160s: %.80s", path, source->error->reason);
        fail(source, text, reason);
    }
    return rc;
}

static int include(const struct source *source, const char *pattern, const char *text)
{
    glob_t found;
    int rc;
    if (source->depth + 1 >= MAX_DEPTH) {
        return fail(source, text, "includes are nested too deeply");
    }
    if (strpbrk(pattern, "*?[") == NULL) {
        return include_file(source, pattern, text);
    }
    rc = glob(pattern, 0, NULL, &found);
    if (rc != 0) {
        return rc == GLOB_NOMATCH ? 0 : fail(source, text, "the pattern cannot be expanded");
    }
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++) {
        rc = include_file(source, found.gl_pathv[i], text);
    }
    globfree(&found);
    return rc;
}

/* One directive, in words. `text` is what an error shows. */
static int directive(const struct source *source, const char *const *words, size_t n,
                     const char *text)
{
    char reason[CONFIG_REASON];
    int id;
    if (strcasecmp(words[0], "include") == 0) {
        return n == 2 ? include(source, words[1], text)
                      : fail(source, text, "Bad directive or wrong number of arguments");
    }
    id = config_find(words[0]);
    if (id < 0 || n < 2) {
        return fail(source, text, "Bad directive or wrong number of arguments");
    }
    config_mention(source->config, id);
    if (config_assign(source->config, id, words + 1, n - 1, reason) != 0) {
        return fail(source, config_row(id)->flags & CONFIG_SECRET ? words[0] : text, reason);
    }
    return 0;
}

void config_free_words(char **words, int n)
{
    for (int i = 0; i < n; i++) {
        free(words[i]);
    }
    free(words);
}

int config_split(const char *line, size_t len, char ***words)
{
    struct resp_args args = {0};
    int n = 0;
    *words = NULL;
    while (len > 0 && isspace((unsigned char)line[len - 1])) {
        len--;
    }
    while (len > 0 && isspace((unsigned char)*line)) {
        line++, len--;
    }
    if (len == 0 || line[0] == '#') {
        return 0;
    }
    if (memchr(line, '\0', len) != NULL || resp_split_line(line, len, &args) != 0) {
        n = -1;
    } else if (args.n > 0) {
        *words = calloc(args.n + 1, sizeof(char *));
        for (size_t i = 0; *words != NULL && i < args.n; i++) {
            (*words)[i] = strndup(args.v[i].data, args.v[i].len);
            n += (*words)[i] != NULL && strlen((*words)[i]) == args.v[i].len;
        }
        if (*words == NULL || (size_t)n < args.n) { /* no memory, or a NUL was written as \x00 */
            config_free_words(*words, *words == NULL ? 0 : (int)args.n);
            *words = NULL;
            n = -1;
        }
    }
    resp_args_free(&args);
    return n;
}

/* Splits one line and runs it. */
static int run_line(struct source *source, char *line, size_t len)
{
    char **words;
    int rc, n = config_split(line, len, &words);
    if (n == 0) {
        return 0;
    }
    while (len > 0 && isspace((unsigned char)line[len - 1])) {
        line[--len] = '\0';
    }
    line += strspn(line, " \t\r\n\v\f");
    if (n < 0) {
        return fail(source, line, "Unbalanced quotes in configuration line");
    }
    rc = directive(source, (const char *const *)words, (size_t)n, line);
    config_free_words(words, n);
    return rc;
}

static int load_stream(struct config *config, FILE *from, const char *name, unsigned depth,
                       struct config_error *error)
{
    struct source source = {config, error, name, 0, depth};
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    int rc = 0;
    while (rc == 0 && (errno = 0, len = getline(&line, &cap, from)) >= 0) {
        source.line++;
        rc = len > MAX_LINE ? fail(&source, "", "the line is too long")
                            : run_line(&source, line, (size_t)len);
    }
    if (rc == 0 && ferror(from)) {
        source.line = 0;
        rc = fail(&source, "", strerror(errno != 0 ? errno : EIO));
    }
    free(line);
    return rc;
}

static int load_file(struct config *config, const char *path, unsigned depth,
                     struct config_error *error)
{
    bool input = depth == 0 && strcmp(path, "-") == 0;
    FILE *file = input ? stdin : fopen(path, "re");
    int rc;
    if (file == NULL) {
        struct source source = {config, error, path, 0, depth};
        return fail(&source, "", strerror(errno));
    }
    rc = load_stream(config, file, input ? "standard input" : path, depth, error);
    if (!input) {
        fclose(file);
    }
    return rc;
}

int config_load_stream(struct config *config, FILE *from, const char *name,
                       struct config_error *error)
{
    int rc;
    config->loading = true;
    rc = load_stream(config, from, name, 0, error);
    config->loading = false;
    return rc;
}

int config_load_file(struct config *config, const char *path, struct config_error *error)
{
    int rc;
    config->loading = true;
    rc = load_file(config, path, 0, error);
    config->loading = false;
    return rc;
}

/* `words`: room for all of them. */
static int load_args(const struct source *source, int argc, char **argv, const char **words)
{
    for (int i = 0; i < argc;) {
        char text[sizeof(source->error->text)] = "";
        size_t n = 0, used = 0;
        if (strncmp(argv[i], "--", 2) != 0 || argv[i][2] == '\0') {
            return fail(source, argv[i], "a directive begins with '--'");
        }
        words[n++] = argv[i++] + 2;
        while (i < argc && strncmp(argv[i], "--", 2) != 0) {
            words[n++] = argv[i++];
        }
        for (size_t w = 0; w < n && used < sizeof(text); w++) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, w > 0 ? " %s" : "--%s",
                                     words[w]);
        }
        if (directive(source, words, n, text) != 0) {
            return -1;
        }
    }
    return 0;
}

int config_load_args(struct config *config, int argc, char **argv, struct config_error *error)
{
    struct source source = {config, error, "command line", 0, 0};
    const char **words = calloc((size_t)argc + 1, sizeof(*words));
    int rc;
    if (words == NULL) {
        return fail(&source, "", "out of memory");
    }
    config->loading = true;
    rc = load_args(&source, argc, argv, words);
    config->loading = false;
    free(words);
    return rc;
}
