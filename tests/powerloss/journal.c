/*
 * journal.c - see journal.h.
 */
#include "tests/powerloss/journal.h"

#include <stdio.h>
#include <stdlib.h>

void journal_init(struct journal *journal, struct files *base)
{
    *journal = (struct journal){.base = *base, .files = (uint32_t)base->n};
    *base = (struct files){0};
}

void journal_free(struct journal *journal)
{
    for (size_t i = 0; i < journal->n; i++)
        free(journal->at[i].bytes);
    free(journal->at);
    files_free(&journal->base);
    *journal = (struct journal){0};
}

struct event *journal_add(struct journal *journal, enum event_kind kind, uint32_t file,
                          uint64_t offset)
{
    if (journal->n == journal->room) {
        journal->room = journal->room * 2 + 256;
        journal->at = realloc(journal->at, journal->room * sizeof *journal->at);
        if (!journal->at)
            abort();
    }
    struct event *event = &journal->at[journal->n++];
    *event = (struct event){.kind = kind, .file = file, .offset = offset};
    return event;
}

void journal_print(const struct journal *journal, size_t from, size_t to)
{
    static const char *const names[EV_KINDS] = {"write",      "size",     "cut",         "sync",
                                                "sync fails", "add",      "remove",      "rename",
                                                "sync dir",   "make dir", "sync parent", "commit",
                                                "promise",    "dropped",  "served"};
    for (size_t i = from; i < to && i < journal->n; i++) {
        const struct event *e = &journal->at[i];
        printf("  %zu %s", i, names[e->kind]);
        if (e->kind <= EV_ADD || e->kind == EV_RENAME)
            printf(" file %u", e->file);
        if (e->kind <= EV_CUT || event_is_word(e))
            printf(" %llu", (unsigned long long)e->offset);
        if (e->kind == EV_WRITE)
            printf("+%zu", e->len);
        printf(" %s %s\n", e->name, e->to);
    }
}

bool event_is_sync(const struct event *event)
{
    return event->kind == EV_SYNC || event->kind == EV_SYNC_DIR || event->kind == EV_SYNC_PARENT;
}

bool event_is_word(const struct event *event)
{
    return event->kind >= EV_COMMIT;
}
