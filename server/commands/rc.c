/*
 * rc.c - storage errors as clients read them, and making room.
 *
 * Pure but for command_reserve, which belongs to the writer.
 */
#include "server/commands/command.h"

const char *command_rc_text(int rc)
{
    switch (rc) {
    case PS_TOOBIG:
        return "ERR key or value is longer than this version can hold";
    case PS_BUSY:
    case PS_TXNFULL:
        return "ERR too many changes at once for dirty-memory; nothing was changed";
    case PS_NOSPACE:
        return "MISCONF the disk is full: nothing was written; deleting works, and writing again "
               "as soon as there is space";
    case PS_POISONED:
        return "MISCONF a sync of the log or the data file failed: writing stays off until the "
               "server is restarted; see the log";
    case PS_UNKNOWN:
        return "UNKNOWN writing the log failed: this command may or may not have happened; read "
               "back before repeating it";
    case PS_CORRUPT:
        return "ERR the data file is damaged here; see the log for the place";
    case PS_IO:
        return "ERR reading or writing the data failed; nothing was changed; see the log";
    case PS_ENDED:
        return "ERR this read took longer than max-snapshot-age allows, and was ended; try again";
    case COMMAND_CROWDED_OUT:
        return "ERR this read took so long that writing needed its memory, and the disk had no "
               "room for it; try again";
    case PS_LIMIT:
        return "ERR too many large replies are being read at once; nothing was changed";
    case PS_NOMEM:
        return "OOM out of memory; nothing was changed";
    default:
        return "ERR the storage engine refused this; nothing was changed";
    }
}

int command_reserve(struct command_ctx *ctx, size_t ops, size_t bytes)
{
    int rc = ctx->reserved ? 0 : ps_reserve(ctx->txn, ops, bytes);
    if (rc != 0) {
        ctx->rc = rc;
    }
    return rc;
}
