/*
 * fuzz_config.c - any text as a configuration file, as a command line and as changes by CONFIG SET.
 *
 * Checked: reading ends with success, or with an error that names the file, a line of it, and a
 * reason. A refused CONFIG SET changes nothing. CONFIG REWRITE makes a file of whatever has been
 * accepted that gives the same configuration, and that it leaves alone the next time.
 *
 * The input's first byte chooses what the rest is. Files are looked for in an empty directory of
 * the target's own, where an include finds the input itself and nothing else.
 */
#include "tests/fuzz/fuzz.h"

#include "protocol/resp.h"
#include "server/config/config.h"
#include "tests/support/store_dir.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define INPUT     "input.conf"
#define REWRITTEN "rewritten.conf"
#define MAX_WORDS 200

static char dir[STORE_DIR_PATH];
static int outside = -1; /* where the program was started */

static void remove_dir(void)
{
    store_dir_remove(dir);
}

static void enter_dir(void)
{
    if (outside < 0) {
        outside = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        store_dir_make_in_memory(dir, "pando-fuzz");
        atexit(remove_dir);
    }
    FUZZ_CHECK(chdir(dir) == 0);
}

static void leave_dir(void)
{
    FUZZ_CHECK(fchdir(outside) == 0);
}

static void write_file(const char *name, const char *data, size_t len)
{
    FILE *file = fopen(name, "wb");
    FUZZ_CHECK(file != NULL && fwrite(data, 1, len, file) == len && fclose(file) == 0);
}

/* All values, as CONFIG GET shows them, and as a file has them. */
struct shown {
    char *values[CONFIG_COUNT], *given[CONFIG_COUNT];
};

static void show(const struct config *config, struct shown *shown)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        shown->values[id] = config_show(config, id);
        shown->given[id] = config_given(config, id);
        FUZZ_CHECK(shown->values[id] != NULL && shown->given[id] != NULL);
    }
}

static void forget(struct shown *shown)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        free(shown->values[id]);
        free(shown->given[id]);
    }
}

static void check_equal(const struct shown *a, const struct shown *b)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        if (strcmp(a->values[id], b->values[id]) != 0 || strcmp(a->given[id], b->given[id]) != 0) {
            fprintf(stderr, "%s: '%s', then '%s'\n", config_row(id)->name, a->values[id],
                    b->values[id]);
            abort();
        }
    }
}

static void check_error(const struct config_error *error, const char *file, size_t lines)
{
    FUZZ_CHECK(memchr(error->file, '\0', sizeof(error->file)) != NULL);
    FUZZ_CHECK(memchr(error->text, '\0', sizeof(error->text)) != NULL);
    FUZZ_CHECK(memchr(error->reason, '\0', sizeof(error->reason)) != NULL);
    FUZZ_CHECK(error->reason[0] != '\0');
    if (file != NULL) {
        FUZZ_CHECK(strcmp(error->file, file) == 0 && error->line >= 1 && error->line <= lines);
    }
}

static struct config *new_config(void)
{
    struct config *config = config_new();
    FUZZ_CHECK(config != NULL);
    return config;
}

static size_t read_file(const char *name, char **text)
{
    FILE *file = fopen(name, "rb");
    FUZZ_CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    size_t len = (size_t)ftell(file);
    *text = malloc(len + 1);
    rewind(file);
    FUZZ_CHECK(*text != NULL && fread(*text, 1, len, file) == len);
    fclose(file);
    return len;
}

/* CONFIG REWRITE of `path` gives a file that makes the same configuration, and that a second one
 * leaves as it is. It may refuse only what an include does behind its back. */
static void check_rewriting(struct config *config, const char *path, bool may_refuse)
{
    struct config *again;
    struct config_error error = {0};
    struct shown before, after;
    char reason[CONFIG_REASON] = "", *first, *second;
    if (config_rewrite(config, path, reason) != 0) {
        if (!may_refuse || reason[0] == '\0') {
            fprintf(stderr, "not rewritten: %s\n", reason);
            abort();
        }
        return;
    }
    again = new_config();
    if (config_load_file(again, path, &error) != 0) {
        fprintf(stderr, "%s:%u: %s: %s\n", error.file, error.line, error.text, error.reason);
        abort();
    }
    show(config, &before);
    show(again, &after);
    check_equal(&before, &after);
    forget(&before);
    forget(&after);
    size_t len = read_file(path, &first);
    FUZZ_CHECK(config_rewrite(again, path, reason) == 0);
    FUZZ_CHECK(read_file(path, &second) == len && memcmp(first, second, len) == 0);
    free(first);
    free(second);
    config_free(again);
}

/* Places that may be an include directive; a backslash may write the word otherwise. */
static size_t count_includes(const char *data, size_t len)
{
    size_t found = 0;
    for (size_t i = 0; i + 7 <= len; i++) {
        found += strncasecmp(data + i, "include", 7) == 0;
    }
    return found;
}

static bool may_include(const char *data, size_t len)
{
    return count_includes(data, len) > 0 || memmem(data, len, "\\", 1) != NULL;
}

/* An include may name the input, as often as it likes, but nothing outside of the directory, and
 * the input must not include itself twice: that doubles with each of the sixteen levels. */
static bool includes_are_harmless(const char *data, size_t len)
{
    size_t found = count_includes(data, len);
    return found == 0 || (found == 1 && memchr(data, '/', len) == NULL &&
                          memchr(data, '\\', len) == NULL && memchr(data, '{', len) == NULL &&
                          memchr(data, '~', len) == NULL && memchr(data, '-', len) == NULL);
}

/* The input as words, by the rules of a line. Returns how many; their text is in *copies. */
static int take_words(const char *data, size_t len, char *copies[MAX_WORDS])
{
    struct resp_args args = {0};
    int n = 0;
    if (resp_split_line(data, len, &args) == 0) {
        for (; n < MAX_WORDS && (size_t)n < args.n; n++) {
            copies[n] = strndup(args.v[n].data, args.v[n].len);
            FUZZ_CHECK(copies[n] != NULL);
        }
    }
    resp_args_free(&args);
    return n;
}

static void free_words(char **words, int n)
{
    for (int i = 0; i < n; i++) {
        free(words[i]);
    }
}

/* Each pair of words by itself, whether it is accepted or not. */
static void set_some(struct config *config, const char *data, size_t len)
{
    char *words[MAX_WORDS], reason[CONFIG_REASON];
    int n = take_words(data, len, words);
    size_t bad;
    config_listen(config, NULL, NULL);
    for (int i = 0; i + 1 < n; i += 2) {
        struct config_change change = {words[i], words[i + 1]};
        config_set(config, &change, 1, &bad, reason);
    }
    free_words(words, n);
}

/* What stands behind "\n=" are changes by CONFIG SET. */
static void try_file(const char *data, size_t len)
{
    struct config *config;
    struct config_error error = {0};
    const char *changes = memmem(data, len, "\n=", 2);
    size_t file_len = changes != NULL ? (size_t)(changes - data) + 1 : len, lines = 1;
    if (!includes_are_harmless(data, file_len)) {
        return;
    }
    for (size_t i = 0; i < file_len; i++) {
        lines += data[i] == '\n';
    }
    write_file(INPUT, data, file_len);
    config = new_config();
    if (config_load_file(config, INPUT, &error) == 0) {
        if (changes != NULL) {
            set_some(config, changes + 2, len - file_len - 1);
        }
        check_rewriting(config, INPUT, may_include(data, file_len));
    } else {
        check_error(&error, INPUT, lines);
    }
    config_free(config);
}

static void try_args(char **words, int n)
{
    struct config *config = new_config();
    struct config_error error = {0};
    if (config_load_args(config, n, words, &error) == 0) {
        write_file(REWRITTEN, "", 0);
        check_rewriting(config, REWRITTEN, false);
    } else {
        check_error(&error, NULL, 0);
    }
    config_free(config);
}

static int refuse_sometimes(void *arg, enum config_id id, const char **reason)
{
    const unsigned *choice = arg;
    if ((id + *choice) % 16 == 0) {
        *reason = "not now";
        return -1;
    }
    return 0;
}

static void try_set(char **words, int n, unsigned choice)
{
    struct config_change changes[MAX_WORDS];
    struct config *config = new_config();
    struct shown before, after;
    char reason[CONFIG_REASON] = "";
    size_t count = 0, bad = SIZE_MAX;
    for (int i = 0; i + 1 < n; i += 2) {
        changes[count++] = (struct config_change){words[i], words[i + 1]};
    }
    show(config, &before);
    config_listen(config, refuse_sometimes, &choice);
    if (count > 0 && config_set(config, changes, count, &bad, reason) == 0) {
        write_file(REWRITTEN, "", 0);
        check_rewriting(config, REWRITTEN, false);
    } else if (count > 0) {
        FUZZ_CHECK(bad < count && reason[0] != '\0' && memchr(reason, '\0', sizeof(reason)));
        show(config, &after);
        check_equal(&before, &after);
        forget(&after);
    }
    forget(&before);
    config_free(config);
}

static void try_words(unsigned choice, const char *data, size_t len)
{
    char *words[MAX_WORDS];
    int n = take_words(data, len, words);
    if (choice % 2 == 0) {
        try_args(words, n);
    } else {
        try_set(words, n, choice / 2);
    }
    free_words(words, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    enter_dir();
    if (data[0] % 2 == 0) {
        try_file((const char *)data + 1, size - 1);
    } else {
        try_words(data[0] / 2, (const char *)data + 1, size - 1);
    }
    leave_dir();
    return 0;
}
