/*
 * tree_options.c - see tree_options.h.
 */
#include "storage/tree_options.h"

#include "storage/age.h"
#include "storage/change.h"
#include "storage/merge.h"

static const struct ps_slice nothing;

int tree_options_parse(struct ps_slice bytes, struct ps_tree_options *options)
{
    const uint8_t *at = bytes.data;
    *options = (struct ps_tree_options){0};
    if (bytes.len < OPTIONS_FIXED || bytes.len > OPTIONS_MOST || at[0] > PS_ZSTD ||
        !merge_is_name((const char *)at + OPTIONS_FIXED, bytes.len - OPTIONS_FIXED)) {
        return PS_CORRUPT;
    }
    options->compression = at[0];
    memcpy(&options->compress_over, at + 1, 4);
    memcpy(options->merge, at + OPTIONS_FIXED, bytes.len - OPTIONS_FIXED);
    return 0;
}

int tree_options_text(struct ps_slice bytes, char text[OPTIONS_TEXT], struct ps_slice *out)
{
    static const char *const names[] = {"none", "lz4", "zstd"};
    struct ps_tree_options options;
    int rc = tree_options_parse(bytes, &options);
    if (rc == 0) {
        int n = snprintf(text, OPTIONS_TEXT, "compression=%s over=%u merge=%s",
                         names[options.compression], options.compress_over,
                         options.merge[0] != 0 ? options.merge : "none");
        *out = (struct ps_slice){text, (size_t)n};
    }
    return rc;
}

static size_t write_options(const struct ps_tree_options *options, uint8_t out[OPTIONS_MOST])
{
    size_t len = strlen(options->merge);
    out[0] = (uint8_t)options->compression;
    memcpy(out + 1, &options->compress_over, 4);
    memcpy(out + OPTIONS_FIXED, options->merge, len);
    return OPTIONS_FIXED + len;
}

void tree_options_of(struct ps_store *store, const struct tree_root *t,
                     struct ps_tree_options *options)
{
    *options =
        (struct ps_tree_options){.compression = t->compression, .compress_over = t->compress_over};
    merge_name(store, t->merge, options->merge);
}

size_t tree_options_write(struct ps_store *store, const struct tree_root *t,
                          uint8_t out[OPTIONS_MOST])
{
    if (t->compression == PS_UNCOMPRESSED && t->compress_over == 0 && t->merge == 0) {
        return 0;
    }
    struct ps_tree_options options;
    tree_options_of(store, t, &options);
    return write_options(&options, out);
}

static int set(struct ps_store *store, const struct ps_tree_options *options, struct tree_root *t)
{
    uint8_t number;
    int rc = merge_number(store, options->merge, &number);
    if (rc == 0) {
        t->compression = (uint8_t)options->compression;
        t->compress_over = options->compress_over;
        t->merge = number;
    }
    return rc;
}

int tree_options_read(struct ps_store *store, struct ps_slice bytes, struct tree_root *t)
{
    struct ps_tree_options options;
    int rc = tree_options_parse(bytes, &options);
    return rc == 0 ? set(store, &options, t) : rc;
}

int tree_options_replay(struct ps_txn *txn, ps_tree tree, struct ps_slice bytes)
{
    struct ps_tree_options options;
    return tree_options_parse(bytes, &options) != 0 ? PS_INVALID : ps_tree_set(txn, tree, &options);
}

int ps_tree_set(struct ps_txn *txn, ps_tree tree, const struct ps_tree_options *options)
{
    int rc = change_usable(txn, tree);
    if (rc == 0 && ((unsigned)options->compression > PS_ZSTD ||
                    memchr(options->merge, 0, sizeof options->merge) == NULL ||
                    !merge_is_name(options->merge, strlen(options->merge)))) {
        rc = PS_INVALID;
    }
    rc = rc == 0 ? ps_reserve(txn, 1, OPTIONS_MOST) : rc;
    rc = rc == 0 ? change_usable(txn, tree) : rc;
    if (rc != 0) {
        return rc;
    }
    rc = set(txn->view.store, options, &txn->state->trees[tree]);
    if (rc != 0) {
        return rc;
    }
    uint8_t bytes[OPTIONS_MOST];
    struct ps_slice slice = {bytes, write_options(options, bytes)};
    return change_done(txn, txn_log(txn, OP_OPTIONS, tree, slice, nothing));
}

int ps_tree_options(struct ps_view *view, ps_tree tree, struct ps_tree_options *options)
{
    const struct state *state = view_state(view);
    if (state == NULL || tree >= state->ntrees || state->trees[tree].name == NULL) {
        return nothing_there(view);
    }
    tree_options_of(view->store, &state->trees[tree], options);
    return 0;
}
