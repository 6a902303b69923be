/*
 * load.c - a load generator: SET and GET over many connections, on one thread.
 *
 *   load --port N [--host A] [--connections 50] [--pipeline 1] [--keys N] [--value 100]
 *        [--gets G --sets S] [--seconds S | --requests N] [--warmup S] [--pid PID] [--seed N]
 *   load --port N --fill ...      every key once, in random order
 *
 * Each connection sends a batch of `pipeline` requests and the next one when all are answered. With
 * --gets 10 --sets 1 each request is a GET with probability 10/11. Keys are uniform. The latency of
 * a request is the time from sending its batch to reading its reply. Prints one line of JSON;
 * --pid is the server's, whose processor time (with that of children it waited for) is read at
 * both ends of the measured time. --buckets adds the histogram.
 */
#include "bench/support/histogram.h"
#include "bench/support/measure.h"
#include "bench/support/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MAX_CONNECTIONS 1024u

struct load {
    const char *host;
    unsigned port, connections, pipeline, gets, sets, pid;
    uint64_t keys, requests; /* requests 0: bounded by time */
    double seconds, warmup;
    bool fill, buckets;

    struct peer_traffic traffic;
    struct peer peers[MAX_CONNECTIONS];
    uint32_t *order; /* fill: the keys' order */
    uint64_t random, issued, answered, missed;
    uint64_t begin_ns, end_ns, last_ns; /* begin: of the measured time */
    bool measuring, stopping;
    struct measure own;
    double server_cpu;
    struct histogram latency;
};

/* User and system time of a process and the children it waited for, in seconds. */
static double process_cpu(unsigned pid)
{
    char path[64], text[1024];
    unsigned long user, system;
    long child_user, child_system;
    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    FILE *f = fopen(path, "r");
    size_t n = f != NULL ? fread(text, 1, sizeof(text) - 1, f) : 0;
    if (f != NULL) {
        fclose(f);
    }
    text[n] = 0;
    char *rest = strrchr(text, ')');
    if (rest == NULL ||
        sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld", &user,
               &system, &child_user, &child_system) != 4) {
        die("cannot read %s", path);
    }
    return ((double)user + (double)system + (double)child_user + (double)child_system) /
           (double)sysconf(_SC_CLK_TCK);
}

static void start_measuring(struct load *l)
{
    l->measuring = true;
    l->answered = l->missed = 0;
    histogram_clear(&l->latency);
    l->server_cpu = l->pid != 0 ? process_cpu(l->pid) : 0;
    measure_begin(&l->own);
    l->begin_ns = measure_clock_ns();
    l->end_ns = l->begin_ns + (uint64_t)(l->seconds * 1e9);
}

static void stop_measuring(struct load *l)
{
    measure_end(&l->own);
    l->server_cpu = l->pid != 0 ? process_cpu(l->pid) - l->server_cpu : 0;
}

/* Fills the next batch; false when there is nothing more to send. */
static bool next_batch(struct load *l, struct peer *p)
{
    p->sent = p->answered = 0;
    while (p->sent < l->pipeline && !l->stopping) {
        if (l->requests != 0 && l->issued >= l->requests) {
            break;
        }
        uint64_t key = l->fill ? l->order[l->issued] : random_below(&l->random, l->keys);
        bool get = !l->fill && random_below(&l->random, l->gets + l->sets) < l->gets;
        peer_add(p, &l->traffic, key, get);
        l->issued++;
    }
    return p->sent > 0;
}

static void arm(int poll, struct peer *p, int op, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = p};
    if (epoll_ctl(poll, op, p->fd, &event) != 0) {
        die("epoll_ctl failed");
    }
}

static bool send_batch(struct load *l, int poll, struct peer *p)
{
    if (!next_batch(l, p)) {
        return false;
    }
    p->sent_ns = measure_clock_ns();
    if (!peer_flush(p)) {
        arm(poll, p, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
    }
    return true;
}

/* Returns false when the connection has nothing more to do. */
static bool on_event(struct load *l, int poll, const struct epoll_event *event)
{
    struct peer *p = event->data.ptr;
    if ((event->events & EPOLLOUT) != 0 && peer_flush(p)) {
        arm(poll, p, EPOLL_CTL_MOD, EPOLLIN);
    }
    if ((event->events & ~(uint32_t)EPOLLOUT) == 0) {
        return true;
    }
    unsigned replies = peer_receive(p);
    uint64_t now = l->last_ns = measure_clock_ns();
    for (unsigned i = 0; i < replies; i++) {
        histogram_add(&l->latency, now - p->sent_ns);
    }
    l->answered += replies;
    l->missed += p->missed;
    p->missed = 0;
    if (p->answered < p->sent) {
        return true;
    }
    if (l->requests == 0 && now >= l->end_ns) {
        if (!l->measuring) {
            start_measuring(l);
        } else {
            l->stopping = true;
        }
    }
    return send_batch(l, poll, p);
}

static void run(struct load *l)
{
    int poll = epoll_create1(EPOLL_CLOEXEC);
    unsigned busy = 0;
    for (unsigned i = 0; i < l->connections; i++) {
        peer_connect(&l->peers[i], l->host, (int)l->port, l->pipeline, l->traffic.value_size);
        arm(poll, &l->peers[i], EPOLL_CTL_ADD, EPOLLIN);
    }
    start_measuring(l);
    if (l->requests == 0 && l->warmup > 0) {
        l->measuring = false;
        l->end_ns = l->begin_ns + (uint64_t)(l->warmup * 1e9);
    }
    for (unsigned i = 0; i < l->connections; i++) {
        busy += send_batch(l, poll, &l->peers[i]);
    }
    while (busy > 0) {
        struct epoll_event events[64];
        int n = epoll_wait(poll, events, 64, 60000);
        if (n <= 0) {
            die("no reply for a minute");
        }
        for (int i = 0; i < n; i++) {
            busy -= !on_event(l, poll, &events[i]);
        }
    }
    stop_measuring(l);
    for (unsigned i = 0; i < l->connections; i++) {
        peer_close(&l->peers[i]);
    }
    close(poll);
}

static void report(const struct load *l)
{
    const struct histogram *h = &l->latency;
    double seconds = (double)(l->last_ns - l->begin_ns) / 1e9;
    printf(
        "{\"ops\":%llu,\"seconds\":%.6f,\"rate\":%.1f,\"missed\":%llu,\"p50_us\":%.1f,"
        "\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,\"client_cpu\":%.4f,\"server_cpu\":%.4f",
        (unsigned long long)l->answered, seconds, (double)l->answered / seconds,
        (unsigned long long)l->missed, (double)histogram_quantile(h, 0.5) / 1e3,
        (double)histogram_quantile(h, 0.99) / 1e3, (double)histogram_quantile(h, 0.999) / 1e3,
        (double)h->max / 1e3, (double)l->own.cpu_ns / 1e9, l->server_cpu);
    if (l->buckets) {
        const char *comma = "";
        printf(",\"buckets_ns\":[");
        for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++) {
            if (h->buckets[b] != 0) {
                printf("%s[%llu,%llu]", comma, (unsigned long long)histogram_high(b),
                       (unsigned long long)h->buckets[b]);
                comma = ",";
            }
        }
        printf("]");
    }
    printf("}\n");
}

/* A random permutation of the keys. */
static void shuffle(struct load *l)
{
    l->order = calloc(l->keys, sizeof(*l->order));
    if (l->order == NULL) {
        die("out of memory");
    }
    for (uint32_t i = 0; i < l->keys; i++) {
        uint64_t k = random_below(&l->random, i + 1);
        l->order[i] = l->order[k];
        l->order[k] = i;
    }
    l->requests = l->keys;
}

static void parse(struct load *l, int argc, char **argv)
{
    const struct {
        const char *name;
        unsigned *to;
    } numbers[] = {{"--port", &l->port},         {"--connections", &l->connections},
                   {"--pipeline", &l->pipeline}, {"--gets", &l->gets},
                   {"--sets", &l->sets},         {"--pid", &l->pid}};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--fill") == 0) {
            l->fill = true;
            continue;
        }
        if (strcmp(name, "--buckets") == 0) {
            l->buckets = true;
            continue;
        }
        const char *value = i + 1 < argc ? argv[++i] : NULL;
        bool known = value != NULL;
        if (known && strcmp(name, "--host") == 0) {
            l->host = value;
        } else if (known && strcmp(name, "--keys") == 0) {
            l->keys = strtoull(value, NULL, 10);
        } else if (known && strcmp(name, "--requests") == 0) {
            l->requests = strtoull(value, NULL, 10);
        } else if (known && strcmp(name, "--value") == 0) {
            l->traffic.value_size = strtoull(value, NULL, 10);
        } else if (known && strcmp(name, "--seed") == 0) {
            l->random = strtoull(value, NULL, 10);
        } else if (known && strcmp(name, "--seconds") == 0) {
            l->seconds = strtod(value, NULL);
        } else if (known && strcmp(name, "--warmup") == 0) {
            l->warmup = strtod(value, NULL);
        } else {
            size_t k = 0, count = sizeof(numbers) / sizeof(numbers[0]);
            while (k < count && (!known || strcmp(name, numbers[k].name) != 0)) {
                k++;
            }
            if (k == count) {
                die("unknown option, or one without a value: %s", name);
            }
            *numbers[k].to = (unsigned)strtoul(value, NULL, 10);
        }
    }
}

static void check_options(const struct load *l)
{
    if (l->port == 0 || l->port > 65535) {
        die("--port is needed");
    }
    if (l->connections == 0 || l->connections > MAX_CONNECTIONS || l->pipeline == 0 ||
        l->pipeline > PEER_MAX_PIPELINE) {
        die("1 to %u connections, pipelines of 1 to %u", MAX_CONNECTIONS, PEER_MAX_PIPELINE);
    }
    if (l->traffic.value_size < PEER_DIGITS || l->traffic.value_size > PEER_MAX_VALUE) {
        die("values of %u to %u bytes", PEER_DIGITS, PEER_MAX_VALUE);
    }
    if (l->keys == 0 || l->keys >> 32 != 0 || l->gets + l->sets == 0) {
        die("1 to 2^32 - 1 keys; --gets or --sets above 0");
    }
}

int main(int argc, char **argv)
{
    static struct load l = {.host = "127.0.0.1", .connections = 50, .pipeline = 1, .gets = 1};
    l.keys = 1000000;
    l.seconds = 2;
    l.traffic.value_size = 100;
    l.random = 42;
    parse(&l, argc, argv);
    check_options(&l);
    l.traffic.filler = peer_make_filler();
    if (l.fill) {
        shuffle(&l);
    }
    run(&l);
    report(&l);
    free(l.order);
    free((void *)(uintptr_t)l.traffic.filler);
    return 0;
}
