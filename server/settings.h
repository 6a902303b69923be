/*
 * settings.h - what a setting does to the parts of the running process, and what the machine does
 * to a setting.
 *
 * Threads: settings_fit by the main thread before others run; settings_apply by whoever changes a
 * setting, one at a time (config.h).
 */
#ifndef PANDO_SERVER_SETTINGS_H
#define PANDO_SERVER_SETTINGS_H

#include "server/config/config.h"
#include "server/exec/env.h"

#include <stddef.h>

struct listener;

/* Raises the limit of open files to what maxclients needs, or lowers maxclients to what there is,
 * and says so. `threads`: I/O threads. 0, or -1 when not even one client is possible. */
int settings_fit_descriptors(const struct exec_env *env, size_t threads);

/* Carries a changed setting out. listener may be NULL. 0, or -1 and *reason: Redis's words. */
int settings_apply(const struct exec_env *env, struct listener *listener, size_t threads,
                   enum config_id id, const char **reason);

#endif
