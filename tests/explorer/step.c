/*
 * Every step of the model by its kind: which arguments it has, applying it, describing it in a
 * trace.
 *
 * Invariant: a step is a function of the world, the kind and the argument alone, so that a trace
 * can be replayed from its list of kinds and arguments.
 */
#include "tests/explorer/model.h"

#include <stdio.h>

unsigned step_arguments(const struct world *w, const struct model *m, enum action_kind kind)
{
    bool crash = kind == ACT_KILL || kind == ACT_POWER_LOSS;

    if (crash)
        return crash_choices(w, m, kind);
    if ((w->phase == PHASE_UP) != (kind < ACT_KILL))
        return 0;
    switch (kind) {
    case ACT_EXECUTE:
    case ACT_UNIT_OPEN:
    case ACT_UNIT_WRITE:
        return KEYS;
    case ACT_UNIT_SPILL:
        return KEYS + 1;
    case ACT_READER_LOAD:
    case ACT_READER_ANNOUNCE:
    case ACT_READER_CHECK:
    case ACT_READER_MOVE:
    case ACT_READER_WITHDRAW:
        return m->bounds->readers;
    case ACT_CHECKPOINT_START:
        return 2 + READERS;
    default:
        return 1;
    }
}

enum step_result step_apply(struct world *w, const struct model *m, enum action_kind kind,
                            unsigned arg, const char **broken)
{
    enum step_result result = STEP_DISABLED;
    bool done = false;

    *broken = 0;
    if (kind <= ACT_RELINK)
        done = writer_step(w, m, kind, arg);
    else if (kind <= ACT_LOG_RECYCLE)
        done = log_step(w, m, kind);
    else if (kind <= ACT_READER_WITHDRAW)
        done = reader_step(w, m, kind, arg);
    else if (kind <= ACT_CHECKPOINT_ABANDON)
        done = checkpoint_step(w, m, kind, arg);
    else if (kind <= ACT_POWER_LOSS)
        done = crash_step(w, m, kind, arg);
    else
        result = reopen_step(w, m, kind, broken);
    if (done)
        result = STEP_DONE;
    if (result != STEP_DONE)
        return result;
    if (w->phase == PHASE_UP)
        world_reuse(w, m);
    *broken = check_world(w);
    if (*broken)
        return STEP_BROKEN;
    world_canonical(w);
    return STEP_DONE;
}

static const char *const checkpoint_texts[] = {
    [CHECKPOINT_NONE] = "checkpoint: slots adopt their file pages, pin dropped",
    [CHECKPOINT_PINNED] = "",
    [CHECKPOINT_WRITTEN] = "checkpoint: pages and space map written",
    [CHECKPOINT_SYNCED] = "checkpoint: data synced",
    [CHECKPOINT_META1_WRITTEN] = "checkpoint: meta 1 written",
    [CHECKPOINT_META1_SYNCED] = "checkpoint: meta 1 synced",
    [CHECKPOINT_META2_WRITTEN] = "checkpoint: meta 2 written",
    [CHECKPOINT_META2_SYNCED] = "checkpoint: meta 2 synced",
};

static const char *const texts[ACTIONS] = {
    [ACT_EXECUTE] = "writer: a group writes key",
    [ACT_UNIT_OPEN] = "writer: a unit begins, opens a savepoint after writing key",
    [ACT_UNIT_WRITE] = "writer: the unit writes key",
    [ACT_UNIT_SPILL] = "writer: the unit spills",
    [ACT_UNIT_SAVEPOINT] = "writer: the unit opens a savepoint",
    [ACT_UNIT_ROLLBACK] = "writer: the unit rolls back to its savepoint",
    [ACT_UNIT_COMMIT] = "writer: the unit commits",
    [ACT_RELINK] = "writer: relinks",
    [ACT_LOG_WRITE] = "log: records written",
    [ACT_LOG_SYNC] = "log: synced",
    [ACT_PUBLISH] = "log: the next state is published",
    [ACT_LOG_FAIL] = "log: a write fails, unpublished states are dropped",
    [ACT_LOG_EPOCH] = "log: new epoch, clients of dropped groups hear UNKNOWN",
    [ACT_SYNC_FAIL] = "log: a sync fails",
    [ACT_LOG_RECYCLE] = "log: segments before the checkpoint are recycled",
    [ACT_READER_LOAD] = "reader loads the published state",
    [ACT_READER_ANNOUNCE] = "reader announces its stamp",
    [ACT_READER_CHECK] = "reader checks that the published state has not moved",
    [ACT_READER_MOVE] = "reader moves to the file",
    [ACT_READER_WITHDRAW] = "reader withdraws",
    [ACT_CHECKPOINT_START] = "checkpoint: pins state T",
    [ACT_CHECKPOINT_ABANDON] = "checkpoint: no space, abandoned",
    [ACT_KILL] = "CRASH: the process dies",
    [ACT_POWER_LOSS] = "CRASH: power loss, outcome",
    [ACT_REOPEN_CHOOSE] = "reopen: meta chosen, end of log found",
    [ACT_REOPEN_REPAIR] = "reopen: the other meta written",
    [ACT_REOPEN_SERVE] = "reopen: serves",
};

static const char *const checkpoint_sources[] = {"the published one", "reader 1's", "reader 2's",
                                                 "the newest, unpublished"};

/* after is the world the step led to. */
void step_describe(const struct world *after, enum action_kind kind, unsigned arg, char *text,
                   unsigned size)
{
    if (kind == ACT_CHECKPOINT_STEP)
        snprintf(text, size, "%s", checkpoint_texts[after->checkpoint_pc]);
    else if (kind == ACT_CHECKPOINT_START)
        snprintf(text, size, "%s = %s", texts[kind], checkpoint_sources[arg]);
    else if (kind == ACT_UNIT_SPILL && arg == KEYS)
        snprintf(text, size, "%s its root and all below", texts[kind]);
    else if (kind == ACT_UNIT_SPILL)
        snprintf(text, size, "%s the leaf of key %u", texts[kind], arg);
    else if (kind == ACT_UNIT_OPEN && !after->savepoint_open)
        snprintf(text, size, "writer: a unit begins by writing key %u", arg);
    else if (kind <= ACT_UNIT_WRITE || kind == ACT_POWER_LOSS)
        snprintf(text, size, "%s %u", texts[kind], arg);
    else if (kind == ACT_KILL && after->used_damages)
        snprintf(text, size, "%s (damaged metas so far: %u)", texts[kind], after->used_damages);
    else
        snprintf(text, size, "%s", texts[kind]);
}
