/* test_crc32c.c - the checksum against its definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/crc32c.h"

/* The definition, bit by bit. */
static uint32_t reference(uint32_t crc, const uint8_t *p, size_t len)
{
    crc = ~crc;
    while (len-- > 0) {
        crc ^= *p++;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint8_t *noise(size_t len)
{
    uint8_t *bytes = malloc(len);
    uint32_t x = 12345;

    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++) {
        x = x * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(x >> 24);
    }
    return bytes;
}

static void known_answers_of_rfc_3720_are_given(void **state)
{
    uint8_t bytes[32];

    (void)state;
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43);
    for (size_t i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(crc32c(0, bytes, 32), 0x46dd794e);
    for (size_t i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(31 - i);
    assert_int_equal(crc32c(0, bytes, 32), 0x113fdb5c);
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_portable(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, "", 0), 0);
}

static void every_length_and_alignment_agrees_with_the_definition(void **state)
{
    uint8_t *bytes = noise(640);

    (void)state;
    for (size_t at = 0; at < 16; at++)
        for (size_t len = 0; len <= 600; len++) {
            uint32_t want = reference(0x1234u + (uint32_t)len, bytes + at, len);
            assert_int_equal(crc32c(0x1234u + (uint32_t)len, bytes + at, len), want);
            assert_int_equal(crc32c_portable(0x1234u + (uint32_t)len, bytes + at, len), want);
        }
    free(bytes);
}

static void long_inputs_agree_with_the_definition(void **state)
{
    uint8_t *bytes = noise(70000);

    (void)state;
    for (size_t len = 4000; len < 70000; len += len / 3 + 1) {
        uint32_t want = reference(7, bytes + len % 8, len);
        assert_int_equal(crc32c(7, bytes + len % 8, len), want);
        assert_int_equal(crc32c_portable(7, bytes + len % 8, len), want);
    }
    for (size_t len = 4076; len <= 4100; len++)
        assert_int_equal(crc32c(0, bytes, len), reference(0, bytes, len));
    free(bytes);
}

static void a_checksum_continues_and_shifts_over_what_follows(void **state)
{
    uint8_t *bytes = noise(5000);
    uint32_t whole = crc32c(9, bytes, 5000);

    (void)state;
    for (size_t cut = 0; cut <= 5000; cut += 97) {
        uint32_t front = crc32c(9, bytes, cut);
        assert_int_equal(crc32c(front, bytes + cut, 5000 - cut), whole);
        assert_int_equal(crc32c_shift(front, 5000 - cut) ^ crc32c(0, bytes + cut, 5000 - cut),
                         whole);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers_of_rfc_3720_are_given),
        cmocka_unit_test(every_length_and_alignment_agrees_with_the_definition),
        cmocka_unit_test(long_inputs_agree_with_the_definition),
        cmocka_unit_test(a_checksum_continues_and_shifts_over_what_follows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
