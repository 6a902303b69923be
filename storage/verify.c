/*
 * verify.c - trust in pages of the file: each is checked when it is first used after the store was
 * opened, or after we wrote it; a bit per page remembers.
 *
 * Checked: checksum, number, kind, level, birth as the parent says (catches lost and stale writes),
 * and that every offset, length and reference inside is within bounds, so that code that walks a
 * page needs no checks of its own. Order of keys and counts are the full checker's (check.c).
 *
 * Of a long run the head is checked with each piece that is used for the first time; the bit of the
 * page where a piece begins remembers it, that of the head's first page that all of them were.
 *
 * A page that cannot be read (lost.h) reads as zeros and fails the check; the answer is then PS_IO.
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

/* Notes that a page, or what begins with it, was checked; unless pages were lost since (L2). */
static int remember(struct ps_store *store, page_ref ref, uint64_t losses)
{
    atomic_fetch_or(&store->verified[ref / 64], UINT64_C(1) << (ref % 64));
    if (lost_since(store, losses)) {
        page_unverify(store, ref, 1);
        return lost_report(store);
    }
    atomic_fetch_add_explicit(&store->pages_verified, 1, memory_order_relaxed);
    return 0;
}

void page_unverify(struct ps_store *store, page_ref ref, uint32_t pages)
{
    for (page_ref end = ref + pages; ref < end;) {
        uint64_t n = 64 - ref % 64 < end - ref ? 64 - ref % 64 : end - ref;
        uint64_t mask = (n == 64 ? 0 : UINT64_C(1) << n) - 1;
        atomic_fetch_and_explicit(&store->verified[ref / 64], ~(mask << (ref % 64)),
                                  memory_order_relaxed);
        ref += n;
    }
}

void file_pages_grew(struct ps_store *store)
{
    uint64_t pages = space_pages(&store->space);
    uint64_t before = atomic_load_explicit(&store->file_pages, memory_order_relaxed);
    while (before < pages && !atomic_compare_exchange_weak(&store->file_pages, &before, pages)) {
    }
}

static uint64_t pages_in_file(struct ps_store *store)
{
    return atomic_load_explicit(&store->file_pages, memory_order_acquire);
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

static bool run_ok(struct ps_store *store, const struct run_ref *run, uint64_t least)
{
    uint64_t pages = run->len > PS_MAX_VALUE ? UINT32_MAX : run_pages(run->len, store->page_shift);
    return run->len >= least && run->len <= PS_MAX_VALUE && !ref_in_arena(run->ref) &&
           run->ref >= META_RESERVED >> store->page_shift &&
           run->ref + pages <= pages_in_file(store);
}

/* Bounds of one cell; its end must not pass the page's. */
static const char *cell_problem(struct ps_store *store, const struct page *p, unsigned i)
{
    uint32_t at = node_offsets(p)[i];
    uint32_t fixed = p->kind == PAGE_LEAF ? 4 : (uint32_t)sizeof(struct child) + 2;
    if (at < p->heap || at + fixed > store->page_size ||
        at + (uint64_t)node_cell_size(p, i) > store->page_size) {
        return "a cell is outside the page";
    }
    struct run_ref key, value;
    node_runs(p, i, &key, &value);
    bool key_in_run;
    uint32_t suffix;
    node_key_size(p, i, &suffix, &key_in_run);
    if (!key_in_run && suffix + p->prefix_len > key_inline_max(store->page_size) + 8u) {
        return "a key is longer than keys in pages are";
    }
    if ((key_in_run && !run_ok(store, &key, p->prefix_len)) ||
        (value.ref != 0 && !run_ok(store, &value, 0))) {
        return "an overflow run is outside the file";
    }
    if ((key_in_run || value.ref != 0) && !(p->flags & PAGE_HAS_OVERFLOW)) {
        return "an overflow run in a page that says it has none";
    }
    if (p->kind == PAGE_BRANCH) {
        struct child child;
        node_child(p, i, &child);
        if (ref_in_arena(child.ref) || child.ref < META_RESERVED >> store->page_shift ||
            child.ref >= pages_in_file(store)) {
            return "a child is outside the file";
        }
    }
    return NULL;
}

static const char *node_problem(struct ps_store *store, const struct page *p)
{
    uint32_t size = store->page_size;
    if (p->prefix_len > key_inline_max(size) || p->count == 0 ||
        node_heads_at(p) + 6u * (uint64_t)p->count > p->heap || p->heap > size ||
        p->dead > size - p->heap) {
        return "impossible header";
    }
    for (unsigned i = 0; i < p->count; i++) {
        const char *problem = cell_problem(store, p, i);
        if (problem != NULL) {
            return problem;
        }
    }
    return NULL;
}

int page_verify(struct ps_store *store, const struct child *child, unsigned level)
{
    page_ref ref = child->ref;
    uint64_t losses = losses_ended(store);
    if (ref < META_RESERVED >> store->page_shift || ref >= pages_in_file(store)) {
        return damaged(store, ref, child->birth, "outside the file");
    }
    const struct page *p = page_at(store, ref);
    if (p->crc != page_crc(p, store->page_size)) {
        return damaged(store, ref, child->birth, "checksum does not match");
    }
    if (p->number != ref || p->birth != child->birth) {
        return damaged(store, ref, child->birth,
                       "stale or misplaced page (number or birth is another's)");
    }
    if (p->kind != (level == 0 ? PAGE_LEAF : PAGE_BRANCH) || p->level != level) {
        return damaged(store, ref, child->birth, "wrong kind or level");
    }
    const char *problem = node_problem(store, p);
    if (problem != NULL) {
        return damaged(store, ref, child->birth, problem);
    }
    return remember(store, ref, losses);
}

#define PIECES_AHEAD 32u /* read at once: the mapping itself reads nothing ahead */

/* ---- long runs --------------------------------------------------------------------------------
 */

static page_ref piece_page(const struct ps_store *store, const struct run_ref *run, uint64_t i)
{
    return run->ref + run_head_pages(run->len, store->page_shift) +
           ((i * RUN_PIECE) >> store->page_shift);
}

static int head_verify(struct ps_store *store, const struct run_ref *run)
{
    const struct page *p = page_at(store, run->ref);
    uint64_t pieces = (run->len + RUN_PIECE - 1) / RUN_PIECE;
    if (!run_ok(store, run, 0)) {
        return damaged(store, run->ref, run->birth, "overflow run outside the file");
    }
    if (p->kind != PAGE_FILE_RUN || p->number != run->ref || p->birth != run->birth ||
        p->run_len != run->len) {
        return damaged(store, run->ref, run->birth, "stale or misplaced overflow run");
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
    return remember(store, page, losses);
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
        rc = remember(store, run->ref, losses);
    }
    return rc;
}

int run_verify_part(struct ps_store *store, const struct run_ref *run, uint64_t from, uint64_t to)
{
    uint64_t first = from / RUN_PIECE;
    uint64_t end = (to + RUN_PIECE - 1) / RUN_PIECE;
    if (!run_ok(store, run, 0) || to > run->len) {
        return damaged(store, run->ref, run->birth, "overflow run outside the file");
    }
    bool all = first == 0 && end == (run->len + RUN_PIECE - 1) / RUN_PIECE;
    while (!all && first < end && page_is_verified(store, piece_page(store, run, first))) {
        first++;
    }
    return first < end ? pieces_verify(store, run, first, end) : 0;
}

int run_verify(struct ps_store *store, const struct run_ref *run)
{
    if (run_is_long(run->len) && run->len <= PS_MAX_VALUE) {
        return pieces_verify(store, run, 0, (run->len + RUN_PIECE - 1) / RUN_PIECE);
    }
    if (!run_ok(store, run, 0)) {
        return damaged(store, run->ref, run->birth, "overflow run outside the file");
    }
    uint64_t losses = losses_ended(store);
    const struct page *p = page_at(store, run->ref);
    if (p->kind != PAGE_OVERFLOW || p->number != run->ref || p->birth != run->birth ||
        p->run_len != run->len) {
        return damaged(store, run->ref, run->birth, "stale or misplaced overflow run");
    }
    if (p->crc != page_crc(p, PAGE_HEADER + (size_t)run->len)) {
        return damaged_in(store, run->ref, run_pages(run->len, store->page_shift), run->birth,
                          "checksum of an overflow run does not match");
    }
    return remember(store, run->ref, losses);
}
