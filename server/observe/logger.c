/*
 * logger.c - see logger.h. The file is opened for appending and written without buffering, so that
 * lines of several threads, or of a process that dies, are whole.
 */
#include "server/observe/logger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct logger {
    int fd;
    _Atomic int level;
};

int logger_open(const char *path, enum log_level level, struct logger **log)
{
    struct logger *l = malloc(sizeof(*l));
    if (l == NULL) {
        return -ENOMEM;
    }
    l->level = level;
    l->fd = path[0] == '\0' ? STDOUT_FILENO
                            : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (l->fd < 0) {
        int rc = -errno;
        free(l);
        return rc;
    }
    *log = l;
    return 0;
}

void logger_close(struct logger *log)
{
    if (log != NULL && log->fd != STDOUT_FILENO) {
        close(log->fd);
    }
    free(log);
}

void logger_set_level(struct logger *log, enum log_level level)
{
    atomic_store_explicit(&log->level, (int)level, memory_order_relaxed);
}

void logger_write(struct logger *log, enum log_level level, const char *format, ...)
{
    char line[1280];
    struct timespec now;
    struct tm tm;
    size_t n;
    int used;
    ssize_t written;
    va_list args;
    if (log == NULL || (int)level < atomic_load_explicit(&log->level, memory_order_relaxed)) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    n = (size_t)snprintf(line, sizeof(line), "%d:M ", (int)getpid());
    n += strftime(line + n, sizeof(line) - n, "%d %b %Y %H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, sizeof(line) - n, ".%03d %c ", (int)(now.tv_nsec / 1000000),
                          ".-*#"[level]);
    va_start(args, format);
    used = vsnprintf(line + n, sizeof(line) - n - 1, format, args);
    va_end(args);
    n += used < 0 ? 0 : (size_t)used;
    if (n > sizeof(line) - 2) {
        n = sizeof(line) - 2;
    }
    line[n++] = '\n';
    written = write(log->fd, line, n);
    (void)written; /* nowhere to say it */
}
