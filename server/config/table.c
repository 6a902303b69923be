/*
 * table.c - the settings: names, types, defaults, limits, what they are for.
 *
 * Invariant: the rows stand in the order of enum config_id (checked at start by config_new).
 * table_redis.c has the directives of Redis without effect here. Constant data; any thread.
 * conf/pando.conf and docs/configuration.md are written from both.
 */
#include "server/config/config_private.h"

#include <stdint.h>
#include <strings.h>

static const char *const durability_names[] = {"none", "everysec", "always", NULL};
static const char *const appendfsync_names[] = {"everysec", "always", "no", NULL};
static const char *const disk_reads_names[] = {"auto", "pool", "inline", NULL};
static const char *const loglevel_names[] = {"debug", "verbose", "notice", "warning", NULL};

/* Where the tests of the effects are. */
#define EFFECTS "tests/integration/test_config_effects.py::"

#define KIB INT64_C(1024)
#define MIB (KIB * 1024)

static const struct config_row rows[CONFIG_OWN_ROWS] = {
    [CONFIG_BIND] =
        {.name = "bind",
         .type = CONFIG_WORDS,
         .value = "127.0.0.1 -::1",
         .doc = "Addresses to listen on, at most 16; * and ::* are all of IPv4 and IPv6. One\n"
                "that begins with '-' may be missing. Redis's default is all of them.",
         .check = config_check_bind,
         .test = EFFECTS "test_bind"},
    [CONFIG_PORT] = {.name = "port",
                     .type = CONFIG_INT,
                     .value = "6379",
                     .min = 0,
                     .max = 65535,
                     .doc = "TCP port. 0: none, only unixsocket.",
                     .test = EFFECTS "test_port"},
    [CONFIG_UNIXSOCKET] = {.name = "unixsocket",
                           .type = CONFIG_STRING,
                           .flags = CONFIG_IMMUTABLE,
                           .value = "",
                           .doc = "Path of a socket to listen on. Empty: none.",
                           .test = EFFECTS "test_unixsocket"},
    [CONFIG_UNIXSOCKETPERM] =
        {.name = "unixsocketperm",
         .type = CONFIG_OCTAL,
         .flags = CONFIG_IMMUTABLE,
         .value = "0",
         .min = 0,
         .max = 0777,
         .doc = "Permissions of unixsocket, octal. 0: those that the umask leaves.",
         .test = EFFECTS "test_unixsocketperm"},
    [CONFIG_TCP_BACKLOG] = {.name = "tcp-backlog",
                            .type = CONFIG_INT,
                            .flags = CONFIG_IMMUTABLE,
                            .value = "511",
                            .min = 0,
                            .max = INT32_MAX,
                            .doc = "Connections that may wait to be accepted.",
                            .test = EFFECTS "test_tcp_backlog"},
    [CONFIG_TCP_KEEPALIVE] = {.name = "tcp-keepalive",
                              .type = CONFIG_INT,
                              .value = "300",
                              .min = 0,
                              .max = INT32_MAX,
                              .doc =
                                  "Seconds between keep-alive probes of new connections. 0: none.",
                              .test = EFFECTS "test_tcp_keepalive"},
    [CONFIG_TIMEOUT] = {.name = "timeout",
                        .type = CONFIG_INT,
                        .value = "0",
                        .min = 0,
                        .max = INT32_MAX,
                        .doc = "Close a connection without input for so many seconds. 0: never.",
                        .test = EFFECTS "test_timeout"},
    [CONFIG_MAXCLIENTS] = {.name = "maxclients",
                           .type = CONFIG_INT,
                           .value = "10000",
                           .min = 1,
                           .max = UINT32_MAX,
                           .doc = "Connections accepted at the same time. Lowered, with a warning, "
                                  "where the limit of\nopen files is less.",
                           .test = EFFECTS "test_maxclients"},
    [CONFIG_PROTECTED_MODE] =
        {.name = "protected-mode",
         .type = CONFIG_BOOL,
         .value = "yes",
         .doc = "Without requirepass, refuse connections that do not come from this machine.",
         .test = EFFECTS "test_protected_mode"},
    [CONFIG_PROTO_MAX_BULK_LEN] = {.name = "proto-max-bulk-len",
                                   .type = CONFIG_MEMORY,
                                   .value = "512mb",
                                   .min = MIB,
                                   .max = INT64_MAX,
                                   .doc = "Longest argument that is accepted.",
                                   .test = EFFECTS "test_proto_max_bulk_len"},
    [CONFIG_CLIENT_QUERY_BUFFER_LIMIT] = {.name = "client-query-buffer-limit",
                                          .type = CONFIG_MEMORY,
                                          .value = "1gb",
                                          .min = MIB,
                                          .max = INT64_MAX,
                                          .doc = "Most bytes of one request, and of a MULTI queue.",
                                          .test = EFFECTS "test_client_query_buffer_limit"},
    [CONFIG_CLIENT_OUTPUT_BUFFER_LIMIT] =
        {.name = "client-output-buffer-limit",
         .type = CONFIG_WORDS,
         .value = "normal 268435456 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
         .check = config_check_output_limits,
         .doc = "CLASS HARD SOFT SECONDS ...: a connection with more unread replies than HARD, "
                "or\nthan SOFT for so many SECONDS, is closed. 0: no limit. All connections are of "
                "the\nclass normal, for which Redis's default is no limit.",
         .test = EFFECTS "test_client_output_buffer_limit"},
    [CONFIG_REQUIREPASS] = {.name = "requirepass",
                            .type = CONFIG_STRING,
                            .flags = CONFIG_SECRET,
                            .value = "",
                            .doc = "Password of the default user. Empty: none.",
                            .test = EFFECTS "test_requirepass"},
    [CONFIG_DIR] = {.name = "dir",
                    .type = CONFIG_STRING,
                    .flags = CONFIG_PROTECTED,
                    .value = ".",
                    .doc = "Directory of the data file and the log; made if it is missing.",
                    .test = EFFECTS "test_dir"},
    [CONFIG_DATABASES] = {.name = "databases",
                          .type = CONFIG_INT,
                          .flags = CONFIG_IMMUTABLE,
                          .value = "16",
                          .min = 1,
                          .max = 1024,
                          .doc = "Number of databases.",
                          .test = EFFECTS "test_databases"},
    [CONFIG_DURABILITY] = {.name = "durability",
                           .type = CONFIG_ENUM,
                           .value = "always",
                           .names = durability_names,
                           .doc = "What an acknowledged write survives.\n"
                                  "always    power loss: it is on the device (group commit)\n"
                                  "everysec  the process; on the device within a second\n"
                                  "none      no log: what the last checkpoint held",
                           .test = EFFECTS "test_durability"},
    [CONFIG_APPENDFSYNC] = {.name = "appendfsync",
                            .type = CONFIG_ENUM,
                            .value = "always",
                            .names = appendfsync_names,
                            .doc = "Redis's name for it: always is always, everysec and no are\n"
                                   "everysec.",
                            .test = EFFECTS "test_appendfsync"},
    [CONFIG_MAX_RECOVERY_TIME] = {.name = "max-recovery-time",
                                  .type = CONFIG_INT,
                                  .value = "1000",
                                  .min = 10,
                                  .max = 3600000,
                                  .doc = "Milliseconds that replaying the log may take at start:\n"
                                         "a checkpoint is made before it would be more.",
                                  .test = EFFECTS "test_max_recovery_time"},
    [CONFIG_MAX_SNAPSHOT_AGE] =
        {.name = "max-snapshot-age",
         .type = CONFIG_INT,
         .value = "3600",
         .min = 0,
         .max = INT32_MAX,
         .doc = "Seconds that one read may go on, or a client may take for one\n"
                "large reply: what is overwritten meanwhile is kept for it. After\n"
                "that the read ends with an error; a reply of which a part was\n"
                "sent already, with the connection. 0: never.",
         .test = EFFECTS "test_max_snapshot_age"},
    [CONFIG_DIRTY_MEMORY] = {.name = "dirty-memory",
                             .type = CONFIG_MEMORY,
                             .flags = CONFIG_IMMUTABLE,
                             .value = "0",
                             .min = 0,
                             .max = 8 * KIB * KIB * MIB,
                             .doc =
                                 "Memory for pages that are not in the file yet. 0: an eighth of\n"
                                 "the memory limit, between 64 MiB and 1 GiB. At least 4 MiB.",
                             .test = EFFECTS "test_dirty_memory"},
    [CONFIG_PAGE_SIZE] = {.name = "page-size",
                          .type = CONFIG_MEMORY,
                          .flags = CONFIG_IMMUTABLE,
                          .value = "4kb",
                          .min = 4096,
                          .max = 65536,
                          .doc = "Bytes in a page of a new data file; a power of two.",
                          .test = EFFECTS "test_page_size"},
    [CONFIG_IO_THREADS] = {.name = "io-threads",
                           .type = CONFIG_INT,
                           .flags = CONFIG_IMMUTABLE,
                           .value = "0",
                           .min = 0,
                           .max = 128,
                           .doc = "Threads that serve connections. 0: half the cores.",
                           .test = EFFECTS "test_io_threads"},
    [CONFIG_READER_THREADS] = {.name = "reader-threads",
                               .type = CONFIG_INT,
                               .flags = CONFIG_IMMUTABLE,
                               .value = "0",
                               .min = 0,
                               .max = 256,
                               .doc =
                                   "Threads for long reads, and for short ones that wait for the\n"
                                   "disk: then one of them takes nothing else (see disk-reads).\n"
                                   "0: as many as cores, at least 2.",
                               .test = EFFECTS "test_reader_threads"},
    [CONFIG_DISK_READS] =
        {.name = "disk-reads",
         .type = CONFIG_ENUM,
         .value = "auto",
         .names = disk_reads_names,
         .doc = "Where short reads are executed that would wait for the disk.\n"
                "inline: where all others are, on the I/O threads. pool: by the\n"
                "reader threads, which also read what a write needs before it\n"
                "goes to the writer. auto: in the pool while the data file is\n"
                "larger than half the memory limit and pages are being read.",
         .test = "tests/integration/"
                 "test_disk_reads.py::test_the_setting_changes_where_cold_keys_are_read"},
    [CONFIG_HZ] = {.name = "hz",
                   .type = CONFIG_INT,
                   .value = "10",
                   .min = 0,
                   .max = INT32_MAX,
                   .doc = "Rounds of background work in a second, from 1 to 500.",
                   .test = EFFECTS "test_hz"},
    [CONFIG_LOGLEVEL] = {.name = "loglevel",
                         .type = CONFIG_ENUM,
                         .value = "notice",
                         .names = loglevel_names,
                         .doc = "debug, verbose, notice or warning.",
                         .test = EFFECTS "test_loglevel"},
    [CONFIG_LOGFILE] =
        {.name = "logfile",
         .type = CONFIG_STRING,
         .flags = CONFIG_IMMUTABLE,
         .value = "",
         .doc = "File for messages; SIGHUP opens it anew (after rotation). Empty: standard output.",
         .test = EFFECTS "test_logfile"},
    [CONFIG_PIDFILE] = {.name = "pidfile",
                        .type = CONFIG_STRING,
                        .flags = CONFIG_IMMUTABLE,
                        .value = "",
                        .doc = "File for the process id, removed at the end. Empty: none.",
                        .test = EFFECTS "test_pidfile"},
    [CONFIG_SHUTDOWN_TIMEOUT] = {.name = "shutdown-timeout",
                                 .type = CONFIG_INT,
                                 .value = "10",
                                 .min = 0,
                                 .max = INT32_MAX,
                                 .doc = "Seconds that connections get to take their replies.",
                                 .test = EFFECTS "test_shutdown_timeout"},
    [CONFIG_SHUTDOWN_ON_SIGINT] = {.name = "shutdown-on-sigint",
                                   .type = CONFIG_WORDS,
                                   .value = "default",
                                   .check = config_check_shutdown,
                                   .doc =
                                       "What SIGINT does: nosave ends without the last checkpoint "
                                       "(the log has all);\ndefault, save, now and force make it.",
                                   .test = EFFECTS "test_shutdown_on_sigint"},
    [CONFIG_SHUTDOWN_ON_SIGTERM] = {.name = "shutdown-on-sigterm",
                                    .type = CONFIG_WORDS,
                                    .value = "default",
                                    .check = config_check_shutdown,
                                    .doc = "The same for SIGTERM.",
                                    .test = EFFECTS "test_shutdown_on_sigterm"},
    [CONFIG_TEST_HOOK_DIR] = {.name = "test-hook-dir",
                              .type = CONFIG_STRING,
                              .flags = CONFIG_IMMUTABLE | CONFIG_HIDDEN,
                              .value = "",
                              .doc = "Directory of named pipes that hold steps for tests.",
                              .test = EFFECTS "test_test_hook_dir"},
};

const struct config_row *config_row(enum config_id id)
{
    return id < CONFIG_OWN_ROWS ? &rows[id] : &config_redis_rows[id - CONFIG_OWN_ROWS];
}

const char *config_class(const struct config_row *row)
{
    return row->flags & CONFIG_NOOP      ? "no-op"
           : row->flags & CONFIG_REFUSED ? "refused"
                                         : "effective";
}

int config_find(const char *name)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        if (strcasecmp(config_row(id)->name, name) == 0) {
            return id;
        }
    }
    return -1;
}

enum config_id config_target(enum config_id id)
{
    const char *alias = config_row(id)->alias;
    return alias == NULL ? id : (enum config_id)config_find(alias);
}
