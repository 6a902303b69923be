/*
 * build.c - see build.h.
 *
 * Entries are gathered per level until the next one does not fit; then the page is laid out with
 * the prefix that takes the least room, written, and its child entry goes up. A branch that is full
 * leaves its last entry to the next one, so that none has a single child.
 */
#include "storage/build.h"

#include <errno.h>

#include "storage/crc32c.h"

struct item {
    uint32_t key_len;  /* of the whole key */
    uint32_t key_kept; /* bytes of it in `bytes`: all, or, if it is in a run, a beginning */
    size_t key_at, value_at;
    uint32_t value_len;
    bool encoded;
    struct run_ref key_run, value_run;
    struct child child;
};

struct level {
    VEC(struct item) items;
    byte_vec bytes;
    uint32_t prefix;    /* common to all keys that are stored */
    uint32_t plain;     /* bytes of the page with no prefix */
    uint32_t shortened; /* and with that one */
};

struct build {
    struct build_out out;
    uint32_t page_shift;
    struct level levels[TREE_MAX_LEVELS];
    bool begun;
    byte_vec last;      /* the key before */
    byte_vec separator; /* with which the leaf in the making begins */
};

struct build *build_new(const struct build_out *out)
{
    struct build *b = calloc(1, sizeof *b);
    if (b != NULL) {
        b->out = *out;
        b->page_shift = (uint32_t)__builtin_ctz(out->page_size);
    }
    return b;
}

void build_free(struct build *b)
{
    if (b == NULL) {
        return;
    }
    for (unsigned i = 0; i < TREE_MAX_LEVELS; i++) {
        vec_free(&b->levels[i].items);
        vec_free(&b->levels[i].bytes);
    }
    vec_free(&b->last);
    vec_free(&b->separator);
    free(b);
}

/* ---- runs ------------------------------------------------------------------------------------ */

void build_run_image(uint8_t *at, uint32_t page_shift, const struct run_ref *run, const void *bytes)
{
    size_t used = PAGE_HEADER + (size_t)run->len;
    size_t all = (size_t)plain_pages(run->len, page_shift) << page_shift;
    struct page *p = (struct page *)(void *)at;
    memset(at, 0, PAGE_HEADER);
    memset(at + used, 0, all - used);
    if (run->len > 0) {
        memcpy(at + PAGE_HEADER, bytes, (size_t)run->len);
    }
    p->kind = PAGE_OVERFLOW;
    p->number = run->ref;
    p->birth = run->birth;
    p->run_len = run->len;
    p->crc = page_crc(p, used);
}

/* The data, and zeros to the end of the last page. */
static int write_data(const struct ps_vfs *vfs, int fd, uint32_t page_shift, uint64_t offset,
                      const uint8_t *bytes, size_t len)
{
    size_t page_size = (size_t)1 << page_shift;
    size_t whole = len & ~(page_size - 1);
    int err = whole > 0 ? vfs->pwrite(vfs->ctx, fd, bytes, whole, offset) : 0;
    if (err == 0 && whole < len) {
        uint8_t *end = calloc(1, page_size);
        if (end == NULL) {
            return -ENOMEM;
        }
        memcpy(end, bytes + whole, len - whole);
        err = vfs->pwrite(vfs->ctx, fd, end, page_size, offset + whole);
        free(end);
    }
    return err;
}

int build_write_long_run(const struct ps_vfs *vfs, int fd, uint32_t page_shift,
                         const struct run_ref *run, const void *bytes)
{
    size_t head_bytes = (size_t)run_head_pages(run->len, page_shift) << page_shift;
    uint64_t pieces = (run->len + RUN_PIECE - 1) / RUN_PIECE;
    struct page *head = calloc(1, head_bytes);
    if (head == NULL) {
        return -ENOMEM;
    }
    head->kind = PAGE_FILE_RUN;
    head->number = run->ref;
    head->birth = run->birth;
    head->run_len = run->len;
    uint32_t *crcs = (uint32_t *)(void *)((uint8_t *)head + PAGE_HEADER);
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t from = i * RUN_PIECE;
        size_t n = run->len - from < RUN_PIECE ? (size_t)(run->len - from) : RUN_PIECE;
        crcs[i] = crc32c(0, (const uint8_t *)bytes + from, n);
    }
    head->crc = page_crc(head, PAGE_HEADER + 4 * (size_t)pieces);
    uint64_t offset = run->ref << page_shift;
    int err = vfs->pwrite(vfs->ctx, fd, head, head_bytes, offset);
    free(head);
    return err != 0 ? err
                    : write_data(vfs, fd, page_shift, offset + head_bytes, bytes, (size_t)run->len);
}

static int make_run(struct build *b, struct ps_slice bytes, struct run_ref *run)
{
    if (run_is_long(bytes.len)) {
        return b->out.long_run(b->out.arg, bytes, run);
    }
    uint8_t *at;
    int rc = b->out.place(b->out.arg, run_pages(bytes.len, b->page_shift), &run->ref, &at);
    if (rc == 0) {
        run->birth = b->out.birth(b->out.arg);
        run->len = bytes.len;
        build_run_image(at, b->page_shift, run, bytes.data);
    }
    return rc;
}

/* ---- a page in the making ---------------------------------------------------------------------
 */

static struct node_entry entry_of(const struct level *l, const struct item *it)
{
    return (struct node_entry){
        .key = {l->bytes.at + it->key_at, it->key_len},
        .key_run = it->key_run,
        .value = {l->bytes.at + it->value_at, it->value_len},
        .value_run = it->value_run,
        .encoded = it->encoded,
        .child = it->child,
    };
}

/* What is there to be compared of a key. */
static struct ps_slice kept_key(const struct level *l, const struct item *it)
{
    return (struct ps_slice){l->bytes.at + it->key_at, it->key_kept};
}

static uint32_t cell_of(const struct level *l, unsigned level, size_t i, uint32_t prefix)
{
    if (level > 0 && i == 0) {
        return 6 + (uint32_t)sizeof(struct child) + 2;
    }
    struct node_entry e = entry_of(l, &l->items.at[i]);
    return 6 + entry_cell_size(&e, level == 0, prefix);
}

static uint32_t page_bytes(const struct level *l, unsigned level, uint32_t prefix)
{
    uint32_t size = PAGE_HEADER + ((prefix + 3) & ~3u);
    for (size_t i = 0; i < l->items.n; i++) {
        size += cell_of(l, level, i, prefix);
    }
    return size;
}

/* The figures of a page to which its last entry was just added. */
static void measure(struct build *b, unsigned level)
{
    struct level *l = &b->levels[level];
    size_t first = level > 0;
    size_t n = l->items.n;
    uint32_t longest = 0;
    if (n > first + 1) {
        longest = slice_common(kept_key(l, &l->items.at[first]), kept_key(l, &l->items.at[n - 1]));
        uint32_t most = key_inline_max(b->out.page_size);
        longest = longest > most ? most : longest;
    }
    if (n <= first + 2 || longest != l->prefix) {
        l->prefix = longest;
        l->plain = page_bytes(l, level, 0);
        l->shortened = page_bytes(l, level, longest);
        return;
    }
    l->plain += cell_of(l, level, n - 1, 0);
    l->shortened += cell_of(l, level, n - 1, longest);
}

static bool fits(const struct build *b, const struct level *l)
{
    return (l->plain < l->shortened ? l->plain : l->shortened) <= b->out.page_size;
}

static int append(struct build *b, unsigned level, const struct node_entry *e)
{
    struct level *l = &b->levels[level];
    size_t kept = e->key.len;
    size_t most = key_inline_max(b->out.page_size) + 8;
    if (e->key_run.ref != 0 && kept > most) {
        kept = most;
    }
    size_t value_len = e->value_run.ref != 0 || level > 0 ? 0 : e->value.len;
    if (!vec_reserve(&l->items, 1) || !vec_reserve(&l->bytes, kept + value_len + 1)) {
        return PS_NOMEM;
    }
    struct item it = {.key_len = (uint32_t)e->key.len,
                      .key_kept = (uint32_t)kept,
                      .key_at = l->bytes.n,
                      .value_at = l->bytes.n + kept,
                      .value_len = (uint32_t)value_len,
                      .key_run = e->key_run,
                      .value_run = e->value_run,
                      .encoded = e->encoded,
                      .child = e->child};
    if (kept > 0) {
        memcpy(l->bytes.at + l->bytes.n, e->key.data, kept);
    }
    if (value_len > 0) {
        memcpy(l->bytes.at + l->bytes.n + kept, e->value.data, value_len);
    }
    l->bytes.n += kept + value_len;
    l->items.at[l->items.n++] = it;
    measure(b, level);
    return 0;
}

/* The first n entries become a page. */
static int write_page(struct build *b, unsigned level, size_t n, struct child *child)
{
    struct level *l = &b->levels[level];
    size_t all = l->items.n;
    uint8_t *at;
    l->items.n = n;
    l->prefix = UINT32_MAX; /* figures anew, of these */
    measure(b, level);
    uint32_t prefix = l->shortened < l->plain ? l->prefix : 0;
    int rc = b->out.place(b->out.arg, 1, &child->ref, &at);
    l->items.n = all;
    if (rc != 0) {
        return rc;
    }
    struct page *p = (struct page *)(void *)at;
    size_t first = level > 0;
    memset(at, 0, b->out.page_size);
    node_init(p, b->out.page_size, level == 0 ? PAGE_LEAF : PAGE_BRANCH, (uint8_t)level,
              prefix > 0 ? l->bytes.at + l->items.at[first].key_at : NULL, prefix);
    uint64_t count = 0;
    uint64_t flag = 0;
    for (size_t i = 0; i < n; i++) {
        struct node_entry e = entry_of(l, &l->items.at[i]);
        if (i < first) {
            e.key.len = 0;
            e.key_run.ref = 0;
        }
        node_insert(p, (unsigned)i, &e);
        count += level == 0 ? 1 : child_entries(&e.child);
        flag |= e.child.count & CHILD_OVERFLOW;
    }
    flag |= p->flags & PAGE_HAS_OVERFLOW ? CHILD_OVERFLOW : 0;
    child->birth = b->out.birth(b->out.arg);
    child->count = count | flag;
    p->number = child->ref;
    p->birth = child->birth;
    p->crc = page_crc(p, b->out.page_size);
    return 0;
}

/* ---- going up ---------------------------------------------------------------------------------
 */

static int add(struct build *b, unsigned level, struct node_entry *e);

/* The first n entries of a level go into a page; the page's entry goes up. */
static int send_up(struct build *b, unsigned level, size_t n)
{
    struct level *l = &b->levels[level];
    struct node_entry up = {0};
    int rc = write_page(b, level, n, &up.child);
    if (rc != 0) {
        return rc;
    }
    if (level + 1 == TREE_MAX_LEVELS) {
        return PS_LIMIT;
    }
    const struct item *first = &l->items.at[0];
    if (level == 0) {
        up.key = bytes_slice(&b->separator);
    } else {
        up.key = (struct ps_slice){l->bytes.at + first->key_at, first->key_len};
        up.key_run = first->key_run;
    }
    return add(b, level + 1, &up);
}

/* Entries from the nth on stay, for the next page. */
static void keep_from(struct build *b, unsigned level, size_t n)
{
    struct level *l = &b->levels[level];
    size_t from = l->items.at[n].key_at;
    l->bytes.n -= from;
    memmove(l->bytes.at, l->bytes.at + from, l->bytes.n);
    l->items.n -= n;
    memmove(l->items.at, l->items.at + n, l->items.n * sizeof *l->items.at);
    for (size_t i = 0; i < l->items.n; i++) {
        l->items.at[i].key_at -= from;
        l->items.at[i].value_at -= from;
    }
    l->prefix = UINT32_MAX;
    measure(b, level);
}

static int add(struct build *b, unsigned level, struct node_entry *e)
{
    struct level *l = &b->levels[level];
    int rc = 0;
    if (e->key.len > key_inline_max(b->out.page_size) && e->key_run.ref == 0) {
        rc = make_run(b, e->key, &e->key_run);
    }
    if (rc == 0 && level == 0 && entry_cell_size(e, true, 0) > leaf_cell_max(b->out.page_size)) {
        rc = make_run(b, e->value, &e->value_run);
    }
    rc = rc == 0 ? append(b, level, e) : rc;
    if (rc != 0 || fits(b, l)) {
        return rc;
    }
    size_t n = l->items.n - 1 - (level > 0); /* of a branch two stay: no child is alone */
    PS_ASSERT(n > 0);
    rc = send_up(b, level, n);
    if (rc == 0) {
        keep_from(b, level, n);
    }
    return rc;
}

/* ---- from outside -----------------------------------------------------------------------------
 */

int build_put(struct build *b, struct ps_slice key, struct ps_slice value, bool encoded)
{
    struct ps_slice last = bytes_slice(&b->last);
    if (b->begun && slice_order(last, key) >= 0) {
        return PS_INVALID;
    }
    size_t parts =
        b->begun ? slice_common(last, key) + 1u : 0; /* key bytes that tell it from the last */
    size_t before = b->levels[0].items.n;
    struct node_entry e = {.key = key, .value = value, .encoded = encoded};
    int rc = add(b, 0, &e);
    if (rc == 0 && b->levels[0].items.n <= before) { /* it begins another leaf */
        rc = bytes_keep(&b->separator, (struct ps_slice){key.data, parts}) ? 0 : PS_NOMEM;
    }
    b->begun = true;
    return rc == 0 && !bytes_keep(&b->last, key) ? PS_NOMEM : rc;
}

int build_finish(struct build *b, struct tree_root *root)
{
    int rc = 0;
    root->root = (struct child){0};
    root->level = 0;
    for (unsigned level = 0; rc == 0 && b->levels[level].items.n > 0; level++) {
        struct level *l = &b->levels[level];
        bool top = level + 1 == TREE_MAX_LEVELS || b->levels[level + 1].items.n == 0;
        if (top) {
            rc = write_page(b, level, l->items.n, &root->root);
            root->level = (uint8_t)level;
        } else {
            rc = send_up(b, level, l->items.n);
        }
        l->items.n = l->bytes.n = 0;
        if (top) {
            break;
        }
    }
    b->begun = false;
    b->separator.n = 0;
    return rc;
}
