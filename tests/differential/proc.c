/*
 * Starting and ending the two servers.
 *
 * Invariants:
 *  1. A server dies with the driver: PR_SET_PDEATHSIG for the ways out that run no code (SIGKILL,
 *     abort), an exit hook for all others. SIGINT, SIGTERM and SIGHUP only set a flag; the exchange
 *     loop sees it.
 *  2. Processes are ended by pid only, and waited for.
 *  3. Each server has a directory of its own, made by mkdtemp and removed with the server.
 *
 * The guard's pointer and the flag are the only global state: signal handlers and exit hooks have
 * no context.
 */
#include "tests/differential/proc.h"

#include "tests/differential/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_TIMEOUT_MS 20000
#define STOP_TIMEOUT_MS  5000
#define LOG_TAIL         6000

static struct server *guarded;
static size_t guarded_count;
static volatile sig_atomic_t interrupted;

int proc_interrupted(void)
{
    return interrupted;
}

static void on_signal(int number)
{
    interrupted = number;
}

static void stop_guarded(void)
{
    for (size_t i = 0; i < guarded_count; i++)
        server_stop(&guarded[i]);
}

void proc_guard(struct server *servers, size_t count)
{
    guarded = servers;
    guarded_count = count;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    atexit(stop_guarded);
}

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int port = -1;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &len) == 0)
        port = ntohs(address.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

static int is_redis(const char *program)
{
    const char *base = strrchr(program, '/');
    return strncmp(base ? base + 1 : program, "redis-server", 12) == 0;
}

/* Runs in the child: never returns. */
static void exec_server(const struct server *server, pid_t parent)
{
    char port[16], log[sizeof server->dir + 16];
    snprintf(port, sizeof port, "%d", server->port);
    snprintf(log, sizeof log, "%s/output", server->dir);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int in = open("/dev/null", O_RDONLY);
    if (out < 0 || in < 0)
        _exit(126);
    dup2(in, 0);
    dup2(out, 1);
    dup2(out, 2);
    if (is_redis(server->program))
        execlp(server->program, server->program, "--port", port, "--bind", "127.0.0.1", "--dir",
               server->dir, "--save", "", "--appendonly", "no", "--enable-debug-command", "yes",
               "--loglevel", "warning", (char *)NULL);
    else
        execlp(server->program, server->program, "--port", port, "--bind", "127.0.0.1", "--dir",
               server->dir, (char *)NULL);
    fprintf(stderr, "cannot execute %s: %s\n", server->program, strerror(errno));
    _exit(127);
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Asks until the server answers PING. Returns 0, or -1 when it ended or the time is over. */
static int await_ready(struct server *server)
{
    long long deadline = now_ms() + START_TIMEOUT_MS;
    while (now_ms() < deadline && !interrupted) {
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            return -1;
        }
        if (conn_ping(server->port) == 0)
            return 0;
        poll(NULL, 0, 5);
    }
    return -1;
}

static int make_dir(struct server *server)
{
    const char *base = getenv("TMPDIR");
    snprintf(server->dir, sizeof server->dir, "%s/differential-XXXXXX",
             base && *base ? base : "/tmp");
    if (mkdtemp(server->dir) != NULL)
        return 0;
    fprintf(stderr, "cannot make %s: %s\n", server->dir, strerror(errno));
    server->dir[0] = '\0';
    return -1;
}

int server_start(struct server *server)
{
    /* Somebody else may take the port between the search and the server's bind: hence the second
     * and third try. */
    for (int attempt = 0; attempt < 3 && !interrupted; attempt++) {
        server->port = free_port();
        if (server->port < 0 || make_dir(server) < 0)
            return -1;
        pid_t parent = getpid();
        fflush(NULL);
        server->pid = fork();
        if (server->pid == 0)
            exec_server(server, parent);
        if (server->pid > 0 && await_ready(server) == 0)
            return 0;
        if (attempt == 2) {
            fprintf(stderr, "%s (%s) does not start\n", server->label, server->program);
            server_print_log(server);
        }
        if (server->pid < 0)
            server->pid = 0;
        server_stop(server);
    }
    return -1;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

void server_stop(struct server *server)
{
    if (server->pid > 0) {
        kill(server->pid, SIGCONT);
        kill(server->pid, SIGTERM);
        long long deadline = now_ms() + STOP_TIMEOUT_MS;
        while (waitpid(server->pid, NULL, WNOHANG) == 0) {
            if (now_ms() >= deadline)
                kill(server->pid, SIGKILL);
            poll(NULL, 0, 2);
        }
        server->pid = 0;
    }
    if (server->dir[0] != '\0')
        nftw(server->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    server->dir[0] = '\0';
}

void server_status(struct server *server, char *out, size_t cap)
{
    int status = 0;
    /* A process that just closed its sockets may need a moment to become waitable. */
    long long deadline = now_ms() + 200;
    while (server->pid > 0 && waitpid(server->pid, &status, WNOHANG) == 0) {
        if (now_ms() >= deadline) {
            snprintf(out, cap, "running");
            return;
        }
        poll(NULL, 0, 5);
    }
    if (server->pid == 0)
        snprintf(out, cap, "not running");
    else if (WIFSIGNALED(status))
        snprintf(out, cap, "ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(out, cap, "exited with status %d", WEXITSTATUS(status));
    server->pid = 0;
}

void server_print_log(const struct server *server)
{
    char path[sizeof server->dir + 16], tail[LOG_TAIL + 1];
    snprintf(path, sizeof path, "%s/output", server->dir);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    fseek(file, size > LOG_TAIL ? size - LOG_TAIL : 0, SEEK_SET);
    size_t got = fread(tail, 1, LOG_TAIL, file);
    fclose(file);
    tail[got] = '\0';
    char *rest = NULL;
    for (char *line = strtok_r(tail, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        printf("  %s> %s\n", server->label, line);
}
