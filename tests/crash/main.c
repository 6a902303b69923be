/*
 * Rounds of: load, kill -9 at a random moment, check, restart, compare. See README.md.
 */
#include "tests/crash/server.h"
#include "tests/crash/verify.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_PER_DIRECTORY 10
#define MAX_FAILURES         3

enum level { ALWAYS, EVERYSEC, NONE, LEVELS };

static const char *const level_names[LEVELS] = {"always", "everysec", "none"};

/* Directories by turns: as delivered; little memory, so that checkpoints never end; large pages. */
#define VARIANTS 3
static const char *const variants[VARIANTS][5] = {
    {NULL},
    {"--dirty-memory", "4mb", NULL},
    {"--dirty-memory", "8mb", "--page-size", "16kb", NULL},
};

struct test {
    struct server server;
    char folder[256]; /* everything of this run */
    uint64_t seed, dice;
    enum level level; /* of the running server */
    struct history histories[CLIENTS];
    /* what happened */
    uint64_t acknowledged, unacknowledged_found, lost_at_none;
    int rounds_at[LEVELS], start_kills, saves, directories;
};

static void pause_us(uint64_t us)
{
    struct timespec time = {.tv_sec = (time_t)(us / 1000000),
                            .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&time, NULL);
}

static int remove_tree(const char *path)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf -- '%s'", path);
    return system(command);
}

/* Starts the server at a level picked for this start, now and then killing a start first. */
static int start(struct test *test)
{
    test->level = (enum level)(random_next(&test->dice) % LEVELS);
    while (random_next(&test->dice) % 4 == 0) {
        server_spawn(&test->server, level_names[test->level]);
        pause_us(random_next(&test->dice) % 20000);
        server_kill(&test->server);
        test->start_kills++;
    }
    server_spawn(&test->server, level_names[test->level]);
    return server_ready(&test->server);
}

static void open_history(struct test *test, int client)
{
    struct history *history = &test->histories[client];
    struct load *load = &history->load;
    char path[300];
    model_clear(&history->model);
    snprintf(path, sizeof path, "%s/acknowledged.%d", test->folder, client);
    *load = (struct load){.client = client, .seed = test->seed, .first = load->first + load->sent};
    load->first = load->first ? load->first : 1;
    load->ack_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    load->sent_at = calloc(MAX_OPS, sizeof *load->sent_at);
    load->acknowledged_at = calloc(MAX_OPS, sizeof *load->acknowledged_at);
    assert(load->ack_fd >= 0 && load->sent_at && load->acknowledged_at);
    history->promised = history->lowest = history->highest = 0;
}

static void close_history(struct history *history)
{
    close(history->load.ack_fd);
    free(history->load.sent_at);
    free(history->load.acknowledged_at);
    history->load.sent_at = history->load.acknowledged_at = NULL;
    model_clear(&history->model);
}

static int open_directory(struct test *test)
{
    test->server.options = variants[test->directories % VARIANTS];
    test->directories++;
    snprintf(test->server.directory, sizeof test->server.directory, "%s/data.%d", test->folder,
             test->directories);
    snprintf(test->server.log, sizeof test->server.log, "%s.log", test->server.directory);
    if (mkdir(test->server.directory, 0755) != 0)
        return -1;
    for (int c = 0; c < CLIENTS; c++)
        open_history(test, c);
    return start(test);
}

/* Prepares the next load: a new range of numbers, nothing sent. */
static void renew_load(struct history *history, int port)
{
    struct load *load = &history->load;
    load->first += load->sent;
    load->port = port;
    load->sent = load->acknowledged = 0;
    history->promised = 0;
    memset(load->sent_at, 0, MAX_OPS * sizeof *load->sent_at);
    memset(load->acknowledged_at, 0, MAX_OPS * sizeof *load->acknowledged_at);
}

/* Asks for a checkpoint, so that kills fall into checkpoints too. */
static void save(struct test *test)
{
    struct wire wire;
    struct buffer out = {0};
    char text[256];
    if (wire_open(&wire, test->server.port) != 0)
        return;
    buffer_command(&out, 1, "BGSAVE");
    if (wire_send(&wire, &out) == 0 && wire_skip_reply(&wire, text, sizeof text) == 0)
        test->saves++;
    buffer_free(&out);
    wire_close(&wire);
}

/* Loads the server and kills it at a random moment: 0, or -1 after printing what went wrong. */
static int load_and_kill(struct test *test)
{
    pthread_t threads[CLIENTS];
    uint64_t before = 5000 + random_next(&test->dice) % 300000;
    uint64_t after = random_next(&test->dice) % 60000;
    bool saving = random_next(&test->dice) % 2;
    int result = 0;
    for (int c = 0; c < CLIENTS; c++) {
        renew_load(&test->histories[c], test->server.port);
        int error = pthread_create(&threads[c], NULL, load_run, &test->histories[c].load);
        assert(error == 0);
    }
    pause_us(before);
    if (saving) {
        save(test);
        pause_us(after);
    }
    server_kill(&test->server);
    for (int c = 0; c < CLIENTS; c++) {
        pthread_join(threads[c], NULL);
        if (test->histories[c].load.error[0]) {
            printf("client %d: %s\n", c, test->histories[c].load.error);
            result = -1;
        }
    }
    return result;
}

/* Sets how much of each load must be there, from the acknowledgement files. */
static void promise(struct test *test, enum level level)
{
    for (int c = 0; c < CLIENTS; c++) {
        struct history *history = &test->histories[c];
        uint64_t last = ack_read(history->load.ack_fd);
        uint64_t count = last >= history->load.first ? last - history->load.first + 1 : 0;
        history->promised = level == NONE ? 0 : count;
        test->acknowledged += count;
    }
}

static void count_found(struct test *test)
{
    for (int c = 0; c < CLIENTS; c++) {
        const struct history *history = &test->histories[c];
        if (history->highest > history->load.acknowledged)
            test->unacknowledged_found += history->highest - history->load.acknowledged;
        else
            test->lost_at_none += history->load.acknowledged - history->highest;
    }
}

static int check(struct test *test)
{
    int status = server_check(&test->server);
    if (status != 0)
        printf("pando-tool check: exit status %d\n", status);
    return status;
}

static int run_round(struct test *test)
{
    enum level level = test->level;
    test->rounds_at[level]++;
    if (load_and_kill(test) != 0)
        return -1;
    promise(test, level);
    if (check(test) != 0 || start(test) != 0)
        return -1;
    if (verify_all(test->server.port, test->histories) != 0)
        return -1;
    count_found(test);
    return 0;
}

/* An orderly stop keeps everything at every level; then the directory is done with. */
static int close_directory(struct test *test)
{
    for (int c = 0; c < CLIENTS; c++)
        renew_load(&test->histories[c], 0);
    int status = server_stop(&test->server);
    if (status != 0) {
        printf("exit status %d after SIGTERM\n", status);
        return -1;
    }
    if (check(test) != 0 || start(test) != 0)
        return -1;
    return verify_all(test->server.port, test->histories);
}

static void leave_directory(struct test *test, bool good)
{
    server_kill(&test->server);
    for (int c = 0; c < CLIENTS; c++)
        close_history(&test->histories[c]);
    if (good)
        remove_tree(test->server.directory);
}

static int failures_after(struct test *test, int round, int failures)
{
    printf("round %d failed at durability %s; left: %s\n", round, level_names[test->level],
           test->server.directory);
    server_show_log(&test->server);
    leave_directory(test, false);
    return failures + 1;
}

/* Runs the rounds: the number that failed; `*executed` tells how many ran. */
static int run(struct test *test, int rounds, int *executed)
{
    int failures = 0, in_directory = 0;
    for (int round = 1; round <= rounds && failures < MAX_FAILURES; round++) {
        int result = in_directory == 0 ? open_directory(test) : 0;
        ++*executed;
        if (result == 0)
            result = run_round(test);
        bool last = ++in_directory == ROUNDS_PER_DIRECTORY || round == rounds;
        if (result == 0 && last)
            result = close_directory(test);
        if (result != 0)
            failures = failures_after(test, round, failures);
        else if (last)
            leave_directory(test, true);
        if (result != 0 || last)
            in_directory = 0;
    }
    return failures;
}

static void print_notes(const struct test *test)
{
    printf("NOTE crash: seed %" PRIu64 "; rounds at always %d, everysec %d, none %d; %d starts "
           "killed, %d checkpoints asked for\n",
           test->seed, test->rounds_at[ALWAYS], test->rounds_at[EVERYSEC], test->rounds_at[NONE],
           test->start_kills, test->saves);
    printf("NOTE crash: %" PRIu64 " operations acknowledged; found without acknowledgement %" PRIu64
           "; acknowledged at none and gone %" PRIu64 "\n",
           test->acknowledged, test->unacknowledged_found, test->lost_at_none);
}

static int usage(const char *name)
{
    fprintf(stderr, "usage: %s --pandod FILE --tool FILE [--rounds N] [--seed S]\n", name);
    return 2;
}

int main(int argc, char **argv)
{
    static struct test test;
    int rounds = 100, executed = 0;
    test.seed = 1;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            return usage(argv[0]);
        if (!strcmp(argv[i], "--pandod"))
            test.server.program = argv[i + 1];
        else if (!strcmp(argv[i], "--tool"))
            test.server.tool = argv[i + 1];
        else if (!strcmp(argv[i], "--rounds"))
            rounds = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--seed"))
            test.seed = strtoull(argv[i + 1], NULL, 10);
        else
            return usage(argv[0]);
    }
    if (!test.server.program || !test.server.tool || rounds < 1)
        return usage(argv[0]);
    const char *base = getenv("TMPDIR");
    snprintf(test.folder, sizeof test.folder, "%s/pando-crash.XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(test.folder)) {
        fprintf(stderr, "%s: %s\n", test.folder, strerror(errno));
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    test.dice = test.seed;
    int failed = run(&test, rounds, &executed);
    print_notes(&test);
    if (!failed)
        remove_tree(test.folder);
    printf("SUITE crash required=%d executed=%d passed=%d failed=%d skipped=0\n", rounds, executed,
           executed - failed, failed);
    return failed || executed < rounds;
}
