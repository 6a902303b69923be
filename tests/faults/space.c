/* space.c - see space.h. */
#include "tests/faults/space.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "storage/pandostore.h"
#include "tests/faults/life.h"

#define LONGEST    9000u
#define FILLER_MIB 20u
#define MOST       100000u /* puts: more than fit */
#define NOTICED_S  20      /* that space is back */

struct disk {
    char dir[320], filler[320];
    struct ps_options options;
    struct ps_store *store;
    ps_tree tree;
    unsigned puts; /* keys [deleted, puts) are there */
    unsigned deleted;
    size_t value; /* bytes in each */
};

static struct ps_slice key_of(char buf[16], unsigned i)
{
    return (struct ps_slice){buf, (size_t)snprintf(buf, 16, "%08u", i)};
}

static int put(struct disk *d, unsigned i)
{
    static char value[LONGEST];
    char key[16];
    struct ps_txn *txn;
    memset(value, (int)('a' + i % 26), sizeof value);
    int rc = ps_begin(d->store, &txn);
    if (rc != 0) {
        return rc;
    }
    rc = ps_tree_create(txn, (struct ps_slice){"t", 1}, &d->tree);
    rc = rc == 0 ? ps_put(txn, d->tree, key_of(key, i), (struct ps_slice){value, d->value}) : rc;
    if (rc != 0) {
        ps_abort(txn);
        return rc;
    }
    return ps_commit(txn, PS_EVERYSEC, NULL);
}

static int delete_one(struct disk *d, unsigned i)
{
    char key[16];
    struct ps_txn *txn;
    int rc = ps_begin(d->store, &txn);
    if (rc != 0) {
        return rc;
    }
    rc = ps_delete(txn, d->tree, key_of(key, i));
    if (rc != 0) {
        ps_abort(txn);
        return rc;
    }
    return ps_commit(txn, PS_EVERYSEC, NULL);
}

/* Exactly the keys that were acknowledged, with their values. */
static void all_there(struct disk *d)
{
    struct ps_snapshot *snap;
    struct ps_slice value;
    char key[16];
    uint64_t count;
    if (ps_snapshot_new(d->store, &snap) != 0) {
        finding("no snapshot");
    }
    ps_snapshot_renew(snap);
    for (unsigned i = d->deleted; i < d->puts; i++) {
        int rc = ps_get(ps_snapshot_view(snap), d->tree, key_of(key, i), &value);
        if (rc != 0 || value.len != d->value || *(const char *)value.data != (char)('a' + i % 26)) {
            finding("key %u: %s", i, ps_strerror(rc));
        }
    }
    if (ps_count(ps_snapshot_view(snap), d->tree, &count) != 0 || count != d->puts - d->deleted) {
        finding("%llu keys, not %u", (unsigned long long)count, d->puts - d->deleted);
    }
    ps_snapshot_free(snap);
}

static void write_filler(struct disk *d)
{
    static char bytes[1 << 20];
    int fd = open(d->filler, O_CREAT | O_WRONLY, 0600);
    for (unsigned i = 0; fd >= 0 && i < FILLER_MIB; i++) {
        if (pwrite(fd, bytes, sizeof bytes, (off_t)i << 20) != (ssize_t)sizeof bytes) {
            finding("no room for the stranger's file");
        }
    }
    close(fd);
}

static void open_disk(struct disk *d)
{
    struct ps_fault fault;
    int rc = ps_open(d->dir, &d->options, &d->store, NULL, &fault);
    if (rc != 0) {
        finding("opening on a small disk: %s: %s", ps_strerror(rc), fault.what);
    }
}

static void fill_up(struct disk *d)
{
    int rc = 0;
    while (rc == 0 && d->puts < MOST) {
        rc = put(d, d->puts);
        d->puts += rc == 0;
    }
    if (rc != PS_NOSPACE) {
        finding("a put on a full disk: %s", ps_strerror(rc));
    }
}

static void resumes(struct disk *d)
{
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (int rc = PS_NOSPACE; rc != 0;) {
        rc = put(d, d->puts);
        d->puts += rc == 0;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (rc != 0 && (rc != PS_NOSPACE || now.tv_sec - began.tv_sec > NOTICED_S)) {
            finding("a put after space returned: %s", ps_strerror(rc));
        }
    }
}

static void delete_some(struct disk *d, unsigned count)
{
    for (unsigned i = 0; i < count; i++, d->deleted++) {
        int rc = delete_one(d, d->deleted);
        if (rc != 0) {
            finding("a delete on a full disk: %s", ps_strerror(rc));
        }
    }
}

/* Opened again when it is as full as it can be. */
static void reopen(struct disk *d)
{
    if (ps_close(d->store, false) != 0) {
        finding("closing on a full disk");
    }
    open_disk(d);
    all_there(d);
}

static void use(struct disk *d)
{
    bool in_runs = d->value == LONGEST;
    open_disk(d);
    write_filler(d);
    fill_up(d);
    all_there(d);
    delete_some(d, d->puts / 8);
    all_there(d);
    if (!in_runs) { /* those need pages in a row, which what others had may not give them */
        resumes(d);
        fill_up(d);
        all_there(d);
    }
    reopen(d);
    unlink(d->filler);
    resumes(d);
    fill_up(d); /* with what the stranger had */
    all_there(d);
    reopen(d);
    if (!in_runs) {
        delete_some(d, 200);
        resumes(d);
        if (ps_check(d->store, NULL, NULL) != 0) {
            finding("the structure is not sound");
        }
        all_there(d);
    }
    (void)ps_close(d->store, !in_runs);
}

static void fill_and_free(const char *at, size_t value)
{
    struct disk d = {.value = value,
                     .options = {.dirty_memory = 4u << 20,
                                 .map_size = UINT64_C(1) << 30,
                                 .log_segment_size = 1u << 20,
                                 .durability = PS_EVERYSEC}};
    snprintf(d.dir, sizeof d.dir, "%s/store", at);
    snprintf(d.filler, sizeof d.filler, "%s/stranger", at);
    life_describe("a tmpfs of 64 MiB, values of %zu bytes", value);
    alarm(300);
    use(&d);
    alarm(0);
    printf("a tmpfs of 64 MiB: %u puts of %zu bytes acknowledged, %u deleted\n", d.puts, value,
           d.deleted);
}

unsigned space_on_a_real_disk(const char *dir)
{
    static const size_t values[] = {900, LONGEST};
    char at[300];
    snprintf(at, sizeof at, "%s/disk", dir);
    mkdir(at, 0700);
    /* In a name space of its own, so that it goes with the process. */
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        printf("NOTE the case of a real full disk is skipped: a name space for mounts: %s\n",
               strerror(errno));
        return 1;
    }
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
        if (mount("none", at, "tmpfs", 0, "size=64m") != 0) {
            printf("NOTE the case of a real full disk is skipped: mounting a tmpfs: %s\n",
                   strerror(errno));
            return 1;
        }
        fill_and_free(at, values[i]);
        if (umount(at) != 0) {
            finding("unmounting: %s", strerror(errno));
        }
    }
    return 0;
}
