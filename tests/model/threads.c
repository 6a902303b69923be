/*
 * threads.c - one writer and several readers on one store, at once.
 *
 * Two trees hold accounts whose balances are moved about, and both a counter; a third holds one row
 * for each of the last transactions. True in every committed state, and verified by every reader on
 * every snapshot:
 *  1. The balances of both trees add up to what they were made with.
 *  2. Both counters are the same: the number of commits, which the snapshot's sequence tells too.
 *  3. The third tree holds exactly the rows of the last ROWS commits; count and rank say so.
 *  4. A snapshot is of a commit at least as new as the last one acknowledged before it was taken,
 *     and a snapshot that is held reads the same again, also when it had to move to the file in the
 *     middle of a walk.
 */
#include "tests/model/threads.h"
#include "tests/model/bank.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/store_dir.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READERS     3
#define LEAST_READS 20u

/* One transaction in so many */
#define SPREE_ONE_IN 40u
#define LONG_ONE_IN  12u
#define FAULT_ONE_IN 60u

#define SPREE_FILLING 700u /* bytes beside a balance */
#define LONG_LEAST    70000u
#define LONG_MOST     150000u

#define ALL_ACTS   1500u  /* commits in which everything was done that there is no luck in */
#define MOVES_FROM 20000u /* and in which some reader must have moved */

static const struct plan plans[] = {
    {4096, 160, PS_EVERYSEC, 1}, {4096, 256, PS_EVERYSEC, 2},   {4096, 1024, PS_ALWAYS, 6},
    {16384, 2048, PS_NONE, 6},   {4096, 8192, PS_EVERYSEC, 12},
};

#define PLANS (sizeof plans / sizeof *plans)

static const struct {
    const char *name;
    bool always; /* in any run of ALL_ACTS commits */
} acts[BANK_ACTS] = {
    [ACT_HELD] = {"held", true},
    [ACT_PINNED] = {"pinned", true},
    [ACT_MOVED] = {"moved", false},
    [ACT_GET_MANY] = {"get_manys", true},
    [ACT_GET_PART] = {"get_parts", true},
    [ACT_PROBED] = {"probes", true},
    [ACT_PROBED_MANY] = {"probes_of_many", true},
    [ACT_RESIDENT] = {"found_in_memory", true},
    [ACT_ROLLED_BACK] = {"rollbacks", true},
    [ACT_RELEASED] = {"released", true},
    [ACT_SPREES] = {"sprees", true},
    [ACT_LOG_FAULTS] = {"log_faults", true},
    [ACT_DROPPED] = {"dropped", true},
};

/* Whether a change was made. With its log gone a transaction is good for nothing but aborting. */
static bool changed(struct bank *b, int rc, const char *call)
{
    b->lost = b->lost || (rc == PS_IO && atomic_load(&b->acts[ACT_LOG_FAULTS]) > 0);
    if (!b->lost)
        bank_must(rc, call);
    return rc == 0;
}

/* A number, followed by some filling that makes entries of very different sizes. */
static void write_number(struct bank *b, struct ps_txn *txn, ps_tree tree, struct ps_slice key,
                         uint64_t number, size_t filling)
{
    unsigned char value[8 + 2048];
    memset(value, 'v', sizeof value);
    memcpy(value, &number, 8);
    changed(b, ps_put(txn, tree, key, (struct ps_slice){value, 8 + filling}), "ps_put");
}

static size_t random_filling(struct rng *rng)
{
    return rng_one_in(rng, 30) ? rng_below(rng, 2048) : rng_below(rng, 60);
}

/* ---- the writer ----------------------------------------------------------------------------- */

static void transfer(struct bank *b, struct ps_txn *txn, struct rng *rng)
{
    struct name names[2];
    ps_tree from_tree = b->tree[rng_below(rng, 2)], to_tree = b->tree[rng_below(rng, 2)];
    struct ps_slice from = bank_account(&names[0], (unsigned)rng_below(rng, ACCOUNTS));
    uint64_t balance = bank_read_number(ps_txn_view(txn), from_tree, from);
    uint64_t amount = rng_below(rng, balance + 1);
    write_number(b, txn, from_tree, from, balance - amount, random_filling(rng));
    struct ps_slice to = bank_account(&names[1], (unsigned)rng_below(rng, ACCOUNTS));
    balance = bank_read_number(ps_txn_view(txn), to_tree, to);
    write_number(b, txn, to_tree, to, balance + amount, random_filling(rng));
}

/* Something that must never be seen, between a savepoint and going back to it. */
static void undone(struct bank *b, struct ps_txn *txn, struct rng *rng)
{
    struct name name;
    if (!changed(b, ps_savepoint(txn), "ps_savepoint"))
        return;
    write_number(b, txn, b->tree[0], bank_account(&name, (unsigned)rng_below(rng, ACCOUNTS)), 1, 5);
    changed(b, ps_delete(txn, b->tree[1], bank_counter_key()), "ps_delete");
    changed(b, ps_savepoint_rollback(txn), "ps_savepoint_rollback");
    bank_did(b, ACT_ROLLED_BACK);
}

/* The same inside a savepoint that is kept. */
static void kept(struct bank *b, struct ps_txn *txn, struct rng *rng)
{
    if (!changed(b, ps_savepoint(txn), "ps_savepoint"))
        return;
    transfer(b, txn, rng);
    undone(b, txn, rng);
    changed(b, ps_savepoint_release(txn), "ps_savepoint_release");
    bank_did(b, ACT_RELEASED);
}

/* Writes every account anew, its balance as it was, or (wrong) something that nobody may see. */
static void rewrite_all(struct bank *b, struct ps_txn *txn, bool wrong)
{
    struct name name;
    for (unsigned i = 0; i < 2 * ACCOUNTS; i++) {
        struct ps_slice key = bank_account(&name, i / 2);
        uint64_t balance = bank_read_number(ps_txn_view(txn), b->tree[i % 2], key);
        write_number(b, txn, b->tree[i % 2], key, balance + wrong, SPREE_FILLING);
    }
}

/* More than small plans have dirty memory for: it spills, with a savepoint in between. */
static void spree(struct bank *b, struct ps_txn *txn)
{
    rewrite_all(b, txn, false);
    if (!changed(b, ps_savepoint(txn), "ps_savepoint"))
        return;
    rewrite_all(b, txn, true);
    changed(b, ps_savepoint_rollback(txn), "ps_savepoint_rollback");
    rewrite_all(b, txn, false);
    bank_did(b, ACT_SPREES);
}

/* A value that goes to a run of the file. */
static void write_long(struct bank *b, struct ps_txn *txn, struct rng *rng, uint64_t counter)
{
    static unsigned char value[LONG_MOST];
    size_t len = rng_between(rng, LONG_LEAST, LONG_MOST);
    for (size_t i = 0; i < len; i++)
        value[i] = bank_long_byte(counter, i);
    changed(b, ps_put(txn, b->tree[3], bank_long_key(), (struct ps_slice){value, len}), "ps_put");
}

/* The oldest row as the range that it is. */
static void delete_rows_before(struct bank *b, struct ps_txn *txn, uint64_t counter)
{
    struct name name;
    struct ps_slice end = bank_row(&name, counter);
    uint64_t deleted;
    changed(b, ps_delete_range(txn, b->tree[2], NULL, &end, 0, &deleted), "ps_delete_range");
}

/* Another compression from now on: readers meet values stored in every way. */
static void change_options(struct bank *b, struct ps_txn *txn, struct rng *rng)
{
    struct ps_tree_options options = {.compression = (enum ps_compression)rng_below(rng, 3)};
    changed(b, ps_tree_set(txn, b->tree[rng_below(rng, 4)], &options), "ps_tree_set");
}

/* One transaction's changes; the counter it writes. */
static void write_changes(struct bank *b, struct ps_txn *txn, struct rng *rng, uint64_t counter)
{
    struct name name;
    if (rng_one_in(rng, SPREE_ONE_IN)) {
        ps_keep_whole(txn);
        spree(b, txn);
    } else {
        unsigned transfers = (unsigned)rng_between(rng, 1, b->plan->transfers);
        changed(b, ps_reserve(txn, 2 * transfers + 12, (2 * transfers + 12) * 2100), "ps_reserve");
        for (unsigned i = 0; i < transfers; i++)
            transfer(b, txn, rng);
        if (rng_one_in(rng, 4))
            undone(b, txn, rng);
        if (rng_one_in(rng, 8))
            kept(b, txn, rng);
    }
    write_number(b, txn, b->tree[0], bank_counter_key(), counter, 0);
    write_number(b, txn, b->tree[1], bank_counter_key(), counter, 0);
    write_number(b, txn, b->tree[2], bank_row(&name, counter), counter, random_filling(rng));
    if (counter > ROWS && counter % 2)
        changed(b, ps_delete(txn, b->tree[2], bank_row(&name, counter - ROWS)), "ps_delete");
    else if (counter > ROWS)
        delete_rows_before(b, txn, counter - ROWS + 1);
    if (rng_one_in(rng, LONG_ONE_IN))
        write_long(b, txn, rng, counter);
    if (rng_one_in(rng, 16))
        change_options(b, txn, rng);
}

/* The next write of the log fails: what is not published then is dropped, and begins again. */
static void break_log(struct bank *b)
{
    fault_vfs_fail(b->faults, FAULT_PWRITE, FAULT_LOG, 1, EIO, false);
    bank_did(b, ACT_LOG_FAULTS);
}

/* Commits one way or another; whether anything went wrong that a failing log may cause. */
static void end_transaction(struct bank *b, struct ps_txn *txn, struct rng *rng, uint64_t counter)
{
    uint64_t seq = 0;
    enum ps_durability level = rng_one_in(rng, 4) ? PS_EVERYSEC : PS_NONE;
    if (b->plan->level == PS_NONE)
        level = PS_NONE;
    bool wait = rng_one_in(rng, 2);
    int rc =
        wait ? ps_commit(txn, level, &seq) : ps_commit_start(txn, level, rng_one_in(rng, 2), &seq);
    if ((rc == PS_UNKNOWN || rc == PS_IO) && atomic_load(&b->acts[ACT_LOG_FAULTS]) > 0) {
        bank_did(b, ACT_DROPPED);
        return;
    }
    bank_must(rc, wait ? "ps_commit" : "ps_commit_start");
    if (seq != b->base + counter)
        bank_fail("commit %llu has sequence %llu, not %llu", (unsigned long long)counter,
                  (unsigned long long)seq, (unsigned long long)(b->base + counter));
    if (wait)
        atomic_store(&b->acknowledged, seq);
}

/* Commits until so many are published: what a failing log drops is made up for. */
static void *writer_main(void *arg)
{
    struct bank *b = arg;
    struct rng rng = rng_seed(b->seed, 1000);
    for (;;) {
        struct ps_txn *txn;
        bank_must(ps_begin(b->store, &txn), "ps_begin");
        uint64_t counter = bank_read_number(ps_txn_view(txn), b->tree[0], bank_counter_key()) + 1;
        if (counter > b->commits) {
            ps_abort(txn);
            int rc = ps_flush(b->store, b->base + b->commits);
            if (rc == 0)
                break;
            if (rc != PS_UNKNOWN && rc != PS_IO)
                bank_must(rc, "ps_flush");
            continue;
        }
        if (b->plan->level != PS_NONE && rng_one_in(&rng, FAULT_ONE_IN))
            break_log(b);
        b->lost = false;
        write_changes(b, txn, &rng, counter);
        if (b->lost || rng_one_in(&rng, 20))
            ps_abort(txn);
        else
            end_transaction(b, txn, &rng, counter);
    }
    fault_vfs_fail(b->faults, FAULT_PWRITE, FAULT_LOG, 0, EIO, false);
    atomic_store(&b->over, true);
    return NULL;
}

/* ---- readers --------------------------------------------------------------------------------- */

static void read_once(struct reader *reader)
{
    struct bank *b = reader->bank;
    uint64_t acknowledged = atomic_load(&b->acknowledged);
    ps_snapshot_renew(reader->snap);
    if (rng_one_in(&reader->rng, 12)) {
        bank_must(ps_snapshot_pin(reader->snap), "ps_snapshot_pin");
        bank_did(b, ACT_PINNED);
    }
    uint64_t seq = ps_snapshot_seq(reader->snap);
    if (seq < acknowledged || seq < reader->seq)
        bank_fail("a snapshot of %llu; %llu was acknowledged, %llu seen before",
                  (unsigned long long)seq, (unsigned long long)acknowledged,
                  (unsigned long long)reader->seq);
    reader->seq = seq;
    reader->patient = reader->number == 2 && rng_one_in(&reader->rng, 3);
    uint64_t hash = bank_verify(reader, true);
    for (uint64_t i = rng_below(&reader->rng, 3); i > 0; i--) {
        if (bank_verify(reader, false) != hash)
            bank_fail("a held snapshot of %llu has changed", (unsigned long long)seq);
        bank_did(b, ACT_HELD);
    }
    ps_snapshot_reset(reader->snap);
}

static void *reader_main(void *arg)
{
    struct reader *reader = arg;
    struct bank *b = reader->bank;
    bank_must(ps_snapshot_new(b->store, &reader->snap), "ps_snapshot_new");
    bank_must(ps_residency_new(b->store, &reader->residency), "ps_residency_new");
    for (uint64_t n = 0; n < LEAST_READS || !atomic_load(&b->over); n++) {
        read_once(reader);
        struct ps_stat stat;
        if (reader->number == 0)
            ps_stats(b->store, &stat);
        if (reader->number == 1 && rng_one_in(&reader->rng, 40))
            bank_must(ps_checkpoint(b->store), "ps_checkpoint");
        if (reader->number == 2 && rng_one_in(&reader->rng, 20))
            bank_must(ps_flush(b->store, ps_published(b->store)), "ps_flush");
    }
    ps_residency_free(reader->residency);
    ps_snapshot_free(reader->snap);
    return NULL;
}

/* ---- a plan from beginning to end ------------------------------------------------------------ */

static void open_bank(struct bank *b, const char *dir)
{
    struct ps_fault fault = {0};
    struct ps_options options = {
        .page_size = b->plan->page_size,
        .dirty_memory = b->plan->slots * 4096,
        .map_size = UINT64_C(1) << 34,
        .log_segment_size = 1048576,
        .durability = b->plan->level,
        .vfs = fault_vfs(b->faults),
    };
    int rc = ps_open(dir, &options, &b->store, NULL, &fault);
    if (rc)
        bank_fail("opening answered %d (%s): %s %s", rc, ps_strerror(rc), fault.file, fault.what);
}

/* Fills the accounts, a few in each transaction, the counters last. */
static void found_bank(struct bank *b)
{
    static const char *const names[] = {"left", "right", "rows", "statements"};
    struct name name;
    struct ps_txn *txn;
    bank_must(ps_begin(b->store, &txn), "ps_begin");
    for (int i = 0; i < 4; i++)
        bank_must(ps_tree_create(txn, (struct ps_slice){names[i], strlen(names[i])}, &b->tree[i]),
                  "ps_tree_create");
    for (unsigned i = 0; i < 2 * ACCOUNTS; i++) {
        if (i % 10 == 0) {
            bank_must(ps_commit(txn, PS_NONE, NULL), "ps_commit");
            bank_must(ps_begin(b->store, &txn), "ps_begin");
        }
        write_number(b, txn, b->tree[i % 2], bank_account(&name, i / 2), BALANCE, 0);
    }
    write_number(b, txn, b->tree[0], bank_counter_key(), 0, 0);
    write_number(b, txn, b->tree[1], bank_counter_key(), 0, 0);
    bank_must(ps_commit(txn, PS_NONE, &b->base), "ps_commit");
    atomic_store(&b->acknowledged, b->base);
}

static void finding(void *arg, const char *line)
{
    (void)arg;
    printf("ps_check: %s\n", line);
}

/* Everything once more, alone, before and after opening again. */
static void close_bank(struct bank *b, const char *dir)
{
    struct reader last = {.bank = b};
    for (int again = 0; again < 2; again++) {
        bank_must(ps_check(b->store, finding, NULL), "ps_check");
        bank_must(ps_snapshot_new(b->store, &last.snap), "ps_snapshot_new");
        bank_must(ps_residency_new(b->store, &last.residency), "ps_residency_new");
        ps_snapshot_renew(last.snap);
        if (ps_snapshot_seq(last.snap) != b->base + b->commits)
            bank_fail("at the end there are %llu commits of %llu",
                      (unsigned long long)(ps_snapshot_seq(last.snap) - b->base),
                      (unsigned long long)b->commits);
        bank_verify(&last, true);
        ps_residency_free(last.residency);
        ps_snapshot_free(last.snap);
        bank_must(ps_close(b->store, b->plan->level == PS_NONE), "ps_close");
        if (again == 0)
            open_bank(b, dir);
    }
}

/* The pages that it spilled. */
static uint64_t run_plan(struct bank *b, const char *base)
{
    char dir[STORE_DIR_PATH + 16];
    struct ps_stat stat;
    pthread_t threads[READERS + 1];
    struct reader readers[READERS];
    snprintf(dir, sizeof dir, "%s/bank", base);
    b->faults = fault_vfs_new();
    open_bank(b, dir);
    found_bank(b);
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.bank = b, .rng = rng_seed(b->seed, i), .number = i};
        bank_must(pthread_create(&threads[i], NULL, reader_main, &readers[i]), "pthread_create");
    }
    bank_must(pthread_create(&threads[READERS], NULL, writer_main, b), "pthread_create");
    for (unsigned i = 0; i <= READERS; i++)
        pthread_join(threads[i], NULL);
    bank_must(ps_flush(b->store, b->base + b->commits), "ps_flush");
    ps_stats(b->store, &stat);
    printf("NOTE threads: page %u, %llu slots, level %d: %llu commits, %llu states verified;",
           b->plan->page_size, (unsigned long long)b->plan->slots, b->plan->level,
           (unsigned long long)b->commits, (unsigned long long)b->reads);
    for (int i = 0; i < BANK_ACTS; i++)
        printf(" %s %llu", acts[i].name, (unsigned long long)b->acts[i]);
    printf(
        "; checkpoints %llu relinks %llu slot_waits %llu snapshot_retries %llu spilled_pages %llu "
        "file_runs %llu states_dropped %llu values_decompressed %llu\n",
        (unsigned long long)stat.checkpoints, (unsigned long long)stat.relinks,
        (unsigned long long)stat.slot_waits, (unsigned long long)stat.snapshot_retries,
        (unsigned long long)stat.spilled_pages, (unsigned long long)stat.file_runs,
        (unsigned long long)stat.states_dropped, (unsigned long long)stat.values_decompressed);
    if (stat.values_decompressed == 0 && b->commits >= 300)
        bank_fail("no value was decompressed in %llu commits", (unsigned long long)b->commits);
    fflush(stdout);
    close_bank(b, dir);
    fault_vfs_free(b->faults);
    store_dir_remove(dir);
    return stat.spilled_pages;
}

/* An action that was never taken is a failure. */
static void require_acts(const uint64_t sums[BANK_ACTS], uint64_t spilled, uint64_t commits)
{
    for (int i = 0; i < BANK_ACTS; i++)
        if (sums[i] == 0 && commits >= (acts[i].always ? ALL_ACTS : MOVES_FROM))
            bank_fail("no %s in %llu commits", acts[i].name, (unsigned long long)commits);
    if (spilled == 0 && commits >= ALL_ACTS)
        bank_fail("no page was spilled in %llu commits", (unsigned long long)commits);
}

int run_threads(const char *base, uint64_t seed, uint64_t commits)
{
    uint64_t done = 0, spilled = 0, sums[BANK_ACTS] = {0};
    for (size_t i = 0; i < PLANS; i++) {
        struct bank bank = {.plan = &plans[i], .seed = seed + i};
        bank.commits = i + 1 < PLANS ? commits / PLANS : commits - done;
        spilled += run_plan(&bank, base);
        done += bank.commits;
        for (int k = 0; k < BANK_ACTS; k++)
            sums[k] += bank.acts[k];
    }
    require_acts(sums, spilled, commits);
    printf("SUITE threads required=%llu executed=%llu passed=%llu failed=0 skipped=0\n",
           (unsigned long long)commits, (unsigned long long)done, (unsigned long long)done);
    return 0;
}
