/*
 * Versions: never the same one twice, whatever becomes of transactions and processes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/keyspace/internal.h"
#include "tests/support/keyspace_fixture.h"

#define BLOCK 65536u

static uint64_t put(struct fixture *f)
{
    return fixture_put(f, 0, "key", "value", 0, 1);
}

/* The ceiling the store holds; 0: none. */
static uint64_t ceiling(struct fixture *f)
{
    struct ps_slice value;
    uint64_t number = 0;

    if (ps_get(fixture_view(f), f->ks->counters, (struct ps_slice){"version", 7}, &value) != 0)
        return 0;
    for (size_t i = 0; i < 8; i++)
        number = number << 8 | ((const uint8_t *)value.data)[i];
    return number;
}

static void every_modification_takes_the_next_version(void **state)
{
    struct fixture *f = *state;

    fixture_begin(f);
    uint64_t first = put(f);
    assert_true(put(f) == first + 1);
    fixture_delete(f, 0, "key", 1);
    assert_true(put(f) == first + 3);
    fixture_commit(f);
    fixture_begin(f);
    assert_true(put(f) == first + 4);
    assert_true(fixture_find(f, 0, "key", 1).record.version == first + 4);
    fixture_commit(f);
}

static void the_ceiling_is_written_once_in_a_block(void **state)
{
    struct fixture *f = *state;
    uint64_t changes = 0, last = 0;

    for (unsigned i = 0; i < 300; i++) {
        fixture_begin(f);
        for (unsigned j = 0; j < 500; j++) {
            uint64_t version = put(f);
            uint64_t now = ceiling(f);
            assert_true(version <= now);
            changes += now != last;
            last = now;
        }
        fixture_commit(f);
    }
    assert_true(changes <= 150000 / BLOCK + 1);
}

static void a_restart_goes_on_above_every_version_used(void **state)
{
    struct fixture *f = *state;
    uint64_t last = 0;

    for (unsigned i = 0; i < 5; i++) {
        fixture_begin(f);
        for (unsigned j = 0; j < 10; j++) {
            uint64_t version = put(f);
            assert_true(version > last);
            last = version;
        }
        fixture_commit(f);
        fixture_reopen(f);
    }
}

static void an_aborted_transaction_takes_no_ceiling_with_it(void **state)
{
    struct fixture *f = *state;

    fixture_begin(f);
    uint64_t aborted = put(f);
    assert_true(ceiling(f) >= aborted);
    ps_abort(f->txn);
    f->txn = NULL;
    fixture_begin(f);
    assert_true(ceiling(f) < aborted);
    uint64_t version = put(f);
    assert_true(version > aborted);
    assert_true(ceiling(f) >= version);
    fixture_commit(f);
    fixture_reopen(f);
    fixture_begin(f);
    assert_true(put(f) > version);
    fixture_commit(f);
}

static void a_rolled_back_savepoint_takes_no_ceiling_with_it(void **state)
{
    struct fixture *f = *state;

    fixture_begin(f);
    assert_int_equal(ps_savepoint(f->txn), 0);
    uint64_t undone = put(f);
    assert_int_equal(ps_savepoint_rollback(f->txn), 0);
    assert_true(ceiling(f) < undone);
    uint64_t version = put(f);
    assert_true(version > undone && ceiling(f) >= version);
    fixture_commit(f);
    fixture_begin(f);
    put(f);
    assert_int_equal(ps_savepoint(f->txn), 0);
    put(f);
    assert_int_equal(ps_savepoint_rollback(f->txn), 0);
    version = put(f);
    assert_true(ceiling(f) >= version);
    fixture_commit(f);
}

static void deletions_write_no_ceiling(void **state)
{
    struct fixture *f = *state;

    fixture_begin(f);
    put(f);
    fixture_commit(f);
    fixture_begin(f);
    uint64_t before = ceiling(f);
    f->ks->version.last = before; /* the block is used up */
    fixture_delete(f, 0, "key", 1);
    assert_true(ceiling(f) == before);
    assert_true(put(f) == before + 2);
    assert_true(ceiling(f) >= before + 2);
    fixture_commit(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_modification_takes_the_next_version),
        TEST(the_ceiling_is_written_once_in_a_block),
        TEST(a_restart_goes_on_above_every_version_used),
        TEST(an_aborted_transaction_takes_no_ceiling_with_it),
        TEST(a_rolled_back_savepoint_takes_no_ceiling_with_it),
        TEST(deletions_write_no_ceiling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
