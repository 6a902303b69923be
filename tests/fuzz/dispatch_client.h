/*
 * dispatch_client.h - for fuzz_dispatch: a connection without its socket. It does with a pipeline
 * what server/net/turn.c does: commands that may run here do, the rest goes to the writer or the
 * pool as units; and it checks what comes back.
 *
 * Checked: a command has exactly one reply, unless it ended the connection; a reply is well-formed
 * RESP of the version that the connection speaks.
 */
#ifndef PANDO_TESTS_FUZZ_DISPATCH_CLIENT_H
#define PANDO_TESTS_FUZZ_DISPATCH_CLIENT_H

#include "tests/fuzz/dispatch_server.h"
#include "tests/support/reply.h"

#define PIPELINE_COMMANDS 128
#define PIPELINE_WORDS    2048

/* Commands that were sent and not yet executed; their words live elsewhere. */
struct pipeline {
    struct unit_source commands[PIPELINE_COMMANDS];
    struct ps_slice words[PIPELINE_WORDS];
    size_t count, used;
};

/* Adds a command of n words; false: it does not fit. */
bool pipeline_add(struct pipeline *pipeline, const struct ps_slice *words, size_t n);

/* Executes all of a pipeline, which is empty afterwards. A connection that is closed on the way is
 * opened again, without what followed. */
void client_run(struct fuzz_client *client, struct pipeline *pipeline);

/* One command; its reply, whose memory is the heap's. */
struct reply client_ask(struct fuzz_client *client, struct heap *heap, const struct ps_slice *words,
                        size_t n);

#endif
