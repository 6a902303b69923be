/*
 * check.c - texts with rules of their own, refused for Redis's reasons.
 *
 * Threads: any.
 */
#include "server/config/config_private.h"

#include "protocol/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_ADDRESSES 16
#define MAX_HOSTNAME  256

/* Calls `one` with every word and its number until it says no. The number of words, or -1. */
static int each_word(const char *text, bool (*one)(const char *word, int index, void *arg),
                     void *arg)
{
    char *copy = strdup(text), *save = NULL;
    int n = 0;
    if (copy == NULL) {
        return -1;
    }
    for (char *w = strtok_r(copy, " ", &save); w != NULL && n >= 0;
         w = strtok_r(NULL, " ", &save)) {
        n = one(w, n, arg) ? n + 1 : -1;
    }
    free(copy);
    return n;
}

static bool any_word(const char *word, int index, void *arg)
{
    (void)word;
    (void)index;
    (void)arg;
    return true;
}

int config_check_output_limits(const char *text, const char **reason)
{
    struct output_limits unused = {0};
    return config_parse_output_limits(text, &unused, reason);
}

int config_check_bind(const char *text, const char **reason)
{
    *reason = "Too many bind addresses specified.";
    return each_word(text, any_word, NULL) > MAX_ADDRESSES ? -1 : 0;
}

static bool is_save_word(const char *word, int index, void *arg)
{
    char *end;
    long long value = strtoll(word, &end, 10);
    (void)arg;
    return *end == '\0' && value >= (index % 2 == 0);
}

int config_check_save(const char *text, const char **reason)
{
    int n = each_word(text, is_save_word, NULL);
    *reason = "Invalid save parameters";
    return n < 0 || n % 2 != 0 ? -1 : 0;
}

static bool is_shutdown_word(const char *word, int index, void *arg)
{
    static const char *const names[] = {"default", "save", "nosave", "now", "force"};
    unsigned *seen = arg;
    (void)index;
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcasecmp(word, names[i]) == 0) {
            *seen |= 1u << i;
            return true;
        }
    }
    return false;
}

int config_check_shutdown(const char *text, const char **reason)
{
    unsigned seen = 0;
    if (each_word(text, is_shutdown_word, &seen) <= 0) {
        *reason = "argument(s) must be one of the following: default, save, nosave, now, force";
        return -1;
    }
    *reason = "shutdown options SAVE and NOSAVE can't be used simultaneously";
    return (seen & 6u) == 6u ? -1 : 0;
}

static bool is_oom_value(const char *word, int index, void *arg)
{
    int64_t value;
    (void)index;
    (void)arg;
    return number_to_int(word, strlen(word), &value) == 0 && value >= -2000 && value <= 2000;
}

int config_check_oom_values(const char *text, const char **reason)
{
    if (each_word(text, any_word, NULL) != 3) {
        *reason = "wrong number of arguments";
        return -1;
    }
    *reason = "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
    return each_word(text, is_oom_value, NULL) == 3 ? 0 : -1;
}

static bool is_number(const char *word, int index, void *arg)
{
    char *end;
    double value = strtod(word, &end);
    (void)index;
    if (*end != '\0' || isspace((unsigned char)word[0])) {
        return false;
    }
    *(bool *)arg |= !(value >= 0 && value <= 100);
    return true;
}

int config_check_percentiles(const char *text, const char **reason)
{
    bool outside = false;
    if (each_word(text, is_number, &outside) < 0) {
        *reason = "Invalid latency-tracking-info-percentiles parameters";
        return -1;
    }
    *reason = "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]";
    return outside ? -1 : 0;
}

int config_check_replicaof(const char *text, const char **reason)
{
    *reason = "wrong number of arguments";
    return text[0] == '\0' || each_word(text, any_word, NULL) == 2 ? 0 : -1;
}

int config_check_hostname(const char *text, const char **reason)
{
    if (strlen(text) >= MAX_HOSTNAME) {
        *reason = "Hostnames must be less than 256 characters";
        return -1;
    }
    *reason = "Hostnames may only contain alphanumeric characters, hyphens or dots";
    for (; *text != '\0'; text++) {
        if (!isalnum((unsigned char)*text) && *text != '-' && *text != '.') {
            return -1;
        }
    }
    return 0;
}

int config_check_title(const char *text, const char **reason)
{
    static const char *const names[] = {"{title}",    "{listen-addr}", "{server-mode}", "{port}",
                                        "{tls-port}", "{unixsocket}",  "{config-file}"};
    *reason = "template format is invalid or contains unknown variables";
    if (text[0] == '\0') {
        return -1;
    }
    for (text = strpbrk(text, "{}"); text != NULL; text = strpbrk(text, "{}")) {
        size_t i = 0, n = sizeof(names) / sizeof(names[0]);
        while (i < n && strncmp(text, names[i], strlen(names[i])) != 0) {
            i++;
        }
        if (i == n) {
            return -1;
        }
        text += strlen(names[i]);
    }
    return 0;
}
