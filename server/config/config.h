/*
 * config.h - every setting of pandod: one table for files, command line, CONFIG and documentation.
 *
 * Invariants
 *  1. A value that stands in a struct config has passed its row's check.
 *  2. CONFIG_IMMUTABLE values do not change after config_listen().
 *
 * Threads: numbers may be read at any time by any thread. Texts are copied out under a lock.
 * Setting is serialised by the lock; whoever must act on a change registers with
 * config_listen().
 */
#ifndef PANDO_SERVER_CONFIG_CONFIG_H
#define PANDO_SERVER_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum config_id {
    CONFIG_BIND,
    CONFIG_PORT,
    CONFIG_TCP_BACKLOG,
    CONFIG_TCP_KEEPALIVE,
    CONFIG_TIMEOUT,
    CONFIG_MAXCLIENTS,
    CONFIG_PROTO_MAX_BULK_LEN,
    CONFIG_CLIENT_QUERY_BUFFER_LIMIT,
    CONFIG_CLIENT_OUTPUT_BUFFER_LIMIT,
    CONFIG_REQUIREPASS,
    CONFIG_DIR,
    CONFIG_DATABASES,
    CONFIG_DURABILITY,
    CONFIG_APPENDFSYNC,
    CONFIG_MAX_RECOVERY_TIME,
    CONFIG_DIRTY_MEMORY,
    CONFIG_PAGE_SIZE,
    CONFIG_IO_THREADS,
    CONFIG_READER_THREADS,
    CONFIG_DISK_READS,
    CONFIG_HZ,
    CONFIG_LOGLEVEL,
    CONFIG_LOGFILE,
    CONFIG_DAEMONIZE,
    CONFIG_SHUTDOWN_TIMEOUT,
    CONFIG_TEST_HOOK_DIR,
    CONFIG_SAVE,
    CONFIG_APPENDONLY,
    CONFIG_MAXMEMORY,
    CONFIG_MAXMEMORY_POLICY,
    CONFIG_PROTECTED_MODE,
    CONFIG_NOTIFY_KEYSPACE_EVENTS,
    CONFIG_SLOWLOG_LOG_SLOWER_THAN,
    CONFIG_SLOWLOG_MAX_LEN,
    CONFIG_CLUSTER_ENABLED,
    CONFIG_STOP_WRITES_ON_BGSAVE_ERROR,
    CONFIG_LAZYFREE_LAZY_USER_DEL,
    CONFIG_LAZYFREE_LAZY_USER_FLUSH,
    CONFIG_ACTIVEDEFRAG,
    CONFIG_COUNT
};

enum config_type {
    CONFIG_BOOL,   /* yes, no */
    CONFIG_INT,    /* a decimal integer */
    CONFIG_MEMORY, /* an integer with an optional unit: b k kb m mb g gb */
    CONFIG_ENUM,   /* one of `names` */
    CONFIG_STRING, /* one word */
    CONFIG_WORDS,  /* any number of words, kept with single blanks between them */
};

enum config_flag {
    CONFIG_IMMUTABLE = 1, /* not by CONFIG SET */
    CONFIG_HIDDEN = 2,    /* not shown by CONFIG GET with a pattern: for tests */
    CONFIG_FIXED = 4,     /* says what Pando does; setting it changes nothing and is warned about */
    CONFIG_SECRET = 8,    /* never logged */
};

enum durability_name { DURABILITY_NONE, DURABILITY_EVERYSEC, DURABILITY_ALWAYS };
enum disk_reads_name { DISK_READS_AUTO, DISK_READS_POOL, DISK_READS_INLINE };
enum loglevel_name { LOGLEVEL_DEBUG, LOGLEVEL_VERBOSE, LOGLEVEL_NOTICE, LOGLEVEL_WARNING };

struct config_row {
    const char *name;
    enum config_type type;
    unsigned flags;
    const char *value;        /* default, as it would be written in a file */
    int64_t min, max;         /* numbers */
    const char *const *names; /* CONFIG_ENUM: ends with NULL; the number is the index */
    int (*check)(const char *text,
                 const char **reason); /* CONFIG_WORDS and CONFIG_STRING, or NULL */
    const char *doc;
};

struct config;

/* All defaults, or NULL without memory. */
struct config *config_new(void);
void config_free(struct config *config);

/* Where and why a file or command line was refused. `line` is 0 for the command line. */
struct config_error {
    char file[256];
    unsigned line;
    char text[160];
    char reason[160];
};

/* Reads a file in redis.conf's syntax ("-" is standard input). 0, or -1 and *error. */
int config_load_file(struct config *config, const char *path, struct config_error *error);
/* "--name value value --name ...": argv[0] is the first of them. 0, or -1 and *error. */
int config_load_args(struct config *config, int argc, char **argv, struct config_error *error);
/* Fills in what depends on the machine (io-threads and the like, where left at 0). */
void config_settle(struct config *config);

/* From here on CONFIG_IMMUTABLE values stay, and changes are reported to the listener. The listener
 * may refuse (negative, *reason set): the value then stays as it was. Called on the setting thread.
 */
typedef int (*config_listener)(void *arg, enum config_id id, const char **reason);
void config_listen(struct config *config, config_listener listener, void *arg);

int64_t config_number(const struct config *config, enum config_id id);
/* A copy (free it); never NULL but for lack of memory. */
char *config_text(const struct config *config, enum config_id id);
/* client-output-buffer-limit normal: hard and soft limit in bytes and the soft one's seconds; 0:
 * none */
void config_output_limits(const struct config *config, uint64_t *hard, uint64_t *soft,
                          uint64_t *seconds);

/* Names, values and rows for CONFIG GET. `id` counts from 0 to CONFIG_COUNT - 1. */
const struct config_row *config_row(enum config_id id);
/* The row's number by its name in any case of letters, or -1. */
int config_find(const char *name);
/* The value as CONFIG GET shows it: a copy (free it). */
char *config_show(const struct config *config, enum config_id id);

/* One change of CONFIG SET. All or none: on failure -1, the position of the offending pair in *bad
 * and why in *reason (constant text, or text in reason_buffer). */
struct config_change {
    enum config_id id;
    const char *value;
};
int config_set(struct config *config, const struct config_change *changes, size_t n, size_t *bad,
               char reason[160]);

/* "1kb" -> 1024. 0 or -1. */
int config_parse_memory(const char *text, int64_t *value);

/* Writes the table's documentation as a configuration file. */
void config_write_reference(FILE *to);

/* How fixed or unusual settings are reported while loading; NULL: silent. */
void config_on_warning(struct config *config, void (*warn)(void *arg, const char *text), void *arg);

#endif
