/*
 * rules.c - see rules.h: the names, and in the build that can leave rules out, which one is.
 */
#include "storage/rules.h"

#include <stddef.h>

static const struct {
    const char *name, *text;
} rules[RULES] = {
#define PS_RULE_ROW(rule, rule_name, rule_text) {rule_name, rule_text},
    PS_RULES(PS_RULE_ROW)
#undef PS_RULE_ROW
};

const char *ps_rule_name(unsigned rule)
{
    return rule < RULES ? rules[rule].name : NULL;
}

const char *ps_rule_text(unsigned rule)
{
    return rule < RULES ? rules[rule].text : NULL;
}

#ifdef PS_RULES_CAN_BREAK
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_ASKED (RULES + 1u)

/* For the whole process: the one place where a test reaches into code that must not know it. */
static _Atomic unsigned left_out = NOT_ASKED;

static unsigned ask_environment(void)
{
    const char *name = getenv("PS_WITHOUT");
    unsigned rule = 0;
    while (name != NULL && rule < RULES && strcmp(name, rules[rule].name) != 0) {
        rule++;
    }
    if (name != NULL && rule == RULES) {
        fprintf(stderr, "PS_WITHOUT: there is no rule %s\n", name);
        exit(2);
    }
    return name != NULL ? rule : RULES;
}

bool ps_rule(enum ps_rule rule)
{
    unsigned out = atomic_load_explicit(&left_out, memory_order_relaxed);
    if (out == NOT_ASKED) {
        out = ask_environment();
        atomic_store(&left_out, out);
    }
    return out != (unsigned)rule;
}

void ps_rules_leave_out(enum ps_rule rule)
{
    atomic_store(&left_out, (unsigned)rule);
}
#endif
