/*
 * cmd_server.h - handlers of the connection, server and transaction groups, for the table.
 *
 * A handler of a subcommand is called with the whole command line (argv[0] is "client", argv[1]
 * "id").
 */
#ifndef PANDO_SERVER_COMMANDS_CMD_SERVER_H
#define PANDO_SERVER_COMMANDS_CMD_SERVER_H

#include "server/commands/command.h"

/* cmd_connection.c: all COST_STATE */
void cmd_auth(struct command_ctx *ctx);
void cmd_echo(struct command_ctx *ctx);
void cmd_hello(struct command_ctx *ctx);
void cmd_ping(struct command_ctx *ctx);
void cmd_quit(struct command_ctx *ctx);  /* COMMAND_EXEC_CONTROL */
void cmd_reset(struct command_ctx *ctx); /* COMMAND_EXEC_CONTROL */
void cmd_select(struct command_ctx *ctx);
void cmd_client_getname(struct command_ctx *ctx);
void cmd_client_help(struct command_ctx *ctx);
void cmd_client_id(struct command_ctx *ctx);
void cmd_client_info(struct command_ctx *ctx);
void cmd_client_kill(struct command_ctx *ctx);
void cmd_client_list(struct command_ctx *ctx);
void cmd_client_setname(struct command_ctx *ctx);

/* cmd_server.c */
void cmd_bgsave(struct command_ctx *ctx);           /* COST_STATE */
void cmd_config_get(struct command_ctx *ctx);       /* COST_STATE */
void cmd_config_help(struct command_ctx *ctx);      /* COST_STATE */
void cmd_config_resetstat(struct command_ctx *ctx); /* COST_STATE */
void cmd_config_rewrite(struct command_ctx *ctx);   /* COST_POOL: writes a file */
void cmd_config_set(struct command_ctx *ctx);       /* COST_POOL: may wait for a checkpoint */
void cmd_info(struct command_ctx *ctx);             /* COST_READ */
void cmd_lastsave(struct command_ctx *ctx);         /* COST_STATE */
void cmd_save(struct command_ctx *ctx);             /* COST_POOL: waits for a checkpoint */
void cmd_shutdown(struct command_ctx *ctx);         /* COST_STATE */
void cmd_time(struct command_ctx *ctx);             /* COST_STATE */

/* cmd_command.c: all COST_STATE */
void cmd_command(struct command_ctx *ctx);
void cmd_command_count(struct command_ctx *ctx);
void cmd_command_docs(struct command_ctx *ctx);
void cmd_command_getkeys(struct command_ctx *ctx);
void cmd_command_help(struct command_ctx *ctx);
void cmd_command_info(struct command_ctx *ctx);
void cmd_command_list(struct command_ctx *ctx);

/* cmd_multi.c: all COST_STATE, COMMAND_EXEC_CONTROL */
void cmd_discard(struct command_ctx *ctx);
void cmd_exec(struct command_ctx *ctx);
void cmd_multi(struct command_ctx *ctx);

#endif
