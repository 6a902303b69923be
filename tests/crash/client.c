/*
 * See client.h.
 */
#include "tests/crash/client.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 60 /* seconds a reply may take */
#define PIPELINE 24

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int wire_open(struct wire *wire, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval limit = {.tv_sec = PATIENCE};
    int one = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *wire = (struct wire){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert(wire->fd >= 0);
    if (connect(wire->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(wire->fd);
        wire->fd = -1;
        return -1;
    }
    setsockopt(wire->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(wire->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return 0;
}

void wire_close(struct wire *wire)
{
    if (wire->fd >= 0)
        close(wire->fd);
    free(wire->data);
    *wire = (struct wire){.fd = -1};
}

int wire_send(struct wire *wire, const struct buffer *buffer)
{
    size_t done = 0;
    while (done < buffer->length) {
        ssize_t n = send(wire->fd, buffer->data + done, buffer->length - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        done += (size_t)n;
    }
    return 0;
}

static int fill(struct wire *wire)
{
    if (wire->end == wire->capacity) {
        size_t kept = wire->end - wire->start;
        if (wire->start > wire->capacity / 2) {
            memmove(wire->data, wire->data + wire->start, kept);
        } else {
            size_t capacity = wire->capacity ? wire->capacity * 2 : 65536;
            char *data = malloc(capacity);
            assert(data);
            if (kept)
                memcpy(data, wire->data + wire->start, kept);
            free(wire->data);
            wire->data = data;
            wire->capacity = capacity;
        }
        wire->start = 0;
        wire->end = kept;
    }
    ssize_t n;
    do {
        n = recv(wire->fd, wire->data + wire->end, wire->capacity - wire->end, 0);
    } while (n < 0 && errno == EINTR);
    if (n <= 0)
        return -1;
    wire->end += (size_t)n;
    return 0;
}

/* A line without its end: its length, or -1. `*line` is valid until the next read. */
static long read_line(struct wire *wire, const char **line)
{
    size_t scanned = 0;
    for (;;) {
        size_t have = wire->end - wire->start;
        char *from = have ? wire->data + wire->start : NULL;
        char *found = have > scanned ? memchr(from + scanned, '\n', have - scanned) : NULL;
        if (found) {
            *line = from;
            wire->start += (size_t)(found - from) + 1;
            return found > from && found[-1] == '\r' ? found - from - 1 : -1;
        }
        scanned = have;
        if (fill(wire) != 0)
            return -1;
    }
}

static int read_exactly(struct wire *wire, size_t length, const char **data)
{
    while (wire->end - wire->start < length)
        if (fill(wire) != 0)
            return -1;
    *data = wire->data + wire->start;
    wire->start += length;
    return 0;
}

long wire_number(struct wire *wire, char kind)
{
    const char *line;
    long length = read_line(wire, &line);
    if (length < 2 || line[0] != kind)
        return -2;
    return strtol(line + 1, NULL, 10);
}

long wire_bulk(struct wire *wire, const char **data)
{
    long length = wire_number(wire, '$');
    if (length < 0)
        return length;
    if (read_exactly(wire, (size_t)length + 2, data) != 0)
        return -2;
    return length;
}

int wire_skip_reply(struct wire *wire, char *text, size_t size)
{
    const char *line;
    int result = 0;
    for (long left = 1; left > 0; left--) {
        long length = read_line(wire, &line);
        if (length < 1)
            return -1;
        if (line[0] == '-') {
            snprintf(text, size, "%.*s", (int)length, line);
            result = 1;
        } else if (line[0] == '*') {
            long count = strtol(line + 1, NULL, 10);
            left += count > 0 ? count : 0;
        } else if (line[0] == '$') {
            long count = strtol(line + 1, NULL, 10);
            if (count >= 0 && read_exactly(wire, (size_t)count + 2, &line) != 0)
                return -1;
        } else if (line[0] != '+' && line[0] != ':') {
            snprintf(text, size, "no reply starts with '%c'", line[0]);
            return 1;
        }
    }
    return result;
}

uint64_t ack_read(int fd)
{
    uint64_t number = 0;
    return pread(fd, &number, sizeof number, 0) == sizeof number ? number : 0;
}

/* Makes operations up to `last` acknowledged: on the disk first, then in the record. */
static void acknowledge(struct load *load, uint64_t last)
{
    uint64_t count = last - load->first + 1;
    if (pwrite(load->ack_fd, &last, sizeof last, 0) != sizeof last ||
        fdatasync(load->ack_fd) != 0) {
        snprintf(load->error, sizeof load->error, "acknowledgement file: %s", strerror(errno));
        return;
    }
    int64_t now = now_ns();
    for (uint64_t i = load->acknowledged; i < count; i++)
        load->acknowledged_at[i] = now;
    load->acknowledged = count;
}

/* Sends the next operations as one pipeline. */
static int send_some(struct load *load, struct wire *wire, struct buffer *out, int count)
{
    int64_t now = now_ns();
    out->length = 0;
    for (int i = 0; i < count; i++) {
        struct op op;
        op_make(&op, load->seed, load->client, load->first + load->sent);
        op_encode(&op, out);
        load->sent_at[load->sent++] = now;
    }
    return wire_send(wire, out);
}

/* Reads the replies of `count` operations; what had all of its replies is acknowledged. */
static int receive(struct load *load, struct wire *wire, int count)
{
    uint64_t next = load->first + load->acknowledged;
    int result = 0;
    for (int i = 0; i < count && result == 0; i++, next++) {
        struct op op;
        op_make(&op, load->seed, load->client, next);
        for (int reply = op_replies(&op); reply > 0 && result == 0; reply--)
            result = wire_skip_reply(wire, load->error, sizeof load->error);
        if (result != 0)
            break;
    }
    if (next > load->first + load->acknowledged)
        acknowledge(load, next - 1);
    return load->error[0] ? -1 : result;
}

static int enter_database(struct load *load, struct wire *wire)
{
    struct buffer out = {0};
    char number[16];
    snprintf(number, sizeof number, "%d", load->client);
    buffer_command(&out, 2, "SELECT", number);
    int result = wire_send(wire, &out);
    buffer_free(&out);
    return result ? result : wire_skip_reply(wire, load->error, sizeof load->error);
}

void *load_run(void *argument)
{
    struct load *load = argument;
    struct wire wire;
    struct buffer out = {0};
    uint64_t dice = load->seed ^ load->first ^ (uint64_t)load->client << 40;
    if (wire_open(&wire, load->port) != 0)
        return NULL;
    int result = enter_database(load, &wire);
    while (result == 0 && load->sent + PIPELINE < MAX_OPS) {
        int count = 1 + (int)(random_next(&dice) % PIPELINE);
        result = send_some(load, &wire, &out, count);
        if (result == 0)
            result = receive(load, &wire, count);
    }
    buffer_free(&out);
    wire_close(&wire);
    return NULL;
}
