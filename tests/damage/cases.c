/*
 * cases.c - see cases.h: what all cases are made with.
 */
#include "tests/damage/cases.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/damage/fixup.h"

const char *const damage_class_names[DAMAGE_CLASSES] = {
    "meta",       "leaf",        "branch",    "run",         "long run",
    "catalogue",  "space map",   "reference", "stale page",  "log header",
    "log record", "log payload", "file",      "random bytes"};

struct damage *damage_new(struct damages *d, enum damage_class class, bool fixed,
                          const char *format, ...)
{
    struct damage new = {.class = class, .fixed = fixed};
    va_list args;
    va_start(args, format);
    vsnprintf(new.what, sizeof new.what, format, args);
    va_end(args);
    must(vec_push(&d->list, new), "memory");
    return &d->list.at[d->list.n - 1];
}

void damage_patch(struct damage *damage, unsigned file, uint64_t offset, const void *bytes,
                  unsigned len)
{
    must(damage->patches < PATCHES && len <= PATCH_BYTES, "too many patches");
    struct patch *patch = &damage->patch[damage->patches++];
    *patch = (struct patch){.file = file, .offset = offset, .len = len};
    memcpy(patch->bytes, bytes, len);
}

uint64_t damage_was(const struct damages *d, unsigned file, uint64_t offset, unsigned width)
{
    uint64_t v = 0;
    const struct file_bytes *f = &d->atlas->image->files[file];
    must(offset + width <= f->held, "outside the image");
    memcpy(&v, f->bytes + offset, width);
    return v;
}

static void number_case(struct damages *d, enum damage_class class, bool fixed, const char *what,
                        const struct patch *at, uint64_t v)
{
    uint64_t mask = at->len == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * at->len) - 1;
    uint64_t was = damage_was(d, at->file, at->offset, at->len);
    v &= mask;
    if (v != was) {
        struct damage *new = damage_new(d, class, fixed, "%s %#llx instead of %#llx", what,
                                        (unsigned long long)v, (unsigned long long)was);
        damage_patch(new, at->file, at->offset, &v, at->len);
    }
}

void damage_number(struct damages *d, enum damage_class class, const char *what, unsigned file,
                   uint64_t offset, unsigned width)
{
    struct patch at = {.file = file, .offset = offset, .len = width};
    uint64_t was = damage_was(d, file, offset, width);
    uint64_t top = UINT64_C(1) << (8 * width - 1);
    const uint64_t values[] = {0,       1,           UINT64_MAX, was + 1, was - 1,       was ^ top,
                               was / 2, was * 2 + 1, top,        top - 1, was ^ top >> 1};
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
        number_case(d, class, true, what, &at, values[i]);
    }
    number_case(d, class, false, what, &at, was + 1);
}

void damage_ref(struct damages *d, enum damage_class class, const char *what, uint64_t offset,
                page_ref self, page_ref parent)
{
    const struct atlas *a = d->atlas;
    struct patch at = {.offset = offset, .len = 8};
    page_ref mapped = a->meta.space.ref;
    const page_ref values[] = {self,
                               parent,
                               a->meta.catalogue.ref,
                               mapped,
                               a->free_page,
                               a->free_used,
                               a->pages - 1,
                               a->pages,
                               a->pages + 1,
                               (META_RESERVED >> a->page_shift) - 1,
                               UINT64_C(1) << 62,
                               UINT64_C(1) << (63 - a->page_shift),
                               UINT64_C(1) << (64 - a->page_shift),
                               REF_ARENA | 1};
    damage_number(d, class, what, 0, offset, 8);
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
        number_case(d, class, true, what, &at, values[i]);
    }
}

void damages_make(struct damages *d, const struct shape *shape, const struct atlas *atlas)
{
    *d = (struct damages){.atlas = atlas, .shape = shape};
    cases_of_roots(d);
    cases_of_pages(d);
    cases_of_links(d);
    cases_of_log(d);
}

void damages_free(struct damages *d)
{
    vec_free(&d->list);
}

/* ---- random bytes -------------------------------------------------------------------------------
 */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* A place where something is: in a page or record, near its beginning more often than not. */
static void random_place(const struct damages *d, uint64_t *state, struct patch *patch)
{
    const struct atlas *a = d->atlas;
    uint64_t r = next_random(state) % 8;
    if (r == 0 && a->records.n > 0) {
        const struct record_place *p = &a->records.at[next_random(state) % a->records.n];
        patch->file = p->file;
        patch->offset = p->offset + next_random(state) % log_record_size(p->record.len);
    } else if (r == 1) {
        patch->file = 0;
        patch->offset = next_random(state) % 2 * META_STRIDE + next_random(state) % META_BYTES;
    } else {
        const struct place *p = &a->places.at[next_random(state) % a->places.n];
        uint64_t bytes = (uint64_t)p->pages << a->page_shift;
        uint64_t most = next_random(state) % 3 == 0 ? bytes : 256;
        patch->file = 0;
        patch->offset = atlas_at(a, p->page) + next_random(state) % most;
    }
    patch->len = 1 + (next_random(state) % 4 == 0 ? (unsigned)(next_random(state) % 8) : 0);
}

void damage_random(const struct damages *d, uint64_t seed, uint64_t number, struct damage *damage)
{
    uint64_t state = seed * UINT64_C(0x2545f4914f6cdd1d) + number;
    *damage = (struct damage){.class = DAMAGE_RANDOM, .fixed = next_random(&state) % 3 != 0};
    damage->patches = 1 + (unsigned)(next_random(&state) % 3);
    for (unsigned i = 0; i < damage->patches; i++) {
        struct patch *patch = &damage->patch[i];
        random_place(d, &state, patch);
        const struct file_bytes *f = &d->atlas->image->files[patch->file];
        patch->offset = patch->offset + patch->len <= f->held ? patch->offset : 0;
        for (unsigned k = 0; k < patch->len; k++) {
            uint8_t was = f->bytes[patch->offset + k];
            uint8_t r = (uint8_t)next_random(&state);
            patch->bytes[k] = r % 4 == 0   ? (uint8_t)(was ^ 1u << r / 4 % 8)
                              : r % 4 == 1 ? (uint8_t)(was + 1)
                                           : (uint8_t)next_random(&state);
        }
    }
    snprintf(damage->what, sizeof damage->what, "%u places, the first: %s at %llu", damage->patches,
             d->atlas->image->files[damage->patch[0].file].name,
             (unsigned long long)damage->patch[0].offset);
}

/* ---- doing it -----------------------------------------------------------------------------------
 */

static void do_to_file(const struct damage *damage, struct files *image)
{
    struct file_bytes *f = &image->files[damage->file];
    switch (damage->file_damage) {
    case FILE_MISSING:
        free(f->bytes);
        image->n--;
        memmove(f, f + 1, (image->n - damage->file) * sizeof *f);
        image->files[image->n] = (struct file_bytes){0};
        break;
    case FILE_CUT:
    case FILE_LONGER:
        f->size = damage->size;
        f->held = f->held < f->size ? f->held : f->size;
        break;
    case FILE_RENAMED:
        memcpy(f->name, damage->name, sizeof f->name);
        break;
    case FILE_ZERO:
        memset(f->bytes, 0, f->held);
        break;
    default:
        break;
    }
}

void damage_do(const struct damages *d, const struct damage *damage, struct files *image)
{
    files_restore(image, d->atlas->image);
    for (unsigned i = 0; i < damage->patches; i++) {
        const struct patch *p = &damage->patch[i];
        must(p->offset + p->len <= image->files[p->file].held, "a patch outside the image");
        memcpy(image->files[p->file].bytes + p->offset, p->bytes, p->len);
    }
    if (damage->source != NULL) {
        memcpy(image->files[0].bytes + damage->target, damage->source, damage->source_len);
    }
    if (damage->fixed) {
        fixup_all(d->atlas, image);
    }
    do_to_file(damage, image);
}
