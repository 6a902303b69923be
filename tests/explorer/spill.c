/*
 * A transaction larger than its share of the arena: a sweep takes pages of the open unit to the
 * file while it runs.
 *
 * Invariants:
 *  1. Only slots born since the innermost savepoint (or the unit's start) leave, and are free at
 * once. When a root leaves, what it leads to goes first; slots of earlier states are relinked or
 * copied, and die like any page that is copied.
 *  2. A sweep has a stamp of its own, the birth of all it writes. Of a sweep that makes room for
 * one leaf, that is one page.
 *  3. What it wrote is fresh: in no space map before the next checkpoint of a state that has it.
 */
#include "tests/explorer/model.h"

uint8_t spill_floor(const struct world *w, bool since_savepoint)
{
    return w->savepoint_open && since_savepoint ? w->savepoint.stamp : w->txn_start;
}

void spill_drop(struct world *w, const struct model *m, uint8_t pointer, uint8_t death)
{
    uint8_t page = pointer & ~PAGE_TAG;
    uint8_t floor = spill_floor(w, holds(m, RULE_SPILLED_KEPT_FOR_SAVEPOINT));

    if (!w->txn_open || !(pointer & PAGE_TAG) || w->page_birth[page] <= floor)
        world_kill(w, pointer, death);
    else if (holds(m, RULE_SPILLED_FREE_WHEN_DROPPED))
        world_free_page(w, page);
}

static bool is_own(const struct world *w, const struct model *m, uint8_t pointer)
{
    return !(pointer & PAGE_TAG) &&
           w->slot[pointer].birth > spill_floor(w, holds(m, RULE_SPILL_SINCE_SAVEPOINT));
}

/* Moves the page in a slot to the file, or copies it there; its new pointer. */
static uint8_t leave(struct world *w, const struct model *m, uint8_t slot)
{
    uint8_t p = world_take_page(w, w->txn.stamp);

    w->page[p] = w->slot[slot];
    w->page[p].birth = w->txn.stamp;
    w->page_fresh[p] = FRESH_LISTED;
    world_sweep_page(w, p);
    if (is_own(w, m, slot) || !holds(m, RULE_SPILL_COPIES_OLDER))
        world_free_slot(w, slot);
    else
        world_kill(w, slot, w->txn.stamp);
    return PAGE_TAG | p;
}

/* A child of the root that is about to leave, or that leaves alone. */
static void leave_child(struct world *w, const struct model *m, struct node *root, unsigned key)
{
    uint8_t slot = root->item[key];

    if (!w->savepoint_open && w->slot_page[slot] != NONE) {
        w->slot_death[slot] = w->txn.stamp;
        root->item[key] = PAGE_TAG | w->slot_page[slot];
        return;
    }
    root->item[key] = leave(w, m, slot);
    root->born[key] = w->txn.stamp;
}

static void next_stamp(struct world *w, const struct model *m)
{
    if (holds(m, RULE_SPILL_OWN_STAMP))
        w->txn.stamp = ++w->stamp;
}

/* One sweep: the leaf of a key, or (arg KEYS) the root with all below it. */
bool spill_step(struct world *w, const struct model *m, unsigned arg)
{
    uint8_t slot = w->txn.root;
    struct node *root = &w->slot[slot];

    if (!w->txn_open || w->used_spills == m->bounds->spills || world_free_pages(w) < KEYS + 1 ||
        !is_own(w, m, slot) || (arg < KEYS && !is_own(w, m, root->item[arg])))
        return false;
    w->used_spills++;
    next_stamp(w, m);
    for (unsigned k = 0; k < KEYS; k++)
        if (arg == k ||
            (arg == KEYS && holds(m, RULE_SPILL_CHILDREN_FIRST) && !(root->item[k] & PAGE_TAG)))
            leave_child(w, m, root, k);
    if (arg == KEYS) {
        w->txn.root = leave(w, m, slot);
        w->txn.root_birth = w->txn.stamp;
    }
    next_stamp(w, m);
    return true;
}
