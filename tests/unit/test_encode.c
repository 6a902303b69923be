/*
 * test_encode.c - compressed values: the rules Z1 to Z3 of storage/encode.h, alone and in a store.
 */
#include "storage/encode.h"

#include "storage/inspect.h"
#include "storage/store.h"
#include "tests/support/store_fixture.h"

static const enum ps_compression both[] = {PS_LZ4, PS_ZSTD};

/* Bytes that become smaller: words in no order. */
static void fill_words(char *at, size_t n, uint64_t seed)
{
    static const char *const words[] = {"aspen ", "grove ", "root ", "stem ", "leaf "};
    for (size_t i = 0; i < n;) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        const char *word = words[(seed >> 33) % 5];
        size_t len = strlen(word);
        memcpy(at + i, word, len < n - i ? len : n - i);
        i += len;
    }
}

static void fill_noise(char *at, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        at[i] = (char)(seed >> 40);
    }
}

static void set_compression(struct fixture *f, enum ps_compression how, uint32_t over)
{
    struct ps_txn *txn = fixture_begin(f);
    struct ps_tree_options options = {.compression = how, .compress_over = over};
    assert_int_equal(ps_tree_set(txn, f->tree, &options), 0);
    fixture_commit(txn);
}

static uint64_t counter(struct fixture *f, size_t offset)
{
    struct ps_stat stat;
    struct ps_txn *txn = fixture_begin(f);
    ps_abort(txn); /* what is counted shows when the token is given up */
    ps_stats(f->store, &stat);
    return *(const uint64_t *)((const char *)&stat + offset);
}
#define COUNTER(f, field) counter(f, offsetof(struct ps_stat, field))

/* ---- alone ------------------------------------------------------------------------------------
 */

static void what_was_encoded_is_decoded_by_either_algorithm(void **state)
{
    static const size_t sizes[] = {16, 17, 100, 4096, 70000, 3000000};
    struct encoder e = {0};
    struct decoded d = {0};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            char *bytes = malloc(sizes[i]);
            struct ps_slice encoded;
            uint64_t len;
            bool shrank;
            memset(bytes, 'x', sizes[i] / 2);
            fill_words(bytes + sizes[i] / 2, sizes[i] - sizes[i] / 2, i);
            value_encode(&e, both[k], (struct ps_slice){bytes, sizes[i]}, &encoded, &shrank);
            assert_true(shrank || sizes[i] < 100);
            if (shrank) {
                assert_true(encoded.len <= sizes[i] - sizes[i] / 16);
                assert_true(encoded_length(encoded, &len) && len == sizes[i]);
                assert_int_equal(decoded_room(&d, len), 0);
                assert_int_equal(value_decode(&d, encoded, d.at, len), 0);
                assert_memory_equal(d.at, bytes, len);
            }
            free(bytes);
        }
    }
    encoder_free(&e);
    decoded_free(&d);
}

static void what_does_not_become_smaller_stays_as_it_is(void **state)
{
    struct encoder e = {0};
    char noise[5000];
    (void)state;
    fill_noise(noise, sizeof noise, 1);
    for (size_t k = 0; k < 2; k++) {
        for (size_t n = 0; n < sizeof noise; n = n * 2 + 1) {
            struct ps_slice encoded, value = {noise, n};
            bool shrank = true;
            value_encode(&e, both[k], value, &encoded, &shrank);
            assert_false(shrank);
            assert_ptr_equal(encoded.data, noise);
            assert_int_equal(encoded.len, n);
        }
    }
    encoder_free(&e);
}

static void a_length_that_the_bytes_cannot_become_is_not_believed(void **state)
{
    uint8_t bytes[64] = {0};
    struct ps_slice encoded = {bytes, sizeof bytes};
    uint64_t len;
    (void)state;
    uint32_t claims[] = {PS_MAX_VALUE + 1, UINT32_MAX, (64 - 5) * 255 + 1};
    for (unsigned i = 0; i < 3; i++) {
        bytes[0] = PS_LZ4;
        memcpy(bytes + 1, &claims[i], 4);
        assert_false(encoded_length(encoded, &len));
    }
    claims[2] = (64 - 5) * 255;
    memcpy(bytes + 1, &claims[2], 4);
    assert_true(encoded_length(encoded, &len));
    claims[2] = 68; /* it would have been stored as it is */
    memcpy(bytes + 1, &claims[2], 4);
    assert_true(encoded_length(encoded, &len));
    claims[2] = 67;
    memcpy(bytes + 1, &claims[2], 4);
    assert_false(encoded_length(encoded, &len));
    bytes[0] = PS_ZSTD;
    memcpy(bytes + 1, &claims[0], 4);
    assert_false(encoded_length(encoded, &len));
    bytes[0] = 3;
    assert_false(encoded_length(encoded, &len));
    bytes[0] = 0;
    assert_false(encoded_length(encoded, &len));
    encoded.len = 5;
    bytes[0] = PS_LZ4;
    assert_false(encoded_length(encoded, &len));
}

static void damaged_bytes_are_an_error_whatever_they_are(void **state)
{
    struct encoder e = {0};
    struct decoded d = {0};
    char bytes[3000];
    (void)state;
    fill_words(bytes, sizeof bytes, 3);
    for (size_t k = 0; k < 2; k++) {
        struct ps_slice encoded;
        bool shrank;
        unsigned refused = 0;
        value_encode(&e, both[k], (struct ps_slice){bytes, sizeof bytes}, &encoded, &shrank);
        assert_true(shrank);
        assert_int_equal(decoded_room(&d, sizeof bytes), 0);
        for (size_t i = ENCODED_HEAD; i < encoded.len; i++) {
            uint8_t copy[sizeof bytes];
            memcpy(copy, encoded.data, encoded.len);
            copy[i] ^= 0x55;
            int rc = value_decode(&d, (struct ps_slice){copy, encoded.len}, d.at, sizeof bytes);
            assert_true(rc == 0 || rc == PS_CORRUPT);
            refused += rc != 0;
            /* cut off there, as it was before */
            assert_int_equal(
                value_decode(&d, (struct ps_slice){encoded.data, i + 1}, d.at, sizeof bytes),
                i + 1 == encoded.len ? 0 : PS_CORRUPT);
        }
        assert_true(refused > 10);
        assert_int_equal(value_decode(&d, encoded, d.at, sizeof bytes - 1), PS_CORRUPT);
    }
    encoder_free(&e);
    decoded_free(&d);
}

/* ---- in a store -------------------------------------------------------------------------------
 */

#define KINDS 8u

/* Values of all the places there are: in the leaf, in a run, in a long run; compressed or not. */
static struct ps_slice value_of(unsigned i, char *buffer)
{
    static const size_t sizes[KINDS] = {20, 100, 1000, 5000, 60000, 70000, 400000, 30};
    size_t n = sizes[i % KINDS] + i;
    if (i % 3 == 2)
        fill_noise(buffer, n, i);
    else
        fill_words(buffer, n, i);
    return (struct ps_slice){buffer, n};
}
#define LONGEST 500000u

static struct ps_slice key_of(unsigned i, char buffer[16])
{
    int n = snprintf(buffer, 16, "key %05u", i);
    return (struct ps_slice){buffer, (size_t)n};
}

static void put_values(struct fixture *f, unsigned n)
{
    char key[16], *buffer = malloc(LONGEST);
    struct ps_txn *txn = fixture_begin(f);
    ps_keep_whole(txn);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(ps_put(txn, f->tree, key_of(i, key), value_of(i, buffer)), 0);
    fixture_commit(txn);
    free(buffer);
}

static void assert_same(struct ps_slice found, struct ps_slice expected)
{
    assert_int_equal(found.len, expected.len);
    assert_memory_equal(found.data, expected.data, expected.len);
}

/* Every way there is to read a value. */
static void expect_values(struct fixture *f, struct ps_view *view, unsigned n)
{
    char keys[KINDS][16], *buffer = malloc(LONGEST);
    struct ps_cursor *cursor;
    struct ps_slice found, key;
    struct ps_residency *residency;
    assert_int_equal(ps_residency_new(f->store, &residency), 0);
    ps_residency_renew(residency, 1);
    assert_int_equal(ps_cursor_open(view, f->tree, &cursor), 0);
    for (unsigned i = 0; i < n; i++) {
        struct ps_slice expected = value_of(i, buffer);
        uint64_t whole;
        assert_int_equal(ps_get(view, f->tree, key_of(i, keys[0]), &found), 0);
        assert_same(found, expected);
        assert_int_equal(ps_touch(view, f->tree, key_of(i, keys[0]), 0, &found), 0);
        assert_same(found, expected);
        assert_int_equal(ps_probe(view, f->tree, key_of(i, keys[0]), 0, residency, &found), 0);
        assert_same(found, expected);
        for (size_t at = 0; at < expected.len; at += expected.len / 3 + 1) {
            assert_int_equal(ps_get_part(view, f->tree, key_of(i, keys[0]), at, 7, &found, &whole),
                             0);
            assert_int_equal(whole, expected.len);
            size_t len = expected.len - at < 7 ? expected.len - at : 7;
            assert_same(found, (struct ps_slice){(const char *)expected.data + at, len});
        }
        assert_int_equal(i == 0 ? ps_cursor_first(cursor) : ps_cursor_next(cursor), 0);
        assert_int_equal(ps_cursor_get(cursor, &key, &found), 0);
        assert_same(key, key_of(i, keys[0]));
        assert_same(found, expected);
    }
    ps_cursor_close(cursor);
    for (unsigned i = 0; i + KINDS <= n; i += KINDS) {
        struct ps_lookup lookups[KINDS];
        for (unsigned k = 0; k < KINDS; k++)
            lookups[k] = (struct ps_lookup){.tree = f->tree, .key = key_of(i + k, keys[k])};
        ps_get_many(view, lookups, KINDS);
        for (unsigned k = 0; k < KINDS; k++) {
            assert_int_equal(lookups[k].rc, 0);
            assert_same(lookups[k].value, value_of(i + k, buffer));
        }
    }
    ps_residency_free(residency);
    free(buffer);
}

static void expect_committed(struct fixture *f, unsigned n)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    expect_values(f, ps_snapshot_view(snap), n);
    ps_snapshot_free(snap);
}

static void compressed_values_are_read_in_every_way_whatever_became_of_the_option(void **state)
{
    struct fixture *f = *state;
    for (unsigned k = 0; k < 2; k++) {
        set_compression(f, both[k], 50);
        put_values(f, 48);
        expect_committed(f, 48);
        struct ps_txn *txn = fixture_begin(f);
        expect_values(f, ps_txn_view(txn), 48);
        ps_abort(txn);
        set_compression(f, k == 0 ? PS_ZSTD : PS_UNCOMPRESSED, 0);
        expect_committed(f, 48);
        fixture_reopen(f, k == 1); /* replayed from the log; from the checkpoint */
        expect_committed(f, 48);
        assert_int_equal(ps_check(f->store, NULL, NULL), 0);
        expect_committed(f, 48);
    }
}

static void only_values_over_the_threshold_are_compressed(void **state)
{
    struct fixture *f = *state;
    char buffer[200];
    fill_words(buffer, sizeof buffer, 1);
    set_compression(f, PS_LZ4, 150);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("a"), (struct ps_slice){buffer, 150}), 0);
    fixture_commit(txn);
    assert_int_equal(COUNTER(f, values_compressed), 0);
    txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("a"), (struct ps_slice){buffer, 151}), 0);
    fixture_commit(txn);
    assert_int_equal(COUNTER(f, values_compressed), 1);
    assert_true(COUNTER(f, bytes_compressed_away) > 0);
}

static void compression_saves_pages_and_log(void **state)
{
    struct fixture *f = *state;
    uint64_t log[2], used[2];
    char key[16], *buffer = malloc(3000);
    for (unsigned k = 0; k < 2; k++) {
        set_compression(f, k == 0 ? PS_UNCOMPRESSED : PS_ZSTD, 0);
        assert_int_equal(ps_checkpoint(f->store), 0);
        uint64_t before = COUNTER(f, log_bytes_written);
        for (unsigned i = 0; i < 300; i++) {
            struct ps_txn *txn = fixture_begin(f);
            fill_words(buffer, 3000, i);
            assert_int_equal(ps_put(txn, f->tree, key_of(i, key), (struct ps_slice){buffer, 3000}),
                             0);
            fixture_commit(txn);
        }
        log[k] = COUNTER(f, log_bytes_written) - before;
        assert_int_equal(ps_checkpoint(f->store), 0);
        assert_int_equal(ps_checkpoint(f->store), 0);
        used[k] = COUNTER(f, file_pages) - COUNTER(f, file_pages_free);
    }
    assert_true(log[1] < log[0] / 2);
    assert_true(used[1] < used[0] / 2);
    free(buffer);
}

static void a_value_read_may_be_put_again_under_another_key(void **state)
{
    struct fixture *f = *state;
    char buffer[3000];
    struct ps_slice found;
    fill_words(buffer, sizeof buffer, 9);
    set_compression(f, PS_LZ4, 0);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("a"), (struct ps_slice){buffer, 3000}), 0);
    assert_int_equal(ps_get(ps_txn_view(txn), f->tree, text("a"), &found), 0);
    assert_int_equal(ps_put(txn, f->tree, text("b"), found), 0);
    assert_int_equal(ps_get(ps_txn_view(txn), f->tree, text("b"), &found), 0);
    assert_same(found, (struct ps_slice){buffer, 3000});
    fixture_commit(txn);
}

static void memory_of_a_large_value_is_given_back(void **state)
{
    struct fixture *f = *state;
    size_t n = 9u << 20;
    char *bytes = malloc(n);
    struct ps_slice found;
    fill_words(bytes, n, 4);
    set_compression(f, PS_ZSTD, 0);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("large"), (struct ps_slice){bytes, n}), 0);
    assert_int_equal(f->store->encoder.room, 0);
    assert_int_equal(ps_get(ps_txn_view(txn), f->tree, text("large"), &found), 0);
    assert_same(found, (struct ps_slice){bytes, n});
    fixture_commit(txn);
    assert_int_equal(f->store->txn.view.decoded.room, 0);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_view *view = ps_snapshot_view(snap);
    uint64_t before = COUNTER(f, values_decompressed);
    for (size_t at = 0; at < n; at += 100000) {
        assert_int_equal(ps_get_part(view, f->tree, text("large"), at, 10, &found, NULL), 0);
        assert_memory_equal(found.data, bytes + at, found.len);
    }
    assert_int_equal(COUNTER(f, values_decompressed), before + 1); /* once for all parts */
    assert_true(view->decoded.room >= n);
    ps_snapshot_reset(snap);
    assert_int_equal(view->decoded.room, 0);
    ps_snapshot_free(snap);
    free(bytes);
}

/* ---- damage -----------------------------------------------------------------------------------
 */

/* Damages the bytes of a compressed value where it lies in dirty memory, as a log could that says
 * so itself. */
static void spoil(struct fixture *f, const char *key)
{
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_slice stored;
    assert_int_equal(view_get(ps_snapshot_view(snap), f->tree, text(key), &stored), VALUE_ENCODED);
    memset((char *)(uintptr_t)stored.data + ENCODED_HEAD, 0xff, stored.len - ENCODED_HEAD);
    ps_snapshot_free(snap);
}

static unsigned findings;

static void finding(void *arg, const char *line)
{
    (void)arg;
    findings += strstr(line, "does not decompress") != NULL;
}

static void a_damaged_value_is_an_error_with_its_place(void **state)
{
    struct fixture *f = *state;
    char buffer[6000];
    fill_words(buffer, sizeof buffer, 2);
    set_compression(f, PS_LZ4, 0);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("bad"), (struct ps_slice){buffer, 1000}), 0);
    assert_int_equal(ps_put(txn, f->tree, text("good"), (struct ps_slice){buffer, 1000}), 0);
    fixture_commit(txn);
    spoil(f, "bad");
    assert_int_equal(ps_checkpoint(f->store), 0);
    fixture_reopen(f, true);

    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_view *view = ps_snapshot_view(snap);
    struct ps_slice found;
    struct ps_fault fault;
    assert_int_equal(ps_get(view, f->tree, text("bad"), &found), PS_CORRUPT);
    ps_last_fault(f->store, &fault);
    assert_true(fault.offset > 0 && strstr(fault.what, "does not decompress") != NULL);
    struct ps_lookup lookups[] = {{.tree = f->tree, .key = text("good")},
                                  {.tree = f->tree, .key = text("bad")}};
    ps_get_many(view, lookups, 2);
    assert_int_equal(lookups[1].rc, PS_CORRUPT);
    assert_int_equal(lookups[0].rc, 0);
    assert_same(lookups[0].value, (struct ps_slice){buffer, 1000});
    assert_int_equal(ps_get_part(view, f->tree, text("bad"), 0, 5, &found, NULL), PS_CORRUPT);
    ps_snapshot_free(snap);
    findings = 0;
    assert_int_equal(ps_check(f->store, finding, NULL), PS_CORRUPT);
    assert_int_equal(findings, 1);
}

static void salvage_loses_the_damaged_value_alone_and_keeps_the_options(void **state)
{
    struct fixture *f = *state;
    char buffer[6000], to[STORE_DIR_PATH];
    fill_words(buffer, sizeof buffer, 2);
    set_compression(f, PS_ZSTD, 10);
    struct ps_txn *txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("bad"), (struct ps_slice){buffer, 6000}), 0);
    assert_int_equal(ps_put(txn, f->tree, text("good"), (struct ps_slice){buffer, 6000}), 0);
    fixture_commit(txn);
    spoil(f, "bad");
    assert_int_equal(ps_checkpoint(f->store), 0);
    txn = fixture_begin(f);
    assert_int_equal(ps_put(txn, f->tree, text("late"), (struct ps_slice){buffer, 5000}), 0);
    fixture_commit(txn);
    fixture_close(f, false);

    struct ps_salvage_report report;
    struct ps_fault fault;
    store_dir_make(to, "pando-salvaged");
    assert_int_equal(ps_salvage(f->dir, to, NULL, &report, &fault), PS_CORRUPT);
    assert_int_equal(report.lost_values, 1);
    store_dir_remove(f->dir);
    memcpy(f->dir, to, sizeof to);
    fixture_open(f);
    struct ps_snapshot *snap = fixture_snapshot(f);
    struct ps_view *view = ps_snapshot_view(snap);
    struct ps_slice found;
    struct ps_tree_options options;
    assert_int_equal(ps_tree_find(view, text("tree"), &f->tree), 0);
    assert_int_equal(ps_get(view, f->tree, text("bad"), &found), PS_NOTFOUND);
    assert_int_equal(ps_get(view, f->tree, text("good"), &found), 0);
    assert_same(found, (struct ps_slice){buffer, 6000});
    assert_int_equal(ps_get(view, f->tree, text("late"), &found), 0);
    assert_same(found, (struct ps_slice){buffer, 5000});
    assert_int_equal(ps_tree_options(view, f->tree, &options), 0);
    assert_true(options.compression == PS_ZSTD && options.compress_over == 10);
    ps_snapshot_free(snap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_encoded_is_decoded_by_either_algorithm),
        cmocka_unit_test(what_does_not_become_smaller_stays_as_it_is),
        cmocka_unit_test(a_length_that_the_bytes_cannot_become_is_not_believed),
        cmocka_unit_test(damaged_bytes_are_an_error_whatever_they_are),
        STORE_TEST(compressed_values_are_read_in_every_way_whatever_became_of_the_option),
        STORE_TEST(only_values_over_the_threshold_are_compressed),
        STORE_TEST(compression_saves_pages_and_log),
        STORE_TEST(a_value_read_may_be_put_again_under_another_key),
        STORE_TEST(memory_of_a_large_value_is_given_back),
        STORE_TEST(a_damaged_value_is_an_error_with_its_place),
        STORE_TEST(salvage_loses_the_damaged_value_alone_and_keeps_the_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
