/*
 * node.h - leaves and branches: sorted entries in one page.
 *
 *   header (40) | prefix, padded to 4 | u32 heads[n] | u16 offsets[n] | free ... | cells
 *
 * The prefix is common to all keys of the node (in a branch: to all but that of entry 0, which is
 * empty and stands for "less than everything"). A head is the 4 bytes of a key after the prefix, as
 * a big-endian integer, zero-padded; searching is a branch-free binary search over the heads, and
 * only equal ones are compared further. A cell:
 *
 *   branch: u64 child, u64 birth, u64 count | u16 key length | rest of key or run
 *   leaf:   u16 key length | u16 value length | rest of key or run | value or run
 *
 * Key length counts the bytes after the prefix; the rest is what is left of them after the head's
 * 4. Bit 14 of the key length: the whole key is in an overflow run (24 bytes: ref, birth, length).
 * Bit 15 of the value length: so is the value. Keys over 1/8 of a page, and values whose cell would
 * take more than half a page, are in runs. Bit 15 of a leaf's key length: what is stored of the
 * value is encoded (encode.h).
 *
 * Invariants:
 *  N1 Keys ascend strictly. In a branch, all keys below child i are >= key i and < key i+1.
 *  N2 No cell (with its 6 bytes of index) takes more than half of what a page holds.
 *  N3 heap + dead account for every byte: live cells = page size - heap - dead.
 *
 * Threads: functions that change a node are the writer's, on pages it owns (tree.h). Functions that
 * read may be called on any node that a pinned state can see.
 */
#ifndef PANDO_STORAGE_NODE_H
#define PANDO_STORAGE_NODE_H

#include "storage/page.h"
#include "storage/pandostore.h"

struct ps_store;

/* An entry taken out of its node, or on its way in. */
struct node_entry {
    struct ps_slice key;    /* all of it, wherever it is stored */
    struct run_ref key_run; /* ref 0: inline */
    struct ps_slice value;  /* leaves; not set when in a run */
    struct run_ref value_run;
    bool encoded;       /* leaves: so is what is stored of the value */
    struct child child; /* branches */
};

static inline uint32_t key_inline_max(uint32_t page_size)
{
    return page_size / 8;
}

/* The largest leaf cell: two of them, with their index, fit beside a header. */
static inline uint32_t leaf_cell_max(uint32_t page_size)
{
    return (page_size - PAGE_HEADER) / 2 - 8;
}

static inline uint32_t node_heads_at(const struct page *p)
{
    return PAGE_HEADER + ((p->prefix_len + 3u) & ~3u);
}

static inline const uint32_t *node_heads(const struct page *p)
{
    return (const uint32_t *)(const void *)((const uint8_t *)p + node_heads_at(p));
}

static inline const uint16_t *node_offsets(const struct page *p)
{
    return (const uint16_t *)(const void *)(node_heads(p) + p->count);
}

static inline const uint8_t *node_cell(const struct page *p, unsigned i)
{
    return (const uint8_t *)p + node_offsets(p)[i];
}

static inline const uint8_t *node_prefix(const struct page *p)
{
    return (const uint8_t *)p + PAGE_HEADER;
}

/* Free bytes between the index and the cells. */
static inline uint32_t node_gap(const struct page *p)
{
    return p->heap - (node_heads_at(p) + 6u * p->count);
}

static inline void node_child(const struct page *p, unsigned i, struct child *child)
{
    memcpy(child, node_cell(p, i), sizeof *child);
}

static inline void node_set_child(struct page *p, unsigned i, const struct child *child)
{
    memcpy((uint8_t *)p + node_offsets(p)[i], child, sizeof *child);
}

#define NODE_LINE 64u /* bytes of memory that come at once */

/* Asks for what a search looks at first: header, heads, and in leaves, which have fewer entries,
 * the offsets. Otherwise each line would be waited for after the other. */
static ALWAYS_INLINE void node_prefetch(const struct page *p, unsigned level)
{
    unsigned lines = level == 0 ? 4 : 7;
    for (unsigned i = 0; i < lines; i++) {
        __builtin_prefetch((const uint8_t *)p + i * NODE_LINE);
    }
}

/* Bytes of the page that entries, index and prefix take, garbage not counted. */
static inline uint32_t node_used(const struct page *p, uint32_t page_size)
{
    return page_size - node_gap(p) - p->dead;
}

void node_init(struct page *p, uint32_t page_size, uint8_t kind, uint8_t level,
               const uint8_t *prefix, uint32_t prefix_len);

/* Where a leaf's index says that `key` is likely to be, without looking at any cell. */
unsigned node_guess(const struct page *p, struct ps_slice key);
/* The first entry whose key is >= key, from entry `from` on (1 in branches). */
int node_search(struct ps_store *store, const struct page *p, struct ps_slice key, unsigned from,
                unsigned *index, bool *exact);
/* The child of a branch that `key` belongs to. */
int node_search_child(struct ps_store *store, const struct page *p, struct ps_slice key,
                      unsigned *index);

/* Takes entry i apart. An inline key is put together in keybuf (at least key_inline_max bytes). */
int node_read(struct ps_store *store, const struct page *p, unsigned i, uint8_t *keybuf,
              struct node_entry *entry);
/* The key of entry i of a leaf alone, put together in keybuf (key_inline_max and NODE_KEY_SLACK
 * bytes); false if it is in a run. */
#define NODE_KEY_SLACK 32u
bool node_leaf_key(const struct page *p, unsigned i, uint32_t page_size, uint8_t *keybuf,
                   struct ps_slice *key);
/* The value alone: inline, or where its run is. Whether what is stored is encoded. */
bool node_value(const struct page *p, unsigned i, struct ps_slice *value, struct run_ref *run);
/* The runs of entry i; ref 0 where there is none. */
void node_runs(const struct page *p, unsigned i, struct run_ref *key, struct run_ref *value);
/* Replaces the references of entry i's runs where ref is not 0. */
void node_set_runs(struct page *p, unsigned i, page_ref key, page_ref value);
/* The same with births. */
void node_move_runs(struct page *p, unsigned i, const struct run_ref *key,
                    const struct run_ref *value);
uint32_t node_cell_size(const struct page *p, unsigned i);
/* Bytes of entry i's key after the prefix (not known here if it is in a run). */
void node_key_size(const struct page *p, unsigned i, uint32_t *suffix, bool *in_run);
/* Whether prefix and head are those of entry i's key: the page's own always are, one in a run may
 * be another's. */
bool node_holds(const struct page *p, unsigned i, struct ps_slice key);
/* What is wrong with entry i, whose cell is within the page: with its lengths, or, for i > `first`,
 * with its order after the entry before as far as both keys are in the page. NULL: nothing. */
const char *node_entry_problem(const struct page *p, unsigned i, unsigned first,
                               uint32_t page_size);

/* Bytes of cell that an entry takes in a node with a prefix of prefix_len. */
uint32_t entry_cell_size(const struct node_entry *e, bool leaf, uint32_t prefix_len);

/* Puts an entry at position i. The caller knows that it fits (gap >= 6 + cell) and that the key
 * begins with the node's prefix. */
void node_insert(struct page *p, unsigned i, const struct node_entry *e);
void node_remove(struct page *p, unsigned i, uint32_t page_size);
/* Overwrites an inline value by one of the same length. */
bool node_overwrite(struct page *p, unsigned i, struct ps_slice value, bool encoded);

#endif
