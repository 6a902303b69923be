/*
 * example.c - a program that uses libpandostore: a small stock of goods.
 *
 *     cc -o example example.c $(pkg-config --cflags --libs pandostore) && ./example DIRECTORY
 *
 * It opens (or makes) a store, changes it in transactions, reads it through a snapshot while it
 * goes on changing, walks over a range of keys, deletes one, and closes it. What is printed is the
 * same whenever it runs.
 */
#include <inttypes.h>
#include <pandostore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ps_slice text(const char *string)
{
    return (struct ps_slice){string, strlen(string)};
}

/* Every call answers 0 or a negative code; ps_strerror() has a text for each. */
static void must(int rc, const char *what)
{
    if (rc != 0) {
        fprintf(stderr, "%s: %s\n", what, ps_strerror(rc));
        exit(1);
    }
}

static struct ps_store *open_store(const char *directory)
{
    struct ps_options options = {.durability = PS_ALWAYS}; /* all else: as is usual */
    struct ps_fault fault;
    struct ps_store *store;
    int rc = ps_open(directory, &options, &store, NULL, &fault);
    if (rc != 0) {
        fprintf(stderr, "%s: %s (%s)\n", fault.file, ps_strerror(rc), fault.what);
        exit(1);
    }
    return store;
}

/* All or nothing, also if the process is killed in the middle: one transaction. */
static ps_tree fill(struct ps_store *store)
{
    static const char *const goods[][2] = {
        {"fruit/apple", "12"}, {"fruit/cherry", "80"}, {"fruit/pear", "7"},
        {"tool/hammer", "2"},  {"tool/saw", "1"},
    };
    struct ps_txn *txn;
    ps_tree stock;
    must(ps_begin(store, &txn), "beginning");
    must(ps_tree_create(txn, text("stock"), &stock), "making a tree"); /* or finding it */
    must(ps_clear(txn, stock), "emptying it");
    for (size_t i = 0; i < sizeof goods / sizeof *goods; i++) {
        must(ps_put(txn, stock, text(goods[i][0]), text(goods[i][1])), "putting");
    }
    must(ps_commit(txn, PS_ALWAYS, NULL), "committing"); /* now it is on the device */
    return stock;
}

/* A savepoint undoes a part of a transaction. */
static void sell(struct ps_store *store, ps_tree stock)
{
    struct ps_txn *txn;
    must(ps_begin(store, &txn), "beginning");
    must(ps_put(txn, stock, text("fruit/pear"), text("6")), "putting");
    must(ps_savepoint(txn), "a savepoint");
    must(ps_delete(txn, stock, text("tool/hammer")), "deleting");
    must(ps_savepoint_rollback(txn), "rolling back"); /* the hammer stays */
    must(ps_commit(txn, PS_ALWAYS, NULL), "committing");
}

/* Keys from `low` on and before `high`, in order. */
static void list(struct ps_snapshot *snap, ps_tree stock, const char *low, const char *high)
{
    struct ps_slice from = text(low), to = text(high), key, value;
    struct ps_cursor *cursor;
    must(ps_cursor_open(ps_snapshot_view(snap), stock, &cursor), "a cursor");
    must(ps_cursor_bounds(cursor, &from, &to), "its bounds");
    int rc = ps_cursor_first(cursor);
    for (; rc == 0; rc = ps_cursor_next(cursor)) {
        must(ps_cursor_get(cursor, &key, &value), "reading");
        printf("  %.*s: %.*s\n", (int)key.len, (const char *)key.data, (int)value.len,
               (const char *)value.data);
    }
    must(rc == PS_NOTFOUND ? 0 : rc, "walking"); /* PS_NOTFOUND: past the last one */
    ps_cursor_close(cursor);
}

/* A whole range at once: what it costs does not depend on how much is in it. */
static uint64_t delete_tools(struct ps_store *store, ps_tree stock)
{
    struct ps_slice low = text("tool/"), high = text("tool0"); /* '0' comes after '/' */
    struct ps_txn *txn;
    uint64_t deleted;
    must(ps_begin(store, &txn), "beginning");
    must(ps_delete_range(txn, stock, &low, &high, 0, &deleted), "deleting a range");
    must(ps_commit(txn, PS_ALWAYS, NULL), "committing");
    return deleted;
}

int main(int argc, char **argv)
{
    struct ps_snapshot *snap;
    struct ps_slice value;
    uint64_t count;
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 2;
    }
    struct ps_store *store = open_store(argv[1]);
    ps_tree stock = fill(store);

    must(ps_snapshot_new(store, &snap), "a snapshot");
    ps_snapshot_renew(snap); /* the newest state; it stays as it is while we look at it */
    sell(store, stock);
    must(ps_get(ps_snapshot_view(snap), stock, text("fruit/pear"), &value), "reading");
    printf("pears before: %.*s\n", (int)value.len, (const char *)value.data);
    ps_snapshot_renew(snap);
    must(ps_get(ps_snapshot_view(snap), stock, text("fruit/pear"), &value), "reading");
    printf("pears after: %.*s\n", (int)value.len, (const char *)value.data);

    puts("from c to h:");
    list(snap, stock, "fruit/c", "tool/i");
    printf("tools deleted: %" PRIu64 "\n", delete_tools(store, stock));
    ps_snapshot_renew(snap);
    must(ps_count(ps_snapshot_view(snap), stock, &count), "counting");
    printf("left: %" PRIu64 "\n", count);

    ps_snapshot_free(snap);
    must(ps_close(store, true), "closing");
    return 0;
}
