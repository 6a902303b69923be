/*
 * state.h - what a store holds after a commit, in a form that follows from small numbers.
 *
 * A key is a tree and a number, a value a tag and a length: their bytes follow from those, so a
 * state is small, is copied by assignment, and says of every entry of a store whether it is right.
 *
 * Threads: one.
 */
#ifndef PANDO_TESTS_POWERLOSS_STATE_H
#define PANDO_TESTS_POWERLOSS_STATE_H

#include "storage/pandostore.h"

#define STATE_TREES 3
#define STATE_KEYS  192
#define KEY_ROOM    (70u << 10)
#define VALUE_ROOM  (200u << 10)

struct value {
    uint64_t tag; /* never the same twice in a round */
    uint32_t len;
    uint32_t there; /* 0: no such entry */
};

struct state {
    uint64_t seq;
    uint32_t exists[STATE_TREES];
    uint32_t options[STATE_TREES]; /* state_options */
    struct value at[STATE_TREES][STATE_KEYS];
};

/* How keys look. */
enum keys { KEYS_SHORT, KEYS_PREFIX, KEYS_LONG, KEY_SHAPES };

struct ps_slice state_key(enum keys keys, unsigned number, unsigned char buffer[KEY_ROOM]);
struct ps_slice state_value(const struct value *value, unsigned char buffer[VALUE_ROOM]);
struct ps_slice state_tree(unsigned tree);

/* What a tree may have as options; 0: none. All others have the operator STATE_OPERATOR. */
#define STATE_OPTIONS  4
#define STATE_OPERATOR "take-operand"
const struct ps_tree_options *state_options(unsigned options);

/* The states of a round in the order of their making; they live until it ends. */
struct states {
    struct state **at;
    size_t n, room;
};
const struct state *states_keep(struct states *states, const struct state *state);
void states_free(struct states *states);

/* Whether what a view shows is this state: 0, or a sentence about the first difference. */
const char *state_differs(const struct state *state, enum keys keys, struct ps_view *view);

/* The possible outcomes of a crash: one state for each sequence from `first` on, the newest last;
 * and how many of them must be there. */
struct line {
    const struct state **at; /* by sequence - first */
    size_t n, room;
    uint64_t first;
    uint64_t promised; /* sequence that must be found, or a later one */
    bool served;       /* the store's making was acknowledged: it must be there */
};
void line_copy(struct line *to, const struct line *from);
void line_free(struct line *line);
void line_add(struct line *line, const struct state *state);
/* Everything after a sequence is gone. */
void line_cut(struct line *line, uint64_t seq);
/* NULL: no such sequence is possible. */
const struct state *line_find(const struct line *line, uint64_t seq);
uint64_t line_last(const struct line *line);

#endif
