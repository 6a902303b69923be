/*
 * settings.c - see settings.h.
 *
 * Crash: nothing here is on disk.
 */
#include "server/settings.h"

#include "server/exec/regime.h"
#include "server/net/listener.h"
#include "server/observe/logger.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define OWN_FILES         64 /* besides the loops' and the clients' */
#define FILES_OF_A_THREAD 4

static rlim_t own_files(size_t threads)
{
    return OWN_FILES + (rlim_t)threads * FILES_OF_A_THREAD;
}

/* Raises the limit of open files as far as may be, up to `files`. Returns the limit. */
static rlim_t raise_limit(rlim_t files, rlim_t *original, int *error)
{
    struct rlimit limit, whole;
    *error = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        *original = files;
        return files;
    }
    *original = limit.rlim_cur;
    if (limit.rlim_cur >= files) {
        return limit.rlim_cur;
    }
    whole = (struct rlimit){files, limit.rlim_max < files ? files : limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &whole) == 0) {
        return files;
    }
    *error = errno;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : *original;
}

int settings_fit_descriptors(const struct exec_env *env, size_t threads)
{
    rlim_t own = own_files(threads), original, limit, room;
    rlim_t clients = (rlim_t)config_number(env->config, CONFIG_MAXCLIENTS);
    rlim_t needed = clients + own;
    int error;
    limit = raise_limit(needed, &original, &error);
    if (limit >= needed) {
        if (limit > original) {
            logger_write(env->log, LOG_NOTICE,
                         "Increased maximum number of open files to %lu (it was originally set to "
                         "%lu).",
                         limit, original);
        }
        return 0;
    }
    logger_write(env->log, LOG_WARNING,
                 "You requested maxclients of %lu requiring at least %lu max file descriptors.",
                 clients, needed);
    logger_write(env->log, LOG_WARNING,
                 "Server can't set maximum open files to %lu because of OS error: %s.", needed,
                 strerror(error));
    if (limit <= own) {
        own++;
        logger_write(env->log, LOG_WARNING,
                     "Your current 'ulimit -n' of %lu is not enough for the server to start. "
                     "Please increase your open file limit to at least %lu. Exiting.",
                     limit, own);
        return -1;
    }
    room = limit - own;
    config_adjust(env->config, CONFIG_MAXCLIENTS, (int64_t)room);
    logger_write(env->log, LOG_WARNING,
                 "Current maximum open files is %lu. maxclients has been reduced to %lu to "
                 "compensate for low ulimit. If you need higher maxclients increase 'ulimit -n'.",
                 limit, room);
    return 0;
}

/* ---- changes -------------------------------------------------------------------------------- */

/* More clients need more descriptors. */
static int apply_maxclients(const struct exec_env *env, size_t threads, const char **reason)
{
    static _Thread_local char text[160];
    rlim_t own = own_files(threads), original, limit;
    rlim_t clients = (rlim_t)config_number(env->config, CONFIG_MAXCLIENTS);
    int error;
    limit = raise_limit(clients + own, &original, &error);
    if (limit >= clients + own) {
        return 0;
    }
    snprintf(text, sizeof(text),
             "The operating system is not able to handle the specified number of clients, try with "
             "%lu",
             limit > own ? limit - own : (rlim_t)1);
    *reason = text;
    return -1;
}

static int apply_addresses(const struct exec_env *env, struct listener *listener, enum config_id id,
                           const char **reason)
{
    char why[256] = "";
    char *addresses = config_text(env->config, CONFIG_BIND);
    int port = (int)config_number(env->config, CONFIG_PORT), rc = -1;
    if (addresses != NULL) {
        rc = listener_change(listener, addresses, port, why, sizeof(why));
    }
    free(addresses);
    if (rc != 0) {
        logger_write(env->log, LOG_WARNING, "Could not create server TCP listening socket %s", why);
        *reason = id == CONFIG_PORT ? "Unable to listen on this port. Check server logs."
                                    : "Failed to bind to specified addresses.";
    }
    return rc;
}

int settings_apply(const struct exec_env *env, struct listener *listener, size_t threads,
                   enum config_id id, const char **reason)
{
    int rc = 0;
    switch (id) {
    case CONFIG_BIND:
    case CONFIG_PORT:
        return listener == NULL ? 0 : apply_addresses(env, listener, id, reason);
    case CONFIG_MAXCLIENTS:
        return apply_maxclients(env, threads, reason);
    case CONFIG_LOGLEVEL:
        logger_set_level(env->log, (enum log_level)config_number(env->config, CONFIG_LOGLEVEL));
        break;
    case CONFIG_DURABILITY:
    case CONFIG_APPENDFSYNC:
        rc = ps_set_durability(env->store,
                               (enum ps_durability)config_number(env->config, CONFIG_DURABILITY));
        break;
    case CONFIG_DISK_READS:
        regime_apply(env->regime);
        break;
    case CONFIG_MAX_RECOVERY_TIME:
        ps_set_max_recovery(env->store,
                            (uint32_t)config_number(env->config, CONFIG_MAX_RECOVERY_TIME));
        break;
    case CONFIG_MAX_SNAPSHOT_AGE:
        ps_set_max_snapshot(env->store,
                            (uint64_t)config_number(env->config, CONFIG_MAX_SNAPSHOT_AGE) * 1000);
        break;
    default:
        break;
    }
    if (rc != 0) {
        *reason = ps_strerror(rc);
    }
    return rc;
}
