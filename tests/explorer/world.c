/*
 * Places of the model: arena slots and file pages with births and deaths, what is pinned, and
 * reuse.
 *
 * Invariants:
 *  1. A death of 0 means alive; a page with birth b and death d is reusable when no pinned stamp is
 *     in [b, d) (world_reuse). Reuse is immediate and destroys the content.
 *  2. A slot that dies takes its file page with it (world_kill), unless it dies by relinking.
 *  3. Allocation takes the lowest free place, so that a place is reused as early as possible.
 */
#include "tests/explorer/model.h"

#include <string.h>

/* A store just created: values 0, root in page 0, leaves in 1 and 2, the space map in 3. */
void world_format(struct world *w)
{
    memset(w, 0, sizeof *w);
    memset(w->slot_page, NONE, sizeof w->slot_page);
    memset(w->checkpoint_page, NONE, sizeof w->checkpoint_page);
    w->stamp = 1;
    w->page[0] = (struct node){NODE_ROOT, 1, {PAGE_TAG | 1, PAGE_TAG | 2}, {1, 1}};
    w->page[1] = (struct node){NODE_LEAF, 1, {0, 0}, {0, 0}};
    w->page[2] = w->page[1];
    w->page[3] = (struct node){NODE_MAP, 1, {0x0f, 0}, {0, 0}};
    memcpy(w->page_disk, w->page, sizeof w->page);
    for (int p = 0; p < 4; p++) {
        w->page_used[p] = 1;
        w->page_birth[p] = 1;
    }
    w->published = (struct desc){1, 0, PAGE_TAG | 0, 1, {0, 0}};
    w->meta[0] = (struct meta){1, 3, w->published};
    w->meta[1] = w->meta[0];
    memcpy(w->meta_disk, w->meta, sizeof w->meta);
    w->epoch = w->epoch_disk = 1;
}

const struct node *world_node(const struct world *w, uint8_t pointer)
{
    return pointer & PAGE_TAG ? &w->page[pointer & ~PAGE_TAG] : &w->slot[pointer];
}

/* The newest committed state, published or not. */
const struct desc *world_head(const struct world *w)
{
    return w->queued ? &w->queue[w->queued - 1] : &w->published;
}

int world_free_slots(const struct world *w)
{
    int n = 0;
    for (int s = 0; s < SLOTS; s++)
        n += w->slot[s].kind == NODE_FREE;
    return n;
}

int world_free_pages(const struct world *w)
{
    int n = 0;
    for (int p = 0; p < PAGES; p++)
        n += !w->page_used[p];
    return n;
}

/* Callers have checked that there is a free slot. */
uint8_t world_take_slot(struct world *w)
{
    uint8_t s = 0;
    while (w->slot[s].kind != NODE_FREE)
        s++;
    w->slot_death[s] = 0;
    w->slot_page[s] = NONE;
    return s;
}

/* Callers have checked that there is a free page. */
uint8_t world_take_page(struct world *w, uint8_t birth)
{
    uint8_t p = 0;
    while (w->page_used[p])
        p++;
    w->page_used[p] = 1;
    w->page_birth[p] = birth;
    w->page_death[p] = 0;
    return p;
}

void world_free_slot(struct world *w, uint8_t slot)
{
    memset(&w->slot[slot], 0, sizeof w->slot[slot]);
    w->slot_death[slot] = 0;
    w->slot_page[slot] = NONE;
}

void world_free_page(struct world *w, uint8_t page)
{
    memset(&w->page[page], 0, sizeof w->page[page]);
    memset(&w->page_disk[page], 0, sizeof w->page_disk[page]);
    w->page_used[page] = 0;
    w->page_birth[page] = 0;
    w->page_death[page] = 0;
    w->page_owner[page] = 0;
    w->page_fresh[page] = FRESH_NOT;
}

void world_sweep_page(struct world *w, uint8_t page)
{
    uint8_t birth = w->page[page].birth;

    w->written_twice |= w->page_swept[page] == birth;
    w->page_swept[page] = birth;
}

void world_forget_sweeps(struct world *w)
{
    memset(w->page_swept, 0, sizeof w->page_swept);
}

/* The end of a moved reader, if it is one. */
void world_free_owned(struct world *w, unsigned reader)
{
    for (uint8_t p = 0; p < PAGES; p++)
        if (w->page_owner[p] == reader + 1)
            world_free_page(w, p);
    w->reader_moved[reader] = 0;
}

void world_kill(struct world *w, uint8_t pointer, uint8_t death)
{
    if (pointer & PAGE_TAG) {
        w->page_death[pointer & ~PAGE_TAG] = death;
        return;
    }
    w->slot_death[pointer] = death;
    if (w->slot_page[pointer] != NONE)
        w->page_death[w->slot_page[pointer]] = death;
}

/* Forgets everything done after stamp: births are freed, deaths are undone. */
void world_undo(struct world *w, const struct model *m, uint8_t stamp)
{
    bool restore = holds(m, RULE_UNDO_RESTORES_DEATHS);

    for (uint8_t s = 0; s < SLOTS; s++) {
        if (w->slot[s].kind == NODE_FREE)
            continue;
        if (w->slot[s].birth > stamp)
            world_free_slot(w, s);
        else if (w->slot_death[s] > stamp && restore)
            w->slot_death[s] = 0;
    }
    for (uint8_t p = 0; p < PAGES; p++) {
        if (w->page_fresh[p] && w->page_birth[p] > stamp && holds(m, RULE_UNDO_FREES_SPILLED))
            world_free_page(w, p);
        else if (w->page_used[p] && w->page_death[p] > stamp && restore)
            w->page_death[p] = 0;
    }
}

static uint64_t bit(uint8_t stamp)
{
    return (uint64_t)1 << stamp;
}

/* What pins slots (moved readers see none), or pages. */
static uint64_t pinned_by_all(const struct world *w, const struct model *m, bool pages)
{
    bool moved = pages && holds(m, RULE_MOVED_PINS_PAGES);
    uint64_t pins = 0;

    if (holds(m, RULE_PINNED_PUBLISHED))
        pins |= bit(w->published.stamp);
    if (holds(m, RULE_PINNED_UNPUBLISHED))
        for (int i = 0; i < w->queued; i++)
            pins |= bit(w->queue[i].stamp);
    if (holds(m, RULE_PINNED_ANNOUNCED))
        for (int r = 0; r < READERS; r++)
            if (w->reader_pc[r] >= READER_ANNOUNCED && (!w->reader_moved[r] || moved))
                pins |= bit(w->reader[r].stamp);
    if (holds(m, RULE_PINNED_SAVEPOINT) && w->savepoint_open)
        pins |= bit(w->savepoint.stamp);
    if (holds(m, RULE_PINNED_CHECKPOINT) && w->checkpoint_pc != CHECKPOINT_NONE &&
        (holds(m, RULE_PIN_UNTIL_ADOPTED) || w->checkpoint_pc < CHECKPOINT_META2_SYNCED))
        pins |= bit(w->checkpoint.stamp);
    return pins;
}

static uint64_t pinned_by_metas(const struct world *w, const struct model *m)
{
    uint8_t a = w->meta_disk[0].state.stamp;
    uint8_t b = w->meta_disk[1].state.stamp;

    if (!holds(m, RULE_PINNED_METAS))
        return 0;
    if (!holds(m, RULE_SECOND_META_BEFORE_REUSE))
        return bit(a > b ? a : b);
    return bit(a) | bit(b);
}

static bool reusable(uint8_t birth, uint8_t death, uint64_t pins)
{
    return death && !(pins & (bit(death) - 1) & ~(bit(birth) - 1));
}

void world_reuse(struct world *w, const struct model *m)
{
    uint64_t pins = pinned_by_all(w, m, false);

    for (uint8_t s = 0; s < SLOTS; s++)
        if (w->slot[s].kind != NODE_FREE && reusable(w->slot[s].birth, w->slot_death[s], pins))
            world_free_slot(w, s);
    pins = pinned_by_all(w, m, true) | pinned_by_metas(w, m);
    for (uint8_t p = 0; p < PAGES; p++)
        if (w->page_used[p] && reusable(w->page_birth[p], w->page_death[p], pins))
            world_free_page(w, p);
}

/* Calls visit(stamp, context) on every stamp of the world; 0 means none. */
typedef void (*stamp_visitor)(uint8_t *stamp, void *context);

static void visit_nodes(struct node *nodes, int n, stamp_visitor visit, void *context)
{
    for (int i = 0; i < n; i++) {
        visit(&nodes[i].birth, context);
        for (int k = 0; k < KEYS; k++)
            visit(&nodes[i].born[k], context);
    }
}

static void visit_desc(struct desc *d, stamp_visitor visit, void *context)
{
    visit(&d->stamp, context);
    visit(&d->root_birth, context);
}

static void visit_stamps(struct world *w, stamp_visitor visit, void *context)
{
    visit(&w->stamp, context);
    visit_nodes(w->slot, SLOTS, visit, context);
    visit_nodes(w->page, PAGES, visit, context);
    visit_nodes(w->page_disk, PAGES, visit, context);
    for (int s = 0; s < SLOTS; s++)
        visit(&w->slot_death[s], context);
    for (int p = 0; p < PAGES; p++) {
        visit(&w->page_birth[p], context);
        visit(&w->page_death[p], context);
        visit(&w->page_swept[p], context);
    }
    visit_desc(&w->published, visit, context);
    for (int i = 0; i < QUEUE; i++)
        visit_desc(&w->queue[i], visit, context);
    visit(&w->txn_start, context);
    visit_desc(&w->txn, visit, context);
    visit_desc(&w->savepoint, visit, context);
    for (int r = 0; r < READERS; r++)
        visit_desc(&w->reader[r], visit, context);
    visit_desc(&w->checkpoint, visit, context);
    for (int i = 0; i < 2; i++) {
        visit_desc(&w->meta[i].state, visit, context);
        visit_desc(&w->meta_disk[i].state, visit, context);
    }
}

static void collect_stamp(uint8_t *stamp, void *context)
{
    *(uint64_t *)context |= bit(*stamp);
}

static void rank_stamp(uint8_t *stamp, void *context)
{
    if (*stamp)
        *stamp =
            (uint8_t)__builtin_popcountll(*(uint64_t *)context & (bit(*stamp) - 1) & ~1ull) + 1;
}

/* Readers are alike: the one of the larger bytes comes first, an idle one last. */
void world_canonical(struct world *w)
{
    uint64_t stamps = 0;
    int order;

    visit_stamps(w, collect_stamp, &stamps);
    visit_stamps(w, rank_stamp, &stamps);
    order = memcmp(&w->reader[0], &w->reader[1], sizeof w->reader[0]);
    if (order < 0 || (order == 0 && w->reader_pc[0] < w->reader_pc[1])) {
        struct desc d = w->reader[0];
        uint8_t pc = w->reader_pc[0], moved = w->reader_moved[0];
        w->reader[0] = w->reader[1];
        w->reader_pc[0] = w->reader_pc[1];
        w->reader_moved[0] = w->reader_moved[1];
        w->reader[1] = d;
        w->reader_pc[1] = pc;
        w->reader_moved[1] = moved;
        for (int p = 0; p < PAGES; p++)
            if (w->page_owner[p])
                w->page_owner[p] = (uint8_t)(READERS + 1 - w->page_owner[p]);
    }
}
