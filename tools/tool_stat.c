/*
 * tool_stat.c - `pando-tool stat`: sizes, positions and counts of a store.
 *
 * Threads: one. Nothing is changed.
 */
#include "tools/tool.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A tree's figures; its name is copied. */
struct tree {
    struct ps_tree_figures f;
    char name[PS_MAX_TREE_NAME];
};

struct figures {
    struct tool *tool;
    bool quick;
    struct ps_figures all;
    struct ps_stat stat;
    struct tree *trees;
    size_t n, room;
    uint64_t data_bytes, log_bytes, other_bytes; /* sizes of files */
};

/* ---- gathering --------------------------------------------------------------------------------
 */

static void take_finding(void *arg, const struct ps_fault *fault)
{
    tool_keep_finding(((struct figures *)arg)->tool, fault);
}

static bool take_progress(void *arg, uint64_t done, uint64_t whole)
{
    return tool_show_progress(((struct figures *)arg)->tool, done, whole);
}

static void take_tree(void *arg, const struct ps_tree_figures *tree)
{
    struct figures *f = arg;
    if (f->n == f->room) {
        size_t room = f->room == 0 ? 16 : 2 * f->room;
        struct tree *grown = realloc(f->trees, room * sizeof *grown);
        if (grown == NULL) {
            return;
        }
        f->trees = grown;
        f->room = room;
    }
    struct tree *t = &f->trees[f->n++];
    t->f = *tree;
    memcpy(t->name, tree->name.data, tree->name.len);
}

static int gather(struct tool *tool, struct tool_view *view, void *arg)
{
    struct figures *f = arg;
    struct ps_watch watch = {take_finding, take_progress, f};
    (void)tool;
    f->n = 0;
    ps_stats(view->store, &f->stat);
    return f->quick ? 0 : ps_survey(view->store, &watch, take_tree, &f->all);
}

static void measure_files(struct figures *f, const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        struct stat st;
        if (fstatat(dirfd(d), entry->d_name, &st, 0) != 0 || !S_ISREG(st.st_mode)) {
            continue;
        }
        uint64_t *sum = strcmp(entry->d_name, "pando.db") == 0   ? &f->data_bytes
                        : strncmp(entry->d_name, "log-", 4) == 0 ? &f->log_bytes
                                                                 : &f->other_bytes;
        *sum += (uint64_t)st.st_size;
    }
    if (d != NULL) {
        closedir(d);
    }
}

/* ---- saying it --------------------------------------------------------------------------------
 */

static void print_number(const char *text, uint64_t number)
{
    printf("%-34s%" PRIu64 "\n", text, number);
}

static void print_pages(const char *text, uint64_t pages, uint64_t bytes, uint32_t page_size)
{
    printf("%-34s%" PRIu64 "\n", text, pages);
    if (pages > 0 && bytes > 0) {
        printf("  full to %.1f %%\n", 100.0 * (double)bytes / ((double)pages * page_size));
    }
}

static void sum_bytes(const struct figures *f, uint64_t *leaf, uint64_t *branch)
{
    *leaf = *branch = 0;
    for (size_t i = 0; i < f->n; i++) {
        *leaf += f->trees[i].f.leaf_bytes;
        *branch += f->trees[i].f.branch_bytes;
    }
}

static void print_trees(const struct figures *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct ps_tree_figures *t = &f->trees[i].f;
        printf("tree %" PRIu32 " '", t->tree);
        tool_print_bytes(stdout, (struct ps_slice){f->trees[i].name, t->name.len}, 80);
        printf("': %" PRIu64 " entries, %" PRIu32 " levels, %" PRIu64 " leaves, %" PRIu64
               " branches, %" PRIu64 " overflow runs, %" PRIu64 " long runs\n",
               t->entries, t->levels, t->leaves, t->branches, t->runs, t->long_runs);
    }
}

static void print_all(const struct figures *f, const struct tool_view *view,
                      const struct ps_log_report *log)
{
    const struct ps_stat *s = &f->stat;
    printf("%-34s%s%s\n", "store", f->tool->arguments[0],
           view->live ? " (beside a running server)" : "");
    tool_print_metas(view);
    print_number("page size, bytes", s->page_size);
    print_number("trees", s->trees);
    print_number("levels of the deepest tree", s->depth_max);
    print_number("entries", s->entries);
    print_number("file, bytes", s->file_bytes);
    print_number("file, pages", s->file_pages);
    print_number("file, free pages", s->file_pages_free);
    if (!f->quick) {
        uint64_t leaf, branch;
        sum_bytes(f, &leaf, &branch);
        print_pages("leaves, pages", f->all.leaves, leaf, f->all.page_size);
        print_pages("branches, pages", f->all.branches, branch, f->all.page_size);
        print_number("overflow runs, pages", f->all.run_pages);
        print_number("long runs, pages", f->all.long_run_pages);
        print_number("space map, pages", f->all.map_pages);
        print_number("catalogue, pages", f->all.catalogue_pages);
        print_number("metas, pages", f->all.reserved);
    }
    print_number("checkpoint, sequence", s->checkpoint_seq);
    print_number("log, position of the checkpoint", log->from.position);
    print_number("log, position of its end", log->to.position);
    print_number("log, commits since the checkpoint", log->commits);
    print_number("log, segments", log->segments);
    print_number("files of the log, bytes", f->log_bytes);
    print_number("other files, bytes", f->other_bytes);
    print_trees(f);
}

static json_t *trees_json(const struct figures *f)
{
    json_t *array = json_array();
    for (size_t i = 0; i < f->n; i++) {
        const struct ps_tree_figures *t = &f->trees[i].f;
        json_t *tree = json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "number",
            (json_int_t)t->tree, "entries", (json_int_t)t->entries, "levels", (json_int_t)t->levels,
            "leaves", (json_int_t)t->leaves, "branches", (json_int_t)t->branches, "leaf_bytes",
            (json_int_t)t->leaf_bytes, "branch_bytes", (json_int_t)t->branch_bytes, "runs",
            (json_int_t)t->runs, "run_pages", (json_int_t)t->run_pages, "run_bytes",
            (json_int_t)t->run_bytes, "long_runs", (json_int_t)t->long_runs, "long_run_pages",
            (json_int_t)t->long_run_pages, "long_run_bytes", (json_int_t)t->long_run_bytes);
        tool_put_bytes(tree, "name", (struct ps_slice){f->trees[i].name, t->name.len});
        json_array_append_new(array, tree);
    }
    return array;
}

static void put_all(const struct figures *f, const struct ps_log_report *log)
{
    json_t *to = f->tool->result;
    const struct ps_stat *s = &f->stat;
    json_object_update_new(to, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "page_size",
                                         (json_int_t)s->page_size, "trees", (json_int_t)s->trees,
                                         "levels", (json_int_t)s->depth_max, "entries",
                                         (json_int_t)s->entries, "pages", (json_int_t)s->file_pages,
                                         "free_pages", (json_int_t)s->file_pages_free, "sequence",
                                         (json_int_t)s->checkpoint_seq, "file_bytes",
                                         (json_int_t)s->file_bytes));
    json_object_set_new(to, "files",
                        json_pack("{s:I, s:I, s:I}", "data", (json_int_t)f->data_bytes, "log",
                                  (json_int_t)f->log_bytes, "other", (json_int_t)f->other_bytes));
    json_object_set_new(to, "log", tool_log_json(log));
    if (f->quick) {
        return;
    }
    json_object_set_new(
        to, "pages_by_kind",
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "leaf", (json_int_t)f->all.leaves,
                  "branch", (json_int_t)f->all.branches, "overflow", (json_int_t)f->all.run_pages,
                  "long_run", (json_int_t)f->all.long_run_pages, "space_map",
                  (json_int_t)f->all.map_pages, "catalogue", (json_int_t)f->all.catalogue_pages,
                  "meta", (json_int_t)f->all.reserved, "free", (json_int_t)f->all.free_pages));
    json_object_set_new(to, "tree_list", trees_json(f));
}

static int say(struct figures *f, struct tool_view *view)
{
    struct ps_log_report log;
    struct tool *tool = f->tool;
    int status = tool_read_log(tool, view, NULL, &log);
    if (status != TOOL_FINE) {
        return status;
    }
    tool_end_progress(tool);
    measure_files(f, tool->arguments[0]);
    if (view->store != NULL && tool->json) {
        put_all(f, &log);
    } else if (view->store != NULL) {
        print_all(f, view, &log);
    }
    if (tool->all_findings > 0 || tool->json) {
        return tool_conclude(tool, view);
    }
    return TOOL_FINE;
}

int tool_stat(struct tool *tool)
{
    struct tool_view view;
    struct figures f = {.tool = tool, .quick = tool_option(tool, "--quick", 0) != NULL};
    int status = tool_look(tool, &view, gather, &f);
    if (status == TOOL_FINE) {
        status = say(&f, &view);
    }
    tool_close(&view);
    free(f.trees);
    return status;
}
