/*
 * fuzz_store.c - any bytes as damage to pages and metas of a small store, whose checksums are made
 * right again.
 *
 * Checked: everything that can be done with the store ends with right data or an error with a place
 * (tests/damage/exercise.h); an input is patches (tests/damage/fuzzing.h).
 */
#include "tests/fuzz/fuzz.h"

#include "tests/damage/fuzzing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    damage_fuzz(false, data, size);
    return 0;
}
