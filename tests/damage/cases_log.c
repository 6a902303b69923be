/*
 * cases_log.c - headers, records and payloads of the log, and whole files.
 */
#include <stdio.h>
#include <string.h>

#include "tests/damage/cases.h"

static const struct log_field {
    const char *name;
    unsigned offset, width;
} header_fields[] = {{"magic", 0, 8},
                     {"version", 8, 4},
                     {"checksum", 12, 4},
                     {"number", 16, 8},
                     {"epoch", 24, 8},
                     {"epoch before", 32, 8},
                     {"position before", 40, 8},
                     {"crc before", 48, 4},
                     {"size in KiB", 52, 4},
                     {"sequence before", 56, 8}},
  record_fields[] = {{"checksum", 0, 4},  {"crc before", 4, 4}, {"length", 8, 4},
                     {"type", 12, 1},     {"flags", 13, 1},     {"zeros", 14, 2},
                     {"sequence", 16, 8}, {"stamp", 24, 8},     {"durable sequence", 32, 8}};

/* Segments that were used and the first that was made ahead. */
static unsigned segments(const struct damages *d)
{
    unsigned used = 1;
    while (used < d->atlas->image->n && d->atlas->image->files[used].held >= LOG_HEADER_BYTES) {
        used++;
    }
    return used < d->atlas->image->n ? used + 1 : used;
}

static void header_cases(struct damages *d)
{
    for (unsigned file = 1; file < segments(d); file++) {
        if (d->atlas->image->files[file].held < LOG_HEADER_BYTES) {
            continue;
        }
        for (size_t i = 0; i < sizeof header_fields / sizeof *header_fields; i++) {
            damage_number(d, DAMAGE_LOG_HEADER, header_fields[i].name, file,
                          header_fields[i].offset, header_fields[i].width);
        }
    }
}

/* Records that recovery reads: those from the metas' position on. */
static bool is_replayed(const struct damages *d, const struct record_place *r)
{
    return r->record.seq > d->atlas->meta.pos.seq;
}

static void payload_cases(struct damages *d, const struct record_place *r)
{
    uint64_t at = r->offset + LOG_RECORD_BYTES;
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 0x0f};
    static const uint8_t endless[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                      0xff, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t near_gib[] = {0x80, 0x80, 0x80, 0x80, 0x02}; /* 512 MiB */
    static const char *const names[] = {"operation", "tree", "key length", "byte 3", "byte 4"};
    for (unsigned i = 0; i < 5 && i < r->record.len; i++) {
        damage_number(d, DAMAGE_LOG_PAYLOAD, names[i], r->file, at + i, 1);
    }
    for (uint8_t op = 1; op <= 9 && r->record.len > 0; op++) {
        struct damage *new = damage_new(d, DAMAGE_LOG_PAYLOAD, true, "operation %u", op);
        damage_patch(new, r->file, at, &op, 1);
    }
    if (r->record.len > 20) {
        for (unsigned i = 1; i <= 2; i++) {
            const char *what = i == 1 ? "tree" : "key length";
            struct damage *new = damage_new(d, DAMAGE_LOG_PAYLOAD, true, "%s: huge", what);
            damage_patch(new, r->file, at + i, huge, sizeof huge);
            new = damage_new(d, DAMAGE_LOG_PAYLOAD, true, "%s: without end", what);
            damage_patch(new, r->file, at + i, endless, sizeof endless);
            new = damage_new(d, DAMAGE_LOG_PAYLOAD, true, "%s: 512 MiB", what);
            damage_patch(new, r->file, at + i, near_gib, sizeof near_gib);
        }
        damage_number(d, DAMAGE_LOG_PAYLOAD, "the last byte", r->file, at + r->record.len - 1, 1);
        damage_number(d, DAMAGE_LOG_PAYLOAD, "a byte in the middle", r->file,
                      at + r->record.len / 2, 1);
    }
}

static void record_cases(struct damages *d)
{
    size_t seen = 0;
    for (size_t i = 0; i < d->atlas->records.n; i++) {
        const struct record_place *r = &d->atlas->records.at[i];
        if (!is_replayed(d, r)) {
            continue;
        }
        bool last = i + 1 == d->atlas->records.n;
        if (seen++ % 4 < 2 || last || r->record.type == LOG_END_OF_SEGMENT) {
            for (size_t k = 0; k < sizeof record_fields / sizeof *record_fields; k++) {
                damage_number(d, DAMAGE_LOG_RECORD, record_fields[k].name, r->file,
                              r->offset + record_fields[k].offset, record_fields[k].width);
            }
            payload_cases(d, r);
        }
    }
}

static struct damage *file_case(struct damages *d, unsigned file, enum file_damage how,
                                uint64_t size, const char *what)
{
    struct damage *new =
        damage_new(d, DAMAGE_FILES, false, "%s: %s", d->atlas->image->files[file].name, what);
    new->file = file;
    new->file_damage = how;
    new->size = size;
    return new;
}

/* A segment under another number, with a header that says the same or not. */
static void rename_cases(struct damages *d, unsigned file)
{
    static const uint64_t numbers[] = {
        0, 1, 1000000, UINT64_MAX, UINT64_MAX / 2, UINT64_MAX >> 16, UINT64_C(1) << 44};
    for (unsigned i = 0; i < 2 * sizeof numbers / sizeof *numbers; i++) {
        char what[80];
        snprintf(what, sizeof what, "renamed to number %#llx%s", (unsigned long long)numbers[i / 2],
                 i % 2 == 0 ? "" : ", its header too");
        struct damage *new = file_case(d, file, FILE_RENAMED, 0, what);
        new->fixed = i % 2 == 1;
        snprintf(new->name, sizeof new->name, "log-%016llx", (unsigned long long)numbers[i / 2]);
        if (new->fixed && d->atlas->image->files[file].held >= LOG_HEADER_BYTES) {
            damage_patch(new, file, 16, &numbers[i / 2], 8);
        }
    }
}

static void file_cases(struct damages *d)
{
    for (unsigned file = 0; file < segments(d); file++) {
        uint64_t size = d->atlas->image->files[file].size;
        uint64_t held = d->atlas->image->files[file].held;
        const uint64_t cuts[] = {0,     1,           8,        40,       64,   512,      4096,
                                 65536, 65536 + 512, held / 2, held / 4, held, size - 1, size / 2};
        for (unsigned i = 0; i < sizeof cuts / sizeof *cuts; i++) {
            if (cuts[i] < size) {
                char what[40];
                snprintf(what, sizeof what, "cut to %llu", (unsigned long long)cuts[i]);
                file_case(d, file, FILE_CUT, cuts[i], what);
            }
        }
        file_case(d, file, FILE_LONGER, size + 1, "a byte longer");
        file_case(d, file, FILE_LONGER, size + (1 << 20), "a MiB longer");
        file_case(d, file, FILE_ZERO, 0, "all zeros");
        if (file > 0) {
            file_case(d, file, FILE_MISSING, 0, "missing");
            rename_cases(d, file);
        }
    }
}

void cases_of_log(struct damages *d)
{
    header_cases(d);
    record_cases(d);
    file_cases(d);
}
