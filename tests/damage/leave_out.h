/*
 * leave_out.h - the engine with one of its checks left out, to see that the suite notices.
 *
 * The linker puts the functions of leave_out.c in front of the engine's (--wrap, in the Makefile):
 * each asks the engine, and passes over the one kind of damage that is left out.
 */
#ifndef PANDO_TESTS_DAMAGE_LEAVE_OUT_H
#define PANDO_TESTS_DAMAGE_LEAVE_OUT_H

#define CHECKS 9u

struct left_out {
    const char *name;
    const char *text;  /* of the fault that is passed over; NULL: see the code */
    const char *shape; /* in which it is looked for */
};
extern const struct left_out left_outs[CHECKS];

/* From now on, in this process: a check's number, or CHECKS for none. */
void leave_out(unsigned check);

#endif
