/*
 * copy_dir.c - a copy in the place where it belongs: as a directory, or instead of the old file.
 *
 *  D1 What is written has another name until all of it is on the device; then it is renamed, and
 *     the directory above is synced.
 *  D2 Who copies to a place holds the lock in the directory that is being made.
 *
 * Threads: any. A crash leaves DIR.copying, or pando.db.compact, which the next attempt removes.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "storage/copy.h"
#include "storage/path.h"

#define NEW_FILE "pando.db.compact"

/* What the store itself had to say of it, if it had. */
static int take_fault(struct ps_store *store, int rc, struct ps_fault *fault)
{
    struct ps_fault last;
    ps_last_fault(store, &last);
    if (rc != 0 && fault->code == 0) {
        *fault = last;
        fault->code = rc;
    }
    return rc;
}

/* The new file at a path: written, synced, closed; on failure it is gone. */
static int write_file(struct ps_view *view, const struct meta *like, const struct ps_vfs *vfs,
                      const char *path, const struct ps_copy_watch *watch,
                      struct ps_copy_report *report, struct ps_fault *fault)
{
    (void)vfs->unlink(vfs->ctx, path);
    int fd = vfs->open(vfs->ctx, path, O_RDWR | O_CREAT | O_EXCL, 0666);
    if (fd < 0) {
        return fault_at(fault, fd, path, "making the copy");
    }
    int rc = copy_image(view, like, vfs, fd, watch, report);
    (void)take_fault(view->store, rc, fault);
    int err = vfs->close(vfs->ctx, fd);
    if (rc == 0 && err != 0) {
        rc = fault_at(fault, err, path, "closing the copy");
    }
    if (rc != 0) {
        (void)vfs->unlink(vfs->ctx, path);
    }
    return rc;
}

/* ---- a directory ------------------------------------------------------------------------------
 */

static void count_name(void *arg, const char *name)
{
    (void)name;
    ++*(unsigned *)arg;
}

/* There is nothing, or nothing in it. */
static int refuse_what_is_there(const struct ps_vfs *vfs, const char *dir, struct ps_fault *fault)
{
    unsigned names = 0;
    int err = vfs->list(vfs->ctx, dir, count_name, &names);
    if (err != 0 && err != -ENOENT) {
        return fault_at(fault, err, dir, "the place for the copy");
    }
    if (names > 0) {
        fault_set(fault, PS_EXISTS, 0, dir, 0, "there is something in this directory already");
        return PS_EXISTS;
    }
    return 0;
}

/* A directory to write in, and its lock (D2). */
static int make_place(const struct ps_vfs *vfs, const char *made, int *lock_fd,
                      struct ps_fault *fault)
{
    int err = vfs->mkdir(vfs->ctx, made, 0777);
    if (err != 0 && err != -EEXIST) {
        return fault_at(fault, err, made, "making the directory");
    }
    char *lock = path_join(made, "LOCK");
    if (lock == NULL) {
        return PS_NOMEM;
    }
    *lock_fd = vfs->open(vfs->ctx, lock, O_RDWR | O_CREAT, 0666);
    err = *lock_fd < 0 ? *lock_fd : vfs->lock(vfs->ctx, *lock_fd);
    int rc = 0;
    if (err == -EWOULDBLOCK) {
        fault_set(fault, PS_LOCKED, 0, lock, 0, "somebody else is copying here");
        rc = PS_LOCKED;
    } else if (err != 0) {
        rc = fault_at(fault, err, lock, "locking");
    }
    free(lock);
    return rc;
}

/* The copy gets its name. */
static int put_in_place(const struct ps_vfs *vfs, const char *made, const char *dir,
                        struct ps_fault *fault)
{
    char *parent = path_parent(dir);
    int err = parent == NULL ? -ENOMEM : vfs->sync_dir(vfs->ctx, made);
    err = err == 0 ? vfs->rename(vfs->ctx, made, dir) : err;
    if (err == 0) {
        err = vfs->sync_dir(vfs->ctx, parent);
    }
    free(parent);
    return err == 0 ? 0 : fault_at(fault, err, dir, "putting the copy in its place");
}

static int copy_to(struct ps_snapshot *snap, const char *dir, const char *made,
                   const struct ps_copy_watch *watch, struct ps_copy_report *report,
                   struct ps_fault *fault)
{
    const struct ps_vfs *vfs = snap->view.store->vfs;
    struct meta like = {0};
    int lock_fd = -1;
    if (getrandom(like.id, sizeof like.id, 0) != sizeof like.id) {
        return fault_at(fault, -EIO, dir, "random numbers");
    }
    int rc = refuse_what_is_there(vfs, dir, fault);
    rc = rc == 0 ? make_place(vfs, made, &lock_fd, fault) : rc;
    if (rc == 0) {
        char *file = path_join(made, "pando.db");
        rc = file == NULL ? PS_NOMEM
                          : write_file(&snap->view, &like, vfs, file, watch, report, fault);
        rc = rc == 0 ? put_in_place(vfs, made, dir, fault) : rc;
        char *lock = rc == 0 ? NULL : path_join(made, "LOCK");
        if (lock != NULL) {
            (void)vfs->unlink(vfs->ctx, file);
            (void)vfs->unlink(vfs->ctx, lock);
            (void)rmdir(made);
        }
        free(lock);
        free(file);
    }
    if (lock_fd >= 0) {
        (void)vfs->close(vfs->ctx, lock_fd);
    }
    return rc;
}

int ps_copy(struct ps_snapshot *snap, const char *dir, const struct ps_copy_watch *watch,
            struct ps_copy_report *report, struct ps_fault *fault)
{
    struct ps_fault unused = {0};
    fault = fault == NULL ? &unused : fault;
    *fault = (struct ps_fault){0};
    *report = (struct ps_copy_report){0};
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/') {
        len--;
    }
    char *plain = strndup(dir, len);
    char *made = NULL;
    if (plain != NULL && asprintf(&made, "%s.copying", plain) < 0) {
        made = NULL;
    }
    int rc = made == NULL ? PS_NOMEM : copy_to(snap, plain, made, watch, report, fault);
    free(made);
    free(plain);
    if (rc != 0 && fault->code == 0) {
        fault_set(fault, rc, 0, dir, 0, "%s", ps_strerror(rc));
    }
    return rc;
}

/* ---- in place of the old file -----------------------------------------------------------------
 */

/* The log is applied, and the checkpoint that is copied is all there is. */
static int apply_log(const char *dir, const struct ps_options *given, struct ps_fault *fault)
{
    struct ps_options options = {.durability = PS_ALWAYS,
                                 .manual_checkpoint = true,
                                 .vfs = given->vfs,
                                 .map_size = given->map_size};
    struct ps_store *store;
    int rc = ps_open(dir, &options, &store, NULL, fault);
    if (rc != 0) {
        return rc;
    }
    rc = ps_checkpoint(store);
    (void)take_fault(store, rc, fault);
    int closed = ps_close(store, false);
    if (rc == 0 && closed != 0) {
        fault_set(fault, closed, 0, dir, 0, "closing: %s", ps_strerror(closed));
    }
    return rc != 0 ? rc : closed;
}

/* What stands in the log after the old meta's place does so after the new one's. */
static int swap_file(struct ps_store *store, const char *dir, const struct ps_copy_watch *watch,
                     struct ps_copy_report *report, struct ps_fault *fault)
{
    const struct ps_vfs *vfs = store->vfs;
    struct ps_snapshot *snap;
    int rc = ps_snapshot_new(store, &snap);
    if (rc != 0) {
        return rc;
    }
    ps_snapshot_renew(snap);
    char *made = path_join(dir, NEW_FILE);
    rc = made == NULL ? PS_NOMEM
                      : write_file(&snap->view, &store->meta, vfs, made, watch, report, fault);
    if (rc == 0) {
        int err = vfs->rename(vfs->ctx, made, store->file_path);
        err = err == 0 ? vfs->sync_dir(vfs->ctx, dir) : err;
        rc = err == 0 ? 0 : fault_at(fault, err, store->file_path, "replacing the file");
        if (rc != 0) {
            (void)vfs->unlink(vfs->ctx, made); /* it may be in its place already */
        }
    }
    free(made);
    ps_snapshot_free(snap);
    return rc;
}

int ps_compact(const char *dir, const struct ps_options *given, const struct ps_copy_watch *watch,
               struct ps_copy_report *report, struct ps_fault *fault)
{
    static const struct ps_options usual;
    struct ps_fault unused = {0};
    given = given == NULL ? &usual : given;
    fault = fault == NULL ? &unused : fault;
    *fault = (struct ps_fault){0};
    *report = (struct ps_copy_report){0};
    struct ps_options look = {
        .read_only_check = true, .vfs = given->vfs, .map_size = given->map_size};
    struct ps_store *store;
    int rc = ps_open(dir, &look, &store, NULL, fault); /* opening would make what is not there */
    if (rc != 0) {
        return rc;
    }
    (void)ps_close(store, false);
    rc = apply_log(dir, given, fault);
    rc = rc == 0 ? ps_open(dir, &look, &store, NULL, fault) : rc;
    if (rc != 0) {
        return rc;
    }
    rc = swap_file(store, dir, watch, report, fault);
    (void)ps_close(store, false);
    if (rc != 0 && fault->code == 0) {
        fault_set(fault, rc, 0, dir, 0, "%s", ps_strerror(rc));
    }
    return rc;
}
