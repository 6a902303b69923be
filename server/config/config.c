/*
 * config.c - the values of the settings: checking, setting, showing.
 *
 * Invariants: as in config.h. `appendfsync` has no value of its own: it is another name for
 * `durability` (config_assign and config_show translate).
 *
 * Threads: numbers are atomics; texts are guarded by config->lock, changes by config->setting,
 * which is held while the listener works: it must not call config_set.
 */
#include "server/config/cgroup.h"
#include "server/config/config_private.h"

#include "protocol/number.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define DIRTY_MEMORY_LEAST (4 * 1024 * 1024) /* the longest key and value fit, in any page size */

enum { FSYNC_EVERYSEC, FSYNC_ALWAYS, FSYNC_NO };

static void refuse(char reason[160], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void refuse(char reason[160], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(reason, 160, format, args);
    va_end(args);
}

int config_parse_memory(const char *text, int64_t *value)
{
    static const struct {
        const char *unit;
        int64_t factor;
    } units[] = {{"", 1},        {"b", 1},        {"k", 1000},       {"kb", 1024},
                 {"m", 1000000}, {"mb", 1048576}, {"g", 1000000000}, {"gb", 1073741824}};
    size_t digits = strspn(text, "0123456789");
    int64_t number;
    if (digits == 0 || digits > 18) {
        return -1;
    }
    number = strtoll(text, NULL, 10);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcasecmp(text + digits, units[i].unit) == 0) {
            return __builtin_mul_overflow(number, units[i].factor, value) ? -1 : 0;
        }
    }
    return -1;
}

static bool is_class(const char *word)
{
    return strcasecmp(word, "normal") == 0 || strcasecmp(word, "slave") == 0 ||
           strcasecmp(word, "replica") == 0 || strcasecmp(word, "pubsub") == 0;
}

/* One CLASS HARD SOFT SECONDS; only the class normal exists here, the others are checked. */
static int parse_one_limit(char *words[4], uint64_t values[3], const char **reason)
{
    int64_t hard, soft, seconds;
    if (!is_class(words[0])) {
        *reason = "Invalid client class specified in buffer limit configuration.";
        return -1;
    }
    if (config_parse_memory(words[1], &hard) != 0 || config_parse_memory(words[2], &soft) != 0 ||
        number_to_int(words[3], strlen(words[3]), &seconds) != 0 || seconds < 0) {
        *reason = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        return -1;
    }
    if (strcasecmp(words[0], "normal") == 0) {
        values[0] = (uint64_t)hard;
        values[1] = (uint64_t)soft;
        values[2] = (uint64_t)seconds;
    }
    return 0;
}

int config_parse_output_limits(const char *text, uint64_t values[3], const char **reason)
{
    char *copy = strdup(text), *save = NULL, *words[4];
    int rc = 0;
    unsigned n = 0;
    if (copy == NULL) {
        *reason = "out of memory";
        return -1;
    }
    for (char *w = strtok_r(copy, " ", &save); w != NULL && rc == 0;
         w = strtok_r(NULL, " ", &save)) {
        words[n++] = w;
        if (n == 4) {
            rc = parse_one_limit(words, values, reason);
            n = 0;
        }
    }
    if (rc == 0 && n != 0) {
        *reason = "Wrong number of arguments in buffer limit configuration.";
        rc = -1;
    }
    free(copy);
    return rc;
}

int config_check_output_limits(const char *text, const char **reason)
{
    uint64_t values[3];
    return config_parse_output_limits(text, values, reason);
}

/* ---- checking and setting ------------------------------------------------------------------- */

static int parse_enum(const struct config_row *row, const char *word, int64_t *number,
                      char reason[160])
{
    size_t used;
    for (int i = 0; row->names[i] != NULL; i++) {
        if (strcasecmp(row->names[i], word) == 0) {
            *number = i;
            return 0;
        }
    }
    refuse(reason, "argument(s) must be one of the following: ");
    used = strlen(reason);
    for (int i = 0; row->names[i] != NULL; i++) {
        used +=
            (size_t)snprintf(reason + used, 160 - used, "%s%s", i > 0 ? ", " : "", row->names[i]);
    }
    return -1;
}

static int parse_number(const struct config_row *row, const char *word, int64_t *number,
                        char reason[160])
{
    switch (row->type) {
    case CONFIG_BOOL:
        if (strcasecmp(word, "yes") != 0 && strcasecmp(word, "no") != 0) {
            refuse(reason, "argument must be 'yes' or 'no'");
            return -1;
        }
        *number = strcasecmp(word, "yes") == 0;
        return 0;
    case CONFIG_ENUM:
        return parse_enum(row, word, number, reason);
    case CONFIG_INT:
        if (number_to_int(word, strlen(word), number) != 0) {
            refuse(reason, "argument couldn't be parsed into an integer");
            return -1;
        }
        break;
    default:
        if (config_parse_memory(word, number) != 0) {
            refuse(reason, "argument must be a memory value");
            return -1;
        }
    }
    if (*number < row->min || *number > row->max) {
        refuse(reason, "argument must be between %lld and %lld inclusive", (long long)row->min,
               (long long)row->max);
        return -1;
    }
    return 0;
}

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

static int assign_text(struct config *config, enum config_id id, const char *const *words, size_t n,
                       char reason[160])
{
    const struct config_row *row = config_row(id);
    const char *why = NULL;
    char *text = join(words, n);
    if (text == NULL) {
        refuse(reason, "out of memory");
        return -1;
    }
    if (row->check != NULL && row->check(text, &why) != 0) {
        refuse(reason, "%s", why);
        free(text);
        return -1;
    }
    if (id == CONFIG_CLIENT_OUTPUT_BUFFER_LIMIT) {
        uint64_t values[3] = {config->output_hard, config->output_soft, config->output_seconds};
        config_parse_output_limits(text, values, &why);
        config->output_hard = values[0];
        config->output_soft = values[1];
        config->output_seconds = values[2];
        free(text);
        if (asprintf(&text, "normal %llu %llu %llu", (unsigned long long)values[0],
                     (unsigned long long)values[1], (unsigned long long)values[2]) < 0) {
            refuse(reason, "out of memory");
            return -1;
        }
    }
    pthread_mutex_lock(&config->lock);
    free(config->texts[id]);
    config->texts[id] = text;
    pthread_mutex_unlock(&config->lock);
    return 0;
}

int config_assign(struct config *config, enum config_id id, const char *const *words, size_t n,
                  char reason[160])
{
    const struct config_row *row = config_row(id);
    int64_t number;
    if (row->type == CONFIG_WORDS) {
        return assign_text(config, id, words, n, reason);
    }
    if (n != 1) {
        refuse(reason, "wrong number of arguments");
        return -1;
    }
    if (row->type == CONFIG_STRING) {
        return assign_text(config, id, words, n, reason);
    }
    if (parse_number(row, words[0], &number, reason) != 0) {
        return -1;
    }
    if (id == CONFIG_PAGE_SIZE && (number & (number - 1)) != 0) {
        refuse(reason, "argument must be a power of two");
        return -1;
    }
    if (id == CONFIG_DIRTY_MEMORY && number != 0 && number < DIRTY_MEMORY_LEAST) {
        refuse(reason, "argument must be 0 or at least 4mb");
        return -1;
    }
    if (id == CONFIG_APPENDFSYNC) {
        id = CONFIG_DURABILITY;
        number = number == FSYNC_ALWAYS ? DURABILITY_ALWAYS : DURABILITY_EVERYSEC;
    }
    config->numbers[id] = number;
    return 0;
}

/* ---- the object ----------------------------------------------------------------------------- */

struct config *config_new(void)
{
    struct config *config = calloc(1, sizeof(*config));
    char reason[160];
    if (config == NULL) {
        return NULL;
    }
    pthread_mutex_init(&config->setting, NULL);
    pthread_mutex_init(&config->lock, NULL);
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const char *value = config_row(id)->value;
        assert(config_row(id)->name != NULL);
        if (config_assign(config, id, &value, 1, reason) != 0) {
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
        pthread_mutex_destroy(&config->setting);
        pthread_mutex_destroy(&config->lock);
    }
    free(config);
}

void config_on_warning(struct config *config, void (*warn)(void *arg, const char *text), void *arg)
{
    config->warn = warn;
    config->warn_arg = arg;
}

void config_listen(struct config *config, config_listener listener, void *arg)
{
    config->listener = listener;
    config->listener_arg = arg;
}

static void settle(struct config *config, enum config_id id, int64_t value)
{
    if (config->numbers[id] == 0) {
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
    *hard = atomic_load_explicit(&config->output_hard, memory_order_relaxed);
    *soft = atomic_load_explicit(&config->output_soft, memory_order_relaxed);
    *seconds = atomic_load_explicit(&config->output_seconds, memory_order_relaxed);
}

char *config_show(const struct config *config, enum config_id id)
{
    static const char *const fsync_of[] = {"no", "everysec", "always"};
    const struct config_row *row = config_row(id);
    char digits[NUMBER_INT_MAX + 1];
    int64_t number = config_number(config, id);
    switch (row->type) {
    case CONFIG_STRING:
    case CONFIG_WORDS:
        return config_text(config, id);
    case CONFIG_BOOL:
        return strdup(number ? "yes" : "no");
    case CONFIG_ENUM:
        if (id == CONFIG_APPENDFSYNC) {
            return strdup(fsync_of[config_number(config, CONFIG_DURABILITY)]);
        }
        return strdup(row->names[number]);
    default:
        digits[number_from_int(number, digits)] = '\0';
        return strdup(digits);
    }
}

/* ---- CONFIG SET ----------------------------------------------------------------------------- */

static int check_changes(const struct config_change *changes, size_t n, size_t *bad,
                         char reason[160])
{
    for (size_t i = 0; i < n; i++) {
        *bad = i;
        if (config_row(changes[i].id)->flags & CONFIG_IMMUTABLE) {
            refuse(reason, "can't set immutable config");
            return -1;
        }
        for (size_t j = 0; j < i; j++) {
            if (changes[j].id == changes[i].id) {
                refuse(reason, "duplicate parameter");
                return -1;
            }
        }
    }
    return 0;
}

static int apply_change(struct config *config, const struct config_change *change, char reason[160])
{
    const struct config_row *row = config_row(change->id);
    const char *why = NULL;
    int64_t number;
    if (row->flags & CONFIG_FIXED) {
        if (row->type != CONFIG_STRING && row->type != CONFIG_WORDS) {
            return parse_number(row, change->value, &number, reason);
        }
        return 0;
    }
    if (config_assign(config, change->id, &change->value, 1, reason) != 0) {
        return -1;
    }
    if (config->listener != NULL && config->listener(config->listener_arg, change->id, &why) != 0) {
        refuse(reason, "%s", why != NULL ? why : "failed to apply");
        return -1;
    }
    return 0;
}

int config_set(struct config *config, const struct config_change *changes, size_t n, size_t *bad,
               char reason[160])
{
    char *before[CONFIG_COUNT] = {0};
    char ignored[160];
    const char *unused;
    int rc;
    pthread_mutex_lock(&config->setting);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): all of `before` is freed at the end */
    for (size_t i = 0; i < n; i++) {
        if (before[changes[i].id] == NULL) { /* a name given twice is refused further down */
            before[changes[i].id] = config_show(config, changes[i].id);
        }
    }
    rc = check_changes(changes, n, bad, reason);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        *bad = i;
        rc = apply_change(config, &changes[i], reason);
    }
    for (size_t i = 0; rc != 0 && i <= *bad; i++) {
        enum config_id id = changes[i].id;
        const char *old = before[id];
        if (old != NULL && !(config_row(id)->flags & (CONFIG_FIXED | CONFIG_IMMUTABLE))) {
            config_assign(config, id, &old, 1, ignored);
            if (config->listener != NULL) {
                config->listener(config->listener_arg, id, &unused);
            }
        }
    }
    pthread_mutex_unlock(&config->setting);
    for (int id = 0; id < CONFIG_COUNT; id++) {
        free(before[id]);
    }
    return rc;
}
