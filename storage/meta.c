/*
 * meta.c - see meta.h.
 */
#include "storage/meta.h"

#include "storage/crc32c.h"
#include "storage/rules.h"

#define META_VERSION   1u
#define META_FILE_KEYS 1u /* flags */
static const char magic[8] = "PANDODB1";

/* A meta as it is on disk. */
struct disk_meta {
    char magic[8];
    uint32_t crc, version, page_size, space_level;
    uint8_t id[16];
    uint64_t stamp, seq;
    uint64_t log_position, log_epoch, log_seq;
    uint32_t log_crc, catalogue_pages;
    uint64_t catalogue, catalogue_birth, catalogue_bytes;
    uint64_t space, space_birth, file_pages, written_us;
    uint32_t flags;
    uint8_t zero[META_BYTES - 148];
};
static_assert(sizeof(struct disk_meta) == META_BYTES, "a meta is one sector");

static uint32_t checksum(const struct disk_meta *d)
{
    uint32_t crc = crc32c(0, d, offsetof(struct disk_meta, crc));
    size_t after = offsetof(struct disk_meta, version);
    return crc32c(crc, (const uint8_t *)d + after, META_BYTES - after);
}

/* Whether a checkpoint can have written this: bounds, and what is said in two ways. */
static bool is_possible(const struct disk_meta *d)
{
    if (d->page_size < PAGE_MIN || d->page_size > PAGE_MAX ||
        (d->page_size & (d->page_size - 1)) != 0) {
        return false;
    }
    uint64_t pages = d->file_pages;
    uint64_t reserved = META_RESERVED / d->page_size;
    return d->stamp > 0 && d->stamp < STAMP_LIMIT && d->seq < SEQ_LIMIT && d->seq == d->log_seq &&
           d->log_position < POSITION_LIMIT && (d->log_position == 0) == (d->log_epoch == 0) &&
           d->catalogue >= reserved && d->catalogue < pages && d->catalogue_bytes < UINT32_MAX &&
           d->catalogue_pages ==
               plain_pages(d->catalogue_bytes, (uint32_t)__builtin_ctz(d->page_size)) &&
           d->catalogue_birth <= d->stamp && d->space >= reserved && d->space < pages &&
           d->space_birth <= d->stamp && d->space_level < SPACE_LEVELS;
}

void meta_encode(const struct meta *m, uint8_t buf[META_BYTES])
{
    struct disk_meta d = {
        .version = META_VERSION,
        .page_size = m->page_size,
        .space_level = m->space.level,
        .stamp = m->stamp,
        .seq = m->seq,
        .log_position = m->pos.position,
        .log_epoch = m->pos.epoch,
        .log_seq = m->pos.seq,
        .log_crc = m->pos.crc,
        .catalogue_pages = plain_pages(m->catalogue.len, (uint32_t)__builtin_ctz(m->page_size)),
        .catalogue = m->catalogue.ref,
        .catalogue_birth = m->catalogue.birth,
        .catalogue_bytes = m->catalogue.len,
        .space = m->space.ref,
        .space_birth = m->space.birth,
        .file_pages = m->file_pages,
        .written_us = m->written_us,
        .flags = m->file_keys ? META_FILE_KEYS : 0,
    };
    memcpy(d.magic, magic, sizeof magic);
    memcpy(d.id, m->id, sizeof d.id);
    d.crc = checksum(&d);
    memcpy(buf, &d, sizeof d);
}

int meta_decode(const uint8_t buf[META_BYTES], struct meta *m)
{
    struct disk_meta d;
    memcpy(&d, buf, sizeof d);
    if (memcmp(d.magic, magic, sizeof magic) != 0) {
        return PS_NOTFOUND;
    }
    if (d.crc != checksum(&d) && ps_rule(RULE_META_CHECKSUM)) {
        return PS_CORRUPT;
    }
    if (d.version != META_VERSION) {
        return PS_VERSION;
    }
    if ((d.flags & ~META_FILE_KEYS) != 0) {
        return PS_VERSION;
    }
    if (!is_possible(&d)) {
        return PS_CORRUPT;
    }
    *m = (struct meta){
        .page_size = d.page_size,
        .stamp = d.stamp,
        .seq = d.seq,
        .pos = {d.log_position, d.log_epoch, d.log_seq, d.log_crc},
        .catalogue = {d.catalogue, d.catalogue_birth, d.catalogue_bytes},
        .space = {d.space, d.space_birth, d.space_level},
        .file_pages = d.file_pages,
        .written_us = d.written_us,
        .file_keys = (d.flags & META_FILE_KEYS) != 0,
    };
    memcpy(m->id, d.id, sizeof m->id);
    return 0;
}

int meta_choose(const struct meta metas[2], const int rc[2])
{
    if (rc[0] != 0 || rc[1] != 0) {
        return rc[0] == 0 ? 0 : rc[1] == 0 ? 1 : -1;
    }
    return metas[1].stamp > metas[0].stamp ? 1 : 0;
}
