/*
 * recovery.c - from a meta and the log to the last committed state (replay.c does the commits).
 *
 *  Y0 A store whose making was interrupted is made anew: it was never served. Its metas are blank,
 * or the first is torn while the second was not begun, which is written after that. Y1 The newest
 * valid meta is taken. If the other is damaged, this one may be the older of the two; then the log
 * has to begin at its position, which log_scan checks. Y2 Both metas are written again and synced
 * before anything is reused or appended: what this process can read may never have reached the
 * device. The one that was taken comes first: only the other one is sure to be there, if syncs
 * failed. But if that is damaged it comes first, for the one that was taken must not be torn. Y3
 * The log is made durable through the last complete commit before that commit is served. Y4 Stamps
 * go on more than 2^32 after the highest that was seen, from a random point, so that none is used
 * twice (I1), not even by two recoveries from the same meta.
 *
 * A crash during recovery changes nothing: it begins again.
 */
#include <sys/random.h>

#include "storage/store.h"
#include "storage/tree_options.h"

/* ---- metas ----------------------------------------------------------------------------------- */

static int read_meta(struct ps_store *store, unsigned k, struct meta *meta, bool *blank)
{
    uint8_t buf[META_BYTES] = {0};
    static const uint8_t zeros[META_BYTES];
    ssize_t n = store->vfs->pread(store->vfs->ctx, store->fd, buf, sizeof buf, k * META_STRIDE);
    if (n < 0) {
        return store_fault(store, PS_IO, (int)n, store->file_path, k * META_STRIDE,
                           "reading a meta");
    }
    *blank = memcmp(buf, zeros, sizeof buf) == 0;
    return meta_decode(buf, meta);
}

/* Whether nothing stands between the two metas, as in a file that we began. */
static bool nothing_after_first_meta(struct ps_store *store)
{
    size_t len = META_STRIDE - META_BYTES;
    uint8_t *buf = calloc(1, len);
    ssize_t n =
        buf == NULL ? -1 : store->vfs->pread(store->vfs->ctx, store->fd, buf, len, META_BYTES);
    bool nothing = n >= 0;
    for (size_t i = 0; nothing && i < len; i++) {
        nothing = buf[i] == 0;
    }
    free(buf);
    return nothing;
}

int recovery_choose_meta(struct ps_store *store, struct meta *meta, enum newness *found,
                         struct ps_fault *fault)
{
    struct meta metas[2] = {{0}};
    int rc[2];
    bool blank[2] = {false, false};
    for (unsigned k = 0; k < 2; k++) {
        rc[k] = read_meta(store, k, &metas[k], &blank[k]);
        if (rc[k] == PS_IO) {
            ps_last_fault(store, fault);
            return PS_IO;
        }
    }
    *found = !blank[1] || rc[0] == 0 || rc[0] == PS_VERSION ? NEW_NOT
             : blank[0]                                     ? NEW_BLANK
             : nothing_after_first_meta(store)              ? NEW_TORN
                                                            : NEW_NOT;
    if (*found != NEW_NOT) {
        return 0;
    }
    int k = meta_choose(metas, rc);
    if (k < 0) {
        int code = rc[0] == PS_VERSION || rc[1] == PS_VERSION ? PS_VERSION : PS_CORRUPT;
        fault_set(fault, code, 0, store->file_path, 0,
                  code == PS_VERSION ? "another format version" : "neither meta is valid");
        return code;
    }
    if (rc[0] == 0 && rc[1] == 0 &&
        (memcmp(metas[0].id, metas[1].id, sizeof metas[0].id) != 0 ||
         metas[0].page_size != metas[1].page_size)) {
        fault_set(fault, PS_CORRUPT, 0, store->file_path, META_STRIDE,
                  "the metas are those of two stores");
        return PS_CORRUPT;
    }
    *meta = metas[k];
    store->meta_first = k;
    if (rc[1 - k] != 0 ? ps_rule(RULE_DAMAGED_META_FIRST) : !ps_rule(RULE_TAKEN_META_FIRST)) {
        store->meta_first = 1 - k;
    }
    if (rc[1 - k] != 0) {
        store_message(store, 1, "%s: meta %c is damaged (%s), using meta %c", store->file_path,
                      'B' - k, ps_strerror(rc[1 - k]), 'A' + k);
    }
    return 0;
}

/* ---- the catalogue ----------------------------------------------------------------------------
 */

static int catalogue_bad(struct ps_store *store, struct ps_fault *fault, const char *what)
{
    fault_set(fault, PS_CORRUPT, 0, store->file_path,
              store->meta.catalogue.ref << store->page_shift, "catalogue: %s", what);
    return PS_CORRUPT;
}

/* What no tree of this file can be: its root lies elsewhere, or it has more entries than fit. */
static bool root_possible(struct ps_store *store, const struct tree_root *t)
{
    uint64_t most = store->space.pages * (store->page_size / 10); /* a cell and its index: 10 */
    if (t->root.ref == 0) {
        return t->level == 0 && t->root.birth == 0 && t->root.count == 0;
    }
    return t->level < TREE_MAX_LEVELS && !ref_in_arena(t->root.ref) &&
           child_entries(&t->root) > 0 && child_entries(&t->root) <= most &&
           t->root.birth <= store->meta.stamp && pages_belong(store, t->root.ref, 1, t->root.birth);
}

static bool name_is_taken(const struct state *state, uint32_t id, const struct tree_name *name)
{
    for (uint32_t i = 0; i < state->ntrees; i++) {
        if (i != id && state->trees[i].name == name) { /* equal names are interned once */
            return true;
        }
    }
    return false;
}

static int parse_catalogue(struct ps_store *store, struct state *state, const uint8_t *at,
                           const uint8_t *end, struct ps_fault *fault)
{
    uint32_t trees;
    if (end - at < 4) {
        return catalogue_bad(store, fault, "too short");
    }
    memcpy(&trees, at, 4);
    at += 4;
    for (uint32_t i = 0; i < trees; i++) {
        uint32_t id;
        if (end - at < 5 || end - at < 5 + at[4] + 25) {
            return catalogue_bad(store, fault, "too short");
        }
        memcpy(&id, at, 4);
        if (id >= PS_MAX_TREES || at[4] == 0 || state_room(state, id + 1) != 0) {
            return catalogue_bad(store, fault, "tree number out of range");
        }
        while (state->ntrees <= id) {
            memset(&state->trees[state->ntrees++], 0, sizeof *state->trees);
        }
        struct tree_root *t = &state->trees[id];
        if (t->name != NULL) {
            return catalogue_bad(store, fault, "a tree number twice");
        }
        t->name = name_intern(store, (struct ps_slice){at + 5, at[4]});
        at += 5 + at[4];
        t->level = *at & ~LEVEL_OPTIONS;
        bool has_options = (*at++ & LEVEL_OPTIONS) != 0;
        memcpy(&t->root, at, 24);
        at += 24;
        if (t->name == NULL) {
            return PS_NOMEM;
        }
        if (has_options) {
            if (end - at < 1 || end - at < 1 + *at ||
                tree_options_read(store, (struct ps_slice){at + 1, *at}, t) != 0) {
                return catalogue_bad(store, fault, "impossible options of a tree");
            }
            at += 1 + *at;
        }
        if (name_is_taken(state, id, t->name)) {
            return catalogue_bad(store, fault, "a tree name twice");
        }
        if (!root_possible(store, t)) {
            return catalogue_bad(store, fault, "impossible root");
        }
        if (t->root.ref != 0 && store->stat.depth_max < t->level + 1u) {
            store->stat.depth_max = t->level + 1u;
        }
        store->long_keys = store->long_keys || (t->root.count & CHILD_OVERFLOW) != 0;
    }
    return at == end ? 0 : catalogue_bad(store, fault, "too long");
}

/* The state that the meta names, all references in the file. */
int recovery_load_state(struct ps_store *store, struct state *state, struct ps_fault *fault)
{
    const struct meta *m = &store->meta;
    uint64_t pages = m->catalogue.len > UINT32_MAX
                         ? UINT64_MAX
                         : plain_pages(m->catalogue.len, store->page_shift);
    if (m->catalogue.ref < META_RESERVED >> store->page_shift || pages > store->space.pages ||
        m->catalogue.ref > store->space.pages - pages) {
        return catalogue_bad(store, fault, "outside the file");
    }
    if (!pages_belong(store, m->catalogue.ref, pages, m->catalogue.birth)) {
        return catalogue_bad(store, fault, "in pages that the space map has free");
    }
    const struct page *p = page_at(store, m->catalogue.ref);
    if (p->kind != PAGE_CATALOGUE || p->number != m->catalogue.ref ||
        p->birth != m->catalogue.birth || p->run_len != m->catalogue.len) {
        return catalogue_bad(store, fault, "stale or misplaced");
    }
    if (p->crc != page_crc(p, PAGE_HEADER + (size_t)m->catalogue.len)) {
        return catalogue_bad(store, fault, "checksum does not match");
    }
    atomic_store(&state->stamp, m->stamp);
    state->seq = m->seq;
    state->pos = m->pos;
    state->ntrees = 0;
    const uint8_t *at = (const uint8_t *)p + PAGE_HEADER;
    return parse_catalogue(store, state, at, at + m->catalogue.len, fault);
}

/* First pass: to where the log reaches, durable through it. Nothing was changed yet if it refuses.
 */
static int read_log(struct ps_store *store, struct log_pos *end, struct ps_recovery *report,
                    struct ps_fault *fault)
{
    struct log_pos from = store->meta.pos;
    struct log_stats stats;
    log_get_stats(store->log, &stats);
    if (stats.segments == 0 && from.position != 0) { /* 0: a copy, which has none (copy.h) */
        fault_set(fault, PS_CORRUPT, 0, store->dir, from.position,
                  "the log is missing: there is no segment, and a store has at least one");
        return PS_CORRUPT;
    }
    int rc = log_scan(store->log, &from, end, &report->torn_bytes, fault);
    if (rc == PS_CORRUPT && !ps_rule(RULE_OLDER_META_WITH_LOG)) {
        *end = from;
        rc = 0;
    }
    rc = rc == 0 && ps_rule(RULE_SYNC_BEFORE_SERVING)
             ? log_sync_range(store->log, &from, end, fault)
             : rc;
    report->log_from = from.position;
    report->log_to = end->position;
    if (rc == 0 && end->seq == from.seq) {
        /* Nothing to replay: the metas may as well name the end, so that segments come free. */
        store->meta.pos = store->tip->pos = store->file_state->pos = *end;
    }
    return rc;
}

static void jump_stamps(struct ps_store *store)
{
    if (!ps_rule(RULE_STAMPS_JUMP)) {
        return;
    }
    uint32_t random = 0;
    (void)!getrandom(&random, sizeof random, 0);
    store->next_stamp = (store->next_stamp | UINT32_MAX) + 1 + random;
}

int recover(struct ps_store *store, struct ps_recovery *report, struct ps_fault *fault)
{
    bool synced = ps_rule(RULE_SYNC_META_AT_REOPEN);
    int err = synced ? store->vfs->fdatasync(store->vfs->ctx, store->fd) : 0;
    if (err != 0) {
        fault_set(fault, PS_IO, err, store->file_path, 0, "syncing the data file");
        return PS_IO;
    }
    struct log_pos end;
    int rc = read_log(store, &end, report, fault);
    if (rc != 0) {
        return rc;
    }
    if (synced && ps_rule(RULE_REPAIR_OTHER_META)) {
        rc = meta_write_both(store, &store->meta, store->meta_first, NULL);
    }
    if (rc != 0) {
        ps_last_fault(store, fault);
        return rc;
    }
    report->checkpoint_seq = store->meta.seq;
    jump_stamps(store);
    rc = replay(store, &end, report, fault);
    jump_stamps(store);
    return rc;
}
