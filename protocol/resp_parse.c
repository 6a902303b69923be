/*
 * Requests: incremental parsing of multibulk arrays and inline commands.
 *
 * Invariants:
 *  1. The outcome depends on the bytes alone, not on how they were split over calls. Where Redis
 *     itself depends on it (a line longer than 64 KiB that arrives in one read), the strict reading
 *     holds: a line end must be among the first 65,537 bytes.
 *  2. Nothing understood is looked at again, with one exception: when a request that took several
 *     calls is complete, its headers (not its bulks) are walked once more to make the slices, since
 *     the leftover may have moved between calls. So a request costs time linear in its size, and a
 *     connection in the middle of one keeps no slices.
 *  3. Every length is checked against limits when it is declared; memory grows only with arguments
 *     that have arrived.
 *  4. An error is final: the parser answers the same again until it is reset.
 *
 * Kept as in redis-server 7.0 (networking.c; each is a case of tests/unit/test_resp_parse.c): a
 * header line ends at CR and whatever single byte follows; the two bytes behind a bulk are not
 * looked at; a NUL in a line hides its end, so that the line runs into the 64 KiB limit; the type
 * byte of a bulk is checked only when its line is complete.
 *
 * Threads: a parser belongs to one thread at a time. Crash: nothing is kept.
 */
#include <string.h>

#include "protocol/check.h"
#include "protocol/number.h"
#include "protocol/resp_internal.h"

enum parse_error {
    NO_ERROR,
    BAD_COUNT,
    BAD_TYPE,
    BAD_BULK,
    LONG_COUNT,
    LONG_BULK,
    LONG_INLINE,
    UNAUTH_COUNT,
    UNAUTH_BULK,
    QUOTES,
    REQUEST_SIZE,
};

static const char *const error_texts[] = {
    [BAD_COUNT] = "invalid multibulk length",
    [BAD_TYPE] = "expected '$', got '?'",
    [BAD_BULK] = "invalid bulk length",
    [LONG_COUNT] = "too big mbulk count string",
    [LONG_BULK] = "too big bulk count string",
    [LONG_INLINE] = "too big inline request",
    [UNAUTH_COUNT] = "unauthenticated multibulk length",
    [UNAUTH_BULK] = "unauthenticated bulk length",
    [QUOTES] = "unbalanced quotes in request",
};

const char *resp_status_text(int status)
{
    switch (status) {
    case RESP_OK:
        return "ok";
    case RESP_NEED_MORE:
        return "the request is not complete";
    case RESP_EPROTO:
        return "protocol error";
    case RESP_EREQUEST_SIZE:
        return "the request is larger than client-query-buffer-limit";
    case RESP_ENOMEM:
        return "out of memory";
    case RESP_EOUT_LIMIT:
        return "the reply is larger than the output limit";
    case RESP_ENUMBER:
        return "not a number, or out of range";
    default:
        return "unknown status";
    }
}

void resp_limits_init(struct resp_limits *limits)
{
    *limits = (struct resp_limits){
        .max_bulk = RESP_DEFAULT_MAX_BULK,
        .max_args = RESP_DEFAULT_MAX_ARGS,
        .max_request = RESP_DEFAULT_MAX_REQUEST,
        .authenticated = true,
    };
}

void resp_parser_reset(struct resp_parser *p)
{
    *p = (struct resp_parser){0};
}

uint64_t resp_parser_need(const struct resp_parser *p)
{
    return p->have_bulk ? p->pos + p->bulk + 2 : p->pos + p->scan + 1;
}

size_t resp_parser_error(const struct resp_parser *p, char buf[RESP_ERROR_TEXT_MAX])
{
    static const char prefix[] = "Protocol error: ";
    RESP_CHECK(p->error != NO_ERROR && p->error != REQUEST_SIZE);
    const char *text = error_texts[p->error];
    size_t len = strlen(text);
    RESP_CHECK(sizeof(prefix) + len <= RESP_ERROR_TEXT_MAX);
    memcpy(buf, prefix, sizeof(prefix) - 1);
    memcpy(buf + sizeof(prefix) - 1, text, len + 1);
    len += sizeof(prefix) - 1;
    if (p->error == BAD_TYPE)
        buf[len - 2] = p->error_char;
    return len;
}

static int fail(struct resp_parser *p, enum parse_error error)
{
    p->error = (uint8_t)error;
    return error == REQUEST_SIZE ? RESP_EREQUEST_SIZE : RESP_EPROTO;
}

/* Finds the line end mark behind p->pos; too_long is the error for a line without one. */
static int find_line_end(struct resp_parser *p, const char *buf, size_t len, char mark,
                         enum parse_error too_long, size_t *at)
{
    size_t available = len - p->pos;
    size_t window = available > RESP_MAX_INLINE ? RESP_MAX_INLINE + 1 : available;
    if (!p->nul_in_line && p->scan < window) {
        const char *from = buf + p->pos + p->scan;
        const char *hit = memchr(from, mark, window - p->scan);
        size_t span = hit != NULL ? (size_t)(hit - from) : window - p->scan;
        p->nul_in_line = memchr(from, '\0', span) != NULL;
        p->scan += span;
        if (hit != NULL && !p->nul_in_line) {
            *at = (size_t)(hit - buf);
            return 0;
        }
    }
    return available > RESP_MAX_INLINE ? fail(p, too_long) : RESP_NEED_MORE;
}

/* The next thing begins at pos. */
static void advance(struct resp_parser *p, size_t pos)
{
    p->pos = pos;
    p->scan = 0;
}

/*
 * The common shape of a header: type, one to nine digits without a leading zero, CR, one more byte.
 * Anything else is left to the careful way. Returns the header's size, or 0.
 */
static inline size_t quick_header(const char *s, size_t len, char type, uint64_t *value)
{
    size_t stop = len < 11 ? len : 11;
    if (stop < 4 || s[0] != type || (s[1] == '0' && s[2] != '\r'))
        return 0;
    uint64_t v = 0;
    size_t i = 1;
    for (; i < stop; i++) {
        unsigned digit = (unsigned char)s[i] - (unsigned)'0';
        if (digit > 9)
            break;
        v = v * 10 + digit;
    }
    if (i == 1 || i + 1 >= len || s[i] != '\r')
        return 0;
    *value = v;
    return i + 2;
}

/* "*N": sets argc and args_left; N <= 0 leaves them 0. */
static int read_count(struct resp_parser *p, const struct resp_limits *limits, const char *buf,
                      size_t len)
{
    uint64_t quick;
    int64_t count;
    size_t next = quick_header(buf, len, '*', &quick);
    if (next != 0) {
        count = (int64_t)quick;
    } else {
        size_t at = 0;
        int rc = find_line_end(p, buf, len, '\r', LONG_COUNT, &at);
        if (rc != 0)
            return rc;
        if (at + 1 == len)
            return RESP_NEED_MORE;
        if (number_to_int(buf + 1, at - 1, &count) != 0)
            return fail(p, BAD_COUNT);
        next = at + 2;
    }
    if (count > INT32_MAX || (count > 0 && (uint64_t)count > limits->max_args))
        return fail(p, BAD_COUNT);
    if (count > (int64_t)RESP_UNAUTH_MAX_ARGS && !limits->authenticated)
        return fail(p, UNAUTH_COUNT);
    advance(p, next);
    p->argc = count > 0 ? (uint32_t)count : 0;
    p->args_left = p->argc;
    return 0;
}

/* "$N" at pos. */
static int read_bulk_length(struct resp_parser *p, const struct resp_limits *limits,
                            const char *buf, size_t len)
{
    uint64_t bulk;
    size_t size = quick_header(buf + p->pos, len - p->pos, '$', &bulk);
    size_t next = p->pos + size;
    if (size == 0) {
        size_t at = 0;
        int64_t value;
        int rc = find_line_end(p, buf, len, '\r', LONG_BULK, &at);
        if (rc != 0)
            return rc;
        if (at + 1 == len)
            return RESP_NEED_MORE;
        if (buf[p->pos] != '$') {
            p->error_char = buf[p->pos];
            return fail(p, BAD_TYPE);
        }
        if (number_to_int(buf + p->pos + 1, at - p->pos - 1, &value) != 0 || value < 0)
            return fail(p, BAD_BULK);
        bulk = (uint64_t)value;
        next = at + 2;
    }
    if (bulk > limits->max_bulk)
        return fail(p, BAD_BULK);
    if (bulk > RESP_UNAUTH_MAX_BULK && !limits->authenticated)
        return fail(p, UNAUTH_BULK);
    if (next + bulk + 2 > limits->max_request)
        return fail(p, REQUEST_SIZE);
    advance(p, next);
    p->bulk = bulk;
    p->have_bulk = true;
    return 0;
}

/* Goes through the bulks that are left, appending them to args unless that is NULL. */
static int read_bulks(struct resp_parser *p, const struct resp_limits *limits, const char *buf,
                      size_t len, struct resp_args *args)
{
    while (p->args_left > 0) {
        if (!p->have_bulk) {
            int rc = read_bulk_length(p, limits, buf, len);
            if (rc != 0)
                return rc;
        }
        if (len - p->pos < p->bulk + 2)
            return RESP_NEED_MORE;
        if (args != NULL && resp_args_push(args, buf + p->pos, p->bulk) != 0)
            return RESP_ENOMEM;
        p->pos += p->bulk + 2;
        p->have_bulk = false;
        p->args_left--;
    }
    return 0;
}

/* Where the bytes behind the header line at pos begin; *value is its number. Known to be valid. */
static size_t walk_header(const char *buf, size_t end, size_t pos, uint64_t *value)
{
    uint64_t v = 0;
    for (pos++; pos < end && buf[pos] != '\r'; pos++)
        v = v * 10 + (uint64_t)(buf[pos] - '0');
    *value = v;
    return pos + 2;
}

/* The slices of a complete request of which parts were read in earlier calls (invariant 2). */
static int collect(const struct resp_parser *p, const char *buf, struct resp_args *args)
{
    uint64_t count, bulk;
    size_t pos = walk_header(buf, p->pos, 0, &count);
    for (uint32_t i = 0; i < p->argc; i++) {
        pos = walk_header(buf, p->pos, pos, &bulk);
        /* Fails if the caller lost or changed bytes of the leftover. */
        RESP_CHECK(pos <= p->pos && bulk + 2 <= p->pos - pos);
        if (resp_args_push(args, buf + pos, bulk) != 0)
            return RESP_ENOMEM;
        pos += bulk + 2;
    }
    RESP_CHECK(count == p->argc && pos == p->pos);
    return 0;
}

/* One multibulk request at buf; on success *used is its size. */
static int parse_multibulk(struct resp_parser *p, const struct resp_limits *limits, const char *buf,
                           size_t len, struct resp_args *args, size_t *used)
{
    size_t before = args->n;
    int rc = p->argc == 0 ? read_count(p, limits, buf, len) : 0;
    if (rc == 0) {
        bool whole = p->args_left == p->argc;
        rc = read_bulks(p, limits, buf, len, whole ? args : NULL);
        if (rc == 0 && !whole)
            rc = collect(p, buf, args);
    }
    if (rc != 0) {
        args->n = before;
        return rc;
    }
    *used = p->pos;
    resp_parser_reset(p);
    return 0;
}

/* One line at buf; on success *used is its size with the line end. */
static int parse_inline(struct resp_parser *p, const struct resp_limits *limits, const char *buf,
                        size_t len, struct resp_args *args, size_t *used)
{
    size_t at = 0;
    int rc = find_line_end(p, buf, len, '\n', LONG_INLINE, &at);
    if (rc != 0)
        return rc;
    if (at + 1 > limits->max_request)
        return fail(p, REQUEST_SIZE);
    rc = resp_split_line(buf, at > 0 && buf[at - 1] == '\r' ? at - 1 : at, args);
    if (rc != 0)
        return rc == RESP_EPROTO ? fail(p, QUOTES) : rc;
    *used = at + 1;
    resp_parser_reset(p);
    return 0;
}

int resp_parse(struct resp_parser *p, const struct resp_limits *limits, const char *buf, size_t len,
               struct resp_args *args, struct resp_request *req, size_t *used)
{
    *used = 0;
    if (p->error != NO_ERROR)
        return fail(p, (enum parse_error)p->error);
    size_t first = args->n;
    while (*used < len) {
        const char *at = buf + *used;
        size_t size = 0;
        RESP_CHECK(p->pos <= len - *used);
        int rc = *at == '*' ? parse_multibulk(p, limits, at, len - *used, args, &size)
                            : parse_inline(p, limits, at, len - *used, args, &size);
        if (rc != 0)
            return rc;
        *used += size;
        if (args->n > first) {
            *req = (struct resp_request){first, args->n - first};
            return RESP_OK;
        }
    }
    return RESP_NEED_MORE;
}
