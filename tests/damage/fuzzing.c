/*
 * fuzzing.c - see fuzzing.h. The store is made once; each input damages a copy of it.
 */
#include "tests/damage/fuzzing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/damage/cases.h"
#include "tests/damage/exercise.h"
#include "tests/support/store_dir.h"

static struct {
    char dir[STORE_DIR_PATH];
    struct shape shape;
    struct atlas atlas;
    struct damages damages;
    struct files copy;
} target;

static void remove_target(void)
{
    store_dir_remove(target.dir);
    files_free(&target.copy);
    atlas_free(&target.atlas);
    shape_free(&target.shape);
}

static void make_target(unsigned shape)
{
    store_dir_make_in_memory(target.dir, "pando-fuzz");
    shape_make(shape, target.dir, &target.shape);
    atlas_make(&target.atlas, &target.shape.image);
    target.damages = (struct damages){.atlas = &target.atlas, .shape = &target.shape};
    atexit(remove_target);
}

static void place_in_store(uint64_t place, uint64_t offset, struct patch *patch)
{
    const struct atlas *a = &target.atlas;
    place %= a->places.n + 2;
    if (place < 2) {
        patch->offset = place * META_STRIDE + offset % META_BYTES;
    } else {
        const struct place *p = &a->places.at[place - 2];
        patch->offset = atlas_at(a, p->page) + offset % ((uint64_t)p->pages << a->page_shift);
    }
}

static void place_in_log(uint64_t place, uint64_t offset, struct patch *patch)
{
    const struct atlas *a = &target.atlas;
    const struct record_place *r = &a->records.at[place % a->records.n];
    patch->file = r->file;
    patch->offset = place / a->records.n % 4 == 3
                        ? offset % LOG_HEADER_BYTES
                        : r->offset + offset % log_record_size(r->record.len);
}

static void take_patches(bool log, const uint8_t *data, size_t size, struct damage *damage)
{
    while (size > 5 && damage->patches < PATCHES) {
        struct patch *patch = &damage->patch[damage->patches];
        uint64_t place = data[0] | (uint64_t)data[1] << 8;
        uint64_t offset = data[2] | (uint64_t)data[3] << 8;
        (log ? place_in_log : place_in_store)(place, offset, patch);
        patch->len = 1 + data[4] % 8u;
        if (patch->len > size - 5 ||
            patch->offset + patch->len > target.atlas.image->files[patch->file].held) {
            break;
        }
        memcpy(patch->bytes, data + 5, patch->len);
        damage->patches++;
        data += 5 + patch->len;
        size -= 5 + patch->len;
    }
}

void damage_fuzz(bool log, const uint8_t *data, size_t size)
{
    if (target.dir[0] == '\0') {
        make_target(log ? TINY_LOG : TINY);
    }
    if (size == 0) {
        return;
    }
    struct damage damage = {.class = DAMAGE_RANDOM, .fixed = data[0] % 2 == 1};
    struct verdict verdict;
    take_patches(log, data + 1, size - 1, &damage);
    damage_do(&target.damages, &damage, &target.copy);
    files_write(&target.copy, target.dir);
    exercise(&target.shape, target.dir, damage.fixed, log, &verdict);
    if (verdict.outcome == OUTCOME_WRONG) {
        fprintf(stderr, "damage: %s\n", verdict.why);
        abort();
    }
}
