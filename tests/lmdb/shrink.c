/*
 * shrink.c - delta debugging: chunks of half, a quarter, ... one operation are left out, each for
 * good if the rest still fails.
 *
 * What the engine's own threads do differs from run to run, so a candidate that passes once may be
 * one that would have failed: the result fails, but need not be the shortest.
 */
#include "tests/lmdb/shrink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_TRIES   1500
#define MOST_SECONDS 90
#define FIRST_TRIES  5 /* until it fails again */

int stream_select(struct stream *s, const struct stream *of, const size_t *numbers, size_t n)
{
    s->config = of->config;
    s->n = n;
    s->ops = malloc((n + 1) * sizeof *s->ops);
    if (!s->ops)
        return -1;
    for (size_t i = 0; i < n; i++)
        s->ops[i] = of->ops[numbers[i]];
    return 0;
}

static bool fails(struct shrunk *s, struct child *c, const struct stream *of, const size_t *numbers,
                  size_t n, enum fault fault)
{
    struct stream candidate;
    if (stream_select(&candidate, of, numbers, n))
        abort();
    s->tries++;
    bool failed = !child_run(c, &candidate, fault, true);
    stream_free(&candidate);
    if (failed) {
        memcpy(s->assertion, c->report->assertion, sizeof s->assertion);
        memcpy(s->text, c->report->text, sizeof s->text);
    }
    return failed;
}

/* Leaves out one chunk after the other; how many operations are left. */
static size_t leave_out(struct shrunk *s, struct child *c, const struct stream *of, size_t n,
                        size_t chunk, enum fault fault, time_t until)
{
    size_t *candidate = malloc((n + 1) * sizeof *candidate), end = n;
    if (!candidate)
        abort();
    while (end > 0 && s->tries < MOST_TRIES && time(NULL) < until) {
        size_t from = end > chunk ? end - chunk : 0;
        memcpy(candidate, s->numbers, from * sizeof *candidate);
        memcpy(candidate + from, s->numbers + end, (n - end) * sizeof *candidate);
        if (fails(s, c, of, candidate, n - (end - from), fault)) {
            n -= end - from;
            memcpy(s->numbers, candidate, n * sizeof *candidate);
        }
        end = from;
    }
    free(candidate);
    return n;
}

void shrink(struct shrunk *s, struct child *c, const struct stream *stream, size_t at,
            enum fault fault)
{
    size_t n = at + 1 < stream->n ? at + 1 : stream->n;
    time_t until = time(NULL) + MOST_SECONDS;
    *s = (struct shrunk){.numbers = malloc((n + 1) * sizeof *s->numbers)};
    if (!s->numbers)
        abort();
    for (size_t i = 0; i < n; i++)
        s->numbers[i] = i;
    for (unsigned i = 0; i < FIRST_TRIES && !s->again; i++)
        s->again = fails(s, c, stream, s->numbers, n, fault);
    for (size_t chunk = (n + 1) / 2; s->again && chunk > 0;) {
        size_t before = n;
        n = leave_out(s, c, stream, n, chunk, fault, until);
        if (chunk > 1)
            chunk /= 2;
        else if (n == before || s->tries >= MOST_TRIES || time(NULL) >= until)
            break;
    }
    if (stream_select(&s->stream, stream, s->numbers, n))
        abort();
}

void shrunk_free(struct shrunk *s)
{
    stream_free(&s->stream);
    free(s->numbers);
}

void shrunk_print(const struct shrunk *s)
{
    config_print(&s->stream.config);
    for (size_t i = 0; i < s->stream.n; i++)
        op_print(&s->stream.config, &s->stream.ops[i], s->numbers[i]);
    printf("  --only ");
    for (size_t i = 0; i < s->stream.n; i++)
        printf("%s%zu", i ? "," : "", s->numbers[i]);
    printf("\n");
}
