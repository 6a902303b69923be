/*
 * Runs one sequence against both servers.
 *
 * Invariants:
 *  1. Consecutive steps of one client are one pipeline, sent to both servers at once; before
 *     another client's steps are sent, all its replies are there. So the order of execution is that
 *     of the sequence, on both servers.
 *  2. A connection that a server closed is opened again by its client's next pipeline, on both
 *     servers.
 *  3. A run leaves both servers empty and as they were configured, or reports them dead; what one
 *     sequence did is never seen by the next.
 *  4. The first difference ends the run: after it, the servers' states may differ in everything.
 */
#include "tests/differential/run.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void runner_init(struct runner *runner, struct server *servers)
{
    *runner = (struct runner){.servers = servers, .timeout_ms = 10000};
    for (int s = 0; s < 2; s++) {
        runner->control[s].fd = -1;
        for (int c = 0; c < MAX_CLIENTS; c++)
            runner->peers[c].conns[s].fd = -1;
        runner->env.ids[NO_CLIENT][s] = -1;
    }
}

static void peer_close(struct runner *runner, int client)
{
    struct peer *peer = &runner->peers[client];
    for (int s = 0; s < 2; s++) {
        conn_close(&peer->conns[s]);
        runner->env.ids[client][s] = -1;
    }
    peer->open = false;
    peer->queued = 0;
}

void runner_close(struct runner *runner)
{
    for (int c = 0; c < MAX_CLIENTS; c++)
        peer_close(runner, c);
    conn_close(&runner->control[0]);
    conn_close(&runner->control[1]);
    runner->control_open = false;
}

int runner_restart(struct runner *runner)
{
    runner_close(runner);
    for (int s = 0; s < 2; s++)
        server_stop(&runner->servers[s]);
    for (int s = 0; s < 2; s++)
        if (server_start(&runner->servers[s]) < 0)
            return -1;
    return 0;
}

static bool name_is(const struct call *call, const char *name)
{
    return call->argc > 0 && call->argv[0].len == strlen(name) &&
           strncasecmp(call->argv[0].data, name, call->argv[0].len) == 0;
}

/* Compares one reply; an accepted difference counts as equal. */
static enum outcome check_reply(struct runner *runner, const struct call *call, struct reply *a,
                                struct reply *b, const struct reply *next_a,
                                const struct reply *next_b)
{
    char text[sizeof runner->difference->request * 3 + 16];
    struct difference *difference = runner->difference;
    fault_apply(runner->fault, call, &runner->heap, b);
    runner->replies_compared++;
    coverage_count(&runner->coverage, call, a);
    if (compare_replies(&runner->env, call->mode, a, b, next_a, next_b))
        return OUTCOME_EQUAL;
    call_format(call, difference->request, sizeof difference->request);
    reply_format(a, difference->replies[0], sizeof difference->replies[0]);
    reply_format(b, difference->replies[1], sizeof difference->replies[1]);
    snprintf(difference->command, sizeof difference->command, "%.*s",
             call->argc ? (int)call->argv[0].len : 0, call->argc ? call->argv[0].data : "");
    snprintf(text, sizeof text, "%s => %s | %s", difference->request, difference->replies[0],
             difference->replies[1]);
    struct exception *accepted =
        runner->exceptions == NULL ? NULL
                                   : exceptions_find(runner->exceptions, difference->command, text);
    if (accepted != NULL) {
        accepted->matched += runner->count_exceptions;
        return OUTCOME_EQUAL;
    }
    difference->step = runner->step;
    difference->note[0] = '\0';
    return OUTCOME_DIFFERENT;
}

/* EXEC's replies are compared one by one, each as its call declares. */
static enum outcome check_exec(struct runner *runner, struct peer *peer, const struct call *call,
                               struct reply *a, struct reply *b)
{
    coverage_count(&runner->coverage, call, a);
    for (size_t i = 0; i < peer->queued; i++) {
        bool more = i + 1 < peer->queued;
        enum outcome outcome =
            check_reply(runner, peer->queue[i], &a->items[i], &b->items[i],
                        more ? &a->items[i + 1] : NULL, more ? &b->items[i + 1] : NULL);
        if (outcome != OUTCOME_EQUAL)
            return outcome;
    }
    return OUTCOME_EQUAL;
}

enum outcome check_call(struct runner *runner, struct peer *peer, const struct call *call,
                        struct reply *a, struct reply *b, const struct reply *next_a,
                        const struct reply *next_b)
{
    enum outcome outcome;
    bool queued = a->type == '+' && b->type == '+' && reply_text_is(a, "QUEUED") &&
                  reply_text_is(b, "QUEUED");
    if (peer != NULL && name_is(call, "EXEC") && a->type == '*' && b->type == '*' &&
        a->count == peer->queued && b->count == peer->queued && !a->null && !b->null)
        outcome = check_exec(runner, peer, call, a, b);
    else
        outcome = check_reply(runner, call, a, b, next_a, next_b);
    if (peer == NULL)
        return outcome;
    if (queued && peer->queued < MAX_QUEUED)
        peer->queue[peer->queued++] = call;
    else if (!queued &&
             (name_is(call, "EXEC") || name_is(call, "DISCARD") || name_is(call, "RESET")))
        peer->queued = 0;
    return outcome;
}

enum outcome exchange_pair(struct runner *runner, struct conn *pair, size_t expected,
                           struct reply_list *replies, const char *what)
{
    struct conn *conns[2] = {&pair[0], &pair[1]};
    size_t wanted[2] = {expected, expected}, late = 0;
    int rc = conn_exchange(conns, wanted, 2, replies, &runner->heap, runner->timeout_ms, &late);
    if (rc == 0)
        return OUTCOME_EQUAL;
    if (rc == -EINTR)
        return OUTCOME_INTERRUPTED;
    struct difference *difference = runner->difference;
    difference->step = runner->step;
    snprintf(difference->command, sizeof difference->command, "(no reply)");
    snprintf(difference->request, sizeof difference->request, "%s", what);
    for (int s = 0; s < 2; s++)
        snprintf(difference->replies[s], sizeof difference->replies[s], "%zu of %zu replies",
                 replies[s].count, expected);
    char status[128];
    server_status(&runner->servers[late], status, sizeof status);
    snprintf(difference->note, sizeof difference->note,
             "%s did not answer within %d ms; its process is %s", runner->servers[late].label,
             runner->timeout_ms, status);
    return OUTCOME_DEAD;
}

/* Notes that a server can't be reached. */
static enum outcome report_unreachable(struct runner *runner, int server, int rc)
{
    char status[128];
    struct difference *difference = runner->difference;
    server_status(&runner->servers[server], status, sizeof status);
    difference->step = runner->step;
    snprintf(difference->command, sizeof difference->command, "(connect)");
    snprintf(difference->request, sizeof difference->request, "connecting");
    difference->replies[0][0] = difference->replies[1][0] = '\0';
    snprintf(difference->note, sizeof difference->note,
             "%s refuses a connection (%s); its process is %s", runner->servers[server].label,
             strerror(-rc), status);
    return OUTCOME_DEAD;
}

static enum outcome open_pair(struct runner *runner, struct conn *pair)
{
    for (int s = 0; s < 2; s++) {
        int rc = conn_open(&pair[s], runner->servers[s].port);
        if (rc < 0)
            return report_unreachable(runner, s, rc);
    }
    return OUTCOME_EQUAL;
}

/* Connects a client to both servers, switches to the sequence's protocol, learns the ids. */
static enum outcome peer_open(struct runner *runner, int client)
{
    static struct arg hello[] = {{.data = "HELLO", .len = 5}, {.data = "3", .len = 1}};
    static struct arg id[] = {{.data = "CLIENT", .len = 6}, {.data = "ID", .len = 2}};
    static const struct call calls[2] = {{2, hello, CMP_HELLO}, {2, id, CMP_CLIENT_ID}};
    struct peer *peer = &runner->peers[client];
    size_t first = runner->sequence->resp == 3 ? 0 : 1, count = 2 - first;
    struct reply_list replies[2] = {{0}, {0}};
    peer_close(runner, client);
    enum outcome outcome = open_pair(runner, peer->conns);
    if (outcome != OUTCOME_EQUAL)
        return outcome;
    peer->open = true;
    runner->env.client = client;
    for (int s = 0; s < 2; s++)
        for (size_t i = first; i < 2; i++)
            render_call(runner, &calls[i], s, false, &peer->conns[s].out);
    outcome =
        exchange_pair(runner, peer->conns, count, replies, "the first commands of a connection");
    for (size_t i = 0; i < count && outcome == OUTCOME_EQUAL; i++)
        outcome = check_call(runner, NULL, &calls[first + i], &replies[0].items[i],
                             &replies[1].items[i], NULL, NULL);
    for (int s = 0; s < 2; s++) {
        if (outcome == OUTCOME_EQUAL && replies[s].items[count - 1].type == ':')
            runner->env.ids[client][s] = replies[s].items[count - 1].integer;
        reply_list_free(&replies[s]);
    }
    return outcome;
}

/* Compares what a pipeline of steps [from, to) brought. */
static enum outcome check_batch(struct runner *runner, const struct step *const *steps,
                                const size_t *indexes, size_t count, struct reply_list *replies)
{
    struct peer *peer = &runner->peers[steps[0]->client];
    struct reply *a = replies[0].items, *b = replies[1].items;
    for (size_t i = 0; i < count; i++) {
        runner->step = indexes[i];
        for (size_t c = 0; c < steps[i]->ncalls; c++, a++, b++) {
            bool more = c + 1 < steps[i]->ncalls;
            enum outcome outcome = check_call(runner, peer, &steps[i]->calls[c], a, b,
                                              more ? a + 1 : NULL, more ? b + 1 : NULL);
            if (outcome != OUTCOME_EQUAL)
                return outcome;
        }
        if (steps[i]->closes) {
            struct call end = steps[i]->calls[0];
            end.mode = CMP_EXACT;
            enum outcome outcome = check_reply(runner, &end, a++, b++, NULL, NULL);
            if (outcome != OUTCOME_EQUAL)
                return outcome;
        }
    }
    return OUTCOME_EQUAL;
}

/* Sends a pipeline of one client and compares its replies. */
static enum outcome run_batch(struct runner *runner, const struct step *const *steps,
                              const size_t *indexes, size_t count)
{
    struct peer *peer = &runner->peers[steps[0]->client];
    struct reply_list replies[2] = {{0}, {0}};
    size_t expected = 0;
    char what[2048];
    enum outcome outcome = OUTCOME_EQUAL;
    runner->step = indexes[0];
    if (!peer->open)
        outcome = peer_open(runner, steps[0]->client);
    if (outcome != OUTCOME_EQUAL)
        return outcome;
    runner->env.client = steps[0]->client;
    for (size_t i = 0; i < count; i++) {
        for (size_t c = 0; c < steps[i]->ncalls; c++)
            for (int s = 0; s < 2; s++)
                render_call(runner, &steps[i]->calls[c], s, steps[i]->inline_form,
                            &peer->conns[s].out);
        expected += steps[i]->ncalls + steps[i]->closes;
    }
    if (runner->sequence->split_writes)
        for (int s = 0; s < 2; s++)
            peer->conns[s].first_send =
                1 + (runner->sequence->number * 31 + indexes[0] * 7) % peer->conns[s].out.len;
    runner->step = indexes[count - 1];
    step_format(steps[count - 1], what, sizeof what);
    outcome = exchange_pair(runner, peer->conns, expected, replies, what);
    if (outcome == OUTCOME_EQUAL)
        outcome = check_batch(runner, steps, indexes, count, replies);
    bool closed = false;
    for (int s = 0; s < 2; s++) {
        closed = closed || (replies[s].count > 0 &&
                            replies[s].items[replies[s].count - 1].type == REPLY_CLOSED);
        reply_list_free(&replies[s]);
    }
    if (closed)
        peer_close(runner, steps[0]->client);
    return outcome;
}

/* Whether a pipeline of `count` steps must be over before `step` is begun. */
static bool ends_batch(const struct step *const *batch, size_t count, const struct step *step)
{
    if (count == 0)
        return false;
    return step->kind != STEP_COMMAND || count == MAX_STEPS || batch[0]->client != step->client ||
           batch[count - 1]->ends_batch;
}

/* Gathers pipelines and runs them, and the other kinds of steps between them. */
static enum outcome run_steps(struct runner *runner, const bool *enabled)
{
    const struct sequence *sequence = runner->sequence;
    const struct step *batch[MAX_STEPS];
    size_t indexes[MAX_STEPS], count = 0;
    enum outcome outcome = OUTCOME_EQUAL;
    for (size_t i = 0; i < sequence->count && outcome == OUTCOME_EQUAL; i++) {
        const struct step *step = &sequence->steps[i];
        if (enabled != NULL && !enabled[i])
            continue;
        if (ends_batch(batch, count, step)) {
            outcome = run_batch(runner, batch, indexes, count);
            count = 0;
        }
        if (outcome == OUTCOME_EQUAL && step->kind == STEP_COMMAND) {
            batch[count] = step;
            indexes[count++] = i;
        } else if (outcome == OUTCOME_EQUAL) {
            runner->step = i;
            outcome = control_step(runner, step);
        }
    }
    if (outcome == OUTCOME_EQUAL && count > 0)
        outcome = run_batch(runner, batch, indexes, count);
    return outcome;
}

static void fire_signal(struct runner *runner)
{
    if (runner->fault != NULL && runner->fault->signal != 0 && !runner->fault_fired &&
        runner->sequence->number == 2) {
        kill(runner->servers[1].pid, runner->fault->signal);
        runner->fault_fired = true;
    }
}

enum outcome run_sequence(struct runner *runner, const struct sequence *sequence,
                          const bool *enabled, struct difference *difference)
{
    enum outcome outcome = OUTCOME_EQUAL;
    runner->sequence = sequence;
    runner->difference = difference;
    runner->step = 0;
    runner->env.heap = &runner->heap;
    *difference = (struct difference){0};
    if (!runner->control_open)
        outcome = open_pair(runner, runner->control);
    runner->control_open = outcome == OUTCOME_EQUAL;
    for (int c = 0; c < MAX_CLIENTS; c++)
        peer_close(runner, c);
    for (int c = 0; c < sequence->clients && outcome == OUTCOME_EQUAL; c++)
        outcome = peer_open(runner, c);
    fire_signal(runner);
    if (outcome == OUTCOME_EQUAL)
        outcome = run_steps(runner, enabled);
    runner->step = sequence->count;
    if (outcome == OUTCOME_EQUAL)
        outcome = control_dump(runner);
    for (int c = 0; c < MAX_CLIENTS; c++)
        peer_close(runner, c);
    if (outcome != OUTCOME_DEAD && outcome != OUTCOME_INTERRUPTED && control_cleanup(runner) < 0) {
        for (int s = 0; s < 2; s++) {
            char status[128];
            size_t used = strlen(difference->note);
            server_status(&runner->servers[s], status, sizeof status);
            snprintf(difference->note + used, sizeof difference->note - used, "%s%s is %s",
                     used ? "; " : "", runner->servers[s].label, status);
        }
        outcome = OUTCOME_DEAD;
    }
    heap_free(&runner->heap);
    return outcome;
}
