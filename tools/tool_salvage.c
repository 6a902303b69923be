/*
 * tool_salvage.c - `pando-tool salvage`: what can be read of a damaged store, into a new one.
 *
 * Threads: one, and the engine's. The damaged store is not changed.
 */
#include "tools/tool.h"

#include <inttypes.h>

static void say(struct tool *tool, const struct ps_salvage_report *r)
{
    tool_print_findings(tool);
    if (tool->json) {
        json_object_update_new(
            tool->result,
            json_pack("{s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I}", "metas", r->metas,
                      "catalogue", r->catalogue, "space_map", r->space_map, "page_size",
                      (json_int_t)r->page_size, "pages", (json_int_t)r->pages, "nodes",
                      (json_int_t)r->nodes, "trees", (json_int_t)r->trees, "entries",
                      (json_int_t)r->entries, "findings", (json_int_t)r->findings));
        json_object_update_new(
            tool->result,
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "lost_subtrees",
                      (json_int_t)r->lost_subtrees, "lost_entries", (json_int_t)r->lost_entries,
                      "lost_values", (json_int_t)r->lost_values, "orphans", (json_int_t)r->orphans,
                      "orphan_entries", (json_int_t)r->orphan_entries, "log_commits",
                      (json_int_t)r->log_commits, "log_ops", (json_int_t)r->log_ops));
        return;
    }
    printf("%" PRIu64 " entries of %" PRIu64 " trees copied to %s, %" PRIu64
           " of them found outside their trees; then %" PRIu64 " commits of the log, %" PRIu64
           " operations\n",
           r->entries, r->trees, tool->arguments[1], r->orphan_entries, r->log_commits, r->log_ops);
    if (r->findings == 0) {
        printf("nothing was lost\n");
    } else {
        printf("lost: %" PRIu64 " entries below %" PRIu64 " pages, and %" PRIu64
               " entries whose key or value was damaged; %" PRIu64 " findings\n",
               r->lost_entries, r->lost_subtrees, r->lost_values, r->findings);
    }
}

int tool_salvage(struct tool *tool)
{
    struct ps_watch watch = {tool_keep_finding, tool_show_progress, tool};
    struct ps_salvage_report report;
    struct ps_fault fault;
    int rc = ps_salvage(tool->arguments[0], tool->arguments[1], &watch, &report, &fault);
    if (rc != 0 && rc != PS_CORRUPT) {
        bool other = rc == PS_EXISTS || (rc != PS_LOCKED && fault.file[0] == '\0');
        return tool_fail_fault(tool, tool->arguments[other ? 1 : 0], rc, &fault);
    }
    say(tool, &report);
    return report.findings > 0 ? TOOL_DAMAGE : TOOL_FINE;
}
