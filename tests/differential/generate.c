/*
 * From a seed and a number to a sequence: 20 to 60 steps, now and then more than a thousand.
 *
 * Invariants:
 *  1. A sequence depends on (seed, number, resp) and on nothing else: not on replies, not on other
 *     sequences.
 *  2. No step's outcome depends on a clock (token.c), on a random choice of the server (RANDOMKEY
 *     and the like have a comparison mode), or on the order in which connections are served (run.c
 *     keeps it).
 *  3. An absolute expiry in the past is followed, in the same step, by an EXISTS of the key: SET
 *     stores such a key, and whether it counts before anybody looked at it is the server's
 *     business.
 */
#include "tests/differential/generate.h"

#include <assert.h>
#include <string.h>

static bool is_word(const struct arg *arg, const char *word)
{
    return arg->len == strlen(word) && strncasecmp(arg->data, word, arg->len) == 0;
}

static void remove_arg(struct generator *gen, size_t at)
{
    memmove(&gen->argv[at], &gen->argv[at + 1], (gen->argc - at - 1) * sizeof gen->argv[0]);
    gen->argc--;
}

/* Puts a copy of the argument at `from` before the one at `at`. */
static void insert_arg(struct generator *gen, size_t at, struct arg arg)
{
    assert(gen->argc < MAX_ARGS);
    memmove(&gen->argv[at + 1], &gen->argv[at], (gen->argc - at) * sizeof gen->argv[0]);
    gen->argv[at] = arg;
    gen->argc++;
}

/* Makes a wrong command of a right one: arity, order, options, types. */
static void break_call(struct generator *gen)
{
    size_t last = gen->argc - 1, at;
    token_junk(gen);
    struct arg junk = gen->argv[--gen->argc];
    switch (rng_below(gen, 6)) {
    case 0:
        gen->argc = 1 + rng_below(gen, gen->argc);
        break;
    case 1:
        if (last > 0)
            remove_arg(gen, 1 + rng_below(gen, last));
        break;
    case 2:
        insert_arg(gen, 1 + rng_below(gen, gen->argc), junk);
        break;
    case 3:
        if (last > 0)
            gen->argv[1 + rng_below(gen, last)] = junk;
        break;
    case 4:
        at = rng_below(gen, gen->argc);
        insert_arg(gen, at, gen->argv[at]);
        break;
    default:
        at = 1 + rng_below(gen, gen->argc);
        if (at + 1 < gen->argc && !gen->has_expiry) {
            junk = gen->argv[at];
            gen->argv[at] = gen->argv[at + 1];
            gen->argv[at + 1] = junk;
        }
        break;
    }
}

static void add_call(struct generator *gen, struct step *step, enum cmp_mode mode)
{
    struct heap *heap = &gen->sequence->heap;
    assert(step->ncalls < MAX_CALLS);
    step->calls[step->ncalls++] =
        (struct call){.argc = gen->argc,
                      .argv = heap_copy(heap, gen->argv, gen->argc * sizeof gen->argv[0]),
                      .mode = mode};
}

static void add_exists(struct generator *gen, struct step *step)
{
    struct arg key = gen->argv[1];
    gen->argc = 0;
    gen_arg_text(gen, "EXISTS");
    gen_arg(gen, key.data, key.len);
    add_call(gen, step, CMP_EXACT);
}

static void add_keys(struct generator *gen, struct step *step)
{
    gen->argc = 0;
    gen_arg_text(gen, "KEYS");
    gen_arg_text(gen, "*");
    add_call(gen, step, CMP_SET);
}

static void track_transaction(struct generator *gen, struct step *step)
{
    const struct arg *name = &step->calls[0].argv[0];
    if (is_word(name, "MULTI"))
        gen->in_multi[gen->client] = true;
    else if (is_word(name, "EXEC") || is_word(name, "DISCARD") || is_word(name, "RESET") ||
             step->closes)
        gen->in_multi[gen->client] = false;
    if (is_word(name, "EXEC") && gen->kills)
        step->ends_batch = true;
}

/* Fills in a step by a rule of the table. */
static void apply_rule(struct generator *gen, const struct rule *rule, struct step *step)
{
    *step = (struct step){.kind = rule->kind, .client = gen->client};
    step->closes = (rule->flags & RULE_CLOSES) != 0;
    step->ends_batch = (rule->flags & RULE_ENDS_BATCH) != 0;
    if (rule->kind == STEP_RAW) {
        malformed_make(gen, step);
        return;
    }
    if (rule->kind != STEP_COMMAND) {
        step->db = rng_percent(gen, 80) ? (int)rng_below(gen, 2) : (int)rng_below(gen, 16);
        gen->argc = 0;
        token_expand(gen, rule->kind == STEP_SCANLOOP ? "pattern" : "key",
                     rule->kind == STEP_SCANLOOP ? 7 : 3);
        add_call(gen, step, CMP_EXACT);
        step->ends_batch = true;
        return;
    }
    grammar_expand(gen, rule->grammar);
    if (!(rule->flags & RULE_INTACT) && rng_percent(gen, 6))
        break_call(gen);
    add_call(gen, step, rule->mode);
    bool past = gen->has_past && gen->argc > 1;
    step->inline_form = rng_percent(gen, 4);
    if (rule->flags & RULE_CONFIG)
        gen->sequence->touches_config = true;
    if (rule->flags & RULE_ENDS_BATCH)
        gen->kills = true;
    track_transaction(gen, step);
    if (past)
        add_exists(gen, step);
    else if (rule->flags & RULE_THEN_KEYS)
        add_keys(gen, step);
}

static unsigned rule_weight(const struct generator *gen, const struct rule *rule)
{
    unsigned weight = rule->flags & RULE_RARE ? rule->weight : rule->weight * 8;
    if (gen->with_password && (rule->flags & RULE_AUTH))
        weight *= 10;
    if (gen->in_multi[gen->client] && (rule->flags & RULE_NOT_IN_MULTI))
        weight = 0;
    if (gen->deep && (rule->kind != STEP_COMMAND || (rule->flags & RULE_ENDS_BATCH)))
        weight = 0;
    return weight;
}

static const struct rule *choose_rule(struct generator *gen)
{
    unsigned total = 0;
    for (size_t i = 0; i < rule_table_size; i++)
        total += rule_weight(gen, &rule_table[i]);
    size_t at = rng_below(gen, total);
    for (size_t i = 0; i < rule_table_size; i++) {
        unsigned weight = rule_weight(gen, &rule_table[i]);
        if (at < weight)
            return &rule_table[i];
        at -= weight;
    }
    assert(!"the weights do not add up");
    return NULL;
}

/* A step that leaves an open transaction soon, so that most of what is queued is also executed. */
static const struct rule *end_transaction(struct generator *gen)
{
    static const struct rule exec = {1, "EXEC", CMP_EXACT, 0, STEP_COMMAND};
    static const struct rule discard = {1, "DISCARD", CMP_EXACT, 0, STEP_COMMAND};
    if (!gen->in_multi[gen->client] || !rng_percent(gen, 18))
        return NULL;
    return rng_percent(gen, 85) ? &exec : &discard;
}

/* The first steps of a sequence with a password: set it, and bring one connection into the state
 * before AUTH. */
static size_t begin_with_password(struct generator *gen, struct step *steps)
{
    static const struct rule set = {1, "CONFIG SET requirepass sesame", CMP_EXACT,
                                    RULE_CONFIG | RULE_INTACT, 0};
    static const struct rule quit = {1, "QUIT", CMP_EXACT,
                                     RULE_CLOSES | RULE_ENDS_BATCH | RULE_INTACT, 0};
    gen->client = 0;
    apply_rule(gen, &set, &steps[0]);
    gen->client = gen->sequence->clients - 1;
    apply_rule(gen, &quit, &steps[1]);
    return 2;
}

/* Debian's redis-server (its fix of CVE-2025-21605) closes a client that has to authenticate itself
 * and for which more than 1 KiB of replies wait, by the size of their blocks, not by their length.
 * RESET takes the authentication away: what waits then may be lost with the connection, so that
 * nothing may. */
static void let_nothing_wait(const struct generator *gen, struct step *steps, size_t at)
{
    const struct step *step = &steps[at];
    if (gen->with_password && at > 0 && step->kind == STEP_COMMAND &&
        is_word(&step->calls[0].argv[0], "RESET"))
        steps[at - 1].ends_batch = true;
}

void sequence_generate(struct sequence *sequence, uint64_t seed, uint64_t number, int resp)
{
    *sequence = (struct sequence){.seed = seed, .number = number, .resp = resp};
    struct generator gen = {.sequence = sequence, .rng = seed * 0x9e3779b97f4a7c15u + number};
    gen.rng = rng_next(&gen) ^ number;
    gen.long_strings = number % 20 == 7;
    gen.budget = gen.long_strings ? LONG_BUDGET : 64000;
    gen.relative_offset = (unsigned)rng_below(&gen, 997);
    gen.with_password = rng_percent(&gen, 3);
    size_t kind = rng_below(&gen, 100);
    sequence->clients = kind < 70 ? 1 : kind < 90 ? 2 : 3;
    sequence->split_writes = rng_percent(&gen, 25);
    sequence->count = 20 + rng_below(&gen, 41);
    gen.deep = rng_percent(&gen, 1);
    if (gen.deep) {
        gen.with_password = false;
        sequence->clients = 1;
        sequence->count = MAX_STEPS - rng_below(&gen, MAX_STEPS / 2);
    }
    sequence->steps = heap_alloc(&sequence->heap, sequence->count * sizeof *sequence->steps);
    token_choose_keys(&gen);
    size_t at = gen.with_password ? begin_with_password(&gen, sequence->steps) : 0;
    for (; at < sequence->count; at++) {
        if (rng_percent(&gen, 20))
            gen.client = (int)rng_below(&gen, (size_t)sequence->clients);
        const struct rule *rule = end_transaction(&gen);
        apply_rule(&gen, rule != NULL ? rule : choose_rule(&gen), &sequence->steps[at]);
        if (!gen.deep && rng_percent(&gen, 6))
            sequence->steps[at].ends_batch = true;
        let_nothing_wait(&gen, sequence->steps, at);
    }
}

void sequence_free(struct sequence *sequence)
{
    heap_free(&sequence->heap);
}
