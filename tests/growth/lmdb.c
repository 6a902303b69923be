/*
 * lmdb.c - see lmdb.h.
 */
#include "tests/growth/lmdb.h"

#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAP_SIZE ((size_t)16 << 30)

static int overwrite(MDB_env *env, MDB_dbi dbi, unsigned keys, unsigned value, unsigned step,
                     unsigned round)
{
    char *bytes = malloc(value);
    int rc = bytes == NULL ? MDB_PANIC : 0;
    for (unsigned from = 0; rc == 0 && from < keys; from += step) {
        MDB_txn *txn;
        rc = mdb_txn_begin(env, NULL, 0, &txn);
        for (unsigned i = from; rc == 0 && i < from + step && i < keys; i++) {
            char text[32];
            int n = snprintf(text, sizeof text, "key %08u", i);
            MDB_val k = {(size_t)n, text}, v = {value, bytes};
            memset(bytes, (int)('a' + round % 26), value);
            rc = mdb_put(txn, dbi, &k, &v, 0);
        }
        rc = rc == 0 ? mdb_txn_commit(txn) : rc;
    }
    free(bytes);
    return rc;
}

static uint64_t used(MDB_env *env)
{
    MDB_envinfo info;
    MDB_stat stat;
    mdb_env_info(env, &info);
    mdb_env_stat(env, &stat);
    return (uint64_t)(info.me_last_pgno + 1) * stat.ms_psize;
}

int lmdb_grow(const char *dir, unsigned keys, unsigned value, unsigned step, unsigned rounds,
              struct lmdb_growth *growth)
{
    MDB_env *env = NULL;
    MDB_txn *txn = NULL, *reader = NULL;
    MDB_dbi dbi = 0;
    int rc = mdb_env_create(&env);
    rc = rc == 0 ? mdb_env_set_mapsize(env, MAP_SIZE) : rc;
    rc = rc == 0 ? mdb_env_open(env, dir, MDB_NOSYNC, 0600) : rc;
    rc = rc == 0 ? mdb_txn_begin(env, NULL, 0, &txn) : rc;
    rc = rc == 0 ? mdb_dbi_open(txn, NULL, 0, &dbi) : rc;
    rc = rc == 0 ? mdb_txn_commit(txn) : rc;
    for (unsigned round = 0; rc == 0 && round < 4; round++) /* until its free pages go round */
        rc = overwrite(env, dbi, keys, value, step, round);
    growth->base = used(env);
    rc = rc == 0 ? mdb_txn_begin(env, NULL, MDB_RDONLY, &reader) : rc;
    for (unsigned round = 0; rc == 0 && round < rounds; round++) {
        rc = overwrite(env, dbi, keys, value, step, round);
        growth->after_one = round == 0 ? used(env) : growth->after_one;
    }
    growth->after_all = used(env);
    if (reader != NULL)
        mdb_txn_abort(reader);
    rc = rc == 0 ? overwrite(env, dbi, keys, value, step, rounds) : rc;
    growth->after_release = used(env);
    mdb_env_close(env);
    return rc;
}
