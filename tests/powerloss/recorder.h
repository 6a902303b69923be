/*
 * recorder.h - the operating system's files, with every change in a journal.
 *
 * Syncs reach no device: they are events. A life is one process's: when it is killed, what it does
 * to files from then on does not happen, and the next life goes on with what is there.
 *
 * Background threads of the engine can be held up: between two of their operations the writer does
 * a few steps. Nobody is held up while the writer is in a call that may wait, nor for long.
 *
 * Threads: any. A crash of the test loses the journal.
 */
#ifndef PANDO_TESTS_POWERLOSS_RECORDER_H
#define PANDO_TESTS_POWERLOSS_RECORDER_H

#include "storage/vfs.h"
#include "tests/powerloss/journal.h"

struct recorder;

/* Records what is done in a directory, which holds the journal's base. */
struct recorder *recorder_new(const char *dir, struct journal *journal, uint64_t seed);
void recorder_free(struct recorder *rec);
const struct ps_vfs *recorder_vfs(struct recorder *rec);

/* ---- words ---- */

/* Appends a word about a sequence, unless this life is over: then false. */
bool recorder_say(struct recorder *rec, enum event_kind kind, uint64_t seq);
bool recorder_commit(struct recorder *rec, const struct state *state);

/* ---- lives and failures ---- */

/* The process dies at the n-th change from now (1: the next), a write being done in part. */
void recorder_kill_after(struct recorder *rec, unsigned n);
bool recorder_is_dead(struct recorder *rec);
/* A new life; orders of the last one are forgotten. */
void recorder_revive(struct recorder *rec);

enum failure { FAIL_NOTHING, FAIL_LOG_WRITE, FAIL_LOG_SYNC, FAIL_DATA_SYNC };
/* The n-th such call from now (1: the next) fails, a write having done a part of its work (or all
 * of it). */
void recorder_fail(struct recorder *rec, enum failure failure, unsigned n);
/* The failure that has happened since it was last asked, once; the order stays until then. */
enum failure recorder_failed(struct recorder *rec);

/* ---- holding up ---- */

/* The calling thread is the writer. One in `one_in` changes of other threads is held up (0: none).
 */
void recorder_hold_up(struct recorder *rec, unsigned one_in);
/* The writer has done a step. */
void recorder_step(struct recorder *rec);
/* The writer is (is no longer) in a call that may wait for others. */
void recorder_waits(struct recorder *rec, bool waits);
/* How often somebody was held up since this was last asked. */
uint64_t recorder_held(struct recorder *rec);

#endif
