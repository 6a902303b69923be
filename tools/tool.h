/*
 * tool.h - what the commands of pando-tool share.
 *
 * A command is a row of the table in tool_commands.c: its name, arguments, options, what it needs,
 * and its text, from which usage, --help and docs/pando-tool.md are made. It prints what it finds
 * to standard output, as text or (--json) as lines of JSON of which the last is {"result": ...};
 * complaints about the call, and progress, go to standard error.
 */
#ifndef PANDO_TOOLS_TOOL_H
#define PANDO_TOOLS_TOOL_H

#include "storage/inspect.h"
#include "storage/pandostore.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>

/* Exit statuses. */
enum {
    TOOL_FINE = 0,   /* all is well */
    TOOL_DAMAGE = 1, /* damage, or differences, were found */
    TOOL_ERROR = 2,  /* a mistake in the call, or it could not be done */
};

#define TOOL_ARGUMENTS 2
#define TOOL_OPTIONS   8  /* that a command has */
#define TOOL_GIVEN     64 /* options on a command line */

struct tool;

struct tool_option {
    const char *name;  /* with its dashes */
    const char *value; /* what its value is called; NULL: it takes none */
    const char *help;
};

/* What a command asks of a server that has the directory open. */
enum tool_server {
    TOOL_BESIDE,  /* none: it looks at the newest checkpoint */
    TOOL_STOPPED, /* that it is stopped */
};

struct tool_command {
    const char *name;
    const char *arguments; /* as in the usage; one word each */
    int (*run)(struct tool *tool);
    enum tool_server server;
    const char *summary; /* a line */
    const char *text;    /* paragraphs, as in the documentation */
    struct tool_option options[TOOL_OPTIONS];
};

/* A call. */
struct tool {
    const struct tool_command *command;
    const char *arguments[TOOL_ARGUMENTS];
    struct {
        const struct tool_option *option;
        const char *value;
    } given[TOOL_GIVEN];
    unsigned ngiven;
    bool json;
    json_t *result; /* with --json: the last line */
    struct tool_progress {
        bool on, shown;
        int64_t next_ms, began_ms;
    } progress;
    struct ps_store *beside; /* looked at beside a server; or NULL: progress sees that it stands */
    struct ps_fault *findings; /* kept until it is known that they count */
    size_t nfindings, findings_room;
    uint64_t all_findings; /* also those that are not kept */
};

/* ---- the table (tool_commands.c), and what is made of it (tool_help.c) ------------------------
 */

extern const struct tool_command tool_commands[];
extern const size_t tool_command_count;

const struct tool_command *tool_find_command(const char *name);
void tool_usage(FILE *to);
void tool_help(FILE *to, const struct tool_command *command);
/* docs/pando-tool.md */
void tool_manual(FILE *to);

/* ---- the command line (tool_arguments.c) ------------------------------------------------------
 */

/* Fills in arguments and options; false, and a complaint, if they are wrong. */
bool tool_take_arguments(struct tool *tool, int argc, char **argv);
/* The value of an option of the command, "" for one without, NULL: not given. The nth time. */
const char *tool_option(const struct tool *tool, const char *name, unsigned nth);
/* A number of an option, or `otherwise`; false, and a complaint: not a number from 1 to most. */
bool tool_number(struct tool *tool, const char *name, uint64_t otherwise, uint64_t most,
                 uint64_t *number);

/* ---- saying things (tool_say.c) ---------------------------------------------------------------
 */

/* Why it could not be done: to standard error, and into the result. TOOL_ERROR. */
int tool_fail(struct tool *tool, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tool_fail_fault(struct tool *tool, const char *dir, int rc, const struct ps_fault *fault);
/* A fault in a line of text: `what, FILE at OFFSET`, with the system's error if there is one. */
void tool_print_fault(FILE *to, const char *label, const struct ps_fault *fault);
/* Keeps a finding; for struct ps_watch, with the tool as its argument. */
void tool_keep_finding(void *tool, const struct ps_fault *fault);
void tool_forget_findings(struct tool *tool);
/* Prints what was kept. */
void tool_print_findings(struct tool *tool);
/* A line of JSON: {"kind": object}. Takes the object. */
void tool_print_json(const char *kind, json_t *object);
/* Bytes as a JSON string, or, if they are not UTF-8, false. */
bool tool_is_text(struct ps_slice bytes);
/* Puts bytes into an object: as `name`, or, if they are not UTF-8, base64 as `name`64. */
int tool_put_bytes(json_t *object, const char *name, struct ps_slice bytes);
/* Bytes for people: what cannot be printed as \xx; at most `most` characters. */
void tool_print_bytes(FILE *to, struct ps_slice bytes, size_t most);
/* The result's last words: the exit status and what it means. */
void tool_end(struct tool *tool, int status);

/* ---- progress (tool_progress.c) ---------------------------------------------------------------
 */

/* A bar on standard error, if that is a terminal. True: for struct ps_watch. */
bool tool_show_progress(void *tool, uint64_t done, uint64_t whole);
void tool_end_progress(struct tool *tool);

/* ---- looking at a store (tool_look.c) ---------------------------------------------------------
 */

/* What is looked at, and what is known of it besides its pages. */
struct tool_view {
    struct ps_store *store;
    bool live; /* a server has it open */
    struct ps_meta metas[2];
    int newest; /* of the metas; -1: none */
};

/* Opens the newest checkpoint of the first argument, beside a running server if need be, calls
 * `look`, and again, up to ten times (--tries), if the server has made a checkpoint meanwhile.
 * `look` answers an error of ps_survey's kind: what it found is worth nothing when it is called
 * again. A store that cannot be opened for damage is a finding, and `view->store` NULL. Answers an
 * exit status: TOOL_FINE although there are findings. */
int tool_look(struct tool *tool, struct tool_view *view,
              int (*look)(struct tool *tool, struct tool_view *view, void *arg), void *arg);
void tool_close(struct tool_view *view);
/* Opens the store of the first argument as a server does, to the log's end, but makes none where
 * there is none. An error of ps_open's. */
int tool_open(struct tool *tool, const struct ps_options *options, struct ps_store **store,
              struct ps_fault *fault);
/* What to answer then. */
int tool_not_opened(struct tool *tool, int rc, const struct ps_fault *fault);

/* The log from the newest meta on (or, without one, each segment): its damage is a finding. */
int tool_read_log(struct tool *tool, struct tool_view *view, const struct ps_log_watch *watch,
                  struct ps_log_report *report);
json_t *tool_metas_json(const struct tool_view *view);
void tool_print_metas(const struct tool_view *view);
json_t *tool_log_json(const struct ps_log_report *report);
void tool_print_log(const struct ps_log_report *report);
/* Says how many findings there were; the exit status. */
int tool_conclude(struct tool *tool, const struct tool_view *view);

/* ---- the forms of a dump (tool_text.c, tool_lines.c) ------------------------------------------
 */

/* Where records go. Each function answers 0 or -errno. */
struct tool_writer {
    FILE *file;
    const char *form; /* bytevalue, print, json */
    struct ps_slice tree;
    char *text; /* room for what is encoded */
    size_t room;
};
int tool_write_tree(struct tool_writer *writer, struct ps_slice name, uint64_t entries);
int tool_write_entry(struct tool_writer *writer, struct ps_slice key, struct ps_slice value);
int tool_write_end(struct tool_writer *writer);

/* Where records come from. */
enum tool_event {
    TOOL_TREE,  /* a tree begins: name (no bytes: the input does not say) */
    TOOL_ENTRY, /* key, value: until the next call */
    TOOL_DONE,
    TOOL_WRONG, /* problem, line */
};
struct tool_reader {
    FILE *file;
    bool json, begun, in_tree;
    bool pending; /* JSON: the entry after the tree that was just begun */
    int form;     /* text: 0 bytevalue, 1 print */
    uint64_t line;
    char *lines[2]; /* two lines: a key and a value */
    size_t rooms[2];
    json_t *object;
    char tree[PS_MAX_TREE_NAME];
    size_t tree_len;
    struct ps_slice name, key, value;
    uint8_t *decoded[2];
    char problem[160];
};
enum tool_event tool_read(struct tool_reader *reader);
void tool_reader_free(struct tool_reader *reader);
enum tool_event tool_read_text(struct tool_reader *reader);
enum tool_event tool_read_json(struct tool_reader *reader);
enum tool_event tool_wrong(struct tool_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* base64 with padding (tool_base64.c). */
void tool_base64_encode(struct ps_slice bytes, char *out); /* 4 * ((len + 2) / 3) characters */
/* In place is fine; false: not base64. */
bool tool_base64_decode(const char *text, size_t len, uint8_t *out, size_t *out_len);

/* ---- the commands -----------------------------------------------------------------------------
 */

int tool_check(struct tool *tool);
int tool_stat(struct tool *tool);
int tool_verify(struct tool *tool);
int tool_log(struct tool *tool);
int tool_dump(struct tool *tool);
int tool_load(struct tool *tool);
int tool_salvage(struct tool *tool);
int tool_copy(struct tool *tool);
int tool_compact(struct tool *tool);
int tool_migrate_from_lmdb(struct tool *tool);
int tool_migrate_to_lmdb(struct tool *tool);

#endif
