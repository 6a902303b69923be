/*
 * main.c - transactions far larger than memory: they commit, are replayed, roll back, and abort.
 *
 *   large [--mib N] [--dirty-mib N] [--value N] [--limit-mib N] [--seed N]
 *
 * N MiB of keys and values in one transaction (256), over dirty memory of N MiB (16), values of N
 * bytes (1000). With --limit-mib everything runs in a memory cgroup (version 1) of that size, page
 * cache included; where there are none it is skipped with the reason. A round:
 *
 *   commit     ascending keys, committed; all are there
 *   replay     opened again without a checkpoint: the log holds the transaction alone
 *   roll back  half the old keys and as many new ones, under a savepoint; then a small change is
 * committed abort      random keys, an eighth of the bytes; nothing of it is left
 *
 * After each, the anonymous memory that the process ever had must be below dirty memory, an
 * allowance for lists (a sixteenth of the transaction), and a constant. Figures are printed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "storage/pandostore.h"
#include "tests/support/store_dir.h"

#define CONSTANT_MIB 64
#define LOOK_EVERY   1000 /* puts */
#define ROUNDS       4

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURES_MEMORY false /* it is the sanitizer's */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MEASURES_MEMORY false
#endif
#endif
#ifndef MEASURES_MEMORY
#define MEASURES_MEMORY true
#endif

struct options {
    uint64_t mib, dirty_mib, value, limit_mib, seed;
};

struct run {
    struct options o;
    char dir[STORE_DIR_PATH + 8];
    struct ps_store *store;
    ps_tree tree;
    uint64_t puts; /* in a transaction */
    uint64_t rng;
    uint64_t peak_kib; /* of anonymous memory, in this round */
    uint64_t began_io;
    struct timespec began;
    char *value;
};

static void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("FAILED ");
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    exit(1);
}

static void must(int rc, const char *call)
{
    if (rc != 0)
        die("%s answered %d (%s)", call, rc, ps_strerror(rc));
}

/* ---- figures --------------------------------------------------------------------------------- */

static uint64_t number_in(const char *path, const char *name)
{
    char line[256];
    uint64_t n = 0;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0)
            n = strtoull(line + strlen(name), NULL, 10);
    if (f)
        fclose(f);
    return n;
}

static void look(struct run *r)
{
    uint64_t kib = number_in("/proc/self/status", "RssAnon:");
    r->peak_kib = kib > r->peak_kib ? kib : r->peak_kib;
}

static void begin_round(struct run *r)
{
    r->peak_kib = 0;
    r->began_io = number_in("/proc/self/io", "write_bytes:");
    clock_gettime(CLOCK_MONOTONIC, &r->began);
}

static void end_round(struct run *r, const char *name)
{
    struct timespec now;
    struct ps_stat stat;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double s =
        (double)(now.tv_sec - r->began.tv_sec) + 1e-9 * (double)(now.tv_nsec - r->began.tv_nsec);
    look(r);
    ps_stats(r->store, &stat);
    uint64_t written = number_in("/proc/self/io", "write_bytes:") - r->began_io;
    uint64_t most = r->o.dirty_mib + r->o.mib / 16 + CONSTANT_MIB;
    printf("NOTE %s: %.1f s, %llu MiB anonymous at most, %llu MiB written; file %llu MiB, log %llu "
           "segments; %llu pages spilled, %llu again, %llu pieces of log ahead, %llu replayed\n",
           name, s, (unsigned long long)(r->peak_kib >> 10), (unsigned long long)(written >> 20),
           (unsigned long long)(stat.file_bytes >> 20), (unsigned long long)stat.log_segments,
           (unsigned long long)stat.spilled_pages, (unsigned long long)stat.spilled_again,
           (unsigned long long)stat.log_pieces_early, (unsigned long long)stat.replayed_pieces);
    fflush(stdout);
    if (MEASURES_MEMORY && r->peak_kib >> 10 > most)
        die("%s took more than %llu MiB of anonymous memory", name, (unsigned long long)most);
}

/* ---- the store --------------------------------------------------------------------------------
 */

static void open_store(struct run *r)
{
    struct ps_fault fault = {0};
    struct ps_options options = {
        .dirty_memory = r->o.dirty_mib << 20, .durability = PS_EVERYSEC, .manual_checkpoint = true};
    int rc = ps_open(r->dir, &options, &r->store, NULL, &fault);
    if (rc != 0)
        die("opening answered %d: %s: %s", rc, fault.file, fault.what);
}

static uint64_t next_random(struct run *r)
{
    r->rng ^= r->rng << 13;
    r->rng ^= r->rng >> 7;
    r->rng ^= r->rng << 17;
    return r->rng;
}

static struct ps_slice key_of(char buffer[24], uint64_t number)
{
    int n = snprintf(buffer, 24, "key %016llu", (unsigned long long)number);
    return (struct ps_slice){buffer, (size_t)n};
}

/* The number is in the value's beginning, `tag` in its last byte. */
static void put_all(struct run *r, struct ps_txn *txn, uint64_t puts, bool random, char tag)
{
    char key[24];
    for (uint64_t i = 0; i < puts; i++) {
        uint64_t number = random ? next_random(r) % (2 * r->puts) : i + (tag == 'b' ? puts / 2 : 0);
        memcpy(r->value, &number, sizeof number);
        r->value[r->o.value - 1] = tag;
        struct ps_slice value = {r->value, r->o.value};
        must(ps_put(txn, r->tree, key_of(key, number), value), "ps_put");
        if (i % LOOK_EVERY == 0)
            look(r);
    }
    look(r);
}

static void expect_first_state(struct run *r, uint64_t more)
{
    struct ps_snapshot *snap;
    char key[24];
    uint64_t count;
    must(ps_snapshot_new(r->store, &snap), "ps_snapshot_new");
    ps_snapshot_renew(snap);
    struct ps_view *view = ps_snapshot_view(snap);
    must(ps_count(view, r->tree, &count), "ps_count");
    if (count != r->puts + more)
        die("%llu entries, not %llu", (unsigned long long)count,
            (unsigned long long)r->puts + more);
    for (uint64_t i = 0; i < r->puts; i += 1 + r->puts / 5000) {
        struct ps_slice value;
        must(ps_get(view, r->tree, key_of(key, i), &value), "ps_get");
        if (value.len != r->o.value || memcmp(value.data, &i, sizeof i) != 0 ||
            ((const char *)value.data)[value.len - 1] != 'a')
            die("key %llu has another value", (unsigned long long)i);
    }
    ps_snapshot_free(snap);
}

static struct ps_txn *begin_whole(struct run *r)
{
    struct ps_txn *txn;
    must(ps_begin(r->store, &txn), "ps_begin");
    ps_keep_whole(txn);
    return txn;
}

/* ---- the rounds -------------------------------------------------------------------------------
 */

static void finding(void *arg, const char *line)
{
    (void)arg;
    printf("ps_check: %s\n", line);
}

static void round_commit(struct run *r)
{
    begin_round(r);
    struct ps_txn *txn = begin_whole(r);
    must(ps_tree_create(txn, (struct ps_slice){"tree", 4}, &r->tree), "ps_tree_create");
    put_all(r, txn, r->puts, false, 'a');
    must(ps_commit(txn, PS_ALWAYS, NULL), "ps_commit");
    expect_first_state(r, 0);
    end_round(r, "commit");
}

static void round_replay(struct run *r)
{
    must(ps_close(r->store, false), "ps_close");
    begin_round(r);
    open_store(r);
    expect_first_state(r, 0);
    end_round(r, "replay");
}

static void round_roll_back(struct run *r)
{
    struct ps_slice one = {"one", 3};
    must(ps_checkpoint(r->store), "ps_checkpoint"); /* what was committed is in a space map now */
    begin_round(r);
    struct ps_txn *txn = begin_whole(r);
    must(ps_put(txn, r->tree, one, one), "ps_put");
    must(ps_savepoint(txn), "ps_savepoint");
    put_all(r, txn, r->puts, false, 'b');
    must(ps_savepoint_rollback(txn), "ps_savepoint_rollback");
    must(ps_commit(txn, PS_ALWAYS, NULL), "ps_commit");
    expect_first_state(r, 1);
    end_round(r, "roll back");
}

static void round_abort(struct run *r)
{
    struct ps_stat before, after;
    must(ps_checkpoint(r->store), "ps_checkpoint");
    ps_stats(r->store, &before);
    begin_round(r);
    struct ps_txn *txn = begin_whole(r);
    put_all(r, txn, r->puts / 8, true, 'c');
    ps_abort(txn);
    expect_first_state(r, 1);
    end_round(r, "abort");
    must(ps_checkpoint(r->store), "ps_checkpoint");
    must(ps_check(r->store, finding, NULL), "ps_check");
    ps_stats(r->store, &after);
    if (after.file_pages - after.file_pages_free > before.file_pages - before.file_pages_free + 64)
        die("%llu pages are in use after an abort, %llu before",
            (unsigned long long)(after.file_pages - after.file_pages_free),
            (unsigned long long)(before.file_pages - before.file_pages_free));
}

static int run_all(const struct options *o, const char *dir)
{
    struct run r = {.o = *o, .rng = o->seed * 0x9e3779b97f4a7c15u + 1};
    snprintf(r.dir, sizeof r.dir, "%s/store", dir);
    r.puts = (o->mib << 20) / (o->value + 20);
    r.value = calloc(1, o->value);
    if (r.value == NULL)
        die("out of memory");
    open_store(&r);
    round_commit(&r);
    round_replay(&r);
    round_roll_back(&r);
    round_abort(&r);
    must(ps_close(r.store, true), "ps_close");
    free(r.value);
    return 0;
}

/* ---- a memory cgroup ---------------------------------------------------------------------------
 */

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* A group below the one this process is in; empty when there is none to be had. */
static void make_group(char group[256], uint64_t limit_mib)
{
    char line[256], path[320], text[32];
    FILE *f = fopen("/proc/self/cgroup", "r");
    group[0] = '\0';
    while (f && fgets(line, sizeof line, f)) {
        char *name = strstr(line, ":memory:");
        if (name == NULL)
            continue;
        name += strlen(":memory:");
        name[strcspn(name, "\n")] = '\0';
        snprintf(group, 256, "/sys/fs/cgroup/memory%.128s/pando-large-%d",
                 strcmp(name, "/") == 0 ? "" : name, (int)getpid());
    }
    if (f)
        fclose(f);
    if (group[0] == '\0')
        return;
    snprintf(path, sizeof path, "%s/memory.limit_in_bytes", group);
    snprintf(text, sizeof text, "%llu", (unsigned long long)limit_mib << 20);
    if (mkdir(group, 0755) != 0 || !write_text(path, text)) {
        rmdir(group);
        group[0] = '\0';
    }
}

/* In a child of its own, so that a failure counts as one and the group can be removed. */
static int run_child(const struct options *o, const char *dir, const char *group)
{
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        die("fork: %s", strerror(errno));
    if (child == 0) {
        char path[320], pid[32];
        snprintf(path, sizeof path, "%s/cgroup.procs", group);
        snprintf(pid, sizeof pid, "%d", (int)getpid());
        if (group[0] != '\0' && !write_text(path, pid))
            die("joining %s: %s", group, strerror(errno));
        exit(run_all(o, dir));
    }
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (group[0] != '\0') {
        char path[320];
        snprintf(path, sizeof path, "%s/memory.max_usage_in_bytes", group);
        printf("NOTE %llu MiB of the group's memory used at most, page cache included\n",
               (unsigned long long)(number_in(path, "") >> 20));
    }
    if (WIFSIGNALED(status))
        printf("FAILED ended by %s\n", strsignal(WTERMSIG(status)));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

static void parse(int argc, char **argv, struct options *o)
{
    const struct {
        const char *name;
        uint64_t *number;
    } known[] = {{"--mib", &o->mib},
                 {"--dirty-mib", &o->dirty_mib},
                 {"--value", &o->value},
                 {"--limit-mib", &o->limit_mib},
                 {"--seed", &o->seed}};
    for (int i = 1; i < argc; i += 2) {
        size_t k = 0;
        while (k < 5 && strcmp(argv[i], known[k].name) != 0)
            k++;
        char *end = NULL;
        uint64_t n = k < 5 && i + 1 < argc ? strtoull(argv[i + 1], &end, 10) : 0;
        if (end == NULL || *end != '\0') {
            fprintf(stderr, "%s: %s is not an option with a number\n", argv[0], argv[i]);
            exit(2);
        }
        *known[k].number = n;
    }
}

int main(int argc, char **argv)
{
    struct options o = {.mib = 256, .dirty_mib = 16, .value = 1000, .seed = 1};
    char dir[STORE_DIR_PATH], group[256] = "";
    parse(argc, argv, &o);
    if (o.limit_mib != 0) {
        make_group(group, o.limit_mib);
        if (group[0] == '\0') {
            printf("NOTE skipped: no memory cgroup of version 1 can be made here\n");
            printf("SUITE large required=%d executed=0 passed=0 failed=0 skipped=%d\n", ROUNDS,
                   ROUNDS);
            return 0;
        }
    }
    store_dir_make(dir, "pando-large");
    int failed = run_child(&o, dir, group);
    if (group[0] != '\0')
        rmdir(group);
    store_dir_remove(dir);
    printf("SUITE large required=%d executed=%d passed=%d failed=%d skipped=0\n", ROUNDS, ROUNDS,
           failed ? 0 : ROUNDS, failed);
    return failed;
}
