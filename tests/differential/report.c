/*
 * Shrinks a failing sequence and reports it.
 *
 * Shrinking is greedy: runs of steps, then single steps, are left out as long as what remains still
 * fails, in whatever way; until no single step can be left out. Sequences are short, so that is at
 * most some hundred runs of milliseconds.
 */
#include "tests/differential/report.h"

#include <stdio.h>
#include <string.h>

/* Characters shown before the place where long replies begin to differ. */
#define CONTEXT           20
#define MAX_RUNS          600
#define MAX_DEAD_RUNS     40
#define SHRINK_TIMEOUT_MS 2000

/* How much more trying is worth. */
struct effort {
    int runs, dead_runs;
};

/* Runs what is enabled; true if it fails, with the difference in *difference. */
static bool still_fails(struct runner *runner, const struct sequence *sequence, const bool *enabled,
                        struct difference *difference, struct effort *effort)
{
    struct difference found;
    if (effort->runs++ >= MAX_RUNS || effort->dead_runs >= MAX_DEAD_RUNS)
        return false;
    enum outcome outcome = run_sequence(runner, sequence, enabled, &found);
    if (outcome == OUTCOME_DEAD) {
        effort->dead_runs++;
        if (runner_restart(runner) < 0)
            effort->dead_runs = MAX_DEAD_RUNS;
    }
    if (outcome != OUTCOME_DIFFERENT && outcome != OUTCOME_DEAD)
        return false;
    *difference = found;
    return true;
}

static size_t count_enabled(const bool *enabled, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        left += enabled[i];
    return left;
}

/* Tries without each run of `width` enabled steps, from the end. Returns whether something could be
 * left out. */
static bool remove_runs(struct runner *runner, const struct sequence *sequence, bool *enabled,
                        size_t width, struct difference *difference, struct effort *effort)
{
    bool progress = false, before[MAX_STEPS];
    for (size_t end = sequence->count; end > 0;) {
        size_t start = end > width ? end - width : 0;
        memcpy(before, enabled, sequence->count * sizeof *enabled);
        memset(enabled + start, 0, (end - start) * sizeof *enabled);
        if (count_enabled(enabled, sequence->count) == count_enabled(before, sequence->count)) {
            end = start;
            continue;
        }
        if (still_fails(runner, sequence, enabled, difference, effort))
            progress = true;
        else
            memcpy(enabled, before, sequence->count * sizeof *enabled);
        end = start;
    }
    return progress;
}

size_t shrink(struct runner *runner, const struct sequence *sequence, bool *enabled,
              struct difference *difference)
{
    struct effort effort = {0, 0};
    int timeout = runner->timeout_ms;
    memset(enabled, 1, sequence->count * sizeof *enabled);
    bool counted = runner->count_exceptions;
    runner->count_exceptions = false;
    runner->timeout_ms = timeout < SHRINK_TIMEOUT_MS ? timeout : SHRINK_TIMEOUT_MS;
    size_t left = 0;
    if (still_fails(runner, sequence, enabled, difference, &effort)) {
        for (size_t i = difference->step + 1; i < sequence->count; i++)
            enabled[i] = false;
        if (!still_fails(runner, sequence, enabled, difference, &effort))
            memset(enabled, 1, sequence->count * sizeof *enabled);
        for (size_t width = sequence->count / 2; width > 1; width /= 2)
            remove_runs(runner, sequence, enabled, width, difference, &effort);
        while (remove_runs(runner, sequence, enabled, 1, difference, &effort)) {
        }
        left = count_enabled(enabled, sequence->count);
    }
    runner->count_exceptions = counted;
    runner->timeout_ms = timeout;
    return left;
}

size_t difference_position(const struct difference *difference)
{
    const char *a = difference->replies[0], *b = difference->replies[1];
    size_t at = 0;
    while (a[at] != '\0' && a[at] == b[at])
        at++;
    return at > CONTEXT ? at - CONTEXT : 0;
}

void report_failure(const struct runner *runner, const struct invocation *invocation,
                    const struct sequence *sequence, const bool *enabled, size_t left,
                    const struct difference *difference)
{
    char text[8192];
    printf("FAIL seed %llu sequence %llu (RESP%d, %d clients, %zu steps)\n",
           (unsigned long long)sequence->seed, (unsigned long long)sequence->number, sequence->resp,
           sequence->clients, sequence->count);
    if (left > 0)
        printf("  %zu steps are left:\n", left);
    else
        printf("  it did not recur when run again; the steps up to the failure were:\n");
    for (size_t i = 0; i < sequence->count; i++) {
        if (!enabled[i] || (left == 0 && i > difference->step))
            continue;
        step_format(&sequence->steps[i], text, sizeof text);
        printf("  %2zu client %d: %s%s\n", i, sequence->steps[i].client, text,
               i == difference->step ? "   <--" : "");
    }
    printf("  at %s%s\n",
           difference->step == sequence->count ? "the comparison of the data sets: " : "",
           difference->request);
    printf("  %-8s %s\n", runner->servers[0].label, difference->replies[0]);
    printf("  %-8s %s\n", runner->servers[1].label, difference->replies[1]);
    size_t at = difference_position(difference);
    if (at > 0)
        printf("  they differ at \"%.60s\" | \"%.60s\"\n", difference->replies[0] + at,
               difference->replies[1] + at);
    if (difference->note[0] != '\0')
        printf("  %s\n", difference->note);
    printf("  reproduce: %s --redis %s --pandod %s --resp %s --seed %llu --sequence %llu%s%s\n",
           invocation->program, invocation->redis, invocation->pandod, invocation->resp,
           (unsigned long long)sequence->seed, (unsigned long long)sequence->number,
           runner->fault ? " --fault " : "", runner->fault ? runner->fault->name : "");
    fflush(stdout);
}
