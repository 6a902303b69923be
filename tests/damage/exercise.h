/*
 * exercise.h - everything that can be done with a damaged store, and what must hold.
 *
 *  D1 No crash, no hang, no memory beyond a bound: whatever the files hold.
 *  D2 Where a checksum vouches for bytes, damage to them is told or does not matter: what is read
 * is right, entry by entry, or the answer is PS_CORRUPT; a store that opens holds a state that the
 *     log led through. What ps_check passes reads without an error.
 *  D3 Where checksums were made right again, a store that ps_check passes is a sound one: walks
 * both ways, single and many lookups, parts, probes, ranks and counts agree; everything can be
 *     changed; and after a checkpoint ps_check passes it again.
 *  D4 Every error of damage names a file and says what; every finding of ps_check is a line with an
 *     offset.
 *  D5 A read that told of damage is no surprise to ps_check.
 */
#ifndef PANDO_TESTS_DAMAGE_EXERCISE_H
#define PANDO_TESTS_DAMAGE_EXERCISE_H

#include "tests/damage/shapes.h"

enum outcome {
    OUTCOME_HARMLESS,  /* all as it was */
    OUTCOME_REFUSED,   /* opening told of it */
    OUTCOME_TOLD,      /* reading or changing did */
    OUTCOME_FOUND,     /* ps_check alone did */
    OUTCOME_UNNOTICED, /* another sound store: possible only with right checksums */
    OUTCOME_CUT,       /* an earlier state of the log */
    OUTCOME_WRONG,     /* a finding: verdict.why */
};
#define OUTCOMES 7u

struct verdict {
    enum outcome outcome;
    char why[400];
};

/* The damaged files are in `dir`; `fixed`: their checksums were made right again; `in_log`: the
 * damage is (also) in what recovery reads of the log. */
void exercise(const struct shape *shape, const char *dir, bool fixed, bool in_log,
              struct verdict *verdict);

#endif
