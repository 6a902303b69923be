/*
 * error.c - error texts, and the record of where something went wrong.
 */
#include <errno.h>
#include <stdarg.h>

#include "storage/store.h"

const char *ps_strerror(int code)
{
    switch (code) {
    case PS_OK:
        return "success";
    case PS_NOTFOUND:
        return "not found";
    case PS_EXISTS:
        return "exists already";
    case PS_INVALID:
        return "invalid argument";
    case PS_TOOBIG:
        return "key, value or name too large";
    case PS_BUSY:
        return "no room in dirty memory now: commit first";
    case PS_TXNFULL:
        return "transaction larger than dirty memory";
    case PS_NOSPACE:
        return "no space left on device";
    case PS_IO:
        return "input/output error";
    case PS_CORRUPT:
        return "the store is damaged";
    case PS_POISONED:
        return "a sync failed earlier: the store takes no more writes";
    case PS_LOCKED:
        return "the directory is in use by another process";
    case PS_NOMEM:
        return "out of memory";
    case PS_UNKNOWN:
        return "the log failed: outcome unknown, read back";
    case PS_LIMIT:
        return "too many trees, snapshots or savepoints";
    case PS_VERSION:
        return "another format version or page size";
    case PS_WOULDWAIT:
        return "would wait for the disk";
    case PS_ENDED:
        return "the snapshot was ended: too old, or no room to keep it";
    case PS_OVERFLOW:
        return "merging: the sum does not fit into 64 bits";
    case PS_MISMATCH:
        return "merging: the value that is there is none of the operator's kind";
    case PS_NOOPERATOR:
        return "merging: the tree has no operator, or one that is not registered";
    default:
        return "unknown error";
    }
}

int errno_code(int negative_errno)
{
    switch (-negative_errno) {
    case 0:
        return 0;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: /* a limit on the size of files; SIGXFSZ is the embedding program's business */
        return PS_NOSPACE;
    case ENOMEM:
        return PS_NOMEM;
    default:
        return PS_IO;
    }
}

static void fill(struct ps_fault *fault, int code, int sys_errno, const char *file, uint64_t offset,
                 const char *format, va_list args)
{
    fault->code = code;
    fault->sys_errno = sys_errno < 0 ? -sys_errno : sys_errno;
    fault->offset = offset;
    snprintf(fault->file, sizeof fault->file, "%s", file == NULL ? "" : file);
    vsnprintf(fault->what, sizeof fault->what, format, args);
}

void fault_set(struct ps_fault *fault, int code, int sys_errno, const char *file, uint64_t offset,
               const char *format, ...)
{
    if (fault == NULL) {
        return;
    }
    va_list args;
    va_start(args, format);
    fill(fault, code, sys_errno, file, offset, format, args);
    va_end(args);
}

int store_fault(struct ps_store *store, int code, int sys_errno, const char *file, uint64_t offset,
                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&store->fault_mu);
    fill(&store->fault, code, sys_errno, file, offset, format, args);
    pthread_mutex_unlock(&store->fault_mu);
    va_end(args);
    return code;
}

void ps_last_fault(struct ps_store *store, struct ps_fault *fault)
{
    pthread_mutex_lock(&store->fault_mu);
    *fault = store->fault;
    pthread_mutex_unlock(&store->fault_mu);
}

void store_message(struct ps_store *store, int level, const char *format, ...)
{
    if (store->options.on_message == NULL) {
        return;
    }
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    store->options.on_message(store->options.arg, level, text);
}

bool store_is_poisoned(struct ps_store *store)
{
    pthread_mutex_lock(&store->mu);
    bool poisoned = store->poisoned != 0;
    pthread_mutex_unlock(&store->mu);
    return poisoned;
}

int store_poison(struct ps_store *store, int rc)
{
    pthread_mutex_lock(&store->mu);
    store->poisoned = PS_POISONED;
    pthread_cond_broadcast(&store->cond);
    pthread_mutex_unlock(&store->mu);
    return rc;
}
