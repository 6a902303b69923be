/*
 * Strings in chunks, and what becomes of their rows (server/keyspace/chunks.c, garbage.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/keyspace_fixture.h"

#define NOW   1000
#define CHUNK KEYSPACE_CHUNK

static struct ps_slice slice(const char *text)
{
    return (struct ps_slice){text, strlen(text)};
}

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static char *random_bytes(uint64_t *seed, size_t len)
{
    char *bytes = malloc(len + 1);

    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)next_random(seed);
    return bytes;
}

/* Puts a record of these chunks under the key. */
static void link_chunks(struct fixture *f, unsigned db, const char *key,
                        const struct record_chunks *chunks)
{
    struct key_entry old = fixture_find(f, db, key, NOW);
    struct record record = {
        .type = RECORD_STRING, .encoding = RECORD_ENC_RAW, .chunked = true, .chunks = *chunks};

    assert_int_equal(keyspace_put(f->ks, f->txn, db, slice(key), &old, &record, NOW), 0);
}

/* Stores a string of `len` bytes that begins with `first` in chunks. */
static struct record_chunks put_long(struct fixture *f, unsigned db, const char *key, size_t len)
{
    struct record_chunks chunks;
    char *bytes = calloc(1, len);

    assert_non_null(bytes);
    memset(bytes, key[0], len);
    assert_int_equal(keyspace_chunks_new(f->ks, f->txn, &chunks), 0);
    assert_int_equal(
        keyspace_chunks_write(f->ks, f->txn, db, &chunks, 0, (struct ps_slice){bytes, len}), 0);
    link_chunks(f, db, key, &chunks);
    free(bytes);
    return chunks;
}

static void expect_bytes(struct fixture *f, const struct record_chunks *chunks, uint64_t offset,
                         const char *bytes, size_t len)
{
    char *back = malloc(len + 1);

    assert_non_null(back);
    assert_int_equal(keyspace_chunks_read(f->ks, fixture_view(f), 0, chunks, offset, back, len), 0);
    assert_memory_equal(back, bytes, len);
    free(back);
}

static void any_writes_read_back_with_zeros_between(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 88172645463325252ull;
    static char model[8 * CHUNK];

    for (int round = 0; round < 20; round++) {
        struct record_chunks chunks;
        memset(model, 0, sizeof(model));
        fixture_begin(f);
        assert_int_equal(keyspace_chunks_new(f->ks, f->txn, &chunks), 0);
        for (int i = 0; i < 30; i++) {
            static const size_t ends[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 700};
            size_t at = ends[next_random(&seed) % 7] + CHUNK * (next_random(&seed) % 4);
            size_t len = 1 + (ends[next_random(&seed) % 7] + next_random(&seed) % 3);
            char *bytes = random_bytes(&seed, len);
            memcpy(model + at, bytes, len);
            assert_int_equal(
                keyspace_chunks_write(f->ks, f->txn, 0, &chunks, at, (struct ps_slice){bytes, len}),
                0);
            free(bytes);
            at = next_random(&seed) % chunks.len;
            expect_bytes(f, &chunks, at, model + at, next_random(&seed) % (chunks.len - at + 1));
        }
        expect_bytes(f, &chunks, 0, model, chunks.len);
        ps_abort(f->txn);
        f->txn = NULL;
    }
}

static uint64_t ops(struct fixture *f)
{
    struct ps_stat stat;

    ps_stats(f->store, &stat);
    return stat.ops;
}

static void a_change_writes_the_chunks_it_touches_and_no_others(void **state)
{
    struct fixture *f = *state;
    struct record_chunks chunks;
    uint64_t before;

    fixture_begin(f);
    chunks = put_long(f, 0, "a", 40 * CHUNK + 5);
    fixture_commit(f);
    before = ops(f);
    fixture_begin(f);
    assert_int_equal(
        keyspace_chunks_write(f->ks, f->txn, 0, &chunks, chunks.len, slice("0123456789")),
        0); /* into the last */
    assert_int_equal(keyspace_chunks_write(f->ks, f->txn, 0, &chunks, 7 * CHUNK - 1, slice("ab")),
                     0); /* over a boundary */
    assert_int_equal(keyspace_chunks_write(f->ks, f->txn, 0, &chunks, 3 * CHUNK, slice("x")), 0);
    assert_int_equal(keyspace_chunks_write(f->ks, f->txn, 0, &chunks, 500 * CHUNK + 1, slice("x")),
                     0); /* far behind the end */
    fixture_commit(f);
    assert_int_equal(ops(f) - before, 1 + 2 + 1 + 1);
    assert_true(chunks.len == 500 * CHUNK + 2);
}

/* Rounds of background work until there is none; returns the steps. */
static size_t maintain(struct fixture *f, size_t budget)
{
    size_t done, all = 0;
    bool more = true;

    while (more) {
        fixture_begin(f);
        assert_int_equal(keyspace_maintain(f->ks, f->txn, NOW, budget, &done, &more), 0);
        assert_true(done <= budget);
        fixture_commit(f);
        all += done;
    }
    return all;
}

static void rows_of_a_removed_string_go_in_bounded_steps(void **state)
{
    struct fixture *f = *state;
    struct key_entry old;

    fixture_begin(f);
    put_long(f, 0, "a", 40 * CHUNK + 5);
    put_long(f, 2, "b", 3 * CHUNK);
    put_long(f, 2, "c", 2 * CHUNK);
    fixture_commit(f);
    assert_int_equal(maintain(f, 7), 0);
    fixture_begin(f);
    fixture_delete(f, 0, "a", NOW);          /* removed */
    fixture_put(f, 2, "b", "short", 0, NOW); /* replaced */
    old = fixture_find(f, 2, "c", NOW);
    assert_int_equal(keyspace_flush(f->ks, f->txn, 2), 0); /* flushed, the garbage of b as well */
    fixture_commit(f);
    assert_true(old.record.chunked);
    fixture_begin(f);
    assert_int_equal(fixture_check_rows(f), 41);
    assert_int_equal(fixture_garbage(f), 2);
    fixture_commit(f);
    fixture_reopen(f);
    assert_int_equal(maintain(f, 7), 41 + 2);
    fixture_begin(f);
    assert_int_equal(fixture_check_rows(f), 0);
    assert_int_equal(fixture_garbage(f), 0);
    fixture_commit(f);
}

static void a_string_without_a_record_is_garbage_until_it_is_linked(void **state)
{
    struct fixture *f = *state;
    struct record_chunks chunks;
    char *bytes = calloc(1, 3 * CHUNK);
    bool whole;

    fixture_begin(f);
    assert_int_equal(keyspace_stage_begin(f->ks, f->txn, 1, &chunks), 0);
    assert_int_equal(keyspace_protect(f->ks, chunks.id), 0);
    assert_int_equal(
        keyspace_chunks_write(f->ks, f->txn, 1, &chunks, 0, (struct ps_slice){bytes, 2 * CHUNK}),
        0);
    fixture_commit(f);
    assert_int_equal(maintain(f, 7), 0); /* it is protected */
    fixture_begin(f);
    assert_int_equal(fixture_check_rows(f), 2);
    assert_int_equal(keyspace_chunks_write(f->ks, f->txn, 1, &chunks, 2 * CHUNK,
                                           (struct ps_slice){bytes, CHUNK}),
                     0);
    assert_int_equal(keyspace_stage_link(f->ks, f->txn, 1, &chunks, &whole), 0);
    assert_true(whole);
    link_chunks(f, 1, "a", &chunks);
    assert_int_equal(fixture_check_rows(f), 3);
    assert_int_equal(fixture_garbage(f), 0);
    fixture_commit(f);
    keyspace_unprotect(f->ks, chunks.id);
    free(bytes);
}

static void an_unfinished_string_is_gone_after_a_restart(void **state)
{
    struct fixture *f = *state;
    struct record_chunks chunks;
    char *bytes = calloc(1, 3 * CHUNK);

    fixture_begin(f);
    assert_int_equal(keyspace_stage_begin(f->ks, f->txn, 1, &chunks), 0);
    assert_int_equal(keyspace_protect(f->ks, chunks.id), 0);
    assert_int_equal(
        keyspace_chunks_write(f->ks, f->txn, 1, &chunks, 0, (struct ps_slice){bytes, 3 * CHUNK}),
        0);
    fixture_commit(f);
    fixture_reopen(f);
    assert_int_equal(maintain(f, 2), 3 + 1);
    fixture_begin(f);
    assert_int_equal(fixture_check_rows(f), 0);
    assert_int_equal(fixture_garbage(f), 0);
    fixture_commit(f);
    free(bytes);
}

static void missing_rows_are_noticed_when_a_string_is_linked(void **state)
{
    struct fixture *f = *state;
    struct record_chunks chunks;
    bool whole = true;

    fixture_begin(f);
    assert_int_equal(keyspace_stage_begin(f->ks, f->txn, 0, &chunks), 0);
    assert_int_equal(keyspace_chunks_write(f->ks, f->txn, 0, &chunks, 0, slice("bytes")), 0);
    assert_int_equal(keyspace_flush(f->ks, f->txn, 0), 0);
    assert_int_equal(keyspace_stage_link(f->ks, f->txn, 0, &chunks, &whole), 0);
    assert_false(whole);
    assert_int_equal(fixture_garbage(f), 1);
    fixture_commit(f);
}

static void moving_a_string_moves_no_row(void **state)
{
    struct fixture *f = *state;
    struct key_entry from, to;
    uint64_t before;

    fixture_begin(f);
    put_long(f, 0, "a", 9 * CHUNK);
    put_long(f, 0, "b", 5 * CHUNK);
    fixture_commit(f);
    before = ops(f);
    fixture_begin(f);
    from = fixture_find(f, 0, "a", NOW);
    to = fixture_find(f, 0, "b", NOW);
    assert_int_equal(keyspace_move(f->ks, f->txn, 0, slice("a"), &from, slice("b"), &to, NOW), 0);
    fixture_commit(f);
    assert_int_equal(ops(f) - before, 3); /* a record each, and an object filed */
    fixture_begin(f);
    assert_int_equal(fixture_check_rows(f), 14);
    assert_int_equal(fixture_garbage(f), 1);
    assert_int_equal(fixture_find(f, 0, "a", NOW).state, KEY_ABSENT);
    from = fixture_find(f, 0, "b", NOW);
    assert_true(from.record.chunks.len == 9 * CHUNK);
    fixture_commit(f);
}

/* One change of a key's value, of any kind. */
static void change(struct fixture *f, uint64_t *seed)
{
    static const char *const keys[] = {"a", "b", "c", "d"};
    const char *key = keys[next_random(seed) % 4], *other = keys[next_random(seed) % 4];
    unsigned db = (unsigned)(next_random(seed) % 2);
    struct key_entry old = fixture_find(f, db, key, NOW), target = fixture_find(f, db, other, NOW);
    struct record_chunks chunks;
    bool whole;

    switch (next_random(seed) % 8) {
    case 0:
    case 1:
        put_long(f, db, key, 1 + next_random(seed) % (4 * CHUNK));
        break;
    case 2:
        fixture_put(f, db, key, "short", next_random(seed) % 2 ? NOW + 5 : 0, NOW);
        break;
    case 3:
        if (old.state != KEY_ABSENT)
            fixture_delete(f, db, key, NOW);
        break;
    case 4:
        if (old.state != KEY_ABSENT && old.record.chunked) {
            chunks = old.record.chunks;
            assert_int_equal(keyspace_chunks_write(f->ks, f->txn, db, &chunks,
                                                   next_random(seed) % (6 * CHUNK), slice("patch")),
                             0);
            link_chunks(f, db, key, &chunks);
        }
        break;
    case 5:
        if (old.state != KEY_ABSENT && strcmp(key, other) != 0)
            assert_int_equal(
                keyspace_move(f->ks, f->txn, db, slice(key), &old, slice(other), &target, NOW), 0);
        break;
    case 6:
        if (next_random(seed) % 4 == 0)
            assert_int_equal(keyspace_flush(f->ks, f->txn, db), 0);
        break;
    default:
        assert_int_equal(keyspace_stage_begin(f->ks, f->txn, db, &chunks), 0);
        assert_int_equal(keyspace_chunks_write(f->ks, f->txn, db, &chunks, 0, slice("bytes")), 0);
        if (next_random(seed) % 2) {
            assert_int_equal(keyspace_stage_link(f->ks, f->txn, db, &chunks, &whole), 0);
            assert_true(whole);
            link_chunks(f, db, key, &chunks);
        }
        break;
    }
}

static void no_sequence_of_changes_leaks_a_row(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 4101842887655102017ull;

    for (int round = 0; round < 400; round++) {
        size_t done;
        bool more;
        fixture_begin(f);
        for (uint64_t i = next_random(&seed) % 6; i > 0; i--)
            change(f, &seed);
        fixture_check_rows(f);
        if (next_random(&seed) % 5 == 0) {
            ps_abort(f->txn);
            f->txn = NULL;
        } else {
            fixture_commit(f);
        }
        if (next_random(&seed) % 40 == 0)
            fixture_reopen(f);
        fixture_begin(f);
        assert_int_equal(
            keyspace_maintain(f->ks, f->txn, NOW, next_random(&seed) % 8, &done, &more), 0);
        fixture_check_rows(f);
        fixture_commit(f);
    }
    fixture_begin(f);
    for (unsigned db = 0; db < 2; db++)
        for (const char *key = "abcd"; *key; key++) {
            char name[2] = {*key, '\0'};
            if (fixture_find(f, db, name, NOW).state != KEY_ABSENT)
                fixture_delete(f, db, name, NOW);
        }
    fixture_commit(f);
    maintain(f, 100);
    fixture_begin(f);
    assert_int_equal(fixture_check_rows(f), 0);
    assert_int_equal(fixture_garbage(f), 0);
    fixture_commit(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(any_writes_read_back_with_zeros_between),
        TEST(a_change_writes_the_chunks_it_touches_and_no_others),
        TEST(rows_of_a_removed_string_go_in_bounded_steps),
        TEST(a_string_without_a_record_is_garbage_until_it_is_linked),
        TEST(an_unfinished_string_is_gone_after_a_restart),
        TEST(missing_rows_are_noticed_when_a_string_is_linked),
        TEST(moving_a_string_moves_no_row),
        TEST(no_sequence_of_changes_leaks_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
