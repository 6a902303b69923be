/*
 * info.c - see info.h. One function a section, one table of sections.
 */
#include "server/observe/info.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LISTED_FROM_MS 1000

typedef unsigned long long ull;

static void human(char text[32], uint64_t bytes)
{
    static const char units[] = "BKMGTP";
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit < sizeof(units) - 2) {
        value /= 1024;
        unit++;
    }
    if (unit == 0) {
        snprintf(text, 32, "%lluB", (ull)bytes);
    } else {
        snprintf(text, 32, "%.2f%c", value, units[unit]);
    }
}

static void field_memory(FILE *to, const char *name, uint64_t bytes)
{
    char text[32];
    human(text, bytes);
    fprintf(to, "%s:%llu\r\n%s_human:%s\r\n", name, (ull)bytes, name, text);
}

static void server_section(FILE *to, const struct info_input *in)
{
    struct utsname os;
    int64_t up = (in->now_ms - in->started_ms) / 1000;
    uname(&os);
    fprintf(to,
            "redis_version:7.0.15\r\npando_version:" PANDO_VERSION "\r\n"
            "redis_git_sha1:00000000\r\nredis_git_dirty:0\r\nredis_mode:standalone\r\n"
            "os:%s %s %s\r\narch_bits:%zu\r\nmonotonic_clock:POSIX clock_gettime\r\n"
            "multiplexing_api:epoll\r\natomicvar_api:c11-builtin\r\ngcc_version:%d.%d.%d\r\n",
            os.sysname, os.release, os.machine, sizeof(void *) * 8, __GNUC__, __GNUC_MINOR__,
            __GNUC_PATCHLEVEL__);
    fprintf(to,
            "process_id:%d\r\nprocess_supervised:no\r\nrun_id:%s\r\ntcp_port:%d\r\n"
            "server_time_usec:%lld\r\nuptime_in_seconds:%lld\r\nuptime_in_days:%lld\r\n"
            "hz:%lld\r\nconfigured_hz:%lld\r\nexecutable:%s\r\nconfig_file:%s\r\n"
            "io_threads_active:%d\r\nio_threads:%d\r\n",
            (int)getpid(), in->run_id, in->port, (long long)in->now_ms * 1000, (long long)up,
            (long long)up / 86400, (long long)in->hz, (long long)in->hz, in->executable,
            in->config_file, in->io_threads > 1, in->io_threads);
}

static void clients_section(FILE *to, const struct info_input *in)
{
    fprintf(to,
            "connected_clients:%llu\r\ncluster_connections:0\r\nmaxclients:%llu\r\n"
            "client_recent_max_input_buffer:%llu\r\nclient_recent_max_output_buffer:%llu\r\n"
            "blocked_clients:0\r\ntracking_clients:0\r\nclients_in_timeout_table:0\r\n",
            (ull)in->clients.count, (ull)in->clients.max, (ull)in->clients.max_input,
            (ull)in->clients.max_output);
}

static uint64_t resident_bytes(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file != NULL) {
        if (fscanf(file, "%lu %lu", &pages, &resident) != 2) {
            resident = 0;
        }
        fclose(file);
    }
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void memory_section(FILE *to, const struct info_input *in)
{
    struct mallinfo2 heap = mallinfo2();
    uint64_t arena = in->store.arena_slots_used * in->store.page_size;
    uint64_t peak = in->store.arena_slots_peak * in->store.page_size;
    uint64_t used = heap.uordblks + heap.hblkhd + arena;
    field_memory(to, "used_memory", used);
    field_memory(to, "used_memory_rss", resident_bytes());
    field_memory(to, "used_memory_peak", heap.uordblks + heap.hblkhd + peak);
    fprintf(to, "used_memory_dirty_pages:%llu\r\nused_memory_clients:%llu\r\n", (ull)arena,
            (ull)in->clients.buffered);
    field_memory(to, "dirty_memory", (uint64_t)in->dirty_memory);
    field_memory(to, "total_system_memory",
                 (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    field_memory(to, "maxmemory", 0);
    fprintf(to, "maxmemory_policy:noeviction\r\nmem_clients_normal:%llu\r\nmem_allocator:libc\r\n",
            (ull)in->clients.buffered);
}

static void persistence_section(FILE *to, const struct info_input *in)
{
    uint64_t changes = in->store.ops > in->saved_ops ? in->store.ops - in->saved_ops : 0;
    fprintf(to,
            "loading:0\r\nasync_loading:0\r\nrdb_changes_since_last_save:%llu\r\n"
            "rdb_bgsave_in_progress:%d\r\nrdb_last_save_time:%lld\r\nrdb_last_bgsave_status:%s\r\n"
            "rdb_saves:%llu\r\naof_enabled:1\r\naof_rewrite_in_progress:0\r\n"
            "aof_last_write_status:ok\r\naof_current_size:%llu\r\ndurability:%s\r\n",
            (ull)changes, in->saving, (long long)in->last_save, in->last_save_ok ? "ok" : "err",
            (ull)in->store.checkpoints, (ull)in->store.log_bytes_written, in->durability);
}

static void stats_section(FILE *to, const struct info_input *in)
{
    fprintf(to,
            "total_connections_received:%llu\r\ntotal_commands_processed:%llu\r\n"
            "instantaneous_ops_per_sec:%llu\r\ntotal_net_input_bytes:%llu\r\n"
            "total_net_output_bytes:%llu\r\ninstantaneous_input_kbps:%.2f\r\n"
            "instantaneous_output_kbps:%.2f\r\nrejected_connections:%llu\r\n",
            (ull)in->metrics.connections, (ull)in->metrics.commands, (ull)in->rates.commands,
            (ull)in->metrics.input_bytes, (ull)in->metrics.output_bytes, in->rates.input_kib,
            in->rates.output_kib, (ull)in->metrics.rejected);
    fprintf(to,
            "expired_keys:%llu\r\nevicted_keys:0\r\nkeyspace_hits:%llu\r\nkeyspace_misses:%llu\r\n"
            "pubsub_channels:0\r\npubsub_patterns:0\r\nlatest_fork_usec:0\r\ntotal_forks:0\r\n"
            "total_reads_processed:%llu\r\ntotal_writes_processed:%llu\r\nloop_turns:%llu\r\n"
            "client_query_buffer_limit_disconnections:%llu\r\n"
            "client_output_buffer_limit_disconnections:%llu\r\n",
            (ull)in->counters.expired, (ull)in->counters.hits, (ull)in->counters.misses,
            (ull)in->metrics.reads, (ull)in->metrics.writes, (ull)in->metrics.turns,
            (ull)in->metrics.query_closed, (ull)in->metrics.limit_closed);
}

static void replication_section(FILE *to, const struct info_input *in)
{
    fprintf(to,
            "role:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\n"
            "master_replid:%s\r\nmaster_repl_offset:0\r\nrepl_backlog_active:0\r\n",
            in->run_id);
}

static void cpu_section(FILE *to, const struct info_input *in)
{
    struct rusage usage;
    (void)in;
    getrusage(RUSAGE_SELF, &usage);
    fprintf(to, "used_cpu_sys:%ld.%06ld\r\nused_cpu_user:%ld.%06ld\r\n",
            (long)usage.ru_stime.tv_sec, (long)usage.ru_stime.tv_usec, (long)usage.ru_utime.tv_sec,
            (long)usage.ru_utime.tv_usec);
}

static void storage_section(FILE *to, const struct info_input *in)
{
    const struct ps_stat *s = &in->store;
    fprintf(to,
            "page_size:%u\r\ntrees:%u\r\ndepth_max:%u\r\nentries:%llu\r\nfile_bytes:%llu\r\n"
            "file_pages:%llu\r\nfile_pages_free:%llu\r\narena_slots:%llu\r\n"
            "arena_slots_used:%llu\r\narena_slots_peak:%llu\r\nslot_waits:%llu\r\n"
            "relinks:%llu\r\npages_verified:%llu\r\npages_waiting:%llu\r\n",
            s->page_size, s->trees, s->depth_max, (ull)s->entries, (ull)s->file_bytes,
            (ull)s->file_pages, (ull)s->file_pages_free, (ull)s->arena_slots,
            (ull)s->arena_slots_used, (ull)s->arena_slots_peak, (ull)s->slot_waits, (ull)s->relinks,
            (ull)s->pages_verified, (ull)s->pages_waiting);
    fprintf(to,
            "splits:%llu\r\nmerges:%llu\r\nshares:%llu\r\noverflow_runs:%llu\r\n"
            "savepoints:%llu\r\nrollbacks:%llu\r\naborts:%llu\r\n",
            (ull)s->splits, (ull)s->merges, (ull)s->shares, (ull)s->overflow_runs,
            (ull)s->savepoints, (ull)s->rollbacks, (ull)s->aborts);
    fprintf(to,
            "disk_regime:%d\r\nreads_sent_to_pool_for_disk:%llu\r\nwrites_walked_ahead:%llu\r\n"
            "disk_refaults:%llu\r\ndisk_major_faults:%llu\r\nresidency_checks:%llu\r\n",
            in->disk.regime, (ull)in->metrics.disk_reads, (ull)in->metrics.disk_writes,
            (ull)in->disk.refaults, (ull)in->disk.major_faults, (ull)s->residency_checks);
}

static void log_section(FILE *to, const struct info_input *in)
{
    const struct ps_stat *s = &in->store;
    fprintf(to,
            "log_position:%llu\r\nlog_segments:%llu\r\nlog_bytes_written:%llu\r\nlog_syncs:%llu\r\n"
            "log_epochs:%llu\r\npublished_seq:%llu\r\ndurable_seq:%llu\r\nstates_dropped:%llu\r\n"
            "recovery_checkpoint_seq:%llu\r\nrecovery_log_from:%llu\r\nrecovery_log_to:%llu\r\n"
            "recovery_commits:%llu\r\nrecovery_torn_bytes:%llu\r\nrecovery_usec:%llu\r\n",
            (ull)s->log_position, (ull)s->log_segments, (ull)s->log_bytes_written,
            (ull)s->log_syncs, (ull)s->log_epochs, (ull)s->published_seq, (ull)s->durable_seq,
            (ull)s->states_dropped, (ull)in->recovery.checkpoint_seq, (ull)in->recovery.log_from,
            (ull)in->recovery.log_to, (ull)in->recovery.replayed_commits,
            (ull)in->recovery.torn_bytes, (ull)in->recovery.microseconds);
}

static void checkpoint_section(FILE *to, const struct info_input *in)
{
    const struct ps_stat *s = &in->store;
    fprintf(to,
            "checkpoints:%llu\r\ncheckpoint_seq:%llu\r\ncheckpoint_pages:%llu\r\n"
            "checkpoint_bytes:%llu\r\nlast_checkpoint_usec:%llu\r\nlog_since_checkpoint:%llu\r\n",
            (ull)s->checkpoints, (ull)s->checkpoint_seq, (ull)s->checkpoint_pages,
            (ull)s->checkpoint_bytes, (ull)s->last_checkpoint_us,
            (ull)(s->log_position - s->log_checkpoint_position));
}

/* Those of short reads come and go: nobody could follow them. */
static void long_snapshot(FILE *to, const struct ps_snapshot_info *s)
{
    static const char *const kinds[] = {
        [PS_PLAIN] = "plain", [PS_PINNED] = "pinned", [PS_MOVED] = "moved"};
    if (s->age_ms >= LISTED_FROM_MS) {
        fprintf(to,
                "snapshot%u:kind=%s,ended=%d,seq=%llu,age_ms=%llu,retained_memory=%llu,"
                "retained_file=%llu\r\n",
                s->id, kinds[s->kind], s->ended, (ull)s->seq, (ull)s->age_ms,
                (ull)s->retained_memory, (ull)s->retained_file);
    }
}

static void snapshots_section(FILE *to, const struct info_input *in)
{
    fprintf(to,
            "snapshots:%llu\r\noldest_snapshot_stamp:%llu\r\nsnapshots_pinned:%llu\r\n"
            "snapshot_retries:%llu\r\nslots_reused_between_snapshots:%llu\r\n"
            "snapshots_asked:%llu\r\nsnapshots_moved:%llu\r\nmoved_pages:%llu\r\n"
            "snapshot_move_failures:%llu\r\n",
            (ull)in->store.snapshots, (ull)in->store.oldest_snapshot_stamp,
            (ull)in->store.snapshots_pinned, (ull)in->store.snapshot_retries,
            (ull)in->store.slots_reused_between_snapshots, (ull)in->store.snapshots_asked,
            (ull)in->store.snapshots_moved, (ull)in->store.moved_pages,
            (ull)in->store.snapshot_move_failures);
    fprintf(to,
            "snapshots_ended:%llu\r\noldest_snapshot_ms:%llu\r\n"
            "snapshots_retained_memory:%llu\r\nsnapshots_retained_file:%llu\r\n",
            (ull)in->store.snapshots_ended, (ull)in->store.oldest_snapshot_ms,
            (ull)in->store.snapshots_retained_memory, (ull)in->store.snapshots_retained_file);
    for (unsigned i = 0; i < in->snapshots_n; i++) {
        long_snapshot(to, &in->snapshots[i]);
    }
}

static void writer_section(FILE *to, const struct info_input *in)
{
    const struct info_writer *w = &in->writer;
    fprintf(to,
            "writer_units:%llu\r\nwriter_commands:%llu\r\nwriter_groups:%llu\r\n"
            "writer_group_splits:%llu\r\nwriter_group_retries:%llu\r\n"
            "writer_group_failures:%llu\r\nwriter_queued_bytes:%llu\r\n"
            "writer_unpublished_units:%llu\r\nwriter_expired_hints:%llu\r\n"
            "writer_value_steps:%llu\r\n"
            "commits:%llu\r\nops:%llu\r\ngroups_unpublished:%llu\r\n",
            (ull)w->units, (ull)w->commands, (ull)w->groups, (ull)w->splits, (ull)w->retries,
            (ull)w->failures, (ull)w->queued_bytes, (ull)w->unpublished_units, (ull)w->hints,
            (ull)w->stage_steps, (ull)in->store.commits, (ull)in->store.ops,
            (ull)in->store.groups_unpublished);
    fprintf(to,
            "reader_threads:%u\r\nreader_jobs:%llu\r\nreader_jobs_running:%u\r\n"
            "reader_jobs_waiting:%u\r\nreader_pieces:%llu\r\n",
            w->pool_threads, (ull)w->jobs, w->jobs_running, w->jobs_waiting, (ull)w->pieces);
}

static void cluster_section(FILE *to, const struct info_input *in)
{
    (void)in;
    fprintf(to, "cluster_enabled:0\r\n");
}

static void keyspace_section(FILE *to, const struct info_input *in)
{
    for (unsigned db = 0; db < in->databases; db++) {
        const struct keyspace_stat *k = &in->keyspace[db];
        if (k->keys > 0) {
            fprintf(to, "db%u:keys=%llu,expires=%llu,avg_ttl=%lld\r\n", db, (ull)k->keys,
                    (ull)k->expires, (long long)k->avg_ttl_ms);
        }
    }
}

static const struct {
    const char *name;
    void (*write)(FILE *to, const struct info_input *in);
} table[] = {
    {"Server", server_section},
    {"Clients", clients_section},
    {"Memory", memory_section},
    {"Persistence", persistence_section},
    {"Stats", stats_section},
    {"Replication", replication_section},
    {"CPU", cpu_section},
    {"Storage", storage_section},
    {"Log", log_section},
    {"Checkpoint", checkpoint_section},
    {"Snapshots", snapshots_section},
    {"Writer", writer_section},
    {"Cluster", cluster_section},
    {"Keyspace", keyspace_section},
};

static bool named(const char *name, const struct ps_slice *sections, size_t n)
{
    static const char *const all[] = {"default", "all", "everything"};
    bool found = n == 0;
    for (size_t i = 0; i < n && !found; i++) {
        const char *word = sections[i].data;
        size_t len = sections[i].len;
        found = len == strlen(name) && strncasecmp(word, name, len) == 0;
        for (size_t a = 0; a < 3 && !found; a++) {
            found = len == strlen(all[a]) && strncasecmp(word, all[a], len) == 0;
        }
    }
    return found;
}

char *info_text(const struct info_input *input, const struct ps_slice *sections, size_t n,
                size_t *len)
{
    char *text = NULL;
    bool first = true;
    FILE *to = open_memstream(&text, len);
    if (to == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (named(table[i].name, sections, n)) {
            fprintf(to, "%s# %s\r\n", first ? "" : "\r\n", table[i].name);
            table[i].write(to, input);
            first = false;
        }
    }
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
