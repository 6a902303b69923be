/*
 * report.c - see report.h.
 */
#include "server/report.h"

#include <string.h>

void report_fault(struct logger *log, const char *what, const char *dir, int rc,
                  const struct ps_fault *fault)
{
    if (fault->file[0] != '\0') {
        logger_write(log, LOG_WARNING,
                     "Opening the %s in '%s' failed: %s: %s at offset %llu: %s%s%s", what, dir,
                     ps_strerror(rc), fault->file, (unsigned long long)fault->offset, fault->what,
                     fault->sys_errno != 0 ? ": " : "",
                     fault->sys_errno != 0 ? strerror(fault->sys_errno) : "");
    } else {
        logger_write(log, LOG_WARNING, "Opening the %s in '%s' failed: %s", what, dir,
                     ps_strerror(rc));
    }
}

void report_recovery(struct logger *log, const char *dir, const struct ps_recovery *r)
{
    if (r->created) {
        logger_write(log, LOG_NOTICE, "Made a new store in '%s'", dir);
        return;
    }
    logger_write(
        log, LOG_NOTICE,
        "Recovered the store in '%s' in %llu.%03llu ms: from checkpoint %llu, %llu commits "
        "(%llu operations) from log position %llu to %llu, %llu bytes of torn tail cut",
        dir, (unsigned long long)r->microseconds / 1000, (unsigned long long)r->microseconds % 1000,
        (unsigned long long)r->checkpoint_seq, (unsigned long long)r->replayed_commits,
        (unsigned long long)r->replayed_ops, (unsigned long long)r->log_from,
        (unsigned long long)r->log_to, (unsigned long long)r->torn_bytes);
}
