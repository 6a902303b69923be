/*
 * protocol/number.c. Expected texts are those of redis-server 7.0.15 (INCRBY, INCRBYFLOAT, ZADD and
 * ZSCORE with the same arguments).
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/number.h"
#include "protocol/resp.h"

static void integers_are_read_only_in_their_one_form(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"7", 7},
        {"-1", -1},
        {"10", 10},
        {"1000000000000000000", 1000000000000000000},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775807", -INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        int64_t value = 42;
        assert_int_equal(number_to_int(good[i].text, strlen(good[i].text), &value), 0);
        assert_true(value == good[i].value);
    }
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      "-0",
                                      "00",
                                      "01",
                                      "-01",
                                      " 1",
                                      "1 ",
                                      "1x",
                                      "0x1",
                                      "1e3",
                                      "--1",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "9999999999999999999",
                                      "18446744073709551616",
                                      "99999999999999999999",
                                      "-99999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        int64_t value = 42;
        assert_int_equal(number_to_int(bad[i], strlen(bad[i]), &value), RESP_ENUMBER);
        assert_int_equal(value, 42);
    }
    int64_t value;
    assert_int_equal(number_to_int("1\0", 2, &value), RESP_ENUMBER);
    assert_int_equal(number_to_int("123", 2, &value), 0); /* only len bytes are looked at */
    assert_int_equal(value, 12);
}

static void check_int(int64_t value)
{
    char expect[32], got[NUMBER_INT_MAX];
    int n = snprintf(expect, sizeof(expect), "%lld", (long long)value);
    size_t len = number_from_int(value, got);
    assert_int_equal(len, n);
    assert_memory_equal(got, expect, len);
    int64_t back;
    assert_int_equal(number_to_int(got, len, &back), 0);
    assert_true(back == value);
    if (value >= 0)
        assert_int_equal(number_digits((uint64_t)value), len);
}

static void integers_are_written_as_printf_writes_them(void **state)
{
    (void)state;
    for (int64_t v = -11000; v <= 11000; v++)
        check_int(v);
    for (uint64_t power = 1; power <= (uint64_t)INT64_MAX / 10; power *= 10) {
        for (int64_t d = -2; d <= 2; d++) {
            check_int((int64_t)power + d);
            check_int(-(int64_t)power + d);
        }
    }
    for (unsigned bit = 0; bit < 63; bit++) {
        check_int((int64_t)(1ull << bit));
        check_int(-(int64_t)(1ull << bit));
    }
    check_int(INT64_MAX);
    check_int(INT64_MIN);
    char got[NUMBER_INT_MAX];
    assert_int_equal(number_from_uint(UINT64_MAX, got), 20);
    assert_memory_equal(got, "18446744073709551615", 20);
}

static void long_doubles_are_read_and_written_as_incrbyfloat_does(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"0", "0"},
        {"3.0", "3"},
        {"0.1", "0.1"},
        {"10.50", "10.5"},
        {"1e3", "1000"},
        {"5.0e3", "5000"},
        {"-0", "0"},
        {"-0.0", "0"},
        {"-1e-30", "0"},
        {"1e-18", "0"},
        {"1e-17", "0.00000000000000001"},
        {"6e-18", "0.00000000000000001"},
        {"1e20", "100000000000000000000"},
        {"17179869184", "17179869184"},
        {"0x1p3", "8"},
        {"+5", "5"},
        {".5", "0.5"},
        {"5.", "5"},
        {"3.14159265358979323846", "3.14159265358979324"},
        {"123456789.123456789123456789", "123456789.12345678912242875"},
        {"inf", "inf"},
        {"-inf", "-inf"},
        {"infinity", "inf"},
    };
    char got[NUMBER_LONG_DOUBLE_MAX];
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        long double value;
        assert_int_equal(number_to_long_double(pairs[i][0], strlen(pairs[i][0]), &value), 0);
        size_t len = number_from_long_double(value, got);
        assert_int_equal(len, strlen(pairs[i][1]));
        assert_memory_equal(got, pairs[i][1], len);
    }
    long double huge;
    assert_int_equal(number_to_long_double("1e4932", 6, &huge), 0);
    assert_int_equal(number_from_long_double(huge, got), 4933);
    assert_memory_equal(got + 4927, "622720", 6);
    assert_int_equal(number_from_long_double(-LDBL_MAX, got), 4934);
    assert_int_equal(number_from_long_double((long double)NAN, got), 3);
    assert_memory_equal(got, "nan", 3);
}

static const char *const not_floats[] = {"",       " 5",    "5 ", "\t5", "nan",    "-nan",
                                         "NAN(1)", "0x",    "1e", "--1", "1_0",    "x",
                                         ".",      "1.2.3", "-",  "1e+", "1e5000", "1e-5000"};

static void texts_that_are_not_numbers_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(not_floats) / sizeof(*not_floats); i++) {
        long double l = 42;
        double d = 42;
        size_t len = strlen(not_floats[i]);
        assert_int_equal(number_to_long_double(not_floats[i], len, &l), RESP_ENUMBER);
        assert_int_equal(number_to_double(not_floats[i], len, &d), RESP_ENUMBER);
        assert_true(l == 42 && d == 42);
    }
    double d;
    long double l;
    assert_int_equal(number_to_double("1\0", 2, &d), RESP_ENUMBER);
    assert_int_equal(number_to_long_double("1\0", 2, &l), RESP_ENUMBER);
    assert_int_equal(number_to_double("1e400", 5, &d), RESP_ENUMBER);
    assert_int_equal(number_to_double("1e-400", 6, &d), RESP_ENUMBER);
    assert_int_equal(number_to_long_double("1e400", 5, &l), 0);
}

static void texts_as_long_as_the_buffer_are_refused(void **state)
{
    (void)state;
    char text[NUMBER_LONG_DOUBLE_MAX];
    memset(text, '0', sizeof(text));
    text[0] = '1';
    text[1] = '.';
    long double value;
    assert_int_equal(number_to_long_double(text, sizeof(text), &value), RESP_ENUMBER);
    assert_int_equal(number_to_long_double(text, sizeof(text) - 1, &value), 0);
    assert_true(value == 1);
}

static void doubles_are_written_with_seventeen_digits(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"3", "3"},
        {"3.0", "3"},
        {"0.1", "0.10000000000000001"},
        {"1e22", "1e+22"},
        {"1e17", "1e+17"},
        {"1e16", "10000000000000000"},
        {"123456789012345678", "1.2345678901234568e+17"},
        {"9007199254740993", "9007199254740992"},
        {"-9007199254740991", "-9007199254740991"},
        {"1e-7", "9.9999999999999995e-08"},
        {"1.7976931348623157e308", "1.7976931348623157e+308"},
        {"-1.7976931348623157e308", "-1.7976931348623157e+308"},
        {"-2.2250738585072014e-308", "-2.2250738585072014e-308"},
        {"5e-324", "4.9406564584124654e-324"},
        {"0.30000000000000004", "0.30000000000000004"},
        {"0x10", "16"},
        {"+5", "5"},
        {"infinity", "inf"},
        {"-inf", "-inf"},
    };
    char got[NUMBER_DOUBLE_MAX];
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        double value;
        assert_int_equal(number_to_double(pairs[i][0], strlen(pairs[i][0]), &value), 0);
        size_t len = number_from_double(value, got);
        assert_int_equal(len, strlen(pairs[i][1]));
        assert_memory_equal(got, pairs[i][1], len);
    }
    assert_int_equal(number_from_double(-NAN, got), 3);
    assert_memory_equal(got, "nan", 3);
}

static void whole_doubles_are_written_as_printf_writes_them(void **state)
{
    (void)state;
    static const double values[] = {0.0,
                                    -0.0,
                                    1,
                                    -1,
                                    4503599627370496.5,
                                    9007199254740991,
                                    9007199254740992,
                                    9007199254740994,
                                    1e15,
                                    99999999999999984,
                                    1e300,
                                    0.5,
                                    -1.5,
                                    123456};
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        char expect[64], got[NUMBER_DOUBLE_MAX];
        int n = snprintf(expect, sizeof(expect), "%.17g", values[i]);
        assert_int_equal(number_from_double(values[i], got), n);
        assert_memory_equal(got, expect, (size_t)n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_read_only_in_their_one_form),
        cmocka_unit_test(integers_are_written_as_printf_writes_them),
        cmocka_unit_test(long_doubles_are_read_and_written_as_incrbyfloat_does),
        cmocka_unit_test(texts_that_are_not_numbers_are_refused),
        cmocka_unit_test(texts_as_long_as_the_buffer_are_refused),
        cmocka_unit_test(doubles_are_written_with_seventeen_digits),
        cmocka_unit_test(whole_doubles_are_written_as_printf_writes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
