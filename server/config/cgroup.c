/*
 * cgroup.c - see cgroup.h.
 */
#include "server/config/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder of this process's group. `base` bytes of it are where the hierarchy is mounted. */
struct group {
    char path[4096];
    size_t base;
    const char *limit; /* name of the file with the limit */
};

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = strstr(list, word); at != NULL; at = strstr(at + 1, word)) {
        if ((at == list || at[-1] == ',') && (at[len] == ',' || at[len] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Of a line "number:controllers:path" of /proc/self/cgroup. false: it is not about memory. */
static bool take_line(const char *root, char *line, struct group *group)
{
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    bool first;
    if (path == NULL) {
        return false;
    }
    *controllers++ = '\0';
    *path++ = '\0';
    first = has_word(controllers, "memory");
    if (!first && strcmp(line, "0") != 0) {
        return false;
    }
    group->limit = first ? "memory.limit_in_bytes" : "memory.max";
    group->base = (size_t)snprintf(group->path, sizeof(group->path), "%s/sys/fs/cgroup%s", root,
                                   first ? "/memory" : "");
    path[strcspn(path, "\n")] = '\0';
    if (strcmp(path, "/") != 0) {
        snprintf(group->path + group->base, sizeof(group->path) - group->base, "%s", path);
    }
    return true;
}

/* Where version 1 has the memory controller, version 2 has not. */
static bool find_group(const char *root, struct group *group)
{
    char name[4096], line[4096];
    bool found = false, first = false;
    FILE *file;
    snprintf(name, sizeof(name), "%s/proc/self/cgroup", root);
    file = fopen(name, "re");
    while (file != NULL && !first && fgets(line, sizeof(line), file) != NULL) {
        if (take_line(root, line, group)) {
            found = true;
            first = strcmp(group->limit, "memory.max") != 0;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

/* The group above; false: this was the root. */
static bool go_up(struct group *group)
{
    char *slash = strrchr(group->path, '/');
    if (strlen(group->path) <= group->base || slash == NULL) {
        return false;
    }
    *slash = '\0';
    return true;
}

static FILE *open_in(const struct group *group, const char *file)
{
    char name[4096 + 64];
    snprintf(name, sizeof(name), "%s/%s", group->path, file);
    return fopen(name, "re");
}

int64_t cgroup_memory_limit(const char *root)
{
    struct group group;
    int64_t limit = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    bool more = find_group(root, &group);
    for (; more; more = go_up(&group)) {
        FILE *file = open_in(&group, group.limit);
        long long value;
        if (file != NULL && fscanf(file, "%lld", &value) == 1 && value > 0 && value < limit) {
            limit = value;
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    return limit;
}

bool cgroup_refaults(const char *root, uint64_t *pages)
{
    struct group group;
    char line[256];
    bool found = false, more = find_group(root, &group);
    FILE *file = NULL;
    for (; more && file == NULL; more = go_up(&group)) {
        file = open_in(&group, "memory.stat");
    }
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        unsigned long long value;
        found = sscanf(line, "workingset_refault_file %llu", &value) == 1 ||
                sscanf(line, "workingset_refault %llu", &value) == 1;
        *pages = found ? value : 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}
