/*
 * tool_lines.c - reading a dump: which form it has, and lines of JSON.
 *
 * An entry may name another tree than the line before: then that tree begins. A tree that began
 * with a line of its own has to end with one, so that an input that was cut is noticed.
 *
 * Threads: one.
 */
#include "tools/tool.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { THERE = 1, MISSING = 0, MALFORMED = -1 };

/* Bytes of a member: `name`, or base64 in `name`64. */
static int take_bytes(struct tool_reader *r, const char *name, uint8_t **room,
                      struct ps_slice *bytes)
{
    char other[40];
    json_t *string = json_object_get(r->object, name);
    if (string != NULL) {
        *bytes = (struct ps_slice){json_string_value(string), json_string_length(string)};
        return json_is_string(string) ? THERE : MALFORMED;
    }
    snprintf(other, sizeof other, "%s64", name);
    json_t *encoded = json_object_get(r->object, other);
    if (encoded == NULL) {
        return MISSING;
    }
    size_t len = json_string_length(encoded), n;
    free(*room);
    *room = malloc(len + 1);
    if (!json_is_string(encoded) || *room == NULL ||
        !tool_base64_decode(json_string_value(encoded), len, *room, &n)) {
        return MALFORMED;
    }
    *bytes = (struct ps_slice){*room, n};
    return THERE;
}

/* The line's tree; *other: it is not the one before. */
static bool take_tree(struct tool_reader *r, bool *other)
{
    struct ps_slice name = {0};
    if (take_bytes(r, "tree", &r->decoded[0], &name) != THERE || name.len == 0 ||
        name.len > PS_MAX_TREE_NAME) {
        return false;
    }
    *other = name.len != r->tree_len || memcmp(name.data, r->tree, name.len) != 0;
    memcpy(r->tree, name.data, name.len);
    r->tree_len = name.len;
    r->name = (struct ps_slice){r->tree, r->tree_len};
    return true;
}

/* What a dump with --json says besides. */
static bool is_remark(const json_t *object)
{
    return json_object_get(object, "result") != NULL || json_object_get(object, "finding") != NULL;
}

/* The next line that has something in it, parsed. 1; 0: the end; -1: wrong. */
static int next_object(struct tool_reader *r)
{
    json_error_t error;
    for (;;) {
        ssize_t n = getline(&r->lines[0], &r->rooms[0], r->file);
        if (n < 0) {
            return 0;
        }
        r->line++;
        if (strspn(r->lines[0], " \t\r\n") == (size_t)n) {
            continue;
        }
        json_decref(r->object);
        r->object =
            json_loadb(r->lines[0], (size_t)n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
        if (!json_is_object(r->object)) {
            tool_wrong(r, "not an object of JSON: %.100s", r->object == NULL ? error.text : "");
            return -1;
        }
        if (is_remark(r->object)) {
            continue;
        }
        return 1;
    }
}

/* What the object that was read says: an entry, the beginning or the end of a tree. */
static enum tool_event take_object(struct tool_reader *r, bool *end)
{
    bool other;
    bool was_in = r->in_tree;
    *end = false;
    if (!take_tree(r, &other)) {
        return tool_wrong(r, "no tree: a name of 1 to %d bytes, in tree or tree64",
                          PS_MAX_TREE_NAME);
    }
    if (was_in && other) {
        return tool_wrong(r, "another tree begins before the end of the one before");
    }
    int key = take_bytes(r, "key", &r->decoded[0], &r->key);
    int value = take_bytes(r, "value", &r->decoded[1], &r->value);
    if (key == THERE && value == THERE) {
        r->pending = other;
        return other ? TOOL_TREE : TOOL_ENTRY;
    }
    if (key != MISSING || value != MISSING) {
        return tool_wrong(r,
                          "key and value must both be there, as text or (key64, value64) base64");
    }
    *end = json_is_true(json_object_get(r->object, "end"));
    if (*end && other) {
        return tool_wrong(r, "a tree ends that has not begun");
    }
    r->in_tree = !*end;
    return TOOL_TREE;
}

enum tool_event tool_read_json(struct tool_reader *r)
{
    if (r->pending) {
        r->pending = false;
        return TOOL_ENTRY;
    }
    for (;;) {
        bool end;
        int rc = next_object(r);
        if (rc == 0) {
            return r->in_tree ? tool_wrong(r, "the input ends before the end of a tree")
                              : TOOL_DONE;
        }
        enum tool_event event = rc < 0 ? TOOL_WRONG : take_object(r, &end);
        if (event == TOOL_WRONG || !end) {
            return event;
        }
    }
}

enum tool_event tool_read(struct tool_reader *r)
{
    if (!r->begun) {
        int c;
        while ((c = getc(r->file)) != EOF && isspace(c)) {
            r->line += c == '\n';
        }
        if (c != EOF) {
            ungetc(c, r->file);
        }
        r->begun = true;
        r->json = c == '{';
    }
    enum tool_event event = r->json ? tool_read_json(r) : tool_read_text(r);
    return event == TOOL_DONE && ferror(r->file) ? tool_wrong(r, "the input cannot be read")
                                                 : event;
}

void tool_reader_free(struct tool_reader *r)
{
    free(r->lines[0]);
    free(r->lines[1]);
    free(r->decoded[0]);
    free(r->decoded[1]);
    json_decref(r->object);
}
