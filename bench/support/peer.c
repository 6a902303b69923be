/*
 * peer.c - requests out, replies in.
 *
 * Invariants:
 *  1 A batch begins when the one before it is answered: answered <= sent <= PEER_MAX_PIPELINE.
 *  2 in[0..in_len) is the beginning of the next unanswered request's reply.
 */
#include "bench/support/peer.h"

#include "bench/support/measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_OVERHEAD 96u
#define REPLY_OVERHEAD   32u

static void *allocate(size_t size)
{
    void *memory = malloc(size);
    if (memory == NULL) {
        die("out of memory");
    }
    return memory;
}

char *peer_make_filler(void)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t size = PEER_MAX_VALUE + PEER_FILLER_SPREAD;
    char *filler = allocate(size);
    uint64_t random = 7;
    for (size_t i = 0; i < size; i++) {
        filler[i] = alphabet[random_next(&random) % 64];
    }
    return filler;
}

void peer_connect(struct peer *p, const char *host, int port, size_t pipeline, size_t value_size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1;
    memset(p, 0, sizeof(*p));
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) {
        die("not an IPv4 address: %s", host);
    }
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->fd < 0 || connect(p->fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        die("connect to %s:%d: %s", host, port, strerror(errno));
    }
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    p->out = allocate(pipeline * (value_size + REQUEST_OVERHEAD));
    p->in_size = pipeline * (value_size + REPLY_OVERHEAD);
    p->in = allocate(p->in_size);
}

void peer_close(struct peer *p)
{
    close(p->fd);
    free(p->out);
    free(p->in);
}

static void digits(char *to, uint64_t n)
{
    for (unsigned i = PEER_DIGITS; i-- > 0;) {
        to[i] = (char)('0' + n % 10);
        n /= 10;
    }
}

static char *append(char *to, const char *text, size_t len)
{
    memcpy(to, text, len);
    return to + len;
}

#define APPEND(to, literal) append(to, literal, sizeof(literal) - 1)

void peer_add(struct peer *p, const struct peer_traffic *t, uint64_t key, bool get)
{
    char name[PEER_DIGITS];
    char *at = p->out + p->out_len;
    digits(name, key);
    at = get ? APPEND(at, "*2\r\n$3\r\nGET\r\n$16\r\nkey:")
             : APPEND(at, "*3\r\n$3\r\nSET\r\n$16\r\nkey:");
    at = append(at, name, PEER_DIGITS);
    at = APPEND(at, "\r\n");
    if (!get) {
        at += sprintf(at, "$%zu\r\n", t->value_size);
        at = append(at, name, PEER_DIGITS);
        at = append(at, t->filler + key % PEER_FILLER_SPREAD, t->value_size - PEER_DIGITS);
        at = APPEND(at, "\r\n");
    }
    p->requests[p->sent++] = (struct peer_request){key, get};
    p->out_len = (size_t)(at - p->out);
}

bool peer_flush(struct peer *p)
{
    while (p->out_done < p->out_len) {
        ssize_t n = send(p->fd, p->out + p->out_done, p->out_len - p->out_done,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return false;
        }
        if (n < 0) {
            die("send: %s", strerror(errno));
        }
        p->out_done += (size_t)n;
    }
    p->out_len = p->out_done = 0;
    return true;
}

/* The length of the complete reply to a GET at `at`, or 0 when more must arrive first. */
static size_t get_reply(struct peer *p, const struct peer_request *r, const char *at, size_t len)
{
    const char *line_end = memchr(at, '\n', len);
    if (line_end == NULL) {
        return 0;
    }
    size_t head = (size_t)(line_end - at) + 1;
    long value = at[0] == '$' ? strtol(at + 1, NULL, 10) : -2;
    if (value == -1) {
        p->missed++;
        return head;
    }
    if (value < (long)PEER_DIGITS) {
        die("GET was answered with %.*s", (int)head, at);
    }
    size_t all = head + (size_t)value + 2;
    if (len >= all) {
        char name[PEER_DIGITS];
        digits(name, r->key);
        if (memcmp(at + head, name, PEER_DIGITS) != 0) {
            die("GET key:%.*s was answered with another key's value", (int)PEER_DIGITS, name);
        }
        return all;
    }
    return 0;
}

static size_t set_reply(const char *at, size_t len)
{
    if (len < 5 && memchr(at, '\n', len) == NULL) {
        return 0;
    }
    if (memcmp(at, "+OK\r\n", 5) != 0) {
        die("SET was answered with %.*s", (int)len, at);
    }
    return 5;
}

unsigned peer_receive(struct peer *p)
{
    ssize_t n = recv(p->fd, p->in + p->in_len, p->in_size - p->in_len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return 0;
    }
    if (n <= 0) {
        die("the server closed a connection: %s", n < 0 ? strerror(errno) : "end of stream");
    }
    p->in_len += (size_t)n;
    size_t done = 0;
    unsigned replies = 0;
    while (done < p->in_len && p->answered < p->sent) {
        const struct peer_request *r = &p->requests[p->answered];
        const char *at = p->in + done;
        size_t len =
            r->get ? get_reply(p, r, at, p->in_len - done) : set_reply(at, p->in_len - done);
        if (len == 0) {
            break;
        }
        done += len;
        p->answered++;
        replies++;
    }
    p->in_len -= done;
    memmove(p->in, p->in + done, p->in_len);
    return replies;
}
