/*
 * table.c - the settings: names, types, defaults, limits, what they are for.
 *
 * Invariant: the rows stand in the order of enum config_id (checked at start by config_new).
 * Constant data; any thread. conf/pando.conf is written from it.
 */
#include "server/config/config_private.h"

#include <stdint.h>
#include <string.h>

static const char *const durability_names[] = {"none", "everysec", "always", NULL};
static const char *const appendfsync_names[] = {"everysec", "always", "no", NULL};
static const char *const disk_reads_names[] = {"auto", "pool", "inline", NULL};
static const char *const loglevel_names[] = {"debug", "verbose", "notice", "warning", NULL};
static const char *const policy_names[] = {"noeviction", NULL};

#define KIB INT64_C(1024)
#define MIB (KIB * 1024)

static const struct config_row rows[CONFIG_COUNT] = {
    [CONFIG_BIND] = {.name = "bind",
                     .type = CONFIG_WORDS,
                     .flags = CONFIG_IMMUTABLE,
                     .value = "127.0.0.1 -::1",
                     .doc =
                         "Addresses to listen on; * and -::* are all of IPv4 and IPv6. One that\n"
                         "begins with '-' may be missing. Redis's default is all of them."},
    [CONFIG_PORT] = {.name = "port",
                     .type = CONFIG_INT,
                     .flags = CONFIG_IMMUTABLE,
                     .value = "6379",
                     .min = 0,
                     .max = 65535,
                     .doc = "TCP port. 0: a free one, named in the log."},
    [CONFIG_TCP_BACKLOG] = {.name = "tcp-backlog",
                            .type = CONFIG_INT,
                            .flags = CONFIG_IMMUTABLE,
                            .value = "511",
                            .min = 0,
                            .max = INT32_MAX,
                            .doc = "Connections that may wait to be accepted."},
    [CONFIG_TCP_KEEPALIVE] = {.name = "tcp-keepalive",
                              .type = CONFIG_INT,
                              .value = "300",
                              .min = 0,
                              .max = INT32_MAX,
                              .doc =
                                  "Seconds between keep-alive probes of new connections. 0: none."},
    [CONFIG_TIMEOUT] = {.name = "timeout",
                        .type = CONFIG_INT,
                        .value = "0",
                        .min = 0,
                        .max = INT32_MAX,
                        .doc = "Close a connection idle for so many seconds. 0: never."},
    [CONFIG_MAXCLIENTS] = {.name = "maxclients",
                           .type = CONFIG_INT,
                           .value = "10000",
                           .min = 1,
                           .max = 1000000,
                           .doc = "Connections accepted at the same time."},
    [CONFIG_PROTO_MAX_BULK_LEN] = {.name = "proto-max-bulk-len",
                                   .type = CONFIG_MEMORY,
                                   .value = "512mb",
                                   .min = MIB,
                                   .max = INT64_MAX,
                                   .doc = "Longest argument that is accepted."},
    [CONFIG_CLIENT_QUERY_BUFFER_LIMIT] = {.name = "client-query-buffer-limit",
                                          .type = CONFIG_MEMORY,
                                          .value = "1gb",
                                          .min = MIB,
                                          .max = INT64_MAX,
                                          .doc =
                                              "Most bytes of one request, and of a MULTI queue."},
    [CONFIG_CLIENT_OUTPUT_BUFFER_LIMIT] =
        {.name = "client-output-buffer-limit",
         .type = CONFIG_WORDS,
         .value = "normal 268435456 0 0",
         .check = config_check_output_limits,
         .doc = "CLASS HARD SOFT SECONDS: a connection with more unread replies than HARD, or\n"
                "than SOFT for so many SECONDS, is closed. 0: no limit. Redis's default for the\n"
                "class normal is no limit."},
    [CONFIG_REQUIREPASS] = {.name = "requirepass",
                            .type = CONFIG_STRING,
                            .flags = CONFIG_SECRET,
                            .value = "",
                            .doc = "Password of the default user. Empty: none."},
    [CONFIG_DIR] = {.name = "dir",
                    .type = CONFIG_STRING,
                    .flags = CONFIG_IMMUTABLE,
                    .value = ".",
                    .doc = "Directory of the data file and the log; made if it is missing."},
    [CONFIG_DATABASES] = {.name = "databases",
                          .type = CONFIG_INT,
                          .flags = CONFIG_IMMUTABLE,
                          .value = "16",
                          .min = 1,
                          .max = 1024,
                          .doc = "Number of databases."},
    [CONFIG_DURABILITY] = {.name = "durability",
                           .type = CONFIG_ENUM,
                           .value = "always",
                           .names = durability_names,
                           .doc = "What an acknowledged write survives.\n"
                                  "always    power loss: it is on the device (group commit)\n"
                                  "everysec  the process; on the device within a second\n"
                                  "none      no log: what the last checkpoint held"},
    [CONFIG_APPENDFSYNC] = {.name = "appendfsync",
                            .type = CONFIG_ENUM,
                            .value = "always",
                            .names = appendfsync_names,
                            .doc = "Redis's name for it: always is always, everysec and no are\n"
                                   "everysec."},
    [CONFIG_MAX_RECOVERY_TIME] = {.name = "max-recovery-time",
                                  .type = CONFIG_INT,
                                  .value = "1000",
                                  .min = 10,
                                  .max = 3600000,
                                  .doc = "Milliseconds that replaying the log may take at start:\n"
                                         "a checkpoint is made before it would be more."},
    [CONFIG_DIRTY_MEMORY] = {.name = "dirty-memory",
                             .type = CONFIG_MEMORY,
                             .flags = CONFIG_IMMUTABLE,
                             .value = "0",
                             .min = 0,
                             .max = INT64_MAX / 2,
                             .doc =
                                 "Memory for pages that are not in the file yet. 0: an eighth of\n"
                                 "the memory limit, between 64 MiB and 1 GiB. At least 4 MiB."},
    [CONFIG_PAGE_SIZE] = {.name = "page-size",
                          .type = CONFIG_MEMORY,
                          .flags = CONFIG_IMMUTABLE,
                          .value = "4kb",
                          .min = 4096,
                          .max = 65536,
                          .doc = "Bytes in a page of a new data file; a power of two."},
    [CONFIG_IO_THREADS] = {.name = "io-threads",
                           .type = CONFIG_INT,
                           .flags = CONFIG_IMMUTABLE,
                           .value = "0",
                           .min = 0,
                           .max = 128,
                           .doc = "Threads that serve connections. 0: half the cores."},
    [CONFIG_READER_THREADS] = {.name = "reader-threads",
                               .type = CONFIG_INT,
                               .flags = CONFIG_IMMUTABLE,
                               .value = "0",
                               .min = 0,
                               .max = 256,
                               .doc =
                                   "Threads for long reads, and for those that wait for the disk\n"
                                   "(see disk-reads), one of which takes nothing but these.\n"
                                   "0: as many as cores, at least 2."},
    [CONFIG_DISK_READS] = {.name = "disk-reads",
                           .type = CONFIG_ENUM,
                           .value = "auto",
                           .names = disk_reads_names,
                           .doc = "Where short reads are executed that would wait for the disk.\n"
                                  "inline: where all others are, on the I/O threads. pool: by the\n"
                                  "reader threads, which also read what a write needs before it\n"
                                  "goes to the writer. auto: in the pool while the data file is\n"
                                  "larger than half the memory limit and pages are being read."},
    [CONFIG_HZ] = {.name = "hz",
                   .type = CONFIG_INT,
                   .value = "10",
                   .min = 1,
                   .max = 500,
                   .doc = "Rounds of background work in a second."},
    [CONFIG_LOGLEVEL] = {.name = "loglevel",
                         .type = CONFIG_ENUM,
                         .value = "notice",
                         .names = loglevel_names,
                         .doc = "debug, verbose, notice or warning."},
    [CONFIG_LOGFILE] = {.name = "logfile",
                        .type = CONFIG_STRING,
                        .flags = CONFIG_IMMUTABLE,
                        .value = "",
                        .doc = "File for messages. Empty: standard output."},
    [CONFIG_DAEMONIZE] = {.name = "daemonize",
                          .type = CONFIG_BOOL,
                          .flags = CONFIG_IMMUTABLE | CONFIG_FIXED,
                          .value = "no",
                          .doc = "Pando stays in the foreground."},
    [CONFIG_SHUTDOWN_TIMEOUT] = {.name = "shutdown-timeout",
                                 .type = CONFIG_INT,
                                 .value = "10",
                                 .min = 0,
                                 .max = INT32_MAX,
                                 .doc = "Seconds that connections get to take their replies."},
    [CONFIG_TEST_HOOK_DIR] = {.name = "test-hook-dir",
                              .type = CONFIG_STRING,
                              .flags = CONFIG_IMMUTABLE | CONFIG_HIDDEN,
                              .value = "",
                              .doc = "Directory of named pipes that hold steps for tests."},
    [CONFIG_SAVE] = {.name = "save",
                     .type = CONFIG_WORDS,
                     .flags = CONFIG_FIXED,
                     .value = "",
                     .doc = "Checkpoints follow max-recovery-time and dirty-memory."},
    [CONFIG_APPENDONLY] = {.name = "appendonly",
                           .type = CONFIG_BOOL,
                           .flags = CONFIG_FIXED,
                           .value = "yes",
                           .doc = "See durability."},
    [CONFIG_MAXMEMORY] = {.name = "maxmemory",
                          .type = CONFIG_MEMORY,
                          .flags = CONFIG_FIXED,
                          .value = "0",
                          .max = INT64_MAX,
                          .doc = "Data may be larger than memory."},
    [CONFIG_MAXMEMORY_POLICY] = {.name = "maxmemory-policy",
                                 .type = CONFIG_ENUM,
                                 .flags = CONFIG_FIXED,
                                 .value = "noeviction",
                                 .names = policy_names,
                                 .doc = "Nothing is ever evicted."},
    [CONFIG_PROTECTED_MODE] = {.name = "protected-mode",
                               .type = CONFIG_BOOL,
                               .flags = CONFIG_FIXED,
                               .value = "no",
                               .doc = "See bind: only loopback by default."},
    [CONFIG_NOTIFY_KEYSPACE_EVENTS] = {.name = "notify-keyspace-events",
                                       .type = CONFIG_STRING,
                                       .flags = CONFIG_FIXED,
                                       .value = "",
                                       .doc = "Not sent yet."},
    [CONFIG_SLOWLOG_LOG_SLOWER_THAN] = {.name = "slowlog-log-slower-than",
                                        .type = CONFIG_INT,
                                        .flags = CONFIG_FIXED,
                                        .value = "-1",
                                        .min = -1,
                                        .max = INT64_MAX,
                                        .doc = "Not kept yet."},
    [CONFIG_SLOWLOG_MAX_LEN] = {.name = "slowlog-max-len",
                                .type = CONFIG_INT,
                                .flags = CONFIG_FIXED,
                                .value = "0",
                                .max = INT64_MAX,
                                .doc = "Not kept yet."},
    [CONFIG_CLUSTER_ENABLED] = {.name = "cluster-enabled",
                                .type = CONFIG_BOOL,
                                .flags = CONFIG_FIXED | CONFIG_IMMUTABLE,
                                .value = "no",
                                .doc = "A single server."},
    [CONFIG_STOP_WRITES_ON_BGSAVE_ERROR] = {.name = "stop-writes-on-bgsave-error",
                                            .type = CONFIG_BOOL,
                                            .flags = CONFIG_FIXED,
                                            .value = "yes",
                                            .doc = "Writes stop after a failed sync, always."},
    [CONFIG_LAZYFREE_LAZY_USER_DEL] = {.name = "lazyfree-lazy-user-del",
                                       .type = CONFIG_BOOL,
                                       .flags = CONFIG_FIXED,
                                       .value = "yes",
                                       .doc = "DEL and UNLINK are the same."},
    [CONFIG_LAZYFREE_LAZY_USER_FLUSH] = {.name = "lazyfree-lazy-user-flush",
                                         .type = CONFIG_BOOL,
                                         .flags = CONFIG_FIXED,
                                         .value = "yes",
                                         .doc = "Emptying a database takes the same time always."},
    [CONFIG_ACTIVEDEFRAG] = {.name = "activedefrag",
                             .type = CONFIG_BOOL,
                             .flags = CONFIG_FIXED,
                             .value = "no",
                             .doc = "Nothing to defragment."},
};

const struct config_row *config_row(enum config_id id)
{
    return &rows[id];
}

int config_find(const char *name)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        if (strcasecmp(rows[id].name, name) == 0) {
            return id;
        }
    }
    return -1;
}

static void write_comment(FILE *to, const char *text)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        fprintf(to, "# %.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

void config_write_reference(FILE *to)
{
    fprintf(to,
            "# pando.conf - settings of pandod, with their defaults.\n"
            "#\n"
            "# One directive a line; '#' begins a comment; words with blanks stand in quotes;\n"
            "# sizes take k, m, g (powers of 1000) and kb, mb, gb (of 1024). `include FILE` reads\n"
            "# another file (patterns are expanded) at that place; the last value counts. Each\n"
            "# directive can stand on the command line: pandod pando.conf --port 7000\n");
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = &rows[id];
        if (row->flags & (CONFIG_HIDDEN | CONFIG_FIXED)) {
            continue;
        }
        fputc('\n', to);
        write_comment(to, row->doc);
        fprintf(to, "# %s %s\n", row->name, row->value[0] == '\0' ? "\"\"" : row->value);
    }
    fprintf(to, "\n# Directives of Redis that are accepted and change nothing here:\n");
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = &rows[id];
        if (row->flags & CONFIG_FIXED) {
            fprintf(to, "#   %-28s %s\n", row->name, row->doc);
        }
    }
}
