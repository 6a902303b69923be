/*
 * replay.c - the main of a fuzz target that is built without libFuzzer: runs the files named as
 * arguments, to look at a finding with any compiler and debugger.
 */
#include "tests/fuzz/fuzz.h"

#include <sys/stat.h>

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
