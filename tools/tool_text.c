/*
 * tool_text.c - the text form of LMDB's mdb_dump and mdb_load, written and read.
 *
 * Names of trees are written as bytes in the form `print` are: what cannot be printed as a
 * backslash and two digits, so that any name survives.
 *
 * Threads: one.
 */
#include "tools/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char hex[] = "0123456789abcdef";

/* ---- writing ----------------------------------------------------------------------------------
 */

static int room_for(struct tool_writer *w, size_t len)
{
    if (w->room >= len) {
        return 0;
    }
    char *grown = realloc(w->text, len);
    if (grown == NULL) {
        return -ENOMEM;
    }
    w->text = grown;
    w->room = len;
    return 0;
}

static size_t encode_print(struct ps_slice bytes, char *out)
{
    const uint8_t *at = bytes.data;
    size_t n = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        if (at[i] >= ' ' && at[i] < 0x7f && at[i] != '\\') {
            out[n++] = (char)at[i];
        } else {
            out[n++] = '\\';
            out[n++] = hex[at[i] >> 4];
            out[n++] = hex[at[i] & 15];
        }
    }
    return n;
}

static size_t encode_hex(struct ps_slice bytes, char *out)
{
    const uint8_t *at = bytes.data;
    for (size_t i = 0; i < bytes.len; i++) {
        out[2 * i] = hex[at[i] >> 4];
        out[2 * i + 1] = hex[at[i] & 15];
    }
    return 2 * bytes.len;
}

static int write_line(struct tool_writer *w, struct ps_slice bytes)
{
    bool print = w->form[0] == 'p';
    if (room_for(w, (print ? 3 : 2) * bytes.len + 2) != 0) {
        return -ENOMEM;
    }
    w->text[0] = ' ';
    size_t n = 1 + (print ? encode_print(bytes, w->text + 1) : encode_hex(bytes, w->text + 1));
    w->text[n++] = '\n';
    return fwrite(w->text, 1, n, w->file) == n ? 0 : -errno;
}

static int write_json(struct tool_writer *w, json_t *object)
{
    int rc = object == NULL ? -ENOMEM : 0;
    if (rc == 0 && (json_dumpf(object, w->file, JSON_COMPACT) != 0 || putc('\n', w->file) == EOF)) {
        rc = errno != 0 ? -errno : -EIO;
    }
    json_decref(object);
    return rc;
}

static json_t *json_of_tree(const struct tool_writer *w)
{
    json_t *object = json_object();
    if (object != NULL && tool_put_bytes(object, "tree", w->tree) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

int tool_write_tree(struct tool_writer *w, struct ps_slice name, uint64_t entries)
{
    w->tree = name;
    if (w->form[0] == 'j') {
        json_t *object = json_of_tree(w);
        if (object != NULL) {
            json_object_set_new(object, "entries", json_integer((json_int_t)entries));
        }
        return write_json(w, object);
    }
    char shown[3 * PS_MAX_TREE_NAME];
    size_t n = encode_print(name, shown);
    int rc = fprintf(w->file, "VERSION=3\nformat=%s\ndatabase=%.*s\ntype=btree\nHEADER=END\n",
                     w->form, (int)n, shown);
    return rc < 0 ? -errno : 0;
}

int tool_write_entry(struct tool_writer *w, struct ps_slice key, struct ps_slice value)
{
    if (w->form[0] != 'j') {
        int rc = write_line(w, key);
        return rc == 0 ? write_line(w, value) : rc;
    }
    json_t *object = json_of_tree(w);
    if (object != NULL &&
        (tool_put_bytes(object, "key", key) != 0 || tool_put_bytes(object, "value", value) != 0)) {
        json_decref(object);
        object = NULL;
    }
    return write_json(w, object);
}

int tool_write_end(struct tool_writer *w)
{
    if (w->form[0] != 'j') {
        return fputs("DATA=END\n", w->file) < 0 ? -errno : 0;
    }
    json_t *object = json_of_tree(w);
    if (object != NULL) {
        json_object_set_new(object, "end", json_true());
    }
    return write_json(w, object);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

enum tool_event tool_wrong(struct tool_reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->problem, sizeof r->problem, format, args);
    va_end(args);
    return TOOL_WRONG;
}

/* The next line, without its end; NULL at the end of the input. */
static char *next_line(struct tool_reader *r, unsigned which, size_t *len)
{
    ssize_t n = getline(&r->lines[which], &r->rooms[which], r->file);
    if (n < 0) {
        return NULL;
    }
    r->line++;
    if (n > 0 && r->lines[which][n - 1] == '\n') {
        r->lines[which][--n] = '\0';
    }
    *len = (size_t)n;
    return r->lines[which];
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool decode_hex(char *text, size_t len, struct ps_slice *bytes)
{
    uint8_t *out = (uint8_t *)text;
    for (size_t i = 0; i < len; i += 2) {
        int high = digit(text[i]);
        int low = i + 1 < len ? digit(text[i + 1]) : -1;
        if (high < 0 || low < 0) {
            return false;
        }
        out[i / 2] = (uint8_t)(high << 4 | low);
    }
    *bytes = (struct ps_slice){text, len / 2};
    return true;
}

/* Whether every backslash begins an escape. */
static bool is_print(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\\' && i + 1 < len && text[i + 1] == '\\') {
            i++;
        } else if (text[i] == '\\' &&
                   (i + 2 >= len || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0)) {
            return false;
        }
    }
    return true;
}

static bool decode_print(char *text, size_t len, struct ps_slice *bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] != '\\') {
            text[n++] = text[i];
        } else if (i + 1 < len && text[i + 1] == '\\') {
            text[n++] = '\\';
            i++;
        } else if (i + 2 < len && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
            text[n++] = (char)(digit(text[i + 1]) << 4 | digit(text[i + 2]));
            i += 2;
        } else {
            return false;
        }
    }
    *bytes = (struct ps_slice){text, n};
    return true;
}

static bool decode(const struct tool_reader *r, char *line, size_t len, struct ps_slice *bytes)
{
    return r->form == 1 ? decode_print(line + 1, len - 1, bytes)
                        : decode_hex(line + 1, len - 1, bytes);
}

/* A line of the header, `name=value`; TOOL_ENTRY: go on. */
static enum tool_event take_header(struct tool_reader *r, char *line, size_t len)
{
    char *value = memchr(line, '=', len);
    struct ps_slice name;
    if (value == NULL) {
        return tool_wrong(r, "a line of the header without '='");
    }
    *value++ = '\0';
    size_t left = len - (size_t)(value - line);
    if (strcmp(line, "VERSION") == 0 && strcmp(value, "3") != 0) {
        return tool_wrong(r, "version %.20s of the form, not 3", value);
    }
    if (strcmp(line, "format") == 0) {
        r->form = strcmp(value, "print") == 0;
        if (!r->form && strcmp(value, "bytevalue") != 0) {
            return tool_wrong(r, "format %.20s: neither bytevalue nor print", value);
        }
    }
    if (strcmp(line, "type") == 0 && strcmp(value, "btree") != 0) {
        return tool_wrong(r, "type %.20s, not btree", value);
    }
    if ((strcmp(line, "duplicates") == 0 || strcmp(line, "dupsort") == 0) &&
        strcmp(value, "1") == 0) {
        return tool_wrong(r, "a database with duplicate keys, which a tree cannot have");
    }
    if (strcmp(line, "database") == 0) {
        if (!is_print(value, left)) { /* mdb_dump writes names as they are */
            name = (struct ps_slice){value, left};
        } else {
            (void)decode_print(value, left, &name);
        }
        if (name.len == 0 || name.len > PS_MAX_TREE_NAME) {
            return tool_wrong(r, "a tree's name has 1 to %d bytes", PS_MAX_TREE_NAME);
        }
        memcpy(r->tree, name.data, name.len);
        r->tree_len = name.len;
    }
    return TOOL_ENTRY;
}

static enum tool_event read_header(struct tool_reader *r)
{
    bool any = false;
    r->tree_len = 0;
    r->form = 0;
    for (;;) {
        size_t len;
        char *line = next_line(r, 0, &len);
        if (line == NULL) {
            return any ? tool_wrong(r, "the input ends in a header") : TOOL_DONE;
        }
        if (len == 0 && !any) {
            continue;
        }
        if (!any && strncmp(line, "VERSION=", 8) != 0) {
            return tool_wrong(r, "a header must begin here: VERSION=3");
        }
        any = true;
        if (strcmp(line, "HEADER=END") == 0) {
            r->in_tree = true;
            r->name = (struct ps_slice){r->tree, r->tree_len};
            return TOOL_TREE;
        }
        enum tool_event event = take_header(r, line, len);
        if (event == TOOL_WRONG) {
            return event;
        }
    }
}

enum tool_event tool_read_text(struct tool_reader *r)
{
    size_t len[2];
    if (!r->in_tree) {
        return read_header(r);
    }
    char *key = next_line(r, 0, &len[0]);
    if (key != NULL && strcmp(key, "DATA=END") == 0) {
        r->in_tree = false;
        return read_header(r);
    }
    if (key == NULL) {
        return tool_wrong(r, "the input ends without DATA=END");
    }
    if (key[0] != ' ' || !decode(r, key, len[0], &r->key)) {
        return tool_wrong(r, "not a key: a blank, then bytes as the format says");
    }
    char *value = next_line(r, 1, &len[1]);
    if (value == NULL) {
        return tool_wrong(r, "the input ends without the value of the last key");
    }
    if (value[0] != ' ' || !decode(r, value, len[1], &r->value)) {
        return tool_wrong(r, "not a value: a blank, then bytes as the format says");
    }
    return TOOL_ENTRY;
}
