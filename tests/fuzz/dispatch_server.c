/*
 * dispatch_server.c - see dispatch_server.h.
 */
#include "tests/fuzz/dispatch_server.h"

#include "server/commands/services.h"
#include "server/config/config.h"
#include "server/exec/pool.h"
#include "server/exec/writer.h"
#include "server/keyspace/keyspace.h"
#include "server/observe/info.h"
#include "server/observe/metrics.h"
#include "server/security/auth.h"
#include "tests/fuzz/dispatch_client.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/store_dir.h"

#include <string.h>

#define BEGINNING INT64_C(4200000000000) /* the time at which every input begins: after now */

static struct server *the_server;
static char dir[STORE_DIR_PATH];

/* ---- services ------------------------------------------------------------------------------- */

struct config *server_config(struct server *server)
{
    return server->env.config;
}

/* It runs without a file. */
bool server_has_config_file(struct server *server)
{
    (void)server;
    return false;
}

int server_rewrite_config(struct server *server, char *reason)
{
    (void)server;
    reason[0] = '\0';
    return -1;
}

int server_client_rename(struct server *server, struct session *session, const char *name,
                         size_t len)
{
    char *copy = len > 0 ? strndup(name, len) : NULL;
    (void)server;
    if (len > 0 && copy == NULL) {
        return PS_NOMEM;
    }
    free(session->name);
    session->name = copy;
    return 0;
}

static bool client_matches(const struct session *session, const struct client_filter *filter)
{
    bool match = filter->ids == NULL;
    for (size_t i = 0; i < filter->id_count; i++) {
        match = match || filter->ids[i] == session->id;
    }
    return match && !filter->never && filter->addr == NULL && filter->laddr == NULL &&
           session->id != filter->except;
}

char *server_client_list(struct server *server, const struct client_filter *filter, size_t *len)
{
    char line[64], *text = calloc(1, FUZZ_CLIENTS * sizeof(line));
    *len = 0;
    for (size_t i = 0; text != NULL && i < FUZZ_CLIENTS; i++) {
        const struct session *session = &server->clients[i].session;
        if (client_matches(session, filter)) {
            *len += (size_t)snprintf(text + *len, sizeof(line), "id=%llu db=%u resp=%d\n",
                                     (unsigned long long)session->id, session_db(session),
                                     session_resp(session));
        }
    }
    return text;
}

/* The checker's own client lives. */
size_t server_client_kill(struct server *server, struct session *self,
                          const struct client_filter *filter)
{
    size_t n = 0;
    for (size_t i = 1; i < FUZZ_CLIENTS; i++) {
        struct session *session = &server->clients[i].session;
        if (client_matches(session, filter)) {
            n++;
            if (session == self) {
                self->closing = true;
            } else {
                atomic_store(&session->killed, true);
            }
        }
    }
    return n;
}

int server_checkpoint(struct server *server)
{
    return ps_checkpoint(server->env.store);
}

bool server_checkpoint_start(struct server *server)
{
    (void)server; /* it may be asked for inside a transaction, where nobody can wait */
    return true;
}

int64_t server_last_checkpoint(struct server *server)
{
    (void)server;
    return BEGINNING / 1000;
}

void server_shutdown(struct server *server, bool checkpoint, bool now)
{
    (void)server;
    (void)checkpoint;
    (void)now;
}

char *server_info(struct command_ctx *ctx, const struct ps_slice *sections, size_t n, size_t *len)
{
    struct server *server = ctx->server;
    struct info_input *in = aligned_alloc(64, (sizeof(*in) + 63) / 64 * 64);
    char *text;
    FUZZ_CHECK(in != NULL);
    memset((void *)in, 0, sizeof(*in));
    in->now_ms = ctx->now_ms;
    in->run_id = in->config_file = in->executable = in->durability = "";
    in->databases = FUZZ_DATABASES;
    for (unsigned db = 0; db < FUZZ_DATABASES; db++) {
        keyspace_stat_db(server->env.keyspace, ctx->view, db, ctx->now_ms, &in->keyspace[db]);
    }
    metrics_sum(server->env.metrics, &in->metrics);
    keyspace_counters(server->env.keyspace, &in->counters);
    ps_stats(server->env.store, &in->store);
    text = info_text(in, sections, n, len);
    free(in);
    return text;
}

void server_reset_statistics(struct server *server)
{
    keyspace_counters_reset(server->env.keyspace);
}

/* ---- settings ------------------------------------------------------------------------------- */

/* Values beyond a megabyte would make inputs slow, not different. */
static int on_setting(void *arg, enum config_id id, const char **reason)
{
    struct server *server = arg;
    int rc = 0;
    server->configured = true;
    if (id == CONFIG_PROTO_MAX_BULK_LEN &&
        config_number(server->env.config, CONFIG_PROTO_MAX_BULK_LEN) > 1048576) {
        *reason = "not while fuzzing";
        return -1;
    }
    if (id == CONFIG_DURABILITY || id == CONFIG_APPENDFSYNC) {
        rc = ps_set_durability(server->env.store, (enum ps_durability)config_number(
                                                      server->env.config, CONFIG_DURABILITY));
    }
    if (rc != 0) {
        *reason = ps_strerror(rc);
    }
    return rc;
}

static struct config *make_config(void)
{
    static char *words[] = {"--databases",          "3",   "--durability", "everysec",
                            "--proto-max-bulk-len", "1mb", "--hz",         "50"};
    struct config *config = config_new();
    struct config_error error;
    FUZZ_CHECK(config != NULL);
    FUZZ_CHECK(config_load_args(config, sizeof(words) / sizeof(words[0]), words, &error) == 0);
    config_settle(config);
    return config;
}

static void restore_settings(struct server *server)
{
    struct config *wanted = make_config();
    server->configured = false;
    for (int id = 0; id < CONFIG_COUNT; id++) {
        char *is = config_show(server->env.config, id), *value = config_show(wanted, id);
        struct config_change change = {config_row(id)->name, value};
        char reason[CONFIG_REASON];
        size_t bad;
        FUZZ_CHECK(is != NULL && value != NULL);
        if (strcmp(is, value) != 0 && id != CONFIG_APPENDFSYNC) {
            FUZZ_CHECK(config_set(server->env.config, &change, 1, &bad, reason) == 0);
        }
        free(is);
        free(value);
    }
    server->configured = false;
    config_free(wanted);
}

/* ---- starting and stopping ------------------------------------------------------------------ */

static void start(struct server *server)
{
    struct config *config = server->env.config;
    struct ps_options options = {
        .dirty_memory = 4u << 20,
        .log_segment_size = 128u << 10,
        .durability = (enum ps_durability)config_number(config, CONFIG_DURABILITY),
        .on_publish = writer_published,
        .arg = &server->env,
    };
    struct ps_fault fault = {0};
    int rc = ps_open(dir, &options, &server->env.store, NULL, &fault);
    if (rc != 0) {
        fprintf(stderr, "the store cannot be opened: %s: %s %s at %llu\n", ps_strerror(rc),
                fault.what, fault.file, (unsigned long long)fault.offset);
        abort();
    }
    server->env.metrics = metrics_new();
    FUZZ_CHECK(server->env.metrics != NULL);
    FUZZ_CHECK(keyspace_open(server->env.store, FUZZ_DATABASES, &server->env.keyspace) == 0);
    FUZZ_CHECK(writer_start(&server->env) == 0);
    FUZZ_CHECK(pool_start(&server->env, 1, NULL) == 0);
    FUZZ_CHECK(ps_snapshot_new(server->env.store, &server->snapshot) == 0);
    executor_init(&server->x, &server->env);
    server->x.ctx.hint_expired = writer_hint;
    server->x.ctx.hint_arg = &server->env;
}

static void stop(struct server *server, bool checkpoint)
{
    struct writer *writer = server->env.writer;
    ps_snapshot_free(server->snapshot);
    pool_stop(server->env.pool);
    writer_stop(writer);
    keyspace_close(server->env.keyspace);
    FUZZ_CHECK(ps_close(server->env.store, checkpoint) == 0);
    writer_free(writer);
    metrics_free(server->env.metrics);
}

static void end(void)
{
    stop(the_server, false);
    for (size_t i = 0; i < FUZZ_CLIENTS; i++) {
        session_clear(&the_server->clients[i].session);
        unit_stock_free(&the_server->clients[i].stock);
        resp_out_free(&the_server->clients[i].out);
    }
    mailbox_destroy(&the_server->box);
    config_free(the_server->env.config);
    free(the_server);
    store_dir_remove(dir);
}

struct server *server_open(void)
{
    struct server *server;
    if (the_server != NULL) {
        return the_server;
    }
    server = aligned_alloc(64, (sizeof(*server) + 63) / 64 * 64);
    FUZZ_CHECK(server != NULL);
    memset((void *)server, 0, sizeof(*server));
    store_dir_make_in_memory(dir, "pando-fuzz");
    server->env.server = server;
    server->env.config = make_config();
    FUZZ_CHECK(mailbox_init(&server->box) == 0);
    config_listen(server->env.config, on_setting, server);
    server_begin(server);
    for (size_t i = 0; i < FUZZ_CLIENTS; i++) {
        server->clients[i].server = server;
        server->clients[i].session.id = i;
        resp_out_init(&server->clients[i].out);
        server_connect(&server->clients[i]);
    }
    start(server);
    the_server = server;
    atexit(end);
    return server;
}

void server_begin(struct server *server)
{
    atomic_store(&server->env.time_floor, BEGINNING);
}

void server_advance(struct server *server, int64_t ms)
{
    atomic_fetch_add(&server->env.time_floor, ms);
}

void server_reopen(struct server *server, bool checkpoint)
{
    stop(server, checkpoint);
    start(server);
}

void server_connect(struct fuzz_client *client)
{
    uint64_t id = client->session.id;
    session_clear(&client->session);
    session_init(&client->session, id, id == 0 || !auth_required(client->server->env.config));
}

void server_clean(struct server *server)
{
    static const struct ps_slice flush[] = {{"FLUSHALL", 8}};
    struct heap heap = {0};
    struct reply reply;
    if (server->configured) {
        restore_settings(server);
    }
    for (size_t i = 0; i < FUZZ_CLIENTS; i++) {
        server_connect(&server->clients[i]);
    }
    reply = client_ask(&server->clients[0], &heap, flush, 1);
    FUZZ_CHECK(reply_text_is(&reply, "OK"));
    heap_free(&heap);
}
