/*
 * unit_list.h - units in a row: first in, first out.
 *
 * An empty list must have been initialised, and a list is moved with list_prepend, not copied:
 * `tail` points into it.
 */
#ifndef PANDO_SERVER_EXEC_UNIT_LIST_H
#define PANDO_SERVER_EXEC_UNIT_LIST_H

#include "server/exec/unit.h"

struct unit_list {
    struct unit *head, **tail;
    size_t count;
};

static inline void list_init(struct unit_list *list)
{
    *list = (struct unit_list){NULL, &list->head, 0};
}

static inline void list_push(struct unit_list *list, struct unit *unit)
{
    unit->next = NULL;
    *list->tail = unit;
    list->tail = &unit->next;
    list->count++;
}

static inline void list_push_front(struct unit_list *list, struct unit *unit)
{
    unit->next = list->head;
    if (list->head == NULL) {
        list->tail = &unit->next;
    }
    list->head = unit;
    list->count++;
}

static inline struct unit *list_pop(struct unit_list *list)
{
    struct unit *unit = list->head;
    list->head = unit->next;
    if (list->head == NULL) {
        list->tail = &list->head;
    }
    list->count--;
    return unit;
}

/* Moves all of `from` before the first of `to`. */
static inline void list_prepend(struct unit_list *to, struct unit_list *from)
{
    if (from->head == NULL) {
        return;
    }
    *from->tail = to->head;
    if (to->head == NULL) {
        to->tail = from->tail;
    }
    to->head = from->head;
    to->count += from->count;
    list_init(from);
}

#endif
