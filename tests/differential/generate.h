/* Between the parts of the generator: the command table, the argument tokens, the grammar. */
#ifndef TESTS_DIFFERENTIAL_GENERATE_H
#define TESTS_DIFFERENTIAL_GENERATE_H

#include "tests/differential/sequence.h"

#define MAX_ARGS    64
#define MAX_KEYS    8
#define LONG_BUDGET 1500000

enum rule_flags {
    RULE_INTACT =
        1, /* never broken on purpose: the broken form could do harm or race with a clock */
    RULE_ENDS_BATCH = 2,
    RULE_CLOSES = 4,
    RULE_THEN_KEYS = 8, /* followed by KEYS * in the same step */
    RULE_AUTH = 16,     /* more often in sequences with a password */
    RULE_CONFIG = 32,   /* changes the configuration: restored after the sequence */
    RULE_NOT_IN_MULTI = 64,
    RULE_RARE = 128, /* an eighth of its weight: it costs milliseconds */
};

/* One line of the command table (table.c). */
struct rule {
    unsigned weight;
    const char *grammar;
    enum cmp_mode mode;
    unsigned flags;
    enum step_kind kind;
};

extern const struct rule rule_table[];
extern const size_t rule_table_size;

/* The state of one generation. */
struct generator {
    struct sequence *sequence;
    uint64_t rng;
    struct arg keys[MAX_KEYS];
    size_t nkeys;
    size_t budget;            /* bytes of values left in this sequence */
    unsigned relative_serial; /* relative expiries handed out */
    unsigned relative_offset;
    bool in_multi[MAX_CLIENTS];
    bool with_password;
    bool long_strings; /* values of up to LONG_BUDGET bytes */
    bool deep;         /* one client, one pipeline of more than a thousand commands */
    bool kills;        /* a connection may have been ended */
    int client;        /* whose step is being made */
    /* the call being made */
    struct arg argv[MAX_ARGS];
    size_t argc;
    bool has_expiry; /* an expiry is among the arguments */
    bool has_past;   /* it is an absolute time in the past */
};

uint64_t rng_next(struct generator *gen);
/* 0 <= result < bound */
size_t rng_below(struct generator *gen, size_t bound);
bool rng_percent(struct generator *gen, unsigned percent);

void gen_arg(struct generator *gen, const void *data, size_t len);
void gen_arg_text(struct generator *gen, const char *text);

/* Appends the arguments of token <name> (token.c); asserts that the name exists. */
void token_expand(struct generator *gen, const char *name, size_t len);
/* Chooses the key space of the sequence. */
void token_choose_keys(struct generator *gen);
/* Appends something that is no number, to break a command with. */
void token_junk(struct generator *gen);

/* Expands a grammar into gen->argv (grammar.c). */
void grammar_expand(struct generator *gen, const char *grammar);

/* Makes the bytes of a throw-away connection (malformed.c). */
void malformed_make(struct generator *gen, struct step *step);

#endif
