/*
 * keyspace_fixture.h - for unit tests: a keyspace over a store of its own, in a temporary
 * directory.
 *
 * Threads: one test at a time. A failing step fails the test.
 */
#ifndef PANDO_TESTS_SUPPORT_KEYSPACE_FIXTURE_H
#define PANDO_TESTS_SUPPORT_KEYSPACE_FIXTURE_H

#include "server/keyspace/keyspace.h"

struct fixture {
    char dir[64];
    struct ps_store *store;
    struct keyspace *ks;
    struct ps_txn *txn;       /* open between fixture_begin() and fixture_commit() */
    const struct ps_vfs *vfs; /* for the next fixture_reopen(); NULL: the operating system */
};

/* cmocka's setup and teardown: *state is the fixture. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* Closes and opens the store again, as a restart does. */
void fixture_reopen(struct fixture *f);

/* One write transaction; fixture_view() is its view while it is open. */
void fixture_begin(struct fixture *f);
void fixture_commit(struct fixture *f);
struct ps_view *fixture_view(struct fixture *f);

/* Within a transaction: stores a string (expire_ms 0: none) and returns its version; removes a key.
 */
uint64_t fixture_put(struct fixture *f, unsigned db, const char *key, const char *value,
                     int64_t expire_ms, int64_t now_ms);
void fixture_delete(struct fixture *f, unsigned db, const char *key, int64_t now_ms);

/* Within a transaction: what is under a key. */
struct key_entry fixture_find(struct fixture *f, unsigned db, const char *key, int64_t now_ms);

/* Within a transaction: the rows of a database's expiry index as "time:key time:key". */
void fixture_index(struct fixture *f, unsigned db, char *text, size_t size);

/* Within a transaction, for every database: each record with an expiry has exactly its row in the
 * index, and there is no other row. */
void fixture_check_index(struct fixture *f);

/* Within a transaction, for every database: each row of `elements` belongs to a string in chunks,
 * within its length, or its object is filed as garbage; and nothing is both. Returns the rows. */
uint64_t fixture_check_rows(struct fixture *f);
/* Objects filed as garbage. */
uint64_t fixture_garbage(struct fixture *f);

#endif
