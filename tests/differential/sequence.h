/* A generated sequence: what is sent, by whom, and how its replies are compared. */
#ifndef TESTS_DIFFERENTIAL_SEQUENCE_H
#define TESTS_DIFFERENTIAL_SEQUENCE_H

#include "tests/support/reply.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_CLIENTS 3
#define MAX_CALLS   2
#define MAX_STEPS   1600

/* How two replies to one call are compared; everything but CMP_EXACT is a declared canonicalisation
 * (README.md). */
enum cmp_mode {
    CMP_EXACT = 0,
    CMP_SET,          /* an array whose order means nothing */
    CMP_SCAN,         /* [cursor, array whose order means nothing] */
    CMP_RANDOMKEY,    /* null on both, or each a member of the KEYS reply that follows */
    CMP_TTL,          /* seconds left, with a tolerance */
    CMP_PTTL,         /* milliseconds left, with a tolerance */
    CMP_EXPIRETIME,   /* seconds: exact if far away (an absolute time was given), else with a
                         tolerance */
    CMP_PEXPIRETIME,  /* the same in milliseconds */
    CMP_TIME,         /* [seconds, microseconds], with a tolerance */
    CMP_RECENT,       /* a time of day in seconds, of this century */
    CMP_CLIENT_ID,    /* the id that the server gave this connection */
    CMP_CLIENT_INFO,  /* lines of CLIENT INFO and LIST: own connections, stable fields */
    CMP_HELLO,        /* a map; id as CMP_CLIENT_ID */
    CMP_INFO,         /* chosen lines of INFO */
    CMP_CONFIG,       /* name-value pairs whose order means nothing */
    CMP_COMMAND_INFO, /* flags, categories and tips as sets */
    CMP_COMMAND_DOCS, /* summary, since, group and complexity of each command */
    CMP_COUNT_ONLY,   /* an integer above 0 */
    CMP_BGSAVE,       /* simple strings on both */
};

/* What an argument stands for that differs between the servers. */
enum subst { SUBST_NONE = 0, SUBST_CLIENT_ID, SUBST_CLIENT_ADDR, SUBST_CURSOR };

struct arg {
    const char *data;
    size_t len;
    enum subst subst;
    int client; /* whose id or address */
};

struct call {
    size_t argc;
    struct arg *argv;
    enum cmp_mode mode;
};

enum step_kind {
    STEP_COMMAND,  /* calls in the pipeline of a client */
    STEP_RAW,      /* bytes on a throw-away connection, until the server closes it */
    STEP_ELAPSE,   /* a key with a life of a few milliseconds, polled until it is gone on both */
    STEP_SCANLOOP, /* a whole SCAN with a small COUNT */
    STEP_BGSAVE,   /* BGSAVE, waited for */
};

struct step {
    enum step_kind kind;
    int client;
    int db; /* of control scripts */
    size_t ncalls;
    struct call calls[MAX_CALLS];
    bool inline_form; /* send as inline commands */
    bool ends_batch;  /* wait for the replies before anything else is sent */
    bool closes;      /* the server must close the connection after the reply */
    const char *raw;  /* of STEP_RAW */
    size_t raw_len;
};

struct sequence {
    uint64_t seed;
    uint64_t number;
    int resp;
    int clients;
    bool split_writes; /* the first write of each pipeline is cut short */
    bool touches_config;
    size_t count;
    struct step *steps;
    struct heap heap; /* owns all of the above */
};

/* Generates sequence `number` of `seed`; the same arguments give the same sequence. resp: 2 or 3.
 */
void sequence_generate(struct sequence *sequence, uint64_t seed, uint64_t number, int resp);
void sequence_free(struct sequence *sequence);

/* Writes a call as one would type it into a client. */
void call_format(const struct call *call, char *out, size_t cap);
void step_format(const struct step *step, char *out, size_t cap);

#endif
