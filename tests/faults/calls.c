/* calls.c - see calls.h. */
#include "tests/faults/calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_FDS   1024
#define MOST_FILES 64 /* with a failed sync, in one life */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char dir[256];
    uint64_t seen[CALLS];
    enum call call;
    uint64_t number;
    int error;
    bool failed, full;
    int short_fd; /* its next write has no space; -1: none */
    bool watched[MOST_FDS], directory[MOST_FDS];
    uint64_t inode[MOST_FDS];
    unsigned open;
    int mappings;
    uint64_t unsynced[MOST_FILES];
    unsigned nunsynced;
    const char *violation;
} all = {.short_fd = -1};

static const char *const names[CALLS] = {
    "open",
    "pread",
    "pwrite",
    "fallocate",
    "ftruncate",
    "fdatasync",
    "fsync",
    "fsync of a directory",
    "sync_file_range",
    "fstat",
    "mmap",
    "mmap of memory",
    "rename",
    "unlink",
    "mkdir",
    "opendir",
    "flock",
};

const char *calls_name(enum call call)
{
    return names[call];
}

const char *calls_error_name(int error)
{
    return error == FAIL_SHORT  ? "short"
           : error == FAIL_FULL ? "full disk"
                                : strerrorname_np(error);
}

/* ---- settings ---------------------------------------------------------------------------------
 */

void calls_watch(const char *dir)
{
    snprintf(all.dir, sizeof all.dir, "%s", dir);
}

void calls_fail(enum call call, uint64_t number, int error)
{
    pthread_mutex_lock(&mutex);
    memset(all.seen, 0, sizeof all.seen);
    all.call = call;
    all.number = number;
    all.error = error;
    all.failed = all.full = false;
    all.short_fd = -1;
    pthread_mutex_unlock(&mutex);
}

uint64_t calls_seen(enum call call)
{
    return all.seen[call];
}

bool calls_failed(void)
{
    pthread_mutex_lock(&mutex);
    bool failed = all.failed;
    pthread_mutex_unlock(&mutex);
    return failed;
}

void calls_space(void)
{
    pthread_mutex_lock(&mutex);
    all.full = false;
    pthread_mutex_unlock(&mutex);
}

void calls_new_life(void)
{
    pthread_mutex_lock(&mutex);
    all.nunsynced = 0;
    all.violation = NULL;
    pthread_mutex_unlock(&mutex);
}

const char *calls_violation(void)
{
    return all.violation;
}

unsigned calls_open_files(void)
{
    return all.open;
}

int calls_open_mappings(void)
{
    return all.mappings;
}

/* ---- the turn of a call -----------------------------------------------------------------------
 */

/* Counts a call; what it has to fail with, or 0. */
static int turn(enum call call)
{
    int error = 0;
    pthread_mutex_lock(&mutex);
    if (++all.seen[call] == all.number && call == all.call) {
        error = all.error;
        all.failed = true;
        all.full = error == FAIL_FULL;
    }
    pthread_mutex_unlock(&mutex);
    return error == FAIL_FULL ? ENOSPC : error;
}

static bool is_watched(int fd)
{
    return fd >= 0 && fd < MOST_FDS && all.watched[fd];
}

static bool is_below(const char *path)
{
    size_t n = strlen(all.dir);
    return n > 0 && strncmp(path, all.dir, n) == 0;
}

static int fail(int error)
{
    errno = error;
    return -1;
}

/* The file's syncs have failed before. */
static bool is_unsynced(int fd)
{
    for (unsigned i = 0; i < all.nunsynced; i++) {
        if (all.unsynced[i] == all.inode[fd]) {
            return true;
        }
    }
    return false;
}

/* A sync, whatever kind: looks at the rules, and remembers that it fails. */
static int sync_turn(enum call call, int fd)
{
    int error = turn(call);
    pthread_mutex_lock(&mutex);
    if (is_unsynced(fd)) {
        all.violation = "a sync that failed was tried again";
    }
    if (error != 0 && !all.directory[fd] && all.nunsynced < MOST_FILES) {
        all.unsynced[all.nunsynced++] = all.inode[fd];
    }
    pthread_mutex_unlock(&mutex);
    return error;
}

static void opened(int fd, const char *path)
{
    struct stat st = {0};
    const char *name = strrchr(path, '/');
    if (fd < 0 || fd >= MOST_FDS || !is_below(path)) {
        return;
    }
    (void)syscall(SYS_fstat, fd, &st);
    pthread_mutex_lock(&mutex);
    all.watched[fd] = true;
    all.directory[fd] = S_ISDIR(st.st_mode);
    all.inode[fd] = st.st_ino;
    if (name != NULL && strcmp(name, "/pando.db") == 0) {
        all.inode[fd] |= UINT64_C(1) << 63; /* what is not of the log */
    }
    all.open++;
    pthread_mutex_unlock(&mutex);
}

/* ---- the calls --------------------------------------------------------------------------------
 */

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0) {
        va_list args;
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    int error = is_below(path) ? turn(CALL_OPEN) : 0;
    if (error != 0) {
        return fail(error);
    }
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    opened(fd, path);
    return fd;
}

int close(int fd)
{
    pthread_mutex_lock(&mutex);
    if (is_watched(fd)) {
        all.watched[fd] = false;
        all.open--;
    }
    pthread_mutex_unlock(&mutex);
    return (int)syscall(SYS_close, fd);
}

ssize_t pread(int fd, void *buf, size_t len, off_t offset)
{
    int error = is_watched(fd) ? turn(CALL_PREAD) : 0;
    if (error == FAIL_SHORT) {
        len = len > 1 ? len / 2 : len;
    } else if (error != 0) {
        return fail(error);
    }
    return syscall(SYS_pread64, fd, buf, len, offset);
}

/* Whether a write would need space, and there is none. */
static bool no_space(int fd, size_t len, off_t offset)
{
    struct stat st;
    pthread_mutex_lock(&mutex);
    bool none = all.short_fd == fd;
    all.short_fd = none ? -1 : all.short_fd;
    bool full = all.full;
    pthread_mutex_unlock(&mutex);
    return none || (full && syscall(SYS_fstat, fd, &st) == 0 && offset + (off_t)len > st.st_size);
}

ssize_t pwrite(int fd, const void *buf, size_t len, off_t offset)
{
    if (!is_watched(fd)) {
        return syscall(SYS_pwrite64, fd, buf, len, offset);
    }
    if (no_space(fd, len, offset)) {
        return fail(ENOSPC);
    }
    pthread_mutex_lock(&mutex);
    if (is_unsynced(fd) && all.inode[fd] >> 63 == 0) {
        all.violation = "a segment of the log was written to after its sync had failed";
    }
    pthread_mutex_unlock(&mutex);
    int error = turn(CALL_PWRITE);
    if (error == 0 || error == EINTR) {
        return error == 0 ? syscall(SYS_pwrite64, fd, buf, len, offset) : fail(EINTR);
    }
    ssize_t half = syscall(SYS_pwrite64, fd, buf, len / 2, offset);
    if (error == EIO || half <= 0) {
        return fail(error == FAIL_SHORT ? EINTR : error);
    }
    pthread_mutex_lock(&mutex);
    all.short_fd = error == ENOSPC ? fd : -1;
    pthread_mutex_unlock(&mutex);
    return half;
}

int fallocate(int fd, int mode, off_t offset, off_t len)
{
    int error = is_watched(fd) ? turn(CALL_FALLOCATE) : 0;
    pthread_mutex_lock(&mutex);
    error = error == 0 && all.full && is_watched(fd) ? ENOSPC : error;
    pthread_mutex_unlock(&mutex);
    return error != 0 ? fail(error) : (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

int ftruncate(int fd, off_t len)
{
    int error = is_watched(fd) ? turn(CALL_FTRUNCATE) : 0;
    return error != 0 ? fail(error) : (int)syscall(SYS_ftruncate, fd, len);
}

int fdatasync(int fd)
{
    int error = is_watched(fd) ? sync_turn(CALL_FDATASYNC, fd) : 0;
    return error != 0 ? fail(error) : 0; /* nothing here is about the device */
}

int fsync(int fd)
{
    int error = is_watched(fd) ? sync_turn(all.directory[fd] ? CALL_SYNC_DIR : CALL_FSYNC, fd) : 0;
    return error != 0 ? fail(error) : 0;
}

int sync_file_range(int fd, off_t offset, off_t len, unsigned flags)
{
    int error = is_watched(fd) ? sync_turn(CALL_SYNC_FILE_RANGE, fd) : 0;
    (void)offset;
    (void)len;
    (void)flags;
    return error != 0 ? fail(error) : 0;
}

int fstat(int fd, struct stat *st)
{
    int error = is_watched(fd) ? turn(CALL_SIZE) : 0;
    return error != 0 ? fail(error) : (int)syscall(SYS_fstat, fd, st);
}

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    int error = 0;
    if (all.dir[0] != '\0') {
        error = is_watched(fd) ? turn(CALL_MMAP) : fd < 0 ? turn(CALL_MEMORY) : 0;
    }
    if (error != 0) {
        errno = error;
        return MAP_FAILED;
    }
    void *map = (void *)syscall(SYS_mmap, at, len, protection, flags, fd, offset);
    if (map != MAP_FAILED && (flags & MAP_FIXED) == 0) {
        pthread_mutex_lock(&mutex);
        all.mappings++;
        pthread_mutex_unlock(&mutex);
    }
    return map;
}

int munmap(void *at, size_t len)
{
    int rc = (int)syscall(SYS_munmap, at, len);
    pthread_mutex_lock(&mutex);
    all.mappings -= rc == 0;
    pthread_mutex_unlock(&mutex);
    return rc;
}

int rename(const char *from, const char *to)
{
    int error = is_below(to) ? turn(CALL_RENAME) : 0;
    return error != 0 ? fail(error) : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
    int error = is_below(path) ? turn(CALL_UNLINK) : 0;
    return error != 0 ? fail(error) : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int mkdir(const char *path, mode_t mode)
{
    int error = is_below(path) ? turn(CALL_MKDIR) : 0;
    return error != 0 ? fail(error) : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

DIR *opendir(const char *path)
{
    int error = is_below(path) ? turn(CALL_LIST) : 0;
    if (error != 0) {
        errno = error;
        return NULL;
    }
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    return fd < 0 ? NULL : fdopendir(fd);
}

int flock(int fd, int operation)
{
    int error = is_watched(fd) ? turn(CALL_LOCK) : 0;
    return error != 0 ? fail(error) : (int)syscall(SYS_flock, fd, operation);
}
