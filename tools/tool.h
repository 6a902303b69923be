/*
 * tool.h - what the commands of pando-tool share.
 */
#ifndef PANDO_TOOLS_TOOL_H
#define PANDO_TOOLS_TOOL_H

#include "storage/pandostore.h"

#include <stdio.h>

/* Exit statuses. */
enum { TOOL_CLEAN = 0, TOOL_FINDINGS = 1, TOOL_USAGE = 2 };

/* One line: `label: what, FILE at OFFSET`, with the system's error if there is one. */
void tool_print_fault(FILE *to, const char *label, const struct ps_fault *fault);

/* The commands: what they find goes to standard output; they return an exit status. */
int tool_check(struct ps_store *store, const char *dir);
int tool_stat(struct ps_store *store, const char *dir);

#endif
