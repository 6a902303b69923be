/*
 * overflow.c - see overflow.h.
 */
#include "storage/overflow.h"

#include "storage/node.h"

int run_make(struct ps_txn *txn, struct ps_slice bytes, struct run_ref *run)
{
    struct ps_store *store = txn->view.store;
    page_ref ref;
    uint32_t pages = run_pages(bytes.len, store->page_shift);
    if (run_is_long(bytes.len)) {
        int long_rc = txn_alloc_file(txn, pages, &ref);
        if (long_rc == 0) {
            *run = (struct run_ref){ref, txn->stamp, bytes.len};
            long_rc = file_run_write(txn, run, bytes);
        }
        return long_rc;
    }
    int rc = txn_alloc(txn, pages, &ref);
    if (rc != 0) {
        return rc;
    }
    struct page *p = (struct page *)(void *)(uintptr_t)page_at(store, ref);
    memset(p, 0, PAGE_HEADER);
    p->kind = PAGE_OVERFLOW;
    p->birth = txn->stamp;
    p->run_len = bytes.len;
    memcpy((uint8_t *)p + PAGE_HEADER, bytes.data, bytes.len);
    *run = (struct run_ref){ref, txn->stamp, bytes.len};
    store->stat.overflow_runs++;
    return 0;
}

int run_drop(struct ps_txn *txn, const struct run_ref *run)
{
    return txn_drop(txn, run->ref, run->birth, run_pages(run->len, txn->view.store->page_shift));
}

int entry_drop_runs(struct ps_txn *txn, const struct page *p, unsigned i)
{
    struct run_ref key, value;
    node_runs(p, i, &key, &value);
    int rc = key.ref != 0 ? run_drop(txn, &key) : 0;
    return rc == 0 && value.ref != 0 ? run_drop(txn, &value) : rc;
}
