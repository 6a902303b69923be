/*
 * test_regime.c - when reads are kept off the I/O threads: the rule, without a clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/exec/regime.h"

static const struct regime_counters start = {
    .file_bytes = 600,
    .memory_limit = 1000,
    .refaults_known = true,
    .refaults = 77,
    .major_faults = 88,
    .now_ms = 1000,
};

static void it_goes_on_with_the_first_refault(void **state)
{
    (void)state;
    struct regime_watch watch = {0};
    struct regime_counters c = start;
    assert_false(regime_judge(&watch, &c));
    c.now_ms += 1000;
    assert_false(regime_judge(&watch, &c));
    c.refaults++;
    assert_true(regime_judge(&watch, &c));
    assert_int_equal(watch.refaults, 1);
    assert_int_equal(watch.major_faults, 0);
}

static void it_goes_on_with_the_first_major_fault(void **state)
{
    (void)state;
    struct regime_watch watch = {0};
    struct regime_counters c = start;
    c.refaults_known = false;
    assert_false(regime_judge(&watch, &c));
    c.major_faults += 2;
    c.now_ms += 1000;
    assert_true(regime_judge(&watch, &c));
    assert_int_equal(watch.major_faults, 2);
}

static void it_goes_off_after_a_while_without(void **state)
{
    (void)state;
    struct regime_watch watch = {0};
    struct regime_counters c = start;
    regime_judge(&watch, &c);
    c.refaults++;
    assert_true(regime_judge(&watch, &c));
    c.now_ms += REGIME_QUIET_MS - 1;
    assert_true(regime_judge(&watch, &c));
    c.refaults++;
    assert_true(regime_judge(&watch, &c));
    c.now_ms += REGIME_QUIET_MS;
    assert_false(regime_judge(&watch, &c));
    c.refaults++;
    assert_true(regime_judge(&watch, &c));
}

static void it_is_off_while_half_the_memory_holds_the_file(void **state)
{
    (void)state;
    struct regime_watch watch = {0};
    struct regime_counters c = start;
    c.file_bytes = 500;
    regime_judge(&watch, &c);
    c.refaults++;
    c.major_faults++;
    assert_false(regime_judge(&watch, &c));
    c.file_bytes = 501;
    assert_false(regime_judge(&watch, &c));
    c.refaults++;
    assert_true(regime_judge(&watch, &c));
    c.file_bytes = 500;
    assert_false(regime_judge(&watch, &c));
}

static void refaults_from_before_it_looked_are_none(void **state)
{
    (void)state;
    struct regime_watch watch = {0};
    struct regime_counters c = start;
    c.refaults_known = false;
    c.refaults = 0;
    regime_judge(&watch, &c);
    c = start;
    c.refaults = 5000;
    assert_false(regime_judge(&watch, &c));
    assert_int_equal(watch.refaults, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_on_with_the_first_refault),
        cmocka_unit_test(it_goes_on_with_the_first_major_fault),
        cmocka_unit_test(it_goes_off_after_a_while_without),
        cmocka_unit_test(it_is_off_while_half_the_memory_holds_the_file),
        cmocka_unit_test(refaults_from_before_it_looked_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
