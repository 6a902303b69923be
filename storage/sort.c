/*
 * sort.c - see sort.h.
 *
 * A run in the file: for each entry u64 length of the key, u64 length of the value, the bytes.
 */
#include "storage/sort.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/store.h"

#define USUAL_MEMORY (UINT64_C(64) << 20)
#define LEAST_MEMORY (UINT64_C(64) << 10)
#define LEAST_BUFFER (UINT64_C(4) << 10) /* of a run that is read */
#define MOST_BUFFER  (UINT64_C(1) << 20)
#define MOST_RUNS    256u /* that are merged at once */

/* An entry in memory, behind which its key and value stand. */
struct entry {
    uint64_t key_len, value_len;
    uint64_t number; /* of the put: of equal keys the highest counts */
    uint8_t bytes[];
};

struct run {
    uint64_t from, to;
};

/* A run that is being read. */
struct source {
    uint64_t at, to; /* in the file: what is not in the buffer yet */
    uint8_t *buffer;
    size_t room, used, n; /* bytes of it that were given, and that there are */
    struct ps_slice key, value;
    bool ended;
};

struct sort {
    char *dir;
    uint64_t memory;
    int fd; /* -1: none yet */
    uint64_t end;
    VEC(struct entry *) entries;
    uint64_t bytes, number;
    VEC(struct run) runs;
    uint64_t made;
    uint8_t *out; /* what is about to be written */
    size_t out_n, out_room;
};

struct sort *sort_new(const char *dir, uint64_t memory)
{
    struct sort *s = calloc(1, sizeof *s);
    if (s == NULL || (s->dir = strdup(dir)) == NULL) {
        free(s);
        return NULL;
    }
    memory = memory == 0 ? USUAL_MEMORY : memory;
    s->memory = memory < LEAST_MEMORY ? LEAST_MEMORY : memory;
    s->fd = -1;
    return s;
}

static void forget_entries(struct sort *s)
{
    for (size_t i = 0; i < s->entries.n; i++) {
        free(s->entries.at[i]);
    }
    s->entries.n = 0;
    s->bytes = 0;
}

void sort_free(struct sort *s)
{
    if (s == NULL) {
        return;
    }
    forget_entries(s);
    vec_free(&s->entries);
    vec_free(&s->runs);
    if (s->fd >= 0) {
        (void)close(s->fd);
    }
    free(s->out);
    free(s->dir);
    free(s);
}

uint64_t sort_runs(const struct sort *s)
{
    return s->made;
}

/* ---- order ------------------------------------------------------------------------------------
 */

static struct ps_slice key_of(const struct entry *e)
{
    return (struct ps_slice){e->bytes, (size_t)e->key_len};
}

static struct ps_slice value_of(const struct entry *e)
{
    return (struct ps_slice){e->bytes + e->key_len, (size_t)e->value_len};
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a;
    const struct entry *y = *(struct entry *const *)b;
    int c = slice_order(key_of(x), key_of(y));
    return c != 0 ? c : (x->number > y->number) - (x->number < y->number);
}

/* Sorted, and only the last of equal keys. */
static void put_in_order(struct sort *s)
{
    if (s->entries.n < 2) {
        return;
    }
    qsort(s->entries.at, s->entries.n, sizeof *s->entries.at, compare_entries);
    size_t kept = 0;
    for (size_t i = 0; i < s->entries.n; i++) {
        bool again = i + 1 < s->entries.n &&
                     slice_order(key_of(s->entries.at[i]), key_of(s->entries.at[i + 1])) == 0;
        if (again) {
            free(s->entries.at[i]);
        } else {
            s->entries.at[kept++] = s->entries.at[i];
        }
    }
    s->entries.n = kept;
}

/* ---- the file ---------------------------------------------------------------------------------
 */

static int open_file(struct sort *s)
{
    if (s->fd >= 0) {
        return 0;
    }
    s->fd = open(s->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (s->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
        char path[4200];
        snprintf(path, sizeof path, "%s/bulk-sort-XXXXXX", s->dir);
        s->fd = mkostemp(path, O_CLOEXEC);
        if (s->fd >= 0) {
            (void)unlink(path);
        }
    }
    return s->fd >= 0 ? 0 : errno_code(-errno);
}

static int write_out(struct sort *s)
{
    size_t done = 0;
    while (done < s->out_n) {
        ssize_t n = pwrite(s->fd, s->out + done, s->out_n - done, (off_t)s->end);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? errno_code(-errno) : PS_NOSPACE;
        }
        done += (size_t)n;
        s->end += (uint64_t)n;
    }
    s->out_n = 0;
    return 0;
}

static int write_bytes(struct sort *s, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    while (len > 0) {
        size_t n = s->out_room - s->out_n < len ? s->out_room - s->out_n : len;
        memcpy(s->out + s->out_n, at, n);
        s->out_n += n;
        at += n;
        len -= n;
        int rc = s->out_n == s->out_room ? write_out(s) : 0;
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int write_entry(void *arg, struct ps_slice key, struct ps_slice value)
{
    struct sort *s = arg;
    uint64_t lengths[2] = {key.len, value.len};
    int rc = write_bytes(s, lengths, sizeof lengths);
    rc = rc == 0 ? write_bytes(s, key.data, key.len) : rc;
    return rc == 0 ? write_bytes(s, value.data, value.len) : rc;
}

static int begin_run(struct sort *s, struct run *run)
{
    int rc = open_file(s);
    if (rc == 0 && s->out == NULL) {
        s->out_room = (size_t)(s->memory / 16 < MOST_BUFFER ? s->memory / 16 : MOST_BUFFER);
        s->out = malloc(s->out_room);
    }
    run->from = s->end;
    return rc == 0 && s->out == NULL ? PS_NOMEM : rc;
}

static int end_run(struct sort *s, struct run *run)
{
    int rc = write_out(s);
    run->to = s->end;
    s->made += rc == 0;
    return rc;
}

/* What was gathered becomes a run. */
static int put_away(struct sort *s)
{
    struct run run;
    put_in_order(s);
    int rc = begin_run(s, &run);
    for (size_t i = 0; rc == 0 && i < s->entries.n; i++) {
        rc = write_entry(s, key_of(s->entries.at[i]), value_of(s->entries.at[i]));
    }
    rc = rc == 0 ? end_run(s, &run) : rc;
    rc = rc == 0 && !vec_push(&s->runs, run) ? PS_NOMEM : rc;
    forget_entries(s);
    return rc;
}

/* ---- merging ----------------------------------------------------------------------------------
 */

/* At least `want` bytes of a run in the buffer behind what was given. */
static int fill(struct sort *s, struct source *src, size_t want)
{
    if (src->n - src->used >= want) {
        return 0;
    }
    memmove(src->buffer, src->buffer + src->used, src->n - src->used);
    src->n -= src->used;
    src->used = 0;
    if (want > src->room) {
        uint8_t *larger = realloc(src->buffer, want);
        if (larger == NULL) {
            return PS_NOMEM;
        }
        src->buffer = larger;
        src->room = want;
    }
    while (src->n < want) {
        uint64_t left = src->to - src->at;
        size_t most = src->room - src->n < left ? src->room - src->n : (size_t)left;
        ssize_t n = pread(s->fd, src->buffer + src->n, most, (off_t)src->at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return PS_IO;
        }
        src->n += (size_t)n;
        src->at += (uint64_t)n;
    }
    return 0;
}

/* The next entry of a run; its bytes stay where they are until the one after it is asked for. */
static int advance(struct sort *s, struct source *src)
{
    uint64_t lengths[2];
    if (src->at == src->to && src->used == src->n) {
        src->ended = true;
        return 0;
    }
    int rc = fill(s, src, sizeof lengths);
    if (rc != 0) {
        return rc;
    }
    memcpy(lengths, src->buffer + src->used, sizeof lengths);
    size_t len = (size_t)(lengths[0] + lengths[1]);
    rc = fill(s, src, sizeof lengths + len);
    if (rc == 0) {
        const uint8_t *at = src->buffer + src->used + sizeof lengths;
        src->key = (struct ps_slice){at, (size_t)lengths[0]};
        src->value = (struct ps_slice){at + lengths[0], (size_t)lengths[1]};
        src->used += sizeof lengths + len;
    }
    return rc;
}

/* Which of two runs comes first; of equal keys the older one, so that the newer is given last. */
static bool is_before(const struct source *sources, size_t a, size_t b)
{
    int c = slice_order(sources[a].key, sources[b].key);
    return c != 0 ? c < 0 : a < b;
}

static void sift(const struct source *sources, size_t *heap, size_t n, size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < n; k++) {
            least = is_before(sources, heap[k], heap[least]) ? k : least;
        }
        if (least == i) {
            return;
        }
        size_t other = heap[i];
        heap[i] = heap[least];
        heap[least] = other;
        i = least;
    }
}

/* Gives the entries of these runs, in the order of their making. */
static int merge_sources(struct sort *s, struct source *sources, size_t *heap, size_t runs,
                         int (*entry)(void *arg, struct ps_slice key, struct ps_slice value),
                         void *arg)
{
    size_t n = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < runs; i++) {
        rc = advance(s, &sources[i]);
        if (!sources[i].ended) {
            heap[n++] = i;
        }
    }
    for (size_t i = n; rc == 0 && i-- > 0;) {
        sift(sources, heap, n, i);
    }
    while (rc == 0 && n > 0) {
        struct source *first = &sources[heap[0]];
        bool again = (n > 1 && slice_order(first->key, sources[heap[1]].key) == 0) ||
                     (n > 2 && slice_order(first->key, sources[heap[2]].key) == 0);
        rc = again ? 0 : entry(arg, first->key, first->value);
        rc = rc == 0 ? advance(s, first) : rc;
        if (first->ended) {
            heap[0] = heap[--n];
        }
        sift(sources, heap, n, 0);
    }
    return rc;
}

/* Gives the entries of the oldest runs. */
static int merge(struct sort *s, size_t runs,
                 int (*entry)(void *arg, struct ps_slice key, struct ps_slice value), void *arg)
{
    struct source *sources = calloc(runs, sizeof *sources);
    size_t *heap = calloc(runs, sizeof *heap);
    uint64_t room = s->memory / (runs + 1);
    room = room < LEAST_BUFFER ? LEAST_BUFFER : room > MOST_BUFFER ? MOST_BUFFER : room;
    int rc = sources == NULL || heap == NULL ? PS_NOMEM : 0;
    for (size_t i = 0; rc == 0 && i < runs; i++) {
        const struct run *run = &s->runs.at[i];
        sources[i] = (struct source){
            .at = run->from, .to = run->to, .buffer = malloc((size_t)room), .room = (size_t)room};
        rc = sources[i].buffer == NULL ? PS_NOMEM : 0;
    }
    rc = rc == 0 ? merge_sources(s, sources, heap, runs, entry, arg) : rc;
    for (size_t i = 0; sources != NULL && i < runs; i++) {
        free(sources[i].buffer);
    }
    free(sources);
    free(heap);
    return rc;
}

/* The oldest runs become one, while there are too many. */
static int lessen(struct sort *s, size_t most)
{
    int rc = 0;
    while (rc == 0 && s->runs.n > most) {
        struct run run;
        rc = begin_run(s, &run);
        rc = rc == 0 ? merge(s, most, write_entry, s) : rc;
        rc = rc == 0 ? end_run(s, &run) : rc;
        if (rc == 0) { /* in the place of those that it is made of */
            s->runs.at[0] = run;
            memmove(s->runs.at + 1, s->runs.at + most, (s->runs.n - most) * sizeof *s->runs.at);
            s->runs.n -= most - 1;
        }
    }
    return rc;
}

/* ---- from outside -----------------------------------------------------------------------------
 */

int sort_put(struct sort *s, struct ps_slice key, struct ps_slice value)
{
    struct entry *e = malloc(sizeof *e + key.len + value.len);
    if (e == NULL || !vec_reserve(&s->entries, 1)) {
        free(e);
        return PS_NOMEM;
    }
    *e = (struct entry){key.len, value.len, s->number++};
    if (key.len > 0) {
        memcpy(e->bytes, key.data, key.len);
    }
    if (value.len > 0) {
        memcpy(e->bytes + key.len, value.data, value.len);
    }
    vec_put(&s->entries, e);
    s->bytes += sizeof *e + sizeof e + key.len + value.len;
    return s->bytes >= s->memory ? put_away(s) : 0;
}

int sort_give(struct sort *s, int (*entry)(void *arg, struct ps_slice key, struct ps_slice value),
              void *arg)
{
    int rc = 0;
    if (s->runs.n == 0) {
        put_in_order(s);
        for (size_t i = 0; rc == 0 && i < s->entries.n; i++) {
            rc = entry(arg, key_of(s->entries.at[i]), value_of(s->entries.at[i]));
        }
        return rc;
    }
    rc = s->entries.n > 0 ? put_away(s) : 0;
    uint64_t most = s->memory / LEAST_BUFFER / 2;
    rc = rc == 0 ? lessen(s, most > MOST_RUNS ? MOST_RUNS : (size_t)most) : rc;
    return rc == 0 ? merge(s, s->runs.n, entry, arg) : rc;
}
