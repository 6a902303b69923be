/*
 * config_private.h - shared by the files of server/config only.
 */
#ifndef PANDO_SERVER_CONFIG_CONFIG_PRIVATE_H
#define PANDO_SERVER_CONFIG_CONFIG_PRIVATE_H

#include "server/config/config.h"

#include <pthread.h>
#include <stdatomic.h>

struct config {
    pthread_mutex_t setting; /* one change at a time; held while the listener works */
    pthread_mutex_t lock;    /* texts; held for moments only, inside `setting` */
    _Atomic int64_t numbers[CONFIG_COUNT];
    char *texts[CONFIG_COUNT]; /* CONFIG_STRING and CONFIG_WORDS */
    _Atomic uint64_t output_hard, output_soft, output_seconds;
    config_listener listener;
    void *listener_arg;
    void (*warn)(void *arg, const char *text);
    void *warn_arg;
};

/* Sets one value from its words, without asking the listener. 0, or -1 and reason. */
int config_assign(struct config *config, enum config_id id, const char *const *words, size_t n,
                  char reason[160]);

/* Takes "normal 1mb 0 0 ..." apart. 0, or -1 and *reason. */
int config_parse_output_limits(const char *text, uint64_t values[3], const char **reason);
int config_check_output_limits(const char *text, const char **reason);

#endif
