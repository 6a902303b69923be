/*
 * tool_look.c - opening a store to look at it, beside a running server if need be.
 *
 * Beside a server, what was found counts only if the checkpoint that was looked at still stands
 * afterwards; if not, the look begins again on the newer one, a bounded number of times. The log is
 * read again, too, when it seems damaged: its segments may have been used again meanwhile.
 *
 * Threads: one. Nothing is changed.
 */
#include "tools/tool.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define TRIES    10u
#define PAUSE_MS 20

/* A missing directory, or one without a store, is a mistake in the call. */
static int look_for_store(struct tool *tool, const char *dir)
{
    char path[4200];
    struct stat st;
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return tool_fail(tool, "%s: no such directory", dir);
    }
    int n = snprintf(path, sizeof path, "%s/pando.db", dir);
    if (n < 0 || (size_t)n >= sizeof path || stat(path, &st) != 0) {
        return tool_fail(tool, "%s: no store here (there is no pando.db)", dir);
    }
    return TOOL_FINE;
}

static void pause_shortly(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    nanosleep(&pause, NULL);
}

static int open_store(struct tool_view *view, const char *dir, struct ps_fault *fault)
{
    struct ps_options options = {.read_only_check = true, .without_lock = view->live};
    int rc = ps_open(dir, &options, &view->store, NULL, fault);
    if (rc == PS_LOCKED && !view->live) {
        view->live = true;
        return open_store(view, dir, fault);
    }
    return rc;
}

void tool_close(struct tool_view *view)
{
    if (view->store != NULL) {
        ps_close(view->store, false);
        view->store = NULL;
    }
}

/* Whether opening again would find the same. */
static bool same_meta(const struct tool_view *view, const char *dir)
{
    struct ps_meta now[2];
    struct ps_fault fault;
    int newest;
    if (ps_read_metas(dir, now, &newest, &fault) != 0 || newest != view->newest) {
        return false;
    }
    return newest < 0 || now[newest].stamp == view->metas[newest].stamp;
}

/* One look; *again: it has to be done once more. */
static int look_once(struct tool *tool, struct tool_view *view,
                     int (*look)(struct tool *tool, struct tool_view *view, void *arg), void *arg,
                     bool *again)
{
    const char *dir = tool->arguments[0];
    struct ps_fault fault = {0};
    *again = false;
    tool_forget_findings(tool);
    int rc = ps_read_metas(dir, view->metas, &view->newest, &fault);
    if (rc != 0) {
        return tool_fail_fault(tool, dir, rc, &fault);
    }
    rc = open_store(view, dir, &fault);
    if (rc == PS_CORRUPT) {
        *again = view->live && !same_meta(view, dir);
        tool_keep_finding(tool, &fault);
        return TOOL_FINE;
    }
    if (rc != 0) {
        return tool_fail_fault(tool, dir, rc, &fault);
    }
    tool->beside = view->live ? view->store : NULL;
    rc = look(tool, view, arg);
    tool->beside = NULL;
    *again = view->live && !ps_checkpoint_stands(view->store);
    bool unreadable = rc == PS_IO && tool->all_findings > 0; /* pages of the file */
    if (*again || rc == 0 || rc == PS_CORRUPT || unreadable) {
        return TOOL_FINE;
    }
    ps_last_fault(view->store, &fault);
    return tool_fail_fault(tool, dir, rc, &fault);
}

/* A meta that cannot be read is a finding, unless a server is writing it at this moment. */
static void find_bad_metas(struct tool *tool, struct tool_view *view)
{
    const char *dir = tool->arguments[0];
    struct ps_fault fault = {0};
    for (unsigned i = 0; i < TRIES && view->live; i++) {
        if (view->metas[0].code == 0 && view->metas[1].code == 0) {
            return;
        }
        pause_shortly();
        (void)ps_read_metas(dir, view->metas, &view->newest, &fault);
    }
    for (unsigned k = 0; k < 2; k++) {
        if (view->metas[k].code == 0) {
            continue;
        }
        fault = (struct ps_fault){.code = PS_CORRUPT, .offset = k * UINT64_C(65536)};
        snprintf(fault.file, sizeof fault.file, "%s/pando.db", dir);
        snprintf(fault.what, sizeof fault.what, "meta %c: %s", 'A' + (int)k,
                 view->metas[k].code == PS_NOTFOUND ? "blank" : ps_strerror(view->metas[k].code));
        tool_keep_finding(tool, &fault);
    }
}

int tool_look(struct tool *tool, struct tool_view *view,
              int (*look)(struct tool *tool, struct tool_view *view, void *arg), void *arg)
{
    uint64_t tries;
    bool again = true;
    *view = (struct tool_view){.newest = -1};
    int status = look_for_store(tool, tool->arguments[0]);
    if (status != TOOL_FINE || !tool_number(tool, "--tries", TRIES, 1000000, &tries)) {
        return TOOL_ERROR;
    }
    for (uint64_t i = 0; i < tries && again; i++) {
        tool_close(view);
        status = look_once(tool, view, look, arg, &again);
    }
    if (status == TOOL_FINE && again) {
        status = tool_fail(tool,
                           "%s: the running server has made a checkpoint each of the %" PRIu64
                           " times before this was through; try again when it has less to do, or "
                           "stop it, or give more --tries",
                           tool->arguments[0], tries);
    }
    if (status == TOOL_FINE) {
        find_bad_metas(tool, view);
    }
    return status;
}

/* ---- the log ----------------------------------------------------------------------------------
 */

int tool_read_log(struct tool *tool, struct tool_view *view, const struct ps_log_watch *watch,
                  struct ps_log_report *report)
{
    const char *dir = tool->arguments[0];
    struct ps_fault fault = {0};
    int rc = PS_CORRUPT;
    for (unsigned i = 0; rc != 0 && i < (view->live ? TRIES : 1); i++) {
        int found = ps_read_metas(dir, view->metas, &view->newest, &fault);
        if (found != 0) {
            return tool_fail_fault(tool, dir, found, &fault);
        }
        const struct ps_meta *meta = view->newest < 0 ? NULL : &view->metas[view->newest];
        rc = ps_log_read(dir, meta == NULL ? NULL : &meta->log, watch, report, &fault);
        if (rc != 0 && view->live) {
            pause_shortly();
        }
    }
    if (rc == PS_CORRUPT) {
        tool_keep_finding(tool, &fault);
        return TOOL_FINE;
    }
    return rc == 0 ? TOOL_FINE : tool_fail_fault(tool, dir, rc, &fault);
}

/* ---- saying it --------------------------------------------------------------------------------
 */

json_t *tool_metas_json(const struct tool_view *view)
{
    json_t *array = json_array();
    for (unsigned k = 0; k < 2; k++) {
        const struct ps_meta *m = &view->metas[k];
        json_t *meta = json_pack("{s:s, s:s}", "meta", k == 0 ? "A" : "B", "state",
                                 m->code == 0 ? "valid" : ps_strerror(m->code));
        if (m->code == 0) {
            json_object_update_new(
                meta,
                json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I}", "newest", view->newest == (int)k,
                          "page_size", (json_int_t)m->page_size, "sequence", (json_int_t)m->seq,
                          "stamp", (json_int_t)m->stamp, "log_position",
                          (json_int_t)m->log.position, "file_pages", (json_int_t)m->file_pages,
                          "written_us", (json_int_t)m->written_us));
        }
        json_array_append_new(array, meta);
    }
    return array;
}

void tool_print_metas(const struct tool_view *view)
{
    for (unsigned k = 0; k < 2; k++) {
        const struct ps_meta *m = &view->metas[k];
        char when[32] = "";
        time_t seconds = (time_t)(m->written_us / 1000000);
        struct tm tm;
        if (m->code != 0) {
            printf("meta %c: %s\n", 'A' + (int)k, ps_strerror(m->code));
            continue;
        }
        if (gmtime_r(&seconds, &tm) != NULL) {
            strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
        }
        printf("meta %c: valid%s, sequence %" PRIu64 ", stamp %" PRIu64 ", log position %" PRIu64
               ", written %s UTC\n",
               'A' + (int)k, view->newest == (int)k ? " (newest)" : "", m->seq, m->stamp,
               m->log.position, when);
    }
}

json_t *tool_log_json(const struct ps_log_report *r)
{
    json_t *log = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "segments",
                            (json_int_t)r->segments, "segment_bytes", (json_int_t)r->segment_bytes,
                            "from", (json_int_t)r->from.position, "to", (json_int_t)r->to.position,
                            "sequence", (json_int_t)r->to.seq, "commits", (json_int_t)r->commits,
                            "records", (json_int_t)r->records, "ops", (json_int_t)r->ops,
                            "torn_bytes", (json_int_t)r->torn_bytes);
    if (log != NULL && r->torn_bytes > 0) {
        json_object_set_new(log, "torn_file", json_string(r->torn_file));
        json_object_set_new(log, "torn_offset", json_integer((json_int_t)r->torn_offset));
    }
    return log;
}

void tool_print_log(const struct ps_log_report *r)
{
    printf("log: %" PRIu64 " segments of %" PRIu64 " bytes; from position %" PRIu64 " to %" PRIu64
           ": %" PRIu64 " commits, %" PRIu64 " operations, up to sequence %" PRIu64 "\n",
           r->segments, r->segment_bytes, r->from.position, r->to.position, r->commits, r->ops,
           r->to.seq);
    if (r->torn_bytes > 0) {
        printf("log: a torn end of %" PRIu64 " bytes, %s at offset %" PRIu64
               ": never acknowledged\n",
               r->torn_bytes, r->torn_file, r->torn_offset);
    }
}

int tool_conclude(struct tool *tool, const struct tool_view *view)
{
    tool_print_findings(tool);
    if (tool->json) {
        json_object_set_new(tool->result, "findings", json_integer((json_int_t)tool->all_findings));
        json_object_set_new(tool->result, "beside_server", json_boolean(view->live));
        json_object_set_new(tool->result, "metas", tool_metas_json(view));
    } else if (tool->all_findings == 0) {
        printf("clean\n");
    } else {
        printf("%" PRIu64 " finding%s%s\n", tool->all_findings, tool->all_findings == 1 ? "" : "s",
               view->store == NULL ? ": the store cannot be opened" : "");
    }
    return tool->all_findings == 0 ? TOOL_FINE : TOOL_DAMAGE;
}

/* ---- opening ----------------------------------------------------------------------------------
 */

int tool_open(struct tool *tool, const struct ps_options *options, struct ps_store **store,
              struct ps_fault *fault)
{
    struct ps_meta metas[2];
    const char *dir = tool->arguments[0];
    int rc = ps_read_metas(dir, metas, NULL, fault);
    return rc == 0 ? ps_open(dir, options, store, NULL, fault) : rc;
}

int tool_not_opened(struct tool *tool, int rc, const struct ps_fault *fault)
{
    int status = tool_fail_fault(tool, tool->arguments[0], rc, fault);
    return rc == PS_CORRUPT ? TOOL_DAMAGE : status;
}
