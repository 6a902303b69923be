/*
 * copy.h - what a copy of a state is made of; the public functions are in pandostore.h.
 */
#ifndef PANDO_STORAGE_COPY_H
#define PANDO_STORAGE_COPY_H

#include "storage/store.h"

/* Writes a state as a data file of its own: pages full, in the order of keys, none free. `like`
 * gives the meta's id and log position. What is written is synced, its metas last. */
int copy_image(struct ps_view *view, const struct meta *like, const struct ps_vfs *vfs, int fd,
               const struct ps_copy_watch *watch, struct ps_copy_report *report);

#endif
