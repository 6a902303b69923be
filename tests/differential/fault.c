/*
 * Faults for the self-test: each is one small lie about the second server's replies (or an end to
 * the server), of the kind a real defect would show. A driver that does not report one of them is
 * broken.
 */
#include "tests/differential/fault.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool flip_last_byte(struct heap *heap, struct reply *reply)
{
    if (reply->type != '$' || reply->null || reply->len == 0)
        return false;
    char *copy = heap_copy(heap, reply->text, reply->len);
    copy[reply->len - 1] ^= 1;
    reply->text = copy;
    return true;
}

static bool add_one(struct heap *heap, struct reply *reply)
{
    char text[32];
    if (reply->type != ':' || reply->integer < 10)
        return false;
    int len = snprintf(text, sizeof text, "%lld", ++reply->integer);
    reply->text = heap_copy(heap, text, (size_t)len);
    reply->len = (size_t)len;
    return true;
}

static bool lose_item(struct heap *heap, struct reply *reply)
{
    (void)heap;
    if (reply->type != '*' || reply->count < 3)
        return false;
    reply->count--;
    return true;
}

static bool other_error(struct heap *heap, struct reply *reply)
{
    if (reply->type != '-')
        return false;
    reply->text = heap_copy(heap, "ERR syntax error.", 17);
    reply->len = 17;
    return true;
}

static bool old_null(struct heap *heap, struct reply *reply)
{
    (void)heap;
    if (reply->type != '_')
        return false;
    reply->type = '$';
    reply->null = true;
    return true;
}

static bool set_as_array(struct heap *heap, struct reply *reply)
{
    (void)heap;
    if (reply->type != '%')
        return false;
    reply->type = '*';
    return true;
}

static bool drop_last_byte(struct heap *heap, struct reply *reply)
{
    (void)heap;
    if (reply->type != '$' || reply->len < 8000)
        return false;
    reply->len--;
    return true;
}

static bool ok_for_null(struct heap *heap, struct reply *reply)
{
    if (reply->type != '_' && !reply->null)
        return false;
    *reply = (struct reply){.type = '+', .len = 2, .text = heap_copy(heap, "OK", 2)};
    return true;
}

const struct fault fault_table[] = {
    {"byte", "GETRANGE", flip_last_byte, 0, "one bit of a string is wrong"},
    {"off-by-one", "STRLEN", add_one, 0, "a length is too large by one"},
    {"lost-key", "KEYS", lose_item, 0, "KEYS lacks a key"},
    {"error-text", "SETRANGE", other_error, 0, "an error has another text"},
    {"resp3-null", "GET", old_null, 0, "a null of RESP2 in RESP3"},
    {"resp3-map", "CONFIG", set_as_array, 0, "an array for a map in RESP3"},
    {"expiry", "PEXPIRETIME", add_one, 0, "an expiry is late by a millisecond"},
    {"large", "GET", drop_last_byte, 0, "a large value lacks its last byte"},
    {"nx", "SET", ok_for_null, 0, "SET NX says OK where it must not"},
    {"exec", "INCR", add_one, 0, "a counter is wrong, in EXEC too"},
    {"hang", NULL, NULL, SIGSTOP, "the server stops answering"},
    {"crash", NULL, NULL, SIGSEGV, "the server dies"},
};

const size_t fault_table_size = sizeof fault_table / sizeof fault_table[0];

const struct fault *fault_find(const char *name)
{
    for (size_t i = 0; i < fault_table_size; i++)
        if (strcmp(fault_table[i].name, name) == 0)
            return &fault_table[i];
    return NULL;
}

void fault_apply(const struct fault *fault, const struct call *call, struct heap *heap,
                 struct reply *reply)
{
    if (fault == NULL || fault->apply == NULL || call->argc == 0 ||
        strlen(fault->command) != call->argv[0].len ||
        strncasecmp(fault->command, call->argv[0].data, call->argv[0].len) != 0)
        return;
    fault->apply(heap, reply);
}
