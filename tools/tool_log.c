/*
 * tool_log.c - `pando-tool log`: segments, records and operations.
 *
 * Threads: one. Nothing is changed.
 */
#include "tools/tool.h"

#include <inttypes.h>
#include <string.h>

static void show_segment(void *arg, const struct ps_log_segment *s)
{
    static const char *const kinds[] = {
        [PS_SEGMENT_USED] = "used", [PS_SEGMENT_BLANK] = "blank", [PS_SEGMENT_DAMAGED] = "damaged"};
    const struct tool *tool = arg;
    json_int_t position = (json_int_t)s->number * (json_int_t)s->bytes;
    if (tool->json) {
        json_t *object =
            json_pack("{s:s, s:I, s:I, s:s, s:b}", "file", s->file, "number", (json_int_t)s->number,
                      "position", position, "kind", kinds[s->kind], "whole", s->whole);
        if (s->kind == PS_SEGMENT_USED) {
            char epoch[20], before[20];
            snprintf(epoch, sizeof epoch, "%016" PRIx64, s->epoch);
            snprintf(before, sizeof before, "%016" PRIx64, s->prev_epoch);
            json_object_update_new(object, json_pack("{s:s, s:s, s:I, s:I}", "epoch", epoch,
                                                     "epoch_before", before, "position_before",
                                                     (json_int_t)s->prev_position,
                                                     "sequence_before", (json_int_t)s->seq_before));
        }
        tool_print_json("segment", object);
        return;
    }
    printf("segment %s, position %" PRIu64 ": %s%s", s->file, s->number * s->bytes, kinds[s->kind],
           s->whole ? "" : ", not of a segment's size");
    if (s->kind == PS_SEGMENT_USED) {
        printf(", epoch %016" PRIx64 "%s, after sequence %" PRIu64, s->epoch,
               s->epoch != s->prev_epoch ? " (begins)" : "", s->seq_before);
    }
    putchar('\n');
}

static void show_record(void *arg, const struct ps_log_record *r)
{
    const struct tool *tool = arg;
    char epoch[20], file[32];
    snprintf(epoch, sizeof epoch, "%016" PRIx64, r->epoch);
    snprintf(file, sizeof file, "log-%016" PRIx64, r->segment);
    const char *piece = r->first && r->last ? "whole"
                        : r->first          ? "first"
                        : r->last           ? "last"
                                            : "middle";
    if (tool->json) {
        tool_print_json("record", json_pack("{s:I, s:I, s:s, s:s, s:I, s:I, s:s, s:I}", "sequence",
                                            (json_int_t)r->seq, "position", (json_int_t)r->position,
                                            "epoch", epoch, "file", file, "offset",
                                            (json_int_t)r->offset, "bytes", (json_int_t)r->payload,
                                            "piece", piece, "stamp", (json_int_t)r->stamp));
        return;
    }
    printf("record %" PRIu64 "%s%s: %s at offset %" PRIu64 ", epoch %s, stamp %" PRIu64
           ", %zu bytes of operations\n",
           r->seq, r->first && r->last ? "" : ", piece: ", r->first && r->last ? "" : piece, file,
           r->offset, epoch, r->stamp, r->payload);
}

static bool is_range(const struct ps_log_op *op)
{
    return strcmp(op->name, "delete-range") == 0;
}

static void show_op(void *arg, const struct ps_log_op *op)
{
    const struct tool *tool = arg;
    if (tool->json) {
        json_t *object = json_pack("{s:s, s:I, s:I}", "op", op->name, "tree", (json_int_t)op->tree,
                                   "value_bytes", (json_int_t)op->value.len);
        tool_put_bytes(object, "key", op->key);
        if (is_range(op)) {
            tool_put_bytes(object, "end", op->value);
        }
        tool_print_json("op", object);
        return;
    }
    printf("  %s %" PRIu32, op->name, op->tree);
    if (op->key.len > 0) {
        printf(" '");
        tool_print_bytes(stdout, op->key, 120);
        printf("'");
    }
    if (is_range(op)) {
        printf(op->value.len > 0 ? " to '" : " to the end");
        tool_print_bytes(stdout, op->value, 120);
        printf(op->value.len > 0 ? "'\n" : "\n");
        return;
    }
    printf(op->value.len > 0 ? ", value of %zu bytes\n" : "\n", op->value.len);
}

/* Where nobody holds the directory the log does not move. Beside a server it is read once before
 * anything is shown: what is wrong then, several times in a row, is wrong, but what is being
 * written while it is shown may look so. */
static int read_all(struct tool *tool, struct tool_view *view, struct ps_log_report *report)
{
    struct ps_log_watch watch = {.segment = show_segment, .arg = tool};
    struct ps_fault fault;
    bool all = tool_option(tool, "--all", 0) != NULL;
    if (tool_option(tool, "--segments", 0) == NULL) {
        watch.record = show_record;
        watch.op = tool_option(tool, "--ops", 0) != NULL ? show_op : NULL;
    }
    int status = view->live ? tool_read_log(tool, view, NULL, report) : TOOL_FINE;
    if (status != TOOL_FINE) {
        return status;
    }
    const struct ps_meta *meta = view->newest < 0 || all ? NULL : &view->metas[view->newest];
    uint64_t expected = report->records;
    int rc =
        ps_log_read(tool->arguments[0], meta == NULL ? NULL : &meta->log, &watch, report, &fault);
    if (rc == PS_CORRUPT && view->live) {
        return expected == 0 || report->records > 0 || tool->all_findings > 0
                   ? TOOL_FINE
                   : tool_fail(tool, "the server has moved on in its log meanwhile; try again");
    }
    if (rc == PS_CORRUPT) {
        tool_keep_finding(tool, &fault);
        return TOOL_FINE;
    }
    return rc == 0 ? TOOL_FINE : tool_fail_fault(tool, tool->arguments[0], rc, &fault);
}

static int look_at_nothing(struct tool *tool, struct tool_view *view, void *arg)
{
    (void)tool;
    (void)view;
    (void)arg;
    return 0;
}

int tool_log(struct tool *tool)
{
    struct tool_view view;
    struct ps_log_report report = {0};
    int status = tool_look(tool, &view, look_at_nothing, NULL);
    if (status == TOOL_FINE) {
        tool_forget_findings(tool); /* those of the data file are the business of check */
        status = read_all(tool, &view, &report);
    }
    if (status == TOOL_FINE) {
        if (tool->json) {
            json_object_set_new(tool->result, "log", tool_log_json(&report));
        } else {
            tool_print_log(&report);
        }
        tool_print_findings(tool);
        status = tool->all_findings > 0 ? TOOL_DAMAGE : TOOL_FINE;
        if (tool->json) {
            json_object_set_new(tool->result, "findings",
                                json_integer((json_int_t)tool->all_findings));
        }
    }
    tool_close(&view);
    return status;
}
