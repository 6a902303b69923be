/* scratch_dir.c - see scratch_dir.h. */
#include "tests/support/scratch_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        abort();
    }
}

void scratch_dir_make(char path[SCRATCH_DIR_MAX])
{
    const char *base = getenv("TMPDIR");
    base = base != NULL ? base : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, SCRATCH_DIR_MAX, "%s/pando-test-XXXXXX", base);
    must(mkdtemp(path) != NULL, path);
}

static void each_file(const char *path,
                      void (*call)(const char *path, const char *name, const char *to),
                      const char *to)
{
    DIR *dir = opendir(path);
    must(dir != NULL, path);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            call(path, e->d_name, to);
        }
    }
    closedir(dir);
}

static void remove_file(const char *path, const char *name, const char *unused)
{
    char file[2 * SCRATCH_DIR_MAX];
    (void)unused;
    snprintf(file, sizeof file, "%s/%s", path, name);
    must(unlink(file) == 0, file);
}

void scratch_dir_empty(const char *path)
{
    each_file(path, remove_file, NULL);
}

void scratch_dir_remove(const char *path)
{
    scratch_dir_empty(path);
    must(rmdir(path) == 0, path);
}

static void copy_file(const char *path, const char *name, const char *dir)
{
    char from[2 * SCRATCH_DIR_MAX], to[2 * SCRATCH_DIR_MAX];
    snprintf(from, sizeof from, "%s/%s", path, name);
    snprintf(to, sizeof to, "%s/%s", dir, name);
    int in = open(from, O_RDONLY);
    int out = open(to, O_RDWR | O_CREAT | O_TRUNC, 0666);
    must(in >= 0 && out >= 0, from);
    struct stat st;
    must(fstat(in, &st) == 0, from);
    off_t at = 0;
    while (at < st.st_size) {
        ssize_t n = copy_file_range(in, &at, out, NULL, (size_t)(st.st_size - at), 0);
        must(n > 0, to);
    }
    close(in);
    close(out);
}

void scratch_dir_copy(const char *to, const char *from)
{
    scratch_dir_empty(to);
    each_file(from, copy_file, to);
}
