/*
 * See test.h.
 */
#include "tests/crash/test.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *const level_names[LEVELS] = {"always", "everysec", "none"};
const char *const cut_names[CUTS] = {"kill", "power", "disk"};

/* Directories by turns: as delivered; little memory, so that checkpoints never end; large pages. */
#define VARIANTS 3
static const char *const variants[VARIANTS][5] = {
    {NULL},
    {"--dirty-memory", "4mb", NULL},
    {"--dirty-memory", "8mb", "--page-size", "16kb", NULL},
};

void pause_us(uint64_t us)
{
    struct timespec time = {.tv_sec = (time_t)(us / 1000000),
                            .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&time, NULL);
}

/* Levels by chance where a process is killed. What loses its power is too dear for chance. */
int test_start(struct test *test)
{
    uint64_t chance = random_next(&test->dice);
    test->level =
        (enum level)(test->cut == CUT_KILL ? chance % LEVELS : (unsigned)test->turn % LEVELS);
    while (random_next(&test->dice) % 4 == 0) {
        server_spawn(&test->server, level_names[test->level]);
        pause_us(random_next(&test->dice) % 20000);
        server_kill(&test->server);
        test->start_kills++;
    }
    server_spawn(&test->server, level_names[test->level]);
    return server_ready(&test->server);
}

int test_check(struct test *test)
{
    int status = server_check(&test->server);
    if (status != 0)
        printf("pando-tool check: exit status %d\n", status);
    return status;
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

int test_open(struct test *test, const char *path, const char *log)
{
    test->server.options = variants[test->directories % VARIANTS];
    test->directories++;
    snprintf(test->server.directory, sizeof test->server.directory, "%s", path);
    snprintf(test->server.log, sizeof test->server.log, "%s", log);
    for (int c = 0; c < CLIENTS; c++)
        open_history(test, c);
    return mkdir(test->server.directory, 0755);
}

void test_close(struct test *test)
{
    server_kill(&test->server);
    for (int c = 0; c < CLIENTS; c++)
        close_history(&test->histories[c]);
}

void test_renew_loads(struct test *test, int port)
{
    for (int c = 0; c < CLIENTS; c++) {
        struct load *load = &test->histories[c].load;
        load->first += load->sent;
        load->port = port;
        load->sent = 0;
        atomic_store(&load->acknowledged, 0);
        test->histories[c].promised = 0;
        memset(load->sent_at, 0, MAX_OPS * sizeof *load->sent_at);
        memset(load->acknowledged_at, 0, MAX_OPS * sizeof *load->acknowledged_at);
    }
}

/* Sends one command on a connection of its own: 0 if it was answered without an error. */
static int ask(struct test *test, const char *command, const char *argument, struct wire *wire)
{
    struct buffer out = {0};
    if (wire_open(wire, test->server.port) != 0)
        return -1;
    if (argument)
        buffer_command(&out, 2, command, argument);
    else
        buffer_command(&out, 1, command);
    int result = wire_send(wire, &out);
    buffer_free(&out);
    return result;
}

/* Asks for a checkpoint, so that cuts fall into checkpoints too. */
static void save(struct test *test)
{
    struct wire wire = {.fd = -1};
    char text[256];
    if (ask(test, "BGSAVE", NULL, &wire) == 0 && wire_skip_reply(&wire, text, sizeof text) == 0)
        test->saves++;
    wire_close(&wire);
}

/* Two numbers of INFO: what is published, and what of it the device has. */
static int ask_sequences(struct test *test, uint64_t *published, uint64_t *durable)
{
    struct wire wire = {.fd = -1};
    const char *data;
    long length = ask(test, "INFO", "log", &wire) == 0 ? wire_bulk(&wire, &data) : -2;
    char *text = length > 0 ? strndup(data, (size_t)length) : NULL;
    const char *first = text ? strstr(text, "\npublished_seq:") : NULL;
    const char *second = text ? strstr(text, "\ndurable_seq:") : NULL;
    assert(!text || (first && second)); /* or this test would promise nothing, for ever */
    if (text) {
        *published = strtoull(strchr(first, ':') + 1, NULL, 10);
        *durable = strtoull(strchr(second, ':') + 1, NULL, 10);
    }
    free(text);
    wire_close(&wire);
    return length > 0 ? 0 : -1;
}

/* Waits until the device has all that was acknowledged when this was called. At `none` that is
 * when a checkpoint was made, which need not come. */
static void await_durable(struct test *test)
{
    uint64_t acknowledged[CLIENTS], wanted, published, durable;
    for (int c = 0; c < CLIENTS; c++)
        acknowledged[c] = atomic_load(&test->histories[c].load.acknowledged);
    if (test->level == NONE || ask_sequences(test, &wanted, &durable) != 0)
        return;
    while (durable < wanted) {
        pause_us(20000);
        if (ask_sequences(test, &published, &durable) != 0)
            return;
    }
    memcpy(test->durable, acknowledged, sizeof acknowledged);
    test->durable_at = now_ns();
}

void test_load(struct test *test, pthread_t threads[CLIENTS])
{
    uint64_t before = 5000 + random_next(&test->dice) % 300000;
    before += test->cut == CUT_DISK ? 200000 : 0; /* a slow disk */
    uint64_t after = random_next(&test->dice) % 60000;
    bool saving = random_next(&test->dice) % 2;
    bool waiting = test->cut != CUT_KILL && random_next(&test->dice) % 2;
    test_renew_loads(test, test->server.port);
    memset(test->durable, 0, sizeof test->durable);
    test->durable_at = 0;
    for (int c = 0; c < CLIENTS; c++) {
        int error = pthread_create(&threads[c], NULL, load_run, &test->histories[c].load);
        assert(error == 0);
    }
    pause_us(before);
    if (waiting)
        await_durable(test);
    if (saving)
        save(test);
    if (saving || waiting)
        pause_us(after);
}

int test_join(struct test *test, pthread_t threads[CLIENTS])
{
    int result = 0;
    for (int c = 0; c < CLIENTS; c++) {
        pthread_join(threads[c], NULL);
        if (test->histories[c].load.error[0]) {
            printf("client %d: %s\n", c, test->histories[c].load.error);
            result = -1;
        }
    }
    return result;
}

void test_promise(struct test *test, enum level level)
{
    for (int c = 0; c < CLIENTS; c++) {
        struct history *history = &test->histories[c];
        uint64_t last = ack_read(history->load.ack_fd);
        uint64_t count = last >= history->load.first ? last - history->load.first + 1 : 0;
        bool whole = level == ALWAYS || (level == EVERYSEC && test->cut == CUT_KILL);
        history->promised = whole ? count : test->durable[c];
        test->kept_by_device += whole ? 0 : test->durable[c];
        test->acknowledged += count;
    }
}

void test_count(struct test *test)
{
    for (int c = 0; c < CLIENTS; c++) {
        const struct history *history = &test->histories[c];
        uint64_t acknowledged = atomic_load(&history->load.acknowledged);
        if (history->highest > acknowledged)
            test->unacknowledged_found += history->highest - acknowledged;
        else
            test->lost += acknowledged - history->highest;
    }
}
