/*
 * config.h - every setting of pandod: one table for files, command line, CONFIG and documentation.
 *
 * Each row of the table is of one class:
 *   effective  it does what its documentation says; `test` names the test that shows it
 *   no-op      a directive of Redis that has nothing to act on here: checked as Redis checks it,
 *              kept and shown again, warned about when it is given first
 *   refused    a directive of Redis whose silent acceptance would deceive: anything but its default
 *              is an error, and the documentation is the reason
 *
 * Invariants
 *  1. A value that stands in a struct config has passed its row's check.
 *  2. CONFIG_IMMUTABLE values do not change after config_listen().
 *  3. A refused row has its default as its value, always.
 *
 * Threads: numbers may be read at any time by any thread. Texts are copied out under a lock.
 * Setting is serialised by a lock; whoever must act on a change registers with config_listen().
 */
#ifndef PANDO_SERVER_CONFIG_CONFIG_H
#define PANDO_SERVER_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_REASON     256 /* bytes of a reason */
#define CONFIG_REDIS_ROWS 174 /* rows of table_redis.c */

/* The effective ones; those of table_redis.c follow, by number only. */
enum config_id {
    CONFIG_BIND,
    CONFIG_PORT,
    CONFIG_UNIXSOCKET,
    CONFIG_UNIXSOCKETPERM,
    CONFIG_TCP_BACKLOG,
    CONFIG_TCP_KEEPALIVE,
    CONFIG_TIMEOUT,
    CONFIG_MAXCLIENTS,
    CONFIG_PROTECTED_MODE,
    CONFIG_PROTO_MAX_BULK_LEN,
    CONFIG_CLIENT_QUERY_BUFFER_LIMIT,
    CONFIG_CLIENT_OUTPUT_BUFFER_LIMIT,
    CONFIG_REQUIREPASS,
    CONFIG_DIR,
    CONFIG_DATABASES,
    CONFIG_DURABILITY,
    CONFIG_APPENDFSYNC,
    CONFIG_MAX_RECOVERY_TIME,
    CONFIG_MAX_SNAPSHOT_AGE,
    CONFIG_DIRTY_MEMORY,
    CONFIG_PAGE_SIZE,
    CONFIG_IO_THREADS,
    CONFIG_READER_THREADS,
    CONFIG_DISK_READS,
    CONFIG_HZ,
    CONFIG_LOGLEVEL,
    CONFIG_LOGFILE,
    CONFIG_PIDFILE,
    CONFIG_SHUTDOWN_TIMEOUT,
    CONFIG_SHUTDOWN_ON_SIGINT,
    CONFIG_SHUTDOWN_ON_SIGTERM,
    CONFIG_TEST_HOOK_DIR,
    CONFIG_OWN_ROWS,
    CONFIG_COUNT = CONFIG_OWN_ROWS + CONFIG_REDIS_ROWS
};

enum config_type {
    CONFIG_BOOL,    /* yes, no */
    CONFIG_INT,     /* a decimal integer */
    CONFIG_OCTAL,   /* an octal integer */
    CONFIG_MEMORY,  /* an integer with an optional unit: b k kb m mb g gb */
    CONFIG_PERCENT, /* the same, or a percentage (kept as a negative number) */
    CONFIG_ENUM,    /* one of `names` */
    CONFIG_STRING,  /* one word */
    CONFIG_WORDS,   /* any number of words, kept with single blanks between them */
};

enum config_flag {
    CONFIG_NOOP = 1,       /* class no-op */
    CONFIG_REFUSED = 2,    /* class refused */
    CONFIG_IMMUTABLE = 4,  /* not by CONFIG SET */
    CONFIG_PROTECTED = 8,  /* the same, with Redis's text for such */
    CONFIG_FILE_ONLY = 16, /* unknown to CONFIG: in files and on the command line only */
    CONFIG_HIDDEN = 32,    /* not shown by CONFIG GET with a pattern: for tests */
    CONFIG_SECRET = 64,    /* never logged */
    CONFIG_UNSIGNED = 128, /* any number of 64 bits */
    CONFIG_ADDS_UP = 256,  /* lines of a file add to each other; "" takes all away */
};

enum durability_name { DURABILITY_NONE, DURABILITY_EVERYSEC, DURABILITY_ALWAYS };
enum disk_reads_name { DISK_READS_AUTO, DISK_READS_POOL, DISK_READS_INLINE };
enum loglevel_name { LOGLEVEL_DEBUG, LOGLEVEL_VERBOSE, LOGLEVEL_NOTICE, LOGLEVEL_WARNING };

struct config_row {
    const char *name;
    enum config_type type;
    int64_t min, max;         /* numbers */
    const char *const *names; /* CONFIG_ENUM: ends with NULL; the number is the index */
    unsigned flags;
    const char *value; /* default, as it would be written in a file */
    const char *doc;
    int (*check)(const char *text, const char **reason); /* of texts, or NULL */
    const char *alias;                                   /* the row that has the value, or NULL */
    const char *test; /* effective: "tests/FILE::NAME", which shows the effect */
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
    char reason[CONFIG_REASON];
};

/* Reads a file in redis.conf's syntax ("-" is standard input). 0, or -1 and *error. */
int config_load_file(struct config *config, const char *path, struct config_error *error);
/* "--name value value --name ...": argv[0] is the first of them. 0, or -1 and *error. */
int config_load_args(struct config *config, int argc, char **argv, struct config_error *error);
/* Fills in what depends on the machine (io-threads and the like, where left at 0). */
void config_settle(struct config *config);
/* A limit of the machine makes a number another one than was given: CONFIG REWRITE keeps the given.
 */
void config_adjust(struct config *config, enum config_id id, int64_t number);

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

/* The table: `id` counts from 0 to CONFIG_COUNT - 1. */
const struct config_row *config_row(enum config_id id);
/* "effective", "no-op" or "refused" */
const char *config_class(const struct config_row *row);
/* The row's number by its name in any case of letters, or -1. */
int config_find(const char *name);
/* The value as CONFIG GET shows it, and as a file holds it (what was given, not what the machine
 * made of it; not quoted): copies (free them). */
char *config_show(const struct config *config, enum config_id id);
char *config_given(const struct config *config, enum config_id id);

/* CONFIG SET: all pairs or none. */
struct config_change {
    const char *name; /* in any case of letters */
    const char *value;
};
enum config_set_result {
    CONFIG_SET_OK = 0,
    CONFIG_SET_UNKNOWN = -1, /* no such parameter */
    CONFIG_SET_FIXED = -2,   /* it cannot be changed, or stands there twice */
    CONFIG_SET_FAILED = -3   /* the value is refused */
};
/* On failure the position of the offending pair is in *bad, and why in reason. */
enum config_set_result config_set(struct config *config, const struct config_change *changes,
                                  size_t n, size_t *bad, char reason[CONFIG_REASON]);

/* CONFIG REWRITE: brings the file at `path` to the values as they are. Comments, order, and what
 * says the same already stay; included files are not touched. The outcome is parsed before it is
 * written: it gives the running configuration, or there is an error. 0, or -1 and why in reason. */
int config_rewrite(struct config *config, const char *path, char reason[CONFIG_REASON]);

/* "1kb" -> 1024. 0 or -1. */
int config_parse_memory(const char *text, int64_t *value);

/* The table's documentation: as a configuration file, as Markdown, and a line a row
 * ("name<TAB>class<TAB>test or reason"). */
void config_write_reference(FILE *to);
void config_write_manual(FILE *to);
void config_write_table(FILE *to);

/* Where warnings about directives without effect go, those of before included. One each. */
void config_on_warning(struct config *config, void (*warn)(void *arg, const char *text), void *arg);

#endif
