/*
 * config_private.h - shared by the files of server/config only.
 */
#ifndef PANDO_SERVER_CONFIG_CONFIG_PRIVATE_H
#define PANDO_SERVER_CONFIG_CONFIG_PRIVATE_H

#include "server/config/config.h"

#include <pthread.h>
#include <stdatomic.h>

enum output_class { OUTPUT_NORMAL, OUTPUT_REPLICA, OUTPUT_PUBSUB, OUTPUT_CLASSES };

/* Hard and soft limit in bytes, seconds above the soft one; by class. */
struct output_limits {
    _Atomic uint64_t v[OUTPUT_CLASSES][3];
};

struct config {
    pthread_mutex_t waiting;               /* held, outside `setting`, to change durability */
    pthread_mutex_t setting;               /* one change at a time; held while the listener works */
    pthread_mutex_t lock;                  /* texts; held for moments only, inside `setting` */
    _Atomic int64_t numbers[CONFIG_COUNT]; /* what counts */
    _Atomic int64_t
        given[CONFIG_COUNT];      /* what was written; numbers may be fitted to the machine */
    char *texts[CONFIG_COUNT];    /* CONFIG_STRING and CONFIG_WORDS */
    bool mentioned[CONFIG_COUNT]; /* no-op rows that were given; under `setting` */
    bool loading;                 /* a file or command line is being read */
    struct output_limits output;
    config_listener listener;
    void *listener_arg;
    void (*warn)(void *arg, const char *text);
    void *warn_arg;
};

/* table_redis.c */
extern const struct config_row config_redis_rows[CONFIG_REDIS_ROWS];

/* Where the value of a row is: the row itself, or the one it is another name for. */
enum config_id config_target(enum config_id id);

/* Sets one value from its words, without asking the listener. 0, or -1 and reason. */
int config_assign(struct config *config, enum config_id id, const char *const *words, size_t n,
                  char reason[CONFIG_REASON]);
/* Notes that a no-op row was given; the first time says so. */
void config_mention(struct config *config, enum config_id id);

/* value.c: text to number and back. 0, or -1 and reason. `text` of the second: to free. */
int config_parse_number(const struct config_row *row, const char *word, int64_t *number,
                        char reason[CONFIG_REASON]);
char *config_number_text(const struct config_row *row, int64_t number);
/* Takes "normal 1mb 0 0 ..." apart, into the classes that it names. 0, or -1 and *reason. */
int config_parse_output_limits(const char *text, struct output_limits *limits, const char **reason);
char *config_output_text(const struct output_limits *limits);
/* The class that a word names, or -1. */
int config_output_class(const char *word);
void config_refuse(char reason[CONFIG_REASON], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* check.c: texts with rules of their own. 0, or -1 and *reason. */
int config_check_output_limits(const char *text, const char **reason);
int config_check_bind(const char *text, const char **reason);
int config_check_save(const char *text, const char **reason);
int config_check_shutdown(const char *text, const char **reason);
int config_check_oom_values(const char *text, const char **reason);
int config_check_percentiles(const char *text, const char **reason);
int config_check_replicaof(const char *text, const char **reason);
int config_check_hostname(const char *text, const char **reason);
int config_check_title(const char *text, const char **reason);

/* parse.c: reads a stream; `name` is what errors call it. */
int config_load_stream(struct config *config, FILE *from, const char *name,
                       struct config_error *error);
/* Splits a line into words. The number of words, 0 for comments and blank lines, or -1. Words are
 * to free, with config_free_words. */
int config_split(const char *line, size_t len, char ***words);
void config_free_words(char **words, int n);

/* replace.c: puts a text in a file's place. 0 or a negative errno. */
int config_replace_file(const char *path, const char *text, size_t len);

#endif
