/*
 * tool_stat.c - `pando-tool stat`: sizes, positions and counts of a store.
 *
 * Threads: one.
 */
#include "tools/tool.h"

#include <inttypes.h>

static const struct line {
    const char *text;
    size_t offset;
} lines[] = {
#define LINE(text, field)                     \
    {                                         \
        text, offsetof(struct ps_stat, field) \
    }
    LINE("entries", entries),
    LINE("file, bytes", file_bytes),
    LINE("file, pages", file_pages),
    LINE("file, free pages", file_pages_free),
    LINE("checkpoint, sequence", checkpoint_seq),
    LINE("log, position of the checkpoint", log_checkpoint_position),
#undef LINE
};

int tool_stat(struct ps_store *store, const char *dir)
{
    struct ps_stat stat;
    ps_stats(store, &stat);
    printf("%-34s%s\n", "store", dir);
    printf("%-34s%" PRIu32 "\n", "page size, bytes", stat.page_size);
    printf("%-34s%" PRIu32 "\n", "trees", stat.trees);
    printf("%-34s%" PRIu32 "\n", "levels of the deepest tree", stat.depth_max);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *at = (const char *)&stat + lines[i].offset;
        printf("%-34s%" PRIu64 "\n", lines[i].text, *(const uint64_t *)at);
    }
    return TOOL_CLEAN;
}
