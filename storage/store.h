/*
 * store.h - the engine's own view of a store: what its files share. Not installed.
 *
 * The path of a write:  txn.c (begin, reserve, savepoints) -> tree.c (copy-on-write changes)
 *   -> commit.c (log record, durability, publication) -> reclaim.c (slots and pages come back).
 * The path of a read:   snapshot.c (announce) -> lookup.c / cursor.c -> node.c, verify.c;
 *                       resident.c where it must not wait for the disk.
 * Behind them:          checkpoint.c (arena -> file), relink.c (file pages replace slots),
 *                       recovery.c (meta + log -> state), helper.c (memory for slots ahead of
 *                       the writer; keys and values over 65 KiB to the file: file_run.c).
 *
 * Stamps, births and deaths (numbers of the invariants are used in the other files):
 *  I1 Stamps rise by every transaction and savepoint, and before pages of the file are taken in
 *     one, and are never used twice, across restarts too.
 *  I2 A page is part of the states whose stamp is in [birth, death). A published page is never
 *     written; a page may be changed in place only if its birth is >= the transaction's base.
 *  I3 A page is reused only when no pinned stamp is in [birth, death): announced readers, the
 *     published state, executed but unpublished ones, open savepoints, the running checkpoint; for
 *     pages of the file also both durable metas.
 *  I4 Only arena pages refer to arena pages.
 *  I5 A state is published only after its log record has the durability asked for.
 *  I6 A space map holds what was allocated up to its state minus what died up to it: pages that its
 *     checkpoint wrote, and those that transactions took themselves (fresh.h). A crash frees what
 *     was taken since.
 *  I7 What a group has given the helper to write is written before the group is published, and
 *     before any of its pages is free (file_run.h).
 *
 * Locks, outermost first: the writer token (token.c; held from begin to commit, or by internal
 * work), checkpoint_mu, log_mu, mu, helper.mu, space.mu, fault_mu. `mu` is short and guards the
 * token, the list of groups, publication, the pool of states, and the reader table's allocation.
 */
#ifndef PANDO_STORAGE_STORE_H
#define PANDO_STORAGE_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "storage/arena.h"
#include "storage/encode.h"
#include "storage/fold.h"
#include "storage/fresh.h"
#include "storage/helper.h"
#include "storage/image.h"
#include "storage/log.h"
#include "storage/lost.h"
#include "storage/meta.h"
#include "storage/page.h"
#include "storage/pandostore.h"
#include "storage/rules.h"
#include "storage/slice.h"
#include "storage/space.h"
#include "storage/vfs.h"
#include "storage/watch.h"

struct tree_name {
    struct tree_name *next;
    uint8_t len;
    char bytes[PS_MAX_TREE_NAME];
};

/* A tree in a state. */
struct tree_root {
    struct child root;            /* ref 0: empty */
    const struct tree_name *name; /* NULL: no such tree */
    uint8_t level;                /* of the root page */
    uint8_t compression;          /* enum ps_compression */
    uint8_t merge;                /* its operator's number in this process (merge.h); 0: none */
    uint32_t compress_over;
};

/* A state: immutable once executed. Memory comes from a pool and stays a state for the life of the
 * store, so that a reader may look at the stamp of one that was just reused. */
struct state {
    _Atomic uint64_t stamp;
    uint64_t seq;       /* commit sequence */
    struct log_pos pos; /* where the log continues after it */
    uint32_t ntrees, room;
    struct tree_root *trees;
    struct state *next; /* in the pool or the list of retired ones */
};

/* A page that died. For slots with an image in the file, the image has a record of its own. */
struct death {
    page_ref ref;
    uint64_t birth, death;
    uint32_t pages;
};
typedef VEC(struct death) deaths;

enum group_status { GROUP_QUEUED, GROUP_WRITING, GROUP_PUBLISHED, GROUP_DROPPED };

/* Somebody waiting for a group. */
struct waiter {
    bool done;
    int rc;
    uint64_t drops; /* of one that changed nothing: store.drops when it ended */
};

/* An executed transaction on its way to being published, with what is needed to undo it. */
struct group {
    struct group *next;
    struct state *state;
    enum group_status status;
    enum ps_durability level;
    bool logged;
    struct waiter *waiter;
    uint64_t base, stamp; /* the stamps it used */
    VEC(uint8_t) ops;
    uint64_t nops;
    uint64_t weight;         /* of long values, in operations that take as long to replay */
    VEC(page_ref) born;      /* slots */
    space_extents born_file; /* pages of the file */
    uint64_t helper_ticket;  /* of the last part of a run that it handed to the helper; or 0 */
    deaths deaths;
};

enum view_place {
    VIEW_AS_PUBLISHED, /* a state that everybody shares, or none */
    VIEW_MOVED,        /* a snapshot's own copy of its state, in the file alone */
    VIEW_ENDED,        /* its move failed: reads answer PS_ENDED */
};

struct ps_view {
    struct ps_store *store;
    const struct state *state; /* NULL: holds none */
    struct ps_txn *txn;        /* NULL: a snapshot's */
    enum view_place place;
    const _Atomic uint64_t *mark; /* a snapshot's; a transaction's never says that it is over */
    uint64_t losses;              /* that had ended when its reading began (lost.h) */
    uint64_t moves;               /* a snapshot's moves so far: cursors compare */
    struct ps_cursor *cursors;    /* a snapshot's open ones */
    struct decoded decoded;       /* what it has read of compressed values */
};

struct ps_snapshot {
    struct ps_view view;
    unsigned slot;
    struct state *moved;  /* VIEW_MOVED: the state, which nobody else has */
    space_extents places; /* and the pages of the file that were written for it */
};

struct savepoint {
    uint64_t base, stamp;
    size_t born, born_file, deaths, ops;
    uint64_t nops, own_slots;
    uint32_t ntrees;
    struct tree_root *trees;
    bool changed;
    bool marked; /* it was open when the operations before it went to the log (pieces.c) */
};

struct ps_txn {
    struct ps_view view;
    struct state *state; /* the one being made */
    struct group *group;
    uint64_t stamp;   /* births of new pages, deaths of old ones */
    uint64_t base;    /* births from here on are ours to change */
    uint64_t changes; /* counts every change: cursors compare */
    uint64_t reserved_log;
    uint64_t own_slots; /* made by it and still in use */
    int error;          /* a change failed half-way: only rolling back is left */
    uint64_t undone;    /* store.undone when it began */
    bool changed;
    bool replay;                /* recovery: nothing is logged */
    bool whole;                 /* larger than its share of the arena: it spills (spill.c) */
    bool in_pieces;             /* some of its operations are in the log (pieces.c) */
    struct log_pos pieces_from; /* where they begin */
    int lost;                   /* why its log is not there: it can only be aborted */
    unsigned nsavepoints;
    struct savepoint savepoints[PS_MAX_SAVEPOINTS];
    struct folds folds;
};

#define READER_SLOTS (PS_MAX_SNAPSHOTS + 1u) /* one is the checkpoint's */

struct reader_slot {
    _Alignas(64) _Atomic uint64_t announced; /* a stamp, perhaps with FILE_ONLY; 0: none */
    _Atomic uint64_t asked;                  /* the stamp whose slots are wanted back */
    _Atomic uint64_t mark; /* when it was first seen to be held, MARK_ENDED; 0: not seen (age.c) */
};

/* Of a snapshot that exists; under mu. */
struct reader_info {
    bool taken;
    enum ps_snapshot_kind in_file; /* while it announces FILE_ONLY: pinned or moved */
    uint64_t own_pages;            /* places of the file that were written for it alone */
};

#define FILE_ONLY    (UINT64_C(1) << 63) /* sees pages of the file, no slots: pinned, or moved */
#define MARK_ENDED   UINT64_C(1)         /* too old: its reads answer PS_ENDED */
#define FILE_RESERVE 64u /* pages of the file kept for checkpoints and deletes on a full disk */

#define DEFAULT_RECOVERY_MS 1000u

/* Pages that wait for one pinned stamp to go. */
struct holder {
    uint64_t stamp;
    bool file; /* waits for a meta as well as for readers */
    uint64_t pages;
    deaths waiting;
};

/* What a holder has, for those who ask without the token. */
struct retained {
    uint64_t stamp, pages;
    bool file;
};

struct checkpoint_page {
    page_ref slot, file;
};

struct ps_store {
    /* reading */
    const uint8_t *base[2];        /* the file's mapping, the arena */
    _Atomic uint64_t losses_begun; /* lost.h */
    uint32_t page_shift, page_size;
    /* A bit per page of the file, each: a node, a run (or piece of one) that was checked since the
     * store was opened or it was written; in the map that was loaded; written since. */
    _Atomic uint64_t *verified, *verified_runs, *mapped, *written;
    size_t verified_bytes; /* of each */
    uint64_t loaded_stamp; /* no page that was not written since has a later birth */
    _Atomic(struct state *) published;
    struct reader_slot *readers;
    _Atomic unsigned readers_high;
    _Atomic uint64_t snapshot_retries, pages_verified, file_runs_read, run_pieces_verified;
    _Atomic uint64_t values_decompressed;
    _Atomic uint64_t residency_checks, probes_would_wait, paths_touched, neighbours_touched;
    _Atomic uint64_t published_seq;
    _Atomic uint64_t file_pages;   /* in the file: references beyond are damage */
    _Atomic uint64_t data_written; /* bytes written to the file, space maps left out */

    /* files */
    struct ps_options options;
    const struct ps_vfs *vfs;
    struct image *image; /* NULL: the file itself is mapped */
    struct watch *watch; /* NULL: nobody watches */
    struct lost lost;
    bool watched; /* lost_watch */
    char *dir, *file_path;
    int fd, lock_fd;
    size_t map_bytes;
    struct space space;
    bool space_open;
    struct log *log;
    struct meta meta; /* of the last complete checkpoint */

    /* the writer token and what it guards */
    pthread_mutex_t mu;
    pthread_cond_t cond; /* token, publication, checkpoint completion */
    bool token_taken, txn_open;
    struct arena arena;
    struct ps_txn txn, internal_txn;
    struct state *tip; /* newest executed state */
    uint64_t next_stamp;
    deaths dead_slots, dead_pages; /* published deaths, not looked at yet */
    deaths unmapped;               /* deaths of file pages the next space map has to record */
    size_t deaths_kept; /* room in both for what a running checkpoint adds to them at its end */
    struct fresh fresh; /* file pages of transactions that no space map has yet */
    VEC(struct holder) holders;
    size_t holder_found;                  /* the last one that was looked for */
    VEC(uint64_t) pins;                   /* scratch: pinned stamps, in order */
    VEC(uint64_t) slot_pins;              /* those of them that may see slots */
    VEC(struct checkpoint_page) adopting; /* of a complete checkpoint, not taken over yet */
    size_t adopted;
    bool long_keys;          /* keys in runs are or were about: separators may be, too */
    _Atomic bool file_keys;  /* keys in runs of the file are or were: kept in the meta */
    uint64_t relink_pending; /* live slots that have an image in the file */
    _Atomic uint64_t
        placed; /* slots that a running checkpoint has given their places in the file */
    struct relink_cursor {
        bool active;
        ps_tree tree;
        byte_vec key, next; /* where it is; where it goes on */
    } sweep;
    struct spill_cursor {
        ps_tree tree;
        byte_vec key;
    } spilled;             /* where the last sweep ended */
    int64_t full_until;    /* in ms: until then a full disk is not asked again */
    int64_t log_allowance; /* bytes of log known to be there */
    int64_t log_allowance_commits;
    int64_t log_tight_until; /* in ms: a full disk leaves room for single commits at most */
    uint8_t *scratch[4];     /* a page each: building nodes */
    uint8_t *keys[4];        /* a page each: putting keys together */
    uint8_t *items;          /* redistribution (rebuild.c) */
    size_t items_room;
    struct encoder encoder;           /* what is put, compressed */
    struct decoded merging;           /* what a merge begins with */
    struct merge_operator *operators; /* merge.h */
    uint32_t noperators;              /* mu */

    /* groups and publication: under mu */
    struct group *groups, *groups_last; /* oldest first; published ones until harvested */
    struct group *group_pool;
    struct state *state_pool;
    struct state *retired;
    struct state *retiring; /* of these, those that a reclaim is looking at */
    struct tree_name *names;
    struct reader_info reader_info[READER_SLOTS];
    unsigned unpublished;
    uint64_t drops;  /* times that unpublished states were dropped */
    uint64_t undone; /* times that this was undone in memory: the tip went back; the token's */
    bool log_broken; /* unpublished states were dropped: undo before the next transaction */
    int poisoned;    /* PS_POISONED once a sync failed */
    _Atomic uint64_t durable_seq;
    _Atomic int durability;
    _Atomic uint32_t max_recovery_ms;
    _Atomic uint64_t max_snapshot_ms;
    _Atomic uint64_t ops_since_checkpoint;

    /* the log thread */
    pthread_mutex_t log_mu;
    pthread_cond_t log_cond;
    pthread_t log_thread;
    bool log_thread_runs, log_stop;
    struct log_pos log_end; /* where the next group's record goes; its seq counts unlogged ones */
    bool unsynced;          /* something was written and not synced */
    uint64_t flush_wanted;  /* sequence somebody waits for */
    uint64_t written_seq;   /* last one with a record in the operating system; log_mu */
    bool prepare_wanted;    /* the log went on to another segment: one more ahead, please */

    /* the checkpoint thread */
    pthread_mutex_t checkpoint_mu;
    pthread_cond_t checkpoint_cond;
    pthread_t checkpoint_thread;
    bool checkpoint_thread_runs, checkpoint_stop;
    bool hurry;                                 /* somebody waits for slots */
    uint64_t checkpoint_asked, checkpoint_done; /* tickets */
    int checkpoint_rc;
    int64_t checkpoint_not_before; /* after a failure, in ms */
    struct ps_snapshot checkpoint_snap;
    uint64_t meta_stamps[2];
    _Atomic bool shrinking;   /* somebody is (shrink.c) */
    struct state *file_state; /* the last checkpoint's state, all references in the file */

    struct helper helper;
    _Atomic bool runs_failed; /* a run could not be written: nothing with runs is published */

    pthread_mutex_t fault_mu;
    struct ps_fault fault;
    struct ps_stat stat;              /* counters; each the token's or mu's */
    struct ps_stat shown;             /* a copy for ps_stats; mu */
    VEC(struct retained) retained;    /* of the holders; mu */
    struct ps_snapshot_info *listing; /* scratch: room for all; mu */
    unsigned meta_first; /* opening: the meta that recovery writes first, 0 (A) or 1 (B) */
};

/* ---- opening (store.c) ---------------------------------------------------------------------- */

/* The files of a store of which nothing is believed, mapped, so that pages can be looked at; there
 * is no state, and the space map says that all pages are free. */
int store_open_damaged(const char *dir, uint32_t page_size, struct ps_store **store,
                       struct ps_fault *fault);

static inline bool durability_is_valid(enum ps_durability level)
{
    return (unsigned)level <= PS_ALWAYS;
}

/* ---- pages (verify.c) ---------------------------------------------------------------------- */

static inline const struct page *page_at(const struct ps_store *store, page_ref ref)
{
    return (const struct page *)(const void *)(store->base[ref >> 63] + (ref << store->page_shift));
}

static inline bool page_bit(const _Atomic uint64_t *bits, page_ref ref)
{
    uint64_t word = atomic_load_explicit(&bits[ref / 64], memory_order_relaxed);
    return (word >> (ref % 64)) & 1;
}

/* A node that was checked, and is what this parent says: another may have been the one that led to
 * it before. */
static inline bool page_is_verified(const struct ps_store *store, const struct page *p,
                                    const struct child *child, unsigned level)
{
    return page_bit(store->verified, child->ref) && p->level == level && p->birth == child->birth;
}

static inline bool run_is_verified(const struct ps_store *store, const struct page *p,
                                   const struct run_ref *run)
{
    return page_bit(store->verified_runs, run->ref) && p->birth == run->birth &&
           p->run_len == run->len;
}

int page_verify(struct ps_store *store, const struct child *child, unsigned level);
/* What is wrong with a page, or a copy of it, that should be this child; NULL: nothing. Its count
 * may be COUNT_UNKNOWN. */
const char *page_problem(struct ps_store *store, const struct page *p, const struct child *child,
                         unsigned level);
/* All of a run, as far as options.verify says; _fully: in any case. */
int run_verify(struct ps_store *store, const struct run_ref *run);
int run_verify_fully(struct ps_store *store, const struct run_ref *run);
/* Bytes [from, to) of a long run, but what was checked before. */
int run_verify_part(struct ps_store *store, const struct run_ref *run, uint64_t from, uint64_t to);
/* Pages are about to be written by us. */
void page_unverify(struct ps_store *store, page_ref ref, uint32_t pages);
/* Notes what the space map that was loaded has in use. */
void pages_mapped(struct ps_store *store);
/* Whether pages with this birth can be part of a state: they are in the file and its map, and were
 * not written since it was loaded if they are older than that; or they are ours. */
bool pages_belong(struct ps_store *store, page_ref first, uint64_t pages, uint64_t birth);
/* PS_CORRUPT: says that two places refer to a page, or none. */
int page_misplaced(struct ps_store *store, page_ref ref);
/* The file may have grown, or been cut off: references up to its end are good from now on. */
void file_pages_grew(struct ps_store *store);

/* The page of a child, checked on first use. */
static inline int page_get(struct ps_store *store, const struct child *child, unsigned level,
                           const struct page **page)
{
    *page = page_at(store, child->ref);
    if (unlikely(!ref_in_arena(child->ref) && !page_is_verified(store, *page, child, level))) {
        return page_verify(store, child, level);
    }
    return 0;
}

/* Writes to the data file: 0 or a negative errno. */
static inline int data_write(struct ps_store *store, const void *bytes, size_t len, uint64_t offset)
{
    atomic_fetch_add_explicit(&store->data_written, len, memory_order_relaxed);
    return store->vfs->pwrite(store->vfs->ctx, store->fd, bytes, len, offset);
}

/* ---- pages that cannot be read (lost.h) ------------------------------------------------------ */

static inline uint64_t losses_ended(const struct ps_store *store)
{
    return atomic_load_explicit(&store->lost.ended, memory_order_acquire);
}

/* Whether what was read since losses_ended() was asked may be zeros. */
static inline bool lost_since(const struct ps_store *store, uint64_t losses)
{
    atomic_thread_fence(memory_order_acquire);
    return unlikely(atomic_load_explicit(&store->losses_begun, memory_order_relaxed) != losses);
}

/* What a function that read from a view answers. */
static inline int view_end(const struct ps_view *view, int rc)
{
    return lost_since(view->store, view->losses) ? lost_report(view->store) : rc;
}

/* ---- errors (error.c) ----------------------------------------------------------------------- */

/* Records where something went wrong and returns the code. */
int store_fault(struct ps_store *store, int code, int sys_errno, const char *file, uint64_t offset,
                const char *format, ...) __attribute__((format(printf, 6, 7)));
void fault_set(struct ps_fault *fault, int code, int sys_errno, const char *file, uint64_t offset,
               const char *format, ...) __attribute__((format(printf, 6, 7)));
void store_message(struct ps_store *store, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int errno_code(int negative_errno);
/* No more writes; answers rc. mu not held. */
int store_poison(struct ps_store *store, int rc);
bool store_is_poisoned(struct ps_store *store);

/* ---- snapshots (snapshot.c) ------------------------------------------------------------------ */

int snapshot_init(struct ps_store *store, struct ps_snapshot *snap);
void snapshot_fini(struct ps_snapshot *snap);
/* move.c: gives back what a moved snapshot has of its own. */
void move_undo(struct ps_snapshot *snap);
/* cursor.c: every cursor of a snapshot remembers its key, since the pages it stands on will go. */
int cursors_keep_keys(struct ps_view *view);

/* ---- states and publication (state.c) ------------------------------------------------------- */

struct state *state_new(struct ps_store *store); /* mu not held */
/* To the pool; nobody has seen it. mu not held. */
void state_give_back(struct ps_store *store, struct state *state);
/* All but the stamp, and the log position, which an unpublished state does not know yet. */
int state_copy(struct state *to, const struct state *from);
int state_room(struct state *state, uint32_t ntrees);
void state_retire(struct ps_store *store, struct state *state); /* mu held */
void state_free(struct state *state);
uint64_t stamp_of(const struct state *state);
const struct tree_name *name_intern(struct ps_store *store, struct ps_slice name); /* mu not held */

struct group *group_new(struct ps_store *store); /* mu not held */
void group_recycle(struct ps_store *store, struct group *group);
void group_free(struct group *group);
/* Publishes the oldest groups up to and including `last`; mu held. */
void publish_through(struct ps_store *store, struct group *last);

/* ---- the token (token.c) -------------------------------------------------------------------- */

void token_take(struct ps_store *store); /* internal work */
void token_give(struct ps_store *store);
void show_stats(struct ps_store *store); /* with the token and mu */
/* What every holder does first: undo dropped groups, harvest published ones, adopt, reclaim. */
int token_prepare(struct ps_store *store);
/* PS_NOMEM: some of them wait for the next time. */
int harvest(struct ps_store *store);

/* ---- reclaiming (reclaim.c) ----------------------------------------------------------------- */

void reclaim(struct ps_store *store);
void reclaim_close(struct ps_store *store);
/* Room for so many deaths of pages of the file, beside what is kept for a running checkpoint. */
bool dead_pages_reserve(struct ps_store *store, size_t more);
/* There is room. */
void dead_page_later(struct ps_store *store, const struct death *d);
/* Pages of the file go back to the map of free ones. */
void file_pages_free(struct ps_store *store, const struct death *d);
/* So does a slot, or a run of them. */
void slots_free(struct ps_store *store, page_ref ref, uint64_t death);
/* Slots are wanted: snapshots that keep at least `least` dead ones are asked to move. */
void ask_to_move(struct ps_store *store, uint64_t least);

/* ---- transactions (txn.c) ------------------------------------------------------------------- */

int txn_open(struct ps_store *store, struct ps_txn *txn, bool replay);
/* It starts (again) from the newest executed state. Its cursors find their place anew: the pages
 * they stood on may be gone. */
int txn_restart(struct ps_store *store, struct ps_txn *txn);
/* A path was copied and nothing changed after all: one without changes is as it was when it began,
 * so that it may wait for room. */
int txn_forget(struct ps_txn *txn);
/* The transaction's stamp becomes a new one. */
void txn_advance(struct ps_txn *txn);
/* Slots that are its own and that no savepoint needs. */
uint64_t txn_loose_slots(const struct ps_txn *txn);
void txn_discard(struct ps_txn *txn); /* undoes all of it; the token stays */
/* Takes back what a group did beyond these lengths of its lists. */
void txn_undo(struct ps_store *store, struct group *group, size_t born, size_t born_file,
              size_t ndeaths);
int txn_alloc(struct ps_txn *txn, uint32_t pages, page_ref *ref);
/* Consecutive pages of the file, outside any checkpoint (fresh.h); their birth is the transaction's
 * stamp, and whoever writes them. PS_NOSPACE when there are none: nothing has changed. That enough
 * is left for what is in the arena is the caller's to see (room_in_file; a page that is spilled
 * leaves the place that was kept for its slot). */
int txn_alloc_file(struct ps_txn *txn, uint32_t pages, page_ref *ref);
/* The same for pages that the caller has from the space map; PS_NOMEM: they are still its own. */
int txn_take_file(struct ps_txn *txn, page_ref first, uint32_t pages);
/* The page is no longer part of the state: its slot, and its image in the file, die (or are free
 * at once if this transaction made it: that never fails). */
int txn_drop(struct ps_txn *txn, page_ref ref, uint64_t birth, uint32_t pages);
/* Relinking: the slot dies, its image in the file lives on. */
int txn_drop_slot(struct ps_txn *txn, page_ref ref);

/* ---- room (room.c) --------------------------------------------------------------------------- */

/* What a change may need. */
struct room {
    size_t ops;
    uint64_t bytes;         /* of keys and values in pages or runs of the arena */
    uint64_t log_bytes;     /* of its log record */
    uint64_t file_pages;    /* that it takes of the file while it goes on */
    bool may_use_reserve;   /* it makes room in the end: on a full disk as well */
    uint32_t run_pages[2];  /* long runs, taken at once; 0: none */
    struct run_ref runs[2]; /* out: where they are (length not set) */
};
/* What ps_reserve promises, of just this. PS_NOSPACE and PS_BUSY: nothing was taken. */
int txn_make_room(struct ps_txn *txn, struct room *room);
uint64_t txn_free_slots(const struct ps_store *store);
uint64_t slots_kept_back(const struct ps_store *store);
/* Slots that no operation needs more of. */
uint64_t slots_of_largest(const struct ps_store *store);
/* What a transaction that must be whole does before it opens a savepoint. */
int room_for_savepoint(struct ps_txn *txn);
/* Holds a transaction up that is about to begin, if slots run low; mu held. */
void txn_slow_down(struct ps_store *store);

/* ---- spilling (spill.c) ---------------------------------------------------------------------- */

/* The part of the arena that a transaction has for itself before it spills. */
uint64_t spill_share(const struct ps_store *store);
/* Moves pages of the transaction to the file until `least` slots are free, and as a rule many more.
 * 0 although there are fewer: no more can be moved. Others: the transaction's pages could not be
 * written; txn->error is set if it is of no more use. */
int spill(struct ps_txn *txn, uint64_t least);
/* Before a savepoint keeps what is there in the arena: moves all of it, if it is much. */
int spill_for_savepoint(struct ps_txn *txn);

/* ---- the log of a running transaction (pieces.c) --------------------------------------------- */

/* Log operations; OP_SAVEPOINT to OP_RELEASE are marks, which have no tree and key: OP_SAVEPOINT
 * alone, the others with a byte that is the number of the savepoint, from the outermost, 0. */
enum {
    OP_PUT = 1,
    OP_DELETE = 2,
    OP_CREATE = 3,
    OP_DROP = 4,
    OP_CLEAR = 5,
    OP_SAVEPOINT = 6,
    OP_ROLLBACK = 7,
    OP_RELEASE = 8,
    OP_DELETE_RANGE = 9, /* key and value are the bounds; no value: all from the key on */
    OP_PUT_ENCODED = 10, /* as a put; the value is as it is stored (encode.h) */
    OP_OPTIONS = 11,     /* of a tree, in place of a key (tree_options.h) */
};

static inline bool op_is_mark(uint8_t op)
{
    return op >= OP_SAVEPOINT && op <= OP_RELEASE;
}

static inline bool op_is_put(uint8_t op)
{
    return op == OP_PUT || op == OP_PUT_ENCODED;
}

static inline bool op_has_value(uint8_t op)
{
    return op_is_put(op) || op == OP_DELETE_RANGE;
}

/* Gathers an operation that was carried out. */
int txn_log(struct ps_txn *txn, uint8_t op, ps_tree tree, struct ps_slice key,
            struct ps_slice value);
/* Writes what was gathered to the log as pieces. After a failure the transaction is lost. */
int pieces_write(struct ps_txn *txn);
/* How the savepoint of a number (0: the outermost) ends. */
int pieces_mark(struct ps_txn *txn, uint8_t op, unsigned savepoint);
/* The transaction ends without committing: what it wrote to the log is dead. */
void pieces_abandon(struct ps_txn *txn);
/* Bytes of log that must be left when what is reserved was written, for ending without a commit. */
uint64_t pieces_spare(const struct ps_txn *txn);

/* ---- lookups (lookup.c) -----------------------------------------------------------------------
 */

/* As ps_get; VALUE_ENCODED: the value as it is stored (encode.h). */
int view_get(struct ps_view *view, ps_tree tree, struct ps_slice key, struct ps_slice *value);

/* ---- trees (tree.c, tree_balance.c, tree_range.c, rebuild.c)
 * ---------------------------------------------- */

struct path {
    unsigned levels; /* of the tree; entry [level] */
    struct page *page[TREE_MAX_LEVELS];
    unsigned index[TREE_MAX_LEVELS];
};

/* An entry to be put. Runs (ref 0: none) were made before, of keys that are not there yet. */
struct put {
    struct ps_slice key, value;
    struct run_ref key_run, value_run;
    bool encoded; /* the value is as it is to be stored (encode.h) */
};

/* Where a key is, or would be, in a leaf that is the transaction's own. */
struct put_place {
    struct tree_root *root;
    struct path path;
    unsigned index;
    bool exact;
};

/* Owns the path to a key of a tree that is not empty. An error may leave it half done. */
int tree_place(struct ps_txn *txn, ps_tree tree, struct ps_slice key, struct put_place *place);
/* Puts an entry there. */
int tree_put_at(struct ps_txn *txn, struct put_place *place, const struct put *put);
int tree_put(struct ps_txn *txn, ps_tree tree, const struct put *put);
/* The leaf that a key belongs to; PS_NOTFOUND: the tree is empty. */
int tree_leaf(struct ps_store *store, const struct tree_root *root, struct ps_slice key,
              const struct page **leaf);
/* Whether a key is there, its value left alone: 0 or PS_NOTFOUND. */
int tree_find(struct ps_txn *txn, ps_tree tree, struct ps_slice key);
/* Pages of the file that putting a key may take for separators in long runs. */
int tree_long_separators(struct ps_txn *txn, ps_tree tree, struct ps_slice key, uint64_t *pages);
int tree_delete(struct ps_txn *txn, ps_tree tree, struct ps_slice key);
int tree_clear(struct ps_txn *txn, ps_tree tree);
/* Takes out what is between two keys (NULL: open), of which there is something, in a tree that is
 * not all of it. */
int tree_delete_range(struct ps_txn *txn, ps_tree tree, const struct ps_slice *low,
                      const struct ps_slice *high);
/* The key at which the leaf ends that holds entry number `rank`, in *copy, to be freed; length 0:
 * nothing comes after it. The leaf itself is not read. */
int tree_fence(struct ps_txn *txn, ps_tree tree, uint64_t rank, struct ps_slice *fence,
               void **copy);
/* Makes the page that a child entry names this transaction's own; updates the entry. */
int page_own(struct ps_txn *txn, struct child *child, unsigned level, struct page **page);

/* ---- commit (commit.c) ---------------------------------------------------------------------- */

/* Ends an internal transaction (relinking, replay): published, without a record. The token stays.
 */
int commit_internal(struct ps_store *store, struct ps_txn *txn);
int publication_wait(struct ps_store *store, uint64_t seq);
/* Writes and publishes what waits for that; log_mu held. PS_IO: it was dropped. */
int groups_write(struct ps_store *store);
int log_thread_start(struct ps_store *store);
void log_thread_stop(struct ps_store *store);
int log_room(struct ps_store *store, uint64_t bytes);

/* ---- checkpoints (checkpoint.c, checkpoint_write.c), relinking (relink.c) ---------------------
 */

int checkpoint_thread_start(struct ps_store *store);
void checkpoint_thread_stop(struct ps_store *store);
/* Makes one now in the calling thread; with_token: the caller holds the token. */
int checkpoint_run(struct ps_store *store, bool with_token);
/* Asks for one; wait: until it is done. */
int checkpoint_ask(struct ps_store *store, bool wait);
uint64_t replay_budget(struct ps_store *store);
bool checkpoint_due(struct ps_store *store); /* with the token */
void checkpoint_if_due(struct ps_store *store);
/* Meta `first` (0: A) and then the other. */
int meta_write_both(struct ps_store *store, const struct meta *meta, unsigned first,
                    struct state *file_state);
bool roots_in_file(const struct state *state);
void adopt(struct ps_store *store, size_t most);
int relink_child(struct ps_txn *txn, struct child *child, unsigned level);
int relink_children(struct ps_txn *txn, struct page *branch);
int relink_leaf(struct ps_txn *txn, struct page *leaf);
int relink_sweep(struct ps_txn *txn, unsigned paths);
int relink_idle(struct ps_store *store);

/* ---- recovery (recovery.c, replay.c)
 * ------------------------------------------------------------------ */

/* Whether a store is to be made: there is none; or its making was interrupted while the first meta
 * was written, if there is a log. */
enum newness { NEW_NOT, NEW_BLANK, NEW_TORN };

int recovery_choose_meta(struct ps_store *store, struct meta *meta, enum newness *found,
                         struct ps_fault *fault);
int recovery_load_state(struct ps_store *store, struct state *state, struct ps_fault *fault);
int recover(struct ps_store *store, struct ps_recovery *recovery, struct ps_fault *fault);
/* Replays the log from the meta's position (replay.c). */
int replay(struct ps_store *store, const struct log_pos *to, struct ps_recovery *report,
           struct ps_fault *fault);

#endif
