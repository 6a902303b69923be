/*
 * lost.h - pages of the mapping that cannot be read: a media error, or a file that somebody else
 * cut off. The kernel says so with SIGBUS, in the middle of whatever reads; here it becomes an
 * error of that call.
 *
 * The handler puts zeros in the page's place, and what was reading goes on with them. Zeros harm
 * nobody: of a page, code has read what was right until some moment, and zeros from then on; an
 * offset, a length or a count of zero leads nowhere. Whoever reads asks at the end whether a loss
 * began meanwhile, and if so answers PS_IO, whatever it found. After a loss no page counts as
 * checked any more, so that who comes later finds the zeros by their checksum.
 *
 *  L1 `begun` rises before zeros can be seen, `ended` when no page counts as checked any more. Who
 *     took `ended` before its first look at a page, and finds `begun` equal after its last, has
 *     seen no zeros in a page that it did not check itself.
 *  L2 Who checks a page and notes that it was checked compares likewise afterwards, and takes the
 *     note back if a loss began (verify.c).
 *  L3 Zeros stay until somebody writes to the place (lost_restore), or the store is closed: reading
 *     again does not help, and would disturb others.
 *  L4 There are LOST_RANGES of them at most; one more, and the whole file is lost. What lies beyond
 *     the end of a file that was cut off is lost at once.
 *
 * The handler is the process's: installed with the first store, gone with the last. A SIGBUS that
 * is not about a store's mapping goes to the handler that was there before, or kills the process.
 * The table of stores is the library's only global state: a signal comes with an address alone.
 *
 * Threads: any. The handler takes a lock that is held for moments only, by code that reads no page.
 */
#ifndef PANDO_STORAGE_LOST_H
#define PANDO_STORAGE_LOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "storage/page.h"

#define LOST_RANGES 32u

struct lost_range {
    page_ref first, end;
};

struct lost {
    _Atomic uint64_t ended;
    atomic_flag lock;
    _Atomic unsigned count;
    struct lost_range ranges[LOST_RANGES]; /* lock */
    _Atomic uint64_t told;                 /* `ended` when a message was given */
    _Atomic bool cut_off;                  /* the file ends before pages that it had */
    _Atomic bool poisoned;                 /* and the store takes no more writes */
};

struct ps_store;

/* From now on losses in the store's mapping are noticed. PS_LIMIT: too many stores in a process. */
int lost_watch(struct ps_store *store);
/* Nobody reads any more; before the mapping goes. */
void lost_unwatch(struct ps_store *store);
/* Whether one of these pages was lost. */
bool lost_within(struct ps_store *store, page_ref first, uint64_t pages);
/* The pages are about to be written anew: they can be seen again. */
void lost_restore(struct ps_store *store, page_ref first, uint64_t pages);
/* Records what was lost, once says so, and answers PS_IO. A store whose file was cut off takes no
 * more writes. mu not held. */
int lost_report(struct ps_store *store);

#endif
