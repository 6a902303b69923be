/*
 * peer.h - one connection of the load generator: requests out in batches, replies counted in.
 *
 * Only what the benchmark sends and expects: SET and GET of keys `key:` and twelve digits, values
 * that begin with the same digits. Every reply is checked; anything else ends the program.
 */
#ifndef PANDO_BENCH_PEER_H
#define PANDO_BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEER_MAX_PIPELINE 1024u
#define PEER_MAX_VALUE    65536u
#define PEER_DIGITS       12u

/* What all connections share. */
struct peer_traffic {
    size_t value_size;
    const char *filler; /* PEER_MAX_VALUE + PEER_FILLER_SPREAD bytes that do not compress */
};
#define PEER_FILLER_SPREAD 4096u

struct peer_request {
    uint64_t key;
    bool get;
};

struct peer {
    int fd;
    uint64_t sent_ns; /* when the batch under way was sent */
    unsigned sent, answered, missed;
    struct peer_request requests[PEER_MAX_PIPELINE];
    char *out;
    size_t out_len, out_done;
    char *in;
    size_t in_len, in_size;
};

/* Filler for struct peer_traffic. */
char *peer_make_filler(void);

/* Connects to host:port (an IPv4 address); non-blocking from then on. */
void peer_connect(struct peer *p, const char *host, int port, size_t pipeline, size_t value_size);
void peer_close(struct peer *p);

/* Appends one request to the batch. */
void peer_add(struct peer *p, const struct peer_traffic *t, uint64_t key, bool get);
/* Writes what is left of the batch; false: the socket is full, call again when it is writable. */
bool peer_flush(struct peer *p);
/* Reads what is there, checks it, and returns how many replies were completed. */
unsigned peer_receive(struct peer *p);

#endif
