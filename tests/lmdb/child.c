/*
 * child.c - starting, watching and ending processes that run a stream.
 *
 * Invariant: only processes that were started here are ended, by their number.
 */
#include "tests/lmdb/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HANG_PATIENCE 1 /* for the fault that hangs at once and for ever */

static time_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

void child_open(struct child *c, const char *base, unsigned number)
{
    int n = snprintf(c->base, sizeof c->base, "%s/%u", base, number);
    if (n < 0 || (size_t)n >= sizeof c->base || mkdir(c->base, 0700)) {
        perror(base);
        exit(3);
    }
    c->report =
        mmap(NULL, sizeof *c->report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c->report == MAP_FAILED)
        abort();
    c->pid = 0;
}

void child_close(struct child *c)
{
    munmap(c->report, sizeof *c->report);
    store_dir_remove(c->base);
}

void child_start(struct child *c, const struct stream *stream, enum fault fault, bool quiet)
{
    struct run_options options = {.base = c->base, .fault = fault, .report = c->report};
    memset(c->report, 0, sizeof *c->report);
    c->seen = 0;
    c->since = now();
    fflush(stdout);
    c->pid = fork();
    if (c->pid < 0)
        abort();
    if (c->pid > 0)
        return;
    int null = quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    if (null >= 0)
        dup2(null, STDERR_FILENO);
    run_stream(stream, &options);
    _exit(0);
}

void child_pause(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    struct timespec limit = {.tv_nsec = 200000000};
    (void)sigtimedwait(&set, NULL, &limit);
}

static void explain(struct report *report, int status, bool hung)
{
    if (report->done && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    report->done = false;
    if (hung)
        snprintf(report->assertion, sizeof report->assertion, "no operation ends");
    else if (WIFSIGNALED(status))
        snprintf(report->assertion, sizeof report->assertion, "ended by signal %d (%s)",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (!report->assertion[0])
        snprintf(report->assertion, sizeof report->assertion, "exit status %d",
                 WEXITSTATUS(status));
}

bool child_ended(struct child *c, time_t patience)
{
    const volatile uint64_t *operations = &c->report->operations;
    int status;
    pid_t ended = waitpid(c->pid, &status, WNOHANG);
    bool hung = false;
    if (ended == 0) {
        if (*operations != c->seen) {
            c->seen = *operations;
            c->since = now();
        }
        hung = now() - c->since > patience;
        if (!hung)
            return false;
        kill(c->pid, SIGKILL);
        while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
        }
    } else if (ended < 0) {
        abort();
    }
    c->pid = 0;
    explain(c->report, status, hung);
    return true;
}

bool child_run(struct child *c, const struct stream *stream, enum fault fault, bool quiet)
{
    child_start(c, stream, fault, quiet);
    while (!child_ended(c, fault == FAULT_hang ? HANG_PATIENCE : PATIENCE))
        child_pause();
    return c->report->done;
}
