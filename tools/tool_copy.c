/*
 * tool_copy.c - `pando-tool copy` and `compact`: a store written anew, with full pages.
 *
 * Beside a running server the newest checkpoint is copied; what was read counts only if it still
 * stands when all was read (tool_look.c), which is asked before the copy gets its name.
 *
 * Threads: one, and the engine's.
 */
#include "tools/tool.h"

#include <inttypes.h>
#include <sys/stat.h>

struct copying {
    const char *to;
    struct ps_copy_report report;
    struct ps_fault fault;
    int rc;
    bool done;
};

static void copy_snapshot(struct tool *tool, struct ps_store *store, struct copying *c)
{
    struct ps_copy_watch watch = {tool_show_progress, tool};
    struct ps_snapshot *snap;
    c->fault = (struct ps_fault){0};
    c->rc = ps_snapshot_new(store, &snap);
    if (c->rc != 0) {
        return;
    }
    ps_snapshot_renew(snap);
    c->rc = ps_copy(snap, c->to, &watch, &c->report, &c->fault);
    ps_snapshot_free(snap);
    c->done = c->rc == 0;
}

static int look(struct tool *tool, struct tool_view *view, void *arg)
{
    struct copying *c = arg;
    if (!c->done) {
        copy_snapshot(tool, view->store, c);
    }
    /* What went wrong is said by the caller, unless it has to be done again. */
    return 0;
}

static uint64_t bytes_of(const char *dir)
{
    char path[4200];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/pando.db", dir);
    return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static void say(struct tool *tool, const struct ps_copy_report *r, const char *to, uint64_t before,
                bool beside)
{
    tool_end_progress(tool);
    if (tool->json) {
        json_object_update_new(
            tool->result, json_pack("{s:I, s:I, s:I, s:I, s:I, s:b}", "trees", (json_int_t)r->trees,
                                    "entries", (json_int_t)r->entries, "pages",
                                    (json_int_t)r->pages, "bytes", (json_int_t)r->bytes,
                                    "bytes_before", (json_int_t)before, "beside_server", beside));
        return;
    }
    printf("%" PRIu64 " trees, %" PRIu64 " entries written to %s: %" PRIu64 " bytes, were %" PRIu64
           "%s\n",
           r->trees, r->entries, to, r->bytes, before,
           beside ? " (the newest checkpoint, beside a running server)" : "");
}

static int fail(struct tool *tool, const char *dir, int rc, const struct ps_fault *fault)
{
    int status = tool_fail_fault(tool, dir, rc, fault);
    return rc == PS_CORRUPT ? TOOL_DAMAGE : status;
}

/* As it will be found by a server: the log is applied. *locked: somebody has it open. */
static int copy_closed(struct tool *tool, struct copying *c, bool *locked)
{
    struct ps_options options = {.durability = PS_ALWAYS, .manual_checkpoint = true};
    struct ps_fault fault = {0};
    struct ps_store *store;
    int rc = tool_open(tool, &options, &store, &fault);
    *locked = rc == PS_LOCKED;
    if (rc != 0) {
        return *locked ? TOOL_FINE : tool_not_opened(tool, rc, &fault);
    }
    copy_snapshot(tool, store, c);
    (void)ps_close(store, false);
    return c->rc == 0 ? TOOL_FINE : fail(tool, c->to, c->rc, &c->fault);
}

static int copy_checkpoint(struct tool *tool, struct copying *c, bool *beside)
{
    struct tool_view view;
    int status = tool_look(tool, &view, look, c);
    *beside = view.live;
    if (status == TOOL_FINE && view.store == NULL) {
        tool_print_findings(tool);
        status = TOOL_DAMAGE;
    } else if (status == TOOL_FINE && c->rc != 0) {
        status = fail(tool, c->to, c->rc, &c->fault);
    }
    tool_close(&view);
    return status;
}

int tool_copy(struct tool *tool)
{
    struct copying c = {.to = tool->arguments[1]};
    bool locked = tool_option(tool, "--checkpoint", 0) != NULL;
    bool beside = false;
    int status = locked ? TOOL_FINE : copy_closed(tool, &c, &locked);
    if (status == TOOL_FINE && locked) {
        status = copy_checkpoint(tool, &c, &beside);
    }
    if (status == TOOL_FINE) {
        say(tool, &c.report, c.to, bytes_of(tool->arguments[0]), beside);
    }
    return status;
}

/* By moving pages within the file (ps_shrink): no room is needed. */
static int compact_in_place(struct tool *tool)
{
    struct ps_options options = {.durability = PS_ALWAYS, .manual_checkpoint = true};
    struct ps_copy_watch watch = {tool_show_progress, tool};
    struct ps_fault fault = {0};
    struct ps_store *store;
    const char *dir = tool->arguments[0];
    uint64_t before = bytes_of(dir);
    int rc = tool_open(tool, &options, &store, &fault);
    if (rc != 0) {
        return tool_not_opened(tool, rc, &fault);
    }
    rc = ps_shrink(store, &watch, NULL);
    if (rc != 0) {
        ps_last_fault(store, &fault);
    }
    int closed = ps_close(store, rc == 0);
    tool_end_progress(tool);
    if (rc != 0 || closed != 0) {
        return fail(tool, dir, rc != 0 ? rc : closed, &fault);
    }
    uint64_t after = bytes_of(dir);
    if (tool->json) {
        json_object_update_new(tool->result, json_pack("{s:I, s:I}", "bytes", (json_int_t)after,
                                                       "bytes_before", (json_int_t)before));
    } else {
        printf("%s: %" PRIu64 " bytes, were %" PRIu64 "\n", dir, after, before);
    }
    return TOOL_FINE;
}

int tool_compact(struct tool *tool)
{
    if (tool_option(tool, "--in-place", 0) != NULL) {
        return compact_in_place(tool);
    }
    struct ps_copy_watch watch = {tool_show_progress, tool};
    struct ps_copy_report report;
    struct ps_fault fault;
    const char *dir = tool->arguments[0];
    uint64_t before = bytes_of(dir);
    int rc = ps_compact(dir, NULL, &watch, &report, &fault);
    if (rc != 0) {
        return fail(tool, dir, rc, &fault);
    }
    say(tool, &report, dir, before, false);
    return TOOL_FINE;
}
