/*
 * The checkpoint: pick a state T and pin it, log durable through T; pages and space map; sync; meta
 * 1 and its sync; meta 2 and its sync; adoption of the list slot -> page, and the pin goes.
 *
 * Invariants:
 *  1. Only slots of T without a file page get one; their parents are written with translated
 * children.
 *  2. The space map holds T's pages and the map itself, nothing else: births up to T minus deaths
 * up to T.
 *  3. Fresh pages born up to T are claimed at the start, and enter the map unless they died up to
 * T, too; an abandoned checkpoint returns its claims.
 *  4. A slot that died between the walk and the adoption passes its death on to its page.
 */
#include "tests/explorer/model.h"

#include <string.h>

static uint8_t newest_durable_stamp(const struct world *w)
{
    uint8_t a = w->meta_disk[0].state.stamp;
    uint8_t b = w->meta_disk[1].state.stamp;
    return a > b ? a : b;
}

static uint8_t newest_durable_seq(const struct world *w)
{
    const struct desc *a = &w->meta_disk[0].state, *b = &w->meta_disk[1].state;
    return a->stamp > b->stamp ? a->seq : b->seq;
}

/* T by argument: the published state, a reader's, or (only a broken rule does that) the newest. */
static const struct desc *candidate(const struct world *w, const struct model *m, unsigned arg)
{
    if (arg == 0)
        return &w->published;
    if (arg <= READERS)
        return w->reader_pc[arg - 1] == READER_READING && !w->reader_moved[arg - 1] &&
                       w->reader[arg - 1].stamp != w->published.stamp
                   ? &w->reader[arg - 1]
                   : 0;
    return w->queued && !holds(m, RULE_CHECKPOINT_OF_PUBLISHED) ? world_head(w) : 0;
}

static bool start(struct world *w, const struct model *m, unsigned arg)
{
    const struct desc *t = candidate(w, m, arg);

    if (!t || w->checkpoint_pc != CHECKPOINT_NONE || w->poisoned ||
        w->used_checkpoints == m->bounds->checkpoints)
        return false;
    if (t->root & PAGE_TAG ? t->seq == newest_durable_seq(w) : w->slot_page[t->root] != NONE)
        return false;
    if (t->stamp < newest_durable_stamp(w) && holds(m, RULE_CHECKPOINT_NEVER_GOES_BACK))
        return false;
    w->used_checkpoints++;
    w->checkpoint = *t;
    w->checkpoint_pc = CHECKPOINT_PINNED;
    for (int p = 0; p < PAGES; p++)
        if (w->page_fresh[p] == FRESH_LISTED && w->page_birth[p] <= t->stamp)
            w->page_fresh[p] = FRESH_CLAIMED;
    if (holds(m, RULE_LOG_THROUGH_CHECKPOINT)) {
        for (uint8_t s = 1; s <= t->seq; s++)
            if (!w->log_lost[s])
                w->log_disk[s] = w->log[s];
        if (w->log_synced < t->seq && t->seq <= w->log_written)
            w->log_synced = t->seq;
        log_acknowledge(w, m);
    }
    return true;
}

/* The file page of a child of T, taking one when it has none. */
static uint8_t place(struct world *w, uint8_t pointer)
{
    if (pointer & PAGE_TAG)
        return pointer;
    if (w->slot_page[pointer] != NONE)
        return PAGE_TAG | w->slot_page[pointer];
    if (w->checkpoint_page[pointer] == NONE) {
        uint8_t p = world_take_page(w, w->slot[pointer].birth);
        w->page[p] = w->slot[pointer];
        w->checkpoint_page[pointer] = p;
    }
    return PAGE_TAG | w->checkpoint_page[pointer];
}

/* Whether the map takes in a page that a transaction took, and that no map had before. */
static bool map_has_fresh(const struct world *w, const struct model *m, int p)
{
    uint8_t d = w->page_death[p];

    if (w->page_fresh[p] == FRESH_CLAIMED)
        return holds(m, RULE_MAP_TAKES_FRESH_IN) &&
               (!d || d > w->checkpoint.stamp || !holds(m, RULE_MAP_LEAVES_OUT_FRESH_DEAD));
    return w->page_fresh[p] == FRESH_LISTED && !holds(m, RULE_MAP_LEAVES_OUT_FRESH);
}

static uint16_t space_map(const struct world *w, const struct model *m)
{
    uint8_t t = w->checkpoint.stamp;
    uint16_t map = 0;

    for (int p = 0; p < PAGES; p++) {
        uint8_t d = w->page_death[p];
        bool fresh = p == w->checkpoint_map;
        if (w->page_owner[p] && holds(m, RULE_MAP_LEAVES_OUT_MOVED))
            continue;
        if (w->page_fresh[p] && !map_has_fresh(w, m, p))
            continue;
        if (w->page_fresh[p]) {
            map |= (uint16_t)(1u << p);
            continue;
        }
        if (!w->page_used[p] || w->page_birth[p] > t || (w->page[p].kind == NODE_MAP && !fresh))
            continue;
        if (d && d <= t && holds(m, RULE_MAP_DROPS_EARLIER_DEATHS))
            continue;
        if (d > t && !holds(m, RULE_MAP_KEEPS_LATER_DEATHS))
            continue;
        map |= (uint16_t)(1u << p);
    }
    return map;
}

static bool write_pages(struct world *w, const struct model *m)
{
    struct node *root;
    uint16_t map;
    uint8_t at;

    if (world_free_pages(w) < KEYS + 2)
        return false;
    at = place(w, w->checkpoint.root);
    root = &w->page[at & ~PAGE_TAG];
    for (int k = 0; k < KEYS && !(w->checkpoint.root & PAGE_TAG); k++)
        root->item[k] = place(w, root->item[k]);
    w->checkpoint_root = at;
    w->checkpoint_map = world_take_page(w, w->checkpoint.stamp);
    map = space_map(w, m);
    w->page[w->checkpoint_map] =
        (struct node){NODE_MAP, w->checkpoint.stamp, {(uint8_t)map, (uint8_t)(map >> 8)}, {0, 0}};
    return true;
}

static void write_meta(struct world *w, int i)
{
    w->meta[i] = (struct meta){1, w->checkpoint_map, w->checkpoint};
    w->meta[i].state.root = w->checkpoint_root;
}

/* fdatasync of the data file: pages and metas alike. */
static void sync_data(struct world *w)
{
    memcpy(w->page_disk, w->page, sizeof w->page);
    memcpy(w->meta_disk, w->meta, sizeof w->meta);
}

/* Both metas name T: the space map of the state before belongs to nobody. */
static void free_old_map(struct world *w)
{
    for (uint8_t p = 0; p < PAGES; p++)
        if (w->page[p].kind == NODE_MAP && p != w->checkpoint_map)
            world_free_page(w, p);
}

static void forget(struct world *w)
{
    memset(&w->checkpoint, 0, sizeof w->checkpoint);
    memset(w->checkpoint_page, NONE, sizeof w->checkpoint_page);
    w->checkpoint_root = w->checkpoint_map = 0;
    w->checkpoint_pc = CHECKPOINT_NONE;
}

/* What becomes of what was claimed: the map has it, or it waits for the next one. */
static void end_claims(struct world *w, enum fresh now)
{
    for (int p = 0; p < PAGES; p++)
        if (w->page_fresh[p] == FRESH_CLAIMED)
            w->page_fresh[p] = (uint8_t)now;
}

static void adopt(struct world *w, const struct model *m)
{
    for (int s = 0; s < SLOTS; s++) {
        uint8_t p = w->checkpoint_page[s];
        if (p == NONE)
            continue;
        w->slot_page[s] = p;
        if (holds(m, RULE_DEATHS_PASSED_TO_PAGES))
            w->page_death[p] = w->slot_death[s];
    }
    end_claims(w, FRESH_NOT);
    forget(w);
}

static bool advance(struct world *w, const struct model *m)
{
    if (w->checkpoint_pc == CHECKPOINT_NONE || w->poisoned)
        return false;
    switch (w->checkpoint_pc) {
    case CHECKPOINT_PINNED:
        if (!write_pages(w, m))
            return false;
        if (!holds(m, RULE_DATA_SYNC_BEFORE_META))
            w->checkpoint_pc++;
        break;
    case CHECKPOINT_WRITTEN:
        sync_data(w);
        break;
    case CHECKPOINT_SYNCED:
        write_meta(w, 0);
        break;
    case CHECKPOINT_META1_WRITTEN:
        sync_data(w);
        if (w->acked_device < w->checkpoint.seq)
            w->acked_device = w->checkpoint.seq;
        break;
    case CHECKPOINT_META1_SYNCED:
        write_meta(w, 1);
        break;
    case CHECKPOINT_META2_WRITTEN:
        sync_data(w);
        free_old_map(w);
        break;
    default:
        adopt(w, m);
        return true;
    }
    w->checkpoint_pc++;
    return true;
}

/* ENOSPC: the checkpoint gives its pages back, and its claims. */
static bool abandon(struct world *w, const struct model *m)
{
    if (w->checkpoint_pc != CHECKPOINT_WRITTEN)
        return false;
    for (int s = 0; s < SLOTS; s++)
        if (w->checkpoint_page[s] != NONE)
            world_free_page(w, w->checkpoint_page[s]);
    world_free_page(w, w->checkpoint_map);
    end_claims(w, holds(m, RULE_ABANDONED_RETURNS_CLAIMS) ? FRESH_LISTED : FRESH_FORGOTTEN);
    forget(w);
    return true;
}

bool checkpoint_step(struct world *w, const struct model *m, enum action_kind kind, unsigned arg)
{
    switch (kind) {
    case ACT_CHECKPOINT_START:
        return start(w, m, arg);
    case ACT_CHECKPOINT_STEP:
        return advance(w, m);
    case ACT_CHECKPOINT_ABANDON:
        return abandon(w, m);
    default:
        return false;
    }
}
