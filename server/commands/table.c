/*
 * table.c - every command: data, and nothing else.
 *
 * What COMMAND and COMMAND DOCS show (arity, flags, keys, categories, group, since, complexity,
 * summary) is what redis-server 7.0 shows. Rows are sorted by name.
 *
 * Threads: constant.
 */
#include "server/commands/cmd_data.h"
#include "server/commands/cmd_server.h"
#include "server/commands/object.h"

/* ---- key specifications --------------------------------------------------------------------- */

static const struct command_keys keys_ro_at2[] = {
    {"RO", 2, 0, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_rw_insert[] = {
    {"RW insert", 1, 0, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_rw_access_update[] = {
    {"RW access update", 1, 0, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_rm_delete_all[] = {
    {"RM delete", 1, -1, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_ro_all[] = {
    {"RO", 1, -1, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_rw_update[] = {
    {"RW update", 1, 0, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_ro_access[] = {
    {"RO access", 1, 0, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_rw_access_delete[] = {
    {"RW access delete", 1, 0, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_ro_access_all[] = {
    {"RO access", 1, -1, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_ow_update_all_step2[] = {
    {"OW update", 1, -1, 2, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_ow_insert_all_step2[] = {
    {"OW insert", 1, -1, 2, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_ow_update[] = {
    {"OW update", 1, 0, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_rw_access_delete_then_ow_update_at2[] = {
    {"RW access delete", 1, 0, 1, NULL},
    {"OW update", 2, 0, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_rw_access_delete_then_ow_insert_at2[] = {
    {"RW access delete", 1, 0, 1, NULL},
    {"OW insert", 2, 0, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_rw_access_update_ttl[] = {
    {"RW access update", 1, 0, 1, "RW and UPDATE because it changes the TTL"},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_rw_access_update_variable_flags[] = {
    {"RW access update variable_flags", 1, 0, 1,
     "RW and ACCESS due to the optional `GET` argument"},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_ow_insert[] = {
    {"OW insert", 1, 0, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct command_keys keys_ro[] = {
    {"RO", 1, 0, 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* Fields side by side keep a command in sight as a whole. */
/* clang-format off */

/* ---- subcommands ---------------------------------------------------------------------------- */

static const struct command client_subcommands[] = {
    {.name = "getname", .arity = 2, .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE,
     .cost = COST_STATE, .handler = cmd_client_getname, .acl = "@slow @connection",
     .since = "2.6.9", .group = "connection", .complexity = "O(1)",
     .summary = "Get the current connection name", .full_name = "client|getname"},
    {.name = "help", .arity = 2, .flags = CMD_LOADING | CMD_STALE, .cost = COST_STATE,
     .handler = cmd_client_help, .acl = "@slow @connection", .since = "5.0.0",
     .group = "connection", .complexity = "O(1)",
     .summary = "Show helpful text about the different subcommands", .full_name = "client|help"},
    {.name = "id", .arity = 2, .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE, .cost = COST_STATE,
     .handler = cmd_client_id, .acl = "@slow @connection", .since = "5.0.0", .group = "connection",
     .complexity = "O(1)", .summary = "Returns the client ID for the current connection",
     .full_name = "client|id"},
    {.name = "info", .arity = 2, .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE,
     .cost = COST_STATE, .handler = cmd_client_info, .acl = "@slow @connection",
     .tips = "nondeterministic_output", .since = "6.2.0", .group = "connection",
     .complexity = "O(1)", .summary = "Returns information about the current client connection.",
     .full_name = "client|info"},
    {.name = "kill", .arity = -3, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE,
     .cost = COST_STATE, .handler = cmd_client_kill, .acl = "@admin @slow @dangerous @connection",
     .since = "2.4.0", .group = "connection",
     .complexity = "O(N) where N is the number of client connections",
     .summary = "Kill the connection of a client", .full_name = "client|kill"},
    {.name = "list", .arity = -2, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE,
     .cost = COST_STATE, .handler = cmd_client_list, .acl = "@admin @slow @dangerous @connection",
     .tips = "nondeterministic_output", .since = "2.4.0", .group = "connection",
     .complexity = "O(N) where N is the number of client connections",
     .summary = "Get the list of client connections", .full_name = "client|list"},
    {.name = "setname", .arity = 3, .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE,
     .cost = COST_STATE, .handler = cmd_client_setname, .acl = "@slow @connection",
     .since = "2.6.9", .group = "connection", .complexity = "O(1)",
     .summary = "Set the current connection name", .full_name = "client|setname"},
    {.name = NULL},
};

static const struct command command_subcommands[] = {
    {.name = "count", .arity = 2, .flags = CMD_LOADING | CMD_STALE, .cost = COST_STATE,
     .handler = cmd_command_count, .acl = "@slow @connection", .since = "2.8.13", .group = "server",
     .complexity = "O(1)", .summary = "Get total number of Redis commands",
     .full_name = "command|count"},
    {.name = "docs", .arity = -2, .flags = CMD_LOADING | CMD_STALE, .cost = COST_STATE,
     .handler = cmd_command_docs, .acl = "@slow @connection",
     .tips = "nondeterministic_output_order", .since = "7.0.0", .group = "server",
     .complexity = "O(N) where N is the number of commands to look up",
     .summary = "Get array of specific Redis command documentation", .full_name = "command|docs"},
    {.name = "getkeys", .arity = -4, .flags = CMD_LOADING | CMD_STALE, .cost = COST_STATE,
     .handler = cmd_command_getkeys, .acl = "@slow @connection", .since = "2.8.13",
     .group = "server", .complexity = "O(N) where N is the number of arguments to the command",
     .summary = "Extract keys given a full Redis command", .full_name = "command|getkeys"},
    {.name = "help", .arity = 2, .flags = CMD_LOADING | CMD_STALE, .cost = COST_STATE,
     .handler = cmd_command_help, .acl = "@slow @connection", .since = "5.0.0", .group = "server",
     .complexity = "O(1)", .summary = "Show helpful text about the different subcommands",
     .full_name = "command|help"},
    {.name = "info", .arity = -2, .flags = CMD_LOADING | CMD_STALE, .cost = COST_STATE,
     .handler = cmd_command_info, .acl = "@slow @connection",
     .tips = "nondeterministic_output_order", .since = "2.8.13", .group = "server",
     .complexity = "O(N) where N is the number of commands to look up",
     .summary = "Get array of specific Redis command details, or all when no argument is given.",
     .full_name = "command|info"},
    {.name = "list", .arity = -2, .flags = CMD_LOADING | CMD_STALE, .cost = COST_STATE,
     .handler = cmd_command_list, .acl = "@slow @connection",
     .tips = "nondeterministic_output_order", .since = "7.0.0", .group = "server",
     .complexity = "O(N) where N is the total number of Redis commands",
     .summary = "Get an array of Redis command names", .full_name = "command|list"},
    {.name = NULL},
};

static const struct command config_subcommands[] = {
    {.name = "get", .arity = -3, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE,
     .cost = COST_STATE, .handler = cmd_config_get, .acl = "@admin @slow @dangerous",
     .since = "2.0.0", .group = "server",
     .complexity = "O(N) when N is the number of configuration parameters provided",
     .summary = "Get the values of configuration parameters", .full_name = "config|get"},
    {.name = "help", .arity = 2, .flags = CMD_LOADING | CMD_STALE, .cost = COST_STATE,
     .handler = cmd_config_help, .acl = "@slow", .since = "5.0.0", .group = "server",
     .complexity = "O(1)", .summary = "Show helpful text about the different subcommands",
     .full_name = "config|help"},
    {.name = "resetstat", .arity = 2, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE,
     .cost = COST_STATE, .handler = cmd_config_resetstat, .acl = "@admin @slow @dangerous",
     .since = "2.0.0", .group = "server", .complexity = "O(1)",
     .summary = "Reset the stats returned by INFO", .full_name = "config|resetstat"},
    {.name = "rewrite", .arity = 2, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE,
     .cost = COST_POOL, .handler = cmd_config_rewrite, .acl = "@admin @slow @dangerous",
     .since = "2.8.0", .group = "server", .complexity = "O(1)",
     .summary = "Rewrite the configuration file with the in memory configuration",
     .full_name = "config|rewrite"},
    {.name = "set", .arity = -4, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE,
     .cost = COST_POOL, .handler = cmd_config_set, .acl = "@admin @slow @dangerous",
     .tips = "request_policy:all_nodes response_policy:all_succeeded", .since = "2.0.0",
     .group = "server",
     .complexity = "O(N) when N is the number of configuration parameters provided",
     .summary = "Set configuration parameters to the given values", .full_name = "config|set"},
    {.name = NULL},
};

static const struct command object_subcommands[] = {
    {.name = "encoding", .arity = 3, .flags = CMD_READONLY, .traits = COMMAND_PREFETCH,
     .first_key = 2, .last_key = 2, .key_step = 1, .cost = COST_READ,
     .handler = cmd_object_encoding, .acl = "@keyspace @read @slow",
     .tips = "nondeterministic_output", .keys = keys_ro_at2, .since = "2.2.3", .group = "generic",
     .complexity = "O(1)", .summary = "Inspect the internal encoding of a Redis object",
     .full_name = "object|encoding"},
    {.name = "help", .arity = 2, .flags = CMD_LOADING | CMD_STALE, .cost = COST_STATE,
     .handler = cmd_object_help, .acl = "@keyspace @slow", .since = "6.2.0", .group = "generic",
     .complexity = "O(1)", .summary = "Show helpful text about the different subcommands",
     .full_name = "object|help"},
    {.name = NULL},
};

/* ---- commands ------------------------------------------------------------------------------- */

static const struct command commands[] = {
    {.name = "append", .arity = 3, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
     .traits = COMMAND_RESERVES, .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE,
     .reserve = need_rewrite, .handler = cmd_append, .acl = "@write @string @fast",
     .keys = keys_rw_insert, .since = "2.0.0", .group = "string",
     .complexity = "O(1). The amortized time complexity is O(1) assuming the appended value is "
     "small and the already present value is of any size, since the dynamic string library used "
     "by Redis will double the free space available on every reallocation.",
     .summary = "Append a value to a key"},
    {.name = "auth", .arity = -2,
     .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST | CMD_NO_AUTH | CMD_ALLOW_BUSY,
     .cost = COST_STATE, .handler = cmd_auth, .acl = "@fast @connection", .since = "1.0.0",
     .group = "connection",
     .complexity = "O(N) where N is the number of passwords defined for the user",
     .summary = "Authenticate to the server"},
    {.name = "bgsave", .arity = -1, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_NO_ASYNC_LOADING,
     .cost = COST_STATE, .handler = cmd_bgsave, .acl = "@admin @slow @dangerous", .since = "1.0.0",
     .group = "server", .complexity = "O(1)", .summary = "Asynchronously save the dataset to disk"},
    {.name = "client", .arity = -2, .flags = 0, .cost = COST_STATE, .acl = "@slow",
     .since = "2.4.0", .group = "connection", .complexity = "Depends on subcommand.",
     .summary = "A container for client connection commands", .subcommands = client_subcommands},
    {.name = "command", .arity = -1, .flags = CMD_LOADING | CMD_STALE, .cost = COST_STATE,
     .handler = cmd_command, .acl = "@slow @connection", .tips = "nondeterministic_output_order",
     .since = "2.8.13", .group = "server",
     .complexity = "O(N) where N is the total number of Redis commands",
     .summary = "Get array of Redis command details", .subcommands = command_subcommands},
    {.name = "config", .arity = -2, .flags = 0, .cost = COST_STATE, .acl = "@slow",
     .since = "2.0.0", .group = "server", .complexity = "Depends on subcommand.",
     .summary = "A container for server configuration commands", .subcommands = config_subcommands},
    {.name = "dbsize", .arity = 1, .flags = CMD_READONLY | CMD_FAST, .cost = COST_POOL,
     .handler = cmd_dbsize, .acl = "@keyspace @read @fast",
     .tips = "request_policy:all_shards response_policy:agg_sum", .since = "1.0.0",
     .group = "server", .complexity = "O(1)",
     .summary = "Return the number of keys in the selected database"},
    {.name = "decr", .arity = 2, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
     .traits = COMMAND_RESERVES, .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE,
     .reserve = need_put, .handler = cmd_decr, .acl = "@write @string @fast",
     .keys = keys_rw_access_update, .since = "1.0.0", .group = "string", .complexity = "O(1)",
     .summary = "Decrement the integer value of a key by one"},
    {.name = "decrby", .arity = 3, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
     .traits = COMMAND_RESERVES, .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE,
     .reserve = need_put, .handler = cmd_decrby, .acl = "@write @string @fast",
     .keys = keys_rw_access_update, .since = "1.0.0", .group = "string", .complexity = "O(1)",
     .summary = "Decrement the integer value of a key by the given number"},
    {.name = "del", .arity = -2, .flags = CMD_WRITE, .first_key = 1,
     .last_key = -1, .key_step = 1, .cost = COST_WRITE, .reserve = need_delete, .handler = cmd_del,
     .acl = "@keyspace @write @slow", .tips = "request_policy:multi_shard response_policy:agg_sum",
     .keys = keys_rm_delete_all, .since = "1.0.0", .group = "generic",
     .complexity = "O(N) where N is the number of keys that will be removed. When a key to "
     "remove holds a value other than a string, the individual complexity for this key is O(M) "
     "where M is the number of elements in the list, set, sorted set or hash. Removing a single "
     "key that holds a string value is O(1).",
     .summary = "Delete a key"},
    {.name = "discard", .arity = 1,
     .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST | CMD_ALLOW_BUSY,
     .traits = COMMAND_EXEC_CONTROL, .cost = COST_STATE, .handler = cmd_discard,
     .acl = "@fast @transaction", .since = "2.0.0", .group = "transactions",
     .complexity = "O(N), when N is the number of queued commands",
     .summary = "Discard all commands issued after MULTI"},
    {.name = "echo", .arity = 2, .flags = CMD_LOADING | CMD_STALE | CMD_FAST, .cost = COST_STATE,
     .handler = cmd_echo, .acl = "@fast @connection", .since = "1.0.0", .group = "connection",
     .complexity = "O(1)", .summary = "Echo the given string"},
    {.name = "exec", .arity = 1, .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_SKIP_SLOWLOG,
     .traits = COMMAND_EXEC_CONTROL, .cost = COST_STATE, .handler = cmd_exec,
     .acl = "@slow @transaction", .since = "1.2.0", .group = "transactions",
     .complexity = "Depends on commands in the transaction",
     .summary = "Execute all commands issued after MULTI"},
    {.name = "exists", .arity = -2, .flags = CMD_READONLY | CMD_FAST, .traits = COMMAND_PREFETCH,
     .first_key = 1, .last_key = -1, .key_step = 1, .cost = COST_READ, .cost_of = cost_of_many,
     .handler = cmd_exists, .acl = "@keyspace @read @fast",
     .tips = "request_policy:multi_shard response_policy:agg_sum", .keys = keys_ro_all,
     .since = "1.0.0", .group = "generic",
     .complexity = "O(N) where N is the number of keys to check.",
     .summary = "Determine if a key exists"},
    {.name = "expire", .arity = -3, .flags = CMD_WRITE | CMD_FAST, .traits = COMMAND_RESERVES,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE, .reserve = need_rewrite,
     .handler = cmd_expire, .acl = "@keyspace @write @fast", .keys = keys_rw_update,
     .since = "1.0.0", .group = "generic", .complexity = "O(1)",
     .summary = "Set a key's time to live in seconds"},
    {.name = "expireat", .arity = -3, .flags = CMD_WRITE | CMD_FAST, .traits = COMMAND_RESERVES,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE, .reserve = need_rewrite,
     .handler = cmd_expireat, .acl = "@keyspace @write @fast", .keys = keys_rw_update,
     .since = "1.2.0", .group = "generic", .complexity = "O(1)",
     .summary = "Set the expiration for a key as a UNIX timestamp"},
    {.name = "expiretime", .arity = 2, .flags = CMD_READONLY | CMD_FAST, .traits = COMMAND_PREFETCH,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_READ, .handler = cmd_expiretime,
     .acl = "@keyspace @read @fast", .keys = keys_ro_access, .since = "7.0.0", .group = "generic",
     .complexity = "O(1)", .summary = "Get the expiration Unix timestamp for a key"},
    {.name = "flushall", .arity = -1, .flags = CMD_WRITE, .traits = COMMAND_RESERVES,
     .cost = COST_WRITE, .reserve = need_flush, .handler = cmd_flushall,
     .acl = "@keyspace @write @slow @dangerous",
     .tips = "request_policy:all_shards response_policy:all_succeeded", .since = "1.0.0",
     .group = "server", .complexity = "O(N) where N is the total number of keys in all databases",
     .summary = "Remove all keys from all databases"},
    {.name = "flushdb", .arity = -1, .flags = CMD_WRITE, .traits = COMMAND_RESERVES,
     .cost = COST_WRITE, .reserve = need_flush, .handler = cmd_flushdb,
     .acl = "@keyspace @write @slow @dangerous",
     .tips = "request_policy:all_shards response_policy:all_succeeded", .since = "1.0.0",
     .group = "server", .complexity = "O(N) where N is the number of keys in the selected database",
     .summary = "Remove all keys from the current database"},
    {.name = "get", .arity = 2, .flags = CMD_READONLY | CMD_FAST, .traits = COMMAND_PREFETCH,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_READ, .handler = cmd_get,
     .acl = "@read @string @fast", .keys = keys_ro_access, .since = "1.0.0", .group = "string",
     .complexity = "O(1)", .summary = "Get the value of a key"},
    {.name = "getdel", .arity = 2, .flags = CMD_WRITE | CMD_FAST, .traits = COMMAND_RESERVES,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE, .reserve = need_delete,
     .handler = cmd_getdel, .acl = "@write @string @fast", .keys = keys_rw_access_delete,
     .since = "6.2.0", .group = "string", .complexity = "O(1)",
     .summary = "Get the value of a key and delete the key"},
    {.name = "getex", .arity = -2, .flags = CMD_WRITE | CMD_FAST, .traits = COMMAND_RESERVES,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE, .reserve = need_rewrite,
     .handler = cmd_getex, .acl = "@write @string @fast", .keys = keys_rw_access_update_ttl,
     .since = "6.2.0", .group = "string", .complexity = "O(1)",
     .summary = "Get the value of a key and optionally set its expiration"},
    {.name = "getrange", .arity = 4, .flags = CMD_READONLY, .traits = COMMAND_PREFETCH,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_READ, .handler = cmd_getrange,
     .acl = "@read @string @slow", .keys = keys_ro_access, .since = "2.4.0", .group = "string",
     .complexity = "O(N) where N is the length of the returned string. The complexity is "
     "ultimately determined by the returned length, but because creating a substring from an "
     "existing string is very cheap, it can be considered O(1) for small strings.",
     .summary = "Get a substring of the string stored at a key"},
    {.name = "getset", .arity = 3, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
     .traits = COMMAND_RESERVES, .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE,
     .reserve = need_put, .value_arg = 2, .handler = cmd_getset, .acl = "@write @string @fast",
     .keys = keys_rw_access_update, .since = "1.0.0", .group = "string", .complexity = "O(1)",
     .summary = "Set the string value of a key and return its old value"},
    {.name = "hello", .arity = -1,
     .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST | CMD_NO_AUTH | CMD_ALLOW_BUSY,
     .cost = COST_STATE, .handler = cmd_hello, .acl = "@fast @connection", .since = "6.0.0",
     .group = "connection", .complexity = "O(1)", .summary = "Handshake with Redis"},
    {.name = "incr", .arity = 2, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
     .traits = COMMAND_RESERVES, .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE,
     .reserve = need_put, .handler = cmd_incr, .acl = "@write @string @fast",
     .keys = keys_rw_access_update, .since = "1.0.0", .group = "string", .complexity = "O(1)",
     .summary = "Increment the integer value of a key by one"},
    {.name = "incrby", .arity = 3, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
     .traits = COMMAND_RESERVES, .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE,
     .reserve = need_put, .handler = cmd_incrby, .acl = "@write @string @fast",
     .keys = keys_rw_access_update, .since = "1.0.0", .group = "string", .complexity = "O(1)",
     .summary = "Increment the integer value of a key by the given amount"},
    {.name = "incrbyfloat", .arity = 3, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
     .traits = COMMAND_RESERVES, .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE,
     .reserve = need_rewrite, .handler = cmd_incrbyfloat, .acl = "@write @string @fast",
     .keys = keys_rw_access_update, .since = "2.6.0", .group = "string", .complexity = "O(1)",
     .summary = "Increment the float value of a key by the given amount"},
    {.name = "info", .arity = -1, .flags = CMD_LOADING | CMD_STALE, .cost = COST_READ,
     .handler = cmd_info, .acl = "@slow @dangerous",
     .tips = "nondeterministic_output request_policy:all_shards response_policy:special",
     .since = "1.0.0", .group = "server", .complexity = "O(1)",
     .summary = "Get information and statistics about the server"},
    {.name = "keys", .arity = 2, .flags = CMD_READONLY, .cost = COST_POOL, .handler = cmd_keys,
     .acl = "@keyspace @read @slow @dangerous",
     .tips = "request_policy:all_shards nondeterministic_output_order", .since = "1.0.0",
     .group = "generic",
     .complexity = "O(N) with N being the number of keys in the database, under the assumption "
     "that the key names in the database and the given pattern have limited length.",
     .summary = "Find all keys matching the given pattern"},
    {.name = "lastsave", .arity = 1, .flags = CMD_LOADING | CMD_STALE | CMD_FAST,
     .cost = COST_STATE, .handler = cmd_lastsave, .acl = "@admin @fast @dangerous",
     .tips = "nondeterministic_output", .since = "1.0.0", .group = "server", .complexity = "O(1)",
     .summary = "Get the UNIX time stamp of the last successful save to disk"},
    {.name = "mget", .arity = -2, .flags = CMD_READONLY | CMD_FAST, .first_key = 1, .last_key = -1,
     .key_step = 1, .cost = COST_READ, .cost_of = cost_of_many, .handler = cmd_mget,
     .acl = "@read @string @fast", .tips = "request_policy:multi_shard", .keys = keys_ro_access_all,
     .since = "1.0.0", .group = "string",
     .complexity = "O(N) where N is the number of keys to retrieve.",
     .summary = "Get the values of all the given keys"},
    {.name = "mset", .arity = -3, .flags = CMD_WRITE | CMD_DENYOOM,
     .first_key = 1, .last_key = -1, .key_step = 2, .cost = COST_WRITE, .reserve = need_put_all,
     .handler = cmd_mset,
     .acl = "@write @string @slow",
     .tips = "request_policy:multi_shard response_policy:all_succeeded",
     .keys = keys_ow_update_all_step2, .since = "1.0.1", .group = "string",
     .complexity = "O(N) where N is the number of keys to set.",
     .summary = "Set multiple keys to multiple values"},
    {.name = "msetnx", .arity = -3, .flags = CMD_WRITE | CMD_DENYOOM,
     .first_key = 1, .last_key = -1, .key_step = 2, .cost = COST_WRITE, .reserve = need_put_all,
     .handler = cmd_msetnx,
     .acl = "@write @string @slow", .tips = "request_policy:multi_shard response_policy:agg_min",
     .keys = keys_ow_insert_all_step2, .since = "1.0.1", .group = "string",
     .complexity = "O(N) where N is the number of keys to set.",
     .summary = "Set multiple keys to multiple values, only if none of the keys exist"},
    {.name = "multi", .arity = 1,
     .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST | CMD_ALLOW_BUSY,
     .traits = COMMAND_EXEC_CONTROL, .cost = COST_STATE, .handler = cmd_multi,
     .acl = "@fast @transaction", .since = "1.2.0", .group = "transactions", .complexity = "O(1)",
     .summary = "Mark the start of a transaction block"},
    {.name = "object", .arity = -2, .flags = 0, .cost = COST_STATE, .acl = "@slow",
     .since = "2.2.3", .group = "generic", .complexity = "Depends on subcommand.",
     .summary = "A container for object introspection commands", .subcommands = object_subcommands},
    {.name = "persist", .arity = 2, .flags = CMD_WRITE | CMD_FAST, .traits = COMMAND_RESERVES,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE, .reserve = need_rewrite,
     .handler = cmd_persist, .acl = "@keyspace @write @fast", .keys = keys_rw_update,
     .since = "2.2.0", .group = "generic", .complexity = "O(1)",
     .summary = "Remove the expiration from a key"},
    {.name = "pexpire", .arity = -3, .flags = CMD_WRITE | CMD_FAST, .traits = COMMAND_RESERVES,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE, .reserve = need_rewrite,
     .handler = cmd_pexpire, .acl = "@keyspace @write @fast", .keys = keys_rw_update,
     .since = "2.6.0", .group = "generic", .complexity = "O(1)",
     .summary = "Set a key's time to live in milliseconds"},
    {.name = "pexpireat", .arity = -3, .flags = CMD_WRITE | CMD_FAST, .traits = COMMAND_RESERVES,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE, .reserve = need_rewrite,
     .handler = cmd_pexpireat, .acl = "@keyspace @write @fast", .keys = keys_rw_update,
     .since = "2.6.0", .group = "generic", .complexity = "O(1)",
     .summary = "Set the expiration for a key as a UNIX timestamp specified in milliseconds"},
    {.name = "pexpiretime", .arity = 2, .flags = CMD_READONLY | CMD_FAST,
     .traits = COMMAND_PREFETCH, .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_READ,
     .handler = cmd_pexpiretime, .acl = "@keyspace @read @fast", .keys = keys_ro_access,
     .since = "7.0.0", .group = "generic", .complexity = "O(1)",
     .summary = "Get the expiration Unix timestamp for a key in milliseconds"},
    {.name = "ping", .arity = -1, .flags = CMD_FAST, .cost = COST_STATE, .handler = cmd_ping,
     .acl = "@fast @connection", .tips = "request_policy:all_shards response_policy:all_succeeded",
     .since = "1.0.0", .group = "connection", .complexity = "O(1)", .summary = "Ping the server"},
    {.name = "psetex", .arity = 4, .flags = CMD_WRITE | CMD_DENYOOM, .traits = COMMAND_RESERVES,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE, .reserve = need_put,
     .value_arg = 3,
     .handler = cmd_psetex, .acl = "@write @string @slow", .keys = keys_ow_update, .since = "2.6.0",
     .group = "string", .complexity = "O(1)",
     .summary = "Set the value and expiration in milliseconds of a key"},
    {.name = "pttl", .arity = 2, .flags = CMD_READONLY | CMD_FAST, .traits = COMMAND_PREFETCH,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_READ, .handler = cmd_pttl,
     .acl = "@keyspace @read @fast", .tips = "nondeterministic_output", .keys = keys_ro_access,
     .since = "2.6.0", .group = "generic", .complexity = "O(1)",
     .summary = "Get the time to live for a key in milliseconds"},
    {.name = "quit", .arity = -1,
     .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST | CMD_NO_AUTH | CMD_ALLOW_BUSY,
     .traits = COMMAND_EXEC_CONTROL, .cost = COST_STATE, .handler = cmd_quit,
     .acl = "@fast @connection", .since = "1.0.0", .group = "connection", .complexity = "O(1)",
     .summary = "Close the connection"},
    {.name = "randomkey", .arity = 1, .flags = CMD_READONLY, .cost = COST_POOL,
     .handler = cmd_randomkey, .acl = "@keyspace @read @slow",
     .tips = "request_policy:all_shards nondeterministic_output", .since = "1.0.0",
     .group = "generic", .complexity = "O(1)", .summary = "Return a random key from the keyspace"},
    {.name = "rename", .arity = 3, .flags = CMD_WRITE, .traits = COMMAND_RESERVES, .first_key = 1,
     .last_key = 2, .key_step = 1, .cost = COST_WRITE, .reserve = need_rename,
     .handler = cmd_rename, .acl = "@keyspace @write @slow",
     .keys = keys_rw_access_delete_then_ow_update_at2, .since = "1.0.0", .group = "generic",
     .complexity = "O(1)", .summary = "Rename a key"},
    {.name = "renamenx", .arity = 3, .flags = CMD_WRITE | CMD_FAST, .traits = COMMAND_RESERVES,
     .first_key = 1, .last_key = 2, .key_step = 1, .cost = COST_WRITE, .reserve = need_rename,
     .handler = cmd_renamenx, .acl = "@keyspace @write @fast",
     .keys = keys_rw_access_delete_then_ow_insert_at2, .since = "1.0.0", .group = "generic",
     .complexity = "O(1)", .summary = "Rename a key, only if the new key does not exist"},
    {.name = "reset", .arity = 1,
     .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST | CMD_NO_AUTH | CMD_ALLOW_BUSY,
     .traits = COMMAND_EXEC_CONTROL, .cost = COST_STATE, .handler = cmd_reset,
     .acl = "@fast @connection", .since = "6.2.0", .group = "connection", .complexity = "O(1)",
     .summary = "Reset the connection"},
    {.name = "save", .arity = 1,
     .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_NO_ASYNC_LOADING | CMD_NO_MULTI, .cost = COST_POOL,
     .handler = cmd_save, .acl = "@admin @slow @dangerous", .since = "1.0.0", .group = "server",
     .complexity = "O(N) where N is the total number of keys in all databases",
     .summary = "Synchronously save the dataset to disk"},
    {.name = "scan", .arity = -2, .flags = CMD_READONLY, .cost = COST_READ, .cost_of = cost_of_scan,
     .handler = cmd_scan, .acl = "@keyspace @read @slow",
     .tips = "nondeterministic_output request_policy:special", .since = "2.8.0", .group = "generic",
     .complexity = "O(1) for every call. O(N) for a complete iteration, including enough command "
     "calls for the cursor to return back to 0. N is the number of elements inside the collection.",
     .summary = "Incrementally iterate the keys space"},
    {.name = "select", .arity = 2, .flags = CMD_LOADING | CMD_STALE | CMD_FAST, .cost = COST_STATE,
     .handler = cmd_select, .acl = "@fast @connection", .since = "1.0.0", .group = "connection",
     .complexity = "O(1)", .summary = "Change the selected database for the current connection"},
    {.name = "set", .arity = -3, .flags = CMD_WRITE | CMD_DENYOOM, .traits = COMMAND_RESERVES,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE, .reserve = need_put,
     .value_arg = 2,
     .handler = cmd_set, .acl = "@write @string @slow",
     .keys = keys_rw_access_update_variable_flags, .since = "1.0.0", .group = "string",
     .complexity = "O(1)", .summary = "Set the string value of a key"},
    {.name = "setex", .arity = 4, .flags = CMD_WRITE | CMD_DENYOOM, .traits = COMMAND_RESERVES,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE, .reserve = need_put,
     .value_arg = 3,
     .handler = cmd_setex, .acl = "@write @string @slow", .keys = keys_ow_update, .since = "2.0.0",
     .group = "string", .complexity = "O(1)", .summary = "Set the value and expiration of a key"},
    {.name = "setnx", .arity = 3, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
     .traits = COMMAND_RESERVES, .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE,
     .reserve = need_put, .value_arg = 2, .handler = cmd_setnx, .acl = "@write @string @fast",
     .keys = keys_ow_insert, .since = "1.0.0", .group = "string", .complexity = "O(1)",
     .summary = "Set the value of a key, only if the key does not exist"},
    {.name = "setrange", .arity = 4, .flags = CMD_WRITE | CMD_DENYOOM, .traits = COMMAND_RESERVES,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_WRITE, .reserve = need_rewrite,
     .handler = cmd_setrange, .acl = "@write @string @slow", .keys = keys_rw_update,
     .since = "2.2.0", .group = "string",
     .complexity = "O(1), not counting the time taken to copy the new string in place. Usually, "
     "this string is very small so the amortized complexity is O(1). Otherwise, complexity is "
     "O(M) with M being the length of the value argument.",
     .summary = "Overwrite part of a string at key starting at the specified offset"},
    {.name = "shutdown", .arity = -1,
     .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_NO_MULTI | CMD_ALLOW_BUSY,
     .cost = COST_STATE, .handler = cmd_shutdown, .acl = "@admin @slow @dangerous",
     .since = "1.0.0", .group = "server",
     .complexity = "O(N) when saving, where N is the total number of keys in all databases when "
     "saving data, otherwise O(1)",
     .summary = "Synchronously save the dataset to disk and then shut down the server"},
    {.name = "strlen", .arity = 2, .flags = CMD_READONLY | CMD_FAST, .traits = COMMAND_PREFETCH,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_READ, .handler = cmd_strlen,
     .acl = "@read @string @fast", .keys = keys_ro, .since = "2.2.0", .group = "string",
     .complexity = "O(1)", .summary = "Get the length of the value stored in a key"},
    {.name = "substr", .arity = 4, .flags = CMD_READONLY, .traits = COMMAND_PREFETCH,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_READ, .handler = cmd_getrange,
     .acl = "@read @string @slow", .keys = keys_ro_access, .since = "1.0.0", .group = "string",
     .complexity = "O(N) where N is the length of the returned string. The complexity is "
     "ultimately determined by the returned length, but because creating a substring from an "
     "existing string is very cheap, it can be considered O(1) for small strings.",
     .summary = "Get a substring of the string stored at a key"},
    {.name = "time", .arity = 1, .flags = CMD_LOADING | CMD_STALE | CMD_FAST, .cost = COST_STATE,
     .handler = cmd_time, .acl = "@fast", .tips = "nondeterministic_output", .since = "2.6.0",
     .group = "server", .complexity = "O(1)", .summary = "Return the current server time"},
    {.name = "ttl", .arity = 2, .flags = CMD_READONLY | CMD_FAST, .traits = COMMAND_PREFETCH,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_READ, .handler = cmd_ttl,
     .acl = "@keyspace @read @fast", .tips = "nondeterministic_output", .keys = keys_ro_access,
     .since = "1.0.0", .group = "generic", .complexity = "O(1)",
     .summary = "Get the time to live for a key in seconds"},
    {.name = "type", .arity = 2, .flags = CMD_READONLY | CMD_FAST, .traits = COMMAND_PREFETCH,
     .first_key = 1, .last_key = 1, .key_step = 1, .cost = COST_READ, .handler = cmd_type,
     .acl = "@keyspace @read @fast", .keys = keys_ro, .since = "1.0.0", .group = "generic",
     .complexity = "O(1)", .summary = "Determine the type stored at key"},
    {.name = "unlink", .arity = -2, .flags = CMD_WRITE | CMD_FAST, 
     .first_key = 1, .last_key = -1, .key_step = 1, .cost = COST_WRITE, .reserve = need_delete,
     .handler = cmd_del, .acl = "@keyspace @write @fast",
     .tips = "request_policy:multi_shard response_policy:agg_sum", .keys = keys_rm_delete_all,
     .since = "4.0.0", .group = "generic",
     .complexity = "O(1) for each key removed regardless of its size. Then the command does O(N) "
     "work in a different thread in order to reclaim memory, where N is the number of "
     "allocations the deleted objects where composed of.",
     .summary = "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but "
     "non blocking."},
};
/* clang-format on */

const struct command *command_table(size_t *count)
{
    *count = sizeof(commands) / sizeof(commands[0]);
    return commands;
}
