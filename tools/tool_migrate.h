/*
 * tool_migrate.h - what the two directions of migrating share.
 */
#ifndef PANDO_TOOLS_TOOL_MIGRATE_H
#define PANDO_TOOLS_TOOL_MIGRATE_H

#include "tools/tool.h"

#include <lmdb.h>

#define MIGRATE_DATABASES 4096

struct migration {
    struct tool *tool;
    const char *main_tree; /* the tree that stands for LMDB's unnamed database; NULL: none */
    MDB_env *env;
    MDB_txn *txn; /* LMDB's */
    struct ps_store *store;
    struct ps_view *view;
    uint64_t databases, entries, bytes, verified;
    uint64_t done, whole; /* entries, read twice */
};

/* Opens an environment, a directory or a single file. */
int migrate_open_lmdb(struct migration *m, const char *path, unsigned flags, size_t map_size);
/* Complaints; the exit status. */
int migrate_lmdb_failed(struct migration *m, const char *doing, int rc);
int migrate_store_failed(struct migration *m, const char *doing, int rc);
/* --main, or the usual name; false, and a complaint, if no tree can have it. */
bool migrate_take_main(struct migration *m, const char *usual);
void migrate_step(struct migration *m);
int migrate_say(struct migration *m, const char *to);
void migrate_close(struct migration *m);

/* Compares every entry of a tree with a database's, and their numbers. */
int migrate_verify(struct migration *m, ps_tree tree, MDB_dbi dbi, struct ps_slice name,
                   uint64_t lmdb_entries, const struct ps_slice *databases, size_t ndatabases);

#endif
