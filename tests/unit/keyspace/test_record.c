/*
 * Object records: every form decodes to what was encoded, and no other bytes are taken for one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/keyspace/record.h"

struct bytes {
    uint8_t at[RECORD_MAX_HEADER + 64];
    size_t len;
};

static struct bytes encode(const struct record *record)
{
    struct bytes b;

    b.len = record_encode_header(record, b.at);
    assert_true(b.len <= RECORD_MAX_HEADER && record->payload.len <= 64);
    if (record->payload.len > 0)
        memcpy(b.at + b.len, record->payload.data, record->payload.len);
    b.len += record->payload.len;
    return b;
}

/* A copy of exactly this length, so that a sanitizer sees a read beyond it. */
static int decode(const void *bytes, size_t len, struct record *record)
{
    char *copy = malloc(len > 0 ? len : 1);

    assert_non_null(copy);
    memcpy(copy, bytes, len);
    int rc = record_decode((struct ps_slice){copy, len}, record);
    if (rc == 0) /* the payload is the tail of the input */
        assert_ptr_equal((const char *)record->payload.data + record->payload.len, copy + len);
    free(copy);
    return rc;
}

static void assert_same(const struct record *a, const struct record *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->encoding, b->encoding);
    assert_true(a->version == b->version);
    assert_true(a->expire_ms == b->expire_ms);
    assert_true(a->index_ms == b->index_ms);
    assert_int_equal(a->payload.len, b->payload.len);
}

static const uint64_t versions[] = {0,          1,          255,        256,
                                    65535,      65536,      UINT32_MAX, UINT32_MAX + 1ull,
                                    1ull << 48, 1ull << 56, INT64_MAX,  UINT64_MAX};
static const int64_t times[][2] = {{0, 0},
                                   {1, 1},
                                   {1796046288000, 1796046288000},
                                   {2, 1},
                                   {INT64_MAX, INT64_MAX},
                                   {INT64_MAX, 1796046288000}};
static const struct {
    enum record_type type;
    enum record_encoding encoding;
} forms[] = {
    {RECORD_STRING, RECORD_ENC_INT},    {RECORD_STRING, RECORD_ENC_EMBSTR},
    {RECORD_STRING, RECORD_ENC_RAW},    {RECORD_LIST, RECORD_ENC_QUICKLIST},
    {RECORD_LIST, RECORD_ENC_LISTPACK}, {RECORD_SET, RECORD_ENC_INTSET},
    {RECORD_SET, RECORD_ENC_HASHTABLE}, {RECORD_SET, RECORD_ENC_LISTPACK},
    {RECORD_ZSET, RECORD_ENC_LISTPACK}, {RECORD_ZSET, RECORD_ENC_SKIPLIST},
    {RECORD_HASH, RECORD_ENC_LISTPACK}, {RECORD_HASH, RECORD_ENC_HASHTABLE},
    {RECORD_STREAM, RECORD_ENC_STREAM},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void every_form_decodes_to_what_was_encoded(void **state)
{
    (void)state;
    for (size_t f = 0; f < COUNT(forms); f++)
        for (size_t v = 0; v < COUNT(versions); v++)
            for (size_t t = 0; t < COUNT(times); t++)
                for (size_t len = 0; len < 64; len += 9) {
                    struct record record = {forms[f].type,
                                            forms[f].encoding,
                                            versions[v],
                                            times[t][0],
                                            times[t][1],
                                            {"................................................"
                                             "................",
                                             len},
                                            false,
                                            {0, 0, 0}};
                    struct bytes b = encode(&record);
                    struct record back;
                    assert_int_equal(decode(b.at, b.len, &back), 0);
                    assert_same(&record, &back);
                }
}

static void a_plain_string_costs_three_to_ten_bytes(void **state)
{
    (void)state;
    struct record record = {.type = RECORD_STRING, .encoding = RECORD_ENC_RAW, .payload = {"", 0}};

    record.version = 255;
    assert_int_equal(encode(&record).len, 3);
    record.version = 1000000;
    assert_int_equal(encode(&record).len, 5);
    record.version = UINT64_MAX;
    assert_int_equal(encode(&record).len, 10);
    record.expire_ms = record.index_ms = 1796046288000;
    assert_int_equal(encode(&record).len, 18);
    record.index_ms -= 1;
    assert_int_equal(encode(&record).len, RECORD_MAX_HEADER);
}

static void the_layout_is_the_documented_one(void **state)
{
    (void)state;
    struct record record = {RECORD_STRING,      RECORD_ENC_EMBSTR, 0x0102, 0x1122334455667788,
                            0x0122334455667788, {"hi", 2},         false,  {0, 0, 0}};
    static const uint8_t expected[] = {0x21, 0x19, 0x02, 0x01, 0x88, 0x77, 0x66, 0x55,
                                       0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55,
                                       0x44, 0x33, 0x22, 0x01, 'h',  'i'};
    struct bytes b = encode(&record);

    assert_int_equal(b.len, sizeof(expected));
    assert_memory_equal(b.at, expected, sizeof(expected));
}

static void a_record_cut_in_its_header_is_damage(void **state)
{
    (void)state;
    for (size_t v = 0; v < COUNT(versions); v++)
        for (size_t t = 0; t < COUNT(times); t++) {
            struct record record = {.type = RECORD_STRING,
                                    .encoding = RECORD_ENC_RAW,
                                    .version = versions[v],
                                    .expire_ms = times[t][0],
                                    .index_ms = times[t][1]};
            struct bytes b = encode(&record);
            struct record back;
            for (size_t len = 0; len < b.len; len++)
                assert_int_equal(decode(b.at, len, &back), PS_CORRUPT);
        }
}

static void expect_damage(const char *bytes, size_t len)
{
    struct record back;

    assert_int_equal(decode(bytes, len, &back), PS_CORRUPT);
}

#define DAMAGE(text) expect_damage(text, sizeof(text) - 1)

/* Object id, length, second byte of the chunk's size. */
#define CHUNKS(id, len, size)                \
    id "\0\0\0\0\0\0\0" len "\0\0\0\0\0\0\0" \
       "\0" size "\0\0"

static void a_string_in_chunks_says_where_its_rows_are(void **state)
{
    (void)state;
    struct record record = {.type = RECORD_STRING,
                            .encoding = RECORD_ENC_RAW,
                            .version = 1,
                            .chunked = true,
                            .chunks = {0x0102030405060708, 0x100000000000, 16320}};
    struct record back;
    uint8_t payload[RECORD_CHUNKS];

    record_encode_chunks(&record.chunks, payload);
    record.payload = (struct ps_slice){payload, sizeof(payload)};
    struct bytes b = encode(&record);
    assert_int_equal(b.len, 3 + RECORD_CHUNKS);
    assert_int_equal(decode(b.at, b.len, &back), 0);
    assert_true(back.chunked);
    assert_true(back.chunks.id == record.chunks.id && back.chunks.len == record.chunks.len &&
                back.chunks.size == record.chunks.size);
    assert_true(record_string_len(&back) == 0x100000000000);
}

static void what_no_encoder_writes_is_damage(void **state)
{
    (void)state;
    DAMAGE("\x20\x00\x01x");                           /* type 0 */
    DAMAGE("\x27\x00\x01x");                           /* type 7 */
    DAMAGE("\x01\x00\x01x");                           /* encoding 0 */
    DAMAGE("\x41\x00\x01x");                           /* a string as a listpack */
    DAMAGE("\x25\x00\x01x");                           /* a hash as an embstr */
    DAMAGE("\x31\x20\x01x");                           /* rows, but not where */
    DAMAGE("\x32\x20\x01" CHUNKS("\1", "\1", "\x40")); /* of a type that has none yet */
    DAMAGE("\x21\x20\x01" CHUNKS("\1", "\1", "\x40")); /* of a short string */
    DAMAGE("\x31\x20\x01" CHUNKS("\0", "\1", "\x40")); /* object 0 */
    DAMAGE("\x31\x20\x01" CHUNKS("\1", "\0", "\x40")); /* length 0 */
    DAMAGE("\x31\x20\x01" CHUNKS("\1", "\1", "\x01")); /* chunks of 256 bytes */
    DAMAGE("\x31\x20\x01" CHUNKS("\1", "\1", "\x40") "x");
    DAMAGE("\x21\x40\x01x"); /* reserved bits */
    DAMAGE("\x21\x80\x01x");
    DAMAGE("\x21\x01\x01\x00x");                             /* a version with a leading zero */
    DAMAGE("\x21\x10\x01........x");                         /* an index time without an expiry */
    DAMAGE("\x21\x08\x01\0\0\0\0\0\0\0\0x");                 /* expiry 0 */
    DAMAGE("\x21\x08\x01\0\0\0\0\0\0\0\x80x");               /* a negative one */
    DAMAGE("\x21\x18\x01\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0x"); /* index = expiry, said twice */
    DAMAGE("\x21\x18\x01\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0x"); /* index behind the expiry */
    DAMAGE("\x21\x18\x01\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0x"); /* index 0 */
}

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static void any_bytes_are_a_record_of_one_form_or_damage(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252ull;
    size_t records = 0;

    for (int i = 0; i < 300000; i++) {
        uint8_t bytes[40];
        size_t len = next_random(&seed) % sizeof(bytes);
        for (size_t j = 0; j < len; j++)
            bytes[j] = (uint8_t)next_random(&seed);
        if (len > 1 && i % 2) { /* mostly plausible */
            bytes[0] = (uint8_t)(0x11 + 16 * (bytes[0] % 3));
            bytes[1] &= 0x1f;
        }
        struct record record;
        char copy[40];
        memcpy(copy, bytes, len);
        if (record_decode((struct ps_slice){copy, len}, &record) < 0)
            continue;
        records++;
        struct bytes again = encode(&record);
        assert_int_equal(again.len, len);
        assert_memory_equal(again.at, bytes, len);
    }
    assert_true(records > 10000);
}

static void expect_encoding(const char *text, size_t len, const char *whole, const char *as_text)
{
    struct ps_slice value = {text, len};

    assert_string_equal(record_encoding_name(record_string_encoding(value)), whole);
    assert_string_equal(record_encoding_name(record_text_encoding(value)), as_text);
}

static void strings_get_the_encodings_that_redis_gives(void **state)
{
    (void)state;
    char text[64];

    memset(text, 'x', sizeof(text));
    expect_encoding("", 0, "embstr", "embstr");
    expect_encoding("0", 1, "int", "embstr");
    expect_encoding("-1", 2, "int", "embstr");
    expect_encoding("007", 3, "embstr", "embstr");
    expect_encoding("-0", 2, "embstr", "embstr");
    expect_encoding(" 1", 2, "embstr", "embstr");
    expect_encoding("9223372036854775807", 19, "int", "embstr");
    expect_encoding("9223372036854775808", 19, "embstr", "embstr");
    expect_encoding("-9223372036854775808", 20, "int", "embstr");
    expect_encoding(text, 44, "embstr", "embstr");
    expect_encoding(text, 45, "raw", "raw");
}

static void a_record_expires_at_its_time_and_not_before(void **state)
{
    (void)state;
    struct record record = {.expire_ms = 1000, .index_ms = 500};

    assert_false(record_expired(&record, 999));
    assert_true(record_expired(&record, 1000));
    record.expire_ms = record.index_ms = 0;
    assert_false(record_expired(&record, INT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_decodes_to_what_was_encoded),
        cmocka_unit_test(a_plain_string_costs_three_to_ten_bytes),
        cmocka_unit_test(the_layout_is_the_documented_one),
        cmocka_unit_test(a_record_cut_in_its_header_is_damage),
        cmocka_unit_test(a_string_in_chunks_says_where_its_rows_are),
        cmocka_unit_test(what_no_encoder_writes_is_damage),
        cmocka_unit_test(any_bytes_are_a_record_of_one_form_or_damage),
        cmocka_unit_test(strings_get_the_encodings_that_redis_gives),
        cmocka_unit_test(a_record_expires_at_its_time_and_not_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
