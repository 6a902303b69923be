/*
 * main.c - the engine against a sorted map: options, rounds, and the sum of what they did.
 *
 *   model --ops N --seed S [--length L] [--keep]      rounds until N operations are done
 *   model --seed S --round K --length L [--verbose]   one round, in this process
 *   model --threads --commits N --seed S              readers beside a writer (threads.c)
 *
 * Each round runs in a child process: one that crashes, or hangs, is reported like any other
 * failure, and the next one begins.
 */
#include "tests/model/round.h"
#include "tests/model/threads.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE     60 /* seconds without an operation finished: the round hangs */
#define MAX_FAILURES 10 /* rounds; after that the rest would tell nothing new */

struct options {
    uint64_t ops, seed, round, length, commits;
    bool one_round, verbose, keep, threads;
};

static uint64_t number_after(int argc, char **argv, int *i)
{
    char *end = NULL;
    errno = 0;
    uint64_t n = ++*i < argc ? strtoull(argv[*i], &end, 10) : 0;
    if (!end || *end || errno) {
        fprintf(stderr, "%s: %s needs a number\n", argv[0], argv[*i - 1]);
        exit(2);
    }
    return n;
}

static void parse(int argc, char **argv, struct options *o)
{
    const struct {
        const char *name;
        uint64_t *number;
        bool *flag;
    } known[] = {
        {"--ops", &o->ops, NULL},
        {"--seed", &o->seed, NULL},
        {"--round", &o->round, &o->one_round},
        {"--length", &o->length, NULL},
        {"--commits", &o->commits, NULL},
        {"--verbose", NULL, &o->verbose},
        {"--keep", NULL, &o->keep},
        {"--threads", NULL, &o->threads},
    };
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strcmp(argv[i], known[k].name) != 0)
            k++;
        if (k == sizeof known / sizeof *known) {
            fprintf(stderr, "%s: unknown option %s\n", argv[0], argv[i]);
            exit(2);
        }
        if (known[k].flag)
            *known[k].flag = true;
        if (known[k].number)
            *known[k].number = number_after(argc, argv, &i);
    }
}

static void run_round(const struct options *o, struct progress *progress, const char *base,
                      uint64_t number, uint64_t length)
{
    struct round *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->seed = o->seed;
    r->number = number;
    r->length = length;
    r->verbose = o->verbose;
    r->progress = progress;
    snprintf(r->base, sizeof r->base, "%s", base);
    round_run(r);
    free(r);
}

/* Waits for the child; ends it when it stops making progress. How it ended, as wait() says. */
static int watch(pid_t child, const struct progress *progress)
{
    const volatile uint64_t *operations = &progress->operations;
    uint64_t seen = *operations;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (;;) {
        int status;
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
        struct timespec limit = {.tv_sec = PATIENCE};
        if (sigtimedwait(&set, NULL, &limit) < 0 && errno == EAGAIN) {
            if (*operations == seen)
                kill(child, SIGABRT);
            seen = *operations;
        }
    }
}

/* One round in a child; whether it ended well. */
static bool child_round(const struct options *o, struct progress *progress, const char *program,
                        const char *base, uint64_t number, uint64_t length)
{
    memset(progress, 0, sizeof *progress);
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        run_round(o, progress, base, number, length);
        fflush(stdout);
        _exit(progress->done ? 0 : 1);
    }
    int status = watch(child, progress);
    if (progress->done && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFSIGNALED(status))
        printf("FAILED seed %llu round %llu operation %llu (%s): ended by %s\n",
               (unsigned long long)o->seed, (unsigned long long)number,
               (unsigned long long)progress->operations, progress->doing,
               strsignal(WTERMSIG(status)));
    else
        printf("FAILED round %llu: exit status %d\n", (unsigned long long)number,
               WEXITSTATUS(status));
    printf("  again: %s --seed %llu --round %llu --length %llu --verbose\n", program,
           (unsigned long long)o->seed, (unsigned long long)number, (unsigned long long)length);
    return false;
}

/* Lengths depend on the seed and the number alone, in units of `unit` operations. */
static uint64_t round_length(const struct options *o, uint64_t number, uint64_t unit)
{
    static const unsigned times[] = {1, 1, 1, 2, 2, 4, 8, 16};
    struct rng rng = rng_seed(o->seed ^ UINT64_C(0x6c656e677468), number);
    return o->length ? o->length : unit * times[rng_below(&rng, 8)];
}

static int many_rounds(const struct options *o, const char *program, const char *base)
{
    struct progress *progress =
        mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED)
        abort();
    struct progress sum = {0};
    uint64_t passed = 0, failed = 0, rounds = 0, bad_rounds = 0;
    uint64_t unit = o->ops / 500 < 300 ? 300 : o->ops / 500;
    while (passed + failed < o->ops && bad_rounds < MAX_FAILURES) {
        uint64_t left = o->ops - passed - failed, length = round_length(o, rounds, unit);
        if (length > left)
            length = left;
        if (child_round(o, progress, program, base, rounds, length)) {
            passed += length;
        } else {
            failed += progress->operations ? progress->operations : 1;
            bad_rounds++;
        }
        totals_add(&sum, progress);
        rounds++;
    }
    printf("NOTE %llu rounds (seed %llu), %llu of them failed\n", (unsigned long long)rounds,
           (unsigned long long)o->seed, (unsigned long long)bad_rounds);
    failed += totals_print(&sum, bad_rounds ? 0 : o->ops);
    printf("SUITE model required=%llu executed=%llu passed=%llu failed=%llu skipped=0\n",
           (unsigned long long)o->ops, (unsigned long long)(passed + failed),
           (unsigned long long)passed, (unsigned long long)failed);
    munmap(progress, sizeof *progress);
    return failed ? 1 : 0;
}

static int single_round(const struct options *o, const char *base)
{
    struct progress *progress = calloc(1, sizeof *progress);
    if (!progress)
        abort();
    uint64_t length = o->length ? o->length : 2500;
    run_round(o, progress, base, o->round, length);
    totals_print(progress, 0);
    printf("SUITE model required=%llu executed=%llu passed=%llu failed=0 skipped=0\n",
           (unsigned long long)length, (unsigned long long)length, (unsigned long long)length);
    free(progress);
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = {.ops = 1000000, .seed = 1, .commits = 20000};
    char base[STORE_DIR_PATH];
    parse(argc, argv, &o);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    store_dir_make(base, "pando-model");
    int rc = o.threads     ? run_threads(base, o.seed, o.commits)
             : o.one_round ? single_round(&o, base)
                           : many_rounds(&o, argv[0], base);
    if (o.keep)
        printf("left in %s\n", base);
    else
        store_dir_remove(base);
    return rc;
}
