/*
 * log_whole.c - see log_whole.h.
 */
#include "tests/support/log_whole.h"

#include <stdlib.h>
#include <string.h>

struct whole {
    uint8_t *bytes;
    size_t len;
    log_whole *apply;
    void *arg;
};

static int put_together(void *arg, const struct log_piece *piece)
{
    struct whole *w = arg;
    w->len = piece->first ? 0 : w->len;
    uint8_t *grown = realloc(w->bytes, w->len + piece->len + 1);
    if (grown == NULL)
        return PS_NOMEM;
    w->bytes = grown;
    if (piece->len > 0)
        memcpy(w->bytes + w->len, piece->payload, piece->len);
    w->len += piece->len;
    return piece->last ? w->apply(w->arg, piece->seq, piece->stamp, w->bytes, w->len, &piece->after)
                       : 0;
}

int log_replay_whole(struct log *log, const struct log_pos *from, const struct log_pos *end,
                     log_whole *apply, void *arg, struct ps_fault *fault)
{
    struct whole w = {.apply = apply, .arg = arg};
    int rc = log_replay(log, from, end, put_together, &w, fault);
    free(w.bytes);
    return rc;
}
