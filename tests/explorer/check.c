/*
 * The invariants of every state, by the names the explorer prints.
 */
#include "tests/explorer/model.h"

/* File pages of a tree in the file: its root and the root's children. */
uint16_t check_reachable_pages(const struct node *pages, uint8_t root)
{
    const struct node *n;
    uint16_t set = 0;

    if (!(root & PAGE_TAG))
        return 0;
    n = &pages[root & ~PAGE_TAG];
    set |= (uint16_t)(1u << (root & ~PAGE_TAG));
    for (int k = 0; k < KEYS && n->kind == NODE_ROOT; k++)
        if (n->item[k] & PAGE_TAG)
            set |= (uint16_t)(1u << (n->item[k] & ~PAGE_TAG));
    return set;
}

/* Does a reader of d find what d's history says, in pages of the births its parents name? */
static bool intact(const struct world *w, const struct node *pages, const struct desc *d)
{
    const struct node *root = d->root & PAGE_TAG ? &pages[d->root & ~PAGE_TAG] : &w->slot[d->root];

    if (root->kind != NODE_ROOT || root->birth != d->root_birth)
        return false;
    for (int k = 0; k < KEYS; k++) {
        uint8_t c = root->item[k];
        const struct node *leaf = c & PAGE_TAG ? &pages[c & ~PAGE_TAG] : &w->slot[c];
        if (leaf->kind != NODE_LEAF || leaf->birth != root->born[k] || leaf->item[0] != d->value[k])
            return false;
    }
    return true;
}

bool check_meta_intact(const struct world *w, const struct node *pages, const struct meta *meta)
{
    if (!meta->valid)
        return true;
    return intact(w, pages, &meta->state) && pages[meta->map].kind == NODE_MAP &&
           pages[meta->map].birth == meta->state.stamp;
}

static const char *check_states(const struct world *w)
{
    if (!intact(w, w->page, &w->published))
        return "published-state-intact";
    for (int i = 0; i < w->queued; i++)
        if (!intact(w, w->page, &w->queue[i]))
            return "unpublished-states-intact";
    if (w->txn_open && !intact(w, w->page, &w->txn))
        return "transaction-intact";
    if (w->savepoint_open && !intact(w, w->page, &w->savepoint))
        return "savepoint-intact";
    for (int r = 0; r < READERS; r++)
        if (w->reader_pc[r] == READER_READING && !intact(w, w->page, &w->reader[r]))
            return "readers-state-intact";
    if (w->checkpoint_pc != CHECKPOINT_NONE && !intact(w, w->page, &w->checkpoint))
        return "checkpointed-state-intact";
    return 0;
}

static const char *check_metas(const struct world *w)
{
    for (int i = 0; i < 2; i++) {
        if (!check_meta_intact(w, w->page_disk, &w->meta_disk[i]))
            return "durable-metas-intact";
        if (!check_meta_intact(w, w->page, &w->meta[i]))
            return "written-metas-intact";
    }
    return 0;
}

static void add(const struct world *w, uint8_t pointer, uint16_t *slots, uint16_t *pages)
{
    if (pointer & PAGE_TAG) {
        *pages |= (uint16_t)(1u << (pointer & ~PAGE_TAG));
        return;
    }
    *slots |= (uint16_t)(1u << pointer);
    if (w->slot_page[pointer] != NONE)
        *pages |= (uint16_t)(1u << w->slot_page[pointer]);
}

/* Alive is exactly what the writer's newest state reaches, what the running checkpoint has taken,
 * and the newest space map; everything else that is in use has a death and is pinned. */
static const char *check_places(const struct world *w)
{
    const struct desc *head = w->txn_open ? &w->txn : world_head(w);
    const struct node *root = world_node(w, head->root);
    uint16_t slots = 0, pages = 0, extra = 0;

    add(w, head->root, &slots, &pages);
    for (int k = 0; k < KEYS; k++)
        add(w, root->item[k], &slots, &pages);
    for (int s = 0; s < SLOTS; s++)
        if (w->checkpoint_page[s] != NONE)
            extra |= (uint16_t)(1u << w->checkpoint_page[s]);
    for (int p = 0; p < PAGES; p++)
        if (w->page_owner[p])
            extra |= (uint16_t)(1u << p);
    for (int i = 0; i < 2; i++)
        extra |= (uint16_t)(1u << w->meta[i].map | 1u << w->meta_disk[i].map);
    if (w->checkpoint_pc >= CHECKPOINT_WRITTEN)
        extra |= (uint16_t)(1u << w->checkpoint_map);
    for (int s = 0; s < SLOTS; s++) {
        bool used = w->slot[s].kind != NODE_FREE, alive = used && !w->slot_death[s];
        if ((slots >> s & 1) && !alive)
            return "no-live-slot-dead";
        if (!(slots >> s & 1) && alive)
            return "no-slot-leaks";
    }
    for (int p = 0; p < PAGES; p++) {
        bool alive = w->page_used[p] && !w->page_death[p];
        if ((pages >> p & 1) && !alive)
            return "no-live-page-dead";
        if (!((pages | extra) >> p & 1) && alive)
            return "no-page-leaks";
    }
    return 0;
}

/* A free place that somebody's tree uses would be allocated twice. */
static const char *check_allocation(const struct world *w)
{
    uint16_t pages = 0;

    for (int i = 0; i < 2; i++)
        if (w->meta_disk[i].valid)
            pages |= check_reachable_pages(w->page_disk, w->meta_disk[i].state.root);
    for (int s = 0; s < SLOTS; s++) {
        if (w->slot_page[s] != NONE)
            pages |= (uint16_t)(1u << w->slot_page[s]);
        if (w->checkpoint_page[s] != NONE && w->checkpoint_pc < CHECKPOINT_META1_SYNCED &&
            (pages >> w->checkpoint_page[s] & 1))
            return "no-double-allocation";
    }
    for (int p = 0; p < PAGES; p++)
        if ((pages >> p & 1) && !w->page_used[p])
            return "no-page-in-use-is-free";
    return 0;
}

/* After its pages are written a checkpoint's map must name its tree and the map itself. */
static const char *check_map(const struct world *w)
{
    const struct node *map = &w->page[w->checkpoint_map];
    uint16_t bits = (uint16_t)(map->item[0] | map->item[1] << 8);

    if (w->checkpoint_pc < CHECKPOINT_WRITTEN)
        return 0;
    if (bits != (check_reachable_pages(w->page, w->checkpoint_root) | 1u << w->checkpoint_map))
        return "space-map-is-exact";
    return 0;
}

const char *check_world(const struct world *w)
{
    const char *broken = 0;

    if (w->phase != PHASE_UP)
        return 0;
    broken = w->written_twice ? "lost-writes-show" : check_states(w);
    if (!broken)
        broken = check_metas(w);
    if (!broken)
        broken = check_allocation(w);
    if (!broken)
        broken = check_map(w);
    if (!broken)
        broken = check_places(w);
    return broken;
}
