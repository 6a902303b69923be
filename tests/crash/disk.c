/*
 * See disk.h. The cut is the file system's own: EXT4_IOC_SHUTDOWN without flushing its journal.
 */
#include "tests/crash/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* Numbers of the kernel's interface (fs/ext4/ext4.h), in no header for programs. */
#define EXT4_IOC_SHUTDOWN           _IOR('X', 125, uint32_t)
#define EXT4_GOING_FLAGS_NOLOGFLUSH 2u

static int run(const char *command)
{
    int status = system(command);
    if (status != 0)
        printf("wait status 0x%x: %s\n", (unsigned)status, command);
    return status == 0 ? 0 : -1;
}

int disk_prepare(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return -1;
    return 0;
}

int disk_make(struct disk *disk, const char *path)
{
    char command[1200];
    *disk = (struct disk){0};
    snprintf(disk->mount, sizeof disk->mount, "%s", path);
    snprintf(disk->image, sizeof disk->image, "%s.img", path);
    int fd = open(disk->image, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)DISK_BYTES) != 0 || mkdir(path, 0755) != 0) {
        printf("%s: %s\n", disk->image, strerror(errno));
        return -1;
    }
    close(fd);
    snprintf(command, sizeof command, "mkfs.ext4 -q -F -E lazy_itable_init=1 '%s'", disk->image);
    return run(command);
}

int disk_mount(struct disk *disk)
{
    char command[1200];
    snprintf(command, sizeof command, "mount -t ext4 -o loop '%s' '%s'", disk->image, disk->mount);
    if (run(command) != 0)
        return -1;
    disk->mounted = 1;
    return 0;
}

int disk_unmount(struct disk *disk)
{
    if (!disk->mounted)
        return 0;
    if (umount2(disk->mount, 0) != 0) {
        printf("umount %s: %s\n", disk->mount, strerror(errno));
        return -1;
    }
    disk->mounted = 0;
    return 0;
}

int disk_cut(struct disk *disk)
{
    uint32_t flags = EXT4_GOING_FLAGS_NOLOGFLUSH;
    int fd = open(disk->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = fd < 0 ? -1 : ioctl(fd, EXT4_IOC_SHUTDOWN, &flags);
    if (result != 0)
        printf("no shutdown of %s: %s\n", disk->mount, strerror(errno));
    if (fd >= 0)
        close(fd);
    return result;
}

void disk_remove(struct disk *disk)
{
    if (disk->mounted && umount2(disk->mount, MNT_DETACH) == 0)
        disk->mounted = 0;
    if (disk->image[0] == 0 || disk->mounted)
        return;
    unlink(disk->image);
    rmdir(disk->mount);
    disk->image[0] = 0;
}
