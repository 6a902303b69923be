/*
 * tool_fault.c - how a fault is written in one line.
 *
 * Threads: any.
 */
#include "tools/tool.h"

#include <inttypes.h>
#include <string.h>

void tool_print_fault(FILE *to, const char *label, const struct ps_fault *fault)
{
    fprintf(to, "%s: %s", label, fault->what[0] ? fault->what : ps_strerror(fault->code));
    if (fault->file[0])
        fprintf(to, ", %s at %" PRIu64, fault->file, fault->offset);
    if (fault->sys_errno)
        fprintf(to, " (%s)", strerror(fault->sys_errno));
    fprintf(to, "\n");
}
