/*
 * work.c - see work.h: opening, closing, and how lives end. steps.c has the steps.
 */
#include "tests/powerloss/work_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void work_failed(struct work *w, const char *assertion, const char *format, ...)
{
    char text[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    w->fail(w, assertion, text);
    abort();
}

/* Whether an error may be: the process is dead, or a call of its was made to fail. Then this life
 * is over. */
void work_error(struct work *w, int rc, const char *call)
{
    struct ps_fault fault = {0};
    if (recorder_is_dead(w->rec) || w->excused) {
        w->over = true;
        return;
    }
    ps_last_fault(w->store, &fault);
    work_failed(w, "calls-work", "%s answered %d (%s); last fault: %s at %llu: %s", call, rc,
                ps_strerror(rc), fault.file, (unsigned long long)fault.offset, fault.what);
}

/* ---- configurations ---------------------------------------------------------------------------
 */

const char *shape_name(enum shape shape)
{
    static const char *const names[SHAPES] = {"any", "even", "beside", "long"};
    return names[shape];
}

struct config config_make(uint64_t seed, uint64_t round, enum shape shape)
{
    static const uint64_t slots[] = {64, 96, 128, 600, 600};
    static const uint64_t segments[] = {4096, 8192, 16384, 65536};
    static const unsigned numbers[] = {12, 60, STATE_KEYS, STATE_KEYS};
    static const unsigned hold_up[] = {0, 2, 4, 12};
    struct rng rng = rng_seed(seed, round);
    struct config c = {
        .page_size = rng_one_in(&rng, 8) ? 8192 : 4096,
        .level = (enum ps_durability)(round % 4 == 3 ? PS_ALWAYS : round % 4),
        .segment = segments[rng_below(&rng, 4)],
        .keys = (enum keys)rng_below(&rng, KEY_SHAPES),
        .numbers = numbers[rng_below(&rng, 4)],
        .hold_up = hold_up[rng_below(&rng, 4)],
        .steps = (unsigned)rng_between(&rng, 25, 70),
        .own_checkpoints = rng_one_in(&rng, 3),
        .bulk = rng_one_in(&rng, 2),
        .long_values = rng_one_in(&rng, 3),
        .failures = rng_one_in(&rng, 3),
        .kills = rng_one_in(&rng, 2),
        .snapshots = rng_one_in(&rng, 3),
        .levels = rng_one_in(&rng, 3),
    };
    if (shape == SHAPE_ANY && rng_one_in(&rng, 5))
        shape = SHAPE_EVEN;
    c.shape = shape;
    c.options = shape == SHAPE_ANY && round % 3 == 1;
    if (shape == SHAPE_EVEN) {
        c.keys = KEYS_SHORT;
        c.failures = true;
        c.bulk = c.long_values = false;
        c.segment = rng_one_in(&rng, 2) ? 4096 : 8192;
        c.hold_up = 2;
    }
    if (shape == SHAPE_BESIDE) {
        c.numbers = STATE_KEYS;
        c.bulk = true;
        c.own_checkpoints = c.long_values = c.failures = c.kills = c.snapshots = c.levels = false;
        c.hold_up = 2;
    }
    if (shape == SHAPE_LONG) {
        c.numbers = 12;
        c.segment = 65536; /* the recorder knows so many files at most */
        c.long_values = c.bulk = true;
        c.hold_up = 2;
    }
    c.slots = slots[rng_below(&rng, shape == SHAPE_BESIDE ? 3 : 5)] * (c.page_size / 4096);
    return c;
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static int open_dir(struct work *w, struct ps_recovery *recovery, struct ps_fault *fault)
{
    const struct ps_options options = {
        .page_size = w->config.page_size,
        .dirty_memory = w->config.slots * 4096,
        .map_size = UINT64_C(256) << 20,
        .log_segment_size = w->config.segment,
        .durability = w->config.level,
        .manual_checkpoint = !w->config.own_checkpoints,
        .vfs = recorder_vfs(w->rec),
    };
    return ps_open(w->dir, &options, &w->store, recovery, fault);
}

/* What is found must be a state of the line, and no promise broken. */
static const struct state *judge(struct work *w, uint64_t seq, uint64_t low, bool created)
{
    const struct state *state = line_find(&w->line, seq);
    if (created && w->line.served)
        work_failed(w, "acknowledged-writes-survive",
                    "the store is gone: opening made a new one, and %llu was promised",
                    (unsigned long long)low);
    if (seq < low)
        work_failed(w, "acknowledged-writes-survive",
                    "opening found sequence %llu, %llu was promised", (unsigned long long)seq,
                    (unsigned long long)low);
    if (!state)
        work_failed(w, "dropped-groups-stay-dropped",
                    "opening found sequence %llu; the last one possible is %llu",
                    (unsigned long long)seq, (unsigned long long)line_last(&w->line));
    return state;
}

static const char *compare(struct work *w, const struct state *state)
{
    struct ps_snapshot *snap;
    if (ps_snapshot_new(w->store, &snap) != 0)
        abort();
    ps_snapshot_renew(snap);
    const char *wrong = state_differs(state, w->config.keys, ps_snapshot_view(snap));
    ps_snapshot_free(snap);
    return wrong;
}

static void count_recovery(struct work *w, const struct ps_recovery *recovery, uint64_t low)
{
    struct ps_stat stat;
    ps_stats(w->store, &stat);
    w->tally->reopened_with_replay += recovery->replayed_commits > 0;
    w->tally->replayed_commits += recovery->replayed_commits;
    w->tally->torn_tails += recovery->torn_bytes > 0;
    w->tally->checkpoints_in_recovery += recovery->created ? 0 : stat.checkpoints;
    w->tally->went_back_to_promise += ps_published(w->store) == low && line_last(&w->line) > low;
}

void work_open(struct work *w, uint64_t low)
{
    struct ps_recovery recovery;
    struct ps_fault fault = {0};
    w->over = w->excused = false;
    recorder_waits(w->rec, true);
    int rc = open_dir(w, &recovery, &fault);
    while (rc && recorder_is_dead(w->rec)) { /* killed while it recovered: it begins again */
        w->tally->kills_in_recovery++;
        recorder_revive(w->rec);
        rc = open_dir(w, &recovery, &fault);
    }
    if (rc)
        work_failed(w, "store-opens", "opening answered %d (%s): %s at %llu: %s", rc,
                    ps_strerror(rc), fault.file, (unsigned long long)fault.offset, fault.what);
    values_register(w);
    uint64_t seq = ps_published(w->store);
    const struct state *state = judge(w, seq, low, recovery.created);
    const char *wrong = compare(w, state);
    if (wrong)
        work_failed(w, "recovered-state-existed", "opened at sequence %llu: %s",
                    (unsigned long long)seq, wrong);
    count_recovery(w, &recovery, low);
    recorder_say(w->rec, EV_SERVED, seq);
    line_cut(&w->line, seq);
    w->line.served = true;
    w->line.promised = seq > w->line.promised ? seq : w->line.promised;
    w->system = seq;
    w->now = *state;
    recorder_waits(w->rec, false);
}

static void finding(void *arg, const char *line)
{
    char *first = arg;
    if (!*first)
        snprintf(first, 400, "%s", line);
}

void work_check(struct work *w)
{
    char first[400] = "";
    recorder_waits(w->rec, true);
    (void)ps_flush(w->store, line_last(&w->line)); /* nothing fails here */
    int rc = ps_check(w->store, finding, first);
    if (rc)
        work_failed(w, "space-map-is-exact", "ps_check answered %d (%s): %s", rc, ps_strerror(rc),
                    first);
    const char *wrong = compare(w, &w->now);
    if (wrong)
        work_failed(w, "checkpointed-state-intact", "after a checkpoint: %s", wrong);
    recorder_waits(w->rec, false);
    work_observe(w);
}

/* ---- what is known ----------------------------------------------------------------------------
 */

void work_promise(struct work *w, uint64_t seq)
{
    if (seq > w->line.promised && recorder_say(w->rec, EV_PROMISE, seq))
        w->line.promised = seq;
}

void work_observe(struct work *w)
{
    uint64_t durable = ps_durable(w->store);
    uint64_t published = ps_published(w->store);
    bool logged = ps_get_durability(w->store) != PS_NONE;
    if (recorder_is_dead(w->rec)) {
        w->over = true;
        return;
    }
    work_promise(w, durable);
    if (logged && published > w->system)
        w->system = published;
    if (w->line.promised > w->system)
        w->system = w->line.promised;
}

/* ---- checkpoints beside the writer ------------------------------------------------------------
 */

static void *make_checkpoint(void *arg)
{
    struct work *w = arg;
    w->checkpoint_rc = ps_checkpoint(w->store);
    return NULL;
}

void work_checkpoint_beside(struct work *w)
{
    work_join(w);
    w->checkpoint_runs = pthread_create(&w->checkpointer, NULL, make_checkpoint, w) == 0;
    w->tally->checkpoints_beside_commits += w->checkpoint_runs;
}

void work_join(struct work *w)
{
    if (!w->checkpoint_runs)
        return;
    recorder_waits(w->rec, true);
    pthread_join(w->checkpointer, NULL);
    recorder_waits(w->rec, false);
    w->checkpoint_runs = false;
    if (w->checkpoint_rc)
        work_error(w, w->checkpoint_rc, "ps_checkpoint");
}

/* ---- closing ----------------------------------------------------------------------------------
 */

void work_release(struct work *w, struct held *held)
{
    const char *wrong = NULL;
    if (!held->snap)
        return;
    wrong = state_differs(held->state, w->config.keys, ps_snapshot_view(held->snap));
    if (wrong)
        work_failed(w, "readers-state-intact", "a snapshot of sequence %llu: %s",
                    (unsigned long long)held->state->seq, wrong);
    ps_snapshot_free(held->snap);
    held->snap = NULL;
}

static void count_store(struct work *w)
{
    struct ps_stat stat;
    struct tally *t = w->tally;
    ps_stats(w->store, &stat);
    t->checkpoints += stat.checkpoints;
    t->log_epochs += stat.log_epochs;
    t->spilled_pages += stat.spilled_pages;
    t->pieces_written_early += stat.log_pieces_early;
    t->file_runs += stat.file_runs;
    t->overflow_runs += stat.overflow_runs;
    t->deaths_passed += stat.deaths_passed;
    t->relinks += stat.relinks;
    t->fresh_pages_mapped += stat.fresh_mapped;
    t->fresh_pages_freed += stat.fresh_freed;
    t->values_compressed += stat.values_compressed;
    t->merges_folded += stat.merge_ops_folded;
    t->threads_held_up += recorder_held(w->rec);
}

void work_close(struct work *w, bool checkpoint)
{
    recorder_waits(w->rec, true);
    work_join(w);
    for (unsigned i = 0; i < WORK_HELD; i++)
        work_release(w, &w->held[i]);
    count_store(w);
    struct ps_store *store = w->store;
    w->store = NULL;
    int rc = ps_close(store, checkpoint);
    recorder_waits(w->rec, false);
    if (rc && !w->over && !w->excused && !recorder_is_dead(w->rec))
        work_failed(w, "calls-work", "ps_close answered %d (%s)", rc, ps_strerror(rc));
}

/* The process ended in one way or another; the next one opens what it left. */
void work_next_life(struct work *w)
{
    work_close(w, false);
    recorder_revive(w->rec);
    if (w->config.kills && rng_one_in(&w->rng, 3)) /* it does not get far */
        recorder_kill_after(w->rec, (unsigned)rng_between(&w->rng, 1, 12));
    work_open(w, w->system > w->line.promised ? w->system : w->line.promised);
}
