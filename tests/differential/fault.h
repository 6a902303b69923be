/* Faults put into the second server's replies, to prove that the driver sees them. See fault.c. */
#ifndef TESTS_DIFFERENTIAL_FAULT_H
#define TESTS_DIFFERENTIAL_FAULT_H

#include "tests/differential/sequence.h"

struct fault {
    const char *name;
    const char *command;                                   /* whose reply it changes */
    bool (*apply)(struct heap *heap, struct reply *reply); /* whether it changed something */
    int signal; /* or: sent to the server at the third sequence */
    const char *what;
};

extern const struct fault fault_table[];
extern const size_t fault_table_size;

/* The fault of that name, or NULL. */
const struct fault *fault_find(const char *name);
/* Applies the fault, if there is one and the call is its. */
void fault_apply(const struct fault *fault, const struct call *call, struct heap *heap,
                 struct reply *reply);

#endif
