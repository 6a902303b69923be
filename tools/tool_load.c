/*
 * tool_load.c - `pando-tool load`: a dump into a store, in sorted transactions of bounded size.
 *
 * A transaction's entries are gathered, sorted by key (of two with the same key the later one
 * counts) and put; nothing of a transaction is there before it is committed. An input that is wrong
 * somewhere leaves what came before the last transaction's end.
 *
 * Threads: one, and the engine's.
 */
#include "tools/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TXN_ENTRIES 20000u
#define TXN_BYTES   ((size_t)16 << 20)

/* An entry that waits: offsets in the batch's bytes. */
struct entry {
    size_t key, value;
    size_t key_len, value_len;
    size_t order;
    const uint8_t *const *bytes; /* where the batch's bytes are: they move while it grows */
};

struct load {
    struct tool *tool;
    struct ps_store *store;
    struct tool_reader reader;
    enum { NEW, APPEND, REPLACE } mode;
    const char *into; /* --tree */
    unsigned trees;
    ps_tree tree;
    bool begun[PS_MAX_TREES]; /* trees that this input had before */
    uint64_t most;            /* entries in a transaction */
    uint64_t size;            /* of the input's file; 0: not known */
    struct entry *entries;
    size_t n, entries_room;
    uint8_t *bytes;
    size_t used, room;
    uint64_t put, kept, transactions;
};

/* ---- transactions -----------------------------------------------------------------------------
 */

static int fail(struct load *l, const char *what, int rc)
{
    struct ps_fault fault;
    ps_last_fault(l->store, &fault);
    if (fault.code == rc) {
        return tool_fail_fault(l->tool, l->tool->arguments[0], rc, &fault);
    }
    return tool_fail(l->tool, "%s: %s", what, ps_strerror(rc));
}

static int by_key(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    size_t n = x->key_len < y->key_len ? x->key_len : y->key_len;
    int c = memcmp(*x->bytes + x->key, *y->bytes + y->key, n);
    if (c == 0) {
        c = (x->key_len > y->key_len) - (x->key_len < y->key_len);
    }
    return c != 0 ? c : (x->order > y->order) - (x->order < y->order);
}

static void sort_entries(struct load *l)
{
    bool sorted = true;
    for (size_t i = 1; sorted && i < l->n; i++) {
        sorted = by_key(&l->entries[i - 1], &l->entries[i]) < 0;
    }
    if (!sorted) {
        qsort(l->entries, l->n, sizeof *l->entries, by_key);
    }
}

static struct ps_slice key_of(const struct load *l, size_t i)
{
    return (struct ps_slice){l->bytes + l->entries[i].key, l->entries[i].key_len};
}

static int put_entry(struct load *l, struct ps_txn *txn, size_t i)
{
    struct ps_slice key = key_of(l, i);
    struct ps_slice value = {l->bytes + l->entries[i].value, l->entries[i].value_len};
    struct ps_slice next = i + 1 < l->n ? key_of(l, i + 1) : (struct ps_slice){NULL, 0};
    if (i + 1 < l->n && next.len == key.len && memcmp(next.data, key.data, key.len) == 0) {
        return 0; /* a later one has the same key */
    }
    if (l->mode == APPEND) {
        struct ps_slice there;
        int rc = ps_get(ps_txn_view(txn), l->tree, key, &there);
        if (rc != PS_NOTFOUND) {
            l->kept += rc == 0;
            return rc;
        }
    }
    l->put++;
    return ps_put(txn, l->tree, key, value);
}

static int commit(struct load *l)
{
    struct ps_txn *txn;
    if (l->n == 0) {
        return TOOL_FINE;
    }
    sort_entries(l);
    int rc = ps_begin(l->store, &txn);
    if (rc != 0) {
        return fail(l, "beginning a transaction", rc);
    }
    ps_keep_whole(txn);
    for (size_t i = 0; rc == 0 && i < l->n; i++) {
        rc = put_entry(l, txn, i);
    }
    if (rc != 0) {
        ps_abort(txn);
        return fail(l, "putting an entry", rc);
    }
    rc = ps_commit(txn, PS_NONE, NULL);
    l->transactions += rc == 0;
    l->n = 0;
    l->used = 0;
    return rc == 0 ? TOOL_FINE : fail(l, "committing", rc);
}

/* ---- gathering --------------------------------------------------------------------------------
 */

static bool grow(void **at, size_t *room, size_t need, size_t size)
{
    size_t wanted = *room < 1024 ? 1024 : *room;
    while (wanted < need) {
        wanted += wanted / 2;
    }
    void *grown = wanted == *room ? *at : realloc(*at, wanted * size);
    if (grown != NULL) {
        *at = grown;
        *room = wanted;
    }
    return grown != NULL;
}

static int take_entry(struct load *l)
{
    struct ps_slice key = l->reader.key, value = l->reader.value;
    if (!grow((void **)&l->entries, &l->entries_room, l->n + 1, sizeof *l->entries) ||
        !grow((void **)&l->bytes, &l->room, l->used + key.len + value.len + 1, 1)) {
        return tool_fail(l->tool, "out of memory");
    }
    l->entries[l->n] = (struct entry){.key = l->used,
                                      .value = l->used + key.len,
                                      .key_len = key.len,
                                      .value_len = value.len,
                                      .order = l->n,
                                      .bytes = (const uint8_t *const *)&l->bytes};
    memcpy(l->bytes + l->used, key.len > 0 ? key.data : "", key.len);
    memcpy(l->bytes + l->used + key.len, value.len > 0 ? value.data : "", value.len);
    l->used += key.len + value.len;
    l->n++;
    if (l->size > 0) {
        tool_show_progress(l->tool, (uint64_t)ftello(l->reader.file), l->size);
    }
    return l->n >= l->most || l->used >= TXN_BYTES ? commit(l) : TOOL_FINE;
}

/* ---- trees ------------------------------------------------------------------------------------
 */

static int make_tree(struct load *l, struct ps_slice name)
{
    struct ps_txn *txn;
    uint64_t entries = 0;
    int rc = ps_begin(l->store, &txn);
    if (rc != 0) {
        return fail(l, "beginning a transaction", rc);
    }
    rc = ps_tree_create(txn, name, &l->tree);
    rc = rc == 0 ? ps_count(ps_txn_view(txn), l->tree, &entries) : rc;
    if (rc != 0 || (entries > 0 && l->mode == NEW && !l->begun[l->tree])) {
        ps_abort(txn);
        if (rc != 0) {
            return fail(l, "making a tree", rc);
        }
        return tool_fail(l->tool,
                         "tree '%.*s' has %" PRIu64
                         " entries already: --append keeps their values, --replace does not",
                         (int)name.len, (const char *)name.data, entries);
    }
    rc = ps_commit(txn, PS_NONE, NULL);
    l->trees += rc == 0 && !l->begun[l->tree];
    l->begun[l->tree] = true;
    return rc == 0 ? TOOL_FINE : fail(l, "committing", rc);
}

static int begin_tree(struct load *l)
{
    struct ps_slice name = l->reader.name;
    int status = commit(l);
    if (status != TOOL_FINE) {
        return status;
    }
    if (l->into != NULL) {
        if (l->trees > 0) {
            return tool_fail(l->tool,
                             "line %" PRIu64 ": the input has more than one tree: not "
                             "with --tree",
                             l->reader.line);
        }
        name = (struct ps_slice){l->into, strlen(l->into)};
    }
    if (name.len == 0) {
        return tool_fail(l->tool, "line %" PRIu64 ": the input does not name its tree: give --tree",
                         l->reader.line);
    }
    return make_tree(l, name);
}

static int read_all(struct load *l)
{
    for (;;) {
        int status = TOOL_FINE;
        switch (tool_read(&l->reader)) {
        case TOOL_TREE:
            status = begin_tree(l);
            break;
        case TOOL_ENTRY:
            status = take_entry(l);
            break;
        case TOOL_DONE:
            return commit(l);
        case TOOL_WRONG:
            status = commit(l); /* what came before it is whole */
            return status != TOOL_FINE ? status
                                       : tool_fail(l->tool, "line %" PRIu64 " of the input: %s",
                                                   l->reader.line, l->reader.problem);
        }
        if (status != TOOL_FINE) {
            return status;
        }
    }
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static bool take_options(struct load *l, struct ps_options *options)
{
    static const char *const levels[] = {
        [PS_NONE] = "none", [PS_EVERYSEC] = "everysec", [PS_ALWAYS] = "always"};
    struct tool *tool = l->tool;
    uint64_t page_size;
    const char *level = tool_option(tool, "--durability", 0);
    bool append = tool_option(tool, "--append", 0) != NULL;
    bool replace = tool_option(tool, "--replace", 0) != NULL;
    l->into = tool_option(tool, "--tree", 0);
    if (append && replace) {
        tool_fail(tool, "--append and --replace exclude each other");
        return false;
    }
    l->mode = append ? APPEND : replace ? REPLACE : NEW;
    if (!tool_number(tool, "--transaction", TXN_ENTRIES, UINT32_MAX, &l->most) ||
        !tool_number(tool, "--page-size", 4096, 65536, &page_size)) {
        return false;
    }
    options->page_size = tool_option(tool, "--page-size", 0) == NULL ? 0 : (uint32_t)page_size;
    options->durability = PS_NONE;
    for (unsigned i = 0; level != NULL && i <= PS_ALWAYS; i++) {
        if (strcmp(level, levels[i]) == 0) {
            options->durability = (enum ps_durability)i;
            return true;
        }
    }
    if (level != NULL) {
        tool_fail(tool, "--durability: none, everysec, or always");
    }
    return level == NULL;
}

static bool open_input(struct load *l)
{
    const char *path = tool_option(l->tool, "--input", 0);
    struct stat st;
    l->reader.file = path == NULL ? stdin : fopen(path, "re");
    if (l->reader.file == NULL) {
        tool_fail(l->tool, "%s: %s", path, strerror(errno));
        return false;
    }
    if (fstat(fileno(l->reader.file), &st) == 0 && S_ISREG(st.st_mode)) {
        l->size = (uint64_t)st.st_size;
    }
    return true;
}

static void say(struct load *l)
{
    tool_end_progress(l->tool);
    if (l->tool->json) {
        json_object_update_new(l->tool->result,
                               json_pack("{s:I, s:I, s:I, s:I}", "trees", (json_int_t)l->trees,
                                         "entries", (json_int_t)l->put, "kept", (json_int_t)l->kept,
                                         "transactions", (json_int_t)l->transactions));
        return;
    }
    printf("%u trees, %" PRIu64 " entries in %" PRIu64 " transactions", l->trees, l->put,
           l->transactions);
    if (l->kept > 0) {
        printf("; %" PRIu64 " were there already and were kept", l->kept);
    }
    putchar('\n');
}

static int load_store(struct load *l, const struct ps_options *options)
{
    struct ps_fault fault = {0};
    const char *dir = l->tool->arguments[0];
    int rc = ps_open(dir, options, &l->store, NULL, &fault);
    if (rc != 0) {
        int status = tool_fail_fault(l->tool, dir, rc, &fault);
        return rc == PS_CORRUPT ? TOOL_DAMAGE : status;
    }
    int status = read_all(l);
    rc = ps_close(l->store, true);
    if (rc != 0 && status == TOOL_FINE) {
        status = tool_fail(l->tool, "completing the load: %s", ps_strerror(rc));
    }
    say(l);
    return status;
}

int tool_load(struct tool *tool)
{
    struct load l = {.tool = tool};
    struct ps_options options = {0};
    if (!take_options(&l, &options) || !open_input(&l)) {
        return TOOL_ERROR;
    }
    int status = load_store(&l, &options);
    tool_reader_free(&l.reader);
    if (l.reader.file != stdin) {
        fclose(l.reader.file);
    }
    free(l.entries);
    free(l.bytes);
    return status;
}
