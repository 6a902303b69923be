/*
 * stream.h - replies with large values, sent piece by piece.
 *
 * A unit whose replies have holes (server/commands/reply.h) comes home with a snapshot that has
 * their values. The loop gives it to the pool for a piece, sends the piece, and gives it back for
 * the next when the socket has taken all: a reader, however slow, costs one piece of memory and no
 * thread.
 *
 * Invariants
 *  1. While pieces are left the unit is the connection's: no further command of it begins.
 *  2. All values come from one snapshot, taken when the commands ran.
 *  3. While it waits for its reader, its loop looks at times whether the snapshot holds dirty
 * memory that the writer needs; then the pool moves it (ps_snapshot_move).
 *  4. A reply that cannot be continued (damage, I/O) ends the connection: its length was promised.
 *
 * Threads: the unit's holder.
 */
#ifndef PANDO_SERVER_EXEC_STREAM_H
#define PANDO_SERVER_EXEC_STREAM_H

#include "server/exec/unit.h"
#include "server/keyspace/keyspace.h"

#define STREAM_PIECE (256u * 1024)

/* Are there values left to be sent in pieces? */
static inline bool stream_wanted(const struct unit *unit)
{
    return unit->holes.n > 0;
}

/* Puts the next piece into unit->out. 0 or a negative error: the reply cannot go on. */
int stream_next(struct unit *unit, const struct keyspace *ks);
/* Was that the last? */
bool stream_ended(const struct unit *unit);
void stream_free(struct unit *unit);

#endif
