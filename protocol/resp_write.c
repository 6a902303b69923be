/*
 * Replies: encoding of RESP2 and RESP3 into a growing buffer.
 *
 * Invariants:
 *  1. len <= end <= cap, end <= limit: a write that finds room below `end` needs no other test.
 *  2. A writer reserves all it may need before its first byte, so a failure never leaves a part of
 *     one call's output behind. After a failure status is not 0, end == len, and nothing is written
 *     until resp_out_truncate or resp_out_begin.
 *  3. Headers, integers and the constant replies are made without printf.
 *  4. Nothing a client supplied can break the framing: bulks carry their length, lines are cleaned
 *     of CR and LF.
 *
 * Threads: a buffer belongs to one thread at a time. Crash: nothing is kept.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/check.h"
#include "protocol/number.h"
#include "protocol/resp_internal.h"

enum {
    FIRST_CAPACITY = 16384,
    HEADER_MAX = 1 + NUMBER_INT_MAX + 2, /* type, number, CRLF */
    DEFERRED = 4,                        /* room kept for "*N\r\n" */
    ERROR_FORMAT_MAX = 1024,
};

#define WRITE_LITERAL(out, text) resp_write_raw(out, text, sizeof(text) - 1)

/* ---- the buffer ---------------------------------------------------------------------------- */

static void set_end(struct resp_out *out)
{
    out->end = out->cap < out->limit ? out->cap : out->limit;
}

void resp_out_init(struct resp_out *out)
{
    *out = (struct resp_out){.limit = SIZE_MAX, .version = 2};
}

void resp_out_free(struct resp_out *out)
{
    free(out->buf);
    resp_out_init(out);
}

void resp_out_begin(struct resp_out *out, int version, size_t limit)
{
    RESP_CHECK(version == 2 || version == 3);
    out->len = 0;
    out->status = 0;
    out->version = version;
    out->limit = limit;
    set_end(out);
}

void resp_out_shrink(struct resp_out *out, size_t keep)
{
    size_t target = keep > out->len ? keep : out->len;
    if (out->cap <= target)
        return;
    if (target == 0) {
        free(out->buf);
        out->buf = NULL;
    } else {
        char *smaller = realloc(out->buf, target);
        if (smaller == NULL)
            return;
        out->buf = smaller;
    }
    out->cap = target;
    if (out->status == 0)
        set_end(out);
}

void resp_out_truncate(struct resp_out *out, size_t len)
{
    RESP_CHECK(len <= out->len);
    out->len = len;
    out->status = 0;
    set_end(out);
}

size_t resp_out_room(const struct resp_out *out)
{
    return out->status == 0 ? out->limit - out->len : 0;
}

static bool refuse(struct resp_out *out, int status)
{
    out->status = status;
    out->end = out->len;
    return false;
}

/* Makes room for n bytes more than end allows. */
static bool grow(struct resp_out *out, size_t n)
{
    if (out->status != 0)
        return false;
    if (n > out->limit - out->len)
        return refuse(out, RESP_EOUT_LIMIT);
    size_t need = out->len + n; /* at most limit */
    size_t cap = out->cap < FIRST_CAPACITY ? FIRST_CAPACITY : out->cap;
    while (cap < need) {
        if (cap > SIZE_MAX / 2)
            return refuse(out, RESP_ENOMEM);
        cap *= 2;
    }
    if (cap != out->cap) {
        char *bigger = realloc(out->buf, cap);
        if (bigger == NULL)
            return refuse(out, RESP_ENOMEM);
        out->buf = bigger;
        out->cap = cap;
    }
    set_end(out);
    return true;
}

/* True: n bytes may be written at out->buf + out->len. */
static inline bool reserve(struct resp_out *out, size_t n)
{
    return __builtin_expect(n <= out->end - out->len, 1) || grow(out, n);
}

/* a + b, or SIZE_MAX, which no buffer can hold, where that overflows. */
static inline size_t add_size(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

static inline void put_crlf(char *to)
{
    to[0] = '\r';
    to[1] = '\n';
}

/* "<type><number>\r\n" at to, which has HEADER_MAX bytes. Returns its size. */
static inline size_t put_header(char *to, char type, uint64_t number)
{
    to[0] = type;
    size_t n = 1;
    if (number < 10)
        to[n++] = (char)('0' + number);
    else
        n += number_from_uint(number, to + 1);
    put_crlf(to + n);
    return n + 2;
}

/* The size of what put_header writes. */
static size_t header_size(uint64_t number)
{
    return 1 + number_digits(number) + 2;
}

static void write_header(struct resp_out *out, char type, uint64_t number)
{
    if (reserve(out, header_size(number)))
        out->len += put_header(out->buf + out->len, type, number);
}

void resp_write_raw(struct resp_out *out, const char *data, size_t len)
{
    if (len == 0 || !reserve(out, len))
        return;
    memcpy(out->buf + out->len, data, len);
    out->len += len;
}

char *resp_write_raw_space(struct resp_out *out, size_t len)
{
    if (!reserve(out, len))
        return NULL;
    out->len += len;
    return out->buf + out->len - len;
}

/* ---- scalars ------------------------------------------------------------------------------- */

/* The first prefix_len bytes of prefix, text with CR and LF as spaces, CRLF. */
static void write_line(struct resp_out *out, const char *prefix, size_t prefix_len,
                       const char *text, size_t len)
{
    if (!reserve(out, add_size(prefix_len + 2, len)))
        return;
    char *to = out->buf + out->len;
    memcpy(to, prefix, prefix_len);
    to += prefix_len;
    for (size_t i = 0; i < len; i++)
        to[i] = text[i] == '\r' || text[i] == '\n' ? ' ' : text[i];
    put_crlf(to + len);
    out->len += prefix_len + len + 2;
}

void resp_write_ok(struct resp_out *out)
{
    WRITE_LITERAL(out, "+OK\r\n");
}

void resp_write_simple(struct resp_out *out, const char *text)
{
    write_line(out, "+", 1, text, strlen(text));
}

void resp_write_simple_n(struct resp_out *out, const char *text, size_t len)
{
    write_line(out, "+", 1, text, len);
}

void resp_write_int(struct resp_out *out, int64_t value)
{
    if (value >= 0) {
        write_header(out, ':', (uint64_t)value);
        return;
    }
    char line[HEADER_MAX];
    line[0] = ':';
    size_t n = 1 + number_from_int(value, line + 1);
    put_crlf(line + n);
    resp_write_raw(out, line, n + 2);
}

char *resp_write_bulk_space(struct resp_out *out, size_t len)
{
    if (!reserve(out, add_size(header_size(len) + 2, len)))
        return NULL;
    size_t header = put_header(out->buf + out->len, '$', len);
    char *data = out->buf + out->len + header;
    put_crlf(data + len);
    out->len += header + len + 2;
    return data;
}

void resp_write_bulk(struct resp_out *out, const char *data, size_t len)
{
    char *to = resp_write_bulk_space(out, len);
    if (to != NULL && len > 0)
        memcpy(to, data, len);
}

void resp_write_bulk_str(struct resp_out *out, const char *text)
{
    resp_write_bulk(out, text, strlen(text));
}

void resp_write_bulk_int(struct resp_out *out, int64_t value)
{
    char digits[NUMBER_INT_MAX];
    resp_write_bulk(out, digits, number_from_int(value, digits));
}

void resp_write_null(struct resp_out *out)
{
    if (out->version == 2)
        WRITE_LITERAL(out, "$-1\r\n");
    else
        WRITE_LITERAL(out, "_\r\n");
}

void resp_write_null_array(struct resp_out *out)
{
    if (out->version == 2)
        WRITE_LITERAL(out, "*-1\r\n");
    else
        WRITE_LITERAL(out, "_\r\n");
}

void resp_write_bool(struct resp_out *out, bool value)
{
    if (out->version == 2)
        write_header(out, ':', value);
    else if (value)
        WRITE_LITERAL(out, "#t\r\n");
    else
        WRITE_LITERAL(out, "#f\r\n");
}

void resp_write_double(struct resp_out *out, double value)
{
    char text[NUMBER_DOUBLE_MAX];
    size_t len = number_from_double(value, text);
    if (out->version == 2)
        resp_write_bulk(out, text, len);
    else
        write_line(out, ",", 1, text, len);
}

void resp_write_bignum(struct resp_out *out, const char *digits, size_t len)
{
    if (out->version == 2)
        resp_write_bulk(out, digits, len);
    else
        write_line(out, "(", 1, digits, len);
}

void resp_write_verbatim(struct resp_out *out, const char *ext, const char *text, size_t len)
{
    RESP_CHECK(strlen(ext) == 3);
    if (out->version == 2) {
        resp_write_bulk(out, text, len);
        return;
    }
    if (!reserve(out, add_size(header_size(add_size(len, 4)) + 6, len)))
        return;
    char *to = out->buf + out->len;
    size_t n = put_header(to, '=', len + 4);
    memcpy(to + n, ext, 3);
    to[n + 3] = ':';
    if (len > 0)
        memcpy(to + n + 4, text, len);
    put_crlf(to + n + 4 + len);
    out->len += n + len + 6;
}

/* ---- errors -------------------------------------------------------------------------------- */

void resp_write_error_n(struct resp_out *out, const char *text, size_t len)
{
    while (len > 0 && (text[0] == '\r' || text[0] == '\n')) {
        text++;
        len--;
    }
    while (len > 0 && (text[len - 1] == '\r' || text[len - 1] == '\n'))
        len--;
    bool has_code = len > 0 && text[0] == '-';
    write_line(out, "-ERR ", has_code ? 0 : 5, text, len);
}

void resp_write_error(struct resp_out *out, const char *text)
{
    resp_write_error_n(out, text, strlen(text));
}

void resp_write_errorf(struct resp_out *out, const char *format, ...)
{
    char text[ERROR_FORMAT_MAX];
    va_list arguments;
    va_start(arguments, format);
    int printed = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    RESP_CHECK(printed >= 0);
    size_t len = (size_t)printed;
    resp_write_error_n(out, text, len < sizeof(text) ? len : sizeof(text) - 1);
}

void resp_write_protocol_error(struct resp_out *out, const struct resp_parser *p)
{
    char text[RESP_ERROR_TEXT_MAX];
    size_t len = resp_parser_error(p, text);
    resp_write_error_n(out, text, len);
}

/* ---- aggregates ---------------------------------------------------------------------------- */

void resp_write_array(struct resp_out *out, uint64_t n)
{
    write_header(out, '*', n);
}

void resp_write_map(struct resp_out *out, uint64_t n)
{
    if (out->version == 2)
        write_header(out, '*', 2 * n);
    else
        write_header(out, '%', n);
}

void resp_write_set(struct resp_out *out, uint64_t n)
{
    write_header(out, out->version == 2 ? '*' : '~', n);
}

void resp_write_push(struct resp_out *out, uint64_t n)
{
    write_header(out, out->version == 2 ? '*' : '>', n);
}

size_t resp_defer(struct resp_out *out)
{
    size_t mark = out->len;
    if (reserve(out, DEFERRED))
        out->len += DEFERRED;
    return mark;
}

static void close_deferred(struct resp_out *out, size_t mark, char type, uint64_t n)
{
    if (out->status != 0)
        return; /* the place may never have been kept */
    RESP_CHECK(mark + DEFERRED <= out->len);
    char header[HEADER_MAX];
    size_t size = put_header(header, type, n);
    if (!reserve(out, size - DEFERRED))
        return;
    char *at = out->buf + mark;
    if (size > DEFERRED) {
        memmove(at + size, at + DEFERRED, out->len - mark - DEFERRED);
        out->len += size - DEFERRED;
    }
    memcpy(at, header, size);
}

void resp_defer_array(struct resp_out *out, size_t mark, uint64_t n)
{
    close_deferred(out, mark, '*', n);
}

void resp_defer_map(struct resp_out *out, size_t mark, uint64_t n)
{
    if (out->version == 2)
        close_deferred(out, mark, '*', 2 * n);
    else
        close_deferred(out, mark, '%', n);
}

void resp_defer_set(struct resp_out *out, size_t mark, uint64_t n)
{
    close_deferred(out, mark, out->version == 2 ? '*' : '~', n);
}
