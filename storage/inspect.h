/*
 * inspect.h - looking at a store from outside: metas, pages, log, and what is left of a damaged
 * one. Public, beside pandostore.h: it is what pando-tool is made of.
 *
 * Nothing here changes the directory that is looked at.
 *
 * A store that another process has open can be looked at as well: opened with read_only_check and
 * without_lock, it is the state of the newest checkpoint in the file. The other process goes on;
 * once it has made another checkpoint it may use pages of that state again. What was found is worth
 * something only if the checkpoint still stands afterwards (ps_checkpoint_stands), else one begins
 * again. Cursors and lookups know nothing of this: on such a store use ps_survey and
 * ps_verify_pages only, which work on copies of pages and cannot be led astray.
 *
 * Threads: the functions take what they work on from their caller; one thread per store.
 */
#ifndef PANDO_STORAGE_INSPECT_H
#define PANDO_STORAGE_INSPECT_H

#include "storage/pandostore.h"

/* What a long look tells its caller while it runs; each may be NULL. */
struct ps_watch {
    /* Something is wrong: file, offset, and what. */
    void (*finding)(void *arg, const struct ps_fault *fault);
    /* Pages done of all, every few megabytes. False: stop, with PS_ENDED. */
    bool (*progress)(void *arg, uint64_t done, uint64_t whole);
    void *arg;
};

/* ---- metas ------------------------------------------------------------------------------------
 */

/* A place in the log: the end of a commit. */
struct ps_log_place {
    uint64_t position; /* bytes since the store was made */
    uint64_t epoch, seq;
    uint32_t crc;
};

struct ps_meta {
    int code; /* 0; PS_NOTFOUND: blank; PS_CORRUPT, PS_VERSION, PS_IO: nothing else is set */
    uint32_t page_size;
    uint64_t stamp, seq; /* of the checkpoint's state */
    struct ps_log_place log;
    uint64_t file_pages, written_us; /* microseconds since 1970 */
    uint8_t id[16];                  /* of the store */
};

/* Reads both metas of a directory into metas[0] and [1], whatever they are like: 0, or why the file
 * cannot be read. *newest (may be NULL): the one that opening would take, -1: none. */
int ps_read_metas(const char *dir, struct ps_meta *metas, int *newest, struct ps_fault *fault);

/* Whether a meta in the file still names the state that this store was opened with: as long as it
 * does, none of its pages was used again. For stores opened with read_only_check. */
bool ps_checkpoint_stands(struct ps_store *store);

/* ---- pages ------------------------------------------------------------------------------------
 */

struct ps_tree_figures {
    ps_tree tree;
    struct ps_slice name;
    uint32_t levels; /* 0: empty */
    uint64_t entries;
    uint64_t leaves, branches;
    uint64_t leaf_bytes, branch_bytes;                  /* in use in them, headers included */
    uint64_t runs, run_pages, run_bytes;                /* long keys and values up to 65 KiB */
    uint64_t long_runs, long_run_pages, long_run_bytes; /* and longer ones */
    /* compressed values: how many, their bytes as stored, and what those stand for */
    uint64_t compressed, compressed_bytes, compressed_from_bytes;
};

struct ps_figures {
    uint32_t page_size, trees;
    uint64_t pages;    /* in the file */
    uint64_t reserved; /* of those, for the metas */
    uint64_t catalogue_pages, map_pages, free_pages;
    uint64_t leaves, branches, run_pages, long_run_pages; /* of all trees */
    uint64_t findings;
};

/* Reads every page of the newest checkpoint's state and checks it, as ps_check does; `tree` (may be
 * NULL) gets figures of each tree in turn. 0, PS_CORRUPT (there were findings), PS_ENDED, PS_NOMEM.
 * On a store that is open for writing a checkpoint is made first. */
int ps_survey(struct ps_store *store, const struct ps_watch *watch,
              void (*tree)(void *arg, const struct ps_tree_figures *tree),
              struct ps_figures *figures);

/* Reads the file from its beginning to its end and checks the checksum of everything that the space
 * map says is in use: faster than a survey, and blind to what pages say of one another. *checked:
 * pages. As ps_survey; only for stores opened with read_only_check. */
int ps_verify_pages(struct ps_store *store, const struct ps_watch *watch, uint64_t *checked);

/* ---- the log ----------------------------------------------------------------------------------
 */

enum ps_segment_kind {
    PS_SEGMENT_USED,
    PS_SEGMENT_BLANK, /* made ahead, or its making was interrupted */
    PS_SEGMENT_DAMAGED,
};

struct ps_log_segment {
    uint64_t number; /* its position is number * bytes */
    char file[32];   /* its name in the directory */
    enum ps_segment_kind kind;
    bool whole;     /* the file is as long as a segment */
    uint64_t bytes; /* of a segment */
    /* USED: */
    uint64_t epoch, prev_epoch; /* the same: not an epoch's first */
    uint64_t prev_position, seq_before;
};

/* A record: a commit, or a piece of one. */
struct ps_log_record {
    uint64_t position, segment, offset; /* of its first byte; offset in the segment's file */
    uint64_t epoch, seq, stamp;
    size_t payload;   /* bytes of operations */
    bool first, last; /* piece of its commit */
};

/* What was done; for savepoints `tree` is which one, from the outermost, 0. */
struct ps_log_op {
    /* put, put-compressed, delete, delete-range, create, drop, clear, options, savepoint, rollback,
     * release */
    const char *name;
    ps_tree tree;
    /* of create: the key is the name; of delete-range: the bounds; of options: as text */
    struct ps_slice key, value;
};

struct ps_log_watch {
    void (*segment)(void *arg, const struct ps_log_segment *segment);
    void (*record)(void *arg, const struct ps_log_record *record);
    void (*op)(void *arg, const struct ps_log_op *op); /* after the record in which it ends */
    void *arg;
};

struct ps_log_report {
    uint64_t segments, segment_bytes;
    struct ps_log_place from, to; /* where reading began, and the end of the last whole commit */
    uint64_t records, commits, ops, payload;
    uint64_t torn_bytes; /* after `to`: of a commit that was never acknowledged */
    char torn_file[32];  /* where that begins */
    uint64_t torn_offset;
};

/* Lists the segments, then the records from a place on (a meta's) to the log's end. PS_CORRUPT,
 * with *fault: damage; what stands before it was reported. With `from` NULL each segment is read by
 * itself, from its header on, live or not: for a store without metas. */
int ps_log_read(const char *dir, const struct ps_log_place *from, const struct ps_log_watch *watch,
                struct ps_log_report *report, struct ps_fault *fault);
/* The same with other file operations. */
int log_inspect(const struct ps_vfs *vfs, const char *dir, const struct ps_log_place *from,
                const struct ps_log_watch *watch, struct ps_log_report *report,
                struct ps_fault *fault);

/* ---- salvage ----------------------------------------------------------------------------------
 */

struct ps_salvage_report {
    uint32_t page_size;
    bool metas, catalogue, space_map; /* that they could be read */
    uint64_t pages, nodes;            /* in the file; leaves and branches that are whole */
    uint64_t trees, entries;          /* written to the new store */
    uint64_t lost_subtrees, lost_entries, lost_values; /* as far as parents tell */
    uint64_t orphans, orphan_entries;                  /* leaves found without their parents */
    uint64_t log_commits, log_ops;
    uint64_t findings;
};

/* Copies what can be read of a damaged store into a new one, in a directory that holds none.
 *
 * Trees are read from the newest state whose catalogue can be read. Where a page is damaged, the
 * whole file is searched for leaves that fit in its place (not in any tree, in use by the space map
 * if that can be read, keys between what the parents say); of two entries with the same key that
 * of the page with the newest birth counts. Leaves that fit into several trees, or into none since
 * no catalogue is left, go to the tree `lost+found`. Then the log is applied as far as it can be
 * read. Each loss is a finding: which tree, which keys, how many entries.
 *
 * 0: all of it was there. PS_CORRUPT: something was lost. Others: it could not be done; *fault says
 * where. The store must not be open. */
int ps_salvage(const char *from, const char *to, const struct ps_watch *watch,
               struct ps_salvage_report *report, struct ps_fault *fault);

#endif
