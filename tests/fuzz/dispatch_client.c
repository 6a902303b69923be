/*
 * dispatch_client.c - see dispatch_client.h.
 */
#include "tests/fuzz/dispatch_client.h"

#include "server/exec/pool.h"
#include "server/exec/stream.h"
#include "server/exec/writer.h"
#include "tests/fuzz/fuzz.h"

#include <poll.h>
#include <string.h>

#define OUTPUT_LIMIT (64u << 20)

bool pipeline_add(struct pipeline *pipeline, const struct ps_slice *words, size_t n)
{
    if (pipeline->count == PIPELINE_COMMANDS || PIPELINE_WORDS - pipeline->used < n) {
        return false;
    }
    memcpy(pipeline->words + pipeline->used, words, n * sizeof(*words));
    pipeline->commands[pipeline->count++] =
        (struct unit_source){dispatch_resolve(n, words), (uint32_t)pipeline->used, (uint32_t)n};
    pipeline->used += n;
    return true;
}

/* ---- replies -------------------------------------------------------------------------------- */

struct expected {
    size_t replies; /* one less is right when the connection was closed */
    bool closed;
    bool resp2, resp3; /* versions that the connection spoke */
};

/* Types of RESP3 need RESP3, and a null that is a length of -1 needs RESP2. An EXEC with a HELLO in
 * it may have both in one reply, as it has in Redis. */
static bool is_version(const struct reply *reply, const struct expected *expected)
{
    if ((!expected->resp3 && strchr("+-:$*", reply->type) == NULL) ||
        (!expected->resp2 && reply->null)) {
        return false;
    }
    for (size_t i = 0; i < reply->count; i++) {
        if (!is_version(&reply->items[i], expected)) {
            return false;
        }
    }
    return true;
}

/* A place in a pipeline where the version may change: what stands after it may be either. */
static bool may_change_version(const struct ps_slice *words, size_t n)
{
    const struct command *row = dispatch_resolve(n, words);
    return row != NULL && (strcmp(row->name, "hello") == 0 || strcmp(row->name, "reset") == 0 ||
                           strcmp(row->name, "exec") == 0);
}

static void check_replies(const struct expected *expected, const char *data, size_t len)
{
    struct heap heap = {0};
    struct reply reply;
    size_t n = 0;
    while (len > 0) {
        size_t used;
        FUZZ_CHECK(reply_parse(&heap, data, len, &used, &reply) == 1);
        FUZZ_CHECK(is_version(&reply, expected));
        data += used;
        len -= used;
        n++;
    }
    FUZZ_CHECK(n == expected->replies || (expected->closed && n + 1 == expected->replies));
    heap_free(&heap);
}

static void note_version(struct expected *expected, const struct session *session)
{
    expected->resp2 = expected->resp2 || session_resp(session) == 2;
    expected->resp3 = expected->resp3 || session_resp(session) == 3;
}

/* ---- executing ------------------------------------------------------------------------------ */

/* false: it turned out to belong in the pool, and did nothing. */
static bool run_here(struct fuzz_client *client, const struct unit_source *c,
                     const struct ps_slice *words)
{
    struct server *server = client->server;
    struct executor *x = &server->x;
    struct expected expected = {.replies = 1};
    note_version(&expected, &client->session);
    resp_out_begin(&client->out, session_resp(&client->session), OUTPUT_LIMIT);
    ps_snapshot_renew(server->snapshot);
    x->ctx.view = ps_snapshot_view(server->snapshot);
    x->ctx.now_ms = exec_now(&server->env);
    x->ctx.out = &client->out;
    int rc = dispatch_run(x, &client->session, c->row, c->argc, words, NULL);
    ps_snapshot_reset(server->snapshot);
    FUZZ_CHECK(rc == 0 || (rc == COMMAND_ELSEWHERE && client->out.len == 0));
    if (rc != 0) {
        return false;
    }
    FUZZ_CHECK(client->out.version == session_resp(&client->session));
    if (client->out.status != 0) {
        client->session.closing = true;
        return true;
    }
    if (!may_change_version(words, c->argc)) {
        FUZZ_CHECK(client->out.version == (expected.resp3 ? 3 : 2));
    }
    note_version(&expected, &client->session);
    expected.closed = client->session.closing;
    check_replies(&expected, client->out.buf, client->out.len);
    return true;
}

static struct unit *wait_for_unit(struct mailbox *box)
{
    struct mail *mail;
    while ((mail = mailbox_take(box)) == NULL) {
        struct pollfd fd = {box->fd, POLLIN, 0};
        if (mailbox_sleep(box)) {
            if (poll(&fd, 1, -1) > 0) {
                mailbox_clear(box);
            }
            mailbox_awake(box);
        }
    }
    FUZZ_CHECK(mail->kind == MAIL_UNIT && mail->next == NULL);
    return (struct unit *)mail;
}

/* Replaces a reply that comes in pieces by the whole of it. */
static void gather(struct server *server, struct unit *unit)
{
    struct resp_out whole;
    resp_out_init(&whole);
    resp_out_begin(&whole, unit->out.version, SIZE_MAX);
    while (unit->stream == NULL || !stream_ended(unit)) {
        if (unit->stream != NULL) {
            FUZZ_CHECK(unit->out.len > 0 && unit->out.len <= STREAM_PIECE);
            resp_write_raw(&whole, unit->out.buf, unit->out.len);
            resp_out_truncate(&unit->out, 0);
        }
        pool_submit(server->env.pool, unit);
        FUZZ_CHECK(wait_for_unit(&server->box) == unit);
    }
    resp_write_raw(&whole, unit->out.buf, unit->out.len);
    resp_out_free(&unit->out);
    unit->out = whole;
}

/* Sends n commands away and returns the unit that came home. */
static struct unit *run_away(struct fuzz_client *client, const struct unit_source *commands,
                             size_t n, const struct ps_slice *words, enum dispatch_place place)
{
    struct server *server = client->server;
    struct unit *unit, *home;
    unit = unit_new(&client->stock, &client->session, commands, n, words, NULL, OUTPUT_LIMIT);
    FUZZ_CHECK(unit != NULL);
    unit->home = &server->box;
    if (place == PLACE_POOL) {
        pool_submit(server->env.pool, unit);
    } else {
        writer_submit(server->env.writer, unit);
        writer_wake(server->env.writer);
    }
    home = wait_for_unit(&server->box);
    FUZZ_CHECK(home == unit && unit->done <= unit->count);
    if (stream_wanted(unit)) {
        gather(server, unit);
    }
    return unit;
}

static void check_unit(struct fuzz_client *client, const struct unit *unit,
                       struct expected *expected)
{
    FUZZ_CHECK(unit->out.version == session_resp(&client->session));
    for (uint32_t i = 0; i < unit->done; i++) {
        const struct unit_command *c = &unit->commands[i];
        if (may_change_version(unit->argv + c->first, c->argc)) {
            expected->resp2 = expected->resp3 = true;
        }
    }
    note_version(expected, &client->session);
    expected->replies = unit->done;
    expected->closed = client->session.closing;
    if (unit->out.status == 0) {
        check_replies(expected, unit->out.buf, unit->out.len);
    }
}

/* Executes what begins with a command that cannot run here. Returns how many commands that was. */
static size_t run_elsewhere(struct fuzz_client *client, struct pipeline *pipeline, size_t from,
                            enum dispatch_place place)
{
    size_t n = place == PLACE_POOL ? 1 : pipeline->count - from;
    struct expected expected = {0};
    struct unit *unit;
    note_version(&expected, &client->session);
    unit = run_away(client, pipeline->commands + from, n, pipeline->words, place);
    check_unit(client, unit, &expected);
    n = unit->done;
    unit_release(&client->stock, unit);
    return n;
}

void client_run(struct fuzz_client *client, struct pipeline *pipeline)
{
    struct session *session = &client->session;
    size_t i = 0;
    while (i < pipeline->count && !session->closing && !atomic_load(&session->killed)) {
        const struct unit_source *c = &pipeline->commands[i];
        const struct ps_slice *words = pipeline->words + c->first;
        enum dispatch_place place = dispatch_place(session, c->row, c->argc, words);
        if (place == PLACE_HERE && run_here(client, c, words)) {
            i++;
        } else {
            place = place == PLACE_HERE ? PLACE_POOL : place;
            size_t n = run_elsewhere(client, pipeline, i, place);
            FUZZ_CHECK(n > 0 || session->killed);
            i += n;
        }
    }
    pipeline->count = pipeline->used = 0;
    if (session->closing || atomic_load(&session->killed)) {
        server_connect(client);
    }
}

/* ---- one at a time -------------------------------------------------------------------------- */

struct reply client_ask(struct fuzz_client *client, struct heap *heap, const struct ps_slice *words,
                        size_t n)
{
    struct unit_source command = {dispatch_resolve(n, words), 0, (uint32_t)n};
    enum dispatch_place place = dispatch_place(&client->session, command.row, n, words);
    struct reply reply;
    size_t used;
    if (place == PLACE_HERE && run_here(client, &command, words)) {
        FUZZ_CHECK(reply_parse(heap, client->out.buf, client->out.len, &used, &reply) == 1);
    } else {
        place = place == PLACE_HERE ? PLACE_POOL : place;
        struct unit *unit = run_away(client, &command, 1, words, place);
        FUZZ_CHECK(reply_parse(heap, unit->out.buf, unit->out.len, &used, &reply) == 1);
        unit_release(&client->stock, unit);
    }
    return reply;
}
