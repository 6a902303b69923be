/*
 * choice.c - what a loss of power leaves, by the number of a choice.
 *
 * For every sector that is not sure, one of its versions is taken: version 0 is what the device
 * has, version n what the sector was after the n-th write to it since. How likely the newest is
 * depends on the kind of bytes, so that "the meta is there and the data are not" happens often
 * enough; neighbours may share their luck, as pages and requests do.
 */
#include "tests/powerloss/disk_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "storage/meta.h"
#include "tests/model/rng.h"

struct luck {
    struct rng rng;
    const char *what;
    unsigned odds[DISK_CLASSES]; /* of the newest version, in eighths */
    unsigned together;           /* sectors that share their luck */
    unsigned torn;               /* sectors that are a mixture, in eighths */
    unsigned names;              /* and sizes, in eighths */
    bool in_order;               /* the first so many changes of names are there, and no others */
    bool damage;                 /* a meta cannot be read any more */
    bool fixed;                  /* by a pattern: nothing is between old and new */
};

/* Which kinds of bytes are there, all of them or none. */
static const struct pattern {
    const char *what;
    unsigned char odds[DISK_CLASSES];
    unsigned char names;
} patterns[] = {
    {"only what was synced", {0, 0, 0, 0}, 0}, {"metas only", {0, 8, 0, 0}, 0},
    {"metas and names only", {0, 8, 0, 0}, 8}, {"all but the log", {8, 8, 0, 0}, 8},
    {"all but data pages", {0, 8, 8, 8}, 8},   {"all but headers of the log", {8, 8, 8, 0}, 8},
    {"all but names", {8, 8, 8, 8}, 0},        {"all but metas", {8, 0, 8, 8}, 8},
    {"the log only", {0, 0, 8, 8}, 8},         {"names only", {0, 0, 0, 0}, 8},
    {"everything", {8, 8, 8, 8}, 8},
};

#define PATTERNS (sizeof patterns / sizeof *patterns)

static unsigned any_odds(struct rng *rng)
{
    static const unsigned char odds[] = {0, 1, 4, 7, 8};
    return odds[rng_below(rng, sizeof odds)];
}

static struct luck luck_of(uint64_t choice)
{
    static const unsigned together[] = {1, 1, 8, 64};
    static const unsigned torn[] = {0, 0, 2, 8};
    struct luck luck = {.rng = rng_seed(choice, 0x706f776572), .what = "any mixture"};
    struct rng *rng = &luck.rng;
    const struct pattern *pattern = NULL;
    if (rng_one_in(rng, 2))
        pattern = &patterns[rng_below(rng, PATTERNS)];
    luck.together = together[rng_below(rng, 4)];
    luck.torn = pattern ? 0 : torn[rng_below(rng, 4)];
    luck.names = any_odds(rng);
    luck.in_order = !rng_one_in(rng, 4);
    luck.damage = rng_one_in(rng, 20);
    for (unsigned i = 0; i < DISK_CLASSES; i++)
        luck.odds[i] = any_odds(rng);
    if (pattern) {
        luck.what = pattern->what;
        luck.fixed = true;
        luck.names = pattern->names;
        for (unsigned i = 0; i < DISK_CLASSES; i++)
            luck.odds[i] = pattern->odds[i];
    }
    return luck;
}

/* ---- sectors ----------------------------------------------------------------------------------
 */

struct sector {
    unsigned short writes, done, version;
    unsigned short torn; /* 1 + its place among the torn ones; 0: whole */
};

/* A sector of whose bytes some are of an older version. */
struct torn {
    size_t sector;
    unsigned short version;
    unsigned char bytes[DISK_SECTOR];
};

struct shuffle {
    struct luck *luck;
    const struct disk_file *file;
    unsigned char *bytes;
    struct sector *sectors;
    struct torn *torn;
    size_t ntorn, torn_room;
};

static enum disk_class class_at(const struct disk_file *file, uint64_t sector)
{
    if (file->class == CLASS_LOG)
        return sector == 0 ? CLASS_LOG_HEADER : CLASS_LOG;
    return sector * DISK_SECTOR < META_RESERVED ? CLASS_META : CLASS_DATA;
}

static void count_writes(struct shuffle *s)
{
    for (size_t i = 0; i < s->file->n; i++) {
        const struct piece *p = &s->file->pieces[i];
        for (uint64_t k = p->offset / DISK_SECTOR; k * DISK_SECTOR < p->offset + p->len; k++)
            s->sectors[k].writes++;
    }
}

static void tear(struct shuffle *s, size_t at)
{
    struct sector *sector = &s->sectors[at];
    if (s->ntorn == s->torn_room) {
        s->torn_room = s->torn_room * 2 + 16;
        s->torn = realloc(s->torn, s->torn_room * sizeof *s->torn);
        if (!s->torn)
            abort();
    }
    struct torn *torn = &s->torn[s->ntorn++];
    torn->sector = at;
    torn->version = (unsigned short)rng_below(&s->luck->rng, sector->version);
    memcpy(torn->bytes, s->bytes + at * DISK_SECTOR, DISK_SECTOR);
    sector->torn = (unsigned short)s->ntorn;
}

/* Mostly what the device had; or, if anything of the kind got there, what was between. */
static unsigned short older_version(const struct luck *luck, const struct sector *sector,
                                    uint64_t draw)
{
    if (luck->fixed || draw % 4 != 0)
        return 0;
    return (unsigned short)((draw >> 8) % sector->writes);
}

static void choose_versions(struct shuffle *s)
{
    struct luck *luck = s->luck;
    size_t group = SIZE_MAX;
    uint64_t draw = 0;
    for (size_t i = 0; i < s->file->room / DISK_SECTOR; i++) {
        struct sector *sector = &s->sectors[i];
        if (!sector->writes)
            continue;
        if (i / luck->together != group)
            draw = rng_next(&luck->rng);
        group = i / luck->together;
        bool newest = draw % 8 < luck->odds[class_at(s->file, i)];
        sector->version = newest ? sector->writes : older_version(luck, sector, draw >> 8);
        if (sector->version && luck->torn && s->ntorn < USHRT_MAX - 1 &&
            rng_below(&luck->rng, 8) < luck->torn)
            tear(s, i);
    }
}

static void write_sector(struct shuffle *s, const struct piece *p, uint64_t k)
{
    struct sector *sector = &s->sectors[k];
    uint64_t from = k * DISK_SECTOR > p->offset ? k * DISK_SECTOR : p->offset;
    uint64_t end = (k + 1) * DISK_SECTOR;
    end = end < p->offset + p->len ? end : p->offset + p->len;
    if (++sector->done > sector->version)
        return;
    memcpy(s->bytes + from, p->bytes + (from - p->offset), (size_t)(end - from));
    if (sector->torn && sector->done <= s->torn[sector->torn - 1].version)
        memcpy(s->torn[sector->torn - 1].bytes, s->bytes + k * DISK_SECTOR, DISK_SECTOR);
}

/* Old bytes before or after a place, or in some words. */
static void mix(struct shuffle *s, const struct torn *torn)
{
    struct rng *rng = &s->luck->rng;
    unsigned char *to = s->bytes + torn->sector * DISK_SECTOR;
    size_t place = rng_between(rng, 1, DISK_SECTOR - 1);
    switch (rng_below(rng, 3)) {
    case 0:
        memcpy(to, torn->bytes, place);
        break;
    case 1:
        memcpy(to + place, torn->bytes + place, DISK_SECTOR - place);
        break;
    default:
        for (size_t at = 0; at < DISK_SECTOR; at += 8)
            if (rng_one_in(rng, 2))
                memcpy(to + at, torn->bytes + at, 8);
    }
}

static uint64_t choose_size(const struct disk_file *file, struct luck *luck)
{
    uint64_t n = file->nsizes;
    if (n == 0 || rng_below(&luck->rng, 8) >= luck->names)
        return file->device_len;
    return luck->names == 8 ? file->sizes[n - 1] : file->sizes[rng_below(&luck->rng, n)];
}

static void make_file(const struct disk_file *file, struct luck *luck, const char *name,
                      struct files *image)
{
    struct shuffle s = {.luck = luck, .file = file};
    s.bytes = malloc(file->room + 1);
    s.sectors = calloc(file->room / DISK_SECTOR + 1, sizeof *s.sectors);
    if (!s.bytes || !s.sectors)
        abort();
    if (file->room)
        memcpy(s.bytes, file->device, file->room);
    count_writes(&s);
    choose_versions(&s);
    for (size_t i = 0; i < file->n; i++) {
        const struct piece *p = &file->pieces[i];
        for (uint64_t k = p->offset / DISK_SECTOR; k * DISK_SECTOR < p->offset + p->len; k++)
            write_sector(&s, p, k);
    }
    for (size_t i = 0; i < s.ntorn; i++)
        mix(&s, &s.torn[i]);
    uint64_t size = choose_size(file, luck);
    struct named_file *made = files_add(image, name, (size_t)size);
    if (size)
        memcpy(made->bytes, s.bytes, (size_t)size);
    free(s.bytes);
    free(s.sectors);
    free(s.torn);
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static void choose_names(const struct disk *disk, struct luck *luck, struct disk_names *names)
{
    *names = disk->names;
    if (luck->in_order && luck->names > 0 && luck->names < 8) {
        size_t kept = (size_t)rng_below(&luck->rng, disk->nops + 1);
        for (size_t i = 0; i < kept; i++)
            disk_names_do(names, disk->ops[i]);
        return;
    }
    for (size_t i = 0; i < disk->nops; i++)
        if (rng_below(&luck->rng, 8) < luck->names)
            disk_names_do(names, disk->ops[i]);
}

/* One sector cannot be read any more: a meta, if the other one is whole. Which is most of a test
 * where they differ. */
static void damage_meta(struct files *image, struct luck *luck)
{
    struct named_file *file = files_find(image, "pando.db");
    struct meta a, b;
    unsigned k = (unsigned)rng_below(&luck->rng, 2);
    bool rather = rng_one_in(&luck->rng, 3);
    if (!file || file->len < META_RESERVED || meta_decode(file->bytes, &a) != 0 ||
        meta_decode(file->bytes + META_STRIDE, &b) != 0)
        return;
    if (a.stamp != b.stamp && rather)
        k = a.stamp > b.stamp ? 0 : 1;
    else if (!luck->damage)
        return;
    for (size_t i = 0; i < META_BYTES; i++)
        file->bytes[k * META_STRIDE + i] = (unsigned char)rng_next(&luck->rng);
    luck->what = k ? "meta B damaged" : "meta A damaged";
}

void disk_image(const struct disk *disk, uint64_t choice, struct files *image, const char **what)
{
    struct luck luck = luck_of(choice);
    struct disk_names names;
    *image = (struct files){.exists = disk->dir_sure};
    if (disk->dir_seen && !disk->dir_sure)
        image->exists = rng_below(&luck.rng, 8) < luck.names;
    *what = luck.what;
    if (!image->exists)
        return;
    choose_names(disk, &luck, &names);
    for (size_t i = 0; i < names.n; i++)
        make_file(&disk->files[names.at[i].file], &luck, names.at[i].name, image);
    damage_meta(image, &luck);
    *what = luck.what;
}
