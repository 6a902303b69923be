/*
 * Numbers as Redis reads and writes them. Pure; any thread. Readers return 0 or RESP_ENUMBER and
 * leave *value alone on error; writers return the length and add no NUL.
 */
#ifndef PANDO_PROTOCOL_NUMBER_H
#define PANDO_PROTOCOL_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* Only the text that number_from_int would write: no blanks, '+', "-0" or leading zeros. */
int number_to_int(const char *s, size_t len, int64_t *value);

/*
 * What strtold takes in full (decimal, hexadecimal, exponents, "inf"), except a leading blank, an
 * embedded NUL, "nan", overflow, underflow to zero, and texts of 5,120 bytes or more.
 */
int number_to_long_double(const char *s, size_t len, long double *value);

/* The same for doubles (scores, timeouts). */
int number_to_double(const char *s, size_t len, double *value);

#define NUMBER_INT_MAX 20 /* a sign and 19 digits, or 20 digits */
size_t number_from_int(int64_t value, char buf[NUMBER_INT_MAX]);
size_t number_from_uint(uint64_t value, char buf[NUMBER_INT_MAX]);

/* Decimal digits of value, at least 1. */
unsigned number_digits(uint64_t value);

/* The result of INCRBYFLOAT: 17 decimals, trailing zeros cut, no exponent, "inf", "-inf", "nan". */
#define NUMBER_LONG_DOUBLE_MAX 5120
size_t number_from_long_double(long double value, char buf[NUMBER_LONG_DOUBLE_MAX]);

/* "%.17g", "inf", "-inf", "nan". */
#define NUMBER_DOUBLE_MAX 40
size_t number_from_double(double value, char buf[NUMBER_DOUBLE_MAX]);

#endif
