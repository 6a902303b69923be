/*
 * service.h - tells a service manager how the process is doing: systemd's notify protocol.
 *
 * READY=1 is said once, after recovery and with the sockets listening; STOPPING=1 when the end
 * begins. Without a manager (no NOTIFY_SOCKET in the environment) every call does nothing.
 *
 * Starting and stopping may take as long as the log and the dirty memory are large. While such a
 * phase lasts, a thread asks for more time again and again (EXTEND_TIMEOUT_USEC), but only if the
 * process has used its processors since it asked last: one that hangs meets the manager's timeout.
 *
 * Threads: the main thread. Signals that only the main thread shall see are blocked before.
 */
#ifndef PANDO_SERVER_SERVICE_H
#define PANDO_SERVER_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

struct service;

/* NULL without memory; all functions take NULL and then do nothing. */
struct service *service_new(void);
/* Ends a phase's thread. Says nothing: the manager sees the process end. */
void service_free(struct service *service);

/* The phase before service_ready begins; `status` is shown by `systemctl status`. */
void service_starting(struct service *service, const char *status);
void service_ready(struct service *service, const char *status);
/* The phase up to service_free begins. */
void service_stopping(struct service *service, const char *status);

/* For the manager's watchdog, if it has one: the process works as it should. */
void service_alive(struct service *service);

/* One beat of a phase, for its thread: `cpu_us` is the processor time that the rest of the process
 * has used so far. Asks for more time if that has moved; the first beat of a phase always does. */
void service_beat(struct service *service, int64_t cpu_us);

#endif
