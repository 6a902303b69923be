/*
 * rounds.c - see rounds.h.
 */
#include "tests/powerloss/rounds.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_JOBS    16u
#define PATIENCE     40 /* seconds in which a round has to get on */
#define IMPATIENCE   15 /* the same, with a rule left out: hanging is what it may do */
#define MAX_FAILURES 10 /* rounds; after that the rest would tell nothing new */

struct job {
    pid_t child; /* 0: none */
    struct progress *progress;
    struct order order;
    char dir[STORE_DIR_PATH];
    uint64_t seen; /* moves, when it was last looked at */
    int status;
};

struct rounds {
    const char *program;
    unsigned njobs;
    struct job jobs[MOST_JOBS];
    char base[STORE_DIR_PATH];
};

struct rounds *rounds_new(const char *program, unsigned jobs)
{
    struct rounds *r = calloc(1, sizeof *r);
    sigset_t set;
    if (!r)
        abort();
    r->program = program;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    r->njobs = jobs ? jobs : processors < 2 ? 1 : 2;
    r->njobs = r->njobs < MOST_JOBS ? r->njobs : MOST_JOBS;
    store_dir_make_in_memory(r->base, "pando-powerloss");
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (unsigned i = 0; i < r->njobs; i++) {
        struct job *job = &r->jobs[i];
        job->progress = mmap(NULL, sizeof *job->progress, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (job->progress == MAP_FAILED)
            abort();
        int n = snprintf(job->dir, sizeof job->dir, "%s/%u", r->base, i);
        if (n < 0 || n >= (int)sizeof job->dir)
            abort();
    }
    return r;
}

void rounds_free(struct rounds *r)
{
    for (unsigned i = 0; i < r->njobs; i++) {
        munmap(r->jobs[i].progress, sizeof *r->jobs[i].progress);
        store_dir_remove(r->jobs[i].dir);
    }
    (void)rmdir(r->base); /* stays as long as a journal is in it */
    free(r);
}

static void start(struct rounds *r, struct job *job, const struct order *order, const char *journal)
{
    store_dir_remove(job->dir);
    if (mkdir(job->dir, 0700) != 0)
        abort();
    memset(job->progress, 0, sizeof *job->progress);
    job->order = *order;
    job->order.dir = job->dir;
    job->order.keep = r->base;
    job->order.progress = job->progress;
    job->seen = 0;
    fflush(stdout);
    job->child = fork();
    if (job->child < 0)
        abort();
    if (job->child == 0) {
        if (journal)
            explore_journal(&job->order, journal);
        explore_round(&job->order);
    }
}

/* The next job to end; those that do not get on are ended. */
static struct job *wait_for_one(struct rounds *r, time_t patience)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (;;) {
        for (unsigned i = 0; i < r->njobs; i++) {
            struct job *job = &r->jobs[i];
            if (job->child && waitpid(job->child, &job->status, WNOHANG) == job->child) {
                job->child = 0;
                return job;
            }
        }
        struct timespec limit = {.tv_sec = patience};
        if (sigtimedwait(&set, NULL, &limit) >= 0 || errno != EAGAIN)
            continue;
        for (unsigned i = 0; i < r->njobs; i++) {
            struct job *job = &r->jobs[i];
            if (job->child && job->progress->moves == job->seen)
                kill(job->child, SIGABRT);
            job->seen = job->progress->moves;
        }
    }
}

/* One that could not say what it died of is a failure, too. */
static bool ended_well(struct job *job)
{
    struct progress *p = job->progress;
    if (p->done && WIFEXITED(job->status) && WEXITSTATUS(job->status) == 0)
        return true;
    if (!p->failed) {
        p->failed = true;
        snprintf(p->assertion, sizeof p->assertion, "no-crash");
        if (WIFSIGNALED(job->status))
            snprintf(p->text, sizeof p->text, "ended by %s", strsignal(WTERMSIG(job->status)));
        else
            snprintf(p->text, sizeof p->text, "exit status %d", WEXITSTATUS(job->status));
    }
    return false;
}

void rounds_report(const struct rounds *r, const struct progress *p, const struct order *order)
{
    printf("FAILED seed %" PRIu64 " round %" PRIu64 "%s%s%s%s%s: %s: %s\n", order->seed,
           order->round, p->path[0] ? " image " : " (the workload)", p->path,
           p->path[0] ? " (" : "", p->kind, p->path[0] ? ")" : "", p->assertion, p->text);
    if (p->journal[0]) {
        const char *last = strrchr(p->path, '/');
        printf("  again, exactly: %s --journal %s --image %s\n", r->program, p->journal,
               last ? last + 1 : p->path);
    }
    printf("  the round:      %s --seed %" PRIu64 " --round %" PRIu64 " --images %" PRIu64
           " --shape %s\n",
           r->program, order->seed, order->round, order->images, shape_name(order->shape));
}

struct progress *rounds_alone(struct rounds *r, const struct order *order, const char *journal)
{
    struct job *job = &r->jobs[0];
    start(r, job, order, journal);
    while (wait_for_one(r, PATIENCE) != job)
        ;
    (void)ended_well(job);
    return job->progress;
}

static struct job *free_job(struct rounds *r)
{
    for (unsigned i = 0; i < r->njobs; i++)
        if (!r->jobs[i].child)
            return &r->jobs[i];
    return NULL;
}

static bool any_runs(const struct rounds *r)
{
    for (unsigned i = 0; i < r->njobs; i++)
        if (r->jobs[i].child)
            return true;
    return false;
}

int rounds_many(struct rounds *r, uint64_t seed, uint64_t images)
{
    struct tally sum = {0};
    uint64_t next = 0, asked = 0, passed = 0, failed = 0;
    while ((asked < images && failed < MAX_FAILURES) || any_runs(r)) {
        struct job *job = asked < images && failed < MAX_FAILURES ? free_job(r) : NULL;
        if (job) {
            uint64_t n = images - asked < ROUND_IMAGES ? images - asked : ROUND_IMAGES;
            const struct order order = {.seed = seed, .round = next++, .images = n};
            asked += n;
            start(r, job, &order, NULL);
            continue;
        }
        job = wait_for_one(r, PATIENCE);
        bool good = ended_well(job);
        passed += job->progress->passed;
        failed += !good;
        tally_add(&sum, &job->progress->tally);
        if (!good)
            rounds_report(r, job->progress, &job->order);
        fflush(stdout);
    }
    printf("NOTE %" PRIu64 " workloads (seed %" PRIu64 "), %" PRIu64 " of them failed\n", next,
           seed, failed);
    failed += tally_print(&sum, failed == 0 && images >= 5000);
    printf("SUITE powerloss required=%" PRIu64 " executed=%" PRIu64 " passed=%" PRIu64
           " failed=%" PRIu64 " skipped=0\n",
           images, passed + failed, passed, failed);
    return failed != 0;
}

/* Starts rounds of an order from *next on, up to n, and waits for one to end; NULL: none runs. */
static struct job *next_to_end(struct rounds *r, const struct order *order, uint64_t *next,
                               uint64_t n)
{
    struct job *job;
    while (*next < n && (job = free_job(r)) != NULL) {
        struct order one = *order;
        one.round = (*next)++;
        start(r, job, &one, NULL);
    }
    return any_runs(r) ? wait_for_one(r, IMPATIENCE) : NULL;
}

uint64_t rounds_until_failure(struct rounds *r, const struct order *order, uint64_t n,
                              struct progress *failed, uint64_t *images)
{
    uint64_t next = order->round, lowest = n;
    struct job *job;
    while ((job = next_to_end(r, order, &next, lowest == n ? n : 0)) != NULL) {
        *images += job->progress->images;
        if (ended_well(job))
            continue;
        if (job->order.round < lowest) {
            (void)unlink(failed->journal);
            lowest = job->order.round;
            *failed = *job->progress;
        } else {
            (void)unlink(job->progress->journal);
        }
    }
    return lowest;
}

uint64_t rounds_failing(struct rounds *r, const struct order *order, uint64_t n)
{
    uint64_t next = 0, failing = 0;
    struct job *job;
    while ((job = next_to_end(r, order, &next, n)) != NULL) {
        failing += !ended_well(job);
        (void)unlink(job->progress->journal);
    }
    return failing;
}
