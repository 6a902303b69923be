/*
 * merge.h - operators that make a new value of the one that is there and an operand.
 *
 * A tree has its operator by name. In a process a name has a number, so that a state keeps a byte:
 * the table of a store begins with the operators that are built in, those that the program
 * registers and names that only files have are added as they come, none ever goes. What is logged
 * is the result: replaying needs no operator.
 *
 *  X1 An entry of the table is whole before it counts (under mu); its function is set once, with
 *     release, after its argument.
 *
 * Threads: the table any; merging the transaction's.
 */
#ifndef PANDO_STORAGE_MERGE_H
#define PANDO_STORAGE_MERGE_H

#include "storage/store.h"

struct merge_operator {
    char name[PS_MAX_MERGE_NAME + 1];
    _Atomic(ps_merge_fn) fn; /* NULL: nobody has registered it */
    void *arg;
};

/* A table with what is built in; NULL: no memory. */
struct merge_operator *merge_table(void);
/* Whether it is made of what can be printed, without spaces. */
bool merge_is_name(const char *name, size_t len);
/* The number of a name, made if need be; 0 for "". PS_LIMIT: the table is full. */
int merge_number(struct ps_store *store, const char *name, uint8_t *number);
void merge_name(struct ps_store *store, uint8_t number, char name[PS_MAX_MERGE_NAME + 1]);

/* A result in the making (ps_merged_room). */
struct ps_merged {
    uint8_t small[64];
    uint8_t *large; /* or NULL */
    const uint8_t *at;
    size_t len;
};

/* merge_builtin.c */
struct merge_builtin {
    const char *name;
    ps_merge_fn fn;
};
extern const struct merge_builtin merge_builtins[];
extern const unsigned merge_nbuiltins;

#endif
