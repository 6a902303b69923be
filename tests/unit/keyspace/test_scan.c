/*
 * Scan positions: what a cursor promises while the table has room, and when it has none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/keyspace/scan.h"

#define KEY(text) ((struct ps_slice){text, strlen(text)})

static struct scan_table *make(size_t entries, size_t bytes)
{
    struct scan_table *table;

    assert_int_equal(scan_table_new(entries, bytes, &table), 0);
    return table;
}

static bool remembers(struct scan_table *table, unsigned db, uint64_t cursor, const char *expected)
{
    char *key;
    size_t len;
    int rc = scan_load(table, db, cursor, &key, &len);

    if (rc == PS_NOTFOUND)
        return false;
    assert_int_equal(rc, 0);
    assert_int_equal(len, strlen(expected));
    assert_memory_equal(key, expected, len);
    free(key);
    return true;
}

static void a_cursor_leads_back_to_its_key(void **state)
{
    (void)state;
    struct scan_table *table = make(4, 1000);
    uint64_t a = scan_save(table, 0, 10, KEY("apple"), 0);
    uint64_t b = scan_save(table, 0, 10, KEY("berry"), 0);

    assert_true(a != b && a != 0 && b != 0);
    assert_true(remembers(table, 0, a, "apple"));
    assert_true(remembers(table, 0, b, "berry"));
    assert_int_equal(scan_rank(a), 10);
    scan_table_free(table);
}

static void cursors_stay_below_two_to_the_53(void **state)
{
    (void)state;
    struct scan_table *table = make(1, 1000);

    for (unsigned i = 0; i < 2 * SCAN_MAX_TAG; i++) {
        uint64_t cursor = scan_save(table, 0, UINT64_MAX, KEY("k"), 0);
        assert_true(cursor < UINT64_C(1) << 53);
        assert_true(remembers(table, 0, cursor, "k"));
    }
    scan_table_free(table);
}

static void a_cursor_of_another_database_or_rank_is_unknown(void **state)
{
    (void)state;
    struct scan_table *table = make(4, 1000);
    uint64_t a = scan_save(table, 1, 10, KEY("apple"), 0);

    assert_false(remembers(table, 2, a, "apple"));
    assert_false(remembers(table, 1, a + 1, "apple"));
    assert_false(remembers(table, 1, 10, "apple"));
    assert_false(remembers(table, 1, UINT64_MAX, "apple"));
    assert_true(remembers(table, 1, a, "apple"));
    scan_table_free(table);
}

static void a_step_may_be_repeated(void **state)
{
    (void)state;
    struct scan_table *table = make(8, 1000);
    uint64_t a = scan_save(table, 0, 10, KEY("a"), 0);
    uint64_t b = scan_save(table, 0, 20, KEY("b"), a);
    uint64_t b2 = scan_save(table, 0, 20, KEY("b"), a); /* the reply with b was lost */

    assert_true(remembers(table, 0, a, "a"));
    assert_true(remembers(table, 0, b, "b"));
    assert_true(remembers(table, 0, b2, "b"));
    scan_table_free(table);
}

static void a_scan_holds_two_entries_at_most(void **state)
{
    (void)state;
    struct scan_table *table = make(3, 1000);
    uint64_t slow = scan_save(table, 0, 5, KEY("slow"), 0);
    uint64_t before = 0, cursor = 0;

    for (unsigned i = 1; i <= 100000; i++) {
        uint64_t next = scan_save(table, 0, i, KEY("fast"), cursor);
        if (before != 0)
            assert_false(remembers(table, 0, before, "fast"));
        before = cursor;
        cursor = next;
    }
    assert_true(remembers(table, 0, slow, "slow")); /* a fast scan does not push a slow one out */
    assert_true(remembers(table, 0, cursor, "fast"));
    scan_table_free(table);
}

static void the_entry_unused_for_the_longest_time_goes_first(void **state)
{
    (void)state;
    struct scan_table *table = make(3, 1000);
    uint64_t a = scan_save(table, 0, 1, KEY("a"), 0);
    uint64_t b = scan_save(table, 0, 2, KEY("b"), 0);
    uint64_t c = scan_save(table, 0, 3, KEY("c"), 0);

    assert_true(remembers(table, 0, a, "a")); /* b is the oldest now */
    uint64_t d = scan_save(table, 0, 4, KEY("d"), 0);
    assert_false(remembers(table, 0, b, "b"));
    assert_true(remembers(table, 0, a, "a"));
    assert_true(remembers(table, 0, c, "c"));
    assert_true(remembers(table, 0, d, "d"));
    scan_table_free(table);
}

static void keys_take_no_more_memory_than_allowed(void **state)
{
    (void)state;
    struct scan_table *table = make(100, 30);
    uint64_t a = scan_save(table, 0, 1, KEY("0123456789"), 0);
    uint64_t b = scan_save(table, 0, 2, KEY("abcdefghij"), 0);
    uint64_t c = scan_save(table, 0, 3, KEY("ABCDEFGHIJK"), 0);
    uint64_t d = scan_save(table, 0, 4, KEY("longer than all that may be held"), 0);

    assert_false(remembers(table, 0, a, "0123456789"));
    assert_true(remembers(table, 0, b, "abcdefghij"));
    assert_true(remembers(table, 0, c, "ABCDEFGHIJK"));
    assert_int_equal(d, 4); /* a rank alone */
    scan_table_free(table);
}

static void the_predecessor_may_be_the_entry_that_goes(void **state)
{
    (void)state;
    struct scan_table *table = make(1, 1000);
    uint64_t a = scan_save(table, 0, 1, KEY("a"), 0);
    uint64_t b = scan_save(table, 0, 2, KEY("b"), a);
    uint64_t c = scan_save(table, 0, 3, KEY("c"), b);

    assert_false(remembers(table, 0, a, "a"));
    assert_false(remembers(table, 0, b, "b"));
    assert_true(remembers(table, 0, c, "c"));
    scan_table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_leads_back_to_its_key),
        cmocka_unit_test(cursors_stay_below_two_to_the_53),
        cmocka_unit_test(a_cursor_of_another_database_or_rank_is_unknown),
        cmocka_unit_test(a_step_may_be_repeated),
        cmocka_unit_test(a_scan_holds_two_entries_at_most),
        cmocka_unit_test(the_entry_unused_for_the_longest_time_goes_first),
        cmocka_unit_test(keys_take_no_more_memory_than_allowed),
        cmocka_unit_test(the_predecessor_may_be_the_entry_that_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
