/*
 * report.h - what the log says about opening the store: how it went, or what is damaged where.
 *
 * Threads: any.
 */
#ifndef PANDO_SERVER_REPORT_H
#define PANDO_SERVER_REPORT_H

#include "server/observe/logger.h"
#include "storage/pandostore.h"

void report_fault(struct logger *log, const char *what, const char *dir, int rc,
                  const struct ps_fault *fault);
void report_recovery(struct logger *log, const char *dir, const struct ps_recovery *recovery);

#endif
