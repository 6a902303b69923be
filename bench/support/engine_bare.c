/*
 * engine_bare.c - no engine: what a commit costs at least, 4 KiB written to a file that has its
 * blocks and fdatasync. Knows nothing but apply.
 */
#include "bench/support/engines.h"
#include "bench/support/measure.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK      4096u
#define FILE_BYTES (64u << 20)

struct bench_db {
    int fd;
    uint64_t at;
    char block[BLOCK];
};

static struct bench_db *bare_open(const struct bench_config *config)
{
    struct bench_db *db = calloc(1, sizeof(*db));
    char path[4096];
    snprintf(path, sizeof(path), "%s/bare", config->dir);
    if (db == NULL || (db->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0) {
        die("bare: open %s", path);
    }
    for (uint64_t at = 0; at < FILE_BYTES; at += BLOCK) {
        if (pwrite(db->fd, db->block, BLOCK, (off_t)at) != BLOCK) {
            die("bare: write");
        }
    }
    if (fsync(db->fd) != 0) {
        die("bare: sync");
    }
    return db;
}

static void bare_close(struct bench_db *db)
{
    close(db->fd);
    free(db);
}

static void bare_apply(struct bench_db *db, struct bench_op *ops, size_t n)
{
    (void)n;
    memcpy(db->block, ops[0].key, sizeof(uint64_t));
    if (pwrite(db->fd, db->block, BLOCK, (off_t)db->at) != BLOCK || fdatasync(db->fd) != 0) {
        die("bare: write");
    }
    db->at = (db->at + BLOCK) % FILE_BYTES;
}

const struct bench_engine bench_bare = {
    .name = "bare", .open = bare_open, .close = bare_close, .apply = bare_apply};
