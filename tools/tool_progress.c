/*
 * tool_progress.c - how far it is, on a terminal.
 *
 * Threads: one.
 */
#include "tools/tool.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#define EVERY_MS 100
#define WIDTH    40u

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void show(struct tool *tool, uint64_t done, uint64_t whole)
{
    struct tool_progress *p = &tool->progress;
    int64_t now = now_ms();
    if (p->began_ms == 0) {
        p->began_ms = now;
        p->on = isatty(STDERR_FILENO) == 1;
    }
    if (!p->on || now < p->next_ms || whole == 0) {
        return;
    }
    p->next_ms = now + EVERY_MS;
    p->shown = true;
    uint64_t part = done >= whole ? 100 : done * 100 / whole;
    unsigned full = (unsigned)(part * WIDTH / 100);
    fprintf(stderr, "\r%s [%.*s%.*s] %3" PRIu64 "%%  %" PRId64 " s ", tool->command->name,
            (int)full, "########################################", (int)(WIDTH - full),
            "                                        ", part, (now - p->began_ms) / 1000);
}

bool tool_show_progress(void *arg, uint64_t done, uint64_t whole)
{
    struct tool *tool = arg;
    show(tool, done, whole);
    return tool->beside == NULL || ps_checkpoint_stands(tool->beside);
}

void tool_end_progress(struct tool *tool)
{
    if (tool->progress.shown) {
        fprintf(stderr, "\r\033[K");
        tool->progress.shown = false;
    }
}
