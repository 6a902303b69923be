/*
 * verify.c - trust in pages of the file: each is checked when it is first used after the store was
 * opened, or after we wrote it; a bit per page remembers.
 *
 * Checked, so that code that walks or changes a page needs no checks of its own, whatever wrote it:
 *
 *  V1 Checksum, number, and kind, level, birth and count as the parent says (catches lost and stale
 *     writes). Level and birth are compared at every use (page_get): a page that was checked on
 *     behalf of one parent may be referred to by another.
 *  V2 Every offset, length and reference inside is within bounds; cells account for every byte (N3
 *     in node.h), none is larger than such cells are (N2); keys ascend as far as they are in the
 *     page.
 *  V3 What a page refers to is in the space map that was loaded, and was not written since; or it
 *     was written by us. So nobody reads a page that may be given out at any moment.
 *
 * Order across pages and of keys in runs, and that nothing is referred to twice, are the full
 * checker's (check.c).
 *
 * A page that cannot be read (lost.h) reads as zeros and fails the check; the answer is then PS_IO.
 *
 * Of a long run the head is checked with each piece that is used for the first time; the bit of the
 * page where a piece begins remembers it, that of the head's first page that all of them were.
 *
 * Threads: any; two threads may check the same page at once.
 */
#include "storage/crc32c.h"
#include "storage/node.h"
#include "storage/store.h"

uint32_t page_crc(const struct page *p, size_t len)
{
    return crc32c(0, (const uint8_t *)p + sizeof p->crc, len - sizeof p->crc);
}

/* ---- what is known of pages -------------------------------------------------------------------
 */

/* Notes that a page, or what begins with it, was checked; unless pages were lost since (L2). */
static int remember(struct ps_store *store, _Atomic uint64_t *bits, page_ref ref, uint64_t losses)
{
    uint64_t bit = UINT64_C(1) << (ref % 64);
    if (store->options.verify != PS_VERIFY_ALWAYS) {
        atomic_fetch_or(&bits[ref / 64], bit);
    }
    if (lost_since(store, losses)) {
        atomic_fetch_and(&bits[ref / 64], ~bit);
        return lost_report(store);
    }
    atomic_fetch_add_explicit(&store->pages_verified, 1, memory_order_relaxed);
    return 0;
}

/* The bits of [*ref, end) that are in one word; *ref goes on to the next. */
static uint64_t bits_of_word(page_ref *ref, page_ref end)
{
    uint64_t n = 64 - *ref % 64 < end - *ref ? 64 - *ref % 64 : end - *ref;
    uint64_t mask = ((n == 64 ? 0 : UINT64_C(1) << n) - 1) << (*ref % 64);
    *ref += n;
    return mask;
}

void page_unverify(struct ps_store *store, page_ref ref, uint32_t pages)
{
    for (page_ref end = ref + pages; ref < end;) {
        page_ref word = ref / 64;
        uint64_t mask = bits_of_word(&ref, end);
        atomic_fetch_and_explicit(&store->verified[word], ~mask, memory_order_relaxed);
        atomic_fetch_and_explicit(&store->verified_runs[word], ~mask, memory_order_relaxed);
        atomic_fetch_or_explicit(&store->written[word], mask, memory_order_relaxed);
    }
}

void pages_mapped(struct ps_store *store)
{
    const struct space *space = &store->space;
    size_t words = ((size_t)store->page_size - SPACE_HEADER) / 8;
    for (size_t i = 0; i < space->levels[0].n; i++) {
        for (size_t k = 0; k < words; k++) {
            if (space->levels[0].at[i].live[k] != 0) {
                atomic_store_explicit(&store->mapped[i * words + k], space->levels[0].at[i].live[k],
                                      memory_order_relaxed);
            }
        }
    }
}

bool pages_belong(struct ps_store *store, page_ref first, uint64_t pages, uint64_t birth)
{
    uint64_t in_file = atomic_load_explicit(&store->file_pages, memory_order_acquire);
    if (first < META_RESERVED >> store->page_shift || pages > in_file || first > in_file - pages) {
        return false;
    }
    bool ours = birth > store->loaded_stamp;
    for (page_ref ref = first; ref < first + pages;) {
        page_ref word = ref / 64;
        uint64_t mask = bits_of_word(&ref, first + pages);
        uint64_t mapped = atomic_load_explicit(&store->mapped[word], memory_order_relaxed);
        uint64_t written = atomic_load_explicit(&store->written[word], memory_order_relaxed);
        if (((ours ? written : mapped & ~written) & mask) != mask) {
            return false;
        }
    }
    return true;
}

void file_pages_grew(struct ps_store *store)
{
    pthread_mutex_lock(&store->space.mu);
    atomic_store(&store->file_pages, store->space.pages);
    pthread_mutex_unlock(&store->space.mu);
}

/* Damage; unless it is among pages that were lost, or no published state has the page: then it is
 * what a running transaction could not write, before the store was poisoned for that. */
static int damaged_in(struct ps_store *store, page_ref ref, uint64_t pages, uint64_t birth,
                      const char *what)
{
    if (lost_within(store, ref, pages)) {
        return lost_report(store);
    }
    if (birth > stamp_of(atomic_load(&store->published)) && store_is_poisoned(store)) {
        return PS_POISONED;
    }
    return store_fault(store, PS_CORRUPT, 0, store->file_path, ref << store->page_shift,
                       "page %llu: %s", (unsigned long long)ref, what);
}

static int damaged(struct ps_store *store, page_ref ref, uint64_t birth, const char *what)
{
    return damaged_in(store, ref, 1, birth, what);
}

int page_misplaced(struct ps_store *store, page_ref ref)
{
    return damaged(store, ref, 0, "free or used again, although a page refers to it");
}

static bool run_ok(struct ps_store *store, const struct run_ref *run, uint64_t least)
{
    return run->len >= least && run->len <= PS_MAX_VALUE &&
           pages_belong(store, run->ref, run_pages(run->len, store->page_shift), run->birth);
}

/* ---- nodes ------------------------------------------------------------------------------------
 */

/* What the cells of a node add up to. */
struct sums {
    uint64_t bytes, entries;
    bool overflow;
};

static const char *runs_problem(struct ps_store *store, const struct page *p, unsigned i)
{
    struct run_ref key, value;
    bool key_in_run;
    uint32_t suffix;
    node_runs(p, i, &key, &value);
    node_key_size(p, i, &suffix, &key_in_run);
    if ((key_in_run && !run_ok(store, &key, p->prefix_len)) ||
        (value.ref != 0 && !run_ok(store, &value, 0))) {
        return "an overflow run is outside the file, or in free pages";
    }
    if ((key_in_run || value.ref != 0) && !(p->flags & PAGE_HAS_OVERFLOW)) {
        return "an overflow run in a page that says it has none";
    }
    if (key_in_run && run_is_long(key.len) && !atomic_load(&store->file_keys)) {
        return "a long key in a store that says it has none";
    }
    return NULL;
}

static const char *cell_problem(struct ps_store *store, const struct page *p, unsigned i,
                                struct sums *sums)
{
    uint32_t at = node_offsets(p)[i];
    uint32_t fixed = p->kind == PAGE_LEAF ? 4 : (uint32_t)sizeof(struct child) + 2;
    if (at < p->heap || at + fixed > store->page_size ||
        at + (uint64_t)node_cell_size(p, i) > store->page_size) {
        return "a cell is outside the page";
    }
    const char *problem = node_entry_problem(p, i, p->kind == PAGE_LEAF ? 0 : 1, store->page_size);
    problem = problem == NULL ? runs_problem(store, p, i) : problem;
    sums->bytes += node_cell_size(p, i);
    sums->entries += p->kind == PAGE_LEAF;
    if (problem == NULL && p->kind == PAGE_BRANCH) {
        struct child child;
        node_child(p, i, &child);
        sums->entries += child_entries(&child);
        sums->overflow = sums->overflow || (child.count & CHILD_OVERFLOW) != 0;
        if (child_entries(&child) == 0 || sums->entries < child_entries(&child)) {
            return "an impossible count";
        }
        if (!pages_belong(store, child.ref, 1, child.birth)) {
            return "a child is outside the file, or a free page";
        }
    }
    return problem;
}

static const char *node_problem(struct ps_store *store, const struct page *p,
                                const struct child *child)
{
    uint32_t size = store->page_size;
    if (p->prefix_len > key_inline_max(size) || p->count == 0 ||
        (p->flags & ~PAGE_HAS_OVERFLOW) != 0 || p->zero != 0 ||
        node_heads_at(p) + 6u * (uint64_t)p->count > p->heap || p->heap > size ||
        p->dead > size - p->heap) {
        return "impossible header";
    }
    struct sums sums = {.overflow = (p->flags & PAGE_HAS_OVERFLOW) != 0};
    for (unsigned i = 0; i < p->count; i++) {
        const char *problem = cell_problem(store, p, i, &sums);
        if (problem != NULL) {
            return problem;
        }
    }
    if (sums.bytes + p->dead != size - p->heap) {
        return "cells overlap, or leave bytes that nothing accounts for";
    }
    if (child->count == COUNT_UNKNOWN) {
        return NULL;
    }
    if (sums.entries != child_entries(child)) {
        return "not as many entries as the page above says";
    }
    if (sums.overflow && (child->count & CHILD_OVERFLOW) == 0) {
        return "overflow runs, of which the page above does not know";
    }
    return NULL;
}

/* That it is the page that is meant. */
static const char *place_problem(const struct page *p, const struct child *child, unsigned level)
{
    if (p->number != child->ref || p->birth != child->birth) {
        return "stale or misplaced page (number or birth is another's)";
    }
    if (p->kind != (level == 0 ? PAGE_LEAF : PAGE_BRANCH) || p->level != level) {
        return "wrong kind or level";
    }
    return NULL;
}

const char *page_problem(struct ps_store *store, const struct page *p, const struct child *child,
                         unsigned level)
{
    if (p->crc != page_crc(p, store->page_size)) {
        return "checksum does not match";
    }
    const char *problem = place_problem(p, child, level);
    return problem != NULL ? problem : node_problem(store, p, child);
}

static bool is_trusted(const struct ps_store *store)
{
    return store->options.verify == PS_VERIFY_NEVER;
}

int page_verify(struct ps_store *store, const struct child *child, unsigned level)
{
    page_ref ref = child->ref;
    uint64_t losses = losses_ended(store);
    if (!pages_belong(store, ref, 1, child->birth)) {
        return damaged(store, ref, child->birth, "outside the file, or free or used again");
    }
    const struct page *p = page_at(store, ref);
    const char *problem =
        is_trusted(store) ? place_problem(p, child, level) : page_problem(store, p, child, level);
    if (problem != NULL) {
        return damaged(store, ref, child->birth, problem);
    }
    return remember(store, store->verified, ref, losses);
}

#define PIECES_AHEAD 32u /* read at once: the mapping itself reads nothing ahead */

/* ---- long runs --------------------------------------------------------------------------------
 */

static page_ref piece_page(const struct ps_store *store, const struct run_ref *run, uint64_t i)
{
    return run->ref + run_head_pages(run->len, store->page_shift) +
           ((i * RUN_PIECE) >> store->page_shift);
}

/* That it is there, and what the cell says it is. */
static int run_verify_place(struct ps_store *store, const struct run_ref *run, enum page_kind kind)
{
    if (!run_ok(store, run, 0)) {
        return damaged(store, run->ref, run->birth,
                       "overflow run outside the file, or in free pages");
    }
    const struct page *p = page_at(store, run->ref);
    if (p->kind != kind || p->number != run->ref || p->birth != run->birth ||
        p->run_len != run->len) {
        return damaged(store, run->ref, run->birth, "stale or misplaced overflow run");
    }
    return 0;
}

static int head_verify(struct ps_store *store, const struct run_ref *run)
{
    const struct page *p = page_at(store, run->ref);
    uint64_t pieces = (run->len + RUN_PIECE - 1) / RUN_PIECE;
    int rc = run_verify_place(store, run, PAGE_FILE_RUN);
    if (rc != 0) {
        return rc;
    }
    if (p->crc != page_crc(p, PAGE_HEADER + 4 * (size_t)pieces)) {
        return damaged_in(store, run->ref, run_head_pages(run->len, store->page_shift), run->birth,
                          "checksum of the head of an overflow run does not match");
    }
    return 0;
}

static int piece_verify(struct ps_store *store, const struct run_ref *run, uint64_t i)
{
    page_ref page = piece_page(store, run, i);
    uint64_t from = i * RUN_PIECE;
    size_t len = run->len - from < RUN_PIECE ? (size_t)(run->len - from) : RUN_PIECE;
    uint64_t losses = losses_ended(store);
    uint32_t crc;
    memcpy(&crc, (const uint8_t *)page_at(store, run->ref) + PAGE_HEADER + 4 * i, sizeof crc);
    if (crc != crc32c(0, page_at(store, page), len)) {
        char what[96];
        snprintf(what, sizeof what, "checksum of piece %llu of an overflow run does not match",
                 (unsigned long long)i);
        return damaged_in(store, page, (len >> store->page_shift) + 1, run->birth, what);
    }
    atomic_fetch_add_explicit(&store->run_pieces_verified, 1, memory_order_relaxed);
    return remember(store, store->verified_runs, page, losses);
}

/* Pieces [from, to), whatever was checked before. */
static int pieces_verify(struct ps_store *store, const struct run_ref *run, uint64_t from,
                         uint64_t to)
{
    uint64_t losses = losses_ended(store);
    int rc = head_verify(store, run);
    for (uint64_t i = from; rc == 0 && i < to; i++) {
        if ((i - from) % PIECES_AHEAD == 0 && to - from > 1) {
            uint64_t n = to - i < PIECES_AHEAD ? to - i : PIECES_AHEAD;
            store->vfs->prefetch(store->vfs->ctx, page_at(store, piece_page(store, run, i)),
                                 (size_t)n * RUN_PIECE);
        }
        rc = piece_verify(store, run, i);
    }
    if (rc == 0 && from == 0 && to == (run->len + RUN_PIECE - 1) / RUN_PIECE) {
        rc = remember(store, store->verified_runs, run->ref, losses);
    }
    return rc;
}

int run_verify_part(struct ps_store *store, const struct run_ref *run, uint64_t from, uint64_t to)
{
    uint64_t first = from / RUN_PIECE;
    uint64_t end = (to + RUN_PIECE - 1) / RUN_PIECE;
    int rc = run_verify_place(store, run, PAGE_FILE_RUN);
    if (rc != 0 || to > run->len) {
        return rc != 0
                   ? rc
                   : damaged(store, run->ref, run->birth, "overflow run shorter than a part of it");
    }
    if (is_trusted(store)) {
        return 0;
    }
    bool all = first == 0 && end == (run->len + RUN_PIECE - 1) / RUN_PIECE;
    while (!all && first < end && page_bit(store->verified_runs, piece_page(store, run, first))) {
        first++;
    }
    return first < end ? pieces_verify(store, run, first, end) : 0;
}

int run_verify(struct ps_store *store, const struct run_ref *run)
{
    if (is_trusted(store)) {
        return run_verify_place(store, run, run_is_long(run->len) ? PAGE_FILE_RUN : PAGE_OVERFLOW);
    }
    return run_verify_fully(store, run);
}

int run_verify_fully(struct ps_store *store, const struct run_ref *run)
{
    if (run_is_long(run->len) && run->len <= PS_MAX_VALUE) {
        return pieces_verify(store, run, 0, (run->len + RUN_PIECE - 1) / RUN_PIECE);
    }
    uint64_t losses = losses_ended(store);
    int rc = run_verify_place(store, run, PAGE_OVERFLOW);
    if (rc != 0) {
        return rc;
    }
    const struct page *p = page_at(store, run->ref);
    if (p->crc != page_crc(p, PAGE_HEADER + (size_t)run->len)) {
        return damaged_in(store, run->ref, run_pages(run->len, store->page_shift), run->birth,
                          "checksum of an overflow run does not match");
    }
    return remember(store, store->verified_runs, run->ref, losses);
}
