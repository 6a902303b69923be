/*
 * tool_migrate.c - `pando-tool migrate-from-lmdb` and `migrate-to-lmdb`.
 *
 * All is written in one transaction of the other side, committed, and then read again and compared
 * entry by entry with where it came from. An interrupted migration leaves nothing to be seen.
 *
 * Built without WITH_LMDB the commands are there, and say why they cannot be used.
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

#define SHOW_ENTRIES 4096u
#define LEAST_MAP    (UINT64_C(1) << 30)

/* ---- both directions --------------------------------------------------------------------------
 */

int migrate_lmdb_failed(struct migration *m, const char *doing, int rc)
{
    return tool_fail(m->tool, "LMDB: %s: %s", doing, mdb_strerror(rc));
}

int migrate_store_failed(struct migration *m, const char *doing, int rc)
{
    struct ps_fault fault = {0};
    ps_last_fault(m->store, &fault);
    int status = fault.code != 0 ? tool_fail_fault(m->tool, fault.file, rc, &fault)
                                 : tool_fail(m->tool, "%s: %s", doing, ps_strerror(rc));
    return rc == PS_CORRUPT ? TOOL_DAMAGE : status;
}

int migrate_open_lmdb(struct migration *m, const char *path, unsigned flags, size_t map_size)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        flags |= MDB_NOSUBDIR;
    }
    int rc = mdb_env_create(&m->env);
    rc = rc == 0 ? mdb_env_set_maxdbs(m->env, MIGRATE_DATABASES) : rc;
    rc = rc == 0 && map_size > 0 ? mdb_env_set_mapsize(m->env, map_size) : rc;
    rc = rc == 0 ? mdb_env_open(m->env, path, flags, 0666) : rc;
    if (rc != 0) {
        return tool_fail(m->tool, "LMDB: opening %s: %s", path, mdb_strerror(rc));
    }
    rc = mdb_txn_begin(m->env, NULL, flags & MDB_RDONLY, &m->txn);
    return rc == 0 ? TOOL_FINE : migrate_lmdb_failed(m, "beginning a transaction", rc);
}

void migrate_close(struct migration *m)
{
    if (m->txn != NULL) {
        mdb_txn_abort(m->txn);
    }
    if (m->env != NULL) {
        mdb_env_close(m->env);
    }
}

void migrate_step(struct migration *m)
{
    if (++m->done % SHOW_ENTRIES == 0) {
        tool_show_progress(m->tool, m->done, m->whole);
    }
}

static bool is_database(struct ps_slice key, const struct ps_slice *databases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (databases[i].len == key.len && memcmp(databases[i].data, key.data, key.len) == 0) {
            return true;
        }
    }
    return false;
}

static int differs(struct migration *m, struct ps_slice name, const char *what)
{
    struct ps_fault fault = {.code = PS_CORRUPT};
    snprintf(fault.what, sizeof fault.what, "%.*s: %s", (int)(name.len > 80 ? 80 : name.len),
             (const char *)name.data, what);
    snprintf(fault.file, sizeof fault.file, "%s", m->tool->arguments[1]);
    tool_keep_finding(m->tool, &fault);
    return TOOL_DAMAGE;
}

int migrate_verify(struct migration *m, ps_tree tree, MDB_dbi dbi, struct ps_slice name,
                   uint64_t lmdb_entries, const struct ps_slice *databases, size_t ndatabases)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    uint64_t entries, seen = 0;
    int rc = ps_count(m->view, tree, &entries);
    if (rc != 0) {
        return migrate_store_failed(m, "counting", rc);
    }
    rc = mdb_cursor_open(m->txn, dbi, &cursor);
    if (rc != 0) {
        return migrate_lmdb_failed(m, "opening a cursor", rc);
    }
    int status = TOOL_FINE;
    while (status == TOOL_FINE && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        struct ps_slice k = {key.mv_data, key.mv_size};
        struct ps_slice found;
        if (is_database(k, databases, ndatabases)) {
            continue;
        }
        int got = ps_get(m->view, tree, k, &found);
        if (got != 0 && got != PS_NOTFOUND) {
            status = migrate_store_failed(m, "reading", got);
        } else if (got != 0 || found.len != value.mv_size ||
                   memcmp(found.data, value.mv_data, found.len) != 0) {
            status = differs(m, name, got != 0 ? "an entry is missing" : "a value is another");
        }
        seen++;
        migrate_step(m);
    }
    mdb_cursor_close(cursor);
    if (status == TOOL_FINE && rc != MDB_NOTFOUND) {
        return migrate_lmdb_failed(m, "reading", rc);
    }
    if (status == TOOL_FINE && (seen != entries || seen != lmdb_entries)) {
        status = differs(m, name, "another number of entries");
    }
    m->verified += seen;
    return status;
}

int migrate_say(struct migration *m, const char *to)
{
    tool_end_progress(m->tool);
    if (m->tool->json) {
        json_object_update_new(
            m->tool->result, json_pack("{s:I, s:I, s:I, s:I}", "trees", (json_int_t)m->databases,
                                       "entries", (json_int_t)m->entries, "bytes",
                                       (json_int_t)m->bytes, "verified", (json_int_t)m->verified));
    } else {
        printf("%" PRIu64 " trees, %" PRIu64 " entries (%" PRIu64
               " bytes of keys and values) written to %s, read again and compared\n",
               m->databases, m->entries, m->bytes, to);
    }
    return TOOL_FINE;
}

/* ---- from LMDB --------------------------------------------------------------------------------
 */

struct database {
    char name[PS_MAX_TREE_NAME + 1];
    size_t len;
    MDB_dbi dbi;
    unsigned flags;
    uint64_t entries; /* without databases that are named in it */
    ps_tree tree;
};

struct databases {
    struct database *at;
    struct ps_slice *names; /* of those that are named */
    size_t n, named;
};

/* What the unnamed database's keys name, if they are databases. */
static int list_databases(struct migration *m, struct databases *all)
{
    MDB_dbi main_dbi;
    MDB_cursor *cursor;
    MDB_val key, value;
    MDB_stat stat;
    int status = TOOL_FINE;
    int rc = mdb_dbi_open(m->txn, NULL, 0, &main_dbi);
    rc = rc == 0 ? mdb_stat(m->txn, main_dbi, &stat) : rc;
    rc = rc == 0 ? mdb_cursor_open(m->txn, main_dbi, &cursor) : rc;
    if (rc != 0) {
        return migrate_lmdb_failed(m, "opening the unnamed database", rc);
    }
    while (status == TOOL_FINE && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        char name[512] = {0};
        MDB_dbi dbi;
        if (key.mv_size == 0 || key.mv_size >= sizeof name || value.mv_size != 48 ||
            memchr(key.mv_data, 0, key.mv_size) != NULL) {
            continue;
        }
        memcpy(name, key.mv_data, key.mv_size);
        if (mdb_dbi_open(m->txn, name, 0, &dbi) != 0) {
            continue; /* an entry like others */
        }
        struct database *d = &all->at[all->n];
        if (key.mv_size > PS_MAX_TREE_NAME || all->n + 1 >= MIGRATE_DATABASES) {
            status = tool_fail(m->tool, "database '%s': %s", name,
                               key.mv_size > PS_MAX_TREE_NAME ? "its name is too long for a tree"
                                                              : "there are more than trees can be");
            break;
        }
        d->len = key.mv_size;
        memcpy(d->name, name, d->len + 1);
        d->dbi = dbi;
        all->names[all->n] = (struct ps_slice){d->name, d->len};
        all->n++;
    }
    mdb_cursor_close(cursor);
    all->named = all->n;
    if (status == TOOL_FINE && stat.ms_entries > all->named) {
        struct database *d = &all->at[all->n++];
        d->len = strlen(m->main_tree);
        memcpy(d->name, m->main_tree, d->len + 1);
        d->dbi = main_dbi;
    }
    return status;
}

static int look_at_databases(struct migration *m, struct databases *all)
{
    for (size_t i = 0; i < all->n; i++) {
        struct database *d = &all->at[i];
        MDB_stat stat;
        int rc = mdb_dbi_flags(m->txn, d->dbi, &d->flags);
        rc = rc == 0 ? mdb_stat(m->txn, d->dbi, &stat) : rc;
        if (rc != 0) {
            return migrate_lmdb_failed(m, d->name, rc);
        }
        if ((d->flags & MDB_DUPSORT) != 0) {
            return tool_fail(m->tool,
                             "database '%s' has duplicate keys (MDB_DUPSORT): a tree has one value "
                             "for a key, so it cannot be migrated",
                             d->name);
        }
        if (i == all->named &&
            is_database((struct ps_slice){d->name, d->len}, all->names, all->named)) {
            return tool_fail(m->tool,
                             "the unnamed database has entries, and a database is called '%s': "
                             "give --main with another name for its tree",
                             d->name);
        }
        d->entries = stat.ms_entries - (i == all->named ? all->named : 0);
        m->whole += 2 * d->entries;
    }
    return TOOL_FINE;
}

static int copy_entries(struct migration *m, struct database *d, const struct databases *all,
                        struct ps_bulk *bulk)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    bool unnamed = d == &all->at[all->named];
    int rc = mdb_cursor_open(m->txn, d->dbi, &cursor);
    if (rc != 0) {
        return migrate_lmdb_failed(m, "opening a cursor", rc);
    }
    int put = 0;
    while (put == 0 && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        struct ps_slice k = {key.mv_data, key.mv_size};
        struct ps_slice v = {value.mv_data, value.mv_size};
        if (unnamed && is_database(k, all->names, all->named)) {
            continue;
        }
        put = ps_bulk_put(bulk, k, v);
        m->entries += put == 0;
        m->bytes += k.len + v.len;
        migrate_step(m);
    }
    mdb_cursor_close(cursor);
    if (put != 0) {
        return migrate_store_failed(m, "writing", put);
    }
    return rc == MDB_NOTFOUND ? TOOL_FINE : migrate_lmdb_failed(m, "reading", rc);
}

static int copy_database(struct migration *m, struct database *d, const struct databases *all,
                         struct ps_txn *txn)
{
    struct ps_bulk *bulk;
    bool sorted = (d->flags & (MDB_REVERSEKEY | MDB_INTEGERKEY)) == 0;
    int rc = ps_tree_create(txn, (struct ps_slice){d->name, d->len}, &d->tree);
    rc = rc == 0 ? ps_bulk_begin(txn, d->tree, sorted ? PS_SORTED : PS_UNSORTED, 0, &bulk) : rc;
    if (rc == PS_EXISTS) {
        return tool_fail(m->tool, "tree '%s' has entries already", d->name);
    }
    if (rc != 0) {
        return migrate_store_failed(m, "making a tree", rc);
    }
    int status = copy_entries(m, d, all, bulk);
    if (status != TOOL_FINE) {
        ps_bulk_cancel(bulk);
        return status;
    }
    rc = ps_bulk_finish(bulk, NULL);
    m->databases++;
    return rc == 0 ? TOOL_FINE : migrate_store_failed(m, "completing a tree", rc);
}

static int copy_databases(struct migration *m, struct databases *all)
{
    struct ps_txn *txn;
    int rc = ps_begin(m->store, &txn);
    if (rc != 0) {
        return migrate_store_failed(m, "beginning a transaction", rc);
    }
    ps_keep_whole(txn);
    int status = TOOL_FINE;
    for (size_t i = 0; status == TOOL_FINE && i < all->n; i++) {
        status = copy_database(m, &all->at[i], all, txn);
    }
    if (status != TOOL_FINE) {
        ps_abort(txn);
        return status;
    }
    rc = ps_commit(txn, PS_NONE, NULL);
    rc = rc == 0 ? ps_checkpoint(m->store) : rc;
    return rc == 0 ? TOOL_FINE : migrate_store_failed(m, "committing", rc);
}

static int verify_databases(struct migration *m, const struct databases *all)
{
    struct ps_snapshot *snap;
    if (ps_snapshot_new(m->store, &snap) != 0) {
        return tool_fail(m->tool, "out of memory");
    }
    ps_snapshot_renew(snap);
    m->view = ps_snapshot_view(snap);
    int status = TOOL_FINE;
    for (size_t i = 0; i < all->n && status == TOOL_FINE; i++) {
        const struct database *d = &all->at[i];
        status = migrate_verify(m, d->tree, d->dbi, (struct ps_slice){d->name, d->len}, d->entries,
                                all->names, i == all->named ? all->named : 0);
    }
    ps_snapshot_free(snap);
    return status;
}

static int fill_store(struct migration *m, struct databases *all)
{
    const char *dir = m->tool->arguments[1];
    uint64_t page_size;
    struct ps_fault fault;
    if (!tool_number(m->tool, "--page-size", 4096, 65536, &page_size)) {
        return TOOL_ERROR;
    }
    struct ps_options options = {.durability = PS_NONE};
    options.page_size = tool_option(m->tool, "--page-size", 0) == NULL ? 0 : (uint32_t)page_size;
    int rc = ps_open(dir, &options, &m->store, NULL, &fault);
    if (rc != 0) {
        return tool_fail_fault(m->tool, dir, rc, &fault);
    }
    int status = copy_databases(m, all);
    status = status == TOOL_FINE ? verify_databases(m, all) : status;
    rc = ps_close(m->store, status == TOOL_FINE);
    if (rc != 0 && status == TOOL_FINE) {
        status = tool_fail(m->tool, "completing the store: %s", ps_strerror(rc));
    }
    return status;
}

/* A name that a tree can have. */
static bool take_main(struct migration *m, const char *usual)
{
    const char *given = tool_option(m->tool, "--main", 0);
    m->main_tree = given == NULL ? usual : given;
    if (given != NULL && (*given == '\0' || strlen(given) > PS_MAX_TREE_NAME)) {
        tool_fail(m->tool, "--main: the name of a tree has 1 to %d bytes", PS_MAX_TREE_NAME);
        return false;
    }
    return true;
}

int tool_migrate_from_lmdb(struct tool *tool)
{
    struct migration m = {.tool = tool};
    struct databases all = {.at = calloc(MIGRATE_DATABASES + 1, sizeof *all.at),
                            .names = calloc(MIGRATE_DATABASES + 1, sizeof *all.names)};
    int status = all.at == NULL || all.names == NULL ? tool_fail(tool, "out of memory") : TOOL_FINE;
    if (status == TOOL_FINE && !take_main(&m, "main")) {
        status = TOOL_ERROR;
    }
    status =
        status == TOOL_FINE ? migrate_open_lmdb(&m, tool->arguments[0], MDB_RDONLY, 0) : status;
    status = status == TOOL_FINE ? list_databases(&m, &all) : status;
    status = status == TOOL_FINE ? look_at_databases(&m, &all) : status;
    status = status == TOOL_FINE ? fill_store(&m, &all) : status;
    migrate_close(&m);
    free(all.at);
    free(all.names);
    tool_end_progress(tool);
    tool_print_findings(tool);
    return status == TOOL_FINE ? migrate_say(&m, tool->arguments[1]) : status;
}

/* ---- to LMDB ----------------------------------------------------------------------------------
 */

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
    int rc = names == NULL ? ENOMEM : mdb_txn_begin(m->env, NULL, MDB_RDONLY, &m->txn);
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
    struct ps_meta metas[2];
    struct ps_fault fault = {0};
    const char *dir = tool->arguments[0];
    if (!take_main(&m, NULL)) {
        return TOOL_ERROR;
    }
    int rc = ps_read_metas(dir, metas, NULL, &fault); /* opening would make what is not there */
    rc = rc == 0 ? ps_open(dir, &options, &m.store, NULL, &fault) : rc;
    if (rc != 0) {
        int status = tool_fail_fault(tool, dir, rc, &fault);
        return rc == PS_CORRUPT ? TOOL_DAMAGE : status;
    }
    int status = empty_store(&m);
    (void)ps_close(m.store, false);
    tool_end_progress(tool);
    tool_print_findings(tool);
    return status == TOOL_FINE ? migrate_say(&m, tool->arguments[1]) : status;
}

#else

#include "tools/tool.h"

static int without(struct tool *tool)
{
    return tool_fail(tool, "this pando-tool was built without LMDB (make LMDB=1 with liblmdb-dev)");
}

int tool_migrate_from_lmdb(struct tool *tool)
{
    return without(tool);
}

int tool_migrate_to_lmdb(struct tool *tool)
{
    return without(tool);
}

#endif
