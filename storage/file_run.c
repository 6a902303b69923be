/*
 * file_run.c - see file_run.h: making runs in the file.
 */
#include "storage/file_run.h"

#include "storage/crc32c.h"

#define STAGE_BYTES (4u * RUN_PIECE) /* copied and written at a time */

/* The head of a run in the making. */
struct run_head {
    struct page *image;
    size_t bytes;
};

static int head_make(struct ps_store *store, const struct run_ref *run, struct run_head *head)
{
    head->bytes = (size_t)run_head_pages(run->len, store->page_shift) << store->page_shift;
    head->image = calloc(1, head->bytes);
    if (head->image == NULL) {
        return PS_NOMEM;
    }
    head->image->kind = PAGE_FILE_RUN;
    head->image->number = run->ref;
    head->image->birth = run->birth;
    head->image->run_len = run->len;
    return 0;
}

static int failed(struct ps_store *store, int err, uint64_t offset)
{
    store_fault(store, PS_POISONED, err, store->file_path, offset, "writing an overflow run");
    atomic_store(&store->runs_failed, true);
    return store_poison(store, PS_POISONED);
}

/* Writes bytes of the data from `at` on, which is the beginning of a piece; whole pages but for
 * what `padded` has room for: the data, then zeros to the end of a page. */
static int write_pieces(struct ps_store *store, struct run_head *head, uint64_t at,
                        const uint8_t *bytes, size_t len, size_t padded)
{
    uint32_t *crcs = (uint32_t *)(void *)((uint8_t *)head->image + PAGE_HEADER);
    for (size_t i = 0; i < len; i += RUN_PIECE) {
        size_t n = len - i < RUN_PIECE ? len - i : RUN_PIECE;
        crcs[(at + i) / RUN_PIECE] = crc32c(0, bytes + i, n);
    }
    uint64_t offset = (head->image->number << store->page_shift) + head->bytes + at;
    int err = data_write(store, bytes, padded, offset);
    return err == 0 ? 0 : failed(store, err, offset);
}

static int write_head(struct ps_store *store, struct run_head *head)
{
    uint64_t pieces = (head->image->run_len + RUN_PIECE - 1) / RUN_PIECE;
    head->image->crc = page_crc(head->image, PAGE_HEADER + 4 * (size_t)pieces);
    uint64_t offset = head->image->number << store->page_shift;
    int err = data_write(store, head->image, head->bytes, offset);
    return err == 0 ? 0 : failed(store, err, offset);
}

/* ---- by the helper ----------------------------------------------------------------------------
 */

/* A part of the data, and, in the last one of a run, its head. */
struct run_job {
    struct helper_job job;
    struct run_head *head;
    bool last;
    uint64_t at; /* in the data */
    size_t len, padded;
    uint8_t bytes[];
};

void run_job_do(struct ps_store *store, struct run_job *job)
{
    int rc = write_pieces(store, job->head, job->at, job->bytes, job->len, job->padded);
    if (rc == 0 && job->last) {
        (void)write_head(store, job->head);
    }
}

void run_job_free(struct run_job *job)
{
    if (job->last) {
        free(job->head->image);
        free(job->head);
    }
    free(job);
}

static size_t padded_to_page(const struct ps_store *store, size_t len)
{
    return (len + store->page_size - 1) & ~((size_t)store->page_size - 1);
}

static struct run_job *job_make(struct ps_store *store, struct run_head *head,
                                struct ps_slice bytes, uint64_t at)
{
    size_t len = bytes.len - at < STAGE_BYTES ? bytes.len - at : STAGE_BYTES;
    size_t padded = padded_to_page(store, len);
    struct run_job *job = malloc(sizeof *job + padded);
    if (job != NULL) {
        *job = (struct run_job){.job.run = head->image->number,
                                .head = head,
                                .last = at + len == bytes.len,
                                .at = at,
                                .len = len,
                                .padded = padded};
        memcpy(job->bytes, (const uint8_t *)bytes.data + at, len);
        memset(job->bytes + len, 0, padded - len);
    }
    return job;
}

static int write_by_helper(struct ps_txn *txn, const struct run_ref *run, struct ps_slice bytes)
{
    struct ps_store *store = txn->view.store;
    struct run_head *head = malloc(sizeof *head);
    int rc = head == NULL ? PS_NOMEM : head_make(store, run, head);
    for (uint64_t at = 0; rc == 0 && at < bytes.len; at += STAGE_BYTES) {
        struct run_job *job = job_make(store, head, bytes, at);
        if (job == NULL) {
            rc = PS_NOMEM;
            helper_give_up(&store->helper, run->ref);
            free(head->image);
        } else {
            txn->group->helper_ticket = helper_put(&store->helper, &job->job);
        }
    }
    if (rc != 0) {
        free(head);
    }
    return rc;
}

/* ---- by the caller, where there is no helper --------------------------------------------------
 */

static int write_here(struct ps_store *store, const struct run_ref *run, struct ps_slice bytes)
{
    struct run_head head;
    int rc = head_make(store, run, &head);
    size_t whole = bytes.len & ~((size_t)RUN_PIECE - 1);
    const uint8_t *data = bytes.data;
    for (size_t at = 0; rc == 0 && at < whole; at += STAGE_BYTES) {
        size_t n = whole - at < STAGE_BYTES ? whole - at : STAGE_BYTES;
        rc = write_pieces(store, &head, at, data + at, n, n);
    }
    if (rc == 0 && whole < bytes.len) {
        size_t n = bytes.len - whole;
        size_t padded = padded_to_page(store, n);
        uint8_t *end = calloc(1, padded);
        rc = end == NULL ? PS_NOMEM : 0;
        if (rc == 0) {
            memcpy(end, data + whole, n);
            rc = write_pieces(store, &head, whole, end, n, padded);
        }
        free(end);
    }
    rc = rc == 0 ? write_head(store, &head) : rc;
    free(head.image);
    return rc;
}

int file_run_write(struct ps_txn *txn, const struct run_ref *run, struct ps_slice bytes)
{
    struct ps_store *store = txn->view.store;
    PS_ASSERT(run_is_long(bytes.len) && bytes.len == run->len);
    int rc = store->helper.runs ? write_by_helper(txn, run, bytes) : write_here(store, run, bytes);
    if (rc == 0) {
        store->stat.file_runs++;
        store->stat.file_run_bytes += bytes.len;
        store->stat.file_runs_rebuilt += txn->replay;
    }
    return rc;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

int file_run_part(struct ps_store *store, const struct run_ref *run, uint64_t from, uint64_t to,
                  const uint8_t **data)
{
    page_ref first = run->ref + run_head_pages(run->len, store->page_shift);
    *data = (const uint8_t *)page_at(store, first) + from;
    atomic_fetch_add_explicit(&store->file_runs_read, 1, memory_order_relaxed);
    if (likely(run_is_verified(store, page_at(store, run->ref), run))) {
        return 0;
    }
    helper_await_run(&store->helper, run->ref);
    return run_verify_part(store, run, from, to);
}

int file_run_data(struct ps_store *store, const struct run_ref *run, const uint8_t **data)
{
    return file_run_part(store, run, 0, run->len, data);
}
