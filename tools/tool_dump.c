/*
 * tool_dump.c - `pando-tool dump`: all entries as text.
 *
 * Threads: one (and the engine's). With --checkpoint nothing is changed; without, the store is
 * opened as a server would, so that the log's commits are there.
 */
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER ((size_t)1 << 20)

struct dump {
    struct tool *tool;
    struct ps_store *store;
    struct ps_view *view;
    struct tool_writer writer;
    uint64_t trees, entries, whole;
};

static const char *form_of(struct tool *tool)
{
    static const char *const forms[] = {"bytevalue", "print", "json"};
    const char *asked = tool_option(tool, "--format", 0);
    if (asked == NULL) {
        return forms[tool->json ? 2 : 0];
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(asked, forms[i]) == 0) {
            return forms[i];
        }
    }
    return NULL;
}

static int damaged(struct dump *d)
{
    struct ps_fault fault;
    ps_last_fault(d->store, &fault);
    tool_end_progress(d->tool);
    tool_print_fault(stderr, "pando-tool dump: damage: the dump is not complete", &fault);
    if (d->tool->json) {
        tool_keep_finding(d->tool, &fault);
    }
    return TOOL_DAMAGE;
}

static int write_failed(struct dump *d, int err)
{
    return tool_fail(d->tool, "writing: %s", strerror(-err));
}

static int dump_entries(struct dump *d, struct ps_cursor *cursor)
{
    int rc;
    for (rc = ps_cursor_first(cursor); rc == 0; rc = ps_cursor_next(cursor)) {
        struct ps_slice key, value;
        rc = ps_cursor_get(cursor, &key, &value);
        if (rc != 0) {
            break;
        }
        int err = tool_write_entry(&d->writer, key, value);
        if (err != 0) {
            return write_failed(d, err);
        }
        rc = ps_view_check(d->view); /* were they the bytes that are stored? */
        if (rc != 0) {
            break;
        }
        if (++d->entries % 4096 == 0) {
            tool_show_progress(d->tool, d->entries, d->whole);
        }
    }
    return rc == PS_NOTFOUND                 ? TOOL_FINE
           : rc == PS_CORRUPT || rc == PS_IO ? damaged(d)
                                             : tool_fail(d->tool, "reading: %s", ps_strerror(rc));
}

static int dump_tree(struct dump *d, ps_tree tree, struct ps_slice name)
{
    struct ps_cursor *cursor;
    uint64_t entries = 0;
    int rc = ps_count(d->view, tree, &entries);
    rc = rc == 0 ? ps_cursor_open(d->view, tree, &cursor) : rc;
    if (rc != 0) {
        return tool_fail(d->tool, "opening a tree: %s", ps_strerror(rc));
    }
    int err = tool_write_tree(&d->writer, name, entries);
    int status = err != 0 ? write_failed(d, err) : dump_entries(d, cursor);
    ps_cursor_close(cursor);
    if (status == TOOL_FINE) {
        err = tool_write_end(&d->writer);
        status = err != 0 ? write_failed(d, err) : TOOL_FINE;
    }
    d->trees++;
    return status;
}

static int named_trees(struct dump *d, bool write)
{
    int status = TOOL_FINE;
    const char *name;
    for (unsigned i = 0; status == TOOL_FINE && (name = tool_option(d->tool, "--tree", i)) != NULL;
         i++) {
        ps_tree tree;
        uint64_t entries = 0;
        struct ps_slice slice = {name, strlen(name)};
        if (ps_tree_find(d->view, slice, &tree) != 0) {
            return tool_fail(d->tool, "there is no tree '%s'", name);
        }
        (void)ps_count(d->view, tree, &entries);
        d->whole += write ? 0 : entries;
        status = write ? dump_tree(d, tree, slice) : TOOL_FINE;
    }
    return status;
}

/* First without writing: how much there is, and whether all that was asked for is there. */
static int dump_trees(struct dump *d, bool write)
{
    int status = TOOL_FINE;
    if (tool_option(d->tool, "--tree", 0) != NULL) {
        return named_trees(d, write);
    }
    for (ps_tree tree = 0; status == TOOL_FINE && tree < PS_MAX_TREES; tree++) {
        struct ps_slice name;
        uint64_t entries = 0;
        if (ps_tree_name(d->view, tree, &name) != 0) {
            continue;
        }
        (void)ps_count(d->view, tree, &entries);
        d->whole += write ? 0 : entries;
        status = write ? dump_tree(d, tree, name) : TOOL_FINE;
    }
    return status;
}

/* To a file of its own, or to standard output. */
static FILE *open_output(struct tool *tool)
{
    const char *path = tool_option(tool, "--output", 0);
    if (path == NULL) {
        return stdout;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (file == NULL) {
        tool_fail(tool, "%s: %s", path, strerror(errno));
    }
    return file;
}

static int close_output(struct dump *d, int status)
{
    FILE *file = d->writer.file;
    bool bad = fflush(file) != 0 || ferror(file);
    bad = (file != stdout && (fsync(fileno(file)) != 0 || fclose(file) != 0)) || bad;
    return bad && status != TOOL_ERROR ? write_failed(d, errno != 0 ? -errno : -EIO) : status;
}

static int dump_store(struct dump *d)
{
    struct ps_snapshot *snap;
    if (ps_snapshot_new(d->store, &snap) != 0) {
        return tool_fail(d->tool, "out of memory");
    }
    ps_snapshot_renew(snap);
    d->view = ps_snapshot_view(snap);
    int status = dump_trees(d, false);
    d->writer.file = status == TOOL_FINE ? open_output(d->tool) : NULL;
    status = d->writer.file != NULL ? TOOL_FINE : TOOL_ERROR;
    if (d->writer.file != NULL) {
        char *buffer = d->writer.file == stdout ? NULL : malloc(BUFFER);
        if (buffer != NULL) {
            setvbuf(d->writer.file, buffer, _IOFBF, BUFFER);
        }
        status = close_output(d, dump_trees(d, true));
        free(buffer);
    }
    free(d->writer.text);
    ps_snapshot_free(snap);
    return status;
}

int tool_dump(struct tool *tool)
{
    struct ps_options options = {
        .read_only_check = tool_option(tool, "--checkpoint", 0) != NULL,
        .durability = PS_ALWAYS,
        .manual_checkpoint = true,
    };
    struct dump d = {.tool = tool, .writer.form = form_of(tool)};
    struct ps_fault fault = {0};
    if (d.writer.form == NULL) {
        return tool_fail(tool, "--format: bytevalue, print, or json");
    }
    if (tool->json && d.writer.form[0] != 'j' && tool_option(tool, "--output", 0) == NULL) {
        return tool_fail(tool, "--json: lines of JSON only; another --format needs --output");
    }
    int rc = tool_open(tool, &options, &d.store, &fault);
    if (rc != 0) {
        return tool_not_opened(tool, rc, &fault);
    }
    int status = dump_store(&d);
    ps_close(d.store, false);
    tool_end_progress(tool);
    if (tool->json) {
        json_object_set_new(tool->result, "trees", json_integer((json_int_t)d.trees));
        json_object_set_new(tool->result, "entries", json_integer((json_int_t)d.entries));
        tool_print_findings(tool);
    }
    return status;
}
