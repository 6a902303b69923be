/*
 * version.c - the store-wide counter of key modifications.
 *
 * Every modification of a key takes the next number; records carry it, so that "has this key
 * changed since?" is a comparison. The number must never come back, not after a restart either
 * (WATCH and, later, object ids rest on that), and it must not cost a log record of its own.
 *
 * So the store holds, in tree `counters` under the key "version", a ceiling (8 bytes, big endian):
 *
 *  1. In every state of the store, each version in a record is at most the ceiling of that state:
 *     before a version above it is used, the ceiling is raised by VERSION_BLOCK in the same
 *     transaction. That is one row in 65,536 modifications.
 *  2. Opening a store begins to count at its ceiling: above whatever any record may hold. The rest
 * of a block is lost with a crash or a restart, which 64 bits can bear.
 *  3. The number in memory never goes back. A transaction that is aborted or rolled back, or a
 * state dropped because the log failed, may take the raised row with it, though. Therefore the row
 * is not trusted from memory until the transaction that raised it is published and the row has been
 *     seen after that; until then every version reads it (one look-up in a tree of one row) and
 *     raises it again where it is gone. Nobody has to tell this file about aborts and rollbacks.
 *
 * A deletion takes a version as well, but leaves no record that holds it: it needs no ceiling, so
 * that deletions never write more than they remove (a full disk lets them through).
 *
 * Threads: whoever owns the write transaction. Crash: the row is part of the transaction.
 */
#include "server/keyspace/big_endian.h"
#include "server/keyspace/internal.h"

#define VERSION_BLOCK 65536u

static const struct ps_slice row_key = {"version", 7};

static int read_row(const struct keyspace *ks, struct ps_view *view, uint64_t *ceiling)
{
    struct ps_slice value;
    int rc = ps_get(view, ks->counters, row_key, &value);

    *ceiling = 0;
    if (rc == PS_NOTFOUND)
        return 0;
    if (rc < 0)
        return rc;
    if (value.len != 8)
        return PS_CORRUPT;
    *ceiling = load_be(value.data, 8);
    return 0;
}

static int raise_row(struct keyspace *ks, struct ps_txn *txn, uint64_t ceiling)
{
    uint8_t bytes[8];

    store_be(bytes, ceiling, sizeof(bytes));
    return ps_put(txn, ks->counters, row_key, (struct ps_slice){bytes, sizeof(bytes)});
}

/* Makes sure that the row is there and covers `needed`. */
static int settle(struct keyspace *ks, struct ps_txn *txn, uint64_t needed)
{
    struct keyspace_version *v = &ks->version;
    bool published = ps_published(ks->store) >= v->raised_seq; /* asked before the row is read */
    uint64_t ceiling;
    int rc = read_row(ks, ps_txn_view(txn), &ceiling);

    if (rc < 0)
        return rc;
    if (ceiling >= needed) {
        v->ceiling = ceiling;
        v->settled = published;
        return 0;
    }
    ceiling = needed + VERSION_BLOCK;
    rc = raise_row(ks, txn, ceiling);
    if (rc < 0)
        return rc;
    v->ceiling = ceiling;
    v->raised_seq = ps_txn_seq(txn);
    v->settled = false;
    return 0;
}

int version_for_record(struct keyspace *ks, struct ps_txn *txn, uint64_t *version)
{
    struct keyspace_version *v = &ks->version;
    uint64_t next = v->last + 1;

    if (!v->settled || next > v->ceiling) {
        int rc = settle(ks, txn, next);
        if (rc < 0)
            return rc;
    }
    v->last = next;
    *version = next;
    return 0;
}

void version_for_deletion(struct keyspace *ks)
{
    ks->version.last++;
}

int version_open(struct keyspace *ks, struct ps_view *view)
{
    struct keyspace_version *v = &ks->version;
    int rc = read_row(ks, view, &v->ceiling);

    v->last = v->ceiling;
    v->raised_seq = 0;
    v->settled = true;
    return rc;
}
