/*
 * bank_reads.c - what every reader verifies on every snapshot (threads.c says what is true), by
 * every way there is to read: single and many lookups, cursors, ranks, probes, parts of long
 * values.
 */
#include "tests/model/bank.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE 200u /* commits that a patient reader lets pass before it is asked to move */

void bank_fail(const char *format, ...)
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

void bank_must(int rc, const char *call)
{
    if (rc)
        bank_fail("%s answered %d (%s)", call, rc, ps_strerror(rc));
}

void bank_did(struct bank *b, enum bank_act act)
{
    atomic_fetch_add_explicit(&b->acts[act], 1, memory_order_relaxed);
}

/* ---- rows ----------------------------------------------------------------------------------- */

struct ps_slice bank_account(struct name *name, unsigned number)
{
    int n = snprintf(name->text, sizeof name->text, "account %05u", number);
    return (struct ps_slice){name->text, (size_t)n};
}

struct ps_slice bank_row(struct name *name, uint64_t number)
{
    int n = snprintf(name->text, sizeof name->text, "%016llx", (unsigned long long)number);
    return (struct ps_slice){name->text, (size_t)n};
}

struct ps_slice bank_counter_key(void)
{
    return (struct ps_slice){"counter", 7};
}

struct ps_slice bank_long_key(void)
{
    return (struct ps_slice){"statement", 9};
}

unsigned char bank_long_byte(uint64_t counter, uint64_t i)
{
    if (i < sizeof counter)
        return ((const unsigned char *)&counter)[i];
    return (unsigned char)(counter * 31 + i / 256 + i);
}

uint64_t bank_number_in(struct ps_slice value)
{
    uint64_t n = 0;
    if (value.len < sizeof n)
        bank_fail("a value of %zu bytes holds no number", value.len);
    memcpy(&n, value.data, sizeof n);
    return n;
}

uint64_t bank_read_number(struct ps_view *view, ps_tree tree, struct ps_slice key)
{
    struct ps_slice value;
    bank_must(ps_get(view, tree, key, &value), "ps_get");
    return bank_number_in(value);
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
static uint64_t sum_by_lookups(struct bank *b, struct ps_view *view, ps_tree tree)
{
    static _Thread_local struct name names[ACCOUNTS];
    static _Thread_local struct ps_lookup lookups[ACCOUNTS];
    uint64_t sum = 0;
    for (unsigned i = 0; i < ACCOUNTS; i++)
        lookups[i] = (struct ps_lookup){.tree = tree, .key = bank_account(&names[i], i)};
    ps_get_many(view, lookups, ACCOUNTS);
    bank_did(b, ACT_GET_MANY);
    for (unsigned i = 0; i < ACCOUNTS; i++) {
        bank_must(lookups[i].rc, "ps_get_many");
        sum += bank_number_in(lookups[i].value);
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
        bank_must(ps_snapshot_move(reader->snap), "ps_snapshot_move");
        bank_did(b, ACT_MOVED);
    }
}

/* The same by a cursor, either way; *hash of everything that was seen. */
static uint64_t sum_by_cursor(struct reader *reader, ps_tree tree, bool forward, uint64_t *hash)
{
    struct ps_view *view = ps_snapshot_view(reader->snap);
    struct ps_cursor *cursor;
    struct ps_slice key, value;
    uint64_t sum = 0, seen = 0;
    bank_must(ps_cursor_open(view, tree, &cursor), "ps_cursor_open");
    int rc = forward ? ps_cursor_first(cursor) : ps_cursor_last(cursor);
    for (; rc == 0; rc = forward ? ps_cursor_next(cursor) : ps_cursor_prev(cursor)) {
        bank_must(ps_cursor_get(cursor, &key, &value), "ps_cursor_get");
        *hash += mix(mix(1, key), value); /* the same in both directions */
        seen++;
        if (key.len != bank_counter_key().len)
            sum += bank_number_in(value);
        if (seen == ACCOUNTS / 2 || seen % 16 == 0)
            between_steps(reader);
    }
    if (rc != PS_NOTFOUND || seen != ACCOUNTS + 1)
        bank_fail("a walk ended after %llu entries with %d", (unsigned long long)seen, rc);
    ps_cursor_close(cursor);
    return sum;
}

static void check_rows(struct bank *b, struct ps_view *view, uint64_t counter)
{
    struct name name;
    struct ps_slice key;
    struct ps_cursor *cursor;
    uint64_t count = 0, rank = 0, expected = counter < ROWS ? counter : ROWS;
    bank_must(ps_count(view, b->tree[2], &count), "ps_count");
    bank_must(ps_rank(view, b->tree[2], bank_row(&name, counter), &rank), "ps_rank");
    if (count != expected || (counter && rank != count - 1))
        bank_fail("at commit %llu there are %llu rows, the last of rank %llu",
                  (unsigned long long)counter, (unsigned long long)count, (unsigned long long)rank);
    bank_must(ps_cursor_open(view, b->tree[2], &cursor), "ps_cursor_open");
    uint64_t number = counter - expected + 1;
    int rc = ps_cursor_select(cursor, 0);
    for (; rc == 0; rc = ps_cursor_next(cursor), number++) {
        struct ps_slice wanted = bank_row(&name, number);
        bank_must(ps_cursor_get(cursor, &key, NULL), "ps_cursor_get");
        if (key.len != wanted.len || memcmp(key.data, wanted.data, key.len) != 0)
            bank_fail("at commit %llu row %llu is missing", (unsigned long long)counter,
                      (unsigned long long)number);
    }
    if (number != counter + 1)
        bank_fail("at commit %llu the rows end with %llu", (unsigned long long)counter,
                  (unsigned long long)number - 1);
    ps_cursor_close(cursor);
}

/* Some of the long value, which a file run holds: all of one commit's. */
static void check_long(struct reader *reader)
{
    struct bank *b = reader->bank;
    struct ps_view *view = ps_snapshot_view(reader->snap);
    struct ps_slice part;
    uint64_t whole = 0;
    int rc = ps_get_part(view, b->tree[3], bank_long_key(), 0, 8, &part, &whole);
    if (rc == PS_NOTFOUND)
        return;
    bank_must(rc, "ps_get_part");
    uint64_t counter = bank_number_in(part), from = rng_below(&reader->rng, whole);
    bank_must(ps_get_part(view, b->tree[3], bank_long_key(), from, 500, &part, NULL),
              "ps_get_part");
    if (part.len != (whole - from < 500 ? whole - from : 500))
        bank_fail("%zu bytes of a long value from %llu of %llu on", part.len,
                  (unsigned long long)from, (unsigned long long)whole);
    for (size_t i = 0; i < part.len; i++)
        if (((const unsigned char *)part.data)[i] != bank_long_byte(counter, from + i))
            bank_fail("byte %llu of the long value of commit %llu is wrong",
                      (unsigned long long)(from + i), (unsigned long long)counter);
    bank_did(b, ACT_GET_PART);
}

/* A look without waiting: it finds what ps_get does, or says that it would wait. */
static void probe(struct reader *reader)
{
    struct bank *b = reader->bank;
    struct ps_view *view = ps_snapshot_view(reader->snap);
    struct name names[2];
    struct ps_lookup lookups[2];
    unsigned number = (unsigned)rng_below(&reader->rng, ACCOUNTS);
    ps_tree tree = b->tree[rng_below(&reader->rng, 2)];
    size_t write = rng_one_in(&reader->rng, 2) ? 200 : 0;
    struct ps_slice value;
    ps_residency_renew(reader->residency, reader->now += 7);
    int rc =
        ps_probe(view, tree, bank_account(&names[0], number), write, reader->residency, &value);
    bank_did(b, ACT_PROBED);
    if (rc == PS_WOULDWAIT) {
        bank_must(ps_touch(view, tree, bank_account(&names[0], number), write, &value), "ps_touch");
    } else {
        bank_must(rc, "ps_probe");
        bank_did(b, ACT_RESIDENT);
    }
    uint64_t balance = bank_number_in(value);
    for (unsigned i = 0; i < 2; i++)
        lookups[i] = (struct ps_lookup){.tree = tree, .key = bank_account(&names[i], number)};
    ps_get_many_resident(view, lookups, 2, reader->residency);
    bank_did(b, ACT_PROBED_MANY);
    for (unsigned i = 0; i < 2; i++)
        if (lookups[i].rc != PS_WOULDWAIT &&
            (lookups[i].rc != 0 || bank_number_in(lookups[i].value) != balance))
            bank_fail("account %u: %llu when probed, then %d", number, (unsigned long long)balance,
                      lookups[i].rc);
    if (balance != bank_read_number(view, tree, bank_account(&names[0], number)))
        bank_fail("account %u differs when it is probed", number);
}

uint64_t bank_verify(struct reader *reader, bool forward)
{
    struct bank *b = reader->bank;
    struct ps_view *view = ps_snapshot_view(reader->snap);
    uint64_t counter = bank_read_number(view, b->tree[0], bank_counter_key());
    if (counter != bank_read_number(view, b->tree[1], bank_counter_key()))
        bank_fail("the two counters differ from %llu", (unsigned long long)counter);
    if (counter != ps_snapshot_seq(reader->snap) - b->base)
        bank_fail("the counter is %llu in the state of sequence %llu", (unsigned long long)counter,
                  (unsigned long long)ps_snapshot_seq(reader->snap));
    uint64_t hash = 0, sum = 0;
    for (int i = 0; i < 2; i++)
        sum += sum_by_cursor(reader, b->tree[i], forward, &hash);
    uint64_t again = sum_by_lookups(b, view, b->tree[0]) + sum_by_lookups(b, view, b->tree[1]);
    if (sum != 2 * ACCOUNTS * BALANCE || sum != again)
        bank_fail("at commit %llu the balances add up to %llu by cursor and %llu by lookup",
                  (unsigned long long)counter, (unsigned long long)sum, (unsigned long long)again);
    check_rows(b, view, counter);
    check_long(reader);
    for (unsigned i = 0; i < 4; i++)
        probe(reader);
    atomic_fetch_add(&b->reads, 1);
    return hash;
}
