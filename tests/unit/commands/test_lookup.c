/*
 * The command table: its rows agree with each other and are found by their names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/commands/command.h"

#include <ctype.h>

static struct ps_slice slice(const char *text)
{
    return (struct ps_slice){text, strlen(text)};
}

/* Runs `check` on every row, subcommands included (parent: theirs). */
static void for_every_row(void (*check)(const struct command *row, const struct command *parent))
{
    size_t count;
    const struct command *table = command_table(&count);

    assert_true(count > 60);
    for (size_t i = 0; i < count; i++) {
        check(&table[i], NULL);
        for (const struct command *sub = table[i].subcommands; sub && sub->name; sub++)
            check(sub, &table[i]);
    }
}

static void rows_are_sorted_by_name(void **state)
{
    (void)state;
    size_t count;
    const struct command *table = command_table(&count);

    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            assert_true(strcmp(table[i - 1].name, table[i].name) < 0);
        for (const struct command *sub = table[i].subcommands; sub && sub[0].name && sub[1].name;
             sub++)
            assert_true(strcmp(sub[0].name, sub[1].name) < 0);
    }
}

static void check_found(const struct command *row, const struct command *parent)
{
    char upper[40];
    size_t len = strlen(row->name);

    assert_true(len < sizeof(upper));
    for (size_t i = 0; i <= len; i++)
        upper[i] = (char)toupper((unsigned char)row->name[i]);
    upper[0] = row->name[0]; /* and mixed */
    if (parent) {
        assert_ptr_equal(command_lookup_sub(parent, slice(row->name)), row);
        assert_ptr_equal(command_lookup_sub(parent, slice(upper)), row);
    } else {
        assert_ptr_equal(command_lookup(slice(row->name)), row);
        assert_ptr_equal(command_lookup(slice(upper)), row);
    }
}

static void every_row_is_found_in_any_case_of_letters(void **state)
{
    (void)state;
    for_every_row(check_found);
}

static void nothing_else_is_found(void **state)
{
    (void)state;
    static const char *const names[] = {"",     "g",       "ge",  "gett",
                                        "get ", "\xffget", "zzz", "client|id"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_null(command_lookup(slice(names[i])));
    assert_null(command_lookup((struct ps_slice){"get\0x", 5}));
    assert_null(command_lookup((struct ps_slice){"get\0", 4}));
    char longest[5000];
    memset(longest, 'g', sizeof(longest));
    assert_null(command_lookup((struct ps_slice){longest, sizeof(longest)}));
    assert_null(command_lookup_sub(command_lookup(slice("client")), slice("idd")));
    assert_null(command_lookup_sub(command_lookup(slice("get")), slice("id")));
}

static void check_complete(const struct command *row, const struct command *parent)
{
    assert_true(row->arity != 0);
    assert_true(row->handler != NULL || row->subcommands != NULL);
    assert_true(row->acl && row->since && row->group && row->summary);
    assert_true(parent ? row->full_name != NULL : row->full_name == NULL);
    if (parent) {
        char full[64];
        snprintf(full, sizeof(full), "%s|%s", parent->name, row->name);
        assert_string_equal(row->full_name, full);
    }
}

static void every_row_is_complete(void **state)
{
    (void)state;
    for_every_row(check_complete);
}

static void check_cost(const struct command *row, const struct command *parent)
{
    (void)parent;
    bool writes = row->cost == COST_WRITE;

    assert_int_equal((row->flags & CMD_WRITE) != 0, writes);
    if (row->flags & CMD_READONLY)
        assert_true(row->cost == COST_READ || row->cost == COST_POOL);
    if (row->traits & COMMAND_PREFETCH)
        assert_true(row->cost == COST_READ && row->first_key > 0);
    if (row->traits & COMMAND_RESERVES)
        assert_true(writes);
    if (row->traits & COMMAND_EXEC_CONTROL)
        assert_int_equal(row->cost, COST_STATE);
}

static void costs_agree_with_flags(void **state)
{
    (void)state;
    for_every_row(check_cost);
}

static void check_keys(const struct command *row, const struct command *parent)
{
    (void)parent;
    assert_int_equal(row->first_key != 0, row->keys != NULL);
    if (row->keys)
        assert_int_equal(row->first_key, row->keys[0].begin);
    assert_int_equal(row->first_key != 0, row->key_step != 0);
}

static void keys_are_specified_twice_and_alike(void **state)
{
    (void)state;
    for_every_row(check_keys);
}

static enum command_cost cost(const char *line)
{
    char text[4000], *rest;
    struct ps_slice argv[1000];
    size_t argc = 0;

    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = slice(word);
    return command_cost_of(command_lookup(argv[0]), argc, argv);
}

static void what_reads_much_goes_to_the_pool(void **state)
{
    (void)state;
    char line[4000] = "mget";

    assert_int_equal(cost("get k"), COST_READ);
    assert_int_equal(cost("set k v"), COST_WRITE);
    assert_int_equal(cost("keys *"), COST_POOL);
    assert_int_equal(cost("mget a b c"), COST_READ);
    for (unsigned i = 0; i < 300; i++)
        strcat(line, " k");
    assert_int_equal(cost(line), COST_POOL);
    assert_int_equal(cost("scan 0"), COST_READ);
    assert_int_equal(cost("scan 0 count 100 match a*"), COST_READ);
    assert_int_equal(cost("scan 0 match a* COUNT 1000"), COST_POOL);
    assert_int_equal(cost("scan 0 count x"), COST_READ);
    assert_int_equal(cost("scan 0 count"), COST_READ);
    memset(line, 'a', 600);
    memcpy(line, "scan 0 match ", 13);
    line[600] = '\0';
    assert_int_equal(cost(line), COST_POOL);
}

static void the_need_of_a_call_grows_with_its_arguments(void **state)
{
    (void)state;
    struct ps_slice argv[] = {{"mset", 4}, {"key", 3}, {"value", 5}, {"other", 5}, {"value", 5}};
    struct command_need two, four, set;

    command_need_of(command_lookup(slice("mset")), 3, argv, &two);
    command_need_of(command_lookup(slice("mset")), 5, argv, &four);
    assert_true(two.ops >= 3 && four.ops >= two.ops + 2);
    assert_true(four.bytes >= two.bytes + 2 * (5 + 5));
    command_need_of(command_lookup(slice("set")), 3, argv, &set);
    assert_true(set.ops >= 4 && set.bytes >= 3 * 3 + 5);
    command_need_of(command_lookup(slice("del")), 5, argv, &set);
    assert_true(set.ops == 12 && set.bytes == 0); /* record, index row, garbage */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sorted_by_name),
        cmocka_unit_test(every_row_is_found_in_any_case_of_letters),
        cmocka_unit_test(nothing_else_is_found),
        cmocka_unit_test(every_row_is_complete),
        cmocka_unit_test(costs_agree_with_flags),
        cmocka_unit_test(keys_are_specified_twice_and_alike),
        cmocka_unit_test(what_reads_much_goes_to_the_pool),
        cmocka_unit_test(the_need_of_a_call_grows_with_its_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
