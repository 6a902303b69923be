/*
 * dispatch_mutate.h - for fuzz_dispatch: changes to an input that keep it a sequence of commands.
 */
#ifndef PANDO_TESTS_FUZZ_DISPATCH_MUTATE_H
#define PANDO_TESTS_FUZZ_DISPATCH_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* Changes the size bytes of data, which may become up to max; returns how many they are. */
size_t mutate_lines(uint8_t *data, size_t size, size_t max, unsigned seed);

/* libFuzzer's own changes of bytes. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

#endif
