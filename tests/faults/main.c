/*
 * main.c - every system call fails once, at every place where it is made.
 *
 *   faults [--every N] [--from N] [--only KIND] [--required N] [--self-test]
 *
 * For each kind of call and each way it can fail: a life without a fault counts the calls; then one
 * life for each of them (or each N-th), in which that one fails. A round is a life in which the
 * call failed. --self-test lies to the engine about results, kind by kind: each lie must be found.
 *
 * Then the same with a real disk that is full: a tmpfs of 64 MiB (space.c).
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/faults/calls.h"
#include "tests/faults/lies.h"
#include "tests/faults/life.h"
#include "tests/faults/space.h"
#include "tests/support/store_dir.h"

#define WATCHDOG_S 120 /* for one life: a hang is a finding */
#define MOST_WAYS  8
#define FEW        30 /* calls: all of them are made to fail, whatever --every says */

enum nature { ENDS, RESUMES, HARMLESS };

struct way {
    int error; /* 0: no more */
    enum nature nature;
};

static const struct kind {
    enum call call;
    void (*life)(struct life *life);
    struct way ways[MOST_WAYS];
} kinds[] = {
    {CALL_OPEN, life_of_all, {{EMFILE, ENDS}, {EIO, ENDS}, {ENOSPC, RESUMES}, {EINTR, HARMLESS}}},
    {CALL_PREAD, life_of_all, {{EIO, ENDS}, {FAIL_SHORT, HARMLESS}, {EINTR, HARMLESS}}},
    {CALL_PWRITE,
     life_of_all,
     {{EIO, ENDS}, {ENOSPC, ENDS}, {FAIL_SHORT, HARMLESS}, {EINTR, HARMLESS}}},
    {CALL_FALLOCATE,
     life_of_all,
     {{EIO, ENDS},
      {ENOSPC, RESUMES},
      {FAIL_FULL, RESUMES},
      {EINTR, HARMLESS},
      {EOPNOTSUPP, HARMLESS}}},
    {CALL_FTRUNCATE, life_of_all, {{EIO, ENDS}}},
    {CALL_FDATASYNC, life_of_all, {{EIO, ENDS}, {ENOSPC, ENDS}, {EINTR, ENDS}}},
    {CALL_FSYNC, life_of_all, {{EIO, ENDS}, {ENOSPC, ENDS}}},
    {CALL_SYNC_DIR, life_of_all, {{EIO, ENDS}, {ENOSPC, ENDS}}},
    {CALL_SYNC_FILE_RANGE, life_of_pacing, {{EIO, ENDS}, {ENOSPC, ENDS}}},
    {CALL_SIZE, life_of_all, {{EIO, ENDS}}},
    {CALL_MMAP, life_of_all, {{ENOMEM, ENDS}, {EAGAIN, ENDS}}},
    {CALL_MEMORY, life_of_all, {{ENOMEM, ENDS}}},
    {CALL_RENAME, life_of_all, {{EIO, ENDS}, {ENOSPC, RESUMES}}},
    {CALL_UNLINK, life_of_all, {{EIO, ENDS}}},
    {CALL_MKDIR, life_of_all, {{EIO, ENDS}, {ENOSPC, RESUMES}}},
    {CALL_LIST, life_of_all, {{EIO, ENDS}, {EMFILE, ENDS}}},
    {CALL_LOCK, life_of_all, {{EIO, ENDS}, {EINTR, HARMLESS}}},
};

struct totals {
    uint64_t rounds, not_reached, errors, retries, poisoned;
};

struct run {
    char dir[STORE_DIR_PATH];
    char store[STORE_DIR_PATH + 8];
    const struct ps_vfs *vfs;
    unsigned every, from;
    struct totals totals;
};

/* One life with the number-th call failing; number 0: none, and the calls are counted. */
static uint64_t one_life(struct run *run, const struct kind *kind, const struct way *way,
                         uint64_t number)
{
    struct life life = {.dir = run->store,
                        .vfs = run->vfs,
                        .harmless = number == 0 || way->nature == HARMLESS,
                        .resumes = number != 0 && way->nature == RESUMES};
    life_describe("call %llu of %s fails with %s", (unsigned long long)number,
                  calls_name(kind->call), number == 0 ? "nothing" : calls_error_name(way->error));
    alarm(WATCHDOG_S);
    calls_fail(kind->call, number, number == 0 ? 0 : way->error);
    kind->life(&life);
    uint64_t seen = calls_seen(kind->call);
    bool reached = calls_failed();
    run->totals.rounds += reached;
    run->totals.not_reached += number != 0 && !reached;
    run->totals.poisoned += life.poisoned;
    life_after(&life);
    run->totals.errors += life.errors;
    run->totals.retries += life.retries;
    alarm(0);
    store_dir_remove(run->store);
    return seen;
}

static void run_kind(struct run *run, const struct kind *kind)
{
    uint64_t calls = one_life(run, kind, NULL, 0);
    struct totals all = run->totals;
    for (const struct way *way = kind->ways; way->error != 0; way++) {
        struct totals before = run->totals;
        unsigned step = calls > FEW ? run->every : 1;
        for (uint64_t n = run->from; n <= calls; n += step) {
            one_life(run, kind, way, n);
        }
        printf("%-22s %-10s %6llu %8llu %8llu %8llu %9llu\n", calls_name(kind->call),
               calls_error_name(way->error), (unsigned long long)calls,
               (unsigned long long)(run->totals.rounds - before.rounds),
               (unsigned long long)(run->totals.errors - before.errors),
               (unsigned long long)(run->totals.retries - before.retries),
               (unsigned long long)(run->totals.poisoned - before.poisoned));
        fflush(stdout);
    }
    if (calls > 0 && run->totals.rounds == all.rounds) {
        finding("no %s was made to fail", calls_name(kind->call));
    }
}

static void run_all(struct run *run, const char *only)
{
    printf("%-22s %-10s %6s %8s %8s %8s %9s\n", "call", "fails with", "calls", "failed", "errors",
           "retries", "poisoned");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (only == NULL || strcmp(only, calls_name(kinds[i].call)) == 0) {
            run_kind(run, &kinds[i]);
        }
    }
}

static void on_alarm(int number)
{
    static const char begin[] = "FAILED it hangs: ";
    (void)number;
    (void)!write(STDOUT_FILENO, begin, sizeof begin - 1);
    (void)!write(STDOUT_FILENO, life_case, strlen(life_case));
    _exit(1);
}

/* ---- the self-test ----------------------------------------------------------------------------
 */

/* Whether a child that lies to the engine finds something wrong. */
static bool lie_is_found(struct run *run, const struct lie *lie)
{
    int out[2], status;
    char first[300] = "";
    if (pipe(out) != 0) {
        abort();
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(out[1], STDERR_FILENO);
        close(out[0]);
        run->vfs = lies_vfs(lie);
        run->every = 1;
        run_all(run, calls_name(lie->call));
        _exit(0);
    }
    close(out[1]);
    FILE *lines = fdopen(out[0], "r");
    char line[300];
    while (fgets(line, sizeof line, lines) != NULL) {
        if (strstr(line, "FAILED") != NULL || strstr(line, "assertion") != NULL) {
            snprintf(first, sizeof first, "%s", line);
        }
    }
    fclose(lines);
    bool found = waitpid(pid, &status, 0) == pid && status != 0;
    store_dir_remove(run->store);
    first[strcspn(first, "\n")] = '\0';
    printf("lie: %-44s %s %s\n", lie->what, found ? "found:" : "NOT FOUND", first);
    return found;
}

static int self_test(struct run *run)
{
    unsigned found = 0;
    for (unsigned i = 0; i < lies_count; i++) {
        found += lie_is_found(run, &lies[i]);
    }
    printf("SUITE faults-self-test required=%u executed=%u passed=%u failed=%u skipped=0\n",
           lies_count, lies_count, found, lies_count - found);
    return found == lies_count ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"every", required_argument, NULL, 'e'},    {"from", required_argument, NULL, 'f'},
        {"only", required_argument, NULL, 'o'},     {"self-test", no_argument, NULL, 's'},
        {"required", required_argument, NULL, 'r'}, {NULL, 0, NULL, 0}};
    struct run run = {.every = 1, .from = 1};
    const char *only = NULL;
    bool self = false;
    unsigned long required = 0;
    int option;
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGALRM, on_alarm);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'e') {
            run.every = (unsigned)strtoul(optarg, NULL, 10);
        } else if (option == 'f') {
            run.from = (unsigned)strtoul(optarg, NULL, 10);
        } else if (option == 'o') {
            only = optarg;
        } else if (option == 'r') {
            required = strtoul(optarg, NULL, 10);
        } else if (option == 's') {
            self = true;
        } else {
            return 2;
        }
    }
    if (run.every == 0) {
        return 2;
    }
    store_dir_make_in_memory(run.dir, "pando-faults");
    snprintf(run.store, sizeof run.store, "%s/store", run.dir);
    calls_watch(run.store);
    int rc = 0;
    if (self) {
        rc = self_test(&run);
    } else {
        run_all(&run, only);
        bool disk = only == NULL || strcmp(only, "full-disk") == 0;
        unsigned skipped = disk ? space_on_a_real_disk(run.dir) : 0;
        run.totals.rounds += disk && skipped == 0;
        printf("NOTE lives %llu, of them past the last call %llu; errors answered %llu, tried "
               "again with success %llu, stores that took no more writes %llu\n",
               (unsigned long long)(run.totals.rounds + run.totals.not_reached),
               (unsigned long long)run.totals.not_reached, (unsigned long long)run.totals.errors,
               (unsigned long long)run.totals.retries, (unsigned long long)run.totals.poisoned);
        printf("SUITE faults required=%lu executed=%llu passed=%llu failed=0 skipped=%u\n",
               required, (unsigned long long)run.totals.rounds,
               (unsigned long long)run.totals.rounds, skipped);
        rc = run.totals.rounds < required;
    }
    calls_watch("");
    store_dir_remove(run.dir);
    return rc;
}
