/*
 * Operations as a function of (seed, client, number), their bytes, and what they do to a model.
 *
 * Invariants:
 *  1. op_make depends on its arguments alone: the same numbers give the same operation.
 *  2. Every operation is atomic for the server: one command, or one MULTI ... EXEC.
 *  3. A model holds what one client's database must hold, and the client's own counter.
 */
#ifndef TESTS_CRASH_WORKLOAD_H
#define TESTS_CRASH_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENTS     6
#define KEYS        64 /* keys of one client, in the database of its number */
#define TEXTS       60 /* the first so many hold text, the others integers */
#define MAX_TOUCHED 4  /* keys one operation names */
#define COUNTER_DB  14 /* own:N, the client's counter */
#define SHARED_DB   15 /* shared, the sum of all counters */

struct buffer {
    char *data;
    size_t length;
    size_t capacity;
};

void buffer_append(struct buffer *buffer, const void *data, size_t length);
void buffer_free(struct buffer *buffer);

/* A command in RESP: its words, each with a length. */
void buffer_command(struct buffer *buffer, int count, ...);

enum op_kind {
    OP_SET,
    OP_DEL,
    OP_SETRANGE,
    OP_APPEND,
    OP_MSET,
    OP_INCR,
    OP_RENAME,
    OP_EXEC_SET,
    OP_EXEC_SUM,
    OP_FLUSH,
};

struct op {
    enum op_kind kind;
    int client;
    uint64_t number;
    int keys[MAX_TOUCHED];
    int key_count;
    uint32_t length; /* of the value */
    int64_t amount;
};

struct value {
    bool exists;
    char *data;
    size_t length;
};

struct model {
    struct value values[KEYS];
    int64_t counter;
};

void op_make(struct op *op, uint64_t seed, int client, uint64_t number);
void op_encode(const struct op *op, struct buffer *out);
/* Replies the server gives to the operation. */
int op_replies(const struct op *op);
void op_apply(const struct op *op, struct model *model);
/* The value operation `op` writes to its i-th key; freed by the caller. */
char *op_value(const struct op *op, int i);

int model_size(const struct model *model);
void model_clear(struct model *model);
void key_name(int key, char out[16]);

/* A small generator (splitmix64): state in, number out. */
uint64_t random_next(uint64_t *state);

#endif
