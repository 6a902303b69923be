/*
 * meta.h - the two metas, each of which alone says where everything is.
 *
 * Meta A is at byte 0 of pando.db, meta B at byte 65536; pages begin at byte 131072. Both name the
 * same checkpoint except while one is being made: A is written and synced, then B (4.7 of the
 * format in README.md). A meta is 512 bytes (one sector), little endian:
 *
 *   0 char[8] "PANDODB1"   8 u32 crc32c of the other 508 bytes   12 u32 version (1)
 *   16 u32 page size       20 u32 level of the space map's root  24 u8[16] random id of the store
 *   40 u64 stamp of the state    48 u64 its commit sequence
 *   56 u64 log position    64 u64 log epoch    72 u64 sequence at that position   80 u32 log crc
 *   84 u32 pages of the catalogue's run  88 u64 its first page  96 u64 its birth  104 u64 its bytes
 *   112 u64 root of the space map        120 u64 its birth      128 u64 pages in the file
 *   136 u64 time written, microseconds since 1970
 *   144 u32 flags: 1, keys over 65 KiB are or were in it        148.. zero
 */
#ifndef PANDO_STORAGE_META_H
#define PANDO_STORAGE_META_H

#include "storage/log.h"
#include "storage/space.h"

#define META_BYTES    512u
#define META_STRIDE   UINT64_C(65536)
#define META_RESERVED (2 * META_STRIDE)

/* What no store comes near: a number beyond is damage, and arithmetic below cannot overflow. */
#define STAMP_LIMIT    (UINT64_C(1) << 62)
#define SEQ_LIMIT      (UINT64_C(1) << 62)
#define POSITION_LIMIT (UINT64_C(1) << 62)

struct meta {
    uint32_t page_size;
    uint8_t id[16];
    uint64_t stamp, seq;
    struct log_pos pos;
    struct run_ref catalogue;
    struct space_root space;
    uint64_t file_pages;
    uint64_t written_us;
    bool file_keys;
};

void meta_encode(const struct meta *meta, uint8_t buf[META_BYTES]);
/* 0, PS_NOTFOUND (all zero or no magic), PS_CORRUPT (checksum, or what no checkpoint writes),
 * PS_VERSION. */
int meta_decode(const uint8_t buf[META_BYTES], struct meta *meta);

/* Which of two metas opening takes, given what decoding them answered: the newest valid one. -1:
 * neither is valid. */
int meta_choose(const struct meta metas[2], const int rc[2]);

#endif
