/*
 * server.c - see server.h; and the services that handlers ask for (commands/services.h).
 *
 * Order of starting: store, keyspace, writer, pool, loops, listener; stopping is the reverse, so
 * that nothing is asked of a part that has ended (the writer ends before the pool: it asks of it).
 *
 * Crash: nothing here is on disk; see storage for what is.
 */
#include "server/server.h"

#include "server/commands/services.h"
#include "server/exec/pool.h"
#include "server/exec/regime.h"
#include "server/exec/writer.h"
#include "server/keyspace/keyspace.h"
#include "server/net/listener.h"
#include "server/observe/info.h"
#include "server/observe/metrics.h"
#include "server/report.h"
#include "server/settings.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct server {
    struct exec_env env;
    struct ps_recovery recovery;
    struct clients *clients;
    struct loop *loops;
    size_t loop_n;
    uint64_t *ticks_seen; /* of each loop, by the main thread */
    struct listener *listener;
    char run_id[41];
    char *config_file, *executable;
    int64_t started_ms;

    int wake_fd; /* eventfd: a shutdown was asked for */
    _Atomic bool save_at_end, ending;

    pthread_t saver; /* makes the checkpoints of BGSAVE */
    bool saver_runs;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    bool save_wanted, saver_stops, last_save_ok;
    int64_t last_save;         /* Unix seconds */
    uint64_t checkpoints_seen; /* of ps_stat, when last_save was noted */
    uint64_t ops_seen;
};

/* ---- services ------------------------------------------------------------------------------- */

struct config *server_config(struct server *server)
{
    return server->env.config;
}

int server_client_rename(struct server *server, struct session *session, const char *name,
                         size_t len)
{
    return clients_rename(server->clients, session, name, len);
}

char *server_client_list(struct server *server, const struct client_filter *filter, size_t *len)
{
    return clients_list(server->clients, filter, len);
}

size_t server_client_kill(struct server *server, struct session *self,
                          const struct client_filter *filter)
{
    return clients_kill(server->clients, self, filter);
}

/* Remembers when a checkpoint was made, whoever made it. */
static void note_checkpoints(struct server *server)
{
    struct ps_stat stat;
    ps_stats(server->env.store, &stat);
    pthread_mutex_lock(&server->lock);
    if (stat.checkpoints != server->checkpoints_seen) {
        server->checkpoints_seen = stat.checkpoints;
        server->ops_seen = stat.ops;
        server->last_save = exec_now(&server->env) / 1000;
    }
    pthread_mutex_unlock(&server->lock);
}

int server_checkpoint(struct server *server)
{
    int rc = ps_checkpoint(server->env.store);
    if (rc == 0) {
        note_checkpoints(server);
        pthread_mutex_lock(&server->lock);
        server->last_save = exec_now(&server->env) / 1000;
        pthread_mutex_unlock(&server->lock);
    } else {
        logger_write(server->env.log, LOG_WARNING, "The checkpoint failed: %s", ps_strerror(rc));
    }
    return rc;
}

static void *saver_main(void *arg)
{
    struct server *server = arg;
    pthread_setname_np(pthread_self(), "pando-save");
    pthread_mutex_lock(&server->lock);
    while (!server->saver_stops) {
        if (!server->save_wanted) {
            pthread_cond_wait(&server->changed, &server->lock);
            continue;
        }
        pthread_mutex_unlock(&server->lock);
        int rc = server_checkpoint(server);
        pthread_mutex_lock(&server->lock);
        server->save_wanted = false;
        server->last_save_ok = rc == 0;
    }
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

bool server_checkpoint_start(struct server *server)
{
    bool start;
    pthread_mutex_lock(&server->lock);
    start = !server->save_wanted;
    server->save_wanted = true;
    pthread_cond_signal(&server->changed);
    pthread_mutex_unlock(&server->lock);
    return start;
}

int64_t server_last_checkpoint(struct server *server)
{
    int64_t when;
    note_checkpoints(server);
    pthread_mutex_lock(&server->lock);
    when = server->last_save;
    pthread_mutex_unlock(&server->lock);
    return when;
}

static void wake_main(struct server *server)
{
    uint64_t one = 1;
    ssize_t n = write(server->wake_fd, &one, sizeof(one));
    (void)n; /* full means readable */
}

void server_shutdown(struct server *server, bool checkpoint, bool now)
{
    (void)now; /* there are no replicas to wait for */
    atomic_store(&server->save_at_end, checkpoint);
    atomic_store(&server->ending, true);
    wake_main(server);
}

int server_rewrite_config(struct server *server, char *reason)
{
    int rc = config_rewrite(server->env.config, server->config_file, reason);
    if (rc == 0) {
        logger_write(server->env.log, LOG_NOTICE, "CONFIG REWRITE executed with success.");
    } else {
        logger_write(server->env.log, LOG_WARNING, "CONFIG REWRITE failed: %s", reason);
    }
    return rc;
}

bool server_has_config_file(struct server *server)
{
    return server->config_file[0] != '\0';
}

static void collect_execution(struct server *server, struct info_input *in)
{
    struct clients_statistics c;
    struct writer_statistics w;
    struct pool_statistics p;
    struct regime_statistics r;
    clients_statistics(server->clients, &c);
    in->clients = (struct info_clients){
        c.count, (uint64_t)config_number(server->env.config, CONFIG_MAXCLIENTS), c.max_input,
        c.max_output, c.buffered};
    writer_statistics(server->env.writer, &w);
    pool_statistics(server->env.pool, &p);
    in->writer = (struct info_writer){w.units,        w.commands,          w.groups, w.splits,
                                      w.retries,      w.failures,          w.hints,  w.stage_steps,
                                      w.queued_bytes, w.unpublished_units, p.jobs,   p.pieces,
                                      p.threads,      p.running,           p.waiting};
    regime_statistics(server->env.regime, &r);
    in->disk = (struct info_disk){r.on, r.refaults, r.major_faults};
    metrics_sum(server->env.metrics, &in->metrics);
    metrics_rates(server->env.metrics, &in->rates);
}

static void collect_data(struct server *server, struct command_ctx *ctx, struct info_input *in)
{
    unsigned databases = (unsigned)config_number(server->env.config, CONFIG_DATABASES);
    keyspace_counters(server->env.keyspace, &in->counters);
    ps_stats(server->env.store, &in->store);
    in->snapshots_n = ps_snapshots(server->env.store, in->snapshots, PS_MAX_SNAPSHOTS);
    in->databases = databases < INFO_MAX_DATABASES ? databases : INFO_MAX_DATABASES;
    for (unsigned db = 0; db < in->databases; db++) {
        keyspace_stat_db(server->env.keyspace, ctx->view, db, ctx->now_ms, &in->keyspace[db]);
    }
    in->last_save = server_last_checkpoint(server);
    pthread_mutex_lock(&server->lock);
    in->saving = server->save_wanted;
    in->last_save_ok = server->last_save_ok;
    in->saved_ops = server->ops_seen;
    pthread_mutex_unlock(&server->lock);
}

char *server_info(struct command_ctx *ctx, const struct ps_slice *sections, size_t n, size_t *len)
{
    struct server *server = ctx->server;
    struct config *config = server->env.config;
    struct info_input *in = aligned_alloc(64, (sizeof(*in) + 63) / 64 * 64);
    char *durability = config_show(config, CONFIG_DURABILITY), *text = NULL;
    if (in != NULL && durability != NULL) {
        memset((void *)in, 0, sizeof(*in));
        in->now_ms = ctx->now_ms;
        in->started_ms = server->started_ms;
        in->run_id = server->run_id;
        in->config_file = server->config_file;
        in->executable = server->executable;
        in->port = (int)config_number(config, CONFIG_PORT);
        in->io_threads = (int)server->loop_n;
        in->hz = config_number(config, CONFIG_HZ);
        in->dirty_memory = config_number(config, CONFIG_DIRTY_MEMORY);
        in->durability = durability;
        in->recovery = server->recovery;
        collect_execution(server, in);
        collect_data(server, ctx, in);
        text = info_text(in, sections, n, len);
    }
    free(durability);
    free(in);
    return text;
}

void server_reset_statistics(struct server *server)
{
    metrics_reset(server->env.metrics);
    keyspace_counters_reset(server->env.keyspace);
}

/* ---- starting ------------------------------------------------------------------------------- */

static void on_store_message(void *arg, int level, const char *text)
{
    const struct exec_env *env = arg;
    logger_write(env->log, level > 0 ? LOG_WARNING : LOG_NOTICE, "%s", text);
}

static int on_setting(void *arg, enum config_id id, const char **reason)
{
    struct server *server = arg;
    logger_write(server->env.log, LOG_DEBUG, "CONFIG SET %s", config_row(id)->name);
    return settings_apply(&server->env, server->listener, server->loop_n, id, reason);
}

static void on_config_warning(void *arg, const char *text)
{
    logger_write(arg, LOG_WARNING, "%s", text);
}

static void make_run_id(char id[41])
{
    unsigned char bytes[20] = {0};
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
        bytes[0] = (unsigned char)getpid();
    }
    for (size_t i = 0; i < sizeof(bytes); i++) {
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    }
}

static int open_store(struct server *server)
{
    struct config *config = server->env.config;
    struct ps_fault fault = {0};
    char *dir = config_text(config, CONFIG_DIR);
    struct ps_options options = {
        .page_size = (uint32_t)config_number(config, CONFIG_PAGE_SIZE),
        .dirty_memory = (uint64_t)config_number(config, CONFIG_DIRTY_MEMORY),
        .durability = (enum ps_durability)config_number(config, CONFIG_DURABILITY),
        .max_recovery_ms = (uint32_t)config_number(config, CONFIG_MAX_RECOVERY_TIME),
        .max_snapshot_ms = (uint64_t)config_number(config, CONFIG_MAX_SNAPSHOT_AGE) * 1000,
        .on_publish = writer_published,
        .arg = &server->env,
        .on_message = on_store_message,
    };
    int rc = PS_NOMEM;
    if (dir != NULL) {
        rc = ps_open(dir, &options, &server->env.store, &server->recovery, &fault);
        if (rc != 0) {
            report_fault(server->env.log, "store", dir, rc, &fault);
        } else {
            report_recovery(server->env.log, dir, &server->recovery);
        }
    }
    free(dir);
    return rc;
}

static int start_execution(struct server *server)
{
    struct config *config = server->env.config;
    char *hooks = config_text(config, CONFIG_TEST_HOOK_DIR);
    int rc = keyspace_open(server->env.store, (unsigned)config_number(config, CONFIG_DATABASES),
                           &server->env.keyspace);
    if (rc != 0) {
        struct ps_fault fault = {0};
        char *dir = config_text(config, CONFIG_DIR);
        ps_last_fault(server->env.store, &fault);
        report_fault(server->env.log, "databases", dir, rc, &fault);
        free(dir);
    } else {
        rc = writer_start(&server->env);
    }
    if (rc == 0) {
        rc =
            pool_start(&server->env, (unsigned)config_number(config, CONFIG_READER_THREADS), hooks);
    }
    if (rc == 0) { /* from here on the writer may send the pool ahead */
        server->env.regime = regime_new(&server->env);
        rc = server->env.regime == NULL ? PS_NOMEM : 0;
    }
    free(hooks);
    return rc;
}

static int make_loops(struct server *server)
{
    size_t wanted = (size_t)config_number(server->env.config, CONFIG_IO_THREADS);
    int rc = 0;
    server->loops = aligned_alloc(64, wanted * sizeof(struct loop));
    server->ticks_seen = calloc(wanted, sizeof(*server->ticks_seen));
    while (rc == 0 && server->loops != NULL && server->loop_n < wanted) {
        rc = loop_init(&server->loops[server->loop_n], &server->env, server->clients);
        server->loop_n += rc == 0;
    }
    if (rc != 0 || server->loops == NULL || server->ticks_seen == NULL) {
        logger_write(server->env.log, LOG_WARNING, "Starting the I/O threads failed");
        return -1;
    }
    server->loops[0].sampler = true;
    return settings_fit_descriptors(&server->env, server->loop_n);
}

static int start_listening(struct server *server)
{
    struct config *config = server->env.config;
    char reason[256] = "out of memory";
    char *addresses = config_text(config, CONFIG_BIND);
    char *path = config_text(config, CONFIG_UNIXSOCKET);
    struct listener_options options = {
        .addresses = addresses,
        .port = (int)config_number(config, CONFIG_PORT),
        .backlog = (int)config_number(config, CONFIG_TCP_BACKLOG),
        .unix_path = path,
        .unix_mode = (unsigned)config_number(config, CONFIG_UNIXSOCKETPERM),
    };
    int rc = -1;
    if (addresses != NULL && path != NULL) {
        rc = listener_open(server->loops, server->loop_n, &options, &server->listener, reason,
                           sizeof(reason));
    }
    if (rc != 0) {
        logger_write(server->env.log, LOG_WARNING, "Listening failed: %s", reason);
    } else {
        if (options.port != 0) {
            logger_write(server->env.log, LOG_NOTICE, "Ready to accept connections on port %d",
                         options.port);
        }
        if (path[0] != '\0') {
            logger_write(server->env.log, LOG_NOTICE,
                         "The server is now ready to accept connections at %s", path);
        }
    }
    free(addresses);
    free(path);
    return rc;
}

/* Listens before the loops run: a start that fails has no thread to end. */
static int start_loops(struct server *server)
{
    if (make_loops(server) != 0 || start_listening(server) != 0) {
        return -1;
    }
    for (size_t i = 0; i < server->loop_n; i++) {
        if (loop_start(&server->loops[i]) != 0) {
            abort();
        }
    }
    return 0;
}

static void free_server(struct server *server)
{
    clients_free(server->clients);
    metrics_free(server->env.metrics);
    config_free(server->env.config);
    logger_close(server->env.log);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->changed);
    close(server->wake_fd);
    regime_free(server->env.regime);
    free(server->loops);
    free(server->ticks_seen);
    free(server->config_file);
    free(server->executable);
    free(server);
}

/* Undoes a start that failed half-way; config and log stay the caller's. */
static void undo_start(struct server *server)
{
    for (size_t i = 0; i < server->loop_n; i++) {
        loop_destroy(&server->loops[i]);
    }
    if (server->env.writer != NULL) {
        writer_stop(server->env.writer);
    }
    if (server->env.pool != NULL) {
        pool_stop(server->env.pool);
    }
    if (server->env.keyspace != NULL) {
        keyspace_close(server->env.keyspace);
    }
    if (server->env.store != NULL) {
        ps_close(server->env.store, false);
    }
    if (server->env.writer != NULL) {
        writer_free(server->env.writer);
    }
    server->env.config = NULL;
    server->env.log = NULL;
    free_server(server);
}

static struct server *new_server(struct config *config, struct logger *log, const char *config_file,
                                 const char *executable)
{
    struct server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return NULL;
    }
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->changed, NULL);
    server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    server->env.server = server;
    server->env.config = config;
    server->env.log = log;
    server->env.metrics = metrics_new();
    server->clients = clients_new();
    server->config_file = strdup(config_file);
    server->executable = strdup(executable);
    server->started_ms = exec_now(&server->env);
    server->last_save = server->started_ms / 1000;
    server->last_save_ok = true;
    make_run_id(server->run_id);
    return server;
}

int server_start(struct config *config, struct logger *log, const char *config_file,
                 const char *executable, struct server **out)
{
    struct server *server = new_server(config, log, config_file, executable);
    if (server == NULL) {
        return -1;
    }
    config_on_warning(config, on_config_warning, log);
    config_listen(config, on_setting, server); /* before there are threads that set anything */
    if (open_store(server) != 0 || start_execution(server) != 0 || start_loops(server) != 0) {
        undo_start(server);
        return -1;
    }
    server->saver_runs = pthread_create(&server->saver, NULL, saver_main, server) == 0;
    *out = server;
    return 0;
}

/* ---- waiting and stopping ------------------------------------------------------------------- */

/* Whether every loop has turned since this last said so; each does at least once a second. */
static bool loops_turn(struct server *server)
{
    for (size_t i = 0; i < server->loop_n; i++) {
        if (atomic_load(&server->loops[i].ticks) == server->ticks_seen[i]) {
            return false;
        }
    }
    for (size_t i = 0; i < server->loop_n; i++) {
        server->ticks_seen[i] = atomic_load(&server->loops[i].ticks);
    }
    return true;
}

/* Whether the words of a shutdown-on directive ask for a last checkpoint. */
static bool saves_at_signal(const struct server *server, enum config_id id)
{
    char *words = config_text(server->env.config, id);
    bool saves = words == NULL || strcasestr(words, "nosave") == NULL;
    free(words);
    return saves;
}

static void on_signal(struct server *server, uint32_t number)
{
    struct logger *log = server->env.log;
    if (number == SIGHUP) {
        int rc = logger_reopen(log);
        if (rc != 0) {
            logger_write(log, LOG_WARNING, "The log file cannot be opened again: %s",
                         strerror(-rc));
        } else {
            logger_write(log, LOG_NOTICE, "Received SIGHUP: the log file was opened again");
        }
        return;
    }
    logger_write(log, LOG_WARNING, "Received %s scheduling shutdown...",
                 number == SIGTERM ? "SIGTERM" : "SIGINT");
    atomic_store(&server->save_at_end,
                 saves_at_signal(server, number == SIGTERM ? CONFIG_SHUTDOWN_ON_SIGTERM
                                                           : CONFIG_SHUTDOWN_ON_SIGINT));
    atomic_store(&server->ending, true);
}

void server_wait(struct server *server, int signal_fd, struct service *service)
{
    struct pollfd fds[2] = {{server->wake_fd, POLLIN, 0}, {signal_fd, POLLIN, 0}};
    struct signalfd_siginfo info;
    while (!atomic_load(&server->ending)) {
        int n = poll(fds, 2, 1000);
        note_checkpoints(server);
        if (loops_turn(server)) {
            service_alive(service);
        }
        if (n > 0 && (fds[1].revents & POLLIN) &&
            read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
            on_signal(server, info.ssi_signo);
        }
    }
}

static void stop_saver(struct server *server)
{
    if (!server->saver_runs) {
        return;
    }
    pthread_mutex_lock(&server->lock);
    server->saver_stops = true;
    pthread_cond_signal(&server->changed);
    pthread_mutex_unlock(&server->lock);
    pthread_join(server->saver, NULL);
}

int server_stop(struct server *server)
{
    bool save = atomic_load(&server->save_at_end);
    struct logger *log = server->env.log;
    int rc;
    logger_write(log, LOG_WARNING, "User requested shutdown...");
    listener_stop(server->listener);
    for (size_t i = 0; i < server->loop_n; i++) {
        loop_stop(&server->loops[i]);
    }
    for (size_t i = 0; i < server->loop_n; i++) {
        loop_join(&server->loops[i]);
    }
    writer_stop(server->env.writer); /* all units are home: the pool has nothing more for it */
    pool_stop(server->env.pool);
    listener_free(server->listener);
    stop_saver(server);
    keyspace_close(server->env.keyspace);
    if (save) {
        logger_write(log, LOG_NOTICE, "Making the last checkpoint before exiting.");
    }
    rc = ps_close(server->env.store, save);
    writer_free(server->env.writer);
    logger_write(log, LOG_WARNING,
                 rc == 0 ? "Pando is now ready to exit, bye bye..."
                         : "Closing the store failed: %s",
                 ps_strerror(rc));
    free_server(server);
    return rc == 0 ? 0 : -1;
}
