/*
 * tool_check.c - `pando-tool check`: every page reachable once or free, and what is wrong with it.
 *
 * Threads: one.
 */
#include "tools/tool.h"

#include <inttypes.h>

static void print_finding(void *arg, const char *line)
{
    unsigned *findings = arg;
    ++*findings;
    printf("finding: %s\n", line);
}

int tool_check(struct ps_store *store, const char *dir)
{
    unsigned findings = 0;
    struct ps_stat stat;
    ps_stats(store, &stat);
    printf("check of %s\n", dir);
    printf("checkpoint of sequence %" PRIu64 ": %" PRIu64 " pages of %" PRIu32 " bytes, %" PRIu64
           " free, %" PRIu32 " trees, %" PRIu64 " entries\n",
           stat.checkpoint_seq, stat.file_pages, stat.page_size, stat.file_pages_free, stat.trees,
           stat.entries);
    int rc = ps_check(store, print_finding, &findings);
    if (rc && findings == 0) {
        struct ps_fault fault;
        ps_last_fault(store, &fault);
        fault.code = rc;
        tool_print_fault(stdout, "finding", &fault);
        findings = 1;
    }
    if (findings == 0) {
        printf("clean\n");
        return TOOL_CLEAN;
    }
    printf("%u finding%s\n", findings, findings == 1 ? "" : "s");
    return TOOL_FINDINGS;
}
