/*
 * auth.h - who may use the server: for now the user "default" with an optional password.
 *
 * Threads: any.
 */
#ifndef PANDO_SERVER_SECURITY_AUTH_H
#define PANDO_SERVER_SECURITY_AUTH_H

#include "server/config/config.h"
#include "storage/pandostore.h"

#include <stdbool.h>

/* Whether a password is asked for. */
bool auth_required(const struct config *config);

/* Whether user and password are right. Without a password set, any is right for "default". Takes
 * the same time wherever a wrong password differs. */
bool auth_check(const struct config *config, struct ps_slice user, struct ps_slice password);

#endif
