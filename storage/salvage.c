/*
 * salvage.c - what is readable of a damaged store, into a new one (inspect.h has the rules).
 *
 * In this order: page size; which pages of the file are whole (salvage_scan.c); the catalogue; the
 * trees from their roots, and leaves found without their parents (salvage_trees.c); the log
 * (salvage_log.c). The new store has no log while it is written; a checkpoint at the end completes
 * it.
 *
 * Threads: one. A crash leaves the old store as it was, and part of a new one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#include "storage/salvage.h"
#include "storage/tree_options.h"

#define TXN_OPS   20000u
#define TXN_BYTES (UINT64_C(8) << 20)

void salvage_finding(struct salvage *s, page_ref page, const char *format, ...)
{
    struct ps_fault fault;
    char what[sizeof fault.what];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    s->report->findings++;
    if (s->watch->finding != NULL) {
        fault_set(&fault, PS_CORRUPT, 0, s->from->file_path, page << s->from->page_shift, "%s",
                  what);
        s->watch->finding(s->watch->arg, &fault);
    }
}

const char *salvage_key(struct ps_slice key, char out[80])
{
    const uint8_t *at = key.data;
    size_t n = 0;
    for (size_t i = 0; i < key.len && n < 32; i++) {
        bool plain = at[i] >= ' ' && at[i] < 0x7f && at[i] != '\\';
        n += (size_t)snprintf(out + n, 80 - n, plain ? "%c" : "\\%02x", at[i]);
        if (n >= 32 && i + 1 < key.len) {
            n += (size_t)snprintf(out + n, 80 - n, "...");
        }
    }
    out[n] = '\0';
    return out;
}

/* ---- the new store ----------------------------------------------------------------------------
 */

static int failed(struct salvage *s, int rc)
{
    if (rc != 0 && s->fault->code == 0) {
        ps_last_fault(s->to, s->fault);
        if (s->fault->code == 0) {
            fault_set(s->fault, rc, 0, s->to->dir, 0, "writing the new store: %s", ps_strerror(rc));
        }
    }
    return rc;
}

static int running(struct salvage *s)
{
    int rc = s->txn != NULL ? 0 : ps_begin(s->to, &s->txn);
    if (rc == 0 && s->txn_ops == 0) {
        ps_keep_whole(s->txn);
    }
    return failed(s, rc);
}

int salvage_commit(struct salvage *s, bool now)
{
    if (s->txn == NULL || (!now && s->txn_ops < TXN_OPS && s->txn_bytes < TXN_BYTES)) {
        return 0;
    }
    struct ps_txn *txn = s->txn;
    s->txn = NULL;
    s->txn_ops = s->txn_bytes = 0;
    return failed(s, ps_commit(txn, PS_NONE, NULL));
}

int salvage_tree(struct salvage *s, struct ps_slice name, size_t *tree)
{
    for (size_t i = 0; i < s->trees.n; i++) {
        if (s->trees.at[i].name_len == name.len &&
            memcmp(s->trees.at[i].name, name.data, name.len) == 0) {
            *tree = i;
            return 0;
        }
    }
    struct old_tree made = {.name_len = (uint8_t)name.len};
    int rc = running(s);
    rc = rc == 0 ? failed(s, ps_tree_create(s->txn, name, &made.made)) : rc;
    char *copy = rc == 0 ? malloc(name.len) : NULL;
    if (rc == 0 && (copy == NULL || !vec_reserve(&s->trees, 1))) {
        free(copy);
        rc = PS_NOMEM;
    }
    if (rc != 0) {
        return rc;
    }
    memcpy(copy, name.data, name.len);
    made.name = copy;
    s->txn_ops++;
    *tree = s->trees.n;
    s->trees.at[s->trees.n++] = made;
    s->report->trees++;
    return 0;
}

int salvage_known_tree(struct salvage *s, const struct tree_root *t, size_t *tree)
{
    struct ps_tree_options options;
    int rc = salvage_tree(s, (struct ps_slice){t->name->bytes, t->name->len}, tree);
    rc = rc == 0 ? running(s) : rc;
    if (rc == 0) {
        tree_options_of(s->from, t, &options);
        rc = failed(s, ps_tree_set(s->txn, s->trees.at[*tree].made, &options));
    }
    return rc;
}

int salvage_put(struct salvage *s, size_t tree, struct ps_slice key, struct ps_slice value,
                bool if_absent)
{
    ps_tree made = s->trees.at[tree].made;
    int rc = running(s);
    if (rc == 0 && if_absent) {
        struct ps_slice there;
        rc = ps_get(ps_txn_view(s->txn), made, key, &there);
        if (rc == 0) {
            return 0;
        }
        rc = rc == PS_NOTFOUND ? 0 : failed(s, rc);
    }
    rc = rc == 0 ? failed(s, ps_put(s->txn, made, key, value)) : rc;
    if (rc != 0) {
        return rc;
    }
    s->report->entries++;
    s->txn_ops++;
    s->txn_bytes += key.len + value.len;
    return salvage_commit(s, false);
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static int make_store(struct salvage *s, const char *to)
{
    struct ps_options options = {.durability = PS_NONE, .page_size = s->report->page_size};
    struct ps_recovery recovery;
    int rc = ps_open(to, &options, &s->to, &recovery, s->fault);
    if (rc == 0 && !recovery.created) {
        fault_set(s->fault, PS_EXISTS, 0, to, 0, "the directory holds a store already");
        rc = PS_EXISTS;
    }
    return rc;
}

/* Before anything is opened for writing. */
static int refuse_store(const char *to, struct ps_fault *fault)
{
    struct ps_meta metas[2];
    struct ps_fault unused;
    if (ps_read_metas(to, metas, NULL, &unused) == 0) {
        fault_set(fault, PS_EXISTS, 0, to, 0, "there is a pando.db here already");
        return PS_EXISTS;
    }
    return 0;
}

static void take_metas(struct salvage *s, const struct ps_meta metas[2], int newest)
{
    struct meta both[2];
    s->report->metas = newest >= 0;
    for (unsigned k = 0; k < 2; k++) {
        if (metas[k].code != 0) {
            salvage_finding(s, 0, "meta %c (byte %" PRIu64 ") cannot be read: %s", 'A' + (int)k,
                            k * META_STRIDE, ps_strerror(metas[k].code));
        }
    }
    if (newest >= 0) {
        uint8_t buf[META_BYTES] = {0};
        (void)s->from->vfs->pread(s->from->vfs->ctx, s->from->fd, buf, sizeof buf,
                                  (uint64_t)newest * META_STRIDE);
        s->has_meta = meta_decode(buf, &both[newest]) == 0;
        s->meta = both[newest];
    }
    if (s->has_meta && s->meta.file_pages > s->pages) {
        salvage_finding(s, s->pages,
                        "the file ends here: its meta says %" PRIu64 " pages, not %" PRIu64,
                        s->meta.file_pages, s->pages);
    }
}

static int make_buffers(struct salvage *s)
{
    size_t size = s->from->page_size;
    uint8_t *room = malloc(size * 2 * TREE_MAX_LEVELS);
    if (room == NULL) {
        return PS_NOMEM;
    }
    for (unsigned level = 0; level < TREE_MAX_LEVELS; level++) {
        s->keybuf[level][0] = room + 2 * level * size;
        s->keybuf[level][1] = room + (2 * level + 1) * size;
    }
    return 0;
}

/* What could not be read at all (lost.h) is missing from what was copied, wherever it belonged. */
static void find_losses(struct salvage *s)
{
    if (lost_since(s->from, 0)) {
        struct ps_fault fault;
        (void)lost_report(s->from);
        ps_last_fault(s->from, &fault);
        salvage_finding(s, fault.offset >> s->from->page_shift, "%s", fault.what);
    }
}

static int copy_all(struct salvage *s, const char *from)
{
    int rc = make_buffers(s);
    rc = rc == 0 ? salvage_scan(s) : rc;
    rc = rc == 0 ? salvage_catalogue(s) : rc;
    rc = rc == 0 ? salvage_trees(s) : rc;
    rc = rc == 0 ? salvage_orphans(s) : rc;
    find_losses(s);
    rc = rc == 0 ? salvage_log(s, from) : rc;
    return rc == 0 ? salvage_commit(s, true) : rc;
}

static void forget(struct salvage *s)
{
    for (size_t i = 0; i < s->holes.n; i++) {
        vec_free(&s->holes.at[i].low);
        vec_free(&s->holes.at[i].high);
    }
    for (size_t i = 0; i < s->trees.n; i++) {
        free(s->trees.at[i].name);
    }
    vec_free(&s->holes);
    vec_free(&s->trees);
    free(s->keybuf[0][0]);
    decoded_free(&s->decoded);
    free(s->marks);
    free(s->owners);
    if (s->state != NULL) {
        state_give_back(s->from, s->state);
    }
}

int ps_salvage(const char *from, const char *to, const struct ps_watch *watch,
               struct ps_salvage_report *report, struct ps_fault *fault)
{
    static const struct ps_watch nobody;
    struct salvage s = {.watch = watch == NULL ? &nobody : watch, .report = report, .fault = fault};
    struct ps_meta metas[2];
    int newest;
    *report = (struct ps_salvage_report){0};
    *fault = (struct ps_fault){0};
    int rc = refuse_store(to, fault);
    rc = rc == 0 ? ps_read_metas(from, metas, &newest, fault) : rc;
    rc = rc == 0 ? salvage_page_size(from, metas, newest, &report->page_size, fault) : rc;
    rc = rc == 0 ? store_open_damaged(from, report->page_size, &s.from, fault) : rc;
    if (rc != 0) {
        return rc;
    }
    s.pages = space_pages(&s.from->space);
    s.reserved = META_RESERVED >> s.from->page_shift;
    take_metas(&s, metas, newest);
    rc = make_store(&s, to);
    rc = rc == 0 ? copy_all(&s, from) : rc;
    forget(&s);
    if (s.txn != NULL) {
        ps_abort(s.txn);
    }
    int closed = s.to == NULL ? 0 : ps_close(s.to, rc == 0);
    (void)ps_close(s.from, false);
    if (rc == 0 && closed != 0) {
        fault_set(fault, closed, 0, to, 0, "completing the new store: %s", ps_strerror(closed));
        rc = closed;
    }
    return rc != 0 ? rc : report->findings > 0 ? PS_CORRUPT : 0;
}
