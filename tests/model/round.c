/*
 * round.c - one round of the model test: its configuration, and which operation comes next.
 *
 * Invariant: everything random comes from r->rng, in an order that depends on nothing but the
 * round's own operations and the engine's answers.
 */
#include "tests/model/round.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *show(struct ps_slice s)
{
    static char buffers[6][160];
    static unsigned next;
    char *out = buffers[next++ % 6], *at = out;
    const unsigned char *bytes = s.data;
    at += sprintf(at, "%zu bytes [", s.len);
    for (size_t i = 0; i < s.len; i++) {
        if (i == 20 && s.len > 40) {
            at += sprintf(at, "...");
            i = s.len - 16;
        }
        at += sprintf(at, bytes[i] > 32 && bytes[i] < 127 ? "%c" : "\\%02x", bytes[i]);
    }
    sprintf(at, "]");
    return out;
}

void round_fail(struct round *r, const char *format, ...)
{
    va_list arguments;
    printf("FAILED seed %llu round %llu operation %llu (%s):\n  ", (unsigned long long)r->seed,
           (unsigned long long)r->number, (unsigned long long)r->progress->operations,
           r->progress->doing);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    struct ps_fault fault = {0};
    if (r->store)
        ps_last_fault(r->store, &fault);
    if (fault.code)
        printf("\n  last fault: %s, %s at %llu: %s (errno %d)", ps_strerror(fault.code), fault.file,
               (unsigned long long)fault.offset, fault.what, fault.sys_errno);
    printf("\n");
    fflush(stdout);
    _exit(1);
}

void round_must(struct round *r, int rc, const char *call)
{
    if (rc)
        round_fail(r, "%s answered %d (%s)", call, rc, ps_strerror(rc));
}

struct ps_slice tree_name(int tree)
{
    static char long_name[PS_MAX_TREE_NAME];
    static const char *const names[] = {"keys", "elements", "e", "elements0", "\xff\x01 x"};
    if (tree < 5)
        return (struct ps_slice){names[tree], strlen(names[tree])};
    memset(long_name, 'N', sizeof long_name);
    return (struct ps_slice){long_name, sizeof long_name};
}

int pick_tree(struct round *r, const struct map *map)
{
    int tree = (int)rng_below(&r->rng, MAP_TREES);
    for (int i = 0; i < MAP_TREES; i++, tree = (tree + 1) % MAP_TREES) {
        if (map->tree[tree].exists)
            return tree;
    }
    return -1;
}

/* Turns the key in the buffer into a close neighbour of it. */
static struct ps_slice neighbour(struct round *r, unsigned char *buffer, size_t len)
{
    switch (rng_below(&r->rng, 4)) {
    case 0:
        len -= len > 0;
        break;
    case 1:
        if (len < MODEL_MAX_KEY)
            buffer[len++] = 0;
        break;
    case 2:
        if (len > 0)
            buffer[len - 1]++;
        break;
    default:
        if (len > 0)
            buffer[len - 1]--;
    }
    return (struct ps_slice){buffer, len};
}

struct ps_slice pick_key(struct round *r, const struct map *map, int tree, unsigned char *buffer)
{
    const struct table *table = map->tree[tree].table;
    if (table->n == 0 || rng_one_in(&r->rng, 3))
        return keygen_next(&r->keys[tree], &r->rng, buffer);
    struct ps_slice key = table->at[rng_below(&r->rng, table->n)]->key;
    if (key.len)
        memcpy(buffer, key.data, key.len);
    if (rng_one_in(&r->rng, 6))
        return neighbour(r, buffer, key.len);
    return (struct ps_slice){buffer, key.len};
}

/* A read on the transaction, on a snapshot that is held, or on a fresh one. */
static void op_read(struct round *r)
{
    struct side side = {.name = "transaction"};
    if (r->txn && rng_one_in(&r->rng, 2)) {
        side.view = ps_txn_view(r->txn);
        side.map = &r->now;
        read_something(r, &side);
        return;
    }
    struct held *held = &r->held[rng_below(&r->rng, HELD)];
    if (held->snap) {
        side = (struct side){ps_snapshot_view(held->snap), &held->map, "held snapshot"};
        if (rng_one_in(&r->rng, 3))
            scan_on(r, held);
        else
            read_something(r, &side);
        return;
    }
    ps_snapshot_renew(r->fresh);
    uint64_t seq = ps_snapshot_seq(r->fresh);
    side = (struct side){ps_snapshot_view(r->fresh), history_find(r, seq), "fresh snapshot"};
    read_something(r, &side);
    ps_snapshot_reset(r->fresh);
}

static const struct operation {
    const char *name;
    void (*run)(struct round *r);
    unsigned weight;
} operations[] = {
    {"read", op_read, 45000},
    {"change", op_change, 45000},
    {"walker", op_walker, 4000},
    {"savepoint", op_savepoint, 3500},
    {"reserve", op_reserve, 500},
    {"bulk", op_bulk, 300},
    {"refill", op_refill, 100},
    {"shrink", op_shrink, 60},
    {"trees", op_trees, 400},
    {"options", op_options, 250},
    {"merge", op_merge, 4000},
    {"clear", op_clear, 100},
    {"delete a range", op_delete_range, 700},
    {"hold a snapshot", op_hold, 600},
    {"checkpoint", op_checkpoint, 200},
    {"reopen", op_reopen, 40},
    {"crash", op_crash, 60},
    {"log failure", op_log_failure, 60},
    {"durability", op_durability, 30},
};

#define OPERATIONS (sizeof operations / sizeof *operations)

static const struct operation *pick_operation(struct round *r)
{
    unsigned sum = 0;
    for (size_t i = 0; i < OPERATIONS; i++)
        sum += operations[i].weight;
    unsigned at = (unsigned)rng_below(&r->rng, sum);
    const struct operation *op = operations;
    for (; at >= op->weight; op++)
        at -= op->weight;
    return op;
}

/* The arena goes round with the round's number, so that every few rounds see each size. */
static void configure(struct round *r)
{
    static const uint64_t slots[] = {64, 4096, 128, 1024, 64, 256, 16384, 96};
    static const uint32_t pages[] = {4096, 4096, 16384};
    static const unsigned every[] = {1, 4, 25, 150, 1500};
    static const size_t targets[] = {40, 300, 1500, 5000};
    static const unsigned trees[] = {1, 2, MAP_TREES};
    struct rng *rng = &r->rng;
    struct config *c = &r->config;
    c->page_size = pages[rng_below(rng, 3)];
    c->slots = slots[r->number % 8] * (c->page_size / 4096);
    c->level = (enum ps_durability)rng_below(rng, 3);
    c->manual_checkpoint = rng_one_in(rng, 4);
    c->trees = trees[rng_below(rng, 3)];
    c->segment = rng_one_in(rng, 2) ? 262144 : 1048576;
    c->commit_every = every[rng_below(rng, 5)];
    c->target = targets[rng_below(rng, 4)];
    c->rare = rng_one_in(rng, 3) ? 10 : 200;
    c->log_failures = rng_one_in(rng, 2);
    c->whole = rng_one_in(rng, 3) ? 4 : 1000;
    c->bulk = rng_one_in(rng, 2);
    for (int i = 0; i < MAP_TREES; i++) {
        enum key_kind kind = (enum key_kind)rng_below(rng, KEY_KINDS);
        bool heavy = kind == KEY_HUGE;
        r->keys[i] = (struct keygen){kind, c->page_size, heavy ? 40 : c->target * 2, 1};
    }
}

static void describe(const struct round *r)
{
    const struct config *c = &r->config;
    printf("round %llu: page %u, %llu slots, level %d, %s checkpoints, segment %llu, commit every "
           "%u, %u trees of %zu entries, keys",
           (unsigned long long)r->number, c->page_size, (unsigned long long)c->slots, c->level,
           c->manual_checkpoint ? "manual" : "own", (unsigned long long)c->segment, c->commit_every,
           c->trees, c->target);
    for (int i = 0; i < MAP_TREES; i++)
        printf(" %s", key_kind_names[r->keys[i].kind]);
    printf("\n");
    fflush(stdout);
}

void name_dir(const struct round *r, char path[STORE_DIR_PATH], unsigned number)
{
    int n = snprintf(path, STORE_DIR_PATH, "%s/%llu-%u", r->base, (unsigned long long)r->number,
                     number);
    if (n < 0 || n >= STORE_DIR_PATH)
        abort();
}

/* Ends with everything compared, in the running store and after opening it once more. */
static void finish(struct round *r)
{
    r->progress->doing = "end of the round";
    if (r->txn)
        end_transaction(r, false);
    release_held(r, true);
    disarm(r);
    wait_published(r);
    check_structure(r);
    for (int again = 0; again < 2; again++) {
        bool checkpoint = again || rng_one_in(&r->rng, 2);
        uint64_t low = checkpoint ? r->last_seq : must_survive(r);
        close_store(r, checkpoint);
        open_store(r, low, r->last_seq, checkpoint);
        check_structure(r);
    }
    close_store(r, false);
}

void round_run(struct round *r)
{
    r->rng = rng_seed(r->seed, r->number);
    configure(r);
    if (r->verbose)
        describe(r);
    r->fs = crashfs_new(rng_one_in(&r->rng, 6));
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    name_dir(r, r->dir, r->dirs++);
    r->progress->doing = "open";
    open_store(r, 0, 0, true);
    begin_transaction(r);
    make_trees(r);
    for (uint64_t i = 0; i < r->length; i++) {
        const struct operation *op = pick_operation(r);
        r->progress->doing = op->name;
        if (r->verbose)
            printf("%llu %s\n", (unsigned long long)i, op->name);
        op->run(r);
        if (r->armed && crashfs_taken(r->fs))
            follow_crash(r);
        release_held(r, false);
        r->progress->operations++;
    }
    finish(r);
    for (size_t i = 0; i < r->past; i++)
        map_free(&r->history[i].map);
    map_free(&r->committed);
    crashfs_free(r->fs);
    pthread_mutex_destroy(&r->mutex);
    pthread_cond_destroy(&r->changed);
    store_dir_remove(r->dir);
    r->progress->done = true;
}
