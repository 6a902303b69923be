/*
 * replace.c - a new text in a file's place.
 *
 * The usual way: a file beside it is written and synced, takes the old one's mode and owner, is
 * renamed over it, and the directory is synced. A crash leaves the old or the new file, whole (and
 * perhaps the file beside it).
 *
 * Where that cannot be - a file that is itself a mount point cannot be renamed over, a directory
 * may not be writable - the file is overwritten: space is reserved, one write holds the new text,
 * padded with line feeds to the length of the old, then the file is cut and synced. Killing the
 * process leaves the old or the new text; a power failure in that moment may leave a mixture when
 * the text is longer than a page, and then, if the directory is writable, the file beside it has
 * the new one.
 *
 * A symbolic link stays; what it points to is replaced. Threads: any, but one at a time for a path.
 */
#include "server/config/config_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_whole(int fd, const char *text, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = pwrite(fd, text + done, len - done, (off_t)done);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = slash == NULL   ? strdup(".")
                 : slash == path ? strdup("/")
                                 : strndup(path, (size_t)(slash - path));
    int rc, fd = name == NULL ? -1 : open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(name);
    if (fd < 0) {
        return -errno;
    }
    rc = fsync(fd) == 0 ? 0 : -errno;
    close(fd);
    return rc;
}

/* A synced file with the text and the old one's owner and mode. */
static int write_beside(const char *beside, const char *path, const char *text, size_t len)
{
    struct stat old;
    int rc, fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -errno;
    }
    rc = write_whole(fd, text, len);
    if (rc == 0 && stat(path, &old) == 0) {
        if (fchown(fd, old.st_uid, old.st_gid) != 0 || fchmod(fd, old.st_mode & 07777) != 0) {
            rc = -errno;
        }
    } else if (rc == 0 && fchmod(fd, 0644) != 0) {
        rc = -errno;
    }
    if (rc == 0 && fsync(fd) != 0) {
        rc = -errno;
    }
    close(fd);
    if (rc != 0) {
        unlink(beside);
    }
    return rc;
}

static int overwrite(const char *path, const char *text, size_t len)
{
    struct stat old;
    size_t padded = len;
    char *whole;
    int rc = 0, fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    if (fstat(fd, &old) != 0) {
        rc = -errno;
    } else if ((size_t)old.st_size > len) {
        padded = (size_t)old.st_size;
    } else if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)len) != 0 && errno == ENOSPC) {
        rc = -ENOSPC;
    }
    whole = rc == 0 ? malloc(padded + 1) : NULL;
    if (whole != NULL) {
        memcpy(whole, text, len);
        memset(whole + len, '\n', padded - len);
        rc = write_whole(fd, whole, padded);
    } else if (rc == 0) {
        rc = -ENOMEM;
    }
    if (rc == 0 && (ftruncate(fd, (off_t)len) != 0 || fsync(fd) != 0)) {
        rc = -errno;
    }
    free(whole);
    close(fd);
    return rc;
}

/* Whether the usual way may fail like this and the other still work. */
static bool may_overwrite(int rc)
{
    return rc == -EBUSY || rc == -EXDEV || rc == -EACCES || rc == -EPERM || rc == -EROFS;
}

static int replace(const char *path, const char *beside, const char *text, size_t len)
{
    int rc = write_beside(beside, path, text, len);
    if (rc == 0 && rename(beside, path) == 0) {
        return sync_directory(path);
    }
    if (rc == 0) {
        rc = -errno;
    }
    if (may_overwrite(rc)) {
        int again = overwrite(path, text, len);
        rc = again == -ENOENT ? rc : again;
    }
    unlink(beside);
    return rc;
}

int config_replace_file(const char *path, const char *text, size_t len)
{
    char *target = realpath(path, NULL), *beside = NULL;
    int rc = -ENOMEM;
    if (asprintf(&beside, "%s.%d.tmp", target != NULL ? target : path, (int)getpid()) >= 0) {
        unlink(beside); /* of a process that had our number and died */
        rc = replace(target != NULL ? target : path, beside, text, len);
        free(beside);
    }
    free(target);
    return rc;
}
