/*
 * journal.h - everything that a store did to its files, in order, and what it promised meanwhile.
 *
 * A journal begins with the files of a device (its base: none for a new store) and is enough to
 * make any image that a loss of power within it could leave, without running the engine again.
 *
 * Invariants:
 *  1. What a call did to the files and its event are one step: nobody's other event is between.
 *  2. A commit's event comes before anything of it can be complete in the files; a promise's event
 *     after what was promised was true.
 *  3. Files are numbered and a number is never used again; names come and go.
 *
 * Threads: the recorder serialises all appending; reading when nobody appends.
 */
#ifndef PANDO_TESTS_POWERLOSS_JOURNAL_H
#define PANDO_TESTS_POWERLOSS_JOURNAL_H

#include "tests/powerloss/files.h"
#include "tests/powerloss/state.h"

enum event_kind {
    EV_WRITE,       /* bytes at offset; extends the file */
    EV_SIZE,        /* the file reaches to offset at least (fallocate) */
    EV_CUT,         /* the file ends at offset */
    EV_SYNC,        /* what was done to the file before is on the device */
    EV_SYNC_FAILED, /* it is not, and the system takes it for clean */
    EV_ADD,         /* name: a new, empty file */
    EV_REMOVE,      /* name */
    EV_RENAME,      /* name to `to` */
    EV_SYNC_DIR,    /* names before are on the device */
    EV_MAKE_DIR,    /* the directory itself */
    EV_SYNC_PARENT, /* its name is on the device */
    EV_COMMIT,      /* sequence (offset) may be found from now on: its state */
    EV_PROMISE,     /* sequence must be found from now on */
    EV_DROPPED,     /* everything after this sequence was said to be gone */
    EV_SERVED,      /* opened, and this sequence was read: everything after it is gone */
    EV_KINDS
};

struct event {
    enum event_kind kind;
    uint32_t file;
    uint64_t offset; /* of a write; a size; a sequence */
    size_t len;
    unsigned char *bytes;      /* EV_WRITE */
    const struct state *state; /* EV_COMMIT: the journal does not own it */
    char name[FILES_NAME], to[FILES_NAME];
};

struct journal {
    struct files base; /* owned */
    struct event *at;
    size_t n, room;
    uint32_t files; /* numbers given so far: those of the base first */
};

/* Takes the image over. */
void journal_init(struct journal *journal, struct files *base);
void journal_free(struct journal *journal);
/* The new event, for the rest to be filled in; good until the next call. */
struct event *journal_add(struct journal *journal, enum event_kind kind, uint32_t file,
                          uint64_t offset);
/* Prints events [from, to), one a line. */
void journal_print(const struct journal *journal, size_t from, size_t to);
bool event_is_sync(const struct event *event);
/* A promise, or word of a state: nothing of the files. */
bool event_is_word(const struct event *event);

#endif
