/*
 * fuzz_lmdb.c - any bytes as operations on the engine and on LMDB.
 *
 * Checked: every answer is the same, and so is everything there is, also after a stop and start:
 * tests/lmdb/run.h. An input that is a finding is run again, cut down and seen in words by
 * `build/tests/lmdb --file INPUT`.
 */
#include "tests/fuzz/fuzz.h"

#include "tests/lmdb/run.h"

static char dir[STORE_DIR_PATH];

static void remove_dir(void)
{
    store_dir_remove(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream stream;
    if (dir[0] == '\0') {
        store_dir_make_in_memory(dir, "pando-fuzz");
        atexit(remove_dir);
    }
    FUZZ_CHECK(stream_decode(&stream, data, size) == 0);
    run_stream(&stream, &(struct run_options){.base = dir});
    stream_free(&stream);
    return 0;
}
