/* test_log_threads.c - a thread that appends, one that writes and syncs, one that prepares and
 * recycles, on a real disk: for the thread sanitizer, and for what a scan finds afterwards. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/log.h"
#include "storage/vfs.h"
#include "tests/support/log_whole.h"

#define COMMITS 20000u
#define SEGMENT (64u * 1024)

struct shared {
    struct log *log;
    pthread_mutex_t mutex;
    struct log_pos appended, durable;
    struct log_pos kept; /* the position recycled up to */
    uint64_t errors;
    bool done;
};

static void get(struct shared *s, struct log_pos *appended, struct log_pos *durable)
{
    pthread_mutex_lock(&s->mutex);
    *appended = s->appended;
    *durable = s->durable;
    pthread_mutex_unlock(&s->mutex);
}

static void count_error(struct shared *s, int rc)
{
    pthread_mutex_lock(&s->mutex);
    s->errors += rc != 0;
    pthread_mutex_unlock(&s->mutex);
}

/* However the threads are scheduled, something is recycled while there is still to append. */
static void await_recycling(struct shared *s)
{
    struct log_stats stats;
    for (log_get_stats(s->log, &stats); stats.segments_recycled == 0;
         log_get_stats(s->log, &stats)) {
        sched_yield();
    }
}

static void *append_all(void *arg)
{
    struct shared *s = arg;
    char payload[2000] = {0};

    for (uint64_t seq = 1; seq <= COMMITS; seq++) {
        struct log_pos appended, durable, end = {0};
        size_t len = seq % 16 == 0 ? sizeof(payload) : 150;

        get(s, &appended, &durable);
        memcpy(payload, &seq, sizeof(seq));
        count_error(s, log_reserve(s->log, 1, len, NULL));
        count_error(s, log_append(s->log, seq, seq, durable.seq, payload, len, &end));
        pthread_mutex_lock(&s->mutex);
        s->appended = end;
        pthread_mutex_unlock(&s->mutex);
        if (seq == COMMITS / 2)
            await_recycling(s);
    }
    return NULL;
}

static void *write_all(void *arg)
{
    struct shared *s = arg;
    struct log_pos appended, durable;

    do {
        get(s, &appended, &durable);
        count_error(s, log_write(s->log, NULL));
        count_error(s, log_sync(s->log, NULL));
        pthread_mutex_lock(&s->mutex);
        s->durable = appended;
        pthread_mutex_unlock(&s->mutex);
    } while (appended.seq < COMMITS);
    pthread_mutex_lock(&s->mutex);
    s->done = true;
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

static void *recycle_all(void *arg)
{
    struct shared *s = arg;
    bool done = false;

    while (!done) {
        struct log_pos appended, durable;
        struct log_stats stats;

        get(s, &appended, &durable);
        if (durable.seq > COMMITS / 2 && s->kept.seq != 0)
            durable = s->kept; /* leave something for the scan */
        s->kept = durable;
        log_recycle(s->log, &durable);
        count_error(s, log_prepare(s->log, NULL));
        log_get_stats(s->log, &stats);
        pthread_mutex_lock(&s->mutex);
        done = s->done;
        pthread_mutex_unlock(&s->mutex);
        if (!done)
            sched_yield();
    }
    return NULL;
}

static int check(void *arg, uint64_t seq, uint64_t stamp, const void *payload, size_t len,
                 const struct log_pos *after)
{
    uint64_t stored;

    assert_true(len >= sizeof(stored));
    memcpy(&stored, payload, sizeof(stored));
    assert_int_equal(stored, seq);
    assert_int_equal(stamp, seq);
    assert_int_equal(after->seq, seq);
    ++*(uint64_t *)arg;
    return 0;
}

static void remove_name(void *arg, const char *name)
{
    char path[200];

    snprintf(path, sizeof(path), "%s/%s", (const char *)arg, name);
    assert_int_equal(unlink(path), 0);
}

static void appending_writing_and_recycling_run_beside_each_other(void **state)
{
    const struct ps_vfs *vfs = ps_vfs_posix();
    struct shared s = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct log_pos from = {0}, end;
    char dir[] = "/tmp/pando-log-XXXXXX";
    pthread_t threads[3];
    struct log_stats stats;
    uint64_t torn, replayed = 0;

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(log_open(vfs, dir, SEGMENT, &s.log, NULL), 0);
    assert_int_equal(log_start(s.log, &from, NULL), 0);
    assert_int_equal(pthread_create(&threads[0], NULL, append_all, &s), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, write_all, &s), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, recycle_all, &s), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(s.errors, 0);
    assert_int_equal(s.durable.seq, COMMITS);
    log_get_stats(s.log, &stats);
    assert_true(stats.segments_recycled > 0);
    log_close(s.log);

    assert_int_equal(log_open(vfs, dir, SEGMENT, &s.log, NULL), 0);
    assert_int_equal(log_scan(s.log, &s.kept, &end, &torn, NULL), 0);
    assert_int_equal(end.position, s.durable.position);
    assert_int_equal(log_replay_whole(s.log, &s.kept, &end, check, &replayed, NULL), 0);
    assert_int_equal(replayed, COMMITS - s.kept.seq);
    log_close(s.log);
    assert_int_equal(vfs->list(vfs->ctx, dir, remove_name, dir), 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appending_writing_and_recycling_run_beside_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
