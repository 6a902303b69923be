/*
 * pandostore.h - the public interface of libpandostore.
 *
 * A store is a directory that holds one memory-mapped copy-on-write B+tree file (pando.db) and a
 * write-ahead log. Keys and values are byte strings; keys are ordered by unsigned bytes, a prefix
 * before its extensions. A store holds up to PS_MAX_TREES named trees.
 *
 * Threads. A store may be used by any number of threads. There is one write transaction at a time;
 * ps_begin() waits for the one before it. Readers never wait for the writer, the writer never for
 * readers. A snapshot, a transaction, and the cursors made from them belong to one thread at a
 * time.
 *
 * Memory. What a read returns (struct ps_slice) points into the store. Read from a snapshot it
 * stays valid until that snapshot is moved, renewed, reset or freed; read from a transaction, until
 * the next change, reservation or savepoint made in that transaction. Keys returned by a cursor are
 * valid until it moves. Only values of trees that compress (ps_tree_set) live for less: until the
 * next call that returns values from the same view, or from the same cursor.
 *
 * Errors. Functions return 0 or a negative enum ps_error; ps_strerror() has a text for each. For
 * damage and failing system calls ps_last_fault() says which file, where, and what.
 *
 * Signals. While a store is open the library handles SIGBUS: that is how the kernel says that a
 * page of the mapped file cannot be read (a media error, or a file that somebody cut off). The call
 * that was reading answers PS_IO, and so does every later one that needs this page; all others go
 * on. What a read has returned before may be gone as well when it is looked at: it then reads as
 * zeros. ps_view_check() says so, and whoever uses what was returned asks it afterwards; a
 * transaction asks itself before each change. Once a file is seen to have been cut off the store
 * takes no more writes (PS_POISONED). A SIGBUS with another address, or one that somebody sent,
 * goes to the handler that was there before, or kills the process as usual. SIGBUS must not be
 * blocked in threads that read.
 */
#ifndef PANDO_STORAGE_PANDOSTORE_H
#define PANDO_STORAGE_PANDOSTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_MAX_TREES      4096         /* named trees in a store */
#define PS_MAX_TREE_NAME  255          /* bytes in a tree's name (at least 1) */
#define PS_MAX_KEY        (512u << 20) /* bytes in a key (0 is allowed) */
#define PS_MAX_VALUE      (512u << 20) /* bytes in a value (0 is allowed) */
#define PS_MAX_SAVEPOINTS 64           /* savepoints open at once in a transaction */
#define PS_MAX_SNAPSHOTS  1024         /* snapshots existing at once in a store */
#define PS_MAX_STORES     256          /* stores open at once in a process */
#define PS_MAX_MERGES     64           /* names of merge operators that a store knows of */
#define PS_MAX_MERGE_NAME 63           /* bytes in such a name */

/* Of ps_options; what is outside is PS_INVALID. */
#define PS_MIN_PAGE_SIZE    4096u
#define PS_MAX_PAGE_SIZE    65536u
#define PS_MAX_DIRTY_MEMORY (UINT64_C(1) << 43) /* less than 64 pages: 64 pages */
#define PS_MIN_MAP_SIZE     (UINT64_C(1) << 26) /* more than there is: half of it, and so on */
#define PS_MIN_LOG_SEGMENT  4096u
#define PS_MAX_LOG_SEGMENT  (UINT64_C(1) << 30)

enum ps_error {
    PS_OK = 0,
    PS_NOTFOUND = -1,    /* no such key, tree, or position */
    PS_EXISTS = -2,      /* it is there already */
    PS_INVALID = -3,     /* an argument is outside its range */
    PS_TOOBIG = -4,      /* key, value or name over its limit */
    PS_BUSY = -5,        /* no room for this now: commit (or abort), then try again */
    PS_TXNFULL = -6,     /* one transaction larger than the store's dirty memory can hold */
    PS_NOSPACE = -7,     /* the disk is full; writing resumes by itself when space returns */
    PS_IO = -8,          /* a system call failed, or a page cannot be read; nothing was changed */
    PS_CORRUPT = -9,     /* the file or the log is damaged: see ps_last_fault() */
    PS_POISONED = -10,   /* a sync failed earlier: reads go on, writes do not until reopened */
    PS_LOCKED = -11,     /* another process has this directory open */
    PS_NOMEM = -12,      /* out of memory, or of address space */
    PS_UNKNOWN = -13,    /* the log failed: this commit may or may not survive; read back */
    PS_LIMIT = -14,      /* too many trees, snapshots or savepoints */
    PS_VERSION = -15,    /* the file is of another format version or page size */
    PS_WOULDWAIT = -16,  /* probing only: a page on the way is not in memory */
    PS_ENDED = -17,      /* this snapshot is over: too old, or no room to keep it; renew it */
    PS_OVERFLOW = -18,   /* merging: the sum does not fit into 64 bits; nothing was changed */
    PS_MISMATCH = -19,   /* merging: the value that is there is none of the operator's kind */
    PS_NOOPERATOR = -20, /* merging: the tree has no operator, or one that nobody registered */
};

/* How long an acknowledged commit lasts. A commit may ask for more than the store's level. */
enum ps_durability {
    PS_NONE = 0,     /* no log: survives from the next checkpoint on */
    PS_EVERYSEC = 1, /* in the operating system: survives the process; the machine after <= 1 s */
    PS_ALWAYS = 2,   /* on the device */
};

/* When a page of the file is checked: its checksum, that it is the one its parent means, and all
 * offsets and lengths in it. */
enum ps_verify {
    PS_VERIFY_FIRST_USE = 0, /* after opening, and after it was written; remembered in a bit */
    PS_VERIFY_NEVER,         /* only that it is the one that is meant: a few loads. For files that
                              * nobody can have damaged: others may lead readers astray */
    PS_VERIFY_ALWAYS,        /* at every use: what changes in memory or on the device is noticed */
};

struct ps_slice {
    const void *data;
    size_t len;
};

/* Where something went wrong. Texts are empty when nothing did. */
struct ps_fault {
    int code;        /* enum ps_error */
    int sys_errno;   /* errno of the failing system call, or 0 */
    uint64_t offset; /* byte offset in the file */
    char file[256];  /* path of the file */
    char what[192];  /* kind of damage, or the call that failed */
};

struct ps_store;
struct ps_view;     /* what can be read: a snapshot's or a transaction's state */
struct ps_snapshot; /* one committed state, held for reading */
struct ps_txn;      /* the write transaction */
struct ps_cursor;
struct ps_vfs; /* storage/vfs.h: every file operation, replaceable by tests */

typedef uint32_t ps_tree; /* a tree's number; stays the same for the life of the store */

struct ps_options {
    uint32_t page_size;        /* 4096..65536, a power of two; fixed at creation. 0: 4096 */
    uint64_t dirty_memory;     /* bytes of arena for pages not yet in the file. 0: 256 MiB */
    uint64_t map_size;         /* address space reserved for the file. 0: 1 TiB */
    uint64_t log_segment_size; /* bytes, a multiple of 1024; 0: 16 MiB */
    enum ps_durability durability;
    uint32_t max_recovery_ms; /* checkpoint before replay would take longer. 0: 1000 */
    uint64_t max_snapshot_ms; /* a snapshot held for longer is ended: see below. 0: never */
    enum ps_verify verify;    /* copies, checks and scrubbing verify everything in any case */
    bool manual_checkpoint;   /* no checkpoint thread: only ps_checkpoint() and when full */
    bool read_only_check;     /* open for pando-tool: recover nothing, write nothing; ps_begin and
                               * ps_set_durability answer PS_INVALID */
    bool without_lock;        /* with it: beside a process that has it open (storage/inspect.h) */
    const struct ps_vfs *vfs; /* NULL: the operating system */
    /* Called after states were published (rc 0: everything up to seq is) or dropped (rc < 0:
     * everything after seq that was not yet published is gone, outcome PS_UNKNOWN). Called on the
     * thread that published: the log thread or the committing one. Must not call the
     * store's functions for writing, flushing, checkpoints or statistics. May be NULL. */
    void (*on_publish)(void *arg, uint64_t seq, int rc);
    void *arg;
    void (*on_message)(void *arg, int level, const char *text); /* 0 notice, 1 warning; or NULL */
};

/* ---- the store ------------------------------------------------------------------------------ */

/* What opening did. */
struct ps_recovery {
    bool created;              /* the directory held no store */
    uint64_t checkpoint_seq;   /* the checkpoint it began with */
    uint64_t log_from, log_to; /* log positions (bytes since the store was made) replayed */
    uint64_t replayed_commits, replayed_ops;
    uint64_t torn_bytes; /* unacknowledged tail cut from the log */
    uint64_t microseconds;
};

/* Opens, or creates, the store in a directory (created if missing). `options` may be NULL. On
 * failure *fault (may be NULL) says what and where, *store is NULL. */
int ps_open(const char *dir, const struct ps_options *options, struct ps_store **store,
            struct ps_recovery *recovery, struct ps_fault *fault);

/* Ends the background threads, makes the log durable and closes. With `checkpoint` a checkpoint is
 * made first, so that the next opening replays nothing. All snapshots must have been freed and no
 * transaction may be open. The store is gone whatever is returned. */
int ps_close(struct ps_store *store, bool checkpoint);

/* Makes a checkpoint of the newest published state now and waits for it. Not inside a transaction
 * of the calling thread. */
int ps_checkpoint(struct ps_store *store);

/* Changes the level of later commits. From PS_NONE upwards a checkpoint is made first. Not inside a
 * transaction of the calling thread. */
int ps_set_durability(struct ps_store *store, enum ps_durability level);
enum ps_durability ps_get_durability(const struct ps_store *store);
void ps_set_max_recovery(struct ps_store *store, uint32_t ms);
void ps_set_max_snapshot(struct ps_store *store, uint64_t ms);

/* The newest published / durable (on the device, or in a checkpoint) commit sequence. What is
 * durable is published. */
uint64_t ps_published(const struct ps_store *store);
uint64_t ps_durable(const struct ps_store *store);

/* Waits until commit `seq` is published and on the device (syncing now if need be; at PS_NONE by a
 * checkpoint). PS_UNKNOWN: it was dropped when the log failed. Not inside a transaction of the
 * calling thread. */
int ps_flush(struct ps_store *store, uint64_t seq);

const char *ps_strerror(int code);
void ps_last_fault(struct ps_store *store, struct ps_fault *fault);

/* ---- reading -------------------------------------------------------------------------------- */

/* A new snapshot object, holding nothing yet. Cheap to keep: make one per thread and renew it. */
int ps_snapshot_new(struct ps_store *store, struct ps_snapshot **snap);
/* Takes the newest published state (wait-free in practice: one store, one fence, one check). */
void ps_snapshot_renew(struct ps_snapshot *snap);
/* Lets go of the state; a sleeping thread should hold none. */
void ps_snapshot_reset(struct ps_snapshot *snap);
void ps_snapshot_free(struct ps_snapshot *snap);
/* Moves the snapshot to a checkpoint of a state at least as new as now, and waits for it: for
 * snapshots meant to live (backup, SNAPSHOT OPEN). They hold file pages only, never dirty memory.
 * Not inside a transaction of the calling thread: the checkpoint would wait for its end. */
int ps_snapshot_pin(struct ps_snapshot *snap);
/* Whether the writer runs out of dirty memory and this snapshot is what keeps it, or it was ended
 * (see below): a long reader asks before every step, and then moves. A few relaxed loads. */
bool ps_snapshot_should_move(const struct ps_snapshot *snap);
/* Moves the snapshot out of dirty memory: it stays the state that it is, in pages of the file of
 * its own. Called by the reader's thread when it holds nothing that was read from the snapshot;
 * cursors stay where they stand. Waits for a checkpoint that is under way, so not inside a
 * transaction of the calling thread. If it fails (PS_NOSPACE, PS_NOMEM, PS_IO, PS_CORRUPT) the
 * snapshot ends: it lets go of its state, and every read from it answers PS_ENDED until it is
 * renewed or reset. PS_ENDED: it had been ended, and has now let go in the same way. */
int ps_snapshot_move(struct ps_snapshot *snap);
/* Commit sequence of the state held; 0: none. */
uint64_t ps_snapshot_seq(const struct ps_snapshot *snap);

/*
 * A snapshot of any kind that is held for longer than max_snapshot_ms is ended: from then on every
 * look-up in it and every step of a cursor answers PS_ENDED, and ps_snapshot_should_move is true.
 * Its age is that of the hold: renewing or pinning begins anew, moving does not. Ages are looked at
 * once a second, and counted from when a hold was first seen, so it is ended within two seconds
 * after its time, never before.
 *
 * Ending takes nothing away from under a reader. The state stays whole, and what was read from it
 * stays valid, until its holder moves, renews, resets or frees the snapshot, which it should do
 * when it is told PS_ENDED; only then does what it kept come free. A holder that neither reads nor
 * asks is never told, and keeps what it has: no more than the pages that its state sees, however
 * much is written, but if some of them are in dirty memory (of one neither pinned nor moved) they
 * stay there, and a transaction may have to wait for it. ps_snapshots says which it is.
 */
/* Ends all snapshots held for `ms` or more (0: all that are held); returns how many. */
unsigned ps_end_snapshots(struct ps_store *store, uint64_t ms);

enum ps_snapshot_kind {
    PS_PLAIN,  /* as renewed: sees dirty memory and the file */
    PS_PINNED, /* a checkpoint's state */
    PS_MOVED,  /* of the file alone, with pages of its own */
};

/* A snapshot that holds a state. */
struct ps_snapshot_info {
    unsigned id; /* below PS_MAX_SNAPSHOTS + 1; the same while the snapshot exists */
    enum ps_snapshot_kind kind;
    bool ended;      /* and its holder has not let go yet */
    uint64_t stamp;  /* stamps rise with every commit */
    uint64_t seq;    /* commit sequence of the state */
    uint64_t age_ms; /* it has been held at least so long; less than a second is not always seen */
    /* Bytes of pages that no newer state needs, that its state sees and no older state does which
     * somebody holds (or a meta, until the next checkpoint): what is kept for its sake alone, or
     * first of all for its sake. Pages are counted once, with the oldest state that sees them; if
     * that goes, those which others see wait for them. Two snapshots of one state both say what it
     * keeps. To this come the pages that a move wrote. As of the last transaction or checkpoint. */
    uint64_t retained_memory, retained_file;
};
/* The snapshots that hold a state now, the oldest states first: fills in at most `room`, and
 * returns how many there are. Waits for no transaction. */
unsigned ps_snapshots(struct ps_store *store, struct ps_snapshot_info *list, unsigned room);

/* What the read functions take. The view lives as long as its snapshot or transaction. */
struct ps_view *ps_snapshot_view(struct ps_snapshot *snap);
struct ps_view *ps_txn_view(struct ps_txn *txn);

/* 0, or PS_IO: while something was read from this view since it began, was renewed, or resumed, a
 * page of the file turned out to be unreadable. What was returned may be zeros, not what is stored;
 * everything read from the view answers PS_IO until it is renewed or resumed. Two loads. */
int ps_view_check(const struct ps_view *view);
/* Goes on after that, holding nothing that was read before. A change that had failed leaves a
 * transaction good for rolling back only, as ever. */
void ps_view_resume(struct ps_view *view);

/* A tree's number by its name: 0 or PS_NOTFOUND. */
int ps_tree_find(struct ps_view *view, struct ps_slice name, ps_tree *tree);
/* The name of a tree: 0 or PS_NOTFOUND. Numbers are below PS_MAX_TREES. */
int ps_tree_name(struct ps_view *view, ps_tree tree, struct ps_slice *name);

/* The value of a key: 0 or PS_NOTFOUND (also for a tree that does not exist in this view). */
int ps_get(struct ps_view *view, ps_tree tree, struct ps_slice key, struct ps_slice *value);

/* At most `len` bytes of a value from `offset` on (none past its end), and its length in *whole
 * (may be NULL). Of a value over 65 KiB only the pieces of 64 KiB that are asked for are read and
 * checked; ps_get() checks all of it when it is first used. */
int ps_get_part(struct ps_view *view, ps_tree tree, struct ps_slice key, uint64_t offset,
                size_t len, struct ps_slice *part, uint64_t *whole);

struct ps_lookup {
    ps_tree tree;
    struct ps_slice key;   /* in */
    struct ps_slice value; /* out, if rc is 0 */
    int rc;                /* out: 0, PS_NOTFOUND or another error */
};
/* Many lookups at once, interleaved so that their cache misses overlap. */
void ps_get_many(struct ps_view *view, struct ps_lookup *lookups, size_t n);

/* Entries in a tree: O(1). */
int ps_count(struct ps_view *view, ps_tree tree, uint64_t *count);
/* Number of keys less than `key`: O(log n). */
int ps_rank(struct ps_view *view, ps_tree tree, struct ps_slice key, uint64_t *rank);
/* Number of keys k with low <= k < high; a NULL bound is open: O(log n). */
int ps_count_range(struct ps_view *view, ps_tree tree, const struct ps_slice *low,
                   const struct ps_slice *high, uint64_t *count);

/* Where to cut the keys k, low <= k < high (NULL: open), into `parts` parts of equally many entries
 * (one more or less): `keys`, with room for parts - 1, get the keys with which the second and later
 * ones begin, in order; *n is how many: parts - 1, or fewer if there are not as many entries. Their
 * bytes are in *memory, which the caller frees with free(). Exact, by the counts: O(log n) and one
 * leaf for each. PS_INVALID: no parts. */
int ps_split_range(struct ps_view *view, ps_tree tree, const struct ps_slice *low,
                   const struct ps_slice *high, unsigned parts, struct ps_slice *keys, unsigned *n,
                   void **memory);

/* ---- reading without waiting for the disk --------------------------------------------------- */

/*
 * For a thread that must not wait when the file is larger than memory: it probes, and leaves what
 * would wait to a thread that may. Dirty memory is always there; whether pages of the file are is
 * asked of the kernel, and remembered for a few hundredths of a second. Nothing is locked: a page
 * that is thrown out between probing and reading costs a wait, no error.
 */
struct ps_residency; /* what one thread knows of which pages are in memory */
int ps_residency_new(struct ps_store *store, struct ps_residency **residency);
void ps_residency_free(struct ps_residency *residency);
/* Before probing: the time on a clock of the caller's choice, in milliseconds, that never goes
 * back.
 */
void ps_residency_renew(struct ps_residency *residency, int64_t now_ms);

/* As ps_get_many, but rc is PS_WOULDWAIT where a page is needed that is not in memory. */
void ps_get_many_resident(struct ps_view *view, struct ps_lookup *lookups, size_t n,
                          struct ps_residency *residency);
/* As ps_get, or PS_WOULDWAIT. For a key that is about to be put or deleted, `write` is the most
 * bytes of key and value (at least 1): what that reads besides must be in memory as well. 0: the
 * key is only read. Long values are looked at up to their first MiB. */
int ps_probe(struct ps_view *view, ps_tree tree, struct ps_slice key, size_t write,
             struct ps_residency *residency, struct ps_slice *value);
/* As ps_get; also reads into memory, waiting for the disk, what ps_probe would have asked for. */
int ps_touch(struct ps_view *view, ps_tree tree, struct ps_slice key, size_t write,
             struct ps_slice *value);

/* Bytes of the file, free ones included. Cheap. */
uint64_t ps_file_bytes(const struct ps_store *store);

/* ---- cursors -------------------------------------------------------------------------------- */

enum ps_seek { PS_GE, PS_GT, PS_LE, PS_LT, PS_EQ };

/* A cursor over one tree of a view. In a transaction it stays right under the transaction's own
 * changes: next and prev continue from the key it stood on. Must be closed before its view ends. */
int ps_cursor_open(struct ps_view *view, ps_tree tree, struct ps_cursor **cursor);
void ps_cursor_close(struct ps_cursor *cursor);
/* Bounds: only keys with low <= key < high are seen; NULL is open. The bytes are copied. */
int ps_cursor_bounds(struct ps_cursor *cursor, const struct ps_slice *low,
                     const struct ps_slice *high);
/* Each returns 0 and stands on an entry, or PS_NOTFOUND and stands on none. After running off an
 * end, next/prev stay off it. */
int ps_cursor_first(struct ps_cursor *cursor);
int ps_cursor_last(struct ps_cursor *cursor);
int ps_cursor_seek(struct ps_cursor *cursor, struct ps_slice key, enum ps_seek how);
/* Stands on the entry number `rank` (0 is the first of the tree, bounds ignored for counting). */
int ps_cursor_select(struct ps_cursor *cursor, uint64_t rank);
int ps_cursor_next(struct ps_cursor *cursor);
int ps_cursor_prev(struct ps_cursor *cursor);
/* Key and value of the entry it stands on; either may be NULL. */
int ps_cursor_get(struct ps_cursor *cursor, struct ps_slice *key, struct ps_slice *value);

/* ---- writing -------------------------------------------------------------------------------- */

/* Begins the write transaction; waits for the one before it to end. */
int ps_begin(struct ps_store *store, struct ps_txn **txn);

/* Makes sure that `ops` more puts or deletes with keys and values of together `bytes` bytes fit
 * into dirty memory and file space. In a transaction without changes and savepoints it waits (for
 * checkpoint, relinking, and readers whose snapshots hold dirty memory: pin those that live long);
 * in any other it never does: PS_BUSY says commit first. A transaction that has more than its share
 * of dirty memory (half), or that reserves more than that before its first change, spills instead:
 * its pages go to the file while it runs. What it reserves beyond dirty memory is promised as far
 * as the disk has room. PS_TXNFULL: dirty memory cannot hold what one operation takes. PS_NOSPACE:
 * the disk is full (deletes are still let through when `bytes` is 0). Without a call, each put and
 * delete reserves for itself and may return the same. What was read in the transaction before is
 * not valid after it. PS_IO after waiting: what it had read belonged to commits that failed
 * meanwhile; the transaction can only be aborted. */
int ps_reserve(struct ps_txn *txn, size_t ops, size_t bytes);

/* This transaction cannot be committed halfway: from now on it spills rather than answer PS_BUSY.
 * To be called before its first change or savepoint, which then waits for what it needs. */
void ps_keep_whole(struct ps_txn *txn);

/* Finds or makes a named tree. Making one is part of the transaction. */
int ps_tree_create(struct ps_txn *txn, struct ps_slice name, ps_tree *tree);
/* Removes a tree with all that is in it. */
int ps_tree_drop(struct ps_txn *txn, ps_tree tree);

/* Key and value are copied: they need to live only until this returns, and may be what was read in
 * this transaction. What is over 65 KiB is written to the file by a background thread; while more
 * than 16 MiB wait for it, so does the call. PS_NOSPACE: nothing was changed; so with PS_BUSY. */
int ps_put(struct ps_txn *txn, ps_tree tree, struct ps_slice key, struct ps_slice value);
int ps_delete(struct ps_txn *txn, ps_tree tree, struct ps_slice key); /* PS_NOTFOUND: none there */
/* Removes every entry; visits no leaf (but those that hold overflowing entries). */
int ps_clear(struct ps_txn *txn, ps_tree tree);

/* Removes the entries with keys k, low <= k < high; a NULL bound is open. *deleted: how many. What
 * it costs are the branches above them, and the pages at the two ends: leaves between are not read,
 * but those that hold overflowing entries. It takes no more dirty memory than a delete, and one
 * record of the log.
 *
 * With `most` (0: no bound) it takes out about as many, to the end of a leaf (at least one entry),
 * and can be called again, in another transaction too, until *deleted is 0. So a large tree is
 * emptied in bounded steps, without bounds: before it is dropped, for instance. */
int ps_delete_range(struct ps_txn *txn, ps_tree tree, const struct ps_slice *low,
                    const struct ps_slice *high, uint64_t most, uint64_t *deleted);

/* Savepoints nest, last in first out. Rolling back undoes all since the innermost one was opened
 * and closes it; releasing keeps it and closes it. In a transaction that spills, opening one moves
 * what there is of it to the file; an error of that is returned, and no savepoint was opened. */
int ps_savepoint(struct ps_txn *txn);
int ps_savepoint_rollback(struct ps_txn *txn);
int ps_savepoint_release(struct ps_txn *txn);

bool ps_txn_changed(const struct ps_txn *txn);
/* The sequence this transaction will have when it is committed. */
uint64_t ps_txn_seq(const struct ps_txn *txn);

/* Commits and waits until the commit is published and has the level asked for (at least the
 * store's). The transaction ends whatever is returned; on any error but PS_UNKNOWN nothing of it
 * happened. *seq may be NULL. An unchanged transaction commits to the published sequence. */
int ps_commit(struct ps_txn *txn, enum ps_durability level, uint64_t *seq);

/* Commits without waiting: the state is published later (or before it returns, when nothing has to
 * be waited for) in order, and on_publish says so. The caller may begin the next transaction, which
 * sees this one's changes. With `alone` the calling thread writes and syncs itself if no other sync
 * is in flight (best for a single client). */
int ps_commit_start(struct ps_txn *txn, enum ps_durability level, bool alone, uint64_t *seq);

void ps_abort(struct ps_txn *txn);

/* ---- what a tree does with its values -------------------------------------------------------- */

enum ps_compression { PS_UNCOMPRESSED = 0, PS_LZ4 = 1, PS_ZSTD = 2 };

/*
 * Options of a tree: kept in the store, part of the transaction that sets them, changeable at any
 * time. All zeros: none, which is what a new tree has; dropping a tree drops them, clearing keeps
 * them.
 *
 * Compression concerns values as they are put. Each says by itself how it is stored, so those that
 * are there stay as they are, and readable, whatever the options become; a value that does not
 * become smaller by a sixteenth is stored as it is. Readers get what was put: decompressed into
 * memory of the view (of the cursor, for ps_cursor_get), which the next call that returns values
 * from it uses again, so that besides an MiB for each view and cursor, and the context of zstd
 * (about 160 KiB), it is no more memory than the values of one call take. Resetting or freeing
 * the snapshot, closing the cursor, gives it back. ps_get_part decompresses all of a value, once
 * for parts asked for one after another. While a value is put compressing takes once more its
 * length of memory.
 */
struct ps_tree_options {
    enum ps_compression compression;
    uint32_t compress_over;            /* bytes: only longer values are compressed */
    char merge[PS_MAX_MERGE_NAME + 1]; /* the operator's name, printable ASCII; "": none */
};

/* Sets all options of a tree. The operator need not be registered (yet). PS_INVALID: what cannot
 * be; PS_LIMIT: too many names of operators. */
int ps_tree_set(struct ps_txn *txn, ps_tree tree, const struct ps_tree_options *options);
/* The options of a tree: 0 or PS_NOTFOUND. */
int ps_tree_options(struct ps_view *view, ps_tree tree, struct ps_tree_options *options);

/*
 * Merging: the tree's operator makes the new value of what is there and the operand, at once, in
 * one way down the tree; what is logged is the result, so replaying the log needs no operator. Of
 * many merges of a key in a transaction one result is logged (values of up to 127 bytes, between
 * which nothing but merges happens). Built in are
 *
 *   add              sum of signed 64-bit numbers; PS_OVERFLOW if it is none
 *   add-saturating   the same, but the largest or least number then
 *   min, max         of signed 64-bit numbers
 *   append           the operand behind the value
 *   or               bit by bit; of the longer one's length
 *
 * Numbers are 8 bytes, little endian; another length is PS_INVALID of an operand, PS_MISMATCH of
 * the value that is there. Where there is no value the operand becomes it. These errors, and
 * PS_NOOPERATOR, change nothing; the transaction goes on. Else as ps_put: the operand may be what
 * was read in this transaction. To ps_reserve a merge counts as two puts of its result.
 */
int ps_merge(struct ps_txn *txn, ps_tree tree, struct ps_slice key, struct ps_slice operand);

/* An operator of the program's own: makes the result of what is there (NULL: nothing) in memory
 * that ps_merged_room gives. 0, or a negative code, which ps_merge returns, having changed nothing.
 * Called on the transaction's thread; must not call the store's functions. */
struct ps_merged;
typedef int (*ps_merge_fn)(void *arg, const struct ps_slice *old, struct ps_slice operand,
                           struct ps_merged *result);
/* Room for a result of just so many bytes; NULL: no memory, or over PS_MAX_VALUE. */
void *ps_merged_room(struct ps_merged *result, size_t len);
/* Registers it, for as long as the store is open. PS_EXISTS: the name has one; PS_LIMIT. */
int ps_merge_register(struct ps_store *store, const char *name, ps_merge_fn fn, void *arg);

/* ---- loading in bulk ------------------------------------------------------------------------ */

/*
 * Fills an empty tree within a transaction: pages are built bottom-up and full, go to the file at
 * once, and are written once. Nobody sees any of it before the transaction is committed; a crash
 * before that, or aborting, leaves nothing. The log has the entries as if they were put one by one
 * (at PS_NONE there is no log: fastest by far, and durable with the next checkpoint).
 *
 * From begin to finish or cancel the transaction can do nothing else: all other changes, savepoints
 * and committing answer PS_INVALID. After an error but PS_INVALID of ps_bulk_put or ps_bulk_finish
 * the transaction is good for rolling back only, and the bulk for cancelling. Rolling back or
 * aborting comes after cancelling.
 */
struct ps_bulk;

enum ps_bulk_order {
    PS_SORTED,   /* keys ascend strictly: others are PS_INVALID and change nothing */
    PS_UNSORTED, /* in any order; the last entry of a key counts. Sorted in `memory` bytes, and in
                  * files without a name in the store's directory beyond that */
};

/* PS_EXISTS: the tree has entries. `memory` (for PS_UNSORTED; 0: 64 MiB; at least 64 KiB) bounds
 * what is gathered before it goes to a file; one entry may be larger. */
int ps_bulk_begin(struct ps_txn *txn, ps_tree tree, enum ps_bulk_order order, uint64_t memory,
                  struct ps_bulk **bulk);
/* Key and value are copied. They must not be what was read in this transaction. */
int ps_bulk_put(struct ps_bulk *bulk, struct ps_slice key, struct ps_slice value);
/* Completes the tree and frees the bulk, whatever is returned. *entries may be NULL. */
int ps_bulk_finish(struct ps_bulk *bulk, uint64_t *entries);
/* Frees it; the tree is empty as before. What was logged is lost with the transaction, which is
 * good for rolling back (to a savepoint made before the bulk) or aborting only. */
void ps_bulk_cancel(struct ps_bulk *bulk);

/* ---- copies --------------------------------------------------------------------------------- */

/*
 * A copy of a state is a data file written from its beginning to its end: trees one after another
 * in the order of their keys, pages full, none free. What is read is checked on the way, so damage
 * is never copied. The snapshot should be pinned if others go on writing (ps_snapshot_pin).
 */
struct ps_copy_watch {
    /* Pages of the old state read, of all that may be read; false: stop, with PS_ENDED. From the
     * calling thread, every few hundred pages, and once when all is read and nothing of the copy is
     * good yet; may be NULL. */
    bool (*progress)(void *arg, uint64_t done, uint64_t whole);
    void *arg;
};
struct ps_copy_report {
    uint64_t trees, entries, pages, bytes; /* of the new file; metas included */
};

/* Writes the snapshot's state to a file that is open for writing and empty, and syncs it. In an
 * empty directory, as pando.db, it is a store: one that begins with the snapshot's sequence, and
 * with an identity of its own. Whether it is all there is for the caller to see to: until this
 * returns 0 the file has no meta, so nobody takes it for a store. */
int ps_copy_fd(struct ps_snapshot *snap, int fd, const struct ps_copy_watch *watch,
               struct ps_copy_report *report);

/* The same as a directory that does not exist yet (or is empty): made under the name DIR.copying,
 * synced, and then renamed, so that it is there whole or not at all, whatever happens. What an
 * interrupted copy has left under that name is removed first. PS_EXISTS: there is something in it.
 * PS_LOCKED: somebody else is copying there. *fault (may be NULL) says what and where. */
int ps_copy(struct ps_snapshot *snap, const char *dir, const struct ps_copy_watch *watch,
            struct ps_copy_report *report, struct ps_fault *fault);

/* Copies a store that is not open, and puts the new data file in the place of the old one, which is
 * gone then: there is either the one or the other, whatever happens. The log is applied first. It
 * takes room for both. Of the options (may be NULL) vfs and map_size count. */
int ps_compact(const char *dir, const struct ps_options *options, const struct ps_copy_watch *watch,
               struct ps_copy_report *report, struct ps_fault *fault);

/* ---- a shorter file ---------------------------------------------------------------------------
 */

/*
 * Online compaction: pages at the file's end are copied to free places before them, a few hundred
 * at a time, beside readers and writers, and the file is cut off behind the last one that is left.
 * What nobody but a snapshot sees is not moved: as long as it is held it keeps the file as long as
 * that. Pages do not become fuller by it (ps_compact does that). Checkpoints are made on the way.
 *
 * Waits for its turn to write between steps, so not inside a transaction of the calling thread. May
 * be called from any thread, one at a time (PS_BUSY). What was moved when it stops, or the process
 * ends, stays moved. PS_ENDED: `progress` (pages moved, of those that lie beyond the length that is
 * aimed at) said to stop. PS_TXNFULL: dirty memory has no room for a step, since readers hold it.
 * *freed (may be NULL): bytes that the file is shorter.
 */
int ps_shrink(struct ps_store *store, const struct ps_copy_watch *watch, uint64_t *freed);

/* ---- scrubbing ------------------------------------------------------------------------------- */

/*
 * Reads everything that the newest state has in the file and checks it, whatever was checked
 * before, again and again: so damage is found while there still is a copy to go back to. It holds
 * no snapshot for longer than a step, so it keeps nothing from being reused; trees and keys that
 * are new meanwhile are met when their turn comes.
 *
 * A scrub belongs to one thread at a time; if it was started, to its own, until it is stopped.
 * ps_scrub_read may be called from any thread at any time.
 */
struct ps_scrub;
struct ps_scrub_report {
    uint64_t bytes;        /* of the file, read and checked */
    uint64_t rounds;       /* times that the end was reached */
    uint64_t findings;     /* pages and runs that are damaged, or could not be read, each time */
    struct ps_fault fault; /* the last one, with its place */
};

int ps_scrub_new(struct ps_store *store, struct ps_scrub **scrub);
/* Stops it, too. Before the store is closed. */
void ps_scrub_free(struct ps_scrub *scrub);
/* Goes on for about so many bytes, or to the end of the round: then *end is true, and the next step
 * begins anew. 0 although there are findings: see the report. */
int ps_scrub_step(struct ps_scrub *scrub, uint64_t bytes, bool *end);
/* A thread of its own, that reads so many bytes a second on average (at least 1), a part of a
 * second's at a time. Each finding is a warning (on_message), too. PS_EXISTS: it has one. */
int ps_scrub_start(struct ps_scrub *scrub, uint64_t bytes_per_second);
void ps_scrub_stop(struct ps_scrub *scrub);
void ps_scrub_read(struct ps_scrub *scrub, struct ps_scrub_report *report);

/* ---- statistics ----------------------------------------------------------------------------- */

/* A tree's pages, in memory or in the file; its physical size is their sum times the page size. */
struct ps_tree_pages {
    uint32_t levels; /* 0: empty */
    uint64_t entries, leaves, branches;
    uint64_t runs, run_pages, run_bytes; /* keys and values too long for a node */
};
/* Counts them in a view, exactly, by its branches: about a hundredth of the tree is read, and those
 * leaves besides that may have long keys or values. PS_NOTFOUND: no such tree. */
int ps_tree_pages(struct ps_view *view, ps_tree tree, struct ps_tree_pages *pages);

/* Figures that are kept as things happen: asking for them reads no page and waits for no
 * transaction. The exact number of entries of one tree: ps_count(). */
struct ps_stat {
    uint32_t page_size, trees, depth_max;
    uint64_t file_bytes, file_pages, file_pages_free;
    uint64_t arena_slots, arena_slots_used, arena_slots_peak;
    uint64_t entries; /* in all trees */
    uint64_t published_seq, durable_seq, checkpoint_seq;
    uint64_t log_position, log_checkpoint_position, log_segments, log_bytes_written, log_syncs;
    uint64_t commits, ops;
    uint64_t groups_unpublished; /* executed, not yet published */
    uint64_t checkpoints, checkpoint_pages, checkpoint_bytes, last_checkpoint_us;
    uint64_t snapshots;             /* holding a state now */
    uint64_t oldest_snapshot_stamp; /* 0: none; stamps rise with every commit */
    /* hard-to-reach paths, counted so that tests can see that they were taken */
    uint64_t groups_delayed, full_disk_checkpoints, relinks, relink_sweeps, relink_idle, slot_waits,
        slots_reused_between_snapshots;
    uint64_t deaths_passed, pages_waiting, pages_verified;
    /* pages of the file (or runs of them) that transactions took; of those, marked by a space map,
     * dead before any map had them, and free again before */
    uint64_t fresh_taken, fresh_mapped, fresh_unmapped, fresh_freed;
    /* ranges taken out at once, and of these, those that ended with a leaf before the end that was
     * asked for; nodes at their edges that were merged or shared, and that stayed thin for want of
     * room; leaves that were dropped without being read (in ps_clear and ps_tree_drop too) */
    uint64_t ranges_deleted, ranges_shortened, range_edges_balanced, range_edges_thin,
        leaves_freed_unread;
    uint64_t splits, merges, shares, edge_splits, overflow_runs, overflow_separators;
    uint64_t savepoints, rollbacks, aborts, states_dropped, log_epochs, log_pieces;
    /* of transactions larger than their share of dirty memory: pages that went to the file while
     * they ran, sweeps that took them there, pages changed again after that; times that operations
     * went to the log while their transaction ran; pieces replayed while they were read */
    uint64_t spilled_pages, spill_sweeps, spilled_again, log_pieces_early, replayed_pieces;
    uint64_t snapshot_retries, snapshots_pinned, snapshots_ended;
    /* as ps_snapshots tells: the longest hold; bytes of the pages that all of them keep, each page
     * counted once */
    uint64_t oldest_snapshot_ms, snapshots_retained_memory, snapshots_retained_file;
    /* since the store was opened: bytes of keys and values that changes were given (what was rolled
     * back included), and bytes written to the data file. The latter and log_bytes_written, over
     * bytes_changed, is the write amplification. (Zeros that fill new segments of the log, and
     * blocks of the file that a file system cannot allocate, are not in it.) */
    uint64_t bytes_changed, data_bytes_written;
    uint64_t losses; /* pages of the file, or ranges of them, that could not be read */
    uint64_t residency_checks, probes_would_wait, paths_touched, neighbours_touched;
    uint64_t snapshots_asked, snapshots_moved, moved_pages, snapshot_move_failures;
    /* long keys and values: runs written to the file, and their bytes; of those, made anew by
     * replaying the log; times that one was read, and pieces of 64 KiB checked; times that the
     * writer waited for the helper to write */
    uint64_t file_runs, file_run_bytes, file_runs_rebuilt, file_runs_read, run_pieces_verified,
        file_run_waits;
    /* values compressed when they were put, those that would not become smaller, bytes saved;
     * values decompressed for readers; merges: of those, results written over what was there, put
     * as any value, and written over what was in the log of the transaction already */
    uint64_t values_compressed, values_incompressible, bytes_compressed_away, values_decompressed;
    uint64_t merge_ops, merge_ops_in_place, merge_ops_by_put, merge_ops_folded;
    /* slots given memory by the helper, ahead of the writer, and by the writer, who came first */
    uint64_t slots_populated_ahead, slots_populated_late, helper_wakeups;
    /* loads in bulk: trees, pages built, sorted runs that went to a file */
    uint64_t bulk_loads, bulk_pages, bulk_sort_runs;
    /* online compaction: steps, pages moved, times that the file was cut off, and pages of that */
    uint64_t shrink_steps, shrink_moved, shrink_cuts, shrink_cut_pages;
};
void ps_stats(struct ps_store *store, struct ps_stat *stat);

/* Checks the whole structure of the newest checkpoint in the file, page by page: every page
 * reachable exactly once or free; order, counts, births, checksums, fences, overflow, space map.
 * `report` (may be NULL) gets one line for each finding. 0, or PS_CORRUPT. On an open store a
 * checkpoint is made first, and the next one waits until the check is over. */
int ps_check(struct ps_store *store, void (*report)(void *arg, const char *line), void *arg);

#endif
