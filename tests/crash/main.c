/*
 * Rounds of load, cut, check, restart, compare. See README.md.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/crash/test.h"

#define FAULTY_ROUNDS 4

static void print_notes(const struct test *test)
{
    const char *name = cut_names[test->cut];
    printf("NOTE crash (%s): seed %" PRIu64
           "; rounds at always %d, everysec %d, none %d; %d starts "
           "killed, %d checkpoints asked for, %d disks with torn writes\n",
           name, test->seed, test->rounds_at[ALWAYS], test->rounds_at[EVERYSEC],
           test->rounds_at[NONE], test->start_kills, test->saves, test->torn);
    printf("NOTE crash (%s): %" PRIu64 " operations acknowledged; found without acknowledgement "
           "%" PRIu64 "; acknowledged at a level that may lose them, and gone %" PRIu64
           "; promised because the device had them %" PRIu64 "\n",
           name, test->acknowledged, test->unacknowledged_found, test->lost, test->kept_by_device);
}

static int usage(const char *name)
{
    fprintf(stderr,
            "usage: %s --pandod FILE --tool FILE [--cut kill|power|disk] [--rounds N] [--seed S]\n",
            name);
    return 2;
}

static bool parse(struct test *test, int *rounds, const char *name, const char *value)
{
    if (!strcmp(name, "--pandod")) {
        test->server.program = value;
    } else if (!strcmp(name, "--tool")) {
        test->server.tool = value;
    } else if (!strcmp(name, "--rounds")) {
        *rounds = atoi(value);
    } else if (!strcmp(name, "--seed")) {
        test->seed = strtoull(value, NULL, 10);
    } else if (!strcmp(name, "--cut")) {
        test->cut = CUT_KILL;
        while (test->cut < CUTS && strcmp(value, cut_names[test->cut]) != 0)
            test->cut++;
    } else {
        return false;
    }
    return test->cut < CUTS;
}

static int print_suite(const struct test *test, int rounds, int executed, int failed)
{
    bool killed = test->cut == CUT_KILL;
    int skipped = executed ? 0 : rounds;
    printf("SUITE crash%s%s required=%d executed=%d passed=%d failed=%d skipped=%d\n",
           killed ? "" : "-", killed ? "" : cut_names[test->cut], rounds, executed,
           executed - failed, failed, skipped);
    return failed || executed + skipped < rounds;
}

static int run(struct test *test, int rounds, int *executed)
{
    test->dice = test->seed;
    return test->cut == CUT_DISK ? run_rebuilt(test, rounds, executed)
                                 : run_cuts(test, rounds, executed);
}

/* The same beginning once more with a server whose syncs are lost: that must be noticed, or the
 * rounds that passed say nothing. Always first, where each sync is a promise. 1 if it was not. */
static int run_fault(const struct test *passed)
{
    static struct test test;
    int executed = 0;
    test.server.program = passed->server.program;
    test.server.tool = passed->server.tool;
    test.server.lose_syncs = true;
    test.cut = passed->cut;
    test.seed = passed->seed;
    test.directories = passed->directories;
    memcpy(test.folder, passed->folder, sizeof test.folder);
    printf("--- with syncs lost; what follows must fail ---\n");
    int failed = run(&test, FAULTY_ROUNDS, &executed);
    printf("NOTE crash (%s): without syncs (rule: sync before acknowledgement, seed %" PRIu64 ") "
           "%d of %d rounds failed\n",
           cut_names[test.cut], test.seed, failed, executed);
    return failed == 0;
}

int main(int argc, char **argv)
{
    static struct test test;
    char command[300];
    int rounds = 100, executed = 0;
    test.seed = 1;
    for (int i = 1; i < argc; i += 2)
        if (i + 1 == argc || !parse(&test, &rounds, argv[i], argv[i + 1]))
            return usage(argv[0]);
    if (!test.server.program || !test.server.tool || rounds < 1)
        return usage(argv[0]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (test.cut != CUT_KILL && disk_prepare() != 0) {
        printf("NOTE crash: skipped, mounts need root: %s\n", strerror(errno));
        return print_suite(&test, rounds, 0, 0);
    }
    const char *base = getenv("TMPDIR");
    snprintf(test.folder, sizeof test.folder, "%s/pando-crash.XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(test.folder)) {
        fprintf(stderr, "%s: %s\n", test.folder, strerror(errno));
        return 2;
    }
    int failed = run(&test, rounds, &executed);
    print_notes(&test);
    if (!failed && test.cut != CUT_KILL) {
        executed++;
        failed = run_fault(&test);
    }
    snprintf(command, sizeof command, "rm -rf -- '%s'", test.folder);
    if (!failed && system(command) != 0)
        printf("left: %s\n", test.folder);
    return print_suite(&test, rounds, executed, failed);
}
