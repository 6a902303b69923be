/*
 * node.c - see node.h for the layout and its invariants. Nothing here allocates or logs.
 */
#include "storage/node.h"

#include "storage/encode.h"
#include "storage/overflow.h"

#define KEY_IN_RUN        0x4000u
#define KEY_LEN_MASK      0x3fffu
#define VALUE_ENCODED_BIT 0x8000u /* of the key length */
#define VALUE_IN_RUN      0x8000u
#define VALUE_LEN_MASK    0x7fffu

static inline uint16_t load16(const uint8_t *at)
{
    uint16_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

/* The 4 bytes of a key after `skip` as a big-endian integer, zero-padded. */
static inline uint32_t head_of(const uint8_t *key, size_t len, uint32_t skip)
{
    uint32_t head = 0;
    size_t rest = len > skip ? len - skip : 0;
    if (likely(rest >= 4)) {
        memcpy(&head, key + skip, 4);
    } else if (rest > 0) {
        memcpy(&head, key + skip, rest);
    }
    return __builtin_bswap32(head);
}

static inline bool is_leaf(const struct page *p)
{
    return p->kind == PAGE_LEAF;
}

static inline const uint8_t *key_part(const struct page *p, unsigned i)
{
    return node_cell(p, i) + (is_leaf(p) ? 0 : sizeof(struct child));
}

static inline const uint8_t *key_rest(const struct page *p, const uint8_t *part)
{
    return part + (is_leaf(p) ? 4 : 2);
}

static inline uint32_t rest_of(uint32_t suffix_len)
{
    return suffix_len > 4 ? suffix_len - 4 : 0;
}

void node_init(struct page *p, uint32_t page_size, uint8_t kind, uint8_t level,
               const uint8_t *prefix, uint32_t prefix_len)
{
    uint64_t number = p->number;
    uint64_t birth = p->birth;
    memset(p, 0, PAGE_HEADER);
    p->number = number;
    p->birth = birth;
    p->kind = kind;
    p->level = level;
    p->heap = page_size;
    p->prefix_len = (uint16_t)prefix_len;
    if (prefix_len > 0) {
        memcpy((uint8_t *)p + PAGE_HEADER, prefix, prefix_len);
    }
}

/* Compares the key after prefix and head with entry i, whose head is equal. */
static int compare_rest(struct ps_store *store, const struct page *p, unsigned i,
                        struct ps_slice key, int *order)
{
    const uint8_t *part = key_part(p, i);
    uint32_t klen = load16(part);
    const uint8_t *rest = key_rest(p, part);
    size_t have = klen & KEY_LEN_MASK;
    if (unlikely(klen & KEY_IN_RUN)) {
        struct run_ref run;
        memcpy(&run, rest, sizeof run);
        const uint8_t *whole;
        int rc = run_data(store, &run, &whole);
        if (rc != 0) {
            return rc;
        }
        have = run.len - p->prefix_len;
        rest = whole + p->prefix_len + 4;
    }
    size_t want = key.len - p->prefix_len;
    size_t a = want > 4 ? want - 4 : 0;
    size_t b = have > 4 ? have - 4 : 0;
    size_t common = a < b ? a : b;
    int c = common > 0 ? memcmp((const uint8_t *)key.data + p->prefix_len + 4, rest, common) : 0;
    *order = c != 0 ? c : (want > have) - (want < have);
    return 0;
}

/* First index in [lo, hi) with heads[index] >= head. */
static inline unsigned lower_bound(const uint32_t *heads, unsigned lo, unsigned hi, uint32_t head)
{
    unsigned base = lo;
    unsigned n = hi > lo ? hi - lo : 0; /* a lost page has no entry, not even the first (lost.h) */
    while (n > 1) {
        unsigned half = n / 2;
        base = heads[base + half - 1] < head ? base + half : base;
        n -= half;
    }
    return base + (n == 1 && heads[base] < head);
}

unsigned node_guess(const struct page *p, struct ps_slice key)
{
    return lower_bound(node_heads(p), 0, p->count, head_of(key.data, key.len, p->prefix_len));
}

int node_search(struct ps_store *store, const struct page *p, struct ps_slice key, unsigned from,
                unsigned *index, bool *exact)
{
    unsigned n = p->count;
    *exact = false;
    uint32_t plen = p->prefix_len;
    if (plen > 0) {
        size_t m = key.len < plen ? key.len : plen;
        int c = m > 0 ? memcmp(key.data, node_prefix(p), m) : 0;
        if (c != 0 || key.len < plen) {
            *index = c > 0 ? n : from;
            return 0;
        }
    }
    const uint32_t *heads = node_heads(p);
    uint32_t head = head_of(key.data, key.len, plen);
    unsigned lo = lower_bound(heads, from, n, head);
    unsigned hi = lo;
    if (lo < n && heads[lo] == head) {
        hi = lo + 1;
        if (hi < n && heads[hi] == head) {
            hi = head == UINT32_MAX ? n : lower_bound(heads, hi, n, head + 1);
        }
    }
    while (lo < hi) {
        unsigned mid = lo + (hi - lo) / 2;
        int order;
        int rc = compare_rest(store, p, mid, key, &order);
        if (unlikely(rc != 0)) {
            return rc;
        }
        if (order == 0) {
            *index = mid;
            *exact = true;
            return 0;
        }
        if (order > 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    *index = lo;
    return 0;
}

int node_search_child(struct ps_store *store, const struct page *p, struct ps_slice key,
                      unsigned *index)
{
    bool exact;
    int rc = node_search(store, p, key, 1, index, &exact);
    if (unlikely(rc != 0)) {
        return rc;
    }
    *index -= exact ? 0 : 1;
    return 0;
}

bool node_value(const struct page *p, unsigned i, struct ps_slice *value, struct run_ref *run)
{
    const uint8_t *cell = node_cell(p, i);
    uint32_t klen = load16(cell);
    uint32_t vlen = load16(cell + 2);
    const uint8_t *at =
        cell + 4 + (klen & KEY_IN_RUN ? sizeof(struct run_ref) : rest_of(klen & KEY_LEN_MASK));
    if (unlikely(vlen & VALUE_IN_RUN)) {
        memcpy(run, at, sizeof *run);
        value->data = NULL;
        value->len = 0;
    } else {
        run->ref = 0;
        value->data = at;
        value->len = vlen & VALUE_LEN_MASK;
    }
    return (klen & VALUE_ENCODED_BIT) != 0;
}

int node_read(struct ps_store *store, const struct page *p, unsigned i, uint8_t *keybuf,
              struct node_entry *e)
{
    memset(e, 0, sizeof *e);
    const uint8_t *part = key_part(p, i);
    uint32_t klen = load16(part);
    if (is_leaf(p)) {
        e->encoded = node_value(p, i, &e->value, &e->value_run);
    } else {
        node_child(p, i, &e->child);
        if (i == 0) {
            e->key.data = keybuf;
            return 0;
        }
    }
    const uint8_t *rest = key_rest(p, part);
    if (unlikely(klen & KEY_IN_RUN)) {
        memcpy(&e->key_run, rest, sizeof e->key_run);
        const uint8_t *whole;
        int rc = run_data(store, &e->key_run, &whole);
        e->key.data = whole;
        e->key.len = e->key_run.len;
        return rc;
    }
    uint32_t suffix = klen & KEY_LEN_MASK;
    uint32_t plen = p->prefix_len;
    uint32_t head = __builtin_bswap32(node_heads(p)[i]);
    memcpy(keybuf, node_prefix(p), plen);
    memcpy(keybuf + plen, &head, suffix < 4 ? suffix : 4);
    memcpy(keybuf + plen + 4, rest, rest_of(suffix));
    e->key.data = keybuf;
    e->key.len = plen + suffix;
    return 0;
}

bool node_leaf_key(const struct page *p, unsigned i, uint32_t page_size, uint8_t *keybuf,
                   struct ps_slice *key)
{
    const uint8_t *cell = node_cell(p, i);
    uint32_t suffix = load16(cell);
    if (unlikely(suffix & KEY_IN_RUN)) {
        return false;
    }
    suffix &= KEY_LEN_MASK;
    uint32_t plen = p->prefix_len;
    uint32_t rest = rest_of(suffix);
    uint32_t head = __builtin_bswap32(node_heads(p)[i]);
    const uint8_t *from = cell + 4;
    /* Sixteen bytes at once, whatever of them counts, where there are as many. */
    if (likely(plen <= 16 && rest <= 16 && from + 16 <= (const uint8_t *)p + page_size)) {
        memcpy(keybuf, node_prefix(p), 16);
        memcpy(keybuf + plen, &head, 4);
        memcpy(keybuf + plen + 4, from, 16);
    } else {
        memcpy(keybuf, node_prefix(p), plen);
        memcpy(keybuf + plen, &head, 4);
        memcpy(keybuf + plen + 4, from, rest);
    }
    *key = (struct ps_slice){keybuf, plen + suffix};
    return true;
}

void node_runs(const struct page *p, unsigned i, struct run_ref *key, struct run_ref *value)
{
    memset(key, 0, sizeof *key);
    memset(value, 0, sizeof *value);
    const uint8_t *part = key_part(p, i);
    if (load16(part) & KEY_IN_RUN) {
        memcpy(key, key_rest(p, part), sizeof *key);
    }
    if (is_leaf(p)) {
        struct ps_slice ignored;
        (void)node_value(p, i, &ignored, value);
    }
}

/* Replaces the first `bytes` bytes of entry i's run references by those of the given ones. */
static void set_runs(struct page *p, unsigned i, const struct run_ref *key,
                     const struct run_ref *value, size_t bytes)
{
    uint8_t *part = (uint8_t *)p + node_offsets(p)[i] + (is_leaf(p) ? 0 : sizeof(struct child));
    uint32_t klen = load16(part);
    uint8_t *rest = part + (is_leaf(p) ? 4 : 2);
    if (key->ref != 0) {
        memcpy(rest, key, bytes);
    }
    if (value->ref != 0) {
        rest += klen & KEY_IN_RUN ? sizeof(struct run_ref) : rest_of(klen & KEY_LEN_MASK);
        memcpy(rest, value, bytes);
    }
}

void node_set_runs(struct page *p, unsigned i, page_ref key, page_ref value)
{
    struct run_ref key_run = {.ref = key};
    struct run_ref value_run = {.ref = value};
    set_runs(p, i, &key_run, &value_run, sizeof key);
}

void node_move_runs(struct page *p, unsigned i, const struct run_ref *key,
                    const struct run_ref *value)
{
    set_runs(p, i, key, value, sizeof *key);
}

void node_key_size(const struct page *p, unsigned i, uint32_t *suffix, bool *in_run)
{
    uint32_t klen = load16(key_part(p, i));
    *suffix = klen & KEY_LEN_MASK;
    *in_run = (klen & KEY_IN_RUN) != 0;
}

/* Bits of the lengths that nothing sets, and sizes that no entry is stored with. */
static const char *length_problem(const struct page *p, unsigned i, uint32_t page_size)
{
    const uint8_t *part = key_part(p, i);
    uint32_t klen = load16(part);
    uint32_t suffix = klen & KEY_LEN_MASK;
    bool in_run = (klen & KEY_IN_RUN) != 0;
    if (((klen & VALUE_ENCODED_BIT) != 0 && !is_leaf(p)) || (in_run && suffix != 0)) {
        return "an impossible key length";
    }
    if (!in_run && suffix + p->prefix_len > key_inline_max(page_size)) {
        return "a key is longer than keys in pages are";
    }
    if (!is_leaf(p)) {
        return i == 0 && klen != 0 ? "the first child of a branch has a key" : NULL;
    }
    uint32_t vlen = load16(part + 2);
    uint32_t key = in_run ? (uint32_t)sizeof(struct run_ref) : rest_of(p->prefix_len + suffix);
    if ((vlen & VALUE_IN_RUN) != 0 ? vlen != VALUE_IN_RUN
                                   : 4 + key + vlen > leaf_cell_max(page_size)) {
        return "a value is longer than values in pages are";
    }
    struct run_ref run;
    struct ps_slice value;
    uint64_t len;
    bool encoded = node_value(p, i, &value, &run);
    if ((vlen & VALUE_IN_RUN) != 0) {
        return run.ref == 0 ? "a value is in no run" : NULL;
    }
    return encoded && !encoded_length(value, &len) ? "an impossible compressed value" : NULL;
}

const char *node_entry_problem(const struct page *p, unsigned i, unsigned first, uint32_t page_size)
{
    const char *problem = length_problem(p, i, page_size);
    if (problem != NULL) {
        return problem;
    }
    uint32_t suffix, before;
    bool in_run, before_in_run;
    uint32_t head = node_heads(p)[i];
    node_key_size(p, i, &suffix, &in_run);
    if (!in_run && suffix < 4 && (suffix == 0 ? head : head << 8 * suffix) != 0) {
        return "the head of a key is longer than the key";
    }
    if (i <= first) {
        return NULL;
    }
    uint32_t head_before = node_heads(p)[i - 1];
    if (head != head_before) {
        return head < head_before ? "keys are out of order" : NULL;
    }
    node_key_size(p, i - 1, &before, &before_in_run);
    if (in_run || before_in_run) {
        return NULL;
    }
    uint32_t a = rest_of(before);
    uint32_t b = rest_of(suffix);
    int c = memcmp(key_rest(p, key_part(p, i - 1)), key_rest(p, key_part(p, i)), a < b ? a : b);
    return c > 0 || (c == 0 && before >= suffix) ? "keys are out of order" : NULL;
}

bool node_holds(const struct page *p, unsigned i, struct ps_slice key)
{
    uint32_t plen = p->prefix_len;
    return key.len >= plen && (plen == 0 || memcmp(key.data, node_prefix(p), plen) == 0) &&
           node_heads(p)[i] == head_of(key.data, key.len, plen);
}

uint32_t node_cell_size(const struct page *p, unsigned i)
{
    const uint8_t *part = key_part(p, i);
    uint32_t klen = load16(part);
    uint32_t size = klen & KEY_IN_RUN ? sizeof(struct run_ref) : rest_of(klen & KEY_LEN_MASK);
    if (!is_leaf(p)) {
        return (uint32_t)sizeof(struct child) + 2 + size;
    }
    uint32_t vlen = load16(part + 2);
    return 4 + size +
           (vlen & VALUE_IN_RUN ? (uint32_t)sizeof(struct run_ref) : vlen & VALUE_LEN_MASK);
}

uint32_t entry_cell_size(const struct node_entry *e, bool leaf, uint32_t prefix_len)
{
    uint32_t size;
    if (e->key_run.ref != 0) {
        size = sizeof(struct run_ref);
    } else {
        size = e->key.len > prefix_len ? rest_of((uint32_t)e->key.len - prefix_len) : 0;
    }
    if (!leaf) {
        return (uint32_t)sizeof(struct child) + 2 + size;
    }
    return 4 + size +
           (e->value_run.ref != 0 ? (uint32_t)sizeof(struct run_ref) : (uint32_t)e->value.len);
}

static uint8_t *put_key(uint8_t *rest, const struct node_entry *e, uint32_t plen)
{
    if (e->key_run.ref != 0) {
        memcpy(rest, &e->key_run, sizeof e->key_run);
        return rest + sizeof e->key_run;
    }
    uint32_t n = e->key.len > plen ? rest_of((uint32_t)e->key.len - plen) : 0;
    if (n > 0) {
        memcpy(rest, (const uint8_t *)e->key.data + plen + 4, n);
    }
    return rest + n;
}

void node_insert(struct page *p, unsigned i, const struct node_entry *e)
{
    bool leaf = is_leaf(p);
    uint32_t plen = p->prefix_len;
    uint32_t size = entry_cell_size(e, leaf, plen);
    unsigned n = p->count;
    PS_ASSERT(i <= n && node_gap(p) >= size + 6);
    uint8_t *heads = (uint8_t *)p + node_heads_at(p);
    uint8_t *offsets = heads + 4u * n;
    memmove(offsets + 2u * i + 6, offsets + 2u * i, 2u * (n - i));
    memmove(offsets + 4, offsets, 2u * i);
    memmove(heads + 4u * i + 4, heads + 4u * i, 4u * (n - i));
    uint32_t head = head_of(e->key.data, e->key.len, plen);
    memcpy(heads + 4u * i, &head, 4);
    p->heap -= size;
    uint16_t at = (uint16_t)p->heap;
    memcpy(heads + 4u * (n + 1) + 2u * i, &at, 2);
    p->count = (uint16_t)(n + 1);

    uint8_t *cell = (uint8_t *)p + p->heap;
    uint16_t klen = e->key.len > plen && e->key_run.ref == 0 ? (uint16_t)(e->key.len - plen) : 0;
    klen |= e->key_run.ref != 0 ? KEY_IN_RUN : 0;
    if (leaf) {
        uint16_t vlen = e->value_run.ref != 0 ? VALUE_IN_RUN : (uint16_t)e->value.len;
        klen |= e->encoded ? VALUE_ENCODED_BIT : 0;
        memcpy(cell, &klen, 2);
        memcpy(cell + 2, &vlen, 2);
        uint8_t *value = put_key(cell + 4, e, plen);
        if (e->value_run.ref != 0) {
            memcpy(value, &e->value_run, sizeof e->value_run);
        } else if (e->value.len > 0) {
            memcpy(value, e->value.data, e->value.len);
        }
    } else {
        memcpy(cell, &e->child, sizeof e->child);
        memcpy(cell + sizeof e->child, &klen, 2);
        put_key(cell + sizeof e->child + 2, e, plen);
    }
    if (e->key_run.ref != 0 || e->value_run.ref != 0) {
        p->flags |= PAGE_HAS_OVERFLOW;
    }
}

void node_remove(struct page *p, unsigned i, uint32_t page_size)
{
    unsigned n = p->count;
    PS_ASSERT(i < n);
    uint32_t size = node_cell_size(p, i);
    uint8_t *heads = (uint8_t *)p + node_heads_at(p);
    uint8_t *offsets = heads + 4u * n;
    if (p->heap == node_offsets(p)[i]) {
        p->heap += size;
    } else {
        p->dead += size;
    }
    memmove(heads + 4u * i, heads + 4u * i + 4, 4u * (n - i - 1));
    memmove(offsets - 4, offsets, 2u * i);
    memmove(offsets - 4 + 2u * i, offsets + 2u * i + 2, 2u * (n - i - 1));
    p->count = (uint16_t)(n - 1);
    if (n == 1) {
        p->heap = page_size;
        p->dead = 0;
        p->flags = 0;
    }
}

bool node_overwrite(struct page *p, unsigned i, struct ps_slice value, bool encoded)
{
    struct ps_slice old;
    struct run_ref run;
    bool was = node_value(p, i, &old, &run);
    if (run.ref != 0 || old.len != value.len || was != encoded) {
        return false;
    }
    if (value.len > 0) {
        memcpy((uint8_t *)p + ((const uint8_t *)old.data - (const uint8_t *)p), value.data,
               value.len);
    }
    return true;
}
