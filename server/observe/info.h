/*
 * info.h - the text of INFO: Redis's sections and fields where they mean something here, and
 * Pando's.
 *
 * Threads: pure; the caller collects the figures.
 */
#ifndef PANDO_SERVER_OBSERVE_INFO_H
#define PANDO_SERVER_OBSERVE_INFO_H

#include "server/keyspace/keyspace.h"
#include "server/observe/metrics.h"
#include "storage/pandostore.h"

#define PANDO_VERSION      "0.1.0"
#define INFO_MAX_DATABASES 1024

struct info_clients {
    uint64_t count, max, max_input, max_output, buffered;
};

struct info_writer {
    uint64_t units, commands, groups, splits, retries, failures, hints, stage_steps;
    uint64_t queued_bytes, unpublished_units;
    uint64_t jobs, pieces;
    unsigned pool_threads, jobs_running, jobs_waiting;
};

struct info_disk {
    bool regime; /* reads that would wait for the disk go to the reader pool */
    uint64_t refaults, major_faults;
};

struct info_input {
    int64_t now_ms, started_ms;
    const char *run_id, *config_file, *executable;
    int port, io_threads;
    int64_t hz, dirty_memory;
    const char *durability;
    struct info_clients clients;
    struct info_writer writer;
    struct info_disk disk;
    struct metrics_thread metrics;
    struct metrics_rates rates;
    struct keyspace_counters counters;
    struct ps_stat store;
    unsigned snapshots_n; /* of the store's that hold a state */
    struct ps_snapshot_info snapshots[PS_MAX_SNAPSHOTS];
    struct ps_recovery recovery;
    int64_t last_save;
    bool saving, last_save_ok;
    uint64_t saved_ops; /* operations up to the last checkpoint noticed */
    unsigned databases;
    struct keyspace_stat keyspace[INFO_MAX_DATABASES];
};

/* The sections named (all that INFO shows by default when n is 0). A text to free, or NULL. */
char *info_text(const struct info_input *input, const struct ps_slice *sections, size_t n,
                size_t *len);

#endif
