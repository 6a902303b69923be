/*
 * fuzz.h - what the fuzz targets share.
 *
 * A target is a file fuzz_NAME.c with this one function. It must not keep anything from one input
 * to the next that could change what an input does, and must end for every input.
 */
#ifndef PANDO_TESTS_FUZZ_FUZZ_H
#define PANDO_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "protocol/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A finding. */
#define FUZZ_CHECK(condition) RESP_CHECK(condition)

#endif
