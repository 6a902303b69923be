/*
 * tool_migrate_to.c - `pando-tool migrate-to-lmdb` (tool_migrate.c).
 *
 * Threads: one, and the engine's.
 */
#ifdef WITH_LMDB

#include "tools/tool_migrate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LEAST_MAP (UINT64_C(1) << 30)

static int put_entries(struct migration *m, struct ps_cursor *cursor, MDB_dbi dbi, const char *name)
{
    size_t most = (size_t)mdb_env_get_maxkeysize(m->env);
    int rc;
    for (rc = ps_cursor_first(cursor); rc == 0; rc = ps_cursor_next(cursor)) {
        struct ps_slice key, value;
        rc = ps_cursor_get(cursor, &key, &value);
        if (rc != 0) {
            break;
        }
        if (key.len == 0 || key.len > most) {
            return tool_fail(m->tool, "tree '%s' has a key of %zu bytes: LMDB's keys have 1 to %zu",
                             name, key.len, most);
        }
        MDB_val k = {key.len, (void *)(uintptr_t)key.data};
        MDB_val v = {value.len, (void *)(uintptr_t)value.data};
        int put = mdb_put(m->txn, dbi, &k, &v, MDB_APPEND);
        rc = ps_view_check(m->view); /* were they the bytes that are stored? */
        if (rc != 0) {
            break;
        }
        if (put != 0) {
            return migrate_lmdb_failed(m, put == MDB_MAP_FULL ? "give a larger --map-size" : name,
                                       put);
        }
        m->entries++;
        m->bytes += key.len + value.len;
        migrate_step(m);
    }
    return rc == PS_NOTFOUND ? TOOL_FINE : migrate_store_failed(m, "reading", rc);
}

struct tree {
    ps_tree tree;
    char name[PS_MAX_TREE_NAME + 1];
    struct ps_slice slice;
    uint64_t entries;
    bool unnamed;
    MDB_dbi dbi;
};

static int put_tree(struct migration *m, struct tree *t)
{
    struct ps_cursor *cursor;
    int rc = mdb_dbi_open(m->txn, t->unnamed ? NULL : t->name, MDB_CREATE, &t->dbi);
    if (rc != 0) {
        return migrate_lmdb_failed(m, t->name, rc);
    }
    rc = ps_cursor_open(m->view, t->tree, &cursor);
    if (rc != 0) {
        return migrate_store_failed(m, "reading", rc);
    }
    int status = put_entries(m, cursor, t->dbi, t->name);
    ps_cursor_close(cursor);
    m->databases++;
    return status;
}

/* The tree that goes to the unnamed database comes first: names are entries of that one, too. */
static int list_trees(struct migration *m, struct tree *trees, size_t *n)
{
    for (ps_tree tree = 0; tree < PS_MAX_TREES; tree++) {
        struct ps_slice name;
        if (ps_tree_name(m->view, tree, &name) != 0) {
            continue;
        }
        struct tree *t = &trees[*n];
        *t = (struct tree){.tree = tree};
        memcpy(t->name, name.data, name.len);
        t->slice = (struct ps_slice){t->name, name.len};
        t->unnamed = m->main_tree != NULL && strcmp(m->main_tree, t->name) == 0;
        if (memchr(name.data, 0, name.len) != NULL) {
            return tool_fail(m->tool, "tree '%s...': LMDB's names have no zero bytes", t->name);
        }
        int rc = ps_count(m->view, tree, &t->entries);
        if (rc != 0) {
            return migrate_store_failed(m, "counting", rc);
        }
        m->whole += 2 * t->entries;
        if (t->unnamed && *n > 0) {
            struct tree first = trees[0];
            trees[0] = *t;
            *t = first;
        }
        (*n)++;
    }
    for (size_t i = 0; i < *n; i++) {
        trees[i].slice.data = trees[i].name;
    }
    if (m->main_tree != NULL && (*n == 0 || !trees[0].unnamed)) {
        return tool_fail(m->tool, "there is no tree '%s'", m->main_tree);
    }
    return TOOL_FINE;
}

static int verify_trees(struct migration *m, struct tree *trees, size_t n)
{
    struct ps_slice *names = calloc(n + 1, sizeof *names);
    size_t named = 0;
    if (names == NULL) {
        return tool_fail(m->tool, "out of memory");
    }
    int rc = mdb_txn_begin(m->env, NULL, MDB_RDONLY, &m->txn);
    int status = rc == 0 ? TOOL_FINE : migrate_lmdb_failed(m, "beginning a transaction", rc);
    for (size_t i = 0; status == TOOL_FINE && i < n; i++) {
        if (!trees[i].unnamed) {
            names[named++] = trees[i].slice;
        }
    }
    for (size_t i = 0; status == TOOL_FINE && i < n; i++) {
        MDB_stat stat;
        rc = mdb_stat(m->txn, trees[i].dbi, &stat);
        if (rc != 0) {
            status = migrate_lmdb_failed(m, "counting", rc);
            break;
        }
        size_t within = trees[i].unnamed ? named : 0;
        status = migrate_verify(m, trees[i].tree, trees[i].dbi, trees[i].slice,
                                stat.ms_entries - within, names, within);
    }
    free(names);
    return status;
}

static int fill_lmdb(struct migration *m, struct tree *trees)
{
    size_t n = 0;
    uint64_t map_size;
    const char *path = m->tool->arguments[1];
    uint64_t usual = 4 * ps_file_bytes(m->store);
    if (!tool_number(m->tool, "--map-size", usual < LEAST_MAP ? LEAST_MAP : usual,
                     UINT64_C(1) << 46, &map_size)) {
        return TOOL_ERROR;
    }
    int status = list_trees(m, trees, &n);
    if (status != TOOL_FINE) {
        return status;
    }
    if (mkdir(path, 0777) != 0) {
        return tool_fail(m->tool, "%s: %s", path, strerror(errno));
    }
    status = migrate_open_lmdb(m, path, 0, (size_t)(map_size & ~UINT64_C(65535)));
    for (size_t i = 0; status == TOOL_FINE && i < n; i++) {
        status = put_tree(m, &trees[i]);
    }
    if (status == TOOL_FINE) {
        int rc = mdb_txn_commit(m->txn);
        m->txn = NULL;
        status = rc == 0 ? verify_trees(m, trees, n) : migrate_lmdb_failed(m, "committing", rc);
    }
    return status;
}

static int empty_store(struct migration *m)
{
    struct ps_snapshot *snap;
    struct tree *trees = calloc(PS_MAX_TREES, sizeof *trees);
    if (trees == NULL || ps_snapshot_new(m->store, &snap) != 0) {
        free(trees);
        return tool_fail(m->tool, "out of memory");
    }
    ps_snapshot_renew(snap);
    m->view = ps_snapshot_view(snap);
    int status = fill_lmdb(m, trees);
    migrate_close(m);
    ps_snapshot_free(snap);
    free(trees);
    return status;
}

int tool_migrate_to_lmdb(struct tool *tool)
{
    struct migration m = {.tool = tool};
    struct ps_options options = {.durability = PS_ALWAYS, .manual_checkpoint = true};
    struct ps_fault fault = {0};
    if (!migrate_take_main(&m, NULL)) {
        return TOOL_ERROR;
    }
    int rc = tool_open(tool, &options, &m.store, &fault);
    if (rc != 0) {
        return tool_not_opened(tool, rc, &fault);
    }
    int status = empty_store(&m);
    (void)ps_close(m.store, false);
    tool_end_progress(tool);
    tool_print_findings(tool);
    return status == TOOL_FINE ? migrate_say(&m, tool->arguments[1]) : status;
}

#else

typedef int tool_migrate_to_is_left_out; /* see tool_migrate.c */

#endif
