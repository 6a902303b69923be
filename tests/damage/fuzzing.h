/*
 * fuzzing.h - any bytes as damage to a tiny store: what fuzz_store and fuzz_log run.
 *
 * The first byte's lowest bit says whether checksums are made right afterwards. Then follow
 * patches: u16 place, u16 offset in it, u8 how many bytes (1 to 8), the bytes. Places are the metas
 * and the pages of the store, or the headers and records of its log, as often as needed to reach
 * any number.
 */
#ifndef PANDO_TESTS_DAMAGE_FUZZING_H
#define PANDO_TESTS_DAMAGE_FUZZING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What must hold (exercise.h), or the program ends with what does not. */
void damage_fuzz(bool log, const uint8_t *data, size_t size);

#endif
