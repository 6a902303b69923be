/*
 * dispatch_check.h - for fuzz_dispatch: what must hold for the data whatever was sent.
 */
#ifndef PANDO_TESTS_FUZZ_DISPATCH_CHECK_H
#define PANDO_TESTS_FUZZ_DISPATCH_CHECK_H

#include "tests/fuzz/dispatch_server.h"

/* For each database: as many keys are counted (DBSIZE) as KEYS and a whole SCAN find, in order and
 * without doubles; and the expiry index has a row for each key that expires, and no other. */
void check_databases(struct server *server);

/* Closes and opens the store: every key has the type, encoding, expiry and value it had, and the
 * structure of the file is right. */
void check_reopening(struct server *server, bool checkpoint);

#endif
