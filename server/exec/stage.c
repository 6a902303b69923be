/*
 * stage.c - see stage.h.
 */
#include "server/exec/stage.h"

/* The value that the unit's command stores, or NULL. */
static const struct ps_slice *value_of(const struct unit *unit)
{
    const struct unit_command *c = &unit->commands[0];
    return c->row != NULL && c->row->value_arg > 0 && c->argc > c->row->value_arg
               ? &unit->argv[c->first + c->row->value_arg]
               : NULL;
}

bool stage_wanted(const struct unit *unit)
{
    const struct ps_slice *value;
    if (unit->count != 1 || unit->done > 0 || unit->stage.done || unit->stage.tries > STAGE_TRIES) {
        return false;
    }
    value = value_of(unit);
    return value != NULL && value->len > STAGE_MIN && unit->session->authenticated &&
           !session_in_multi(unit->session);
}

/* Room for as much of a step, in whole chunks, as can be had. */
static int reserve(struct ps_txn *txn, size_t *len)
{
    for (;;) {
        size_t ops = 3, bytes = KEYSPACE_PUT_EXTRA;
        keyspace_chunks_need(*len, &ops, &bytes);
        int rc = ps_reserve(txn, ops, bytes);
        if (rc != PS_TXNFULL || *len <= KEYSPACE_CHUNK) {
            return rc;
        }
        *len = (*len / 2 + KEYSPACE_CHUNK - 1) / KEYSPACE_CHUNK * KEYSPACE_CHUNK;
    }
}

/* An id that is not filed any more went with a dropped state, and all its rows did: what would be
 * written now would be nobody's. */
static int restart_if_lost(struct keyspace *ks, struct ps_txn *txn, struct unit *unit)
{
    bool filed = true;
    int rc = unit->stage.chunks.id == 0
                 ? 0
                 : keyspace_stage_filed(ks, ps_txn_view(txn), &unit->stage.chunks, &filed);
    if (!filed) {
        stage_restart(ks, unit);
    }
    return rc;
}

int stage_step(struct keyspace *ks, struct ps_txn *txn, struct unit *unit)
{
    const struct ps_slice *value = value_of(unit);
    struct unit_stage *stage = &unit->stage;
    unsigned db = session_db(unit->session);
    int rc = restart_if_lost(ks, txn, unit);
    size_t at = stage->chunks.len, left = value->len - at;
    size_t len = left < STAGE_STEP ? left : STAGE_STEP;
    if (rc == 0) {
        rc = reserve(txn, &len);
    }
    if (rc == 0 && stage->chunks.id == 0) {
        rc = keyspace_stage_begin(ks, txn, db, &stage->chunks);
        if (rc == 0) {
            rc = keyspace_protect(ks, stage->chunks.id);
        }
    }
    if (rc == 0) {
        rc = keyspace_chunks_write(ks, txn, db, &stage->chunks, at,
                                   (struct ps_slice){(const char *)value->data + at, len});
    }
    stage->done = rc == 0 && len == left;
    return rc;
}

void stage_mark(struct unit *unit)
{
    unit->stage.mark = unit->stage.chunks;
}

void stage_undo(struct keyspace *ks, struct unit *unit)
{
    struct unit_stage *stage = &unit->stage;
    if (stage->chunks.id != stage->mark.id) {
        keyspace_unprotect(ks, stage->chunks.id);
    }
    stage->chunks = stage->mark;
    stage->done = false;
}

void stage_restart(struct keyspace *ks, struct unit *unit)
{
    stage_end(ks, unit);
    unit->stage.tries++;
}

void stage_end(struct keyspace *ks, struct unit *unit)
{
    struct unit_stage *stage = &unit->stage;
    if (stage->chunks.id != 0) {
        keyspace_unprotect(ks, stage->chunks.id);
    }
    stage->chunks = stage->mark = (struct record_chunks){0};
    stage->done = false;
}
