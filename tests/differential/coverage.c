/*
 * Counts replies by command, so that a full run can show that each command of the table was
 * executed, and not only refused. A generator that lost a command would otherwise pass unnoticed.
 */
#include "tests/differential/coverage.h"
#include "tests/differential/generate.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static struct covered *find(struct coverage *coverage, const char *name)
{
    for (size_t i = 0; i < coverage->count; i++)
        if (strcmp(coverage->items[i].name, name) == 0)
            return &coverage->items[i];
    return NULL;
}

/* The first word of a grammar or the name of a call, in capitals; "" if it is no command of the
 * table's. */
static void take_name(char name[24], const char *from, size_t len)
{
    size_t at = 0;
    for (; at < len && at < 23 && isalpha((unsigned char)from[at]); at++)
        name[at] = (char)toupper((unsigned char)from[at]);
    name[at == len || from[at] == ' ' ? at : 0] = '\0';
}

static void add_table(struct coverage *coverage)
{
    char name[24];
    for (size_t i = 0; i < rule_table_size; i++) {
        take_name(name, rule_table[i].grammar, strlen(rule_table[i].grammar));
        if (name[0] != '\0' && find(coverage, name) == NULL && coverage->count < MAX_COVERED)
            memcpy(coverage->items[coverage->count++].name, name, sizeof name);
    }
}

void coverage_count(struct coverage *coverage, const struct call *call, const struct reply *reply)
{
    char name[24];
    if (coverage->count == 0)
        add_table(coverage);
    if (call->argc == 0 || reply->type == REPLY_CLOSED || reply_text_is(reply, "QUEUED"))
        return;
    take_name(name, call->argv[0].data, call->argv[0].len);
    struct covered *item = find(coverage, name);
    if (item == NULL)
        return;
    if (reply_is_error(reply))
        item->errors++;
    else
        item->good++;
}

static bool always_refused(const char *name)
{
    /* Sent with bad arguments only. */
    return strcmp(name, "SHUTDOWN") == 0;
}

size_t coverage_print(const struct coverage *coverage)
{
    size_t missing = 0;
    printf("replies (errors) by command:");
    for (size_t i = 0; i < coverage->count; i++) {
        const struct covered *item = &coverage->items[i];
        printf("%s%s %llu (%llu)", i % 6 == 0 ? "\n  " : ", ", item->name,
               item->good + item->errors, item->errors);
        missing += item->good == 0 && !always_refused(item->name);
    }
    printf("\n");
    return missing;
}
