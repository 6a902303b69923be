/* Running a sequence against both servers. See run.c and control.c. */
#ifndef TESTS_DIFFERENTIAL_RUN_H
#define TESTS_DIFFERENTIAL_RUN_H

#include "tests/differential/compare.h"
#include "tests/differential/conn.h"
#include "tests/differential/coverage.h"
#include "tests/differential/exceptions.h"
#include "tests/differential/fault.h"
#include "tests/differential/proc.h"
#include "tests/differential/sequence.h"

#define MAX_QUEUED 256

enum outcome { OUTCOME_EQUAL = 0, OUTCOME_DIFFERENT, OUTCOME_DEAD, OUTCOME_INTERRUPTED };

/* The first difference of a run, as text. */
struct difference {
    size_t step;      /* index in the sequence; its length means the final dump */
    char command[64]; /* name */
    char request[4096];
    char replies[2][4096];
    char note[512]; /* what happened to a server, "" if nothing */
};

/* A client of the sequence: one connection to each server. */
struct peer {
    struct conn conns[2];
    bool open;
    const struct call *queue[MAX_QUEUED]; /* calls answered QUEUED since MULTI */
    size_t queued;
};

struct runner {
    struct server *servers; /* two */
    struct conn control[2]; /* for dumps and cleaning up; RESP2, always authenticated */
    bool control_open;
    struct peer peers[MAX_CLIENTS];
    struct compare_env env;
    struct heap heap;              /* replies of the running sequence */
    struct exceptions *exceptions; /* NULL: none */
    bool count_exceptions;
    const struct fault *fault;
    bool fault_fired; /* its signal was sent */
    int timeout_ms;
    unsigned long long replies_compared;
    struct coverage coverage;
    const struct sequence *sequence;
    struct difference *difference;
    size_t step;
    const char *cursors[2]; /* what SUBST_CURSOR stands for */
};

void runner_init(struct runner *runner, struct server *servers);
/* Ends both servers and starts them again, empty. Returns 0 or -1. */
int runner_restart(struct runner *runner);
void runner_close(struct runner *runner);

/* Runs the steps for which enabled[i] holds (all if NULL), then compares the data sets and empties
 * the servers. */
enum outcome run_sequence(struct runner *runner, const struct sequence *sequence,
                          const bool *enabled, struct difference *difference);

/* --- between run.c, render.c and control.c --- */

/* Appends a call's bytes for server 0 or 1. */
void render_call(const struct runner *runner, const struct call *call, int server, bool inline_form,
                 struct buffer *out);
/* Compares the replies to one call; fills in runner->difference if they differ. peer may be NULL.
 */
enum outcome check_call(struct runner *runner, struct peer *peer, const struct call *call,
                        struct reply *a, struct reply *b, const struct reply *next_a,
                        const struct reply *next_b);
/* conn_exchange on a pair, with a hanging server turned into OUTCOME_DEAD. */
enum outcome exchange_pair(struct runner *runner, struct conn *pair, size_t expected,
                           struct reply_list *replies, const char *what);
/* The steps that are no pipeline of a client. */
enum outcome control_step(struct runner *runner, const struct step *step);
/* Compares all databases. */
enum outcome control_dump(struct runner *runner);
/* Empties both servers and restores their configuration. Returns 0, or -1 if a server is in no
 * state to. */
int control_cleanup(struct runner *runner);

#endif
