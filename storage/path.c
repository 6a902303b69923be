/*
 * path.c - see path.h.
 */
#include "storage/path.h"

#include "storage/store.h"

char *path_join(const char *dir, const char *name)
{
    size_t room = strlen(dir) + strlen(name) + 2;
    char *path = malloc(room);
    if (path != NULL) {
        snprintf(path, room, "%s/%s", dir, name);
    }
    return path;
}

char *path_parent(const char *dir)
{
    char *parent = strdup(dir);
    if (parent == NULL) {
        return NULL;
    }
    size_t len = strlen(parent);
    while (len > 1 && parent[len - 1] == '/') {
        len--;
    }
    while (len > 0 && parent[len - 1] != '/') {
        len--;
    }
    while (len > 1 && parent[len - 1] == '/') {
        len--;
    }
    parent[len] = 0;
    if (len == 0) {
        free(parent);
        return strdup(".");
    }
    return parent;
}

int fault_at(struct ps_fault *fault, int negative_errno, const char *file, const char *doing)
{
    int rc = errno_code(negative_errno);
    fault_set(fault, rc, negative_errno, file, 0, "%s: %s", doing, strerror(-negative_errno));
    return rc;
}
