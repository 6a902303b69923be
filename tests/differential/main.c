/*
 * The differential driver: random command sequences against redis-server and pandod, replies and
 * data sets compared. README.md tells what is compared and how to read a report.
 *
 * Exit status: 0 if everything that was required ran and was equal; 1 if not; 2 for a wrong command
 * line.
 */
#include "tests/differential/report.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REQUIRED_SEQUENCES  5000
#define SELF_TEST_SEQUENCES 1500
#define MAX_SHRUNK          8
#define MAX_KINDS           256

struct options {
    unsigned long long seed;
    long long sequences, only; /* only: -1 or the one sequence to run */
    int resp;                  /* 2, 3, or 0 for both by turns */
    int timeout_ms;
    bool verbose, keep_going, self_test;
    const char *exceptions;
    const struct fault *fault;
    struct invocation invocation;
};

struct totals {
    unsigned long long executed, passed, failed, steps;
    bool stopped;               /* by a signal, or because a server doesn't start any more */
    size_t shrunk;              /* steps left of the last failure */
    char kinds[MAX_KINDS][160]; /* failures reported so far */
    size_t nkinds;
};

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--redis PATH] [--pandod PATH] [--sequences N] [--seed S] [--sequence N] "
            "[--resp 2|3|both]\n"
            "          [--exceptions FILE] [--timeout MS] [--keep-going] [--verbose] [--fault "
            "NAME] [--self-test]\n",
            program);
    return 2;
}

static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option longs[] = {
        {"redis", required_argument, NULL, 'r'},
        {"pandod", required_argument, NULL, 'p'},
        {"sequences", required_argument, NULL, 'n'},
        {"seed", required_argument, NULL, 's'},
        {"sequence", required_argument, NULL, 'o'},
        {"resp", required_argument, NULL, 'R'},
        {"exceptions", required_argument, NULL, 'e'},
        {"timeout", required_argument, NULL, 't'},
        {"keep-going", no_argument, NULL, 'k'},
        {"verbose", no_argument, NULL, 'v'},
        {"fault", required_argument, NULL, 'f'},
        {"self-test", no_argument, NULL, 'S'},
        {0},
    };
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        switch (c) {
        case 'r':
            options->invocation.redis = optarg;
            break;
        case 'p':
            options->invocation.pandod = optarg;
            break;
        case 'n':
            options->sequences = atoll(optarg);
            break;
        case 's':
            options->seed = strtoull(optarg, NULL, 10);
            break;
        case 'o':
            options->only = atoll(optarg);
            break;
        case 'R':
            options->resp = strcmp(optarg, "both") == 0 ? 0 : atoi(optarg);
            break;
        case 'e':
            options->exceptions = optarg;
            break;
        case 't':
            options->timeout_ms = atoi(optarg);
            break;
        case 'k':
            options->keep_going = true;
            break;
        case 'v':
            options->verbose = true;
            break;
        case 'S':
            options->self_test = true;
            break;
        case 'f':
            if ((options->fault = fault_find(optarg)) == NULL)
                return -1;
            break;
        default:
            return -1;
        }
    }
    if (options->resp == 1 || options->resp < 0 || options->resp > 3 || options->sequences < 1 ||
        optind != argc)
        return -1;
    options->invocation.resp = options->resp == 0 ? "both" : options->resp == 2 ? "2" : "3";
    return 0;
}

/* Remembers what kind of failure this is (the command, and the replies where they begin to differ);
 * true if it is a new one. */
static bool is_new_kind(struct totals *totals, const struct difference *difference)
{
    char kind[160];
    size_t at = difference_position(difference);
    snprintf(kind, sizeof kind, "%.30s %.36s %.36s", difference->command,
             difference->replies[0] + at, difference->replies[1] + at);
    for (char *c = kind; *c != '\0'; c++)
        if (*c >= '0' && *c <= '9')
            *c = '#';
    for (size_t i = 0; i < totals->nkinds; i++)
        if (strcmp(totals->kinds[i], kind) == 0)
            return false;
    if (totals->nkinds < MAX_KINDS)
        memcpy(totals->kinds[totals->nkinds++], kind, sizeof kind);
    return true;
}

/* Deals with a failed sequence: shrinks and reports it, makes sure that the servers are there for
 * the next. */
static void handle_failure(struct runner *runner, const struct options *options,
                           const struct sequence *sequence, enum outcome outcome,
                           struct difference *difference, struct totals *totals)
{
    bool enabled[MAX_STEPS];
    struct difference first = *difference;
    if (outcome == OUTCOME_DEAD) {
        server_print_log(&runner->servers[0]);
        server_print_log(&runner->servers[1]);
        if (runner_restart(runner) < 0)
            totals->stopped = true;
    }
    if (options->keep_going && !is_new_kind(totals, difference))
        return;
    size_t left = totals->stopped ? 0 : shrink(runner, sequence, enabled, difference);
    if (left == 0) {
        memset(enabled, 1, sizeof enabled);
        *difference = first;
    } else if (first.note[0] != '\0' && difference->note[0] == '\0') {
        memcpy(difference->note, first.note, sizeof first.note);
    }
    if (options->keep_going && left > 0 && !is_new_kind(totals, difference) &&
        strcmp(first.command, difference->command) != 0)
        return;
    totals->shrunk = left;
    report_failure(runner, &options->invocation, sequence, enabled, left, difference);
}

static void print_sequence(const struct sequence *sequence)
{
    char text[8192];
    printf("sequence %llu: RESP%d, %d clients\n", (unsigned long long)sequence->number,
           sequence->resp, sequence->clients);
    for (size_t i = 0; i < sequence->count; i++) {
        step_format(&sequence->steps[i], text, sizeof text);
        printf("  %2zu client %d: %s\n", i, sequence->steps[i].client, text);
    }
}

/* Runs one sequence. Returns whether to go on. */
static bool run_number(struct runner *runner, const struct options *options,
                       unsigned long long number, struct totals *totals)
{
    struct sequence sequence;
    struct difference difference;
    sequence_generate(&sequence, options->seed, number,
                      options->resp ? options->resp : 2 + (int)(number % 2));
    if (options->verbose)
        print_sequence(&sequence);
    enum outcome outcome = run_sequence(runner, &sequence, NULL, &difference);
    if (outcome == OUTCOME_INTERRUPTED) {
        totals->stopped = true;
    } else {
        totals->executed++;
        totals->steps += sequence.count;
        if (outcome == OUTCOME_EQUAL) {
            totals->passed++;
        } else {
            totals->failed++;
            handle_failure(runner, options, &sequence, outcome, &difference, totals);
        }
    }
    sequence_free(&sequence);
    return !totals->stopped && (totals->failed == 0 || options->keep_going);
}

static void run_all(struct runner *runner, const struct options *options, struct totals *totals)
{
    if (options->only >= 0) {
        run_number(runner, options, (unsigned long long)options->only, totals);
        return;
    }
    for (long long number = 0; number < options->sequences; number++)
        if (!run_number(runner, options, (unsigned long long)number, totals))
            return;
}

/* Each fault in turn; one that isn't reported, or not shrunk to a few steps, is a failure of the
 * driver. */
static int self_test(struct runner *runner, struct options *options)
{
    size_t failed = 0;
    options->sequences = SELF_TEST_SEQUENCES;
    for (size_t i = 0; i < fault_table_size; i++) {
        struct totals totals = {0};
        options->fault = runner->fault = &fault_table[i];
        runner->fault_fired = false;
        printf("fault %s: %s\n", fault_table[i].name, fault_table[i].what);
        run_all(runner, options, &totals);
        if (totals.stopped)
            break;
        /* A signal isn't sent again when the sequence is repeated, so that failure must not recur.
         */
        bool seen = totals.failed == 1;
        bool small = fault_table[i].signal != 0 ? totals.shrunk == 0
                                                : totals.shrunk >= 1 && totals.shrunk <= MAX_SHRUNK;
        printf("fault %s: %s after %llu sequences, %zu steps left\n\n", fault_table[i].name,
               seen && small ? "reported" : "NOT REPORTED AS IT SHOULD BE", totals.executed,
               totals.shrunk);
        failed += !(seen && small);
    }
    bool complete = options->fault == &fault_table[fault_table_size - 1];
    printf(
        "SUITE differential-self-test required=%zu executed=%zu passed=%zu failed=%zu skipped=0\n",
        fault_table_size, complete ? fault_table_size : (size_t)(options->fault - fault_table),
        fault_table_size - failed, failed);
    return failed == 0 && complete ? 0 : 1;
}

static int conclude(const struct options *options, struct exceptions *exceptions,
                    const struct totals *totals, const struct runner *runner, double seconds)
{
    unsigned long long required = options->only >= 0 ? 1 : (unsigned long long)options->sequences,
                       failed = totals->failed;
    printf("%llu sequences, %llu steps, %llu replies compared in %.1f s\n", totals->executed,
           totals->steps, runner->replies_compared, seconds);
    bool full = options->only < 0 && options->sequences >= REQUIRED_SEQUENCES &&
                totals->executed == required;
    size_t missing = options->only < 0 ? coverage_print(&runner->coverage) : 0;
    size_t unused = exceptions_print(exceptions);
    if (full && missing > 0) {
        printf("FAIL: %zu commands of the table were never executed\n", missing);
        failed++;
    }
    if (full && unused > 0) {
        printf("FAIL: %zu exceptions matched nothing: remove them\n", unused);
        failed++;
    }
    unsigned long long passed = totals->executed > failed ? totals->executed - failed : 0;
    printf("SUITE differential required=%llu executed=%llu passed=%llu failed=%llu skipped=0\n",
           required, totals->executed, passed, failed);
    return failed == 0 && totals->executed == required ? 0 : 1;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    static struct server servers[2];
    static struct runner runner;
    static struct totals totals;
    struct exceptions exceptions = {0};
    struct options options = {
        .seed = 1,
        .sequences = REQUIRED_SEQUENCES,
        .only = -1,
        .timeout_ms = 10000,
        .exceptions = "tests/differential/exceptions.tsv",
        .invocation = {.program = argv[0], .redis = "redis-server", .pandod = "build/pandod"},
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (parse_options(argc, argv, &options) < 0)
        return usage(argv[0]);
    if (options.self_test)
        options.invocation.pandod = options.invocation.redis;
    servers[0] = (struct server){.program = options.invocation.redis, .label = "redis"};
    servers[1] = (struct server){.program = options.invocation.pandod, .label = "pandod"};
    /* A server compared with itself has no accepted differences. */
    bool same = strcmp(options.invocation.redis, options.invocation.pandod) == 0;
    if (!same && exceptions_load(&exceptions, options.exceptions) < 0)
        return 2;
    proc_guard(servers, 2);
    runner_init(&runner, servers);
    runner.exceptions = &exceptions;
    runner.count_exceptions = true;
    runner.fault = options.fault;
    runner.timeout_ms = options.timeout_ms;
    if (runner_restart(&runner) < 0)
        return 1;
    double start = seconds_now();
    int status;
    if (options.self_test) {
        runner.timeout_ms = 2000;
        status = self_test(&runner, &options);
    } else {
        run_all(&runner, &options, &totals);
        status = conclude(&options, &exceptions, &totals, &runner, seconds_now() - start);
    }
    runner_close(&runner);
    exceptions_free(&exceptions);
    return status;
}
