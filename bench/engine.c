/*
 * engine.c - one storage engine alone: the workloads of a set, once; one line of JSON for each.
 *
 *   engine --engine NAME --dir DIR [--set SET] [--records N] [--seconds S] [--only WORKLOAD,...]
 *
 * DIR must be empty. bench/engine (the script) starts one process for each engine and repetition,
 * and compares. The load always runs, others only if they are named (all, without --only).
 *
 * Processor time is that of all threads, so that what an engine leaves to its helpers counts.
 */
#include "bench/support/engines.h"
#include "bench/support/measure.h"
#include "bench/support/workloads.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct bench_engine *const engines[] = {
    &bench_pando,   &bench_lmdb,   &bench_lmdb_writemap, &bench_rocksdb,
    &bench_leveldb, &bench_sqlite, &bench_bare,
};

/* Bytes that a file of the folder, or (NULL) all of them, take on the disk. */
static uint64_t bytes_of(const char *folder, const char *name)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        die("cannot read %s", folder);
    }
    uint64_t bytes = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        struct stat st;
        if ((name == NULL || strcmp(entry->d_name, name) == 0) &&
            fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode)) {
            bytes += (uint64_t)st.st_blocks * 512;
        }
    }
    closedir(dir);
    return bytes;
}

static bool named(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0')) {
            return true;
        }
    }
    return false;
}

static void report(const struct bench *b, const char *workload, const char *set, uint64_t ops,
                   const struct measure *m, const char *dir)
{
    const struct histogram *h = &b->latency;
    uint64_t cpu = b->cpu_ns > 0 ? b->cpu_ns : m->cpu_ns;
    printf("{\"engine\":\"%s\",\"set\":\"%s\",\"workload\":\"%s\",\"records\":%llu,\"ops\":%llu,"
           "\"seconds\":%.6f,\"cpu\":%.6f",
           b->engine->name, set, workload, (unsigned long long)b->records, (unsigned long long)ops,
           (double)m->wall_ns / 1e9, (double)cpu / 1e9);
    if (h->count > 0) {
        printf(",\"p50_us\":%.2f,\"p99_us\":%.2f,\"p999_us\":%.2f,\"max_us\":%.2f",
               (double)histogram_quantile(h, 0.5) / 1e3, (double)histogram_quantile(h, 0.99) / 1e3,
               (double)histogram_quantile(h, 0.999) / 1e3, (double)h->max / 1e3);
    }
    printf(",\"file_bytes\":%llu,\"disk_bytes\":%llu}\n",
           (unsigned long long)bytes_of(dir, b->engine->file),
           (unsigned long long)bytes_of(dir, NULL));
    fflush(stdout);
}

static void run_one(struct bench *b, const struct workload *w, const char *set, const char *dir)
{
    struct measure m;
    histogram_clear(&b->latency);
    b->cpu_ns = 0;
    measure_begin(&m);
    uint64_t ops = w->run(b, w);
    measure_end(&m);
    if (ops > 0) {
        report(b, w->name, set, ops, &m, dir);
    }
}

static void run_all(struct bench *b, enum bench_set set, const char *only, const char *dir)
{
    for (size_t i = 0; i < bench_nworkloads; i++) {
        const struct workload *w = &bench_workloads[i];
        bool load = strcmp(w->name, "load") == 0;
        if ((w->sets & (1u << set)) == 0 || (!load && only != NULL && !named(only, w->name))) {
            continue;
        }
        if (b->engine == &bench_bare) {
            if (w->level == BENCH_DEVICE && set == SET_RANDOM) {
                run_one(b, w, bench_set_names[set], dir);
            }
            continue;
        }
        b->engine->set_level(b->db, w->level);
        run_one(b, w, bench_set_names[set], dir);
        if (w->writes) {
            b->engine->settle(b->db);
        }
    }
}

static enum bench_set set_of(const char *name)
{
    unsigned set = 0;
    while (set < SETS && strcmp(bench_set_names[set], name) != 0) {
        set++;
    }
    if (set == SETS) {
        die("there is no set '%s'", name);
    }
    return (enum bench_set)set;
}

static const struct bench_engine *engine_of(const char *name)
{
    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
        if (strcmp(engines[i]->name, name) == 0) {
            return engines[i];
        }
    }
    die("there is no engine '%s'", name);
}

int main(int argc, char **argv)
{
    static struct bench b = {.records = 1000000, .random = 1, .seconds = 2};
    const char *dir = NULL;
    const char *only = NULL;
    enum bench_set set = SET_RANDOM;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i];
        const char *value = argv[i + 1];
        if (strcmp(name, "--engine") == 0) {
            b.engine = engine_of(value);
        } else if (strcmp(name, "--dir") == 0) {
            dir = value;
        } else if (strcmp(name, "--set") == 0) {
            set = set_of(value);
        } else if (strcmp(name, "--records") == 0) {
            b.records = strtoull(value, NULL, 10) / BENCH_BATCH * BENCH_BATCH;
        } else if (strcmp(name, "--seconds") == 0) {
            b.seconds = strtod(value, NULL);
        } else if (strcmp(name, "--only") == 0) {
            only = value;
        } else {
            die("unknown option %s", name);
        }
    }
    if (b.engine == NULL || dir == NULL || b.records == 0) {
        die("usage: engine --engine NAME --dir DIR [--set SET] [--records N] [--seconds S]");
    }
    bench_prepare(&b, set);
    struct bench_config config = {dir, b.key, b.value, BENCH_SYSTEM};
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): die does not return */
    b.db = b.engine->open(&config);
    bool reads = b.engine->reader_open != NULL;
    b.reader = reads ? b.engine->reader_open(b.db) : NULL;
    run_all(&b, set, only, dir);
    if (reads) {
        b.engine->reader_close(b.reader);
    }
    b.engine->close(b.db);
    bench_finish(&b);
    return 0;
}
