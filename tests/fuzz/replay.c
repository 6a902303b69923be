/*
 * replay.c - the main of a fuzz target that is built without libFuzzer: runs the files named as
 * arguments, to look at a finding with any compiler and debugger.
 */
#include "tests/fuzz/fuzz.h"

#include "tests/fuzz/dispatch_mutate.h"

#include <sys/stat.h>

/* Nothing is mutated here; whoever offers a mutator refers to it nevertheless. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max)
{
    (void)data;
    return size < max ? size : max;
}

static void run_file(const char *name)
{
    FILE *file = fopen(name, "rb");
    struct stat st;
    if (file == NULL || fstat(fileno(file), &st) != 0) {
        perror(name);
        exit(1);
    }
    uint8_t *data = malloc(st.st_size > 0 ? (size_t)st.st_size : 1);
    FUZZ_CHECK(data != NULL);
    size_t size = fread(data, 1, (size_t)st.st_size, file);
    fclose(file);
    printf("%s: %zu bytes\n", name, size);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        run_file(argv[i]);
    }
    return 0;
}
