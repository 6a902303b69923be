/*
 * Counters: sums over threads, resets, rates.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/observe/metrics.h"

static void the_sum_is_over_all_threads_since_the_last_reset(void **state)
{
    struct metrics *metrics = metrics_new();
    struct metrics_thread *a = metrics_thread(metrics), *b = metrics_thread(metrics), sum;
    (void)state;
    metrics_add(&a->commands, 3);
    metrics_add(&b->commands, 4);
    metrics_add(&b->output_bytes, 100);
    metrics_sum(metrics, &sum);
    assert_int_equal(sum.commands, 7);
    assert_int_equal(sum.output_bytes, 100);
    metrics_reset(metrics);
    metrics_add(&a->commands, 1);
    metrics_sum(metrics, &sum);
    assert_int_equal(sum.commands, 1);
    assert_int_equal(sum.output_bytes, 0);
    metrics_free(metrics);
}

static void rates_are_differences_between_samples(void **state)
{
    struct metrics *metrics = metrics_new();
    struct metrics_thread *thread = metrics_thread(metrics);
    struct metrics_rates rates;
    (void)state;
    metrics_sample(metrics, 1000);
    metrics_add(&thread->commands, 500);
    metrics_add(&thread->input_bytes, 4096);
    metrics_sample(metrics, 3000);
    metrics_rates(metrics, &rates);
    assert_int_equal(rates.commands, 250);
    assert_true(rates.input_kib > 1.99 && rates.input_kib < 2.01);
    metrics_free(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_is_over_all_threads_since_the_last_reset),
        cmocka_unit_test(rates_are_differences_between_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
