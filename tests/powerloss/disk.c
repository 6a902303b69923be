/*
 * disk.c - see disk.h: moving along a journal. choice.c makes images.
 */
#include "tests/powerloss/disk_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static void need_room(struct disk_file *file, uint64_t end)
{
    if (end <= file->room)
        return;
    size_t room = ((size_t)end + 65535) & ~(size_t)65535;
    file->device = need(realloc(file->device, room));
    file->seen = need(realloc(file->seen, room));
    memset(file->device + file->room, 0, room - file->room);
    memset(file->seen + file->room, 0, room - file->room);
    file->room = room;
}

static void add_piece(struct disk_file *file, const struct piece *piece)
{
    if (file->n == file->pieces_room) {
        file->pieces_room = file->pieces_room * 2 + 16;
        file->pieces = need(realloc(file->pieces, file->pieces_room * sizeof *file->pieces));
    }
    file->pieces[file->n++] = *piece;
}

static void note_size(struct disk_file *file)
{
    if (file->nsizes == DISK_SIZES)
        file->sizes[DISK_SIZES - 1] = file->seen_len;
    else
        file->sizes[file->nsizes++] = file->seen_len;
}

static void reach(struct disk_file *file, uint64_t end)
{
    need_room(file, end);
    if (end <= file->seen_len)
        return;
    file->seen_len = end;
    note_size(file);
}

/* The file ends here. What was behind is gone, if the cut is on the device; if the file has grown
 * again by then, zeros are there in its place. */
static void cut_off(struct disk_file *file, uint64_t end)
{
    static const unsigned char zeros[DISK_PAGE];
    if (end >= file->seen_len)
        return;
    for (uint64_t at = end; at < file->seen_len;) {
        size_t room = DISK_PAGE - at % DISK_PAGE;
        size_t len = file->seen_len - at < room ? (size_t)(file->seen_len - at) : room;
        add_piece(file, &(struct piece){at, len, zeros, false});
        at += len;
    }
    memset(file->seen + end, 0, file->room - end);
    file->seen_len = end;
    note_size(file);
}

static struct disk_file *file_of(struct disk *disk, const struct event *event)
{
    if (event->file >= disk->nfiles) {
        disk->files = need(realloc(disk->files, (event->file + 1) * sizeof *disk->files));
        while (disk->nfiles <= event->file)
            disk->files[disk->nfiles++] = (struct disk_file){0};
    }
    return &disk->files[event->file];
}

static enum disk_class class_of(const char *name)
{
    return strncmp(name, "log-", 4) == 0 ? CLASS_LOG : CLASS_DATA;
}

/* ---- syncs ------------------------------------------------------------------------------------
 */

static void make_sure(struct disk_file *file, uint64_t from, uint64_t end)
{
    if (end > file->room)
        end = file->room;
    memcpy(file->device + from, file->seen + from, (size_t)(end - from));
}

static void sync_file(struct disk_file *file)
{
    unsigned char *fresh = need(calloc(file->room / DISK_PAGE + 1, 1));
    size_t kept = 0;
    for (size_t i = 0; i < file->n; i++) {
        const struct piece *p = &file->pieces[i];
        for (uint64_t page = p->offset / DISK_PAGE;
             !p->lost && page * DISK_PAGE < p->offset + p->len; page++) {
            if (!fresh[page])
                make_sure(file, page * DISK_PAGE, (page + 1) * DISK_PAGE);
            fresh[page] = 1;
        }
    }
    for (size_t i = 0; i < file->n; i++)
        if (file->pieces[i].lost && !fresh[file->pieces[i].offset / DISK_PAGE])
            file->pieces[kept++] = file->pieces[i];
    file->n = kept;
    file->device_len = file->seen_len;
    file->nsizes = 0;
    free(fresh);
}

/* The pages count as clean from now on; each is a piece of its own, since each may be written again
 * without the others. */
static void lose_sync(struct disk_file *file)
{
    struct piece *pieces = file->pieces;
    size_t n = file->n;
    file->pieces = NULL;
    file->n = file->pieces_room = 0;
    for (size_t i = 0; i < n; i++) {
        struct piece left = pieces[i];
        while (left.len) {
            struct piece p = left;
            size_t room = DISK_PAGE - p.offset % DISK_PAGE;
            p.len = p.len < room ? p.len : room;
            p.lost = true;
            add_piece(file, &p);
            left.offset += p.len;
            left.bytes += p.len;
            left.len -= p.len;
        }
    }
    free(pieces);
}

/* ---- names ------------------------------------------------------------------------------------
 */

static void take_name(struct disk_names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->at[i].name, name) == 0) {
            names->at[i] = names->at[--names->n];
            return;
        }
}

static void put_name(struct disk_names *names, const char *name, uint32_t file)
{
    take_name(names, name);
    if (names->n == FILES_MOST)
        abort();
    struct disk_name *at = &names->at[names->n++];
    snprintf(at->name, sizeof at->name, "%s", name);
    at->file = file;
}

static bool has_name(const struct disk_names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->at[i].name, name) == 0)
            return true;
    return false;
}

void disk_names_do(struct disk_names *names, const struct event *op)
{
    if (op->kind == EV_ADD) {
        put_name(names, op->name, op->file);
    } else if (op->kind == EV_REMOVE) {
        take_name(names, op->name);
    } else if (has_name(names, op->name)) { /* else what made it was lost, and so is this */
        take_name(names, op->name);
        put_name(names, op->to, op->file);
    }
}

static void add_op(struct disk *disk, const struct event *op)
{
    if (disk->nops == disk->ops_room) {
        disk->ops_room = disk->ops_room * 2 + 16;
        disk->ops = need(realloc(disk->ops, disk->ops_room * sizeof(const struct event *)));
    }
    disk->ops[disk->nops++] = op;
}

static void sync_names(struct disk *disk)
{
    for (size_t i = 0; i < disk->nops; i++)
        disk_names_do(&disk->names, disk->ops[i]);
    disk->nops = 0;
}

/* ---- along the journal ------------------------------------------------------------------------
 */

static void do_word(struct line *line, const struct event *event)
{
    switch (event->kind) {
    case EV_COMMIT:
        line_add(line, event->state);
        break;
    case EV_DROPPED:
        line_cut(line, event->offset);
        break;
    case EV_SERVED:
        line_cut(line, event->offset);
        line->served = true;
        break;
    default:
        break;
    }
    if ((event->kind == EV_SERVED || event->kind == EV_PROMISE) && event->offset > line->promised)
        line->promised = event->offset;
}

static void do_event(struct disk *disk, const struct event *event)
{
    struct disk_file *file;
    switch (event->kind) {
    case EV_WRITE:
        file = file_of(disk, event);
        reach(file, event->offset + event->len);
        memcpy(file->seen + event->offset, event->bytes, event->len);
        add_piece(file, &(struct piece){event->offset, event->len, event->bytes, false});
        break;
    case EV_SIZE:
        reach(file_of(disk, event), event->offset);
        break;
    case EV_CUT:
        cut_off(file_of(disk, event), event->offset);
        break;
    case EV_SYNC:
        sync_file(file_of(disk, event));
        break;
    case EV_SYNC_FAILED:
        lose_sync(file_of(disk, event));
        break;
    case EV_ADD:
        file_of(disk, event)->class = class_of(event->name);
        add_op(disk, event);
        break;
    case EV_REMOVE:
    case EV_RENAME:
        add_op(disk, event);
        break;
    case EV_SYNC_DIR:
        sync_names(disk);
        break;
    case EV_MAKE_DIR:
        disk->dir_seen = true;
        break;
    case EV_SYNC_PARENT:
        disk->dir_sure = disk->dir_seen;
        break;
    default:
        do_word(&disk->line, event);
    }
}

void disk_init(struct disk *disk, const struct journal *journal, const struct line *line)
{
    *disk = (struct disk){.journal = journal};
    line_copy(&disk->line, line);
    disk->dir_seen = disk->dir_sure = journal->base.exists;
    for (size_t i = 0; i < journal->base.n; i++) {
        const struct named_file *from = &journal->base.at[i];
        const struct event event = {.file = (uint32_t)i};
        struct disk_file *file = file_of(disk, &event);
        file->class = class_of(from->name);
        need_room(file, from->len);
        memcpy(file->device, from->bytes, from->len);
        memcpy(file->seen, from->bytes, from->len);
        file->device_len = file->seen_len = from->len;
        put_name(&disk->names, from->name, (uint32_t)i);
    }
}

void disk_free(struct disk *disk)
{
    for (size_t i = 0; i < disk->nfiles; i++) {
        free(disk->files[i].device);
        free(disk->files[i].seen);
        free(disk->files[i].pieces);
    }
    free(disk->files);
    free(disk->ops);
    line_free(&disk->line);
    *disk = (struct disk){0};
}

void disk_forward(struct disk *disk, size_t at)
{
    for (; disk->at < at && disk->at < disk->journal->n; disk->at++)
        do_event(disk, &disk->journal->at[disk->at]);
}
