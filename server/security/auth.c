/*
 * auth.c - see auth.h.
 */
#include "server/security/auth.h"

#include <stdlib.h>
#include <string.h>

bool auth_required(const struct config *config)
{
    char *password = config_text(config, CONFIG_REQUIREPASS);
    bool required = password == NULL || password[0] != '\0';
    free(password);
    return required;
}

/* Looks at every byte of `given`, whatever it finds. */
static bool same(const char *right, struct ps_slice given)
{
    const unsigned char *bytes = given.data;
    size_t len = strlen(right);
    unsigned different = len != given.len;
    for (size_t i = 0; i < given.len; i++) {
        different |= bytes[i] ^ (unsigned char)right[len > 0 ? i % len : 0];
    }
    return different == 0;
}

bool auth_check(const struct config *config, struct ps_slice user, struct ps_slice password)
{
    char *right;
    bool ok;
    if (user.len != strlen("default") || memcmp(user.data, "default", user.len) != 0) {
        return false;
    }
    right = config_text(config, CONFIG_REQUIREPASS);
    if (right == NULL) {
        return false;
    }
    ok = right[0] == '\0' || same(right, password);
    free(right);
    return ok;
}
