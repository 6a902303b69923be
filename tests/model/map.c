/*
 * map.c - the model: sorted arrays of shared, unchanging entries.
 *
 * Invariants:
 *  1. An entry is never changed after it was made; it is freed with its last reference.
 *  2. A table with more than one reference is never changed (own_table copies it first).
 */
#include "tests/model/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

int slice_compare(struct ps_slice a, struct ps_slice b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common ? memcmp(a.data, b.data, common) : 0;
    if (order)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

static struct entry *entry_new(struct ps_slice key, struct ps_slice value)
{
    struct entry *entry = must(malloc(sizeof *entry + key.len + value.len));
    char *bytes = (char *)(entry + 1);
    entry->refs = 1;
    if (key.len)
        memcpy(bytes, key.data, key.len);
    if (value.len)
        memcpy(bytes + key.len, value.data, value.len);
    entry->key = (struct ps_slice){bytes, key.len};
    entry->value = (struct ps_slice){bytes + key.len, value.len};
    return entry;
}

static void entry_release(struct entry *entry)
{
    if (--entry->refs == 0)
        free(entry);
}

static struct table *table_new(size_t room)
{
    struct table *table = must(malloc(sizeof *table));
    *table = (struct table){.refs = 1, .room = room ? room : 8};
    table->at = must(malloc(table->room * sizeof *table->at));
    return table;
}

static void table_release(struct table *table)
{
    if (!table || --table->refs > 0)
        return;
    for (size_t i = 0; i < table->n; i++)
        entry_release(table->at[i]);
    free(table->at);
    free(table);
}

/* The tree's table, made this state's own. */
static struct table *own_table(struct map_tree *tree)
{
    struct table *old = tree->table;
    if (old->refs == 1)
        return old;
    struct table *copy = table_new(old->n + old->n / 4);
    for (size_t i = 0; i < old->n; i++) {
        copy->at[i] = old->at[i];
        copy->at[i]->refs++;
    }
    copy->n = old->n;
    old->refs--;
    return tree->table = copy;
}

size_t table_below(const struct table *table, struct ps_slice key, bool equal)
{
    size_t low = 0, high = table->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = slice_compare(table->at[middle]->key, key);
        if (order < 0 || (equal && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct entry *table_find(const struct table *table, struct ps_slice key)
{
    size_t i = table_below(table, key, false);
    if (i < table->n && slice_compare(table->at[i]->key, key) == 0)
        return table->at[i];
    return NULL;
}

void map_copy(struct map *to, const struct map *from)
{
    *to = *from;
    for (int i = 0; i < MAP_TREES; i++) {
        if (to->tree[i].table)
            to->tree[i].table->refs++;
    }
}

void map_free(struct map *map)
{
    for (int i = 0; i < MAP_TREES; i++)
        table_release(map->tree[i].table);
    *map = (struct map){0};
}

void map_create(struct map *map, int tree, ps_tree id)
{
    map->tree[tree] = (struct map_tree){.exists = true, .id = id, .table = table_new(0)};
}

void map_drop(struct map *map, int tree)
{
    table_release(map->tree[tree].table);
    map->tree[tree] = (struct map_tree){0};
}

void map_put(struct map *map, int tree, struct ps_slice key, struct ps_slice value)
{
    struct table *table = own_table(&map->tree[tree]);
    struct entry *entry = entry_new(key, value);
    size_t i = table_below(table, key, false);
    if (i < table->n && slice_compare(table->at[i]->key, key) == 0) {
        entry_release(table->at[i]);
        table->at[i] = entry;
        return;
    }
    if (table->n == table->room) {
        table->room *= 2;
        table->at = must(realloc(table->at, table->room * sizeof *table->at));
    }
    memmove(table->at + i + 1, table->at + i, (table->n - i) * sizeof *table->at);
    table->at[i] = entry;
    table->n++;
}

bool map_delete(struct map *map, int tree, struct ps_slice key)
{
    if (!table_find(map->tree[tree].table, key))
        return false;
    struct table *table = own_table(&map->tree[tree]);
    size_t i = table_below(table, key, false);
    assert(i < table->n);
    entry_release(table->at[i]);
    table->n--;
    memmove(table->at + i, table->at + i + 1, (table->n - i) * sizeof *table->at);
    return true;
}

void map_delete_range(struct map *map, int tree, size_t from, size_t to)
{
    if (from == to)
        return;
    struct table *table = own_table(&map->tree[tree]);
    assert(from < to && to <= table->n);
    for (size_t i = from; i < to; i++)
        entry_release(table->at[i]);
    memmove(table->at + from, table->at + to, (table->n - to) * sizeof *table->at);
    table->n -= to - from;
}

void map_clear(struct map *map, int tree)
{
    table_release(map->tree[tree].table);
    map->tree[tree].table = table_new(0);
}

static bool tables_equal(const struct table *a, const struct table *b)
{
    if (a == b)
        return true;
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        if (a->at[i] == b->at[i])
            continue;
        if (slice_compare(a->at[i]->key, b->at[i]->key) ||
            slice_compare(a->at[i]->value, b->at[i]->value))
            return false;
    }
    return true;
}

bool options_equal(const struct ps_tree_options *a, const struct ps_tree_options *b)
{
    return a->compression == b->compression && a->compress_over == b->compress_over &&
           strcmp(a->merge, b->merge) == 0;
}

bool map_equal(const struct map *a, const struct map *b)
{
    for (int i = 0; i < MAP_TREES; i++) {
        if (a->tree[i].exists != b->tree[i].exists)
            return false;
        if (a->tree[i].exists && (!tables_equal(a->tree[i].table, b->tree[i].table) ||
                                  !options_equal(&a->tree[i].options, &b->tree[i].options)))
            return false;
    }
    return true;
}
