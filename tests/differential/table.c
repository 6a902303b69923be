/*
 * The command table of the generator: what is sent, how often, and how replies are compared.
 *
 * To extend: add a line; the grammar is described in grammar.c, the tokens in token.c, the
 * comparison modes in sequence.h. Rules that a broken variant could turn into harm (SHUTDOWN
 * without its bad argument) are RULE_INTACT.
 */
#include "tests/differential/generate.h"

#define SET_EXPIRY   "( EX <sec> | PX <ms> | EXAT <at> | PXAT <atms> | KEEPTTL )"
#define GETEX_EXPIRY "( EX <sec> | PX <ms> | EXAT <at> | PXAT <atms> | PERSIST )"

const struct rule rule_table[] = {
    /* strings */
    {30, "SET <key> <val>", CMP_EXACT, 0, 0},
    {30, "SET <key> <val> [ " SET_EXPIRY " ] [ ( NX | XX ) ] [ GET ]", CMP_EXACT, 0, 0},
    {6, "SET <key> <val> { ( " SET_EXPIRY " | NX | XX | GET | <word> ) }", CMP_EXACT, 0, 0},
    {24, "GET <key>", CMP_EXACT, 0, 0},
    {6, "SETNX <key> <val>", CMP_EXACT, 0, 0},
    {6, "SETEX <key> <sec> <val>", CMP_EXACT, 0, 0},
    {6, "PSETEX <key> <ms> <val>", CMP_EXACT, 0, 0},
    {8, "MGET { <key> }", CMP_EXACT, 0, 0},
    {8, "MSET { <key> <val> }", CMP_EXACT, 0, 0},
    {5, "MSETNX { <key> <val> }", CMP_EXACT, 0, 0},
    {6, "GETSET <key> <val>", CMP_EXACT, 0, 0},
    {6, "GETDEL <key>", CMP_EXACT, 0, 0},
    {10, "GETEX <key> [ " GETEX_EXPIRY " ]", CMP_EXACT, 0, 0},
    {2, "GETEX <key> { ( " GETEX_EXPIRY " | <word> ) }", CMP_EXACT, 0, 0},
    {6, "STRLEN <key>", CMP_EXACT, 0, 0},
    {8, "APPEND <key> <val>", CMP_EXACT, 0, 0},
    {8, "GETRANGE <key> <index> <index>", CMP_EXACT, 0, 0},
    {3, "SUBSTR <key> <index> <index>", CMP_EXACT, 0, 0},
    {8, "SETRANGE <key> <offset> <val>", CMP_EXACT, RULE_INTACT, 0},
    {1, "SETRANGE ( <key> | <key> <offset> | <key> <word> <val> | <key> <offset> <val> <val> )",
     CMP_EXACT, RULE_INTACT, 0},
    {8, "INCR <key>", CMP_EXACT, 0, 0},
    {6, "DECR <key>", CMP_EXACT, 0, 0},
    {8, "INCRBY <key> <int>", CMP_EXACT, 0, 0},
    {6, "DECRBY <key> <int>", CMP_EXACT, 0, 0},
    {12, "INCRBYFLOAT <key> <float>", CMP_EXACT, 0, 0},

    /* keys */
    {8, "DEL { <key> }", CMP_EXACT, 0, 0},
    {4, "UNLINK { <key> }", CMP_EXACT, 0, 0},
    {6, "EXISTS { <key> }", CMP_EXACT, 0, 0},
    {6, "TYPE <key>", CMP_EXACT, 0, 0},
    {6, "OBJECT ENCODING <key>", CMP_EXACT, 0, 0},
    {1, "OBJECT ( FOO | <empty> | ENCODING )", CMP_EXACT, RULE_INTACT, 0},
    {6, "KEYS <pattern>", CMP_SET, 0, 0},
    {5, "SCAN 0 COUNT 1000 [ MATCH <pattern> ] [ TYPE ( string | list | nosuchtype ) ]", CMP_SCAN,
     RULE_INTACT, 0},
    {2, "SCAN ( abc | 1x | <empty> COUNT 1000 | 18446744073709551616 )", CMP_SCAN, RULE_INTACT, 0},
    {2, "SCAN 0 ( COUNT 0 | COUNT -1 | COUNT abc | COUNT | MATCH | TYPE | FOO bar )", CMP_EXACT,
     RULE_INTACT, 0},
    {3, "RANDOMKEY", CMP_RANDOMKEY, RULE_THEN_KEYS, 0},
    {8, "RENAME <key> <key>", CMP_EXACT, 0, 0},
    {5, "RENAMENX <key> <key>", CMP_EXACT, 0, 0},
    {5, "DBSIZE", CMP_EXACT, 0, 0},
    {1, "FLUSHDB [ ( ASYNC | SYNC ) ]", CMP_EXACT, 0, 0},
    {1, "FLUSHALL [ ( ASYNC | SYNC | <word> ) ]", CMP_EXACT, 0, 0},

    /* expiry */
    {9, "EXPIRE <key> <sec> [ ( NX | XX | GT | LT ) ]", CMP_EXACT, 0, 0},
    {7, "PEXPIRE <key> <ms> [ ( NX | XX | GT | LT ) ]", CMP_EXACT, 0, 0},
    {7, "EXPIREAT <key> <at> [ ( NX | XX | GT | LT ) ]", CMP_EXACT, 0, 0},
    {7, "PEXPIREAT <key> <atms> [ ( NX | XX | GT | LT ) ]", CMP_EXACT, 0, 0},
    {3, "( EXPIRE <key> <sec> | PEXPIREAT <key> <atms> ) { ( NX | XX | GT | LT | <word> ) }",
     CMP_EXACT, 0, 0},
    {6, "TTL <key>", CMP_TTL, 0, 0},
    {6, "PTTL <key>", CMP_PTTL, 0, 0},
    {5, "EXPIRETIME <key>", CMP_EXPIRETIME, 0, 0},
    {5, "PEXPIRETIME <key>", CMP_PEXPIRETIME, 0, 0},
    {5, "PERSIST <key>", CMP_EXACT, 0, 0},
    {4, "@elapse", CMP_EXACT, RULE_INTACT | RULE_RARE, STEP_ELAPSE},
    {1, "@scanloop", CMP_EXACT, RULE_INTACT, STEP_SCANLOOP},

    /* transactions */
    {10, "MULTI", CMP_EXACT, 0, 0},
    {2, "EXEC", CMP_EXACT, 0, 0},
    {2, "DISCARD", CMP_EXACT, 0, 0},

    /* connection */
    {3, "PING [ <val> ]", CMP_EXACT, 0, 0},
    {3, "ECHO <val>", CMP_EXACT, 0, 0},
    {6, "SELECT <db>", CMP_EXACT, 0, 0},
    {3, "HELLO ( 2 | 3 ) [ AUTH default <password> ] [ SETNAME <name> ]", CMP_HELLO, RULE_AUTH, 0},
    {1, "HELLO", CMP_HELLO, RULE_AUTH, 0},
    {2,
     "HELLO ( 1 | 4 | abc | 3 AUTH default | 3 AUTH nosuchuser <password> | 2 SETNAME | 2 FOO | 3 "
     "SETNAME <badname> )",
     CMP_HELLO, RULE_AUTH, 0},
    {2, "RESET", CMP_EXACT, 0, 0},
    {1, "QUIT", CMP_EXACT, RULE_CLOSES | RULE_ENDS_BATCH | RULE_INTACT, 0},
    {2, "AUTH [ ( default | nosuchuser ) ] <password>", CMP_EXACT, RULE_AUTH, 0},
    {1, "AUTH default default", CMP_EXACT, RULE_AUTH, 0},
    {3, "CLIENT ID", CMP_CLIENT_ID, 0, 0},
    {3, "CLIENT GETNAME", CMP_EXACT, 0, 0},
    {3, "CLIENT SETNAME ( <name> | <badname> | <empty> )", CMP_EXACT, 0, 0},
    {2, "CLIENT INFO", CMP_CLIENT_INFO, 0, 0},
    {2,
     "CLIENT LIST [ ( TYPE normal | TYPE pubsub | TYPE nosuch | ID { <client-id> } | ID abc | ID | "
     "FOO ) ]",
     CMP_CLIENT_INFO, 0, 0},
    {2,
     "CLIENT KILL ( ID <client-id> [ SKIPME ( yes | no ) ] | <client-addr> | ADDR <client-addr> )",
     CMP_EXACT, RULE_ENDS_BATCH | RULE_INTACT | RULE_NOT_IN_MULTI, 0},
    {2,
     "CLIENT KILL ( ID 999999999 | ID abc | ID 0 | TYPE foo | TYPE pubsub | 1.2.3.4:5 | ADDR "
     "1.2.3.4:5 | "
     "USER nosuchuser | ID 5 SKIPME | SKIPME maybe ID 999999999 | LADDR 1.2.3.4:5 | FOO bar )",
     CMP_EXACT, RULE_INTACT, 0},
    {1, "CLIENT ( FOO | <empty> | <word> )", CMP_EXACT, RULE_INTACT, 0},

    /* server */
    {2, "INFO [ ( server | keyspace | nosuchsection ) ]", CMP_INFO, 0, 0},
    {1, "TIME", CMP_TIME, 0, 0},
    {1, "LASTSAVE", CMP_RECENT, 0, 0},
    {2, "SAVE", CMP_EXACT, RULE_RARE, 0},
    {1, "@bgsave", CMP_EXACT, RULE_INTACT | RULE_RARE, STEP_BGSAVE},
    {1, "BGSAVE FOO", CMP_EXACT, RULE_INTACT, 0},
    {1, "SHUTDOWN ( FOO | NOSAVE SAVE | SAVE NOSAVE | ABORT | FOO BAR )", CMP_EXACT, RULE_INTACT,
     0},
    {3,
     "CONFIG GET { ( timeout | tcp-keepalive | databases | requirepass | maxclients | "
     "nosuchparameter | time?ut ) }",
     CMP_CONFIG, RULE_INTACT, 0},
    {2,
     "CONFIG GET ( hz | maxmemory | maxmemory-policy | proto-max-bulk-len | tcp-backlog | "
     "client-query-buffer-limit | save | cluster-enabled | notify-keyspace-events | PROTO-MAX-* )",
     CMP_CONFIG, RULE_INTACT, 0},
    /* Never above its default: SETRANGE would then make a string of half a gigabyte. */
    {1,
     "CONFIG SET proto-max-bulk-len ( 100mb | 200MB | 104857600b | abc | -1 | 1 | 100mbb | "
     "1k )",
     CMP_EXACT, RULE_CONFIG | RULE_INTACT, 0},
    {2, "CONFIG SET ( timeout ( 0 | 300 | 1000 | abc | -1 ) | tcp-keepalive ( 0 | 60 | x ) )",
     CMP_EXACT, RULE_CONFIG | RULE_INTACT, 0},
    {1,
     "CONFIG SET ( databases 32 | nosuchparameter 1 | timeout | timeout 300 tcp-keepalive | "
     "timeout 0 timeout 300 | "
     "timeout 300 nosuch 1 | timeout abc tcp-keepalive 5 )",
     CMP_EXACT, RULE_CONFIG | RULE_INTACT, 0},
    {1, "CONFIG ( FOO | GET | SET | RESETSTAT | RESETSTAT FOO | <empty> )", CMP_EXACT, RULE_INTACT,
     0},
    {1, "COMMAND COUNT", CMP_COUNT_ONLY, RULE_INTACT, 0},
    {4, "COMMAND INFO <command> [ <command> ]", CMP_COMMAND_INFO, RULE_INTACT, 0},
    {3, "COMMAND DOCS <command> [ <command> ]", CMP_COMMAND_DOCS, RULE_INTACT, 0},
    {2,
     "COMMAND GETKEYS ( SET <key> <val> | MSET { <key> <val> } | MGET { <key> } | PING | NOSUCH a "
     "| GET | "
     "RENAME <key> <key> | DEL { <key> } | EXISTS { <key> } | EXPIRE <key> <sec> )",
     CMP_EXACT, RULE_INTACT, 0},
    {1,
     "COMMAND LIST FILTERBY ( PATTERN ( get | ?etrange | nosuch* ) | ACLCAT nosuch | MODULE nosuch "
     "| "
     "FOO bar | PATTERN )",
     CMP_SET, RULE_INTACT, 0},
    {1, "COMMAND ( FOO | COUNT x | GETKEYS | GETKEYSS <key> )", CMP_EXACT, RULE_INTACT, 0},

    /* what isn't there */
    {3, "( NOSUCHCOMMAND | GETT | <empty> | <word> ) [ { <val> } ]", CMP_EXACT, RULE_INTACT, 0},
    {2, "@malformed", CMP_EXACT, RULE_INTACT, STEP_RAW},
};

const size_t rule_table_size = sizeof rule_table / sizeof rule_table[0];
