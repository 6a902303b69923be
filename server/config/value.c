/*
 * value.c - numbers of the settings: from text, by Redis's rules and with Redis's reasons, and
 * back.
 *
 * Threads: any; nothing is kept but what is passed in.
 */
#include "server/config/config_private.h"

#include "protocol/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void config_refuse(char reason[CONFIG_REASON], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(reason, CONFIG_REASON, format, args);
    va_end(args);
}

/* As Redis: no digits are 0. What does not fit in 64 bits is -1, which is outside of every range.
 */
int config_parse_memory(const char *text, int64_t *value)
{
    static const struct {
        const char *unit;
        int64_t factor;
    } units[] = {{"", 1},        {"b", 1},        {"k", 1000},       {"kb", 1024},
                 {"m", 1000000}, {"mb", 1048576}, {"g", 1000000000}, {"gb", 1073741824}};
    size_t digits = strspn(text, "0123456789");
    uint64_t number;
    if (digits > 127) {
        return -1;
    }
    errno = 0;
    number = digits > 0 ? strtoull(text, NULL, 10) : 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcasecmp(text + digits, units[i].unit) == 0) {
            if (errno != 0 || __builtin_mul_overflow(number, units[i].factor, value)) {
                *value = -1;
            }
            return 0;
        }
    }
    return -1;
}

static int parse_enum(const struct config_row *row, const char *word, int64_t *number,
                      char reason[CONFIG_REASON])
{
    size_t used;
    for (int i = 0; row->names[i] != NULL; i++) {
        if (strcasecmp(row->names[i], word) == 0) {
            *number = i;
            return 0;
        }
    }
    config_refuse(reason, "argument(s) must be one of the following: ");
    used = strlen(reason);
    for (int i = 0; row->names[i] != NULL && used < CONFIG_REASON; i++) {
        used += (size_t)snprintf(reason + used, CONFIG_REASON - used, "%s%s", i > 0 ? ", " : "",
                                 row->names[i]);
    }
    return -1;
}

static bool parse_octal(const char *word, int64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoll(word, &end, 8);
    return errno == 0 && *end == '\0';
}

static bool parse_percent(const char *word, int64_t *number)
{
    size_t len = strlen(word);
    if (len < 2 || word[len - 1] != '%' || number_to_int(word, len - 1, number) != 0 ||
        *number < 0) {
        return false;
    }
    *number = -*number;
    return true;
}

static int check_bounds(const struct config_row *row, int64_t number, char reason[CONFIG_REASON])
{
    if (row->flags & CONFIG_UNSIGNED) {
        return 0;
    }
    if (row->type == CONFIG_PERCENT) {
        if (number < -100) {
            config_refuse(reason, "percentage argument must be less or equal to 100");
            return -1;
        }
        return 0;
    }
    if (number < row->min || number > row->max) {
        config_refuse(reason,
                      row->type == CONFIG_OCTAL
                          ? "argument must be between %llo and %llo inclusive"
                          : "argument must be between %lld and %lld inclusive",
                      (long long)row->min, (long long)row->max);
        return -1;
    }
    return 0;
}

int config_parse_number(const struct config_row *row, const char *word, int64_t *number,
                        char reason[CONFIG_REASON])
{
    const char *why = NULL;
    switch (row->type) {
    case CONFIG_BOOL:
        if (strcasecmp(word, "yes") != 0 && strcasecmp(word, "no") != 0) {
            config_refuse(reason, "argument must be 'yes' or 'no'");
            return -1;
        }
        *number = strcasecmp(word, "yes") == 0;
        return 0;
    case CONFIG_ENUM:
        return parse_enum(row, word, number, reason);
    case CONFIG_INT:
        why = number_to_int(word, strlen(word), number) == 0
                  ? NULL
                  : "argument couldn't be parsed into an integer";
        break;
    case CONFIG_OCTAL:
        why = parse_octal(word, number) ? NULL : "argument couldn't be parsed as an octal number";
        break;
    case CONFIG_PERCENT:
        why = config_parse_memory(word, number) == 0 || parse_percent(word, number)
                  ? NULL
                  : "argument must be a memory or percent value";
        break;
    default:
        why = config_parse_memory(word, number) == 0 ? NULL : "argument must be a memory value";
        break;
    }
    if (why != NULL) {
        config_refuse(reason, "%s", why);
        return -1;
    }
    return check_bounds(row, *number, reason);
}

char *config_number_text(const struct config_row *row, int64_t number)
{
    char *text = NULL;
    int rc;
    switch (row->type) {
    case CONFIG_BOOL:
        return strdup(number ? "yes" : "no");
    case CONFIG_ENUM:
        return strdup(row->names[number]);
    case CONFIG_OCTAL:
        rc = asprintf(&text, "%llo", (unsigned long long)number);
        break;
    default:
        if (row->type == CONFIG_PERCENT && number < 0) {
            rc = asprintf(&text, "%lld%%", -(long long)number);
        } else if (row->flags & CONFIG_UNSIGNED) {
            rc = asprintf(&text, "%llu", (unsigned long long)number);
        } else {
            rc = asprintf(&text, "%lld", (long long)number);
        }
    }
    return rc < 0 ? NULL : text;
}

/* ---- client-output-buffer-limit ------------------------------------------------------------- */

int config_output_class(const char *word)
{
    static const struct {
        const char *name;
        enum output_class class;
    } names[] = {{"normal", OUTPUT_NORMAL},
                 {"slave", OUTPUT_REPLICA},
                 {"replica", OUTPUT_REPLICA},
                 {"pubsub", OUTPUT_PUBSUB}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcasecmp(word, names[i].name) == 0) {
            return (int)names[i].class;
        }
    }
    return -1;
}

/* One CLASS HARD SOFT SECONDS. */
static int parse_one_limit(char *words[4], struct output_limits *limits, const char **reason)
{
    int64_t hard, soft, seconds;
    int class = config_output_class(words[0]);
    if (class < 0) {
        *reason = "Invalid client class specified in buffer limit configuration.";
        return -1;
    }
    if (config_parse_memory(words[1], &hard) != 0 || config_parse_memory(words[2], &soft) != 0 ||
        number_to_int(words[3], strlen(words[3]), &seconds) != 0 || hard < 0 || soft < 0 ||
        seconds < 0) {
        *reason = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        return -1;
    }
    limits->v[class][0] = (uint64_t)hard;
    limits->v[class][1] = (uint64_t)soft;
    limits->v[class][2] = (uint64_t)seconds;
    return 0;
}

int config_parse_output_limits(const char *text, struct output_limits *limits, const char **reason)
{
    char *copy = strdup(text), *save = NULL, *words[4];
    int rc = 0;
    unsigned n = 0;
    if (copy == NULL) {
        *reason = "out of memory";
        return -1;
    }
    for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
        n++;
    }
    memcpy(copy, text, strlen(text) + 1);
    if (n % 4 != 0) {
        *reason = "Wrong number of arguments in buffer limit configuration.";
        rc = -1;
    }
    n = 0;
    for (char *w = strtok_r(copy, " ", &save); w != NULL && rc == 0;
         w = strtok_r(NULL, " ", &save)) {
        words[n++] = w;
        if (n == 4) {
            rc = parse_one_limit(words, limits, reason);
            n = 0;
        }
    }
    free(copy);
    return rc;
}

char *config_output_text(const struct output_limits *limits)
{
    static const char *const names[] = {"normal", "slave", "pubsub"};
    char *text = NULL;
    size_t len;
    FILE *to = open_memstream(&text, &len);
    if (to == NULL) {
        return NULL;
    }
    for (int c = 0; c < OUTPUT_CLASSES; c++) {
        fprintf(to, "%s%s %llu %llu %llu", c > 0 ? " " : "", names[c],
                (unsigned long long)limits->v[c][0], (unsigned long long)limits->v[c][1],
                (unsigned long long)limits->v[c][2]);
    }
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
