/*
 * manual.c - the table printed: as conf/pando.conf, as docs/configuration.md, as lines for tests.
 *
 * Threads: any.
 */
#include "server/config/config_private.h"

#include <string.h>

static void write_comment(FILE *to, const char *text)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        fprintf(to, "# %.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

static bool is_effective(const struct config_row *row)
{
    return !(row->flags & (CONFIG_NOOP | CONFIG_REFUSED));
}

static const char *written(const char *value)
{
    return value[0] == '\0' ? "\"\"" : value;
}

void config_write_reference(FILE *to)
{
    fprintf(to,
            "# pando.conf - settings of pandod, with their defaults.\n"
            "#\n"
            "# One directive a line; '#' begins a comment; words with blanks stand in quotes;\n"
            "# sizes take k, m, g (powers of 1000) and kb, mb, gb (of 1024). `include FILE` reads\n"
            "# another file (patterns are expanded) at that place; the last value counts. Each\n"
            "# directive can stand on the command line: pandod pando.conf --port 7000\n"
            "#\n"
            "# Directives of Redis that are not here are accepted without effect or refused:\n"
            "# docs/configuration.md says which, and why.\n");
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = config_row(id);
        if (!is_effective(row) || (row->flags & CONFIG_HIDDEN)) {
            continue;
        }
        fputc('\n', to);
        write_comment(to, row->doc);
        fprintf(to, "# %s %s\n", row->name, written(row->value));
    }
}

static void write_type(FILE *to, const struct config_row *row)
{
    switch (row->type) {
    case CONFIG_BOOL:
        fprintf(to, "`yes`, `no`");
        break;
    case CONFIG_INT:
        fprintf(to, "%lld to %lld", (long long)row->min, (long long)row->max);
        break;
    case CONFIG_OCTAL:
        fprintf(to, "octal, to %llo", (unsigned long long)row->max);
        break;
    case CONFIG_MEMORY:
    case CONFIG_PERCENT:
        fprintf(to, "a size");
        if (row->min > 0) {
            fprintf(to, ", from %lld", (long long)row->min);
        }
        if (row->max < INT64_MAX / 2) {
            fprintf(to, ", to %lld", (long long)row->max);
        }
        break;
    case CONFIG_ENUM:
        for (int i = 0; row->names[i] != NULL; i++) {
            fprintf(to, "%s`%s`", i > 0 ? ", " : "", row->names[i]);
        }
        break;
    case CONFIG_STRING:
        fprintf(to, "a word");
        break;
    case CONFIG_WORDS:
        fprintf(to, "words");
        break;
    }
}

/* The text in one line, fit for a cell of a table. */
static void write_flowing(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        fputs(*text == '\n' ? " " : *text == '|' ? "\\|" : (char[2]){*text, '\0'}, to);
    }
}

static void write_effective(FILE *to)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = config_row(id);
        if (!is_effective(row) || (row->flags & CONFIG_HIDDEN)) {
            continue;
        }
        fprintf(to, "### %s\n\n", row->name);
        for (const char *p = row->doc; *p != '\0';) {
            size_t n = strcspn(p, "\n");
            fprintf(to, "    %.*s\n", (int)n, p);
            p += n + (p[n] == '\n');
        }
        fprintf(to, "\nValues: ");
        write_type(to, row);
        fprintf(to, ". Default: `%s`. ", written(row->value));
        fputs(row->flags & (CONFIG_IMMUTABLE | CONFIG_PROTECTED) ? "Set at start only."
                                                                 : "CONFIG SET changes it at once.",
              to);
        fprintf(to, " Shown by `%s`.\n\n", row->test);
    }
}

static void write_class(FILE *to, unsigned flag)
{
    fprintf(to, "| directive | default | why |\n|---|---|---|\n");
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = config_row(id);
        if (!(row->flags & flag)) {
            continue;
        }
        fprintf(to, "| %s |", row->name);
        if (row->flags & CONFIG_FILE_ONLY) {
            fprintf(to, " (in files only) | ");
        } else {
            fprintf(to, " `%s` | ", written(row->value));
        }
        if (row->alias != NULL) {
            fprintf(to, "Another name for %s.", row->alias);
        } else {
            write_flowing(to, row->doc);
        }
        fprintf(to, " |\n");
    }
}

static unsigned count(unsigned any_of, unsigned none_of)
{
    unsigned n = 0;
    for (int id = 0; id < CONFIG_COUNT; id++) {
        unsigned flags = config_row(id)->flags;
        n += (any_of == 0 || (flags & any_of)) && !(flags & none_of);
    }
    return n;
}

void config_write_manual(FILE *to)
{
    fprintf(
        to,
        "# Configuration\n\n"
        "Written by `pandod --print-config-manual` from the one table of directives "
        "(`server/config/`);\na test compares the two. Do not edit.\n\n"
        "    pandod [FILE|-] [--directive value ...] [-]   a file, standard input, options; the "
        "last value counts\n"
        "    pandod --check-config FILE                    reads it and says what is wrong: "
        "FILE:LINE: 'text': reason\n"
        "    pandod --print-config                         all effective directives as a file\n\n"
        "The syntax is redis.conf's. `include FILE` reads another file in its place, patterns are "
        "expanded, one\nwithin the other at most 16 deep. Every directive that Redis 7.0 knows is "
        "of one of three classes;\nany other is an error.\n\n");
    fprintf(
        to,
        "- **Effective** (%u): does what is said here. CONFIG SET changes all of its pairs or "
        "none.\n"
        "- **No-op** (%u): has nothing to act on here. It is checked as Redis checks it, kept, "
        "shown by CONFIG GET,\n  written by CONFIG REWRITE; the first time it is given, a warning "
        "says so.\n"
        "- **Refused** (%u): to accept it would deceive. Any value but the default is an error "
        "that "
        "says why.\n\n",
        count(0, CONFIG_NOOP | CONFIG_REFUSED | CONFIG_HIDDEN), count(CONFIG_NOOP, 0),
        count(CONFIG_REFUSED, 0));
    fprintf(
        to,
        "CONFIG REWRITE changes lines in place where a value is another one by now, and appends "
        "what "
        "the file does\nnot mention under `# Generated by CONFIG REWRITE`; included files are not "
        "touched. The file is replaced by\nrenaming a synced new one over it; where that cannot be "
        "(a file that is a mount point, a directory that\nis not writable), it is overwritten: "
        "killing the process then leaves the old or the new text, but a power\nfailure in that "
        "moment may leave a mixture of both.\n\n## Effective\n\n");
    write_effective(to);
    fprintf(to, "## No-op\n\n");
    write_class(to, CONFIG_NOOP);
    fprintf(to, "\n## Refused\n\n");
    write_class(to, CONFIG_REFUSED);
}

void config_write_table(FILE *to)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = config_row(id);
        fprintf(to, "%s\t%s\t", row->name, config_class(row));
        write_flowing(to, row->test != NULL ? row->test : row->doc);
        fputc('\n', to);
    }
}
