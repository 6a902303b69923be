/*
 * session.c - a connection's state and its queue between MULTI and EXEC.
 *
 * Invariants and threads: see session.h. Nothing here outlives the process.
 */
#include "server/commands/session.h"

#include <stdlib.h>
#include <string.h>

void session_init(struct session *session, uint64_t id, bool authenticated)
{
    memset(session, 0, sizeof(*session));
    session->id = id;
    session->resp = 2;
    session->authenticated = authenticated;
}

void session_clear(struct session *session)
{
    session_queue_free(session->queue.head);
    session->queue = (struct session_queue){0};
    free(session->name);
    session->name = NULL;
}

static void note_queue(struct session *session)
{
    atomic_store_explicit(&session->queued, session->queue.count, memory_order_relaxed);
}

int session_enqueue(struct session *session, const struct command *command, size_t argc,
                    const struct ps_slice *argv)
{
    size_t bytes = sizeof(struct session_queued) + argc * sizeof(struct ps_slice);
    struct session_queued *entry;
    struct ps_slice *copy;
    char *p;
    for (size_t i = 0; i < argc; i++) {
        bytes += argv[i].len;
    }
    entry = malloc(bytes);
    if (entry == NULL) {
        return PS_NOMEM;
    }
    copy = (struct ps_slice *)(entry + 1);
    p = (char *)(copy + argc);
    for (size_t i = 0; i < argc; i++) {
        copy[i] = (struct ps_slice){p, argv[i].len};
        memcpy(p, argv[i].data, argv[i].len);
        p += argv[i].len;
    }
    *entry = (struct session_queued){NULL, command, argc, copy, bytes};
    if (session->queue.tail != NULL) {
        session->queue.tail->next = entry;
    } else {
        session->queue.head = entry;
    }
    session->queue.tail = entry;
    session->queue.count++;
    session->queue.bytes += bytes;
    note_queue(session);
    return 0;
}

struct session_queue session_end_multi(struct session *session)
{
    struct session_queue queue = session->queue;
    session->queue = (struct session_queue){0};
    session->multi = false;
    session->multi_dirty = false;
    note_queue(session);
    return queue;
}

void session_drop_queue(struct session *session, struct session_queue *queue)
{
    if (session->keep == NULL || queue->head == NULL) {
        session_queue_free(queue->head);
        return;
    }
    queue->tail->next = *session->keep;
    *session->keep = queue->head;
}

void session_queue_free(struct session_queued *head)
{
    while (head != NULL) {
        struct session_queued *next = head->next;
        free(head);
        head = next;
    }
}

void session_save(const struct session *session, struct session_state *state)
{
    *state = (struct session_state){session_db(session),    session_resp(session),
                                    session->authenticated, session_in_multi(session),
                                    session->multi_dirty,   session->closing,
                                    session->queue};
}

void session_restore(struct session *session, const struct session_state *state)
{
    if (session->queue.head != state->queue.head) {
        session_queue_free(session->queue.head);
    }
    session->queue = state->queue;
    if (session->queue.tail != NULL) {
        session_queue_free(session->queue.tail->next);
        session->queue.tail->next = NULL;
    }
    session_select(session, state->db);
    session->resp = state->resp;
    session->authenticated = state->authenticated;
    session->multi = state->multi;
    session->multi_dirty = state->multi_dirty;
    session->closing = state->closing;
    note_queue(session);
}
