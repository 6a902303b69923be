/*
 * crc32c.c - CRC-32C by the processor's instruction, three streams at a time, or by tables.
 *
 * The instruction has a latency of three cycles and a throughput of one: a long input is cut into
 * three equal blocks whose checksums are computed side by side, then moved behind one another by
 * tables (a checksum moved past n bytes is a linear function of its 32 bits, so four look-ups do).
 * Block sizes: 1360 bytes, so that a 4 KiB page less its checksum is one round; 128 for the rest.
 *
 * Threads: any. The tables are constants, filled in once before their first use.
 */
#include "storage/crc32c.h"

#include <pthread.h>
#include <string.h>

#if defined(__SSE4_2__) && defined(__x86_64__)
#include <nmmintrin.h>
#define HAVE_INSTRUCTION  1
#define step64(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#define step8(crc, byte)  _mm_crc32_u8((crc), (byte))
#elif defined(__ARM_FEATURE_CRC32) && defined(__aarch64__)
#include <arm_acle.h>
#define HAVE_INSTRUCTION  1
#define step64(crc, word) __crc32cd((crc), (word))
#define step8(crc, byte)  __crc32cb((crc), (byte))
#else
#define HAVE_INSTRUCTION 0
#endif

#define POLYNOMIAL  0x82f63b78u /* 0x1edc6f41 with its bits reversed */
#define LONG_BLOCK  1360u
#define SHORT_BLOCK 128u

struct shift_table {
    uint32_t entry[4][256];
};

static struct {
    uint32_t slice[8][256]; /* slice[k][b]: byte b followed by k zero bytes */
    uint32_t power[64];     /* x^(8 * 2^k) mod the polynomial */
    struct shift_table long_block, short_block;
} tables;

/* The product of two polynomials mod the polynomial, bits reversed (the top bit is x^0). */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    while (a != 0) {
        if (a & 0x80000000u)
            product ^= b;
        a <<= 1;
        b = (b >> 1) ^ (b & 1 ? POLYNOMIAL : 0);
    }
    return product;
}

static uint32_t shift_with_powers(uint32_t crc, size_t len)
{
    for (unsigned k = 0; len != 0; k++, len >>= 1)
        if (len & 1)
            crc = multiply(tables.power[k], crc);
    return crc;
}

static void fill_shift_table(struct shift_table *table, size_t len)
{
    for (unsigned k = 0; k < 4; k++)
        for (uint32_t b = 0; b < 256; b++)
            table->entry[k][b] = shift_with_powers(b << (8 * k), len);
}

static void fill_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
        tables.slice[0][b] = crc;
    }
    for (unsigned k = 1; k < 8; k++)
        for (uint32_t b = 0; b < 256; b++) {
            uint32_t crc = tables.slice[k - 1][b];
            tables.slice[k][b] = (crc >> 8) ^ tables.slice[0][crc & 0xff];
        }
    tables.power[0] = 0x00800000u; /* x^8 */
    for (unsigned k = 1; k < 64; k++)
        tables.power[k] = multiply(tables.power[k - 1], tables.power[k - 1]);
    fill_shift_table(&tables.long_block, LONG_BLOCK);
    fill_shift_table(&tables.short_block, SHORT_BLOCK);
}

static void need_tables(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, fill_tables);
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

uint32_t crc32c_shift(uint32_t crc, size_t len)
{
    need_tables();
    return shift_with_powers(crc, len);
}

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;

    need_tables();
    crc = ~crc;
    for (; len >= 8; p += 8, len -= 8) {
        uint64_t word = load64(p) ^ crc;
        crc = tables.slice[7][word & 0xff] ^ tables.slice[6][(word >> 8) & 0xff] ^
              tables.slice[5][(word >> 16) & 0xff] ^ tables.slice[4][(word >> 24) & 0xff] ^
              tables.slice[3][(word >> 32) & 0xff] ^ tables.slice[2][(word >> 40) & 0xff] ^
              tables.slice[1][(word >> 48) & 0xff] ^ tables.slice[0][word >> 56];
    }
    for (; len > 0; p++, len--)
        crc = (crc >> 8) ^ tables.slice[0][(crc ^ *p) & 0xff];
    return ~crc;
}

#if HAVE_INSTRUCTION

static inline uint32_t shift_by_table(const struct shift_table *table, uint32_t crc)
{
    return table->entry[0][crc & 0xff] ^ table->entry[1][(crc >> 8) & 0xff] ^
           table->entry[2][(crc >> 16) & 0xff] ^ table->entry[3][crc >> 24];
}

/* One round: three blocks of `block` bytes (a multiple of 8) from p on. */
static inline uint32_t three_blocks(uint32_t crc, const uint8_t *p, size_t block,
                                    const struct shift_table *table)
{
    uint32_t a = crc, b = 0, c = 0;

    for (size_t i = 0; i < block; i += 8) {
        a = step64(a, load64(p + i));
        b = step64(b, load64(p + block + i));
        c = step64(c, load64(p + 2 * block + i));
    }
    return shift_by_table(table, shift_by_table(table, a) ^ b) ^ c;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;

    crc = ~crc;
    if (len >= 3 * SHORT_BLOCK) {
        need_tables();
        for (; len >= 3 * LONG_BLOCK; p += 3 * LONG_BLOCK, len -= 3 * LONG_BLOCK)
            crc = three_blocks(crc, p, LONG_BLOCK, &tables.long_block);
        for (; len >= 3 * SHORT_BLOCK; p += 3 * SHORT_BLOCK, len -= 3 * SHORT_BLOCK)
            crc = three_blocks(crc, p, SHORT_BLOCK, &tables.short_block);
    }
    for (; len >= 8; p += 8, len -= 8)
        crc = step64(crc, load64(p));
    for (; len > 0; p++, len--)
        crc = step8(crc, *p);
    return ~crc;
}

#else

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
    return crc32c_portable(crc, data, len);
}

#endif
