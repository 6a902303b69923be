/*
 * What a restarted server holds, compared with what it may hold.
 */
#ifndef TESTS_CRASH_VERIFY_H
#define TESTS_CRASH_VERIFY_H

#include "tests/crash/client.h"

/* What a client's database may hold: the model it had, then some prefix of the load. */
struct history {
    struct model model;
    struct load load;
    uint64_t promised; /* operations of the load that must be there */
    /* out: the database equals the model after any number of operations in [lowest, highest] */
    uint64_t lowest, highest;
};

/* Compares all clients' databases and the sums: 0, or -1 after printing what is wrong. On success
 * the models are what the server holds. */
int verify_all(int port, struct history histories[CLIENTS]);

#endif
