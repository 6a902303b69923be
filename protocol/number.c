/*
 * Numbers as Redis reads and writes them.
 *
 * Invariants:
 *  1. number_to_int accepts exactly the texts that number_from_int produces, so a value kept as an
 *     integer can be given back as the text it came from.
 *  2. No locale is consulted by the integer functions; the others rely on the process keeping the
 *     "C" numeric locale, as a C program that never calls setlocale does.
 *  3. What is written depends on the value alone and fits the sizes named in number.h.
 *
 * Threads: any. Crash: nothing is kept.
 */
#include "protocol/number.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/check.h"
#include "protocol/resp.h"

int number_to_int(const char *s, size_t len, int64_t *value)
{
    const char *end = s + len;
    bool negative = len > 0 && s[0] == '-';
    if (negative)
        s++;
    if (s == end || end - s > 19)
        return RESP_ENUMBER;
    if (*s == '0') {
        if (len != 1)
            return RESP_ENUMBER;
        *value = 0;
        return 0;
    }
    uint64_t v = 0; /* 19 digits cannot overflow it */
    for (; s < end; s++) {
        unsigned digit = (unsigned char)*s - (unsigned)'0';
        if (digit > 9)
            return RESP_ENUMBER;
        v = v * 10 + digit;
    }
    if (v > (uint64_t)INT64_MAX + negative)
        return RESP_ENUMBER;
    *value = negative ? (int64_t)(0 - v) : (int64_t)v;
    return 0;
}

/* Copies to buf with a NUL for the strto* functions; false if they would not look at all of it. */
static bool copy_text(const char *s, size_t len, char buf[NUMBER_LONG_DOUBLE_MAX])
{
    if (len == 0 || len >= NUMBER_LONG_DOUBLE_MAX || isspace((unsigned char)s[0]))
        return false;
    memcpy(buf, s, len);
    buf[len] = '\0';
    return true;
}

int number_to_long_double(const char *s, size_t len, long double *value)
{
    char buf[NUMBER_LONG_DOUBLE_MAX];
    if (!copy_text(s, len, buf))
        return RESP_ENUMBER;
    char *stop;
    errno = 0;
    long double v = strtold(buf, &stop);
    if (stop != buf + len || isnan(v) || (errno == ERANGE && (isinf(v) || v == 0)))
        return RESP_ENUMBER;
    *value = v;
    return 0;
}

int number_to_double(const char *s, size_t len, double *value)
{
    char buf[NUMBER_LONG_DOUBLE_MAX];
    if (!copy_text(s, len, buf))
        return RESP_ENUMBER;
    char *stop;
    errno = 0;
    double v = strtod(buf, &stop);
    if (stop != buf + len || isnan(v) || (errno == ERANGE && (isinf(v) || v == 0)))
        return RESP_ENUMBER;
    *value = v;
    return 0;
}

unsigned number_digits(uint64_t value)
{
    unsigned digits = 1;
    for (;;) {
        if (value < 10)
            return digits;
        if (value < 100)
            return digits + 1;
        if (value < 1000)
            return digits + 2;
        if (value < 10000)
            return digits + 3;
        value /= 10000;
        digits += 4;
    }
}

static size_t put_digits(uint64_t value, char *buf)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    unsigned len = number_digits(value);
    unsigned at = len;
    while (value >= 100) {
        at -= 2;
        memcpy(buf + at, pairs + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10)
        memcpy(buf, pairs + value * 2, 2);
    else
        buf[0] = (char)('0' + value);
    return len;
}

size_t number_from_uint(uint64_t value, char buf[NUMBER_INT_MAX])
{
    return put_digits(value, buf);
}

size_t number_from_int(int64_t value, char buf[NUMBER_INT_MAX])
{
    if (value >= 0)
        return put_digits((uint64_t)value, buf);
    buf[0] = '-';
    return 1 + put_digits(0 - (uint64_t)value, buf + 1);
}

/* inf, -inf and nan as Redis spells them; 0 for finite values. */
static size_t write_special(bool is_nan, bool is_inf, bool negative, char *buf)
{
    if (!is_nan && !is_inf)
        return 0;
    bool minus = is_inf && negative;
    if (minus)
        buf[0] = '-';
    const char *name = is_nan ? "nan" : "inf";
    size_t len = minus;
    for (; *name != '\0'; name++)
        buf[len++] = *name;
    return len;
}

size_t number_from_long_double(long double value, char buf[NUMBER_LONG_DOUBLE_MAX])
{
    size_t special = write_special(isnan(value), isinf(value), value < 0, buf);
    if (special != 0)
        return special;
    int printed = snprintf(buf, NUMBER_LONG_DOUBLE_MAX, "%.17Lf", value);
    RESP_CHECK(printed > 0 && printed < NUMBER_LONG_DOUBLE_MAX);
    size_t len = (size_t)printed;
    while (buf[len - 1] == '0')
        len--; /* stops at the point: %.17Lf always has one */
    if (buf[len - 1] == '.')
        len--;
    if (len == 2 && buf[0] == '-' && buf[1] == '0') {
        buf[0] = '0';
        len = 1;
    }
    return len;
}

size_t number_from_double(double value, char buf[NUMBER_DOUBLE_MAX])
{
    size_t special = write_special(isnan(value), isinf(value), value < 0, buf);
    if (special != 0)
        return special;
    /* Whole numbers below 2^53 have the same text as integers; "-0" keeps its sign. */
    if (fabs(value) < 9007199254740992.0 && !(value == 0 && signbit(value))) {
        int64_t whole = (int64_t)value;
        if ((double)whole == value)
            return number_from_int(whole, buf);
    }
    int printed = snprintf(buf, NUMBER_DOUBLE_MAX, "%.17g", value);
    RESP_CHECK(printed > 0 && printed < NUMBER_DOUBLE_MAX);
    return (size_t)printed;
}
