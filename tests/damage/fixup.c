/*
 * fixup.c - see fixup.h. A place keeps what it is in the atlas, whatever its bytes say now; lengths
 * that its bytes say are followed as far as the image goes, as a reader that believes them would.
 */
#include "tests/damage/fixup.h"

#include <stddef.h>
#include <string.h>

#include "storage/crc32c.h"

static void fix_meta(struct files *damaged, uint64_t at)
{
    uint8_t *meta = damaged->files[0].bytes + at;
    uint32_t crc = crc32c(crc32c(0, meta, 8), meta + 12, META_BYTES - 12);
    memcpy(meta + 8, &crc, 4);
}

static void fix_long_run(const struct atlas *atlas, const struct place *place, uint8_t *bytes,
                         uint64_t room)
{
    struct page *p = (struct page *)(void *)bytes;
    uint64_t len = p->run_len < place->len ? p->run_len : place->len;
    uint64_t head = (uint64_t)run_head_pages(place->len, atlas->page_shift) << atlas->page_shift;
    for (uint64_t i = 0; i * RUN_PIECE < len && head + i * RUN_PIECE < room; i++) {
        uint64_t n = len - i * RUN_PIECE < RUN_PIECE ? len - i * RUN_PIECE : RUN_PIECE;
        n = n < room - head - i * RUN_PIECE ? n : room - head - i * RUN_PIECE;
        uint32_t crc = crc32c(0, bytes + head + i * RUN_PIECE, (size_t)n);
        memcpy(bytes + PAGE_HEADER + 4 * i, &crc, 4);
    }
    uint64_t pieces = p->run_len / RUN_PIECE + (p->run_len % RUN_PIECE != 0);
    uint64_t covered = pieces < room / 4 ? PAGE_HEADER + 4 * pieces : room;
    p->crc = page_crc(p, (size_t)(covered < room ? covered : room));
}

static void fix_place(const struct atlas *atlas, const struct place *place, struct files *damaged)
{
    uint8_t *bytes = atlas_bytes(atlas, damaged, place->page);
    struct page *p = (struct page *)(void *)bytes;
    uint64_t room = damaged->files[0].held - atlas_at(atlas, place->page);
    if (place->kind == PAGE_FILE_RUN) {
        fix_long_run(atlas, place, bytes, room);
    } else if (place->kind == PAGE_OVERFLOW || place->kind == PAGE_CATALOGUE) {
        uint64_t covered = p->run_len < room ? PAGE_HEADER + p->run_len : room;
        p->crc = page_crc(p, (size_t)(covered < room ? covered : room));
    } else {
        p->crc = page_crc(p, atlas->page_size);
    }
}

/* What the atlas knows of the records in a file: where they end, and the last one's crc. */
static uint64_t records_end(const struct atlas *atlas, unsigned file, uint32_t *crc)
{
    uint64_t end = 0;
    for (size_t i = 0; i < atlas->records.n; i++) {
        const struct record_place *r = &atlas->records.at[i];
        if (r->file == file) {
            end = r->offset + log_record_size(r->record.len);
            *crc = r->record.crc;
        }
    }
    return end;
}

/* Records of a segment, as far as there were any; returns the crc of the last. */
static uint32_t fix_records(struct file_bytes *f, uint64_t end, uint32_t crc, uint64_t epoch)
{
    uint32_t len;
    for (uint64_t at = LOG_HEADER_BYTES; at < end && at + LOG_RECORD_BYTES <= f->held;) {
        memcpy(&len, f->bytes + at + 8, 4);
        if (len > f->held - at - LOG_RECORD_BYTES) {
            break;
        }
        memcpy(f->bytes + at + 4, &crc, 4);
        crc = log_record_crc(f->bytes + at, crc, epoch, len);
        memcpy(f->bytes + at, &crc, 4);
        at += log_record_size(len);
    }
    return crc;
}

/* The chain as it was: a segment that continued the one before does so again. */
static void fix_log(const struct atlas *atlas, struct files *damaged)
{
    uint32_t was_last = 0, is_last = 0;
    for (unsigned i = 1; i < damaged->n && i < atlas->image->n; i++) {
        struct file_bytes *f = &damaged->files[i];
        const struct file_bytes *original = &atlas->image->files[i];
        struct log_header was;
        if (f->held < LOG_HEADER_BYTES || original->held < LOG_HEADER_BYTES ||
            log_header_decode(original->bytes, &was) != LOG_HEADER_VALID) {
            continue;
        }
        if (was.crc != 0 && was.crc == was_last) {
            memcpy(f->bytes + 48, &is_last, 4);
        }
        uint64_t epoch;
        uint32_t header = crc32c(crc32c(0, f->bytes, 12), f->bytes + 16, LOG_HEADER_BYTES - 16);
        memcpy(f->bytes + 12, &header, 4);
        memcpy(&epoch, f->bytes + 24, 8);
        memcpy(&is_last, f->bytes + 48, 4);
        was_last = was.crc;
        uint64_t end = records_end(atlas, i, &was_last);
        is_last = fix_records(f, end, is_last, epoch);
    }
}

void fixup_all(const struct atlas *atlas, struct files *damaged)
{
    for (size_t i = 0; i < atlas->places.n; i++) {
        const struct place *place = &atlas->places.at[i];
        if (atlas_at(atlas, place->page + 1) <= damaged->files[0].held) {
            fix_place(atlas, place, damaged);
        }
    }
    fix_meta(damaged, 0);
    fix_meta(damaged, META_STRIDE);
    fix_log(atlas, damaged);
}
