/*
 * See server.h. All processes are children of this one and are ended by their id.
 */
#include "tests/crash/server.h"

#include "tests/crash/client.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_ARGUMENTS 24
#define PATIENCE_NS   (60ll * 1000000000)

/* A port nobody listens on, below those the kernel gives to outgoing connections. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int attempt = 0; attempt < 1000; attempt++) {
        uint16_t dice;
        if (getrandom(&dice, sizeof dice, 0) != sizeof dice)
            continue;
        int port = 15000 + dice % 17000;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert(fd >= 0);
        address.sin_port = htons((uint16_t)port);
        int taken = bind(fd, (struct sockaddr *)&address, sizeof address);
        close(fd);
        if (!taken)
            return port;
    }
    fprintf(stderr, "no free port\n");
    exit(2);
}

/* From here on this process's fdatasync answers 0 without doing anything. */
static int lose_syncs(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fdatasync, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static pid_t spawn(const struct server *server, char *const arguments[])
{
    fflush(NULL);
    pid_t pid = fork();
    assert(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int log = open(server->log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, 0);
    dup2(log, 1);
    dup2(log, 2);
    if (server->lose_syncs && lose_syncs() != 0)
        _exit(126);
    execv(arguments[0], arguments);
    fprintf(stderr, "%s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

void server_spawn(struct server *server, const char *durability)
{
    char port[16];
    server->port = free_port();
    snprintf(port, sizeof port, "%d", server->port);
    char *arguments[MAX_ARGUMENTS] = {
        (char *)server->program, "--bind",       "127.0.0.1",        "--port", port, "--dir",
        server->directory,       "--durability", (char *)durability,
    };
    int count = 9;
    for (const char *const *option = server->options; option && *option; option++) {
        assert(count < MAX_ARGUMENTS - 1);
        arguments[count++] = (char *)*option;
    }
    server->pid = spawn(server, arguments);
}

static void pause_ms(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000};
    nanosleep(&time, NULL);
}

static bool answers(int port)
{
    struct wire wire;
    struct buffer out = {0};
    char text[256];
    if (wire_open(&wire, port) != 0)
        return false;
    buffer_command(&out, 1, "PING");
    bool good = wire_send(&wire, &out) == 0 && wire_skip_reply(&wire, text, sizeof text) == 0;
    buffer_free(&out);
    wire_close(&wire);
    return good;
}

int server_ready(struct server *server)
{
    int64_t deadline = now_ns() + PATIENCE_NS;
    while (now_ns() < deadline) {
        int status;
        bool ready = answers(server->port);
        if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
            printf("the server ended while it started, wait status 0x%x\n", (unsigned)status);
            server->pid = 0;
            return -1;
        }
        if (ready)
            return 0;
        pause_ms(1);
    }
    printf("the server does not answer\n");
    return -1;
}

void server_kill(struct server *server)
{
    if (server->pid == 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

int server_stop(struct server *server)
{
    int64_t deadline = now_ns() + PATIENCE_NS;
    int status;
    kill(server->pid, SIGTERM);
    while (waitpid(server->pid, &status, WNOHANG) == 0) {
        if (now_ns() > deadline) {
            server_kill(server);
            return -1;
        }
        pause_ms(2);
    }
    server->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int server_check(struct server *server)
{
    char *arguments[] = {(char *)server->tool, "check", server->directory, NULL};
    int status;
    pid_t pid = spawn(server, arguments);
    if (waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void server_show_log(const struct server *server)
{
    char text[4096];
    FILE *file = fopen(server->log, "r");
    if (!file)
        return;
    if (fseek(file, -(long)(sizeof text - 1), SEEK_END) != 0)
        rewind(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    text[length] = 0;
    printf("--- end of %s ---\n%s---\n", server->log, text);
    fclose(file);
}
