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
#include "storage/pandostore.h"
#include "tests/model/rng.h"
#include "tests/support/store_dir.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCOUNTS    300u
#define BALANCE     1000u
#define ROWS        200u
#define READERS     3
#define LEAST_READS 20u
#define MOVES_FROM  20000u /* commits in which some reader must have moved */
#define PATIENCE    200u   /* commits that a patient reader lets pass before it is asked to move */

static const struct plan {
    uint32_t page_size;
    uint64_t slots;
    enum ps_durability level;
    unsigned transfers; /* in a transaction, at most */
} plans[] = {
    {4096, 160, PS_EVERYSEC, 1}, {4096, 256, PS_EVERYSEC, 2},   {4096, 1024, PS_ALWAYS, 6},
    {16384, 2048, PS_NONE, 6},   {4096, 8192, PS_EVERYSEC, 12},
};

#define PLANS (sizeof plans / sizeof *plans)

struct bank {
    const struct plan *plan;
    struct ps_store *store;
    ps_tree tree[3]; /* two of accounts, one of rows */
    uint64_t base;   /* sequence at which the counters are 0 */
    uint64_t seed, commits;
    atomic_ullong acknowledged;
    atomic_bool over;
    atomic_ullong reads, held, pinned, moved;
};

struct reader {
    struct bank *bank;
    struct rng rng;
    struct ps_snapshot *snap;
    uint64_t seq;
    unsigned number;
    bool patient; /* stops in the middle of its next walk until it is asked to move */
};

static void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("FAILED ");
    vprintf(format, arguments);
    va_end(arguments);
    printf("\nSUITE threads required=1 executed=1 passed=0 failed=1 skipped=0\n");
    fflush(stdout);
    _exit(1);
}

static void must(int rc, const char *call)
{
    if (rc)
        fail("%s answered %d (%s)", call, rc, ps_strerror(rc));
}

/* ---- rows ----------------------------------------------------------------------------------- */

struct name {
    char text[24];
};

static struct ps_slice account(struct name *name, unsigned number)
{
    int n = snprintf(name->text, sizeof name->text, "account %05u", number);
    return (struct ps_slice){name->text, (size_t)n};
}

static struct ps_slice row(struct name *name, uint64_t number)
{
    int n = snprintf(name->text, sizeof name->text, "%016llx", (unsigned long long)number);
    return (struct ps_slice){name->text, (size_t)n};
}

static const struct ps_slice counter_key = {"counter", 7};

static uint64_t number_in(struct ps_slice value)
{
    uint64_t n = 0;
    if (value.len < sizeof n)
        fail("a value of %zu bytes holds no number", value.len);
    memcpy(&n, value.data, sizeof n);
    return n;
}

static uint64_t read_number(struct ps_view *view, ps_tree tree, struct ps_slice key)
{
    struct ps_slice value;
    must(ps_get(view, tree, key, &value), "ps_get");
    return number_in(value);
}

/* A number, followed by some filling that makes entries of very different sizes. */
static void write_number(struct ps_txn *txn, ps_tree tree, struct ps_slice key, uint64_t number,
                         size_t filling)
{
    unsigned char value[8 + 2048];
    memset(value, 'v', sizeof value);
    memcpy(value, &number, 8);
    must(ps_put(txn, tree, key, (struct ps_slice){value, 8 + filling}), "ps_put");
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
    struct ps_slice from = account(&names[0], (unsigned)rng_below(rng, ACCOUNTS));
    uint64_t balance = read_number(ps_txn_view(txn), from_tree, from);
    uint64_t amount = rng_below(rng, balance + 1);
    write_number(txn, from_tree, from, balance - amount, random_filling(rng));
    struct ps_slice to = account(&names[1], (unsigned)rng_below(rng, ACCOUNTS));
    balance = read_number(ps_txn_view(txn), to_tree, to);
    write_number(txn, to_tree, to, balance + amount, random_filling(rng));
}

/* Something that must never be seen, between a savepoint and going back to it. */
static void undone(struct bank *b, struct ps_txn *txn, struct rng *rng)
{
    struct name name;
    must(ps_savepoint(txn), "ps_savepoint");
    write_number(txn, b->tree[0], account(&name, (unsigned)rng_below(rng, ACCOUNTS)), 1, 5);
    must(ps_delete(txn, b->tree[1], counter_key), "ps_delete");
    must(ps_savepoint_rollback(txn), "ps_savepoint_rollback");
}

/* One transaction's changes; the counter it writes. */
static uint64_t write_changes(struct bank *b, struct ps_txn *txn, struct rng *rng)
{
    struct name name;
    uint64_t counter = read_number(ps_txn_view(txn), b->tree[0], counter_key) + 1;
    unsigned transfers = (unsigned)rng_between(rng, 1, b->plan->transfers);
    must(ps_reserve(txn, 2 * transfers + 6, (2 * transfers + 6) * 2100), "ps_reserve");
    for (unsigned i = 0; i < transfers; i++)
        transfer(b, txn, rng);
    if (rng_one_in(rng, 4))
        undone(b, txn, rng);
    write_number(txn, b->tree[0], counter_key, counter, 0);
    write_number(txn, b->tree[1], counter_key, counter, 0);
    write_number(txn, b->tree[2], row(&name, counter), counter, random_filling(rng));
    if (counter > ROWS)
        must(ps_delete(txn, b->tree[2], row(&name, counter - ROWS)), "ps_delete");
    return counter;
}

static void *writer_main(void *arg)
{
    struct bank *b = arg;
    struct rng rng = rng_seed(b->seed, 1000);
    for (uint64_t done = 0; done < b->commits;) {
        struct ps_txn *txn;
        uint64_t seq = 0;
        must(ps_begin(b->store, &txn), "ps_begin");
        uint64_t counter = write_changes(b, txn, &rng);
        if (rng_one_in(&rng, 20)) {
            ps_abort(txn);
            continue;
        }
        enum ps_durability level = rng_one_in(&rng, 4) ? PS_EVERYSEC : PS_NONE;
        if (b->plan->level == PS_NONE)
            level = PS_NONE;
        if (rng_one_in(&rng, 2)) {
            must(ps_commit(txn, level, &seq), "ps_commit");
            atomic_store(&b->acknowledged, seq);
        } else {
            must(ps_commit_start(txn, level, rng_one_in(&rng, 2), &seq), "ps_commit_start");
        }
        if (seq != b->base + counter)
            fail("commit %llu has sequence %llu, not %llu", (unsigned long long)counter,
                 (unsigned long long)seq, (unsigned long long)(b->base + counter));
        done++;
    }
    atomic_store(&b->over, true);
    return NULL;
}

/* ---- readers -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t sum, struct ps_slice bytes)
{
    const unsigned char *at = bytes.data;
    for (size_t i = 0; i < bytes.len; i++)
        sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* Adds up the balances of one tree by many lookups at once. */
static uint64_t sum_by_lookups(struct ps_view *view, ps_tree tree)
{
    static _Thread_local struct name names[ACCOUNTS];
    static _Thread_local struct ps_lookup lookups[ACCOUNTS];
    uint64_t sum = 0;
    for (unsigned i = 0; i < ACCOUNTS; i++)
        lookups[i] = (struct ps_lookup){.tree = tree, .key = account(&names[i], i)};
    ps_get_many(view, lookups, ACCOUNTS);
    for (unsigned i = 0; i < ACCOUNTS; i++) {
        must(lookups[i].rc, "ps_get_many");
        sum += number_in(lookups[i].value);
    }
    return sum;
}

/* Between two steps of a walk: a reader that is asked to moves. A patient one waits for that, as a
 * slow one would be waited for. */
static void between_steps(struct reader *reader)
{
    struct bank *b = reader->bank;
    uint64_t until = atomic_load(&b->acknowledged) + PATIENCE;
    while (reader->patient && !ps_snapshot_should_move(reader->snap) && !atomic_load(&b->over) &&
           atomic_load(&b->acknowledged) < until)
        sched_yield();
    reader->patient = false;
    if (ps_snapshot_should_move(reader->snap)) {
        must(ps_snapshot_move(reader->snap), "ps_snapshot_move");
        atomic_fetch_add(&b->moved, 1);
    }
}

/* The same by a cursor, either way; *hash of everything that was seen. */
static uint64_t sum_by_cursor(struct reader *reader, ps_tree tree, bool forward, uint64_t *hash)
{
    struct ps_view *view = ps_snapshot_view(reader->snap);
    struct ps_cursor *cursor;
    struct ps_slice key, value;
    uint64_t sum = 0, seen = 0;
    must(ps_cursor_open(view, tree, &cursor), "ps_cursor_open");
    int rc = forward ? ps_cursor_first(cursor) : ps_cursor_last(cursor);
    for (; rc == 0; rc = forward ? ps_cursor_next(cursor) : ps_cursor_prev(cursor)) {
        must(ps_cursor_get(cursor, &key, &value), "ps_cursor_get");
        *hash += mix(mix(1, key), value); /* the same in both directions */
        seen++;
        if (key.len != counter_key.len)
            sum += number_in(value);
        if (seen == ACCOUNTS / 2 || seen % 16 == 0)
            between_steps(reader);
    }
    if (rc != PS_NOTFOUND || seen != ACCOUNTS + 1)
        fail("a walk ended after %llu entries with %d", (unsigned long long)seen, rc);
    ps_cursor_close(cursor);
    return sum;
}

static void check_rows(struct bank *b, struct ps_view *view, uint64_t counter)
{
    struct name name;
    struct ps_slice key;
    struct ps_cursor *cursor;
    uint64_t count = 0, rank = 0, expected = counter < ROWS ? counter : ROWS;
    must(ps_count(view, b->tree[2], &count), "ps_count");
    must(ps_rank(view, b->tree[2], row(&name, counter), &rank), "ps_rank");
    if (count != expected || (counter && rank != count - 1))
        fail("at commit %llu there are %llu rows, the last of rank %llu",
             (unsigned long long)counter, (unsigned long long)count, (unsigned long long)rank);
    must(ps_cursor_open(view, b->tree[2], &cursor), "ps_cursor_open");
    uint64_t number = counter - expected + 1;
    int rc = ps_cursor_select(cursor, 0);
    for (; rc == 0; rc = ps_cursor_next(cursor), number++) {
        struct ps_slice wanted = row(&name, number);
        must(ps_cursor_get(cursor, &key, NULL), "ps_cursor_get");
        if (key.len != wanted.len || memcmp(key.data, wanted.data, key.len) != 0)
            fail("at commit %llu row %llu is missing", (unsigned long long)counter,
                 (unsigned long long)number);
    }
    if (number != counter + 1)
        fail("at commit %llu the rows end with %llu", (unsigned long long)counter,
             (unsigned long long)number - 1);
    ps_cursor_close(cursor);
}

/* Verifies the snapshot that is held; the hash of its accounts. */
static uint64_t verify(struct reader *reader, bool forward)
{
    struct bank *b = reader->bank;
    struct ps_view *view = ps_snapshot_view(reader->snap);
    uint64_t counter = read_number(view, b->tree[0], counter_key);
    if (counter != read_number(view, b->tree[1], counter_key))
        fail("the two counters differ from %llu", (unsigned long long)counter);
    if (counter != ps_snapshot_seq(reader->snap) - b->base)
        fail("the counter is %llu in the state of sequence %llu", (unsigned long long)counter,
             (unsigned long long)ps_snapshot_seq(reader->snap));
    uint64_t hash = 0, sum = 0;
    for (int i = 0; i < 2; i++)
        sum += sum_by_cursor(reader, b->tree[i], forward, &hash);
    uint64_t again = sum_by_lookups(view, b->tree[0]) + sum_by_lookups(view, b->tree[1]);
    if (sum != 2 * ACCOUNTS * BALANCE || sum != again)
        fail("at commit %llu the balances add up to %llu by cursor and %llu by lookup",
             (unsigned long long)counter, (unsigned long long)sum, (unsigned long long)again);
    check_rows(b, view, counter);
    atomic_fetch_add(&b->reads, 1);
    return hash;
}

static void read_once(struct reader *reader)
{
    struct bank *b = reader->bank;
    uint64_t acknowledged = atomic_load(&b->acknowledged);
    ps_snapshot_renew(reader->snap);
    if (rng_one_in(&reader->rng, 12)) {
        must(ps_snapshot_pin(reader->snap), "ps_snapshot_pin");
        atomic_fetch_add(&b->pinned, 1);
    }
    uint64_t seq = ps_snapshot_seq(reader->snap);
    if (seq < acknowledged || seq < reader->seq)
        fail("a snapshot of %llu; %llu was acknowledged, %llu seen before", (unsigned long long)seq,
             (unsigned long long)acknowledged, (unsigned long long)reader->seq);
    reader->seq = seq;
    reader->patient = reader->number == 2 && rng_one_in(&reader->rng, 3);
    uint64_t hash = verify(reader, true);
    for (uint64_t i = rng_below(&reader->rng, 3); i > 0; i--) {
        if (verify(reader, false) != hash)
            fail("a held snapshot of %llu has changed", (unsigned long long)seq);
        atomic_fetch_add(&b->held, 1);
    }
    ps_snapshot_reset(reader->snap);
}

static void *reader_main(void *arg)
{
    struct reader *reader = arg;
    struct bank *b = reader->bank;
    must(ps_snapshot_new(b->store, &reader->snap), "ps_snapshot_new");
    for (uint64_t n = 0; n < LEAST_READS || !atomic_load(&b->over); n++) {
        read_once(reader);
        struct ps_stat stat;
        if (reader->number == 0)
            ps_stats(b->store, &stat);
        if (reader->number == 1 && rng_one_in(&reader->rng, 40))
            must(ps_checkpoint(b->store), "ps_checkpoint");
        if (reader->number == 2 && rng_one_in(&reader->rng, 20))
            must(ps_flush(b->store, ps_published(b->store)), "ps_flush");
    }
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
    };
    int rc = ps_open(dir, &options, &b->store, NULL, &fault);
    if (rc)
        fail("opening answered %d (%s): %s %s", rc, ps_strerror(rc), fault.file, fault.what);
}

/* Fills the accounts, a few in each transaction, the counters last. */
static void found_bank(struct bank *b)
{
    static const char *const names[] = {"left", "right", "rows"};
    struct name name;
    struct ps_txn *txn;
    must(ps_begin(b->store, &txn), "ps_begin");
    for (int i = 0; i < 3; i++)
        must(ps_tree_create(txn, (struct ps_slice){names[i], strlen(names[i])}, &b->tree[i]),
             "ps_tree_create");
    for (unsigned i = 0; i < 2 * ACCOUNTS; i++) {
        if (i % 10 == 0) {
            must(ps_commit(txn, PS_NONE, NULL), "ps_commit");
            must(ps_begin(b->store, &txn), "ps_begin");
        }
        write_number(txn, b->tree[i % 2], account(&name, i / 2), BALANCE, 0);
    }
    write_number(txn, b->tree[0], counter_key, 0, 0);
    write_number(txn, b->tree[1], counter_key, 0, 0);
    must(ps_commit(txn, PS_NONE, &b->base), "ps_commit");
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
        must(ps_check(b->store, finding, NULL), "ps_check");
        must(ps_snapshot_new(b->store, &last.snap), "ps_snapshot_new");
        ps_snapshot_renew(last.snap);
        if (ps_snapshot_seq(last.snap) != b->base + b->commits)
            fail("at the end there are %llu commits of %llu",
                 (unsigned long long)(ps_snapshot_seq(last.snap) - b->base),
                 (unsigned long long)b->commits);
        verify(&last, true);
        ps_snapshot_free(last.snap);
        must(ps_close(b->store, b->plan->level == PS_NONE), "ps_close");
        if (again == 0)
            open_bank(b, dir);
    }
}

static void run_plan(struct bank *b, const char *base)
{
    char dir[STORE_DIR_PATH + 16];
    struct ps_stat stat;
    pthread_t threads[READERS + 1];
    struct reader readers[READERS];
    snprintf(dir, sizeof dir, "%s/bank", base);
    open_bank(b, dir);
    found_bank(b);
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.bank = b, .rng = rng_seed(b->seed, i), .number = i};
        must(pthread_create(&threads[i], NULL, reader_main, &readers[i]), "pthread_create");
    }
    must(pthread_create(&threads[READERS], NULL, writer_main, b), "pthread_create");
    for (unsigned i = 0; i <= READERS; i++)
        pthread_join(threads[i], NULL);
    must(ps_flush(b->store, b->base + b->commits), "ps_flush");
    ps_stats(b->store, &stat);
    printf("NOTE threads: page %u, %llu slots, level %d: %llu commits, %llu states verified, %llu "
           "held, %llu pinned, %llu moved; %llu checkpoints, %llu relinks, %llu slot waits, %llu "
           "snapshot retries\n",
           b->plan->page_size, (unsigned long long)b->plan->slots, b->plan->level,
           (unsigned long long)b->commits, (unsigned long long)b->reads,
           (unsigned long long)b->held, (unsigned long long)b->pinned, (unsigned long long)b->moved,
           (unsigned long long)stat.checkpoints, (unsigned long long)stat.relinks,
           (unsigned long long)stat.slot_waits, (unsigned long long)stat.snapshot_retries);
    fflush(stdout);
    close_bank(b, dir);
    store_dir_remove(dir);
}

int run_threads(const char *base, uint64_t seed, uint64_t commits)
{
    uint64_t done = 0, moved = 0;
    for (size_t i = 0; i < PLANS; i++) {
        struct bank bank = {.plan = &plans[i], .seed = seed + i};
        bank.commits = i + 1 < PLANS ? commits / PLANS : commits - done;
        run_plan(&bank, base);
        done += bank.commits;
        moved += bank.moved;
    }
    if (commits >= MOVES_FROM && moved == 0)
        fail("no reader was asked to move");
    printf("SUITE threads required=%llu executed=%llu passed=%llu failed=0 skipped=0\n",
           (unsigned long long)commits, (unsigned long long)done, (unsigned long long)done);
    return 0;
}
