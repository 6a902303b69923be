/*
 * rules.c - see rules.h.
 *
 * A rule is left out, and rounds are run until one fails; the same rounds must pass with all rules.
 * Rules that a loss of power cannot show are in not-caught.tsv, with what shows them instead. A
 * rule of that list that is caught after all is a failure, and so is one that does not exist. Where
 * the reason begins with "by chance", catching it here is a matter of luck: nothing is run.
 */
#include "tests/powerloss/rules.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/rules.h"

#define MOST_ROUNDS   400u /* without a rule, of RULE_IMAGES images each */
#define LISTED_ROUNDS 4u   /* of a rule that is said not to be caught */
#define BY_CHANCE     "by chance"
#define LIST          "tests/powerloss/not-caught.tsv"

int rules_list(void)
{
    for (unsigned i = 0; ps_rule_name(i); i++)
        printf("%-36s %s\n", ps_rule_name(i), ps_rule_text(i));
    return 0;
}

static unsigned find(const char *name)
{
    unsigned i = 0;
    while (ps_rule_name(i) && strcmp(ps_rule_name(i), name) != 0)
        i++;
    return i;
}

#ifdef PS_RULES_CAN_BREAK
#define CAN_BREAK true
#else
#define CAN_BREAK false
static void ps_rules_leave_out(enum ps_rule rule)
{
    (void)rule;
}
#endif

bool rules_leave_out(const char *name)
{
    if (!CAN_BREAK) {
        printf("this build keeps all rules: make RULES=1 rules, and build/rules/tests/powerloss\n");
        return false;
    }
    unsigned rule = find(name);
    if (rule == RULES)
        printf("there is no rule %s\n", name);
    else
        ps_rules_leave_out((enum ps_rule)rule);
    return rule < RULES;
}

/* ---- the list ---------------------------------------------------------------------------------
 */

struct exception {
    char command[200], pattern[80], reason[400];
    bool listed;
};

/* Lines of rule, command, pattern and reason, with tabs between. False: it says nonsense. */
static bool read_list(struct exception list[RULES])
{
    char line[800];
    bool good = true;
    FILE *file = fopen(LIST, "re");
    if (!file) {
        printf("FAILED %s cannot be read (run this in the root of the sources)\n", LIST);
        return false;
    }
    while (fgets(line, sizeof line, file)) {
        char name[64];
        struct exception one = {.listed = true};
        if (line[0] == '#' || line[0] == '\n')
            continue;
        bool whole = sscanf(line, "%63[^\t]\t%199[^\t]\t%79[^\t]\t%399[^\n]", name, one.command,
                            one.pattern, one.reason) == 4;
        unsigned rule = whole ? find(name) : RULES;
        if (rule == RULES || list[rule].listed) {
            printf("FAILED %s: no rule, twice the same, or not four columns: %s", LIST, line);
            good = false;
            continue;
        }
        list[rule] = one;
    }
    fclose(file);
    return good;
}

/* Whether the command that is said to show the rule prints what it is said to. */
static bool shown_elsewhere(const struct exception *e)
{
    char line[1000];
    bool found = false;
    char command[220]; /* what else it says is of no use here */
    snprintf(command, sizeof command, "%s 2>/dev/null", e->command);
    FILE *output = popen(command, "re");
    if (!output)
        return false;
    while (fgets(line, sizeof line, output))
        found = found || strstr(line, e->pattern);
    pclose(output);
    return found;
}

/* ---- one rule ----------------------------------------------------------------------------------
 */

/* The rounds up to the one that failed, with all rules again. */
static bool passes_with_all(struct rounds *rounds, const struct order *order)
{
    struct progress failed = {0};
    uint64_t images = 0;
    ps_rules_leave_out(RULES);
    uint64_t at = rounds_until_failure(rounds, order, order->round + 1, &failed, &images);
    if (at == order->round) {
        printf("  FAILED: with all rules this round fails, too\n");
        rounds_report(rounds, &failed, order);
        return false;
    }
    printf("    with all rules: seed %" PRIu64 " round %" PRIu64 " passes, all of its %" PRIu64
           " images\n",
           order->seed, order->round, images);
    return true;
}

/* The shape in whose rounds a rule is noticed most often (--rate says how often that is); where a
 * workload of no shape notices it as well, that one. Calls fail in every round of even commits.
 * Slots are used again while a checkpoint is being completed only if there are few. Long values are
 * seldom still being written when their pages are free. */
static enum shape shape_for(unsigned rule)
{
    switch (rule) {
    case RULE_META_AFTER_META:
    case RULE_FAILED_SYNC_POISONS:
    case RULE_REWRITE_REPLAYED_TAIL:
        return SHAPE_EVEN;
    case RULE_PIN_UNTIL_ADOPTED:
        return SHAPE_BESIDE;
    case RULE_RECYCLE_UNDER_SYNCED_META:
    case RULE_RUNS_GIVEN_UP:
        return SHAPE_LONG;
    default:
        return SHAPE_ANY;
    }
}

static bool try_rule(struct rounds *rounds, uint64_t seed, unsigned rule,
                     const struct exception *exception)
{
    struct progress failed = {0};
    uint64_t images = 0;
    bool luck = exception->listed && strncmp(exception->reason, BY_CHANCE, strlen(BY_CHANCE)) == 0;
    uint64_t most = luck ? 0 : exception->listed ? LISTED_ROUNDS : MOST_ROUNDS;
    struct order order = {.seed = seed, .images = RULE_IMAGES, .shape = shape_for(rule)};
    ps_rules_leave_out((enum ps_rule)rule);
    uint64_t round = rounds_until_failure(rounds, &order, most, &failed, &images);
    order.round = round;
    printf("without %s:\n", ps_rule_name(rule));
    if (round < most) {
        printf("    caught: %s, seed %" PRIu64 " round %" PRIu64 " image %s (%s), %" PRIu64
               " images: %s\n",
               failed.assertion, seed, round, failed.path[0] ? failed.path : "-", failed.kind,
               images, failed.text);
        printf("    again: build/rules/tests/powerloss --without %s --seed %" PRIu64
               " --round %" PRIu64 " --images %u --shape %s\n",
               ps_rule_name(rule), seed, round, RULE_IMAGES, shape_name(order.shape));
        if (exception->listed)
            printf("  FAILED: it is in %s, and caught\n", LIST);
        bool good = passes_with_all(rounds, &order) && !exception->listed;
        if (good)
            (void)unlink(failed.journal);
        return good;
    }
    ps_rules_leave_out(RULES);
    printf("    not caught in %" PRIu64 " images\n", images);
    if (!exception->listed) {
        printf("  FAILED: and not in %s\n", LIST);
        return false;
    }
    bool shown = shown_elsewhere(exception);
    printf("    listed: %s\n    %s: %s says \"%s\"\n", exception->reason,
           shown ? "shown by" : "  FAILED: it should be shown by", exception->command,
           exception->pattern);
    return shown;
}

int rules_all(struct rounds *rounds, uint64_t seed, const char *only)
{
    static struct exception list[RULES];
    unsigned passed = 0, failed = 0;
    if (!CAN_BREAK || (only && find(only) == RULES))
        return rules_leave_out(only ? only : "") ? 0 : 2;
    static bool missed[RULES];
    bool good = read_list(list);
    for (unsigned rule = 0; rule < RULES; rule++) {
        if (only && find(only) != rule)
            continue;
        bool caught = try_rule(rounds, seed, rule, &list[rule]);
        passed += caught;
        failed += !caught;
        missed[rule] = !caught;
        fflush(stdout);
    }
    failed += !good;
    for (unsigned rule = 0; rule < RULES; rule++)
        if (missed[rule])
            printf("FAILED %s: see there\n", ps_rule_name(rule));
    unsigned required = only ? 1 : RULES;
    printf("SUITE powerloss-rules required=%u executed=%u passed=%u failed=%u skipped=0\n",
           required, passed + failed, passed, failed);
    return failed != 0;
}

int rules_rate(struct rounds *rounds, uint64_t seed, const char *only, uint64_t n,
               const enum shape *shape)
{
    if (!CAN_BREAK || (only && find(only) == RULES))
        return rules_leave_out(only ? only : "") ? 0 : 2;
    for (unsigned rule = 0; rule < RULES; rule++) {
        if (only && find(only) != rule)
            continue;
        struct order order = {.seed = seed, .images = RULE_IMAGES};
        order.shape = shape ? *shape : shape_for(rule);
        ps_rules_leave_out((enum ps_rule)rule);
        uint64_t noticed = rounds_failing(rounds, &order, n);
        printf("%-36s %-6s noticed in %" PRIu64 " of %" PRIu64 " rounds; missed by %u: %.1e\n",
               ps_rule_name(rule), shape_name(order.shape), noticed, n, MOST_ROUNDS,
               pow(1.0 - (double)noticed / (double)n, MOST_ROUNDS));
        fflush(stdout);
    }
    return 0;
}
