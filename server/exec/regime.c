/*
 * regime.c - see regime.h. The lock guards the watch; the flag itself is an atomic of the env.
 */
#include "server/exec/regime.h"

#include "server/config/cgroup.h"
#include "server/config/config.h"
#include "server/observe/logger.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

struct regime {
    struct exec_env *env;
    uint64_t memory_limit;
    pthread_mutex_t lock; /* what follows */
    struct regime_watch watch;
    bool judged; /* what the rule said last */
};

bool regime_judge(struct regime_watch *watch, const struct regime_counters *now)
{
    const struct regime_counters *last = &watch->last;
    uint64_t faults = last->now_ms != 0 ? now->major_faults - last->major_faults : 0;
    uint64_t refaults =
        now->refaults_known && last->refaults_known ? now->refaults - last->refaults : 0;
    watch->last = *now;
    watch->refaults += refaults;
    watch->major_faults += faults;
    if (now->file_bytes <= now->memory_limit / 2) {
        watch->seen_ms = 0;
        return false;
    }
    if (faults > 0 || refaults > 0) {
        watch->seen_ms = now->now_ms;
    }
    return watch->seen_ms != 0 && now->now_ms - watch->seen_ms < REGIME_QUIET_MS;
}

static void read_counters(const struct regime *regime, struct regime_counters *c)
{
    struct rusage usage;
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    getrusage(RUSAGE_SELF, &usage);
    *c = (struct regime_counters){
        .file_bytes = ps_file_bytes(regime->env->store),
        .memory_limit = regime->memory_limit,
        .major_faults = (uint64_t)usage.ru_majflt,
        .now_ms = (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + 1,
    };
    /* Below half the memory the answer is no whatever they are: the file is not opened. */
    if (c->file_bytes > c->memory_limit / 2) {
        c->refaults_known = cgroup_refaults("", &c->refaults);
    }
}

/* With the lock. */
static void set_flag(struct regime *regime)
{
    struct exec_env *env = regime->env;
    int64_t setting = config_number(env->config, CONFIG_DISK_READS);
    bool on = setting == DISK_READS_POOL || (setting == DISK_READS_AUTO && regime->judged);
    if (on != atomic_load_explicit(&env->disk_regime, memory_order_relaxed)) {
        atomic_store_explicit(&env->disk_regime, on, memory_order_release);
        logger_write(env->log, LOG_NOTICE,
                     on ? "Reads that would wait for the disk go to the reader pool from now on"
                        : "Reads are executed on the I/O threads from now on");
    }
}

struct regime *regime_new(struct exec_env *env)
{
    struct regime *regime = calloc(1, sizeof(*regime));
    struct regime_counters first;
    if (regime == NULL) {
        return NULL;
    }
    regime->env = env;
    regime->memory_limit = (uint64_t)cgroup_memory_limit("");
    pthread_mutex_init(&regime->lock, NULL);
    read_counters(regime, &first);
    regime_judge(&regime->watch, &first);
    set_flag(regime);
    return regime;
}

void regime_free(struct regime *regime)
{
    if (regime != NULL) {
        pthread_mutex_destroy(&regime->lock);
        free(regime);
    }
}

void regime_sample(struct regime *regime)
{
    struct regime_counters now;
    read_counters(regime, &now);
    pthread_mutex_lock(&regime->lock);
    regime->judged = regime_judge(&regime->watch, &now);
    set_flag(regime);
    pthread_mutex_unlock(&regime->lock);
}

void regime_apply(struct regime *regime)
{
    pthread_mutex_lock(&regime->lock);
    set_flag(regime);
    pthread_mutex_unlock(&regime->lock);
}

void regime_statistics(struct regime *regime, struct regime_statistics *s)
{
    pthread_mutex_lock(&regime->lock);
    s->on = atomic_load_explicit(&regime->env->disk_regime, memory_order_relaxed);
    s->refaults = regime->watch.refaults;
    s->major_faults = regime->watch.major_faults;
    pthread_mutex_unlock(&regime->lock);
}
