/*
 * main.c - pandod: command line, signals, start and end.
 *
 * pandod [FILE|-] [--directive value ...]   --help   --version   --print-config
 *
 * SIGTERM and SIGINT are blocked in all threads and read by the main one; SIGPIPE is ignored.
 * Exit status: 0 after an orderly end, 1 when starting or closing failed.
 */
#include "server/config/config.h"
#include "server/observe/info.h"
#include "server/observe/logger.h"
#include "server/server.h"
#include "server/service.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int usage(FILE *to)
{
    fprintf(to, "Usage: pandod [FILE|-] [--directive value ...]\n"
                "       pandod --version | --help\n"
                "       pandod --print-config     every directive with its default\n"
                "Examples:\n"
                "       pandod conf/pando.conf\n"
                "       pandod --port 7000 --dir /var/lib/pando --durability everysec\n");
    return to == stdout ? 0 : 1;
}

static int print_error(const struct config_error *error)
{
    if (error->line > 0) {
        fprintf(stderr, "pandod: %s, line %u: '%s': %s\n", error->file, error->line, error->text,
                error->reason);
    } else if (error->text[0] != '\0') {
        fprintf(stderr, "pandod: %s: '%s': %s\n", error->file, error->text, error->reason);
    } else {
        fprintf(stderr, "pandod: %s: %s\n", error->file, error->reason);
    }
    return -1;
}

static void print_warning(void *arg, const char *text)
{
    (void)arg;
    fprintf(stderr, "pandod: warning: %s\n", text);
}

static int load(struct config *config, int argc, char **argv, const char **file)
{
    struct config_error error = {0};
    int next = 1;
    *file = "";
    config_on_warning(config, print_warning, NULL);
    if (argc > 1 && strncmp(argv[1], "--", 2) != 0) {
        *file = argv[1];
        next = 2;
        if (config_load_file(config, argv[1], &error) != 0) {
            return print_error(&error);
        }
    }
    if (config_load_args(config, argc - next, argv + next, &error) != 0) {
        return print_error(&error);
    }
    config_settle(config);
    return 0;
}

static int block_signals(void)
{
    sigset_t set;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static struct logger *open_log(const struct config *config)
{
    struct logger *log = NULL;
    char *path = config_text(config, CONFIG_LOGFILE);
    int rc = path == NULL
                 ? -1
                 : logger_open(path, (enum log_level)config_number(config, CONFIG_LOGLEVEL), &log);
    if (rc != 0) {
        fprintf(stderr, "pandod: logfile '%s': %s\n", path != NULL ? path : "", strerror(-rc));
    }
    free(path);
    return log;
}

static int serve(struct config *config, const char *file, const char *executable)
{
    struct server *server;
    struct service *service;
    struct logger *log = open_log(config);
    int signals = block_signals(), rc;
    if (log == NULL || signals < 0) {
        config_free(config);
        return 1;
    }
    logger_write(log, LOG_NOTICE, "pandod " PANDO_VERSION ", pid %d, %s%s", (int)getpid(),
                 file[0] != '\0' ? "configuration file " : "default configuration", file);
    service = service_new();
    service_starting(service, "Opening the store");
    if (server_start(config, log, file, executable, &server) != 0) {
        service_free(service);
        config_free(config);
        logger_close(log);
        return 1;
    }
    service_ready(service, "Ready to accept connections");
    server_wait(server, signals, service);
    service_stopping(service, "Draining connections and closing the store");
    rc = server_stop(server);
    service_free(service);
    close(signals);
    return rc == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct config *config = config_new();
    const char *file;
    if (config == NULL) {
        return 1;
    }
    if (argc == 2 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-v") == 0)) {
        printf("pandod " PANDO_VERSION " (compatible with Redis 7.0.15)\n");
    } else if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        usage(stdout);
    } else if (argc == 2 && strcmp(argv[1], "--print-config") == 0) {
        config_write_reference(stdout);
    } else if (load(config, argc, argv, &file) != 0) {
        config_free(config);
        return 1;
    } else {
        return serve(config, file, argv[0]);
    }
    config_free(config);
    return 0;
}
