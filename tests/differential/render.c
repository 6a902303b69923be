/* Calls as bytes: RESP arrays of bulk strings, or inline commands. */
#include "tests/differential/run.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MAX_INLINE 4000

/* The bytes of an argument as this server has to see it. Returns them, sets *len; scratch has room
 * for a number. */
static const char *argument(const struct runner *runner, const struct arg *arg, int server,
                            char scratch[64], size_t *len)
{
    switch (arg->subst) {
    case SUBST_CLIENT_ID: {
        long long id = runner->env.ids[arg->client][server];
        *len = (size_t)sprintf(scratch, "%lld", id < 0 ? 999999999 : id);
        return scratch;
    }
    case SUBST_CLIENT_ADDR:
        conn_address(&runner->peers[arg->client].conns[server], scratch, 64);
        *len = strlen(scratch);
        return scratch;
    case SUBST_CURSOR:
        *len = strlen(runner->cursors[server]);
        return runner->cursors[server];
    default:
        *len = arg->len;
        return arg->data;
    }
}

static void render_quoted(const char *data, size_t len, struct buffer *out)
{
    char text[8];
    buffer_add(out, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        int written = isgraph(c) && c != '"' && c != '\\' ? sprintf(text, "%c", c)
                                                          : sprintf(text, "\\x%02x", c);
        buffer_add(out, text, (size_t)written);
    }
    buffer_add(out, "\"", 1);
}

void render_call(const struct runner *runner, const struct call *call, int server, bool inline_form,
                 struct buffer *out)
{
    char scratch[64], head[64];
    size_t len, total = 0;
    for (size_t i = 0; i < call->argc; i++)
        total += call->argv[i].len;
    bool in_line = inline_form && total < MAX_INLINE;
    if (!in_line)
        buffer_add(out, head, (size_t)sprintf(head, "*%zu\r\n", call->argc));
    for (size_t i = 0; i < call->argc; i++) {
        const char *data = argument(runner, &call->argv[i], server, scratch, &len);
        if (in_line) {
            buffer_add(out, " ", i > 0);
            render_quoted(data, len, out);
            continue;
        }
        buffer_add(out, head, (size_t)sprintf(head, "$%zu\r\n", len));
        buffer_add(out, data, len);
        buffer_add(out, "\r\n", 2);
    }
    if (in_line)
        buffer_add(out, "\r\n", 2);
}
