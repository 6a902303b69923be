/*
 * writer.h - the thread that executes everything that writes.
 *
 * Loops submit units; they come back to unit->home when their group is published, in order. The
 * queue is bounded in bytes: writer_full() says that it is time to stop reading from clients, and
 * writer_want_room() has the caller told when that is over. A large argument that a unit took over
 * from its connection is not counted: it was bounded there, and nobody else should wait for it.
 *
 * Threads: writer_submit, writer_wake, writer_full, writer_want_room, writer_hint: any.
 * writer_published is for the store's on_publish. The rest: the thread that started it.
 */
#ifndef PANDO_SERVER_EXEC_WRITER_H
#define PANDO_SERVER_EXEC_WRITER_H

#include "server/exec/env.h"
#include "server/exec/unit.h"

struct writer;

#define WRITER_STEPS 128u /* of background work in one transaction, at most */

/* What is posted to a mailbox; loops have further kinds of their own. */
enum mail_kind {
    MAIL_UNIT,   /* a unit: to the writer or back home */
    MAIL_HINT,   /* to the writer: an expired key was seen */
    MAIL_ROOM,   /* to a loop: the writer's queue has room again */
    MAIL_WAKE,   /* to the writer: look at your state */
    MAIL_CLIENT, /* to a loop: a connection that was accepted or killed */
    MAIL_STOP,   /* to a loop: drain and end */
};

/* One for each who may wait for room; not to be posted again before it came back. */
struct writer_room {
    struct mail mail; /* first */
    struct mailbox *home;
    struct writer_room *next;
    bool waiting; /* the owner's note: posted and not back */
};

/* 0 or a negative errno; the thread runs afterwards. env->writer is set. */
int writer_start(struct exec_env *env);
/* Ends after all that was submitted is done and released. */
void writer_stop(struct writer *writer);
/* After the store is closed: until then whoever publishes still calls writer_published. */
void writer_free(struct writer *writer);

/* Leaves a unit; writer_wake() after the last of a batch. */
void writer_submit(struct writer *writer, struct unit *unit);
/* The same in two steps, for a unit that goes elsewhere first: it counts as waiting meanwhile. */
void writer_expect(struct writer *writer, const struct unit *unit);
void writer_submit_expected(struct writer *writer, struct unit *unit);
void writer_wake(struct writer *writer);
bool writer_full(const struct writer *writer);
void writer_want_room(struct writer *writer, struct writer_room *room);

/* command_ctx.hint_expired; hint_arg is the env. Drops the hint when many are waiting. */
void writer_hint(struct command_ctx *ctx, unsigned db, struct ps_slice key);

/* on_publish of the store. arg: pointer to the struct writer pointer's env. */
void writer_published(void *env, uint64_t seq, int rc);

struct writer_statistics {
    uint64_t units, commands, groups, splits, retries, failures, hints, stage_steps;
    uint64_t queued_bytes, unpublished_units;
};
void writer_statistics(struct writer *writer, struct writer_statistics *s);

#endif
