/*
 * service.c - see service.h.
 *
 * Threads: the main thread, and one beside it in each phase. Beats are the phase's thread's only;
 * the lock guards what ends it. Crash: nothing here is on disk.
 */
#include "server/service.h"

#include <pthread.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#define BEAT_SECONDS 5
#define EXTEND_US    (30 * 1000000LL) /* several beats: one that comes late does no harm */
#define WORKED_US    1000             /* less processor time than this between beats is idling */

struct service {
    bool managed, watched;
    int64_t cpu_us; /* at the last beat that asked; -1: the phase has just begun */

    pthread_t thread;
    bool in_phase; /* the thread runs */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool phase_over;
};

static int64_t clock_us(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

void service_beat(struct service *service, int64_t cpu_us)
{
    if (service->cpu_us >= 0 && cpu_us - service->cpu_us < WORKED_US) {
        return;
    }
    service->cpu_us = cpu_us;
    sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%lld", EXTEND_US);
}

static void *phase_main(void *arg)
{
    struct service *service = arg;
    struct timespec next;
    pthread_setname_np(pthread_self(), "pando-service");
    clock_gettime(CLOCK_MONOTONIC, &next);
    pthread_mutex_lock(&service->lock);
    while (!service->phase_over) {
        service_beat(service,
                     clock_us(CLOCK_PROCESS_CPUTIME_ID) - clock_us(CLOCK_THREAD_CPUTIME_ID));
        next.tv_sec += BEAT_SECONDS;
        while (!service->phase_over &&
               pthread_cond_timedwait(&service->changed, &service->lock, &next) == 0) {
        }
    }
    pthread_mutex_unlock(&service->lock);
    return NULL;
}

static void begin_phase(struct service *service)
{
    service->cpu_us = -1;
    service->phase_over = false;
    service->in_phase = pthread_create(&service->thread, NULL, phase_main, service) == 0;
}

static void end_phase(struct service *service)
{
    if (!service->in_phase) {
        return;
    }
    pthread_mutex_lock(&service->lock);
    service->phase_over = true;
    pthread_cond_signal(&service->changed);
    pthread_mutex_unlock(&service->lock);
    pthread_join(service->thread, NULL);
    service->in_phase = false;
}

struct service *service_new(void)
{
    struct service *service = calloc(1, sizeof(*service));
    pthread_condattr_t attributes;
    uint64_t interval_us;
    if (service == NULL) {
        return NULL;
    }
    service->cpu_us = -1;
    service->managed = getenv("NOTIFY_SOCKET") != NULL;
    service->watched = sd_watchdog_enabled(0, &interval_us) > 0;
    pthread_mutex_init(&service->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&service->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return service;
}

void service_free(struct service *service)
{
    if (service == NULL) {
        return;
    }
    end_phase(service);
    pthread_mutex_destroy(&service->lock);
    pthread_cond_destroy(&service->changed);
    free(service);
}

void service_starting(struct service *service, const char *status)
{
    if (service == NULL || !service->managed) {
        return;
    }
    sd_notifyf(0, "STATUS=%s", status);
    begin_phase(service);
}

void service_ready(struct service *service, const char *status)
{
    if (service == NULL || !service->managed) {
        return;
    }
    end_phase(service);
    sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void service_stopping(struct service *service, const char *status)
{
    if (service == NULL || !service->managed) {
        return;
    }
    sd_notifyf(0, "STOPPING=1\nSTATUS=%s", status);
    begin_phase(service);
}

void service_alive(struct service *service)
{
    if (service != NULL && service->watched) {
        sd_notify(0, "WATCHDOG=1");
    }
}
