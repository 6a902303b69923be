/*
 * Crashes (the process dies; the machine loses power) and reopening.
 *
 * Invariants:
 *  1. A dead process loses memory alone; a power loss also leaves every unsynced page and record
 * old or new independently, and every unsynced meta old, new or torn.
 *  2. With the bound `damages`, one valid meta may turn out unreadable after a crash.
 *  3. Reopening reads only the durable image; the ghost facts are consulted to judge it, not to do
 * it.
 */
#include "tests/explorer/model.h"

#include <string.h>

static uint16_t pages_of_metas(const struct world *w)
{
    uint16_t pages = 0;

    for (int i = 0; i < 2; i++) {
        const struct meta *metas[] = {&w->meta[i], &w->meta_disk[i]};
        for (int j = 0; j < 2; j++) {
            if (!metas[j]->valid)
                continue;
            pages |= check_reachable_pages(w->page, metas[j]->state.root);
            pages |= check_reachable_pages(w->page_disk, metas[j]->state.root);
            pages |= (uint16_t)(1u << metas[j]->map);
        }
    }
    return pages;
}

/* Takes one of `n` outcomes off the mixed-radix number *arg. */
static unsigned choose(unsigned *arg, unsigned n)
{
    unsigned c = *arg % n;
    *arg /= n;
    return c;
}

/* What a power loss does by *arg. With `count` nothing is changed and the outcomes are counted. */
static unsigned lose_power(struct world *w, unsigned *arg, bool count)
{
    uint16_t matter = pages_of_metas(w);
    unsigned outcomes = 1;

    for (int p = 0; p < PAGES; p++) {
        if (!(matter >> p & 1) || !memcmp(&w->page[p], &w->page_disk[p], sizeof w->page[p]))
            continue;
        outcomes *= 2;
        if (!count && choose(arg, 2))
            w->page[p] = w->page_disk[p];
    }
    for (int s = 1; s < SEQS; s++) {
        if (!memcmp(&w->log[s], &w->log_disk[s], sizeof w->log[s]))
            continue;
        outcomes *= 2;
        if (!count && choose(arg, 2))
            w->log[s] = w->log_disk[s];
    }
    if (w->epoch != w->epoch_disk) {
        outcomes *= 2;
        if (!count && choose(arg, 2)) {
            w->epoch = w->epoch_disk;
            w->epoch_start = w->epoch_start_disk;
        }
    }
    for (int i = 0; i < 2; i++) {
        unsigned c;
        if (!memcmp(&w->meta[i], &w->meta_disk[i], sizeof w->meta[i]))
            continue;
        outcomes *= 3;
        c = count ? 0 : choose(arg, 3);
        if (c == 1)
            w->meta[i] = w->meta_disk[i];
        else if (c == 2)
            memset(&w->meta[i], 0, sizeof w->meta[i]);
    }
    return outcomes;
}

static void forget_memory(struct world *w, const struct model *m)
{
    uint16_t matter = pages_of_metas(w);

    memset(w->slot, 0, sizeof w->slot);
    memset(w->slot_death, 0, sizeof w->slot_death);
    memset(w->slot_page, NONE, sizeof w->slot_page);
    for (uint8_t p = 0; p < PAGES; p++) {
        bool kept = w->page_fresh[p] && !holds(m, RULE_CRASH_FREES_SPILLED);
        if (!(matter >> p & 1) && !kept)
            world_free_page(w, p);
        w->page_fresh[p] = kept ? FRESH_FORGOTTEN : FRESH_NOT;
        w->page_used[p] = w->page_birth[p] = w->page_death[p] = w->page_owner[p] = 0;
    }
    memset(&w->published, 0, sizeof w->published);
    memset(w->queue, 0, sizeof w->queue);
    memset(&w->txn, 0, sizeof w->txn);
    memset(&w->savepoint, 0, sizeof w->savepoint);
    memset(w->txn_value, 0, KEYS);
    memset(w->savepoint_value, 0, KEYS);
    memset(w->reader, 0, sizeof w->reader);
    memset(w->reader_pc, 0, sizeof w->reader_pc);
    memset(w->reader_moved, 0, sizeof w->reader_moved);
    memset(&w->checkpoint, 0, sizeof w->checkpoint);
    memset(w->checkpoint_page, NONE, sizeof w->checkpoint_page);
    world_forget_sweeps(w);
    w->queued = w->txn_open = w->txn_start = w->savepoint_open = 0;
    w->checkpoint_pc = w->checkpoint_root = w->checkpoint_map = 0;
    w->log_written = w->log_synced = w->log_failed = w->poisoned = 0;
    w->chosen = 0;
    w->stamp = 0;
    w->phase = PHASE_DOWN;
}

unsigned crash_choices(const struct world *w, const struct model *m, enum action_kind kind)
{
    struct world copy = *w;
    unsigned n = kind == ACT_KILL ? 1 : lose_power(&copy, 0, true);

    if (w->used_crashes == m->bounds->crashes || w->phase == PHASE_REFUSED)
        return 0;
    return w->used_damages < m->bounds->damages ? n * 3 : n;
}

bool crash_step(struct world *w, const struct model *m, enum action_kind kind, unsigned arg)
{
    unsigned damage = w->used_damages < m->bounds->damages ? choose(&arg, 3) : 0;

    w->used_crashes++;
    if (kind == ACT_POWER_LOSS) {
        lose_power(w, &arg, false);
        memcpy(w->page_disk, w->page, sizeof w->page);
        memcpy(w->meta_disk, w->meta, sizeof w->meta);
        memcpy(w->log_disk, w->log, sizeof w->log);
        memset(w->log_lost, 0, sizeof w->log_lost);
        w->epoch_disk = w->epoch;
        w->epoch_start_disk = w->epoch_start;
        w->acked_system = w->acked_device;
    }
    if (damage) {
        if (!w->meta[damage - 1].valid)
            return false;
        w->used_damages++;
        memset(&w->meta[damage - 1], 0, sizeof w->meta[0]);
        memset(&w->meta_disk[damage - 1], 0, sizeof w->meta[0]);
    }
    forget_memory(w, m);
    return true;
}

static uint8_t last_record(const struct world *w, const struct model *m)
{
    uint8_t seq = w->meta[w->chosen].state.seq;

    while (seq + 1 < SEQS && log_record_valid(w, m, (uint8_t)(seq + 1)))
        seq++;
    return seq;
}

/* What a store that recovers (meta chosen, log through seq) would serve, judged by the ghosts. */
static const char *judge(const struct world *w, uint8_t seq)
{
    const uint8_t *found = w->meta[w->chosen].state.value;
    uint8_t expected[KEYS] = {0, 0};
    uint8_t value[KEYS] = {found[0], found[1]};

    if (seq < w->acked_system)
        return "acknowledged-writes-survive";
    if (seq > w->history_len)
        return "dropped-groups-stay-dropped";
    for (uint8_t s = 1; s <= seq; s++)
        for (int k = 0; k < KEYS; k++) {
            if (w->history[s][k])
                expected[k] = w->history[s][k];
            if (s > w->meta[w->chosen].state.seq && w->log[s].value[k])
                value[k] = w->log[s].value[k];
        }
    return memcmp(value, expected, KEYS) ? "recovered-state-existed" : 0;
}

/* Rewrites the records that will be replayed (a system that failed a sync believes them clean
 * though they are not on the device), then syncs the log. */
static void secure_log(struct world *w, const struct model *m, uint8_t end)
{
    bool rewrite = holds(m, RULE_REWRITE_REPLAYED_TAIL);

    if (!holds(m, RULE_SYNC_BEFORE_SERVING))
        return;
    for (uint8_t s = 1; s < SEQS; s++) {
        if (w->log_lost[s] && (!rewrite || s > end))
            continue;
        w->log_lost[s] = 0;
        w->log_disk[s] = w->log[s];
    }
}

static enum step_result choose_meta(struct world *w, const struct model *m, const char **broken)
{
    const struct meta *a = &w->meta[0], *b = &w->meta[1];
    bool has_log;

    w->chosen = (uint8_t)(!a->valid || (b->valid && b->state.stamp > a->state.stamp));
    has_log =
        w->log_begin <= w->meta[w->chosen].state.seq || !holds(m, RULE_OLDER_META_ONLY_WITH_LOG);
    if (!w->meta[w->chosen].valid || !has_log) {
        *broken = "store-opens";
        w->phase = PHASE_REFUSED;
        return w->used_damages ? STEP_DONE : STEP_BROKEN;
    }
    *broken = judge(w, last_record(w, m));
    if (*broken)
        return STEP_BROKEN;
    secure_log(w, m, last_record(w, m));
    if (holds(m, RULE_SYNC_META_AT_REOPEN)) {
        memcpy(w->page_disk, w->page, sizeof w->page);
        memcpy(w->meta_disk, w->meta, sizeof w->meta);
    }
    w->phase = PHASE_CHOSEN;
    return STEP_DONE;
}

static bool repair_meta(struct world *w, const struct model *m)
{
    struct meta *other = &w->meta[!w->chosen];

    if (w->phase != PHASE_CHOSEN || !holds(m, RULE_REPAIR_OTHER_META) ||
        !memcmp(other, &w->meta[w->chosen], sizeof *other))
        return false;
    *other = w->meta[w->chosen];
    w->phase = PHASE_REPAIRED;
    return true;
}

/* Memory from the chosen meta: free pages by its map, births by its tree. */
static const char *load(struct world *w)
{
    const struct meta *meta = &w->meta[w->chosen];
    const struct node *map = &w->page[meta->map];
    uint16_t bits = (uint16_t)(map->item[0] | map->item[1] << 8);
    uint16_t tree = check_reachable_pages(w->page, meta->state.root);

    if (!check_meta_intact(w, w->page, meta))
        return "durable-metas-intact";
    if (bits != (tree | 1u << meta->map))
        return "space-map-is-exact";
    for (uint8_t p = 0; p < PAGES; p++) {
        if (!(bits >> p & 1) && !w->page_fresh[p]) {
            world_free_page(w, p);
            continue;
        }
        w->page_used[p] = 1;
        w->page_birth[p] = w->page[p].birth;
    }
    w->stamp = meta->state.stamp;
    w->published = meta->state;
    return 0;
}

/* Replays the log as ordinary copy-on-write of one batch. */
static void replay(struct world *w, uint8_t end)
{
    struct desc *d = &w->published;
    uint8_t begin = d->seq;
    uint8_t root;

    if (begin == end)
        return;
    d->stamp = ++w->stamp;
    d->seq = end;
    root = world_take_slot(w);
    w->slot[root] = *world_node(w, d->root);
    w->slot[root].birth = d->root_birth = d->stamp;
    world_kill(w, d->root, d->stamp);
    d->root = root;
    for (uint8_t s = (uint8_t)(begin + 1); s <= end; s++)
        for (int k = 0; k < KEYS; k++) {
            if (!w->log[s].value[k])
                continue;
            if (w->slot[root].item[k] & PAGE_TAG) {
                uint8_t leaf = world_take_slot(w);
                w->slot[leaf] = (struct node){NODE_LEAF, d->stamp, {0, 0}, {0, 0}};
                world_kill(w, w->slot[root].item[k], d->stamp);
                w->slot[root].item[k] = leaf;
                w->slot[root].born[k] = d->stamp;
            }
            w->slot[w->slot[root].item[k]].item[0] = d->value[k] = w->log[s].value[k];
        }
}

static enum step_result serve(struct world *w, const struct model *m, const char **broken)
{
    uint8_t end = last_record(w, m);
    bool repaired = w->phase == PHASE_REPAIRED || !holds(m, RULE_REPAIR_OTHER_META) ||
                    !memcmp(&w->meta[0], &w->meta[1], sizeof w->meta[0]);

    if (!repaired)
        return STEP_DISABLED;
    if (w->phase == PHASE_REPAIRED) {
        memcpy(w->page_disk, w->page, sizeof w->page);
        memcpy(w->meta_disk, w->meta, sizeof w->meta);
    }
    *broken = load(w);
    if (*broken)
        return STEP_BROKEN;
    replay(w, end);
    w->chosen = 0;
    w->epoch++;
    w->epoch_start = end;
    w->epoch_disk = w->epoch;
    w->epoch_start_disk = w->epoch_start;
    w->log_written = w->log_synced = end;
    w->acked_device = w->acked_system = w->history_len = end;
    for (int s = end + 1; s < SEQS; s++)
        memset(w->history[s], 0, KEYS);
    w->phase = PHASE_UP;
    return STEP_DONE;
}

enum step_result reopen_step(struct world *w, const struct model *m, enum action_kind kind,
                             const char **broken)
{
    if (kind == ACT_REOPEN_CHOOSE && w->phase == PHASE_DOWN)
        return choose_meta(w, m, broken);
    if (kind == ACT_REOPEN_REPAIR)
        return repair_meta(w, m) ? STEP_DONE : STEP_DISABLED;
    if (kind == ACT_REOPEN_SERVE && (w->phase == PHASE_CHOSEN || w->phase == PHASE_REPAIRED))
        return serve(w, m, broken);
    return STEP_DISABLED;
}
