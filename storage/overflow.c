/*
 * overflow.c - see overflow.h.
 */
#include "storage/overflow.h"

int run_make(struct ps_txn *txn, struct ps_slice bytes, struct run_ref *run)
{
    struct ps_store *store = txn->view.store;
    page_ref ref;
    int rc = txn_alloc(txn, run_pages(bytes.len, store->page_shift), &ref);
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
