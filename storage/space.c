/*
 * space.c - see space.h: finding, giving out and taking back pages of the file.
 */
#include "storage/space.h"

#include <errno.h>

#include "storage/page.h"
#include "storage/poison.h"
#include "storage/space_bits.h"

#define SPACE_EXTENT 16u /* pages: smaller pieces cost the device and the page cache more */
#define SPACE_LONG   64u /* pages: longer runs are looked for across bitmaps */
#define GROW_MIN     (UINT64_C(1) << 20)
#define GROW_MAX     (UINT64_C(1) << 26)

/* Makes the bitmaps reach `pages` pages; those past the file's end count as used. */
static int cover(struct space *space, uint64_t pages)
{
    uint64_t per = chunk_pages(space);
    while (space->levels[0].n * per < pages) {
        size_t bytes = (size_t)(per / 8 + 8);
        if (!vec_reserve(&space->levels[0], 1)) {
            return PS_NOMEM;
        }
        struct space_node *node = &space->levels[0].at[space->levels[0].n];
        *node = (struct space_node){.dirty = true, .used = malloc(bytes), .live = calloc(1, bytes)};
        if (node->used == NULL || node->live == NULL) {
            free(node->used);
            free(node->live);
            return PS_NOMEM;
        }
        memset(node->used, 0xff, bytes);
        space->levels[0].n++;
    }
    unsigned top = 0;
    size_t below = space->levels[0].n;
    size_t fan = ((UINT64_C(1) << space->page_shift) - SPACE_HEADER) / 24;
    while (below > 1) {
        top++;
        PS_ASSERT(top < SPACE_LEVELS);
        below = (below + fan - 1) / fan;
        while (space->levels[top].n < below) {
            if (!vec_push(&space->levels[top], (struct space_node){.dirty = true})) {
                return PS_NOMEM;
            }
        }
    }
    space->top = top;
    return 0;
}

static uint8_t *image_at(const struct space *space, uint64_t page)
{
    return space->image + (page << space->page_shift);
}

void space_watch(struct space *space, uint8_t *image, struct watch *watch)
{
    uint64_t per = chunk_pages(space);
    size_t page_size = (size_t)1 << space->page_shift;
    space->image = image;
    space->watch = watch;
    for (uint64_t i = 0; i < space->pages; i++) {
        if (!bit(space->levels[0].at[i / per].used, i % per)) {
            poison_untouched(image_at(space, i), page_size);
        }
    }
}

/* Pages [space->pages, pages) join the file as free ones. */
static void add_free(struct space *space, uint64_t pages)
{
    uint64_t per = chunk_pages(space);
    for (uint64_t i = space->pages; i < pages; i++) {
        struct space_node *node = &space->levels[0].at[i / per];
        set_bit(node->used, i % per, false);
        node->free++;
        space->free++;
    }
    if (space->image != NULL && pages > space->pages) {
        poison_untouched(image_at(space, space->pages),
                         (size_t)((pages - space->pages) << space->page_shift));
    }
    space->pages = pages;
}

int space_init(struct space *space, const struct ps_vfs *vfs, int fd, uint32_t page_shift,
               uint64_t reserved, uint64_t pages)
{
    memset(space, 0, sizeof *space);
    space->vfs = vfs;
    space->fd = fd;
    space->page_shift = page_shift;
    space->most = UINT64_MAX >> page_shift;
    pthread_mutex_init(&space->mu, NULL);
    int rc = cover(space, pages);
    if (rc != 0) {
        return rc;
    }
    space->reserved = reserved;
    space->pages = reserved < pages ? reserved : pages;
    space->hint = space->pages;
    add_free(space, pages);
    return 0;
}

void space_destroy(struct space *space)
{
    for (size_t i = 0; i < space->levels[0].n; i++) {
        free(space->levels[0].at[i].used);
        free(space->levels[0].at[i].live);
    }
    vec_free(&space->dropped);
    for (unsigned level = 0; level < SPACE_LEVELS; level++) {
        vec_free(&space->levels[level]);
    }
    pthread_mutex_destroy(&space->mu);
}

static int grow(struct space *space, uint64_t need)
{
    uint64_t add = space->pages / 8;
    uint64_t least = GROW_MIN >> space->page_shift;
    uint64_t most = GROW_MAX >> space->page_shift;
    add = add < least ? least : add > most ? most : add;
    add = add < need ? need : add;
    if (space->pages + add > space->most) {
        add = need;
    }
    if (space->pages + add > space->most) {
        return PS_NOSPACE;
    }
    int rc = cover(space, space->pages + add);
    if (rc != 0) {
        return rc;
    }
    int err = space->vfs->fallocate(space->vfs->ctx, space->fd, space->pages << space->page_shift,
                                    add << space->page_shift);
    if (err != 0) {
        return err == -ENOSPC || err == -EDQUOT || err == -EFBIG ? PS_NOSPACE : PS_IO;
    }
    space->hint = space->pages;
    add_free(space, space->pages + add);
    space->no_extents = false;
    return 0;
}

/* First bit at or after i that has the wanted value, or `end`. */
static uint64_t scan(const uint64_t *map, uint64_t i, uint64_t end, bool value)
{
    while (i < end) {
        uint64_t word = value ? map[i / 64] : ~map[i / 64];
        word &= ~UINT64_C(0) << (i % 64);
        if (word != 0) {
            uint64_t found = i / 64 * 64 + (uint64_t)__builtin_ctzll(word);
            return found < end ? found : end;
        }
        i = (i / 64 + 1) * 64;
    }
    return end;
}

static bool find_in_chunk(const struct space_node *node, uint64_t from, uint64_t end, uint32_t min,
                          uint32_t want, uint64_t *first, uint32_t *got)
{
    if (node->free < min) {
        return false;
    }
    for (uint64_t i = scan(node->used, from, end, false); i < end;
         i = scan(node->used, i, end, false)) {
        uint64_t stop = i + want < end ? i + want : end;
        uint64_t to = scan(node->used, i, stop, true);
        if (to - i >= min) {
            *first = i;
            *got = (uint32_t)(to - i);
            return true;
        }
        i = to;
    }
    return false;
}

/* Next fit: from the hint to the end, then from the beginning. */
static bool find(struct space *space, uint32_t min, uint32_t want, page_ref *first, uint32_t *got)
{
    uint64_t per = chunk_pages(space);
    size_t n = space->levels[0].n;
    PS_ASSERT(n > 0);
    size_t start = (size_t)(space->hint / per) % n;
    for (size_t k = 0; k <= n; k++) {
        size_t c = (start + k) % n;
        uint64_t from = k == 0 ? space->hint % per : 0;
        uint64_t at;
        if (find_in_chunk(&space->levels[0].at[c], from, per, min, want, &at, got)) {
            *first = c * per + at;
            space->hint = *first + *got;
            return true;
        }
    }
    return false;
}

/* The first `pages` free pages in a row, across bitmaps. If there are none, *tail is how many are
 * free at the end of the file. */
static bool find_long(struct space *space, uint64_t pages, page_ref *first, uint64_t *tail)
{
    uint64_t per = chunk_pages(space);
    uint64_t have = 0; /* free pages in a row up to here */
    *tail = 0;
    for (size_t c = 0; c < space->levels[0].n; c++) {
        const struct space_node *node = &space->levels[0].at[c];
        if (node->free == 0) {
            *tail = have = 0;
            continue;
        }
        for (uint64_t i = 0; i < per;) {
            uint64_t to = scan(node->used, i, per, true);
            have += to - i;
            if (have >= pages) {
                *first = c * per + to - have;
                return true;
            }
            if (to < per) {
                *tail = c * per + to == space->pages ? have : 0;
                have = 0;
                i = scan(node->used, to, per, false);
            } else {
                *tail = have;
                i = per;
            }
        }
    }
    return false;
}

/* The part of [first, first + pages) that one bitmap describes, which is node's. */
static uint32_t within_chunk(struct space *space, page_ref first, uint32_t pages,
                             struct space_node **node)
{
    uint64_t per = chunk_pages(space);
    uint64_t left = per - first % per;
    *node = &space->levels[0].at[first / per];
    return left < pages ? (uint32_t)left : pages;
}

static void take(struct space *space, page_ref first, uint32_t pages)
{
    uint64_t per = chunk_pages(space);
    while (pages > 0) {
        struct space_node *node;
        uint32_t n = within_chunk(space, first, pages, &node);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t at = first % per + i;
            PS_ASSERT(!bit(node->used, at) && !bit(node->live, at));
            set_bit(node->used, at, true);
        }
        node->free -= n;
        space->free -= n;
        if (space->image != NULL) {
            unpoison(image_at(space, first), (size_t)n << space->page_shift);
        }
        first += n;
        pages -= n;
    }
}

/* A long run goes where it fits first, or to the end of the file. */
static int alloc_long(struct space *space, uint32_t pages, page_ref *first)
{
    uint64_t tail;
    if (!find_long(space, pages, first, &tail)) {
        int rc = grow(space, pages - tail);
        if (rc != 0) {
            return rc;
        }
        PS_ASSERT(find_long(space, pages, first, &tail));
    }
    take(space, *first, pages);
    return 0;
}

/* The lowest pages, and the file grows only if there are none (space_pack). */
static bool find_lowest(struct space *space, uint32_t min, uint32_t want, page_ref *first,
                        uint32_t *got)
{
    uint64_t tail;
    if (min > SPACE_LONG) {
        *got = min;
        return find_long(space, min, first, &tail);
    }
    space->hint = 0;
    return find(space, min, want, first, got);
}

static int alloc_locked(struct space *space, uint32_t min, uint32_t want, page_ref *first,
                        uint32_t *got)
{
    if (space->packing > 0 && find_lowest(space, min, want, first, got)) {
        take(space, *first, *got);
        return 0;
    }
    if (min > SPACE_LONG) {
        *got = min;
        return alloc_long(space, min, first);
    }
    uint32_t good = want < SPACE_EXTENT ? want : SPACE_EXTENT;
    good = good < min ? min : good;
    bool found = !space->no_extents && find(space, good, want, first, got);
    if (!found) {
        space->no_extents = good == SPACE_EXTENT || space->no_extents;
        if (space->free * 4 >= space->pages) {
            found = find(space, min, want, first, got);
        }
    }
    if (!found) {
        int rc = grow(space, want);
        /* What was added may lie across two bitmaps, and then be too little in each. */
        if (!find(space, min, want, first, got)) {
            return rc == 0 ? PS_NOSPACE : rc;
        }
    }
    take(space, *first, *got);
    return 0;
}

int space_alloc(struct space *space, uint32_t min, uint32_t want, page_ref *first, uint32_t *got)
{
    pthread_mutex_lock(&space->mu);
    int rc = alloc_locked(space, min, want, first, got);
    pthread_mutex_unlock(&space->mu);
    return rc;
}

/* Whether all of these pages are used, and are live or not (S4). */
static int all_are(struct space *space, page_ref first, uint32_t pages, bool live)
{
    uint64_t per = chunk_pages(space);
    for (page_ref page = first; page < first + pages; page++) {
        bool there = page >= space->reserved && page < space->pages;
        const struct space_node *node = there ? &space->levels[0].at[page / per] : NULL;
        if (!there || !bit(node->used, page % per) || bit(node->live, page % per) != live) {
            uint64_t none = 0;
            atomic_compare_exchange_strong(&space->damage, &none, page);
            return PS_CORRUPT;
        }
    }
    return 0;
}

static int mark(struct space *space, page_ref first, uint32_t pages, bool live)
{
    uint64_t per = chunk_pages(space);
    int rc = all_are(space, first, pages, !live);
    while (rc == 0 && pages > 0) {
        struct space_node *node;
        uint32_t n = within_chunk(space, first, pages, &node);
        for (uint32_t i = 0; i < n; i++) {
            set_bit(node->live, first % per + i, live);
        }
        node->dirty = true;
        first += n;
        pages -= n;
    }
    return rc;
}

int space_mark_live(struct space *space, page_ref first, uint32_t pages, bool live)
{
    pthread_mutex_lock(&space->mu);
    int rc = mark(space, first, pages, live);
    pthread_mutex_unlock(&space->mu);
    return rc;
}

static int release(struct space *space, page_ref first, uint32_t pages)
{
    uint64_t per = chunk_pages(space);
    int rc = all_are(space, first, pages, false);
    space->no_extents = space->no_extents && pages < SPACE_EXTENT;
    while (rc == 0 && pages > 0) {
        struct space_node *node;
        uint32_t n = within_chunk(space, first, pages, &node);
        for (uint32_t i = 0; i < n; i++) {
            set_bit(node->used, first % per + i, false);
        }
        node->free += n;
        space->free += n;
        if (space->image != NULL) {
            poison(image_at(space, first), (size_t)n << space->page_shift);
        }
        first += n;
        pages -= n;
    }
    return rc;
}

int space_free(struct space *space, page_ref first, uint32_t pages)
{
    pthread_mutex_lock(&space->mu);
    int rc = release(space, first, pages);
    pthread_mutex_unlock(&space->mu);
    return rc;
}

int space_reserve(struct space *space, uint64_t pages)
{
    if (atomic_load_explicit(&space->free, memory_order_relaxed) >= pages) {
        return 0;
    }
    pthread_mutex_lock(&space->mu);
    int rc = space->free >= pages ? 0 : grow(space, pages - space->free);
    pthread_mutex_unlock(&space->mu);
    return rc;
}

uint64_t space_free_pages(struct space *space)
{
    return atomic_load_explicit(&space->free, memory_order_relaxed);
}

uint64_t space_pages(struct space *space)
{
    pthread_mutex_lock(&space->mu);
    uint64_t pages = space->pages;
    pthread_mutex_unlock(&space->mu);
    return pages;
}

bool space_is_live(struct space *space, page_ref page)
{
    uint64_t per = chunk_pages(space);
    return page / per < space->levels[0].n && bit(space->levels[0].at[page / per].live, page % per);
}

/* Pages of the map that describe nothing any more leave it. */
static int drop_all(struct space *space, space_extents *freed)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < space->dropped.n; i++) {
        struct space_extent *e = &space->dropped.at[i];
        rc = vec_reserve(freed, 1) ? mark(space, e->first, 1, false) : PS_NOMEM;
        if (rc == 0) {
            vec_put(freed, *e);
            e->pages = 0; /* until it is written, or not */
        }
    }
    return rc;
}

/* Gives every changed page of the map its new place, until no place changes another page. */
static int place_all(struct space *space, uint64_t stamp, space_extents *freed)
{
    size_t fan = ((UINT64_C(1) << space->page_shift) - SPACE_HEADER) / 24;
    bool again = true;
    while (again) {
        again = false;
        for (unsigned level = 0; level <= space->top; level++) {
            for (size_t i = 0; i < space->levels[level].n; i++) {
                if (!space->levels[level].at[i].dirty || space->levels[level].at[i].moved) {
                    continue;
                }
                page_ref first;
                uint32_t got;
                int rc = alloc_locked(space, 1, 1, &first, &got); /* may move the arrays */
                if (rc != 0) {
                    return rc;
                }
                watch_taken(space->watch, first, 1);
                struct space_node *node = &space->levels[level].at[i];
                node->old_ref = node->ref;
                node->old_birth = node->birth;
                node->ref = first;
                node->birth = stamp;
                node->moved = true;
                rc = mark(space, first, 1, true);
                if (rc == 0 && node->old_ref != 0) {
                    rc = mark(space, node->old_ref, 1, false);
                    struct space_extent old = {node->old_ref, node->old_birth, 1};
                    if (!vec_push(freed, old)) {
                        return PS_NOMEM;
                    }
                }
                if (rc != 0) {
                    return rc;
                }
                if (level < space->top) {
                    space->levels[level + 1].at[i / fan].dirty = true;
                }
                again = true;
            }
        }
    }
    return 0;
}

static void fill(struct space *space, unsigned level, size_t i, uint8_t *buf)
{
    size_t page_size = (size_t)1 << space->page_shift;
    size_t fan = (page_size - SPACE_HEADER) / 24;
    struct space_node *node = &space->levels[level].at[i];
    memset(buf, 0, page_size);
    struct page *p = (struct page *)(void *)buf;
    p->kind = PAGE_SPACE;
    p->level = (uint8_t)level;
    p->number = node->ref;
    p->birth = node->birth;
    if (level == 0) {
        p->first = i * chunk_pages(space);
        memcpy(buf + SPACE_HEADER, node->live, page_size - SPACE_HEADER);
    } else {
        p->first = i * fan;
        uint8_t *at = buf + SPACE_HEADER;
        for (size_t k = i * fan; k < (i + 1) * fan && k < space->levels[level - 1].n; k++) {
            const struct space_node *below = &space->levels[level - 1].at[k];
            memcpy(at, &below->ref, 8);
            memcpy(at + 8, &below->birth, 8);
            memcpy(at + 16, &below->free, 4);
            at += 24;
        }
    }
    p->crc = page_crc(p, page_size);
}

int space_write(struct space *space, uint64_t stamp, struct space_root *root, space_extents *freed)
{
    size_t page_size = (size_t)1 << space->page_shift;
    uint8_t *buf = malloc(page_size);
    pthread_mutex_lock(&space->mu);
    int rc = buf == NULL ? PS_NOMEM : drop_all(space, freed);
    rc = rc == 0 ? place_all(space, stamp, freed) : rc;
    for (unsigned level = 0; rc == 0 && level <= space->top; level++) {
        for (size_t i = 0; rc == 0 && i < space->levels[level].n; i++) {
            if (space->levels[level].at[i].moved) {
                fill(space, level, i, buf);
                page_ref ref = space->levels[level].at[i].ref;
                int err = space->vfs->pwrite(space->vfs->ctx, space->fd, buf, page_size,
                                             ref << space->page_shift);
                space->written += page_size;
                rc = err == 0 ? 0 : err == -ENOSPC || err == -EDQUOT ? PS_NOSPACE : PS_IO;
            }
        }
    }
    if (rc == 0) {
        const struct space_node *top = &space->levels[space->top].at[0];
        *root = (struct space_root){top->ref, top->birth, space->top};
    }
    pthread_mutex_unlock(&space->mu);
    free(buf);
    return rc;
}

size_t space_map_pages(struct space *space)
{
    pthread_mutex_lock(&space->mu);
    size_t n = space->dropped.n;
    for (unsigned level = 0; level <= space->top; level++) {
        n += space->levels[level].n;
    }
    pthread_mutex_unlock(&space->mu);
    return n;
}

void space_written(struct space *space)
{
    pthread_mutex_lock(&space->mu);
    for (unsigned level = 0; level <= space->top; level++) {
        for (size_t i = 0; i < space->levels[level].n; i++) {
            struct space_node *node = &space->levels[level].at[i];
            node->dirty = node->dirty && !node->moved;
            node->moved = false;
        }
    }
    space->dropped.n = 0;
    space->no_extents = false;
    pthread_mutex_unlock(&space->mu);
}

void space_unwrite(struct space *space)
{
    pthread_mutex_lock(&space->mu);
    for (size_t i = 0; i < space->dropped.n; i++) {
        if (space->dropped.at[i].pages == 0) {
            (void)mark(space, space->dropped.at[i].first, 1, true);
            space->dropped.at[i].pages = 1;
        }
    }
    for (unsigned level = 0; level <= space->top; level++) {
        for (size_t i = 0; i < space->levels[level].n; i++) {
            struct space_node *node = &space->levels[level].at[i];
            if (!node->moved) {
                continue;
            }
            (void)mark(space, node->ref, 1, false);
            watch_freed(space->watch, node->ref, 1, 0, 0);
            (void)release(space, node->ref, 1);
            if (node->old_ref != 0) {
                (void)mark(space, node->old_ref, 1, true);
            }
            node->ref = node->old_ref;
            node->birth = node->old_birth;
            node->moved = false;
        }
    }
    pthread_mutex_unlock(&space->mu);
}
