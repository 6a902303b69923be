/* Steps as text, for reports: what one would type into a client, long arguments abbreviated. */
#include "tests/differential/sequence.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool is_plain(const struct arg *arg)
{
    if (arg->len == 0 || arg->len > 60)
        return false;
    for (size_t i = 0; i < arg->len; i++)
        if (!isgraph((unsigned char)arg->data[i]) || strchr("\"'\\", arg->data[i]) != NULL)
            return false;
    return true;
}

void call_format(const struct call *call, char *out, size_t cap)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < call->argc && at + 600 < cap; i++) {
        const struct arg *arg = &call->argv[i];
        if (i > 0)
            out[at++] = ' ';
        if (arg->subst == SUBST_CLIENT_ID || arg->subst == SUBST_CLIENT_ADDR)
            at += (size_t)sprintf(out + at, "<%s of client %d>",
                                  arg->subst == SUBST_CLIENT_ID ? "id" : "address", arg->client);
        else if (is_plain(arg))
            at += (size_t)sprintf(out + at, "%.*s", (int)arg->len, arg->data);
        else
            at += quote_bytes(arg->data, arg->len, 80, out + at, cap - at);
        out[at] = '\0';
    }
}

void step_format(const struct step *step, char *out, size_t cap)
{
    char text[4096];
    size_t at = 0;
    if (step->kind == STEP_RAW) {
        at = (size_t)snprintf(out, cap, "raw bytes: ");
        at += quote_bytes(step->raw, step->raw_len, 1000, out + at, cap - at - 1);
        out[at] = '\0';
        return;
    }
    call_format(&step->calls[0], text, sizeof text);
    switch (step->kind) {
    case STEP_ELAPSE:
        snprintf(out, cap, "(database %d: a few milliseconds of life for key %s)", step->db, text);
        return;
    case STEP_SCANLOOP:
        snprintf(out, cap, "(database %d: a whole SCAN of %s)", step->db, text);
        return;
    case STEP_BGSAVE:
        snprintf(out, cap, "(BGSAVE, waited for)");
        return;
    default:
        break;
    }
    at = (size_t)snprintf(out, cap, "%s%s", step->inline_form ? "(inline) " : "", text);
    for (size_t i = 1; i < step->ncalls && at < cap; i++) {
        call_format(&step->calls[i], text, sizeof text);
        at += (size_t)snprintf(out + at, cap - at, " ; %s", text);
    }
}
