/*
 * config.c - the values of the settings: assigning, setting, showing.
 *
 * Invariants: as in config.h. `appendfsync` has no value of its own: it is another name for
 * `durability` (config_assign and the functions that show translate); other aliases of Redis have
 * the same values as what they name. client-output-buffer-limit lives in `output`.
 *
 * Threads: numbers are atomics; texts are guarded by config->lock, changes by config->setting,
 * which is held while the listener works: it must not call config_set. A change of durability waits
 * for the writer, which may be in an EXEC that sets something else: `setting` is let go of
 * meanwhile, and `waiting` keeps others that wait like that away.
 */
#include "server/config/cgroup.h"
#include "server/config/config_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define DIRTY_MEMORY_LEAST (4 * 1024 * 1024) /* the longest key and value fit, in any page size */
#define HZ_MOST            500

enum { FSYNC_EVERYSEC, FSYNC_ALWAYS, FSYNC_NO };

static bool is_text(const struct config_row *row)
{
    return row->type == CONFIG_STRING || row->type == CONFIG_WORDS;
}

/* ---- assigning ------------------------------------------------------------------------------ */

static char *join(const char *const *words, size_t n)
{
    size_t len = 1;
    char *text, *p;
    for (size_t i = 0; i < n; i++) {
        len += strlen(words[i]) + 1;
    }
    text = p = malloc(len);
    for (size_t i = 0; text != NULL && i < n; i++) {
        p = stpcpy(i > 0 ? stpcpy(p, " ") : p, words[i]);
    }
    if (text != NULL) {
        *p = '\0';
    }
    return text;
}

/* Words have one blank between them. */
static void squeeze(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        if (*from != ' ' || (to > text && to[-1] != ' ')) {
            *to++ = *from;
        }
    }
    *to = '\0';
    if (to > text && to[-1] == ' ') {
        to[-1] = '\0';
    }
}

static void assign_limits(struct config *config, const char *text)
{
    const char *unused;
    config_parse_output_limits(text, &config->output, &unused);
}

/* Takes the text over. */
static int keep_text(struct config *config, enum config_id id, char *text,
                     char reason[CONFIG_REASON])
{
    char *sum = text, *old;
    pthread_mutex_lock(&config->lock);
    old = config->texts[id];
    if ((config_row(id)->flags & CONFIG_ADDS_UP) && config->loading && old != NULL &&
        old[0] != '\0' && text[0] != '\0') {
        sum = join((const char *const[]){old, text}, 2);
        free(text);
    }
    if (sum != NULL) {
        free(old);
        config->texts[id] = sum;
    }
    pthread_mutex_unlock(&config->lock);
    if (sum == NULL) {
        config_refuse(reason, "out of memory");
        return -1;
    }
    return 0;
}

/* Whether a refused row's text is what it stands for anyway. */
static bool is_neutral(const struct config_row *row, const char *text)
{
    return strcasecmp(text, row->value) == 0 ||
           (row->check == config_check_replicaof && strcasecmp(text, "no one") == 0);
}

static int assign_text(struct config *config, enum config_id id, const char *const *words, size_t n,
                       char reason[CONFIG_REASON])
{
    const struct config_row *row = config_row(id);
    const char *why = NULL;
    char *text = join(words, n);
    if (text == NULL) {
        config_refuse(reason, "out of memory");
        return -1;
    }
    if (row->type == CONFIG_WORDS) {
        squeeze(text);
    }
    if (row->check != NULL && row->check(text, &why) != 0) {
        config_refuse(reason, "%s", why);
        free(text);
        return -1;
    }
    if (row->flags & CONFIG_REFUSED) {
        bool neutral = is_neutral(row, text);
        free(text);
        config_refuse(reason, "%s", row->doc);
        return neutral ? 0 : -1;
    }
    if (id == CONFIG_CLIENT_OUTPUT_BUFFER_LIMIT) {
        assign_limits(config, text);
        free(text);
        return 0;
    }
    return keep_text(config, id, text, reason);
}

/* Rules that a range does not say. */
static int check_number(enum config_id id, int64_t number, char reason[CONFIG_REASON])
{
    if (id == CONFIG_PAGE_SIZE && (number & (number - 1)) != 0) {
        config_refuse(reason, "argument must be a power of two");
        return -1;
    }
    if (id == CONFIG_DIRTY_MEMORY && number != 0 && number < DIRTY_MEMORY_LEAST) {
        config_refuse(reason, "argument must be 0 or at least 4mb");
        return -1;
    }
    return 0;
}

static int assign_number(struct config *config, enum config_id id, const char *word,
                         char reason[CONFIG_REASON])
{
    const struct config_row *row = config_row(id);
    int64_t number, usual;
    if (config_parse_number(row, word, &number, reason) != 0 ||
        check_number(id, number, reason) != 0) {
        return -1;
    }
    if (row->flags & CONFIG_REFUSED) {
        char unused[CONFIG_REASON];
        if (config_parse_number(row, row->value, &usual, unused) == 0 && usual != number) {
            config_refuse(reason, "%s", row->doc);
            return -1;
        }
    }
    if (id == CONFIG_APPENDFSYNC) {
        id = CONFIG_DURABILITY;
        number = number == FSYNC_ALWAYS ? DURABILITY_ALWAYS : DURABILITY_EVERYSEC;
    } else if (id == CONFIG_HZ) { /* as Redis: a hint */
        number = number < 1 ? 1 : number > HZ_MOST ? HZ_MOST : number;
    }
    config->given[id] = number;
    config->numbers[id] = number;
    return 0;
}

int config_assign(struct config *config, enum config_id id, const char *const *words, size_t n,
                  char reason[CONFIG_REASON])
{
    const struct config_row *row = config_row(id);
    if (row->flags & CONFIG_FILE_ONLY) {
        config_refuse(reason, "%s", row->doc);
        return row->flags & CONFIG_REFUSED ? -1 : 0;
    }
    id = config_target(id);
    if (row->type != CONFIG_WORDS && n != 1) {
        config_refuse(reason, "wrong number of arguments");
        return -1;
    }
    return is_text(row) ? assign_text(config, id, words, n, reason)
                        : assign_number(config, id, words[0], reason);
}

/* ---- the object ----------------------------------------------------------------------------- */

struct config *config_new(void)
{
    struct config *config = calloc(1, sizeof(*config));
    char reason[CONFIG_REASON];
    if (config == NULL) {
        return NULL;
    }
    pthread_mutex_init(&config->waiting, NULL);
    pthread_mutex_init(&config->setting, NULL);
    pthread_mutex_init(&config->lock, NULL);
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = config_row(id);
        assert(row->name != NULL);
        if (row->flags & CONFIG_FILE_ONLY) {
            continue;
        }
        if (is_text(row) && id != CONFIG_CLIENT_OUTPUT_BUFFER_LIMIT) {
            config->texts[id] = strdup(row->value);
        } else if (config_assign(config, id, &row->value, 1, reason) != 0) {
            config_free(config);
            return NULL;
        }
    }
    return config;
}

void config_free(struct config *config)
{
    for (int id = 0; config != NULL && id < CONFIG_COUNT; id++) {
        free(config->texts[id]);
    }
    if (config != NULL) {
        pthread_mutex_destroy(&config->waiting);
        pthread_mutex_destroy(&config->setting);
        pthread_mutex_destroy(&config->lock);
    }
    free(config);
}

static void warn_noop(struct config *config, enum config_id id)
{
    char text[512];
    const struct config_row *row = config_row(id);
    if (config->warn != NULL) {
        snprintf(text, sizeof(text), "'%s' is accepted and changes nothing: %s", row->name,
                 row->doc);
        config->warn(config->warn_arg, text);
    }
}

void config_mention(struct config *config, enum config_id id)
{
    if ((config_row(id)->flags & CONFIG_NOOP) && !config->mentioned[id]) {
        config->mentioned[id] = true;
        warn_noop(config, id);
    }
}

void config_on_warning(struct config *config, void (*warn)(void *arg, const char *text), void *arg)
{
    bool first = config->warn == NULL;
    config->warn = warn;
    config->warn_arg = arg;
    for (int id = 0; first && id < CONFIG_COUNT; id++) {
        if (config->mentioned[id]) {
            warn_noop(config, id);
        }
    }
}

void config_listen(struct config *config, config_listener listener, void *arg)
{
    config->listener = listener;
    config->listener_arg = arg;
}

static void settle(struct config *config, enum config_id id, int64_t value)
{
    if (config->given[id] == 0) {
        config->numbers[id] = value;
    }
}

void config_settle(struct config *config)
{
    const int64_t mib = 1048576;
    int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t share = cgroup_memory_limit("") / 8;
    if (cores < 1) {
        cores = 1;
    }
    if (share < 64 * mib) {
        share = 64 * mib;
    } else if (share > 1024 * mib) {
        share = 1024 * mib;
    }
    settle(config, CONFIG_IO_THREADS, cores / 2 > 1 ? cores / 2 : 1);
    settle(config, CONFIG_READER_THREADS, cores > 2 ? cores : 2);
    settle(config, CONFIG_DIRTY_MEMORY, share);
}

void config_adjust(struct config *config, enum config_id id, int64_t number)
{
    config->numbers[id] = number;
}

/* ---- showing -------------------------------------------------------------------------------- */

int64_t config_number(const struct config *config, enum config_id id)
{
    return atomic_load_explicit(&config->numbers[id], memory_order_relaxed);
}

char *config_text(const struct config *config, enum config_id id)
{
    struct config *c = (struct config *)config;
    char *copy;
    pthread_mutex_lock(&c->lock);
    copy = strdup(c->texts[id]);
    pthread_mutex_unlock(&c->lock);
    return copy;
}

void config_output_limits(const struct config *config, uint64_t *hard, uint64_t *soft,
                          uint64_t *seconds)
{
    const _Atomic uint64_t *v = config->output.v[OUTPUT_NORMAL];
    *hard = atomic_load_explicit(&v[0], memory_order_relaxed);
    *soft = atomic_load_explicit(&v[1], memory_order_relaxed);
    *seconds = atomic_load_explicit(&v[2], memory_order_relaxed);
}

static char *fsync_name(const struct config *config)
{
    static const char *const fsync_of[] = {"no", "everysec", "always"};
    return strdup(fsync_of[config_number(config, CONFIG_DURABILITY)]);
}

static char *value_text(const struct config *config, enum config_id id,
                        const _Atomic int64_t *numbers)
{
    const struct config_row *row = config_row(id);
    if (id == CONFIG_APPENDFSYNC) {
        return fsync_name(config);
    }
    if (row->flags & CONFIG_FILE_ONLY) {
        return strdup("");
    }
    id = config_target(id);
    if (id == CONFIG_CLIENT_OUTPUT_BUFFER_LIMIT) {
        return config_output_text(&config->output);
    }
    return is_text(row) ? config_text(config, id) : config_number_text(row, numbers[id]);
}

char *config_given(const struct config *config, enum config_id id)
{
    return value_text(config, id, config->given);
}

/* A relative directory, seen from the root. */
static char *absolute(char *path)
{
    char *cwd = getcwd(NULL, 0), *whole = NULL;
    const char *rest = path;
    if (cwd == NULL || path == NULL || path[0] == '/') {
        free(cwd);
        return path;
    }
    while (rest[0] == '.' && (rest[1] == '/' || rest[1] == '\0')) {
        rest += rest[1] == '/' ? 2 : 1;
    }
    if (asprintf(&whole, "%s%s%s", cwd, rest[0] != '\0' ? "/" : "", rest) < 0) {
        whole = NULL;
    }
    free(cwd);
    free(path);
    return whole;
}

char *config_show(const struct config *config, enum config_id id)
{
    char *text = value_text(config, id, config->numbers);
    return id == CONFIG_DIR ? absolute(text) : text;
}

/* ---- CONFIG SET ----------------------------------------------------------------------------- */

/* Finds the rows of all pairs. What is wrong with the first that may not be set. */
static enum config_set_result find_rows(const struct config_change *changes, size_t n, int *ids,
                                        size_t *bad, char reason[CONFIG_REASON])
{
    for (size_t i = 0; i < n; i++) {
        const struct config_row *row;
        *bad = i;
        ids[i] = config_find(changes[i].name);
        row = ids[i] < 0 ? NULL : config_row(ids[i]);
        if (row == NULL || (row->flags & CONFIG_FILE_ONLY)) {
            config_refuse(reason, "unknown parameter");
            return CONFIG_SET_UNKNOWN;
        }
        if (row->flags & (CONFIG_IMMUTABLE | CONFIG_PROTECTED)) {
            config_refuse(reason, row->flags & CONFIG_IMMUTABLE ? "can't set immutable config"
                                                                : "can't set protected config");
            return CONFIG_SET_FIXED;
        }
        for (size_t j = 0; j < i; j++) {
            if (ids[j] == ids[i]) {
                config_refuse(reason, "duplicate parameter");
                return CONFIG_SET_FIXED;
            }
        }
    }
    return CONFIG_SET_OK;
}

/* Whether applying it waits for the writer. */
static bool waits(int id)
{
    return id == CONFIG_DURABILITY || id == CONFIG_APPENDFSYNC;
}

static int ask_listener(struct config *config, int id, char reason[CONFIG_REASON])
{
    const char *why = NULL;
    int rc;
    if (config->listener == NULL) {
        return 0;
    }
    if (waits(id)) {
        pthread_mutex_unlock(&config->setting);
    }
    rc = config->listener(config->listener_arg, config_target(id), &why);
    if (waits(id)) {
        pthread_mutex_lock(&config->setting);
    }
    if (rc != 0) {
        config_refuse(reason, "%s", why != NULL ? why : "failed to apply");
    }
    return rc != 0 ? -1 : 0;
}

/* Assigns all, then tells the listener. `told`: how many it was asked about. */
static int apply(struct config *config, const struct config_change *changes, const int *ids,
                 size_t n, size_t *bad, size_t *told, char reason[CONFIG_REASON])
{
    for (size_t i = 0; i < n; i++) {
        *bad = i;
        if (config_assign(config, ids[i], &changes[i].value, 1, reason) != 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < n; i++) {
        *bad = i;
        *told = i + 1;
        if (ask_listener(config, ids[i], reason) != 0) {
            return -1;
        }
    }
    return 0;
}

/* A value before a change. Not all numbers are what assigning their text would make of them:
 * maxclients may have been fitted to the machine, and appendfsync has no word for none. */
struct earlier {
    char *text;
    int64_t given, number;
};

static enum config_id number_of(int id)
{
    return id == CONFIG_APPENDFSYNC ? CONFIG_DURABILITY : config_target(id);
}

static void take_back(struct config *config, const int *ids, const struct earlier *before, size_t n,
                      size_t told)
{
    char unused[CONFIG_REASON];
    for (size_t i = 0; i < n; i++) {
        const char *old = before[i].text;
        if (old != NULL) {
            config_assign(config, ids[i], &old, 1, unused);
        }
        config->given[number_of(ids[i])] = before[i].given;
        config->numbers[number_of(ids[i])] = before[i].number;
    }
    for (size_t i = 0; i < told; i++) {
        ask_listener(config, ids[i], unused);
    }
}

static enum config_set_result set_found(struct config *config, const struct config_change *changes,
                                        const int *ids, size_t n, size_t *bad,
                                        char reason[CONFIG_REASON])
{
    struct earlier *before = calloc(n, sizeof(*before));
    size_t told = 0;
    int rc = -1;
    for (size_t i = 0; before != NULL && i < n; i++) {
        enum config_id number = number_of(ids[i]);
        before[i] = (struct earlier){config_given(config, ids[i]), config->given[number],
                                     config->numbers[number]};
    }
    if (before == NULL) {
        config_refuse(reason, "out of memory");
        return CONFIG_SET_FAILED;
    }
    rc = apply(config, changes, ids, n, bad, &told, reason);
    if (rc != 0) {
        take_back(config, ids, before, n, told);
    }
    for (size_t i = 0; i < n; i++) {
        if (rc == 0) {
            config_mention(config, ids[i]);
        }
        free(before[i].text);
    }
    free(before);
    return rc == 0 ? CONFIG_SET_OK : CONFIG_SET_FAILED;
}

enum config_set_result config_set(struct config *config, const struct config_change *changes,
                                  size_t n, size_t *bad, char reason[CONFIG_REASON])
{
    int *ids = calloc(n, sizeof(*ids));
    enum config_set_result result;
    bool waiting = false;
    *bad = 0;
    if (ids == NULL) {
        config_refuse(reason, "out of memory");
        return CONFIG_SET_FAILED;
    }
    result = find_rows(changes, n, ids, bad, reason);
    for (size_t i = 0; i < n && result == CONFIG_SET_OK && !waiting; i++) {
        waiting = waits(ids[i]);
    }
    if (waiting) {
        pthread_mutex_lock(&config->waiting);
    }
    if (result == CONFIG_SET_OK) {
        pthread_mutex_lock(&config->setting);
        result = set_found(config, changes, ids, n, bad, reason);
        pthread_mutex_unlock(&config->setting);
    }
    if (waiting) {
        pthread_mutex_unlock(&config->waiting);
    }
    free(ids);
    return result;
}
