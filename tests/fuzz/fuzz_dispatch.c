/*
 * fuzz_dispatch.c - sequences of commands through the server behind its sockets.
 *
 * An input is text, a command a line, its words separated and quoted as in an inline command:
 *
 *     SET a 1 PX 100        client 1 sends a command
 *     @2 GET a              client 2 does
 *     !time 200             the clock goes on by so many milliseconds
 *     !reopen 1             the server is stopped (1: with a checkpoint) and started again
 *                           an empty line: what was sent is executed
 *
 * What a client sends is a pipeline up to an empty line, a `!`, or another client's command.
 *
 * Checked: dispatch_client.h for every reply; dispatch_check.h at the end of every input; and, once
 * in REOPEN_INPUTS, at a `!reopen` or the end of an input, that a stop and start changes nothing.
 * PANDO_FUZZ_REOPEN=1 does that always, to look at a finding that depends on it (0: never).
 */
#include "tests/fuzz/fuzz.h"

#include "protocol/number.h"
#include "protocol/resp.h"
#include "tests/fuzz/dispatch_check.h"
#include "tests/fuzz/dispatch_client.h"
#include "tests/fuzz/dispatch_mutate.h"
#include "tests/fuzz/dispatch_server.h"

#include <string.h>

#define REOPEN_INPUTS 512 /* stopping and starting costs as much as a hundred inputs */
#define MAX_WORDS     128
#define MAX_ADVANCE   INT64_C(10000000000)

/* An input on its way. */
struct run {
    struct server *server;
    struct fuzz_client *client; /* whose pipeline it is */
    struct pipeline pipeline;
    struct resp_args args; /* words of the pipeline, where they were quoted */
};

/* Inputs since the last stop and start, at least (the one thing that outlives an input). */
static unsigned since_reopening;

static void execute(struct run *run)
{
    if (run->pipeline.count > 0) {
        client_run(run->client, &run->pipeline);
    }
    resp_args_reset(&run->args);
}

static bool is(const struct resp_arg *word, const char *text)
{
    return word->len == strlen(text) && memcmp(word->data, text, word->len) == 0;
}

static int64_t number(const struct resp_arg *word)
{
    int64_t value;
    return number_to_int(word->data, word->len, &value) == 0 ? value : 0;
}

/* Every so many inputs, and this many times as many. */
static void reopen_if_due(struct server *server, unsigned times, bool checkpoint)
{
    const char *text = getenv("PANDO_FUZZ_REOPEN");
    unsigned every = text != NULL ? (unsigned)strtoul(text, NULL, 10) : REOPEN_INPUTS;
    if (every == 1 || (every > 0 && since_reopening >= every * times)) {
        since_reopening = 0;
        check_reopening(server, checkpoint);
    }
}

static void direct(struct run *run, const struct resp_arg *words, size_t n)
{
    int64_t value = n > 1 ? number(&words[1]) : 0;
    bool advance = is(&words[0], "!time"), reopen = is(&words[0], "!reopen");
    execute(run); /* the words are gone */
    if (advance && value > 0) {
        server_advance(run->server, value < MAX_ADVANCE ? value : MAX_ADVANCE);
    } else if (reopen) {
        reopen_if_due(run->server, 1, value != 0);
    }
}

static void send_command(struct run *run, const struct resp_arg *words, size_t n)
{
    struct fuzz_client *client = &run->server->clients[1];
    struct ps_slice command[MAX_WORDS];
    if (words[0].len == 2 && words[0].data[0] == '@') {
        client = &run->server->clients[1 + (unsigned char)words[0].data[1] % (FUZZ_CLIENTS - 1)];
        words++;
        n--;
    }
    if (n == 0 || n > MAX_WORDS) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        command[i] = (struct ps_slice){words[i].data, words[i].len};
    }
    if (client != run->client || !pipeline_add(&run->pipeline, command, n)) {
        if (run->pipeline.count > 0) {
            client_run(run->client, &run->pipeline);
        }
        run->client = client;
        pipeline_add(&run->pipeline, command, n);
    }
}

static void take_line(struct run *run, const char *line, size_t len)
{
    size_t first = run->args.n;
    if (len == 0) {
        execute(run);
        return;
    }
    if (resp_split_line(line, len, &run->args) != 0 || run->args.n == first) {
        return;
    }
    if (run->args.v[first].len > 0 && run->args.v[first].data[0] == '!') {
        direct(run, run->args.v + first, run->args.n - first);
    } else {
        send_command(run, run->args.v + first, run->args.n - first);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run run = {.server = server_open()};
    const char *at = (const char *)data, *end = at + size;
    run.client = &run.server->clients[1];
    server_begin(run.server);
    while (at < end) {
        const char *eol = memchr(at, '\n', (size_t)(end - at));
        eol = eol != NULL ? eol : end;
        take_line(&run, at, (size_t)(eol - at));
        at = eol + 1;
    }
    execute(&run);
    resp_args_free(&run.args);
    check_databases(run.server);
    since_reopening++;
    reopen_if_due(run.server, 2, since_reopening % 2 == 0);
    server_clean(run.server);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    return mutate_lines(data, size, max, seed);
}
