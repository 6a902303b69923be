/*
 * crc32c.h - CRC-32C (Castagnoli polynomial, RFC 3720 appendix B.4).
 *
 * crc32c(0, data, len) is the standard checksum; crc32c(crc, ...) continues from an earlier one, so
 * that crc32c(crc32c(0, a), b) is the checksum of a followed by b. Uses the processor's instruction
 * where there is one (interleaved for long inputs), a table elsewhere; both give the same result.
 */
#ifndef PANDO_STORAGE_CRC32C_H
#define PANDO_STORAGE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* The same by table alone: what crc32c() is on a processor without the instruction. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t len);

/* Moves a checksum past len bytes: crc32c(0, a+b) == crc32c_shift(crc32c(0, a), len of b) ^
 * crc32c(0, b). Takes about 20 steps a bit set in len, whatever len is. */
uint32_t crc32c_shift(uint32_t crc, size_t len);

#endif
