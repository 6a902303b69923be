/*
 * tool_check.c - `pando-tool check` and `verify`: what is wrong with a store.
 *
 * Threads: one. Nothing is changed.
 */
#include "tools/tool.h"

#include <inttypes.h>

/* ---- check ------------------------------------------------------------------------------------
 */

static int survey(struct tool *tool, struct tool_view *view, void *arg)
{
    struct ps_watch watch = {tool_keep_finding, tool_show_progress, tool};
    return ps_survey(view->store, &watch, NULL, arg);
}

static void print_survey(struct tool *tool, struct tool_view *view, const struct ps_figures *f)
{
    struct ps_stat stat;
    ps_stats(view->store, &stat);
    if (tool->json) {
        json_object_set_new(tool->result, "checkpoint",
                            json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "sequence",
                                      (json_int_t)stat.checkpoint_seq, "page_size",
                                      (json_int_t)f->page_size, "pages", (json_int_t)f->pages,
                                      "free_pages", (json_int_t)f->free_pages, "trees",
                                      (json_int_t)f->trees, "entries", (json_int_t)stat.entries));
        return;
    }
    printf("checkpoint of sequence %" PRIu64 ": %" PRIu64 " pages of %" PRIu32 " bytes, %" PRIu64
           " free, %" PRIu32 " trees, %" PRIu64 " entries\n",
           stat.checkpoint_seq, f->pages, f->page_size, f->free_pages, f->trees, stat.entries);
}

static void begin(struct tool *tool, const struct tool_view *view)
{
    tool_end_progress(tool);
    if (!tool->json) {
        printf("%s of %s%s\n", tool->command->name, tool->arguments[0],
               view->live ? ", beside a running server" : "");
    }
}

/* What both do in the end: the log, and all that was found. */
static int end(struct tool *tool, struct tool_view *view)
{
    struct ps_log_report log;
    int status = tool_read_log(tool, view, NULL, &log);
    if (status == TOOL_FINE) {
        if (tool->json) {
            json_object_set_new(tool->result, "log", tool_log_json(&log));
        } else {
            tool_print_log(&log);
        }
        status = tool_conclude(tool, view);
    }
    tool_close(view);
    return status;
}

int tool_check(struct tool *tool)
{
    struct tool_view view;
    struct ps_figures figures = {0};
    int status = tool_look(tool, &view, survey, &figures);
    if (status != TOOL_FINE) {
        tool_close(&view);
        return status;
    }
    begin(tool, &view);
    if (view.store != NULL) {
        print_survey(tool, &view, &figures);
    }
    return end(tool, &view);
}

/* ---- verify -----------------------------------------------------------------------------------
 */

static int verify_pages(struct tool *tool, struct tool_view *view, void *arg)
{
    struct ps_watch watch = {tool_keep_finding, tool_show_progress, tool};
    return ps_verify_pages(view->store, &watch, arg);
}

int tool_verify(struct tool *tool)
{
    struct tool_view view;
    uint64_t checked = 0;
    int status = tool_look(tool, &view, verify_pages, &checked);
    if (status != TOOL_FINE) {
        tool_close(&view);
        return status;
    }
    begin(tool, &view);
    if (tool->json) {
        json_object_set_new(tool->result, "pages", json_integer((json_int_t)checked));
    } else {
        tool_print_metas(&view);
        printf("pages: %" PRIu64 " in use, read and checked\n", checked);
    }
    return end(tool, &view);
}
