/*
 * log_whole.h - replaying a log commit by commit, payloads whole, for the tests of the log.
 */
#ifndef PANDO_TESTS_SUPPORT_LOG_WHOLE_H
#define PANDO_TESTS_SUPPORT_LOG_WHOLE_H

#include "storage/log.h"

/* `stamp` is that of the commit's last piece. */
typedef int log_whole(void *arg, uint64_t seq, uint64_t stamp, const void *payload, size_t len,
                      const struct log_pos *after);

/* log_replay() with the pieces of each commit put together. */
int log_replay_whole(struct log *log, const struct log_pos *from, const struct log_pos *end,
                     log_whole *apply, void *arg, struct ps_fault *fault);

#endif
