/*
 * main.c - pandod: command line, signals, start and end.
 *
 * pandod [FILE|-] [--directive value ...] [-]
 *
 * SIGTERM, SIGINT and SIGHUP are blocked in all threads and read by the main one; SIGPIPE and
 * SIGXFSZ are ignored (a limit on the size of files is a full disk). Exit status: 0 after an
 * orderly end, 1 when starting or closing failed.
 *
 * Crash: the file of pidfile stays, and is written anew by the next start.
 */
#include "server/config/config.h"
#include "server/observe/info.h"
#include "server/observe/logger.h"
#include "server/server.h"
#include "server/service.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* A standard stream that was closed leads nowhere, and not into the socket or file that would get
 * its number. */
static int open_streams(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    return fd < 0 ? -1 : close(fd);
}

static void usage(FILE *to)
{
    fprintf(to, "Usage: pandod [FILE|-] [--directive value ...] [-]\n"
                "       pandod - (read config from stdin)\n"
                "       pandod -v or --version\n"
                "       pandod -h or --help\n"
                "       pandod --check-config FILE     say what is wrong with it, and end\n"
                "       pandod --print-config          every directive with its default\n"
                "       pandod --print-config-manual   docs/configuration.md\n"
                "       pandod --print-config-table    name, class, and test or reason\n\n"
                "Examples:\n"
                "       pandod (run the server with default conf)\n"
                "       pandod /etc/pando/pando.conf\n"
                "       pandod --port 7000 --dir /var/lib/pando --durability everysec\n"
                "       echo 'timeout 60' | pandod -\n"
                "       pandod /etc/pando/pando.conf --loglevel verbose -\n");
}

/* FILE:LINE: 'text': reason */
static int print_error(const struct config_error *error)
{
    fprintf(stderr, "pandod: %s", error->file);
    if (error->line > 0) {
        fprintf(stderr, ":%u", error->line);
    }
    if (error->text[0] != '\0') {
        fprintf(stderr, ": '%s'", error->text);
    }
    fprintf(stderr, ": %s\n", error->reason);
    return -1;
}

/* The file, standard input, the command line, in this order. `argv` begins with the file. */
static int load(struct config *config, int argc, char **argv)
{
    struct config_error error = {0};
    bool input = argc > 0 && strcmp(argv[argc - 1], "-") == 0;
    bool file = argc > 0 && strncmp(argv[0], "--", 2) != 0 && strcmp(argv[0], "-") != 0;
    argc -= input;
    if ((file && config_load_file(config, argv[0], &error) != 0) ||
        (input && config_load_file(config, "-", &error) != 0) ||
        config_load_args(config, argc - file, argv + file, &error) != 0) {
        return print_error(&error);
    }
    config_settle(config);
    return 0;
}

/* The configuration file's path from the root; "" without one. A text to free, or NULL. */
static char *file_path(int argc, char **argv)
{
    char *cwd, *path = NULL;
    if (argc == 0 || strncmp(argv[0], "--", 2) == 0 || strcmp(argv[0], "-") == 0) {
        return strdup("");
    }
    if (argv[0][0] == '/') {
        return strdup(argv[0]);
    }
    cwd = getcwd(NULL, 0);
    if (cwd != NULL && asprintf(&path, "%s/%s", cwd, argv[0]) < 0) {
        path = NULL;
    }
    free(cwd);
    return path;
}

static void print_warning(void *arg, const char *text)
{
    (void)arg;
    fprintf(stderr, "pandod: warning: %s\n", text);
}

static int check_config(struct config *config, int argc, char **argv)
{
    if (argc == 0) {
        usage(stderr);
        return 1;
    }
    config_on_warning(config, print_warning, NULL);
    if (load(config, argc, argv) != 0) {
        return 1;
    }
    printf("%s: the configuration is valid\n", argv[0]);
    return 0;
}

static int block_signals(void)
{
    sigset_t set;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
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

static void write_pidfile(const char *path, struct logger *log)
{
    FILE *file = path[0] == '\0' ? NULL : fopen(path, "we");
    if (path[0] == '\0') {
        return;
    }
    if (file == NULL || fprintf(file, "%d\n", (int)getpid()) < 0) {
        logger_write(log, LOG_WARNING, "Failed to write PID file '%s': %s", path, strerror(errno));
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* From the start of the server to its end. Takes config over. */
static int run(struct config *config, struct logger *log, int signals, const char *file,
               const char *executable)
{
    char *pidfile = config_text(config, CONFIG_PIDFILE);
    struct service *service = service_new();
    struct server *server;
    int rc = -1;
    service_starting(service, "Opening the store");
    if (pidfile != NULL && server_start(config, log, file, executable, &server) == 0) {
        write_pidfile(pidfile, log);
        service_ready(service, "Ready to accept connections");
        server_wait(server, signals, service);
        service_stopping(service, "Draining connections and closing the store");
        if (pidfile[0] != '\0') {
            logger_write(log, LOG_NOTICE, "Removing the pid file.");
            unlink(pidfile);
        }
        rc = server_stop(server);
    } else {
        config_free(config);
        logger_close(log);
    }
    service_free(service);
    free(pidfile);
    return rc;
}

static int serve(struct config *config, int argc, char **argv, const char *executable)
{
    struct logger *log;
    char *file;
    int signals, rc = -1;
    if (load(config, argc, argv) != 0 || (log = open_log(config)) == NULL) {
        config_free(config);
        return 1;
    }
    file = file_path(argc, argv);
    signals = block_signals();
    if (file != NULL && signals >= 0) {
        logger_write(log, LOG_NOTICE, "pandod " PANDO_VERSION ", pid %d, %s%s", (int)getpid(),
                     file[0] != '\0' ? "configuration file " : "default configuration", file);
        rc = run(config, log, signals, file, executable);
    }
    free(file);
    return rc == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct config *config = config_new();
    const char *first = argc > 1 ? argv[1] : "";
    int rc = 0;
    if (config == NULL || open_streams() != 0) {
        return 1;
    }
    if (strcmp(first, "--version") == 0 || strcmp(first, "-v") == 0) {
        printf("pandod " PANDO_VERSION " (compatible with Redis 7.0.15)\n");
    } else if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) {
        usage(stdout);
    } else if (strcmp(first, "--print-config") == 0) {
        config_write_reference(stdout);
    } else if (strcmp(first, "--print-config-manual") == 0) {
        config_write_manual(stdout);
    } else if (strcmp(first, "--print-config-table") == 0) {
        config_write_table(stdout);
    } else if (strcmp(first, "--check-config") == 0) {
        rc = check_config(config, argc - 2, argv + 2);
    } else {
        return serve(config, argc - 1, argv + 1, argv[0]);
    }
    config_free(config);
    return rc;
}
