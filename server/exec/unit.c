/*
 * unit.c - see unit.h. One block of memory holds the unit, its commands, and their arguments.
 */
#include "server/exec/unit.h"

#include "server/exec/stream.h"

#include <stdlib.h>
#include <string.h>

#define SMALL_UNIT  1024u        /* the least that is allocated */
#define LARGE_UNIT  (16u * 1024) /* more is not kept for use again */
#define STOCK_UNITS 256u

static size_t text_bytes(const struct unit_source *commands, size_t n, const struct ps_slice *argv,
                         size_t *args)
{
    size_t bytes = 0;
    *args = 0;
    for (size_t i = 0; i < n; i++) {
        const struct ps_slice *words = argv + commands[i].first;
        *args += commands[i].argc;
        for (size_t j = 0; j < commands[i].argc; j++) {
            bytes += words[j].len;
        }
    }
    return bytes;
}

/* text: where the arguments are copied to; NULL: they stay where they are. */
static void copy_commands(struct unit *unit, const struct unit_source *commands, size_t n,
                          const struct ps_slice *argv, char *text)
{
    uint32_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const struct ps_slice *words = argv + commands[i].first;
        unit->commands[i] = (struct unit_command){commands[i].row, used, commands[i].argc};
        for (size_t j = 0; j < commands[i].argc; j++) {
            if (text == NULL) {
                unit->argv[used++] = words[j];
                continue;
            }
            memcpy(text, words[j].data, words[j].len);
            unit->argv[used++] = (struct ps_slice){text, words[j].len};
            text += words[j].len;
        }
    }
}

/* A block of at least `bytes`, with an empty reply buffer. */
static struct unit *take_block(struct unit_stock *stock, size_t bytes)
{
    struct unit *unit = stock->head;
    if (unit != NULL) {
        stock->head = unit->next;
        stock->count--;
        if (unit->cap >= bytes) {
            return unit;
        }
        resp_out_free(&unit->out);
        free(unit);
    }
    bytes = bytes < SMALL_UNIT ? SMALL_UNIT : bytes;
    unit = malloc(bytes);
    if (unit != NULL) {
        unit->cap = bytes;
        unit->holes = (struct reply_holes){0};
        resp_out_init(&unit->out);
    }
    return unit;
}

struct unit *unit_new(struct unit_stock *stock, struct session *session,
                      const struct unit_source *commands, size_t n, const struct ps_slice *argv,
                      char *input, size_t out_limit)
{
    size_t args, text = text_bytes(commands, n, argv, &args);
    text = input == NULL ? text : 0;
    size_t bytes = sizeof(struct unit) + n * sizeof(struct unit_command) +
                   args * sizeof(struct ps_slice) + text;
    struct unit *unit = take_block(stock, bytes);
    if (unit == NULL) {
        return NULL;
    }
    unit->session = session;
    unit->bytes = bytes + session->queue.bytes;
    unit->count = (uint32_t)n;
    unit->done = 0;
    unit->spent = NULL;
    unit->errand = ERRAND_LONG;
    unit->argv = (struct ps_slice *)(unit + 1);
    unit->commands = (struct unit_command *)(unit->argv + args);
    copy_commands(unit, commands, n, argv, input == NULL ? (char *)(unit->commands + n) : NULL);
    unit->input = input;
    unit->snapshot = NULL;
    unit->stream = NULL;
    unit->stage = (struct unit_stage){0};
    resp_out_begin(&unit->out, session_resp(session), out_limit);
    unit_mark(unit);
    return unit;
}

void unit_write_rest(const struct unit *unit, struct resp_out *out)
{
    for (uint32_t i = unit->done; i < unit->count; i++) {
        const struct unit_command *c = &unit->commands[i];
        resp_write_array(out, c->argc);
        for (uint32_t j = 0; j < c->argc; j++) {
            resp_write_bulk(out, unit->argv[c->first + j].data, unit->argv[c->first + j].len);
        }
    }
}

/* What few units have. */
static void free_extras(struct unit *unit)
{
    stream_free(unit);
    ps_snapshot_free(unit->snapshot);
    reply_holes_free(&unit->holes);
    free(unit->input);
}

void unit_release(struct unit_stock *stock, struct unit *unit)
{
    session_queue_free(unit->spent);
    free_extras(unit);
    if (stock->count < STOCK_UNITS && unit->cap <= LARGE_UNIT && unit->out.cap <= LARGE_UNIT) {
        unit->next = stock->head;
        stock->head = unit;
        stock->count++;
        return;
    }
    resp_out_free(&unit->out);
    free(unit);
}

void unit_stock_free(struct unit_stock *stock)
{
    while (stock->head != NULL) {
        struct unit *unit = stock->head;
        stock->head = unit->next;
        resp_out_free(&unit->out);
        free(unit);
    }
}

void unit_mark(struct unit *unit)
{
    session_queue_free(unit->spent);
    unit->spent = NULL;
    unit->mark.done = unit->done;
    unit->mark.out_len = unit->out.len;
    unit->mark.version = unit->out.version;
    session_save(unit->session, &unit->mark.session);
}

/* The queue at the mark is whole again: it is the last that went to `spent`, if it went there. */
static void recover_queue(struct unit *unit)
{
    struct session_queued *entry = unit->spent, *head = unit->mark.session.queue.head, **end;
    struct session_queued *tail = unit->mark.session.queue.tail;
    if (head == NULL || unit->session->queue.head == head) {
        return;
    }
    for (end = &unit->spent; entry != NULL && entry != head; entry = entry->next) {
        end = &entry->next;
    }
    *end = NULL; /* what stays in spent ran in later MULTIs; from head on it goes back */
    while (entry != NULL && entry->next != NULL && entry != tail) {
        entry = entry->next;
    }
    if (entry != NULL) {
        session_queue_free(entry->next);
        entry->next = NULL;
    }
}

void unit_rewind(struct unit *unit)
{
    recover_queue(unit);
    session_restore(unit->session, &unit->mark.session);
    unit->done = unit->mark.done;
    resp_out_truncate(&unit->out, unit->mark.out_len);
    reply_holes_cut(&unit->holes, unit->mark.out_len);
    unit->out.version = unit->mark.version;
}

/* What a command that failed does to the MULTI nevertheless: EXEC, DISCARD, RESET and QUIT end it,
 * and what is queued after a MULTI that failed must not run on its own: its EXEC refuses it. */
static void fail_control(struct session *session, const struct command *row)
{
    if (row == NULL || !(row->traits & COMMAND_EXEC_CONTROL)) {
        return;
    }
    if (strcmp(row->name, "multi") == 0) {
        session->multi = true;
        session->multi_dirty = true;
    } else if (session_in_multi(session)) {
        struct session_queue queue = session_end_multi(session);
        session_drop_queue(session, &queue);
    }
    session->closing = session->closing || strcmp(row->name, "quit") == 0;
}

void unit_fail(struct unit *unit, int rc)
{
    unit_rewind(unit);
    for (; unit->done < unit->count && !unit->session->closing; unit->done++) {
        const struct unit_command *c = &unit->commands[unit->done];
        fail_control(unit->session, c->row);
        resp_write_errorf(&unit->out, "-%s", command_rc_text(rc));
    }
}
