/*
 * tool_say.c - findings, complaints and results, as text or as JSON.
 *
 * Findings are kept until it is known that they count (a running server may have used the pages
 * again); past KEPT of them only their number is.
 *
 * Threads: one.
 */
#include "tools/tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KEPT 10000u

/* ---- JSON -------------------------------------------------------------------------------------
 */

void tool_print_json(const char *kind, json_t *object)
{
    json_t *line = json_pack("{s:o}", kind, object);
    if (line != NULL) {
        json_dumpf(line, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(line);
    }
}

bool tool_is_text(struct ps_slice bytes)
{
    json_t *string = json_stringn(bytes.len > 0 ? bytes.data : "", bytes.len);
    json_decref(string);
    return string != NULL;
}

int tool_put_bytes(json_t *object, const char *name, struct ps_slice bytes)
{
    char other[40];
    json_t *string = json_stringn(bytes.len > 0 ? bytes.data : "", bytes.len);
    if (string != NULL) {
        return json_object_set_new(object, name, string);
    }
    size_t len = 4 * ((bytes.len + 2) / 3);
    char *text = malloc(len + 1);
    if (text == NULL) {
        return -1;
    }
    tool_base64_encode(bytes, text);
    snprintf(other, sizeof other, "%s64", name);
    int rc = json_object_set_new(object, other, json_stringn_nocheck(text, len));
    free(text);
    return rc;
}

void tool_print_bytes(FILE *to, struct ps_slice bytes, size_t most)
{
    const uint8_t *at = bytes.data;
    size_t n = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        bool plain = at[i] >= ' ' && at[i] < 0x7f && at[i] != '\\';
        n += plain ? 1 : 3;
        if (n > most) {
            fputs("...", to);
            return;
        }
        fprintf(to, plain ? "%c" : "\\%02x", at[i]);
    }
}

/* ---- faults -----------------------------------------------------------------------------------
 */

void tool_print_fault(FILE *to, const char *label, const struct ps_fault *fault)
{
    fprintf(to, "%s: %s", label, fault->what[0] ? fault->what : ps_strerror(fault->code));
    if (fault->file[0]) {
        fprintf(to, ", %s at offset %" PRIu64, fault->file, fault->offset);
    }
    if (fault->sys_errno) {
        fprintf(to, " (%s)", strerror(fault->sys_errno));
    }
    fprintf(to, "\n");
}

static json_t *fault_json(const struct ps_fault *fault)
{
    const char *what = fault->what[0] ? fault->what : ps_strerror(fault->code);
    json_t *object = json_pack("{s:s, s:I}", "error", ps_strerror(fault->code), "offset",
                               (json_int_t)fault->offset);
    if (object != NULL) {
        tool_put_bytes(object, "what", (struct ps_slice){what, strlen(what)});
    }
    if (object != NULL && fault->file[0]) {
        tool_put_bytes(object, "file", (struct ps_slice){fault->file, strlen(fault->file)});
    }
    if (object != NULL && fault->sys_errno) {
        json_object_set_new(object, "system", json_string(strerror(fault->sys_errno)));
    }
    return object;
}

void tool_keep_finding(void *arg, const struct ps_fault *fault)
{
    struct tool *tool = arg;
    tool->all_findings++;
    if (tool->nfindings == KEPT) {
        return;
    }
    if (tool->nfindings == tool->findings_room) {
        size_t room = tool->findings_room == 0 ? 64 : 2 * tool->findings_room;
        struct ps_fault *grown = realloc(tool->findings, room * sizeof *grown);
        if (grown == NULL) {
            return;
        }
        tool->findings = grown;
        tool->findings_room = room;
    }
    tool->findings[tool->nfindings++] = *fault;
}

void tool_forget_findings(struct tool *tool)
{
    tool->nfindings = 0;
    tool->all_findings = 0;
}

void tool_print_findings(struct tool *tool)
{
    tool_end_progress(tool);
    for (size_t i = 0; i < tool->nfindings; i++) {
        if (tool->json) {
            tool_print_json("finding", fault_json(&tool->findings[i]));
        } else {
            tool_print_fault(stdout, "finding", &tool->findings[i]);
        }
    }
    if (!tool->json && tool->all_findings > tool->nfindings) {
        printf("and %" PRIu64 " findings more\n", tool->all_findings - tool->nfindings);
    }
}

/* ---- failing, ending --------------------------------------------------------------------------
 */

static void remember_error(struct tool *tool, json_t *error)
{
    if (tool->result != NULL) {
        json_object_set_new(tool->result, "error", error);
    } else {
        json_decref(error);
    }
}

int tool_fail(struct tool *tool, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tool_end_progress(tool);
    fprintf(stderr, "pando-tool %s: %s\n", tool->command->name, text);
    json_t *error = json_object();
    if (error != NULL) {
        tool_put_bytes(error, "what", (struct ps_slice){text, strlen(text)});
    }
    remember_error(tool, error);
    return TOOL_ERROR;
}

int tool_fail_fault(struct tool *tool, const char *dir, int rc, const struct ps_fault *fault)
{
    tool_end_progress(tool);
    if (rc == PS_LOCKED) {
        return tool_fail(tool,
                         "%s: in use by a running server (or another tool): stop it first; %s "
                         "cannot work beside it",
                         dir, tool->command->name);
    }
    fprintf(stderr, "pando-tool %s: %s: %s\n", tool->command->name, dir, ps_strerror(rc));
    struct ps_fault copy = *fault;
    copy.code = rc;
    if (fault->file[0] || fault->what[0]) {
        tool_print_fault(stderr, "pando-tool", &copy);
    }
    remember_error(tool, fault_json(&copy));
    return TOOL_ERROR;
}

void tool_end(struct tool *tool, int status)
{
    static const char *const words[] = {"fine", "damage", "error"};
    if (tool->result == NULL) {
        return;
    }
    json_object_set_new(tool->result, "command", json_string(tool->command->name));
    json_object_set_new(tool->result, "exit", json_integer(status));
    json_object_set_new(tool->result, "status", json_string(words[status]));
    tool_print_json("result", tool->result);
    tool->result = NULL;
}
