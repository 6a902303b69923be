/*
 * test_node.c - a node beside a sorted array: random entries with and without prefixes, at the
 * smallest and the largest page size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/node.h"
#include "storage/store.h"

#define MOST    12000u
#define KEY_MAX 40u

struct entry {
    uint8_t key[KEY_MAX], value[200];
    size_t key_len, value_len;
    struct child child;
    struct run_ref key_run, value_run;
};

struct pair {
    struct page *page;
    uint32_t size;
    bool leaf;
    uint8_t prefix[16];
    uint32_t prefix_len;
    struct entry *model;
    unsigned n;
    uint32_t seed;
};

static uint32_t next_random(struct pair *t)
{
    t->seed = t->seed * 1664525u + 1013904223u;
    return t->seed >> 8;
}

static int order(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
    int c = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return c != 0 ? c : (a_len > b_len) - (a_len < b_len);
}

static void start(struct pair *t, uint32_t size, bool leaf, uint32_t prefix_len, uint32_t seed)
{
    *t = (struct pair){.size = size, .leaf = leaf, .prefix_len = prefix_len, .seed = seed};
    t->page = aligned_alloc(64, size);
    t->model = calloc(MOST, sizeof *t->model);
    assert_true(t->page != NULL && t->model != NULL);
    memset(t->page, 0xa5, size);
    for (uint32_t i = 0; i < prefix_len; i++) {
        t->prefix[i] = (uint8_t)(0x7f + (i & 1));
    }
    node_init(t->page, size, leaf ? PAGE_LEAF : PAGE_BRANCH, leaf ? 0 : 1, t->prefix, prefix_len);
    if (!leaf) {
        struct node_entry first = {.child = {77, 1, 1}};
        node_insert(t->page, 0, &first);
        t->model[0].child = first.child;
        t->n = 1;
    }
}

static void end(struct pair *t)
{
    free(t->page);
    free(t->model);
}

/* Keys that collide in their heads, differ in length alone, and hold zeros. */
static void random_key(struct pair *t, uint8_t key[KEY_MAX], size_t *len)
{
    size_t extra = next_random(t) % 10;
    memcpy(key, t->prefix, t->prefix_len);
    for (size_t i = 0; i < extra; i++) {
        uint32_t r = next_random(t) % 8;
        key[t->prefix_len + i] = r < 3 ? 0 : r < 5 ? 0xff : (uint8_t)next_random(t);
    }
    *len = t->prefix_len + extra;
}

static unsigned model_search(const struct pair *t, const uint8_t *key, size_t len, bool *exact)
{
    unsigned i = t->leaf ? 0 : 1;
    int c = 1;
    while (i < t->n && (c = order(t->model[i].key, t->model[i].key_len, key, len)) < 0) {
        i++;
    }
    *exact = i < t->n && c == 0;
    return i;
}

static void assert_same_entry(const struct pair *t, unsigned i)
{
    uint8_t buf[PAGE_MAX];
    struct node_entry e;
    const struct entry *m = &t->model[i];
    if (m->key_run.ref == 0) {
        assert_int_equal(node_read(NULL, t->page, i, buf, &e), 0);
        assert_int_equal(e.key.len, m->key_len);
        assert_true(e.key.len == 0 || memcmp(e.key.data, m->key, m->key_len) == 0);
    }
    struct run_ref key_run, value_run;
    node_runs(t->page, i, &key_run, &value_run);
    assert_memory_equal(&key_run, &m->key_run, sizeof key_run);
    assert_memory_equal(&value_run, &m->value_run, sizeof value_run);
    if (t->leaf) {
        struct ps_slice value;
        node_value(t->page, i, &value, &value_run);
        assert_int_equal(value.len, m->value_run.ref != 0 ? 0 : m->value_len);
        assert_true(value.len == 0 || memcmp(value.data, m->value, value.len) == 0);
    } else {
        struct child child;
        node_child(t->page, i, &child);
        assert_memory_equal(&child, &m->child, sizeof child);
    }
}

static void assert_same(const struct pair *t)
{
    uint32_t cells = 0;
    assert_int_equal(t->page->count, t->n);
    for (unsigned i = 0; i < t->n; i++) {
        assert_same_entry(t, i);
        cells += node_cell_size(t->page, i);
    }
    assert_int_equal(cells, t->size - t->page->heap - t->page->dead); /* N3 */
    assert_int_equal(node_used(t->page, t->size), node_heads_at(t->page) + 6 * t->n + cells);
}

static void assert_found(const struct pair *t, const uint8_t *key, size_t len)
{
    bool exact, found;
    unsigned at, i = model_search(t, key, len, &found);
    struct ps_slice k = {key, len};
    assert_int_equal(node_search(NULL, t->page, k, t->leaf ? 0 : 1, &at, &exact), 0);
    assert_int_equal(at, i);
    assert_int_equal(exact, found);
    if (!t->leaf) {
        assert_int_equal(node_search_child(NULL, t->page, k, &at), 0);
        assert_int_equal(at, found ? i : i - 1);
    }
}

/* One random insertion; false when there is no room. */
static bool insert_one(struct pair *t)
{
    struct entry m = {.child = {next_random(t), next_random(t), next_random(t)}};
    bool found;
    random_key(t, m.key, &m.key_len);
    unsigned i = model_search(t, m.key, m.key_len, &found);
    if (found) {
        return true;
    }
    m.value_len = next_random(t) % 5 == 0 ? next_random(t) % sizeof m.value : next_random(t) % 9;
    for (size_t k = 0; k < m.value_len; k++) {
        m.value[k] = (uint8_t)next_random(t);
    }
    if (t->leaf && next_random(t) % 9 == 0) {
        m.value_run = (struct run_ref){1 + next_random(t), next_random(t), 70000};
    }
    struct node_entry e = {.key = {m.key, m.key_len},
                           .value = {m.value, m.value_run.ref != 0 ? 0 : m.value_len},
                           .value_run = m.value_run,
                           .child = m.child};
    uint32_t cell = entry_cell_size(&e, t->leaf, t->prefix_len);
    if (node_gap(t->page) < cell + 6 || t->n == MOST) {
        return false;
    }
    uint32_t gap = node_gap(t->page);
    node_insert(t->page, i, &e);
    assert_int_equal(node_gap(t->page), gap - cell - 6);
    assert_int_equal(node_cell_size(t->page, i), cell);
    memmove(&t->model[i + 1], &t->model[i], (t->n - i) * sizeof m);
    t->model[i] = m;
    t->n++;
    return true;
}

static void remove_one(struct pair *t)
{
    unsigned least = t->leaf ? 0 : 1;
    if (t->n > least) {
        unsigned i = least + next_random(t) % (t->n - least);
        node_remove(t->page, i, t->size);
        memmove(&t->model[i], &t->model[i + 1], (t->n - i - 1) * sizeof *t->model);
        t->n--;
    }
}

static void change_one(struct pair *t)
{
    if (t->n == 0) {
        return;
    }
    unsigned i = next_random(t) % t->n;
    struct entry *m = &t->model[i];
    if (!t->leaf) {
        m->child.count++;
        node_set_child(t->page, i, &m->child);
        return;
    }
    bool same = next_random(t) % 2;
    for (size_t k = 0; same && k < m->value_len; k++) {
        m->value[k] ^= 0x55;
    }
    struct ps_slice value = {m->value, m->value_len + !same};
    bool inline_value = m->value_run.ref == 0;
    assert_int_equal(node_overwrite(t->page, i, value, false), same && inline_value);
    if (!inline_value) {
        m->value_run.ref += 3;
        node_set_runs(t->page, i, 0, m->value_run.ref);
    }
}

static void compare_for_a_while(uint32_t size, bool leaf, uint32_t prefix_len)
{
    struct pair t;
    start(&t, size, leaf, prefix_len, size + prefix_len * 3 + leaf);
    uint8_t key[KEY_MAX];
    size_t len;
    for (unsigned round = 0; round < 6; round++) {
        while (insert_one(&t)) {
        }
        assert_same(&t);
        for (unsigned i = 0; i < 300; i++) {
            random_key(&t, key, &len);
            len -= next_random(&t) % 4 == 0 && len > 0; /* shorter than the prefix, too */
            key[0] = next_random(&t) % 8 == 0 ? (uint8_t)next_random(&t) : key[0];
            assert_found(&t, key, len);
        }
        unsigned removals = round == 3 ? t.n : t.n * 2 / 3;
        for (unsigned i = 0; i < removals; i++) {
            remove_one(&t);
            change_one(&t);
        }
        assert_same(&t);
    }
    end(&t);
}

static void a_leaf_is_a_sorted_array(void **state)
{
    (void)state;
    for (uint32_t size = PAGE_MIN; size <= PAGE_MAX; size *= 4) {
        compare_for_a_while(size, true, 0);
        compare_for_a_while(size, true, 5);
        compare_for_a_while(size, true, 16);
    }
}

static void a_branch_is_a_sorted_array_whose_first_entry_is_less_than_everything(void **state)
{
    (void)state;
    for (uint32_t size = PAGE_MIN; size <= PAGE_MAX; size *= 4) {
        compare_for_a_while(size, false, 0);
        compare_for_a_while(size, false, 5);
        compare_for_a_while(size, false, 16);
    }
}

static void two_of_the_largest_cells_fit(void **state)
{
    static uint8_t bytes[PAGE_MAX];
    (void)state;
    for (uint32_t size = PAGE_MIN; size <= PAGE_MAX; size *= 2) {
        struct page *p = aligned_alloc(64, size);
        assert_non_null(p);
        node_init(p, size, PAGE_LEAF, 0, NULL, 0);
        struct node_entry e = {.key = {"ab", 2}, .value = {bytes, leaf_cell_max(size) - 4}};
        assert_int_equal(entry_cell_size(&e, true, 0), leaf_cell_max(size));
        node_insert(p, 0, &e);
        e.key.data = "aa";
        node_insert(p, 0, &e);
        struct ps_slice value;
        struct run_ref run;
        node_value(p, 1, &value, &run);
        assert_int_equal(value.len, leaf_cell_max(size) - 4);
        free(p);
    }
}

static void a_key_in_a_run_is_compared_as_a_whole(void **state)
{
    struct ps_store store = {.page_shift = 12, .page_size = 4096};
    uint8_t *memory = aligned_alloc(4096, 8 * 4096);
    (void)state;
    assert_non_null(memory);
    store.base[1] = memory;
    char keys[3][2000];
    struct page *p = (struct page *)(void *)memory;
    for (unsigned plen = 0; plen <= 300; plen += 100) {
        node_init(p, 4096, PAGE_LEAF, 0, (const uint8_t *)memset(keys[0], 'x', 2000), plen);
        for (unsigned i = 0; i < 3; i++) {
            memset(keys[i], 'x', 2000);
            keys[i][1500] = (char)('1' + 2 * i);
            memcpy(memory + 4096 * (1 + 2 * i) + PAGE_HEADER, keys[i], 2000);
            struct node_entry e = {.key = {keys[i], 2000},
                                   .key_run = {REF_ARENA | (1 + 2 * i), 1, 2000}};
            node_insert(p, i, &e);
        }
        for (unsigned i = 0; i < 7; i++) {
            char key[2000];
            unsigned at;
            bool exact;
            memset(key, 'x', 2000);
            key[1500] = (char)('0' + i);
            assert_int_equal(node_search(&store, p, (struct ps_slice){key, 2000}, 0, &at, &exact),
                             0);
            assert_int_equal(at, i / 2);
            assert_int_equal(exact, i % 2);
            assert_int_equal(node_search(&store, p, (struct ps_slice){key, 1501}, 0, &at, &exact),
                             0);
            assert_int_equal(at, i / 2);
            assert_false(exact);
        }
    }
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leaf_is_a_sorted_array),
        cmocka_unit_test(a_branch_is_a_sorted_array_whose_first_entry_is_less_than_everything),
        cmocka_unit_test(two_of_the_largest_cells_fit),
        cmocka_unit_test(a_key_in_a_run_is_compared_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
