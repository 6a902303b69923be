/*
 * ahead.h - what commands will read, known before they run: their keys. In the disk regime
 * (regime.h) I/O threads ask here whether a command would wait for the disk, and the reader pool
 * reads what a unit needs before it goes to the writer.
 *
 * Only time depends on the answers: a command runs the same wherever its pages are.
 *
 * Threads: any; session, executor and residency are the caller's.
 */
#ifndef PANDO_SERVER_EXEC_AHEAD_H
#define PANDO_SERVER_EXEC_AHEAD_H

#include "server/exec/dispatch.h"
#include "server/exec/unit.h"

/* Whether a command that belongs here (PLACE_HERE) would wait for the disk. What reads data without
 * naming keys counts as waiting. */
bool ahead_read_waits(const struct executor *x, const struct session *session,
                      const struct command *row, size_t argc, const struct ps_slice *argv,
                      struct ps_residency *residency);
/* The same for commands of a unit on its way to the writer; those of many keys count as waiting. */
bool ahead_write_waits(const struct executor *x, const struct session *session,
                       const struct unit_source *commands, size_t n, const struct ps_slice *argv,
                       struct ps_residency *residency);

/* Reads what one command will read into memory, waiting for the disk. Returns 1 if it writes, else
 * 0. *db is the database it is for; a SELECT changes it. */
uint64_t ahead_touch(const struct executor *x, unsigned *db, const struct command *row, size_t argc,
                     const struct ps_slice *argv);

#endif
