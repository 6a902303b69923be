/*
 * Settings: what values are taken and refused, in files, on the command line, and by CONFIG SET.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/config/config.h"

static int new_config(void **state)
{
    *state = config_new();
    return *state == NULL;
}

static int free_config(void **state)
{
    config_free(*state);
    return 0;
}

static void assert_shown(const struct config *config, enum config_id id, const char *value)
{
    char *text = config_show(config, id);
    assert_string_equal(text, value);
    free(text);
}

/* Reads `text` as a file; returns what config_load_file does. */
static int load(struct config *config, const char *text, struct config_error *error)
{
    char path[] = "/tmp/pando-config-XXXXXX";
    int fd = mkstemp(path), rc;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    rc = config_load_file(config, path, error);
    unlink(path);
    return rc;
}

static void every_row_has_one_class_and_what_belongs_to_it(void **state)
{
    (void)state;
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = config_row(id);
        const char *class = config_class(row);
        assert_non_null(row->name);
        assert_non_null(row->value);
        assert_true(row->doc != NULL && row->doc[0] != '\0');
        assert_int_equal(config_find(row->name), id);
        assert_int_not_equal(row->flags & (CONFIG_NOOP | CONFIG_REFUSED),
                             CONFIG_NOOP | CONFIG_REFUSED);
        assert_int_equal(strcmp(class, "effective") == 0, row->test != NULL);
        if (row->alias != NULL) {
            const struct config_row *target = config_row(config_find(row->alias));
            assert_null(target->alias);
            assert_int_equal(target->type, row->type);
            assert_string_equal(config_class(target), class);
            assert_string_equal(target->value, row->value);
        }
    }
}

static void sizes_take_redis_units(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"", 0},
                {"0", 0},
                {"99999999999999999999", -1},
                {"99999999999gb", -1},
                {"12", 12},
                {"3b", 3},
                {"1k", 1000},
                {"1kb", 1024},
                {"2M", 2000000},
                {"2mB", 2097152},
                {"1g", 1000000000},
                {"1GB", 1073741824}};
    static const char *const bad[] = {"-1", "1x", "1 k", "1.5mb", "0x1", "kk"};
    int64_t value;
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(config_parse_memory(good[i].text, &value), 0);
        assert_int_equal(value, good[i].value);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(config_parse_memory(bad[i], &value), -1);
    }
}

static void a_file_sets_values_and_the_last_one_counts(void **state)
{
    struct config *config = *state;
    struct config_error error;
    assert_int_equal(load(config,
                          "# a comment\n\n  port 7000\nPORT 7001\r\nrequirepass \"a \\x62\"\n"
                          "bind 10.0.0.1 ::1\nproto-max-bulk-len 2mb\nappendfsync no\n"
                          "client-output-buffer-limit normal 1mb 2kb 3 pubsub 1 1 1",
                          &error),
                     0);
    assert_int_equal(config_number(config, CONFIG_PORT), 7001);
    assert_shown(config, CONFIG_REQUIREPASS, "a b");
    assert_shown(config, CONFIG_BIND, "10.0.0.1 ::1");
    assert_shown(config, CONFIG_PROTO_MAX_BULK_LEN, "2097152");
    assert_shown(config, CONFIG_DURABILITY, "everysec");
    assert_shown(config, CONFIG_APPENDFSYNC, "everysec");
    assert_shown(config, CONFIG_CLIENT_OUTPUT_BUFFER_LIMIT,
                 "normal 1048576 2048 3 slave 268435456 67108864 60 pubsub 1 1 1");
}

static void a_wrong_line_is_named_with_its_number_and_the_reason(void **state)
{
    static const struct {
        const char *line, *reason;
    } wrong[] = {
        {"nosuch 1", "Bad directive or wrong number of arguments"},
        {"port", "Bad directive or wrong number of arguments"},
        {"port x", "argument couldn't be parsed into an integer"},
        {"port 65536", "argument must be between 0 and 65535 inclusive"},
        {"port 1 2", "wrong number of arguments"},
        {"page-size 5000", "argument must be a power of two"},
        {"dirty-memory 1mb", "argument must be 0 or at least 4mb"},
        {"dir \"x", "Unbalanced quotes in configuration line"},
        {"client-output-buffer-limit other 0 0 0",
         "Invalid client class specified in buffer limit configuration."},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct config_error error = {0};
        char text[256];
        snprintf(text, sizeof(text), "timeout 3\n%s\ntimeout 4\n", wrong[i].line);
        assert_int_equal(load(*state, text, &error), -1);
        assert_int_equal(error.line, 2);
        assert_string_equal(error.text, wrong[i].line);
        assert_string_equal(error.reason, wrong[i].reason);
        assert_int_equal(config_number(*state, CONFIG_TIMEOUT), 3);
    }
}

static void the_command_line_takes_any_number_of_words_for_a_directive(void **state)
{
    char *argv[] = {"--port", "0", "--bind", "a", "b", "--daemonize", "no"};
    struct config_error error;
    assert_int_equal(config_load_args(*state, 7, argv, &error), 0);
    assert_int_equal(config_number(*state, CONFIG_PORT), 0);
    assert_shown(*state, CONFIG_BIND, "a b");
}

static void count_warning(void *arg, const char *text)
{
    (void)text;
    ++*(int *)arg;
}

static void a_directive_without_effect_is_kept_and_warned_about_once(void **state)
{
    struct config_change change = {"Appendonly", "no"};
    struct config_error error;
    int warnings = 0;
    size_t bad;
    char reason[CONFIG_REASON];
    assert_int_equal(load(*state, "save 60 1\nsave 5 100\nmaxmemory 1gb\n", &error), 0);
    config_on_warning(*state, count_warning, &warnings);
    assert_int_equal(warnings, 2); /* what came before somebody listened */
    assert_int_equal(load(*state, "save 7 7\n", &error), 0);
    assert_int_equal(warnings, 2);
    assert_shown(*state, config_find("save"), "60 1 5 100 7 7");
    assert_shown(*state, config_find("maxmemory"), "1073741824");
    assert_int_equal(load(*state, "save \"\"\n", &error), 0);
    assert_shown(*state, config_find("save"), "");
    assert_int_equal(config_set(*state, &change, 1, &bad, reason), CONFIG_SET_OK);
    assert_int_equal(config_set(*state, &change, 1, &bad, reason), CONFIG_SET_OK);
    assert_int_equal(warnings, 3);
    assert_shown(*state, config_find("appendonly"), "no");
}

static void a_refused_directive_takes_its_default_only_and_says_why(void **state)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = config_row(id);
        const char *other = row->type == CONFIG_BOOL   ? row->value[0] == 'y' ? "no" : "yes"
                            : row->type == CONFIG_ENUM ? "optional"
                            : row->type == CONFIG_INT  ? "7"
                                                       : "a b";
        struct config_error error = {0};
        char text[256];
        if (!(row->flags & CONFIG_REFUSED)) {
            continue;
        }
        snprintf(text, sizeof(text), row->type == CONFIG_STRING ? "%s \"%s\"\n" : "%s %s\n",
                 row->name, other);
        assert_int_equal(load(*state, text, &error), -1);
        assert_int_equal(error.line, 1);
        assert_string_equal(error.reason, row->doc);
        if (!(row->flags & CONFIG_FILE_ONLY)) {
            snprintf(text, sizeof(text), "%s \"%s\"\n", row->name, row->value);
            assert_int_equal(load(*state, text, &error), 0);
            assert_shown(*state, id, row->value);
        }
    }
}

static void another_name_has_the_same_value(void **state)
{
    struct config_change change = {"slave-priority", "7"};
    size_t bad;
    char reason[CONFIG_REASON];
    assert_int_equal(config_set(*state, &change, 1, &bad, reason), CONFIG_SET_OK);
    assert_shown(*state, config_find("replica-priority"), "7");
    assert_shown(*state, config_find("slave-priority"), "7");
}

static void config_set_changes_all_or_nothing(void **state)
{
    struct config_change changes[] = {{"timeout", "7"}, {"hz", "x"}};
    char reason[CONFIG_REASON];
    size_t bad;
    assert_int_equal(config_set(*state, changes, 2, &bad, reason), CONFIG_SET_FAILED);
    assert_int_equal(bad, 1);
    assert_string_equal(reason, "argument couldn't be parsed into an integer");
    assert_int_equal(config_number(*state, CONFIG_TIMEOUT), 0);
    assert_int_equal(config_set(*state, changes, 1, &bad, reason), CONFIG_SET_OK);
    assert_int_equal(config_number(*state, CONFIG_TIMEOUT), 7);
}

static void config_set_refuses_what_is_unknown_immutable_or_named_twice(void **state)
{
    struct config_change fixed = {"Databases", "1"}, protected = {"dir", "/"};
    struct config_change unknown = {"nosuch", "1"}, in_files = {"loadmodule", "x"};
    struct config_change twice[] = {{"timeout", "1"}, {"TIMEOUT", "2"}};
    char reason[CONFIG_REASON];
    size_t bad;
    assert_int_equal(config_set(*state, &fixed, 1, &bad, reason), CONFIG_SET_FIXED);
    assert_string_equal(reason, "can't set immutable config");
    assert_int_equal(config_set(*state, &protected, 1, &bad, reason), CONFIG_SET_FIXED);
    assert_string_equal(reason, "can't set protected config");
    assert_int_equal(config_set(*state, twice, 2, &bad, reason), CONFIG_SET_FIXED);
    assert_int_equal(bad, 1);
    assert_string_equal(reason, "duplicate parameter");
    assert_int_equal(config_set(*state, &unknown, 1, &bad, reason), CONFIG_SET_UNKNOWN);
    assert_int_equal(config_set(*state, &in_files, 1, &bad, reason), CONFIG_SET_UNKNOWN);
    assert_int_equal(config_number(*state, CONFIG_TIMEOUT), 0);
}

static int refuse(void *arg, enum config_id id, const char **reason)
{
    (void)arg;
    *reason = "not now";
    return id == CONFIG_DURABILITY && *(int *)arg ? -1 : 0;
}

static void a_change_that_the_listener_refuses_is_taken_back(void **state)
{
    struct config_change changes[] = {{"timeout", "9"}, {"durability", "none"}};
    char reason[CONFIG_REASON];
    size_t bad;
    int refusing = 1;
    config_listen(*state, refuse, &refusing);
    assert_int_equal(config_set(*state, changes, 2, &bad, reason), CONFIG_SET_FAILED);
    assert_string_equal(reason, "not now");
    assert_shown(*state, CONFIG_DURABILITY, "always");
    assert_shown(*state, CONFIG_TIMEOUT, "0");
}

static void what_depends_on_the_machine_is_settled_within_its_bounds(void **state)
{
    config_settle(*state);
    assert_in_range(config_number(*state, CONFIG_IO_THREADS), 1, 4096);
    assert_in_range(config_number(*state, CONFIG_READER_THREADS), 2, 4096);
    assert_in_range(config_number(*state, CONFIG_DIRTY_MEMORY), 64 << 20, 1 << 30);
}

static void the_reference_is_a_file_that_changes_nothing(void **state)
{
    struct config_error error;
    char *text = NULL;
    size_t len;
    FILE *to = open_memstream(&text, &len);
    config_write_reference(to);
    fclose(to);
    assert_int_equal(load(*state, text, &error), 0);
    for (char *p = text; (p = strstr(p, "\n# ")) != NULL; p += 3) {
        char name[64];
        if (sscanf(p + 3, "%63[a-z0-9-]", name) == 1 && config_find(name) >= 0 && p[-1] != '\n') {
            memset(p + 1, ' ', 2); /* every default, as it is written there */
        }
    }
    assert_int_equal(load(*state, text, &error), 0);
    for (int id = 0; id < CONFIG_COUNT; id++) {
        struct config *fresh = config_new();
        char *before = config_show(fresh, id);
        assert_shown(*state, id, before);
        free(before);
        config_free(fresh);
    }
    free(text);
}

/* Compares what is written with a file of the project (tests run in its root). */
static void assert_delivered(void (*write_to)(FILE *to), const char *path)
{
    char *text = NULL, *delivered;
    size_t len;
    FILE *to = open_memstream(&text, &len), *from = fopen(path, "r");
    write_to(to);
    fclose(to);
    assert_non_null(from);
    delivered = calloc(1, len + 2);
    assert_int_equal(fread(delivered, 1, len + 1, from), len);
    assert_string_equal(delivered, text);
    fclose(from);
    free(delivered);
    free(text);
}

static void the_file_that_is_delivered_is_the_reference(void **state)
{
    (void)state;
    assert_delivered(config_write_reference, "conf/pando.conf");
}

static void the_documentation_is_the_tables(void **state)
{
    (void)state;
    assert_delivered(config_write_manual, "docs/configuration.md");
}

/* maxclients that did not fit in the limit of files, and appendfsync, which has no word for none.
 */
static void a_change_taken_back_leaves_the_very_numbers_that_counted(void **state)
{
    struct config_change changes[] = {
        {"maxclients", "20000"}, {"appendfsync", "always"}, {"hz", "abc"}};
    char *argv[] = {"--maxclients", "10000", "--durability", "none"};
    struct config_error error;
    char reason[CONFIG_REASON];
    size_t bad;
    assert_int_equal(config_load_args(*state, 4, argv, &error), 0);
    config_adjust(*state, CONFIG_MAXCLIENTS, 100);
    assert_int_equal(config_set(*state, changes, 3, &bad, reason), CONFIG_SET_FAILED);
    assert_int_equal(bad, 2);
    assert_int_equal(config_number(*state, CONFIG_MAXCLIENTS), 100);
    assert_shown(*state, CONFIG_DURABILITY, "none");
    char *given = config_given(*state, CONFIG_MAXCLIENTS);
    assert_string_equal(given, "10000");
    free(given);
}

static void *set_timeout(void *config)
{
    struct config_change change = {"timeout", "7"};
    char reason[CONFIG_REASON];
    size_t bad;
    assert_int_equal(config_set(config, &change, 1, &bad, reason), CONFIG_SET_OK);
    return NULL;
}

/* As the store does, which waits for the writer's transaction; the writer is in an EXEC that sets
 * another value. */
static int wait_for_another(void *config, enum config_id id, const char **reason)
{
    pthread_t other;
    (void)reason;
    if (id == CONFIG_DURABILITY) {
        assert_int_equal(pthread_create(&other, NULL, set_timeout, config), 0);
        pthread_join(other, NULL);
    }
    return 0;
}

static void another_value_can_be_set_while_durability_changes(void **state)
{
    struct config_change change = {"durability", "everysec"};
    char reason[CONFIG_REASON];
    size_t bad;
    alarm(300); /* it would wait for ever */
    config_listen(*state, wait_for_another, *state);
    assert_int_equal(config_set(*state, &change, 1, &bad, reason), CONFIG_SET_OK);
    assert_int_equal(config_number(*state, CONFIG_TIMEOUT), 7);
    alarm(0);
}

#define WITH_CONFIG(test) cmocka_unit_test_setup_teardown(test, new_config, free_config)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_one_class_and_what_belongs_to_it),
        cmocka_unit_test(sizes_take_redis_units),
        WITH_CONFIG(a_file_sets_values_and_the_last_one_counts),
        WITH_CONFIG(a_wrong_line_is_named_with_its_number_and_the_reason),
        WITH_CONFIG(the_command_line_takes_any_number_of_words_for_a_directive),
        WITH_CONFIG(a_directive_without_effect_is_kept_and_warned_about_once),
        WITH_CONFIG(a_refused_directive_takes_its_default_only_and_says_why),
        WITH_CONFIG(another_name_has_the_same_value),
        WITH_CONFIG(config_set_changes_all_or_nothing),
        WITH_CONFIG(config_set_refuses_what_is_unknown_immutable_or_named_twice),
        WITH_CONFIG(a_change_that_the_listener_refuses_is_taken_back),
        WITH_CONFIG(a_change_taken_back_leaves_the_very_numbers_that_counted),
        WITH_CONFIG(another_value_can_be_set_while_durability_changes),
        WITH_CONFIG(what_depends_on_the_machine_is_settled_within_its_bounds),
        WITH_CONFIG(the_reference_is_a_file_that_changes_nothing),
        cmocka_unit_test(the_file_that_is_delivered_is_the_reference),
        cmocka_unit_test(the_documentation_is_the_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
