/*
 * file_run.h - keys and values over RUN_ARENA_MAX bytes, in runs of pages of the file.
 *
 *   head pages: the header (kind PAGE_FILE_RUN; its checksum covers header and list), then a list
 *               of u32, the CRC-32C of each piece of RUN_PIECE bytes of the data (the last may be
 *               shorter), then zeros
 *   data pages: the data, in one piece, then zeros
 *
 *  G1 A run belongs to exactly one cell, which knows its place, birth and length. It is written
 *     once, when it is made, and never changed.
 *  G2 Its pages are the transaction's (txn_alloc_file): undone with it, in a space map from the
 *     next checkpoint on.
 *  G3 The helper writes it. The caller's bytes are copied, a bounded number of them at a time; no
 *     more is in memory of a run of any length.
 *  G4 Nobody reads a run, no group that made one is published, and no page of one is free, before
 *     what the helper has to write of it is written (or, for free pages, given up). So a checkpoint
 *     syncs all of a run that its state has.
 *  G5 A write that fails poisons the store: space was allocated before, so a full disk is no
 *     excuse.
 *  G6 Each piece is checked when it is first used after the store was opened or the run was made;
 *     the bit of its first page remembers (verified in store.h), and that of the head's first page
 *     that all of the run was. So reading a part costs what the part costs.
 *
 * Threads: making runs is the writer's; reading them anybody's whose state holds them. A crash
 * leaves pages that no space map has; the log has the bytes, and replaying it makes the run anew.
 */
#ifndef PANDO_STORAGE_FILE_RUN_H
#define PANDO_STORAGE_FILE_RUN_H

#include "storage/store.h"

/* Has `bytes` written to the run's pages, which the transaction has taken. The bytes need to live
 * only until this returns. On failure the pages are still the transaction's. */
int file_run_write(struct ps_txn *txn, const struct run_ref *run, struct ps_slice bytes);

/* All bytes of a run, or those from `from` to `to`; checked on first use. */
int file_run_data(struct ps_store *store, const struct run_ref *run, const uint8_t **data);
int file_run_part(struct ps_store *store, const struct run_ref *run, uint64_t from, uint64_t to,
                  const uint8_t **data);

/* What the helper does with a job. */
struct run_job;
void run_job_do(struct ps_store *store, struct run_job *job);
void run_job_free(struct run_job *job);

#endif
