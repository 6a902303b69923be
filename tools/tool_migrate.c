/*
 * tool_migrate.c - `pando-tool migrate-from-lmdb`, and what `migrate-to-lmdb` shares with it.
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
    if (status == TOOL_FINE && rc != MDB_NOTFOUND) {
        status = migrate_lmdb_failed(m, "listing databases", rc);
    }
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

bool migrate_take_main(struct migration *m, const char *usual)
{
    const char *given = tool_option(m->tool, "--main", 0);
    m->main_tree = given == NULL ? usual : given;
    if (given != NULL && (*given == '\0' || strlen(given) > PS_MAX_TREE_NAME)) {
        tool_fail(m->tool, "--main: the name of a tree has 1 to %d bytes", PS_MAX_TREE_NAME);
        return false;
    }
    return true;
}

static int migrate_all(struct migration *m, struct databases *all)
{
    int status = migrate_open_lmdb(m, m->tool->arguments[0], MDB_RDONLY, 0);
    status = status == TOOL_FINE ? list_databases(m, all) : status;
    status = status == TOOL_FINE ? look_at_databases(m, all) : status;
    status = status == TOOL_FINE ? fill_store(m, all) : status;
    migrate_close(m);
    tool_end_progress(m->tool);
    tool_print_findings(m->tool);
    return status == TOOL_FINE ? migrate_say(m, m->tool->arguments[1]) : status;
}

int tool_migrate_from_lmdb(struct tool *tool)
{
    struct migration m = {.tool = tool};
    struct databases all = {.at = calloc(MIGRATE_DATABASES + 1, sizeof *all.at),
                            .names = calloc(MIGRATE_DATABASES + 1, sizeof *all.names)};
    int status = TOOL_ERROR;
    if (all.at == NULL || all.names == NULL) {
        tool_fail(tool, "out of memory");
    } else if (migrate_take_main(&m, "main")) {
        status = migrate_all(&m, &all);
    }
    free(all.at);
    free(all.names);
    return status;
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
