/*
 * cmd_data.h - handlers of the string and generic (key) groups, and their costs, for the table.
 */
#ifndef PANDO_SERVER_COMMANDS_CMD_DATA_H
#define PANDO_SERVER_COMMANDS_CMD_DATA_H

#include "server/commands/command.h"

/* cmd_string.c: whole values */
void cmd_get(struct command_ctx *ctx);
void cmd_getdel(struct command_ctx *ctx);
void cmd_getex(struct command_ctx *ctx);
void cmd_getset(struct command_ctx *ctx);
void cmd_psetex(struct command_ctx *ctx);
void cmd_set(struct command_ctx *ctx);
void cmd_setex(struct command_ctx *ctx);
void cmd_setnx(struct command_ctx *ctx);

/* cmd_string_multi.c: several keys */
void cmd_mget(struct command_ctx *ctx);
void cmd_mset(struct command_ctx *ctx);
void cmd_msetnx(struct command_ctx *ctx);

/* cmd_string_part.c: parts of values, and numbers */
void cmd_append(struct command_ctx *ctx);
void cmd_decr(struct command_ctx *ctx);
void cmd_decrby(struct command_ctx *ctx);
void cmd_getrange(struct command_ctx *ctx);
void cmd_incr(struct command_ctx *ctx);
void cmd_incrby(struct command_ctx *ctx);
void cmd_incrbyfloat(struct command_ctx *ctx);
void cmd_setrange(struct command_ctx *ctx);
void cmd_strlen(struct command_ctx *ctx);

/* cmd_keys.c */
void cmd_dbsize(struct command_ctx *ctx);
void cmd_del(struct command_ctx *ctx);
void cmd_exists(struct command_ctx *ctx);
void cmd_flushall(struct command_ctx *ctx);
void cmd_flushdb(struct command_ctx *ctx);
void cmd_object_encoding(struct command_ctx *ctx);
void cmd_object_help(struct command_ctx *ctx);
void cmd_randomkey(struct command_ctx *ctx);
void cmd_rename(struct command_ctx *ctx);
void cmd_renamenx(struct command_ctx *ctx);
void cmd_type(struct command_ctx *ctx);

/* cmd_scan.c */
void cmd_keys(struct command_ctx *ctx);
void cmd_scan(struct command_ctx *ctx);

/* cmd_expire.c */
void cmd_expire(struct command_ctx *ctx);
void cmd_expireat(struct command_ctx *ctx);
void cmd_expiretime(struct command_ctx *ctx);
void cmd_persist(struct command_ctx *ctx);
void cmd_pexpire(struct command_ctx *ctx);
void cmd_pexpireat(struct command_ctx *ctx);
void cmd_pexpiretime(struct command_ctx *ctx);
void cmd_pttl(struct command_ctx *ctx);
void cmd_ttl(struct command_ctx *ctx);

/* Reads of many keys go to the pool. */
enum command_cost cost_of_many(size_t argc, const struct ps_slice *argv);
enum command_cost cost_of_scan(size_t argc, const struct ps_slice *argv);

#endif
