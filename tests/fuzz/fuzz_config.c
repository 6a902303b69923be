/*
 * fuzz_config.c - any text as a configuration file, as a command line and as changes by CONFIG SET.
 *
 * Checked: reading ends with success, or with an error that names the file, a line of it, and a
 * reason; it changes nothing outside of struct config. What was accepted is shown by CONFIG GET,
 * and the shown values, quoted, make a file that is accepted and shows the same. A refused
 * CONFIG SET changes nothing.
 *
 * The input's first byte chooses what the rest is. Files are looked for in an empty directory of
 * the target's own, where an include finds the input itself and nothing else.
 */
#include "tests/fuzz/fuzz.h"

#include "protocol/resp.h"
#include "server/config/config.h"
#include "tests/support/scratch_dir.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define INPUT     "input.conf"
#define SHOWN     "shown.conf"
#define MAX_WORDS 40

static char dir[SCRATCH_DIR_MAX];
static int outside = -1; /* where the program was started */

static void remove_dir(void)
{
    scratch_dir_remove(dir);
}

static void enter_dir(void)
{
    if (outside < 0) {
        outside = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        scratch_dir_make(dir);
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

/* All values, as CONFIG GET shows them. */
struct shown {
    char *values[CONFIG_COUNT];
};

static void show(const struct config *config, struct shown *shown)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        shown->values[id] = config_show(config, id);
        FUZZ_CHECK(shown->values[id] != NULL);
    }
}

static void forget(struct shown *shown)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        free(shown->values[id]);
    }
}

static void check_equal(const struct shown *a, const struct shown *b)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        if (strcmp(a->values[id], b->values[id]) != 0) {
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

/* One word, quoted byte by byte. */
static void write_word(FILE *file, const char *word, size_t len)
{
    fputs(" \"", file);
    for (size_t i = 0; i < len; i++) {
        fprintf(file, "\\x%02x", (unsigned char)word[i]);
    }
    fputs("\"", file);
}

static void write_words(FILE *file, const char *text)
{
    for (size_t len = strcspn(text, " "); text[len] != '\0'; len = strcspn(text, " ")) {
        write_word(file, text, len);
        text += len + 1;
    }
    write_word(file, text, strlen(text));
}

/* Shown values as a file. (appendfsync is another name of durability, which says more.) */
static void write_shown(const struct shown *shown)
{
    FILE *file = fopen(SHOWN, "wb");
    FUZZ_CHECK(file != NULL);
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const char *value = shown->values[id];
        if (id == CONFIG_APPENDFSYNC || (config_row(id)->flags & CONFIG_FILE_ONLY)) {
            continue;
        }
        fputs(config_row(id)->name, file);
        if (config_row(id)->type == CONFIG_WORDS) {
            write_words(file, value);
        } else {
            write_word(file, value, strlen(value));
        }
        fputc('\n', file);
    }
    FUZZ_CHECK(fclose(file) == 0);
}

/* What a configuration shows makes the same configuration. */
static void check_round_trip(const struct config *config)
{
    struct config *again = new_config();
    struct config_error error = {0};
    struct shown before, after;
    show(config, &before);
    write_shown(&before);
    if (config_load_file(again, SHOWN, &error) != 0) {
        fprintf(stderr, "%s:%u: %s: %s\n", error.file, error.line, error.text, error.reason);
        abort();
    }
    show(again, &after);
    check_equal(&before, &after);
    forget(&before);
    forget(&after);
    config_free(again);
}

/* An include may name the input, as often as it likes, but nothing outside of the directory, and
 * the input must not include itself twice: that doubles with each of the sixteen levels. */
static bool includes_are_harmless(const char *data, size_t len)
{
    size_t found = 0;
    for (size_t i = 0; i + 7 <= len; i++) {
        found += strncasecmp(data + i, "include", 7) == 0;
    }
    return found == 0 || (found == 1 && memchr(data, '/', len) == NULL &&
                          memchr(data, '\\', len) == NULL && memchr(data, '{', len) == NULL &&
                          memchr(data, '~', len) == NULL && memchr(data, '-', len) == NULL);
}

static void try_file(const char *data, size_t len)
{
    struct config *config;
    struct config_error error = {0};
    size_t lines = 1;
    if (!includes_are_harmless(data, len)) {
        return;
    }
    for (size_t i = 0; i < len; i++) {
        lines += data[i] == '\n';
    }
    write_file(INPUT, data, len);
    config = new_config();
    if (config_load_file(config, INPUT, &error) == 0) {
        check_round_trip(config);
    } else {
        check_error(&error, INPUT, lines);
    }
    config_free(config);
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

static void try_args(char **words, int n)
{
    struct config *config = new_config();
    struct config_error error = {0};
    if (config_load_args(config, n, words, &error) == 0) {
        check_round_trip(config);
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
        check_round_trip(config);
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
    for (int i = 0; i < n; i++) {
        free(words[i]);
    }
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
