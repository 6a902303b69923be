/*
 * main.c - the engine against LMDB: options, rounds, and the sum of what they did.
 *
 *   lmdb --ops N --seed S [--fresh] [--length L] [--jobs J]   rounds until N operations are done
 *   lmdb --seed S --round K --length L [--only N,N,...] [--fault NAME] [--verbose]
 *   lmdb --file F [--only N,N,...] [--verbose]                one stream, in this process
 *   lmdb --self-test [--seed S]                               with faults put in
 *
 * --fresh: the second half of the rounds has a seed that nobody has seen before. --file takes an
 * input of the fuzz target.
 */
#include "tests/lmdb/self_test.h"
#include "tests/lmdb/shrink.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define MOST_JOBS    8
#define MAX_FAILURES 3 /* rounds; after that the rest would tell nothing new */

struct options {
    uint64_t ops, seed, round, length, jobs;
    const char *only, *fault, *file;
    bool one_round, fresh, verbose, self_test;
};

/* What all rounds have come to. */
struct sum {
    const struct options *options;
    const char *program;
    uint64_t started, passed, failed, rounds, bad_rounds;
    uint64_t seeds[2];
    struct totals totals;
};

struct job {
    struct child child;
    struct stream stream;
    uint64_t seed, round;
};

static void usage(const char *program, const char *what)
{
    fprintf(stderr, "%s: %s\n", program, what);
    exit(2);
}

static void parse(int argc, char **argv, struct options *o)
{
    const struct {
        const char *name;
        uint64_t *number;
        const char **text;
        bool *flag;
    } known[] = {
        {"--ops", &o->ops, NULL, NULL},
        {"--seed", &o->seed, NULL, NULL},
        {"--round", &o->round, NULL, &o->one_round},
        {"--length", &o->length, NULL, NULL},
        {"--jobs", &o->jobs, NULL, NULL},
        {"--only", NULL, &o->only, NULL},
        {"--fault", NULL, &o->fault, NULL},
        {"--file", NULL, &o->file, NULL},
        {"--fresh", NULL, NULL, &o->fresh},
        {"--verbose", NULL, NULL, &o->verbose},
        {"--self-test", NULL, NULL, &o->self_test},
    };
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strcmp(argv[i], known[k].name) != 0)
            k++;
        if (k == sizeof known / sizeof *known)
            usage(argv[0], "an option that is unknown; see the head of main.c");
        if (known[k].flag)
            *known[k].flag = true;
        if (!known[k].number && !known[k].text)
            continue;
        if (++i == argc)
            usage(argv[0], "an option lacks what must follow it");
        char *end = NULL;
        if (known[k].text)
            *known[k].text = argv[i];
        else
            *known[k].number = strtoull(argv[i], &end, 10);
        if (end && (*end || end == argv[i]))
            usage(argv[0], "an option that needs a number has something else");
    }
    if (o->jobs < 1 || o->jobs > MOST_JOBS)
        usage(argv[0], "1 to 8 jobs");
}

/* ---- one stream, in this process ------------------------------------------------------------ */

static int read_stream(struct stream *s, const char *path)
{
    uint8_t *bytes = malloc(1u << 20);
    FILE *file = fopen(path, "rb");
    if (!file || !bytes) {
        perror(path);
        exit(2);
    }
    int rc = stream_decode(s, bytes, fread(bytes, 1, 1u << 20, file));
    fclose(file);
    free(bytes);
    return rc;
}

/* The operations of a list of numbers. */
static void keep_only(struct stream *s, const char *list)
{
    size_t *numbers = malloc((s->n + 1) * sizeof *numbers), n = 0;
    struct stream chosen;
    char *end = NULL;
    for (const char *at = list; numbers && *at && n <= s->n; at = *end ? end + 1 : end) {
        numbers[n] = strtoull(at, &end, 10);
        if (end == at || numbers[n++] >= s->n || (*end && *end != ',')) {
            fprintf(stderr, "--only takes numbers of operations with commas between them\n");
            exit(2);
        }
    }
    if (!numbers || stream_select(&chosen, s, numbers, n))
        abort();
    free(numbers);
    stream_free(s);
    *s = chosen;
}

static enum fault fault_of(const struct options *o)
{
    int fault = FAULT_COUNT - 1;
    while (o->fault && fault > 0 && strcmp(o->fault, fault_names[fault]) != 0)
        fault--;
    return o->fault ? (enum fault)fault : FAULT_none;
}

static int single_stream(const struct options *o, const char *base)
{
    struct stream s;
    struct run_options options = {.base = base, .fault = fault_of(o), .verbose = o->verbose};
    if (o->file ? read_stream(&s, o->file) : stream_random(&s, o->seed, o->round, o->length))
        abort();
    if (o->only)
        keep_only(&s, o->only);
    config_print(&s.config);
    run_stream(&s, &options);
    printf("SUITE lmdb required=%zu executed=%zu passed=%zu failed=0 skipped=0\n", s.n, s.n, s.n);
    stream_free(&s);
    return 0;
}

/* ---- many rounds ---------------------------------------------------------------------------- */

/* In units that make many rounds of few operations, and long ones of many. */
static uint64_t round_length(const struct options *o, uint64_t seed, uint64_t round)
{
    static const unsigned times[] = {1, 2, 4, 8, 8, 16, 24, 40};
    uint64_t unit = o->ops / 1000 < 100 ? 100 : o->ops / 1000 > 1000 ? 1000 : o->ops / 1000;
    return o->length ? o->length : unit * times[mix(mix(seed) ^ round) % 8];
}

static void start_round(struct sum *sum, struct job *job)
{
    const struct options *o = sum->options;
    job->seed = sum->seeds[sum->started >= o->ops / 2];
    job->round = sum->rounds++;
    uint64_t length = round_length(o, job->seed, job->round), left = o->ops - sum->started;
    if (length > left)
        length = left;
    if (stream_random(&job->stream, job->seed, job->round, length))
        abort();
    sum->started += length;
    child_start(&job->child, &job->stream, FAULT_none, false);
}

static void report_failure(struct sum *sum, struct job *job)
{
    struct report *report = job->child.report;
    struct shrunk s;
    size_t at = report->operations;
    printf("FAILED seed %llu round %llu operation %zu: assertion '%s'\n  %s\n",
           (unsigned long long)job->seed, (unsigned long long)job->round, at, report->assertion,
           report->text);
    printf("  again: %s --seed %llu --round %llu --length %zu\n", sum->program,
           (unsigned long long)job->seed, (unsigned long long)job->round, job->stream.n);
    fflush(stdout);
    shrink(&s, &job->child, &job->stream, at, FAULT_none);
    if (s.again)
        printf("  shrunk in %u runs to %zu operations, assertion '%s': %s\n", s.tries, s.stream.n,
               s.assertion, s.text);
    else
        printf("  it did not fail again in %u runs: it depends on the engine's threads\n", s.tries);
    if (s.again)
        shrunk_print(&s);
    fflush(stdout);
    shrunk_free(&s);
}

static void end_round(struct sum *sum, struct job *job)
{
    const struct report *report = job->child.report;
    totals_add(&sum->totals, &report->totals);
    if (report->done) {
        sum->passed += job->stream.n;
    } else {
        sum->failed += report->operations ? report->operations : 1;
        sum->bad_rounds++;
        report_failure(sum, job);
    }
    stream_free(&job->stream);
}

static bool may_start(const struct sum *sum)
{
    return sum->started < sum->options->ops && sum->bad_rounds < MAX_FAILURES;
}

static void run_rounds(struct sum *sum, const char *base)
{
    struct job jobs[MOST_JOBS];
    unsigned running = 0, n = (unsigned)sum->options->jobs;
    for (unsigned i = 0; i < n; i++)
        child_open(&jobs[i].child, base, i);
    do {
        for (unsigned i = 0; i < n; i++) {
            if (jobs[i].child.pid && child_ended(&jobs[i].child, PATIENCE)) {
                end_round(sum, &jobs[i]);
                running--;
            }
            if (!jobs[i].child.pid && may_start(sum)) {
                start_round(sum, &jobs[i]);
                running++;
            }
        }
        if (running > 0)
            child_pause();
    } while (running > 0);
    for (unsigned i = 0; i < n; i++)
        child_close(&jobs[i].child);
}

static int many_rounds(const struct options *o, const char *program, const char *base)
{
    struct sum sum = {.options = o, .program = program, .seeds = {o->seed, o->seed}};
    if (o->fresh) {
        uint32_t fresh;
        if (getrandom(&fresh, sizeof fresh, 0) != sizeof fresh)
            abort();
        sum.seeds[1] = fresh;
    }
    printf("NOTE seeds: %llu, then %llu\n", (unsigned long long)sum.seeds[0],
           (unsigned long long)sum.seeds[1]);
    run_rounds(&sum, base);
    printf("NOTE %llu rounds, %llu of them failed\n", (unsigned long long)sum.rounds,
           (unsigned long long)sum.bad_rounds);
    sum.failed += totals_print(&sum.totals, sum.bad_rounds ? 0 : o->ops);
    printf("SUITE lmdb required=%llu executed=%llu passed=%llu failed=%llu skipped=0\n",
           (unsigned long long)o->ops, (unsigned long long)(sum.passed + sum.failed),
           (unsigned long long)sum.passed, (unsigned long long)sum.failed);
    return sum.failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct options o = {.ops = 2000000, .seed = 1, .jobs = 2};
    char base[STORE_DIR_PATH];
    parse(argc, argv, &o);
    if (o.one_round && !o.length)
        o.length = 1200;
    if (o.fault && fault_of(&o) == FAULT_none)
        usage(argv[0], "a fault that is unknown; see engine.h");
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    store_dir_make_in_memory(base, "pando-lmdb");
    int rc = o.self_test             ? run_self_test(argv[0], base, o.seed)
             : o.one_round || o.file ? single_stream(&o, base)
                                     : many_rounds(&o, argv[0], base);
    store_dir_remove(base);
    return rc;
}
