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
#include <string.h>
#include <time.h>
#include <unistd.h>

struct logger {
    int fd;     /* its number stays when the file is opened anew */
    char *path; /* NULL: standard output */
    _Atomic int level;
};

static int open_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : fd;
}

int logger_open(const char *path, enum log_level level, struct logger **log)
{
    struct logger *l = malloc(sizeof(*l));
    if (l == NULL) {
        return -ENOMEM;
    }
    l->level = level;
    l->path = path[0] == '\0' ? NULL : strdup(path);
    l->fd = l->path == NULL ? STDOUT_FILENO : open_file(path);
    if (l->fd < 0 || (path[0] != '\0' && l->path == NULL)) {
        int rc = l->fd < 0 ? l->fd : -ENOMEM;
        free(l->path);
        free(l);
        return rc;
    }
    *log = l;
    return 0;
}

void logger_close(struct logger *log)
{
    if (log != NULL && log->path != NULL) {
        close(log->fd);
        free(log->path);
    }
    free(log);
}

int logger_reopen(struct logger *log)
{
    int fd, rc = 0;
    if (log->path == NULL) {
        return 0;
    }
    fd = open_file(log->path);
    if (fd < 0) {
        return fd;
    }
    if (dup3(fd, log->fd, O_CLOEXEC) < 0) {
        rc = -errno;
    }
    close(fd);
    return rc;
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
