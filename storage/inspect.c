/*
 * inspect.c - see inspect.h: metas, and the checksums of all pages (survey: check.c; log:
 * log_inspect.c; salvage: salvage.c).
 *
 * Pages are read with pread here, in the file's order: nothing is mapped, nothing of the page cache
 * is kept from others longer than for a moment, and what is read stays as it is while it is looked
 * at.
 *
 * Threads: one per store. Nothing is written.
 */
#include "storage/inspect.h"

#include <fcntl.h>
#include <inttypes.h>

#include "storage/crc32c.h"
#include "storage/store.h"

#define WINDOW_BYTES   ((size_t)1 << 20)
#define PROGRESS_PAGES 4096u

/* ---- metas ----------------------------------------------------------------------------------- */

static int read_both(const struct ps_vfs *vfs, int fd, struct meta metas[2], int rc[2])
{
    for (unsigned k = 0; k < 2; k++) {
        uint8_t buf[META_BYTES] = {0};
        ssize_t n = vfs->pread(vfs->ctx, fd, buf, sizeof buf, k * META_STRIDE);
        if (n < 0) {
            return (int)n;
        }
        rc[k] = meta_decode(buf, &metas[k]);
    }
    return 0;
}

static bool is_blank(const struct ps_vfs *vfs, int fd, unsigned k)
{
    static const uint8_t zeros[META_BYTES];
    uint8_t buf[META_BYTES] = {0};
    ssize_t n = vfs->pread(vfs->ctx, fd, buf, sizeof buf, k * META_STRIDE);
    return n >= 0 && memcmp(buf, zeros, sizeof buf) == 0;
}

static void show_meta(const struct meta *meta, int rc, bool blank, struct ps_meta *out)
{
    *out = (struct ps_meta){.code = rc == PS_NOTFOUND && !blank ? PS_CORRUPT : rc};
    if (rc == 0) {
        out->page_size = meta->page_size;
        out->stamp = meta->stamp;
        out->seq = meta->seq;
        out->log = (struct ps_log_place){meta->pos.position, meta->pos.epoch, meta->pos.seq,
                                         meta->pos.crc};
        out->file_pages = meta->file_pages;
        out->written_us = meta->written_us;
        memcpy(out->id, meta->id, sizeof out->id);
    }
}

int ps_read_metas(const char *dir, struct ps_meta *metas, int *newest, struct ps_fault *fault)
{
    const struct ps_vfs *vfs = ps_vfs_posix();
    struct meta found[2] = {{0}};
    int rc[2] = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s/pando.db", dir);
    int fd = vfs->open(vfs->ctx, path, O_RDONLY, 0);
    int err = fd < 0 ? fd : read_both(vfs, fd, found, rc);
    for (unsigned k = 0; err == 0 && k < 2; k++) {
        show_meta(&found[k], rc[k], is_blank(vfs, fd, k), &metas[k]);
    }
    if (fd >= 0) {
        (void)vfs->close(vfs->ctx, fd);
    }
    if (err != 0) {
        fault_set(fault, errno_code(err), err, path, 0, fd < 0 ? "opening" : "reading a meta");
        return errno_code(err);
    }
    if (newest != NULL) {
        *newest = meta_choose(found, rc);
    }
    return 0;
}

bool ps_checkpoint_stands(struct ps_store *store)
{
    struct meta metas[2];
    int rc[2];
    if (read_both(store->vfs, store->fd, metas, rc) != 0) {
        return false;
    }
    for (unsigned k = 0; k < 2; k++) {
        if (rc[k] == 0 && metas[k].stamp == store->meta.stamp) {
            return true;
        }
    }
    return false;
}

/* ---- the checksums of all pages ---------------------------------------------------------------
 */

struct scan {
    struct ps_store *store;
    const struct ps_watch *watch;
    uint64_t pages, page; /* in the file; looked at now */
    uint64_t findings, checked;
    bool lost; /* the page before is damaged: how far what it began goes on is not known */
    int rc;
    uint8_t *bytes; /* of the file, from `from` on */
    uint64_t from;
    size_t len, room;
};

static void scan_finding(struct scan *s, page_ref page, const char *what)
{
    s->findings++;
    if (s->watch->finding != NULL) {
        struct ps_fault fault;
        fault_set(&fault, PS_CORRUPT, 0, s->store->file_path, page << s->store->page_shift,
                  "page %" PRIu64 ": %s", page, what);
        s->watch->finding(s->watch->arg, &fault);
    }
}

/* Bytes [offset, offset + len) of the file; NULL: they cannot be read. */
static const uint8_t *window(struct scan *s, uint64_t offset, size_t len)
{
    if (s->len > 0 && offset >= s->from && offset + len <= s->from + s->len) {
        return s->bytes + (offset - s->from);
    }
    size_t want = len > WINDOW_BYTES ? len : WINDOW_BYTES;
    if (want > s->room) {
        free(s->bytes);
        s->bytes = malloc(want);
        s->room = s->bytes == NULL ? 0 : want;
        s->len = 0;
        if (s->bytes == NULL) {
            s->rc = PS_NOMEM;
            return NULL;
        }
    }
    ssize_t n = s->store->vfs->pread(s->store->vfs->ctx, s->store->fd, s->bytes, want, offset);
    s->from = offset;
    s->len = n < 0 ? 0 : (size_t)n;
    return s->len < len ? NULL : s->bytes;
}

/* A run whose first page says that it has `len` bytes; what is wrong with it, or NULL. */
static const char *plain_run_problem(struct scan *s, uint64_t len, uint64_t *pages)
{
    uint32_t shift = s->store->page_shift;
    if (len > PS_MAX_VALUE || s->page + plain_pages(len, shift) > s->pages) {
        return "a run that reaches beyond the file";
    }
    *pages = plain_pages(len, shift);
    const uint8_t *at = window(s, s->page << shift, (size_t)*pages << shift);
    if (at == NULL) {
        return "cannot be read";
    }
    const struct page *p = (const struct page *)(const void *)at;
    return p->crc == page_crc(p, PAGE_HEADER + (size_t)len) ? NULL
                                                            : "checksum of a run does not match";
}

static const char *long_run_problem(struct scan *s, uint64_t len, uint64_t *pages)
{
    uint32_t shift = s->store->page_shift;
    if (len > PS_MAX_VALUE || !run_is_long(len) || s->page + run_pages(len, shift) > s->pages) {
        return "a run that reaches beyond the file";
    }
    uint64_t pieces = (len + RUN_PIECE - 1) / RUN_PIECE;
    uint32_t head_pages = run_head_pages(len, shift);
    const uint8_t *at = window(s, s->page << shift, (size_t)head_pages << shift);
    const struct page *p = (const struct page *)(const void *)at;
    if (at == NULL || p->crc != page_crc(p, PAGE_HEADER + 4 * (size_t)pieces)) {
        return at == NULL ? "cannot be read" : "checksum of the head of a long run does not match";
    }
    *pages = run_pages(len, shift);
    uint32_t *crcs = malloc((size_t)pieces * 4);
    if (crcs == NULL) {
        s->rc = PS_NOMEM;
        return NULL;
    }
    memcpy(crcs, at + PAGE_HEADER, (size_t)pieces * 4);
    const char *problem = NULL;
    for (uint64_t i = 0; problem == NULL && i < pieces; i++) {
        uint64_t from = i * RUN_PIECE;
        size_t n = len - from < RUN_PIECE ? (size_t)(len - from) : RUN_PIECE;
        at = window(s, ((s->page + head_pages) << shift) + from, n);
        if (at == NULL || crcs[i] != crc32c(0, at, n)) {
            problem = "checksum of a piece of a long run does not match";
        }
    }
    free(crcs);
    return problem;
}

static const char *page_sum_problem(struct scan *s, uint64_t *pages)
{
    uint32_t size = s->store->page_size;
    const uint8_t *at = window(s, s->page << s->store->page_shift, size);
    const struct page *p = (const struct page *)(const void *)at;
    *pages = 1;
    if (at == NULL) {
        return "cannot be read";
    }
    if (p->number != s->page) {
        return "misplaced (number is another's)";
    }
    switch (p->kind) {
    case PAGE_LEAF:
    case PAGE_BRANCH:
    case PAGE_SPACE:
        return p->crc == page_crc(p, size) ? NULL : "checksum does not match";
    case PAGE_OVERFLOW:
    case PAGE_CATALOGUE:
        return plain_run_problem(s, p->run_len, pages);
    case PAGE_FILE_RUN:
        return long_run_problem(s, p->run_len, pages);
    default:
        return "unknown kind of page";
    }
}

/* Looks at what begins at s->page and goes on behind it. */
static void scan_one(struct scan *s)
{
    uint64_t pages;
    const uint8_t *at = window(s, s->page << s->store->page_shift, PAGE_HEADER);
    bool another = at != NULL && ((const struct page *)(const void *)at)->number != s->page;
    if (s->lost && another) {
        s->page++; /* belongs, as far as can be told, to what is damaged */
        return;
    }
    const char *problem = page_sum_problem(s, &pages);
    s->lost = problem != NULL;
    if (problem != NULL) {
        pages = 1; /* its length may be what is damaged */
        scan_finding(s, s->page, problem);
    }
    s->checked += pages;
    s->page += pages;
}

int ps_verify_pages(struct ps_store *store, const struct ps_watch *watch, uint64_t *checked)
{
    static const struct ps_watch nobody;
    struct scan s = {.store = store,
                     .watch = watch == NULL ? &nobody : watch,
                     .pages = space_pages(&store->space),
                     .page = META_RESERVED >> store->page_shift};
    uint64_t shown = 0;
    while (s.rc == 0 && s.page < s.pages) {
        if (!space_is_live(&store->space, s.page)) {
            s.page++;
            s.lost = false;
            continue;
        }
        scan_one(&s);
        if (s.watch->progress != NULL && s.page - shown >= PROGRESS_PAGES) {
            shown = s.page;
            s.rc = s.watch->progress(s.watch->arg, s.page, s.pages) ? 0 : PS_ENDED;
        }
    }
    free(s.bytes);
    *checked = s.checked;
    return s.rc != 0 ? s.rc : s.findings > 0 ? PS_CORRUPT : 0;
}
