/*
 * logger.h - messages for the operator: a level, a time, a line; to a file or to standard output.
 *
 *     1234:M 05 Nov 2026 10:15:00.123 * Ready to accept connections
 *
 * Threads: logger_write by any (one write call a line), also while the file is opened anew.
 */
#ifndef PANDO_SERVER_OBSERVE_LOGGER_H
#define PANDO_SERVER_OBSERVE_LOGGER_H

enum log_level { LOG_DEBUG, LOG_VERBOSE, LOG_NOTICE, LOG_WARNING };

struct logger;

/* path "": standard output. 0 or a negative errno. */
int logger_open(const char *path, enum log_level level, struct logger **log);
void logger_close(struct logger *log);
void logger_set_level(struct logger *log, enum log_level level);

/* Opens the path again, after the file was renamed away: no line is lost, each is whole in one of
 * the two files. 0 or a negative errno, and then the old file stays. Nothing on standard output. */
int logger_reopen(struct logger *log);

/* Does nothing when the level is below the log's, or when log is NULL. */
void logger_write(struct logger *log, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
