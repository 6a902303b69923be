/*
 * The argument tokens of the command grammar: keys, values, numbers, expiries.
 *
 * Invariants (they are what makes a comparison of two servers with two clocks exact):
 *  1. A relative expiry is at least 10,000 seconds away, and any two of one sequence are at least
 *     99 seconds apart: NX, XX, GT and LT decide the same way on both servers however late one of
 *     them runs.
 *  2. An absolute expiry is past, or beyond the year 2096: no relative one reaches there, so expiry
 *     times above FAR_MS (compare.c) must be equal exactly.
 *  3. What breaks a command is never a positive number where an expiry is expected, nor an option
 *     that would turn one kind of expiry into another.
 *  4. All values and offsets of one sequence together are smaller than 64 KiB, or, in a sequence of
 *     long strings, than LONG_BUDGET: no value can grow beyond what either server stores.
 */
#include "tests/differential/generate.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void pick(struct generator *gen, const char *const *texts, size_t count)
{
    gen_arg_text(gen, texts[rng_below(gen, count)]);
}

static void number(struct generator *gen, long long value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", value);
    gen_arg(gen, heap_copy(&gen->sequence->heap, text, strlen(text)), strlen(text));
}

static void random_bytes(struct generator *gen, size_t len, bool printable)
{
    char *bytes = heap_alloc(&gen->sequence->heap, len + 1);
    for (size_t i = 0; i < len; i++) {
        uint64_t random = rng_next(gen) >> 32;
        bytes[i] = printable ? "abcdefghijklmnopqrstuvwxyz0123456789"[random % 36] : (char)random;
    }
    gen_arg(gen, bytes, len);
}

void token_choose_keys(struct generator *gen)
{
    static const struct {
        const char *data;
        size_t len;
    } odd[] = {
        {"", 0},       {"\0", 1}, {"\xff\xfe\r\n\0x", 6}, {"key with spaces", 15},
        {"k[1]*?", 6}, {"\\", 1}, {"k\xc3\xa9", 3},       {"{tag}a", 6},
    };
    size_t plain = 3 + rng_below(gen, 3);
    for (size_t i = 0; i < plain; i++) {
        char name[16];
        int len = snprintf(name, sizeof name, rng_percent(gen, 20) ? "key:%zu" : "k%zu", i);
        gen->keys[gen->nkeys++] = (struct arg){
            .data = heap_copy(&gen->sequence->heap, name, (size_t)len), .len = (size_t)len};
    }
    for (size_t i = rng_below(gen, 3); i > 0; i--) {
        size_t choice = rng_below(gen, COUNT_OF(odd));
        gen->keys[gen->nkeys++] = (struct arg){.data = odd[choice].data, .len = odd[choice].len};
    }
    if (rng_percent(gen, 10)) {
        gen->argc = 0;
        random_bytes(gen, rng_percent(gen, 20) ? 5000 : 300, rng_percent(gen, 50));
        gen->keys[gen->nkeys++] = gen->argv[0];
    }
    assert(gen->nkeys <= MAX_KEYS);
}

static void token_key(struct generator *gen)
{
    if (rng_percent(gen, 4)) {
        gen_arg_text(gen, "missing");
        return;
    }
    struct arg *key = &gen->keys[rng_below(gen, gen->nkeys)];
    gen_arg(gen, key->data, key->len);
}

static const char *const integers[] = {
    "0",
    "1",
    "-1",
    "10",
    "-10",
    "42",
    "100000",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775806",
    "-9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "4294967296",
    "2147483648",
};

static const char *const odd_numbers[] = {
    " 1", "1 ",   "+1",   "01",    "-0",  "00", "1e3", "abc",
    "",   "3.14", "0x10", "1_000", "--1", "-",  "1.0",
};

static const char *const floats[] = {
    "0.1",
    "-0.1",
    "1.5",
    "3.0e3",
    "1e10",
    "5e-324",
    "1e-10",
    "1e17",
    "-1e17",
    "1e18",
    "1e308",
    "1e400",
    "-1e400",
    "nan",
    "inf",
    "-inf",
    "+inf",
    "infinity",
    "0",
    "-0",
    "0.0",
    "1",
    "-1",
    "123456789.123456789",
    "0x1p3",
    "1.",
    ".5",
    "3.14159265358979323846",
    "1e",
    "e1",
    "1 ",
    " 1",
    "10000000000000000000000",
    "0.30000000000000004",
    "1e4932",
};

static void token_int(struct generator *gen)
{
    if (rng_percent(gen, 15))
        pick(gen, odd_numbers, COUNT_OF(odd_numbers));
    else if (rng_percent(gen, 45))
        pick(gen, integers, COUNT_OF(integers));
    else
        number(gen, (long long)rng_below(gen, 2000) - 1000);
}

static void token_float(struct generator *gen)
{
    char text[40];
    if (rng_percent(gen, 45)) {
        pick(gen, floats, COUNT_OF(floats));
        return;
    }
    double value =
        ((double)rng_below(gen, 2000000) - 1000000) / (rng_percent(gen, 50) ? 100.0 : 7.0);
    snprintf(text, sizeof text, rng_percent(gen, 50) ? "%.2f" : "%.15g", value);
    gen_arg(gen, heap_copy(&gen->sequence->heap, text, strlen(text)), strlen(text));
}

/* Around where pandod's strings change their form: from a record to chunks, from chunk to chunk,
 * and from what is copied into a reply to what is sent in pieces. */
static size_t long_length(struct generator *gen)
{
    static const size_t near[] = {16320, 2 * 16320, 3 * 16320, 65536, 5 * 16320, 262144};
    size_t which = rng_below(gen, 20);
    size_t base = which == 0 ? near[5] : near[which % 5];
    return base - 2 + rng_below(gen, 5);
}

/* A length for random bytes that the sequence's budget allows. */
static size_t value_length(struct generator *gen)
{
    size_t len;
    unsigned kind = (unsigned)rng_below(gen, 100);
    if (kind < 70)
        len = 1 + rng_below(gen, 12);
    else if (kind < 90)
        len = 20 + rng_below(gen, 200);
    else if (kind < 97)
        len = 200 + rng_below(gen, 4000);
    else
        len = 4000 + rng_below(gen, 58000);
    if (gen->long_strings && rng_percent(gen, 50))
        len = long_length(gen);
    return len + 64 <= gen->budget ? len : 4;
}

static void token_val(struct generator *gen)
{
    unsigned kind = (unsigned)rng_below(gen, 100);
    if (kind < 30)
        token_int(gen);
    else if (kind < 40)
        token_float(gen);
    else if (kind < 46)
        gen_arg(gen, "", 0);
    else
        random_bytes(gen, value_length(gen), kind < 80);
    size_t used = gen->argv[gen->argc - 1].len;
    gen->budget -= used < gen->budget ? used : gen->budget;
}

static void token_index(struct generator *gen)
{
    if (gen->long_strings && rng_percent(gen, 60))
        number(gen, (long long)long_length(gen) * (rng_percent(gen, 50) ? 1 : -1));
    else if (rng_percent(gen, 75))
        number(gen, (long long)rng_below(gen, 40) - 20);
    else
        token_int(gen);
}

static void token_offset(struct generator *gen)
{
    static const char *const extremes[] = {
        "-1",  "536870912", "4294967296",          "9223372036854775807", "9223372036854775808",
        "abc", "",          "-9223372036854775808"};
    if (rng_percent(gen, 15)) {
        pick(gen, extremes, COUNT_OF(extremes));
        return;
    }
    size_t offset = rng_percent(gen, 90) ? rng_below(gen, 40) : rng_below(gen, 20000);
    if (gen->long_strings && rng_percent(gen, 60))
        offset = long_length(gen);
    if (offset + 64 > gen->budget)
        offset = 3;
    gen->budget -= offset < gen->budget ? offset : gen->budget;
    number(gen, (long long)offset);
}

static long long next_relative(struct generator *gen)
{
    unsigned serial = gen->relative_serial++;
    return 10000 + 100 * (long long)((serial * 389 + gen->relative_offset) % 997);
}

static const char *const odd_expiries[] = {
    "0",
    "-1",
    "-100000",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "9223372036854775",
    "9223372036854776",
    "-9223372036854775",
    "-9223372036854776",
    "abc",
    "",
    "10000.5",
    " 50000",
    "50000 ",
    "1e6",
};

static void token_sec(struct generator *gen)
{
    gen->has_expiry = true;
    if (rng_percent(gen, 20))
        pick(gen, odd_expiries, COUNT_OF(odd_expiries));
    else
        number(gen, next_relative(gen));
}

static void token_ms(struct generator *gen)
{
    /* Without 9223372036854775, which overflows in seconds but is a valid relative time in
     * milliseconds. */
    static const char *const odd[] = {"0",
                                      "-1",
                                      "-100000",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "9223372036854775808",
                                      "abc",
                                      "",
                                      "10000000.5",
                                      " 50000000"};
    gen->has_expiry = true;
    if (rng_percent(gen, 20))
        pick(gen, odd, COUNT_OF(odd));
    else
        number(gen, next_relative(gen) * 1000 + (long long)rng_below(gen, 1000));
}

static void absolute(struct generator *gen, long long unit)
{
    gen->has_expiry = true;
    unsigned kind = (unsigned)rng_below(gen, 100);
    if (kind < 60) {
        number(gen, (4000000000LL + (long long)rng_below(gen, 1000000000)) * unit +
                        (long long)rng_below(gen, (size_t)unit));
    } else if (kind < 80) {
        gen->has_past = true;
        number(gen, 1 + (long long)rng_below(gen, 1500000000) * unit);
    } else {
        gen->has_past = true;
        pick(gen, odd_expiries, COUNT_OF(odd_expiries));
    }
}

static void token_at(struct generator *gen)
{
    absolute(gen, 1);
}

static void token_atms(struct generator *gen)
{
    absolute(gen, 1000);
}

static void token_pattern(struct generator *gen)
{
    static const char *const patterns[] = {
        "*",     "k*",      "k?",      "?",      "??",  "k[0-2]", "k[^0]", "[a-k]*",
        "key:*", "*:[1-9]", "\\k1",    "k\\*",   "k[",  "k[1",    "[",     "",
        "**",    "*0",      "[^k]*",   "k[2-0]", "*\\", "k[\\0]", "K*",    "***************k",
        "[]",    "k[]0]",   "missing", "[^]",    "*[*",
    };
    if (rng_percent(gen, 15))
        token_key(gen);
    else
        pick(gen, patterns, COUNT_OF(patterns));
}

static void token_db(struct generator *gen)
{
    static const char *const odd[] = {"16", "-1",  "abc", "", "9223372036854775808",
                                      "15", "1.0", " 1"};
    if (rng_percent(gen, 20))
        pick(gen, odd, COUNT_OF(odd));
    else
        number(gen,
               rng_percent(gen, 70) ? (long long)rng_below(gen, 2) : (long long)rng_below(gen, 16));
}

static void token_name(struct generator *gen)
{
    static const char *const names[] = {"alice", "bob", "worker-1", "x", "~!@#$%^&*()"};
    pick(gen, names, COUNT_OF(names));
}

static void token_badname(struct generator *gen)
{
    static const char *const names[] = {"a b", "new\nline", "tab\t", "\x7f", "caf\xc3\xa9"};
    pick(gen, names, COUNT_OF(names));
}

static void token_word(struct generator *gen)
{
    static const char *const words[] = {"FOO", "nosuch", "-100",    "XX",    "n x",
                                        "-",   "\r\n",   "KEEPTTL", "a'b\"c"};
    /* No positive number, no option that takes one (invariant 3). */
    pick(gen, words, COUNT_OF(words));
}

static void token_command(struct generator *gen)
{
    static const char *const names[] = {
        "append",
        "auth",
        "bgsave",
        "dbsize",
        "decr",
        "decrby",
        "del",
        "discard",
        "echo",
        "exec",
        "exists",
        "expire",
        "expireat",
        "expiretime",
        "flushall",
        "flushdb",
        "get",
        "getdel",
        "getex",
        "getrange",
        "getset",
        "hello",
        "incr",
        "incrby",
        "incrbyfloat",
        "info",
        "keys",
        "lastsave",
        "mget",
        "mset",
        "msetnx",
        "multi",
        "persist",
        "pexpire",
        "pexpireat",
        "pexpiretime",
        "ping",
        "psetex",
        "pttl",
        "quit",
        "randomkey",
        "rename",
        "renamenx",
        "reset",
        "save",
        "scan",
        "select",
        "set",
        "setex",
        "setnx",
        "setrange",
        "shutdown",
        "strlen",
        "substr",
        "time",
        "ttl",
        "type",
        "unlink",
        "client|getname",
        "client|id",
        "client|info",
        "client|kill",
        "client|list",
        "client|setname",
        "command|count",
        "command|docs",
        "command|getkeys",
        "command|info",
        "config|get",
        "config|resetstat",
        "config|set",
        "object|encoding",
        "GET",
        "Client|Id",
        "nosuchcommand",
        "client|nosuch",
        "get|nosuch",
        "",
        "|",
        "client|",
    };
    pick(gen, names, COUNT_OF(names));
}

static void token_password(struct generator *gen)
{
    static const char *const passwords[] = {"sesame", "wrong", "", "sesame ", "SESAME"};
    if (gen->with_password && rng_percent(gen, 60))
        gen_arg_text(gen, "sesame");
    else
        pick(gen, passwords, COUNT_OF(passwords));
}

static void token_empty(struct generator *gen)
{
    gen_arg(gen, "", 0);
}

static void token_client(struct generator *gen, enum subst subst)
{
    gen_arg_text(gen, subst == SUBST_CLIENT_ID ? "<id>" : "<address>");
    gen->argv[gen->argc - 1].subst = subst;
    gen->argv[gen->argc - 1].client = (int)rng_below(gen, (size_t)gen->sequence->clients);
}

static void token_client_id(struct generator *gen)
{
    token_client(gen, SUBST_CLIENT_ID);
}

static void token_client_addr(struct generator *gen)
{
    token_client(gen, SUBST_CLIENT_ADDR);
}

void token_junk(struct generator *gen)
{
    static const char *const junk[] = {"",         "junk", "PERSIST", "NX", "0x",
                                       "\x01\x02", "NaN",  "GET",     "*",  "k0"};
    pick(gen, junk, COUNT_OF(junk));
}

void token_expand(struct generator *gen, const char *name, size_t len)
{
    static const struct {
        const char *name;
        void (*make)(struct generator *gen);
    } tokens[] = {
        {"key", token_key},         {"val", token_val},
        {"int", token_int},         {"float", token_float},
        {"index", token_index},     {"offset", token_offset},
        {"sec", token_sec},         {"ms", token_ms},
        {"at", token_at},           {"atms", token_atms},
        {"pattern", token_pattern}, {"db", token_db},
        {"name", token_name},       {"badname", token_badname},
        {"word", token_word},       {"password", token_password},
        {"empty", token_empty},     {"client-id", token_client_id},
        {"command", token_command}, {"client-addr", token_client_addr},
    };
    for (size_t i = 0; i < COUNT_OF(tokens); i++) {
        if (strlen(tokens[i].name) == len && memcmp(tokens[i].name, name, len) == 0) {
            tokens[i].make(gen);
            return;
        }
    }
    assert(!"a token of the table does not exist");
}
