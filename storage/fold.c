/*
 * fold.c - see fold.h. The table is direct-mapped: two keys that fall on one place are logged in
 * turn, which is right and only longer.
 */
#include "storage/fold.h"

#include "storage/crc32c.h"
#include "storage/store.h"

static struct fold *place_of(struct ps_txn *txn, ps_tree tree, struct ps_slice key)
{
    return &txn->folds.at[crc32c(tree, key.data, key.len) % FOLDS];
}

/* The value of this key in the buffer, if it may be replaced by one of the same length. */
static uint8_t *find(const struct ps_txn *txn, const struct fold *f, ps_tree tree,
                     struct ps_slice key, size_t len)
{
    unsigned n = txn->nsavepoints;
    size_t least = n > 0 ? txn->savepoints[n - 1].ops : 0;
    if (f->epoch != txn->folds.epoch || f->tree != tree || f->key_len != key.len || f->len != len ||
        f->at < least + key.len + 1) {
        return NULL;
    }
    uint8_t *at = txn->group->ops.at + f->at;
    return memcmp(at - 1 - key.len, key.data, key.len) == 0 ? at : NULL;
}

int fold_log(struct ps_txn *txn, ps_tree tree, struct ps_slice key, struct ps_slice value)
{
    bool foldable = value.len > 0 && value.len <= FOLD_MOST && key.len > 0 && key.len < 4096;
    struct fold *f = foldable ? place_of(txn, tree, key) : NULL;
    uint8_t *at = foldable ? find(txn, f, tree, key, value.len) : NULL;
    if (at != NULL) {
        memcpy(at, value.data, value.len);
        txn->changes++;
        txn->view.store->stat.merge_ops_folded++;
        txn->view.store->stat.bytes_changed += key.len + value.len;
        return 0;
    }
    uint64_t epoch = txn->folds.epoch;
    size_t before = txn->group->ops.n;
    int rc = txn_log(txn, OP_PUT, tree, key, value);
    bool gathered = txn->group->ops.n > before && txn->folds.epoch == epoch + 1;
    if (rc == 0 && gathered) {
        txn->folds.epoch = epoch; /* what other merges have logged is as it was */
        if (foldable) {
            *f = (struct fold){epoch, txn->group->ops.n - value.len, tree, (uint32_t)key.len,
                               (uint32_t)value.len};
        }
    }
    return rc;
}
