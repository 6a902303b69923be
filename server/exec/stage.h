/*
 * stage.h - a large value is written in steps before the command that stores it runs.
 *
 * SET and its relatives with a value over STAGE_MIN bytes would hold up every other write while
 * they run. So the writer first writes the value's rows under an object id that no record names and
 * that is filed as garbage, STAGE_STEP bytes in a group, with other units in between; then the
 * command runs and links the object, in one small unit. A crash in between leaves garbage, which
 * goes.
 *
 * Invariants
 *  1. A staged unit has one command, whose arguments stay until it is released.
 *  2. What is written is what committed transactions hold: a group that is undone takes the step
 *     back (stage_undo). Whatever else takes rows away (a failed log, FLUSHDB) is noticed when the
 *     object is linked; then the value is written again, under another id. A failed log that took
 *     the filing away as well is noticed before the next step. After STAGE_TRIES such attempts the
 *     command runs as any other, in one transaction.
 *  3. While it is written the id is protected from keyspace_maintain().
 *
 * Threads: the writer.
 */
#ifndef PANDO_SERVER_EXEC_STAGE_H
#define PANDO_SERVER_EXEC_STAGE_H

#include "server/exec/unit.h"
#include "server/keyspace/keyspace.h"

#define STAGE_MIN   UNIT_MAX_BYTES          /* a larger command is alone in its unit */
#define STAGE_STEP  (128u * KEYSPACE_CHUNK) /* 2 MB */
#define STAGE_TRIES 3u

/* Must rows be written before the unit's next command runs? */
bool stage_wanted(const struct unit *unit);

/* Writes the next step, as far as there is room for: PS_BUSY: none beside the transaction's
 * changes. Sets unit->stage.done behind the last. After another error the transaction is to be
 * aborted. */
int stage_step(struct keyspace *ks, struct ps_txn *txn, struct unit *unit);

/* A transaction begins; it was undone. */
void stage_mark(struct unit *unit);
void stage_undo(struct keyspace *ks, struct unit *unit);

/* Rows were missing: from the beginning. */
void stage_restart(struct keyspace *ks, struct unit *unit);
/* The unit leaves the writer. */
void stage_end(struct keyspace *ks, struct unit *unit);

#endif
