/*
 * The writer (groups, units with a savepoint, relinking) and the readers. What units spill:
 * spill.c.
 *
 * Invariants:
 *  1. A page is changed in place only if it was born after `floor`: the innermost savepoint, or
 * what the transaction started from.
 *  2. Copying the root replaces children that have a file page (relinking), not under a savepoint.
 *  3. A group starts only with slot credit for its worst case: two slots.
 */
#include "tests/explorer/model.h"

#include <string.h>

/* Replaces a slot by its file page in a parent. The slot dies, the page lives. */
static uint8_t relinked(struct world *w, const struct model *m, uint8_t slot, uint8_t stamp)
{
    uint8_t page = w->slot_page[slot];

    w->slot_death[slot] = stamp;
    if (!holds(m, RULE_RELINK_KEEPS_PAGE))
        w->page_death[page] = stamp;
    return PAGE_TAG | page;
}

static bool can_relink(const struct world *w, uint8_t pointer)
{
    return !(pointer & PAGE_TAG) && w->slot_page[pointer] != NONE;
}

/* Makes d's root writable and returns its slot; `except` is the child about to be replaced. */
static uint8_t own_root(struct world *w, const struct model *m, struct desc *d, uint8_t floor,
                        int except)
{
    bool relink = !w->savepoint_open || !holds(m, RULE_NO_RELINK_IN_SAVEPOINT);
    uint8_t s = d->root;

    if ((d->root & PAGE_TAG) || w->slot[d->root].birth <= floor) {
        s = world_take_slot(w);
        w->slot[s] = *world_node(w, d->root);
        w->slot[s].birth = d->stamp;
        spill_drop(w, m, d->root, d->stamp);
        d->root = s;
        d->root_birth = d->stamp;
    }
    for (int k = 0; k < KEYS && relink; k++)
        if (k != except && can_relink(w, w->slot[s].item[k]))
            w->slot[s].item[k] = relinked(w, m, w->slot[s].item[k], d->stamp);
    return s;
}

static void write_key(struct world *w, const struct model *m, struct desc *d, unsigned key,
                      uint8_t value, uint8_t floor)
{
    uint8_t root = own_root(w, m, d, floor, (int)key);
    uint8_t leaf = w->slot[root].item[key];
    uint8_t page = leaf & ~PAGE_TAG;

    d->value[key] = value;
    if (!holds(m, RULE_SPILLED_NOT_CHANGED) && (leaf & PAGE_TAG) && w->page_fresh[page] &&
        w->page_birth[page] > floor) {
        w->page[page].item[0] = value;
        world_sweep_page(w, page);
        return;
    }
    if ((leaf & PAGE_TAG) || w->slot[leaf].birth <= floor) {
        uint8_t s = world_take_slot(w);
        w->slot[s] = (struct node){NODE_LEAF, d->stamp, {0, 0}, {0, 0}};
        spill_drop(w, m, leaf, d->stamp);
        leaf = s;
        w->slot[root].item[key] = s;
        w->slot[root].born[key] = d->stamp;
    }
    w->slot[leaf].item[0] = value;
}

static bool may_write(const struct world *w, const struct model *m)
{
    return !w->log_failed && !w->poisoned && w->used_writes < m->bounds->writes &&
           world_free_slots(w) >= 2;
}

/* Puts a committed state into the queue of unpublished ones, with its log record. */
static void commit(struct world *w, struct desc d, const uint8_t value[KEYS])
{
    d.seq = (uint8_t)(world_head(w)->seq + 1);
    memcpy(w->history[d.seq], value, KEYS);
    w->history_len = d.seq;
    w->queue[w->queued++] = d;
}

static bool execute(struct world *w, const struct model *m, unsigned key)
{
    struct desc d = *world_head(w);
    uint8_t value[KEYS] = {0, 0};
    uint8_t floor;

    if (w->txn_open || w->queued == QUEUE || d.seq + 1 >= SEQS || !may_write(w, m))
        return false;
    d.stamp = ++w->stamp;
    floor = holds(m, RULE_COPY_BEFORE_WRITE) ? (uint8_t)(d.stamp - 1) : 0;
    value[key] = ++w->used_writes;
    write_key(w, m, &d, key, value[key], floor);
    commit(w, d, value);
    return true;
}

bool unit_savepoint(struct world *w, const struct model *m)
{
    if (!w->txn_open || w->savepoint_open || w->used_savepoints == m->bounds->units)
        return false;
    w->used_savepoints++;
    w->savepoint = w->txn;
    memcpy(w->savepoint_value, w->txn_value, KEYS);
    w->savepoint_open = 1;
    w->txn.stamp = ++w->stamp;
    return true;
}

/* A unit that can roll back: writes one key, then opens a savepoint, at once or later. */
static bool unit_open(struct world *w, const struct model *m, unsigned key)
{
    if (w->txn_open || w->queued == QUEUE || world_head(w)->seq + 1 >= SEQS || !may_write(w, m) ||
        w->used_units == m->bounds->units)
        return false;
    w->used_units++;
    w->txn_open = 1;
    w->txn_start = w->stamp;
    w->txn = *world_head(w);
    w->txn.stamp = ++w->stamp;
    memset(w->txn_value, 0, KEYS);
    w->txn_value[key] = ++w->used_writes;
    write_key(w, m, &w->txn, key, w->txn_value[key], w->txn_start);
    return m->bounds->spills || unit_savepoint(w, m);
}

static bool unit_write(struct world *w, const struct model *m, unsigned key)
{
    uint8_t floor = w->txn_start;

    if (!w->txn_open || !may_write(w, m))
        return false;
    if (w->savepoint_open && holds(m, RULE_COPY_UNDER_SAVEPOINT))
        floor = w->savepoint.stamp;
    w->txn_value[key] = ++w->used_writes;
    write_key(w, m, &w->txn, key, w->txn_value[key], floor);
    return true;
}

static void close_savepoint(struct world *w)
{
    w->savepoint_open = 0;
    memset(&w->savepoint, 0, sizeof w->savepoint);
    memset(w->savepoint_value, 0, KEYS);
}

static bool unit_rollback(struct world *w, const struct model *m)
{
    if (!w->savepoint_open)
        return false;
    world_undo(w, m, w->savepoint.stamp);
    w->txn = w->savepoint;
    memcpy(w->txn_value, w->savepoint_value, KEYS);
    w->txn.stamp = ++w->stamp;
    close_savepoint(w);
    return true;
}

static bool unit_commit(struct world *w)
{
    struct desc d = w->txn;
    uint8_t value[KEYS];

    if (!w->txn_open || w->queued == QUEUE)
        return false;
    memcpy(value, w->txn_value, KEYS);
    w->txn_open = 0;
    w->txn_start = 0;
    memset(&w->txn, 0, sizeof w->txn);
    memset(w->txn_value, 0, KEYS);
    close_savepoint(w);
    world_forget_sweeps(w);
    commit(w, d, value);
    return true;
}

/* The writer's sweep, or an idle store published again with its file root. */
static bool relink(struct world *w, const struct model *m)
{
    struct desc d = *world_head(w);
    bool any = false;

    if (w->txn_open || w->queued == QUEUE || (d.root & PAGE_TAG) || w->log_failed || w->poisoned)
        return false;
    if (can_relink(w, d.root)) {
        d.stamp = ++w->stamp;
        for (int k = 0; k < KEYS; k++)
            if (!(w->slot[d.root].item[k] & PAGE_TAG))
                relinked(w, m, w->slot[d.root].item[k], d.stamp);
        d.root = relinked(w, m, d.root, d.stamp);
    } else {
        for (int k = 0; k < KEYS; k++)
            any |= can_relink(w, w->slot[d.root].item[k]);
        if (!any || !world_free_slots(w))
            return false;
        d.stamp = ++w->stamp;
        own_root(w, m, &d, (uint8_t)(d.stamp - 1), -1);
    }
    w->queue[w->queued++] = d;
    return true;
}

bool writer_step(struct world *w, const struct model *m, enum action_kind kind, unsigned arg)
{
    switch (kind) {
    case ACT_EXECUTE:
        return execute(w, m, arg);
    case ACT_UNIT_OPEN:
        return unit_open(w, m, arg);
    case ACT_UNIT_WRITE:
        return unit_write(w, m, arg);
    case ACT_UNIT_SPILL:
        return spill_step(w, m, arg);
    case ACT_UNIT_SAVEPOINT:
        return m->bounds->spills && unit_savepoint(w, m);
    case ACT_UNIT_ROLLBACK:
        return unit_rollback(w, m);
    case ACT_UNIT_COMMIT:
        return unit_commit(w);
    case ACT_RELINK:
        return relink(w, m);
    default:
        return false;
    }
}

/* The page of a pointer in a reader's state: an adopted image, or a place of the reader's own. */
static uint8_t moved_place(struct world *w, const struct model *m, unsigned reader, uint8_t pointer)
{
    uint8_t p;

    if (pointer & PAGE_TAG)
        return pointer;
    if (w->slot_page[pointer] != NONE)
        return PAGE_TAG | w->slot_page[pointer];
    if (!holds(m, RULE_MOVE_SHARES_ADOPTED) && w->checkpoint_page[pointer] != NONE)
        return PAGE_TAG | w->checkpoint_page[pointer];
    p = world_take_page(w, w->slot[pointer].birth);
    w->page[p] = w->slot[pointer];
    w->page_owner[p] = (uint8_t)(reader + 1);
    return PAGE_TAG | p;
}

/* A long read leaves the arena: its very state gets places of the file, which no map has. */
static bool move(struct world *w, const struct model *m, unsigned r)
{
    struct desc *d = &w->reader[r];

    if (w->reader_pc[r] != READER_READING || (d->root & PAGE_TAG) ||
        w->used_moves == m->bounds->moves || world_free_pages(w) < KEYS + 1)
        return false;
    w->used_moves++;
    d->root = moved_place(w, m, r, d->root);
    if (w->page_owner[d->root & ~PAGE_TAG])
        for (int k = 0; k < KEYS; k++) {
            uint8_t at = moved_place(w, m, r, w->page[d->root & ~PAGE_TAG].item[k]);
            w->page[d->root & ~PAGE_TAG].item[k] = at;
        }
    w->reader_moved[r] = 1;
    return true;
}

bool reader_step(struct world *w, const struct model *m, enum action_kind kind, unsigned arg)
{
    uint8_t *pc = &w->reader_pc[arg];

    if (kind == ACT_READER_LOAD && *pc == READER_IDLE) {
        if (w->used_reads == m->bounds->reads)
            return false;
        w->used_reads++;
        w->reader[arg] = w->published;
        *pc = READER_LOADED;
        return true;
    }
    if (kind == ACT_READER_ANNOUNCE && *pc == READER_LOADED) {
        *pc = READER_ANNOUNCED;
        return true;
    }
    if (kind == ACT_READER_CHECK && *pc == READER_ANNOUNCED &&
        (w->reader[arg].stamp == w->published.stamp || !holds(m, RULE_RECHECK_AFTER_ANNOUNCE))) {
        *pc = READER_READING;
        return true;
    }
    if (kind == ACT_READER_MOVE)
        return move(w, m, arg);
    if ((kind == ACT_READER_CHECK && *pc == READER_ANNOUNCED) ||
        (kind == ACT_READER_WITHDRAW && *pc == READER_READING)) {
        memset(&w->reader[arg], 0, sizeof w->reader[arg]);
        world_free_owned(w, arg);
        *pc = READER_IDLE;
        return true;
    }
    return false;
}
