/*
 * saved.c - see saved.h.
 */
#include "tests/powerloss/saved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[16] = "powerloss 1";

static bool put(FILE *file, const void *bytes, size_t len)
{
    return len == 0 || fwrite(bytes, len, 1, file) == 1;
}

static bool get(FILE *file, void *bytes, size_t len)
{
    return len == 0 || fread(bytes, len, 1, file) == 1;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

static bool put_line(FILE *file, const struct line *line)
{
    bool good = put(file, line, sizeof *line);
    for (size_t i = 0; good && i < line->n; i++)
        good = put(file, line->at[i], sizeof(struct state));
    return good;
}

static bool put_image(FILE *file, const struct files *image)
{
    bool good = put(file, image, sizeof *image);
    for (size_t i = 0; good && i < image->n; i++)
        good = put(file, &image->at[i], sizeof image->at[i]) &&
               put(file, image->at[i].bytes, image->at[i].len);
    return good;
}

static bool put_events(FILE *file, const struct journal *journal)
{
    bool good = put(file, journal, sizeof *journal);
    for (size_t i = 0; good && i < journal->n; i++) {
        const struct event *e = &journal->at[i];
        good = put(file, e, sizeof *e) && put(file, e->bytes, e->bytes ? e->len : 0) &&
               (!e->state || put(file, e->state, sizeof *e->state));
    }
    return good;
}

bool saved_write(const struct saved *saved, const char *path)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return false;
    bool good = put(file, magic, sizeof magic) && put(file, &saved->config, sizeof saved->config) &&
                put_line(file, &saved->line) && put_events(file, &saved->journal) &&
                put_image(file, &saved->journal.base);
    return fclose(file) == 0 && good;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static const struct state *get_state(FILE *file, struct states *states, bool *good)
{
    struct state state;
    *good = *good && get(file, &state, sizeof state);
    return *good ? states_keep(states, &state) : NULL;
}

static bool get_line(FILE *file, struct line *line, struct states *states)
{
    struct line read;
    bool good = get(file, &read, sizeof read);
    *line = (struct line){0};
    for (size_t i = 0; good && i < read.n; i++) {
        const struct state *state = get_state(file, states, &good);
        if (state)
            line_add(line, state);
    }
    line->promised = read.promised;
    line->served = read.served;
    return good;
}

static bool get_image(FILE *file, struct files *image)
{
    struct files read;
    bool good = get(file, &read, sizeof read);
    *image = (struct files){.exists = read.exists};
    for (size_t i = 0; good && i < read.n; i++) {
        struct named_file one;
        good = get(file, &one, sizeof one);
        if (good) {
            struct named_file *made = files_add(image, one.name, one.len);
            good = get(file, made->bytes, one.len);
        }
    }
    return good;
}

static bool get_events(FILE *file, struct journal *journal, struct states *states)
{
    struct journal read;
    bool good = get(file, &read, sizeof read);
    *journal = (struct journal){.files = read.files};
    for (size_t i = 0; good && i < read.n; i++) {
        struct event one;
        good = get(file, &one, sizeof one);
        if (!good)
            break;
        struct event *event = journal_add(journal, one.kind, one.file, one.offset);
        memcpy(event->name, one.name, sizeof one.name);
        memcpy(event->to, one.to, sizeof one.to);
        if (one.bytes) {
            event->len = one.len;
            event->bytes = malloc(one.len);
            good = event->bytes && get(file, event->bytes, one.len);
        }
        if (one.state)
            event->state = get_state(file, states, &good);
    }
    return good;
}

bool saved_read(struct saved *saved, struct states *states, const char *path)
{
    char first[sizeof magic];
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    *saved = (struct saved){0};
    bool good = get(file, first, sizeof first) && memcmp(first, magic, sizeof magic) == 0 &&
                get(file, &saved->config, sizeof saved->config) &&
                get_line(file, &saved->line, states) && get_events(file, &saved->journal, states) &&
                get_image(file, &saved->journal.base);
    fclose(file);
    return good;
}
