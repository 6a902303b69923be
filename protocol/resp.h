/*
 * RESP2 and RESP3: bytes <-> messages. Pure functions over memory; no sockets, threads or storage.
 *
 * Reading requests
 *
 *     struct resp_args args;             per thread: arguments of the requests in hand
 *
 *     struct resp_parser parser;         per connection: 40 bytes, initially zero
 *
 *     resp_args_reset(&args);
 *     while (off < len) {
 *         rc = resp_parse(&parser, &limits, buf + off, len - off, &args, &req, &used);
 *         off += used;
 *         if (rc != RESP_OK)
 *             break;                     after RESP_NEED_MORE keep buf[off..len)
 *         run(args.v + req.first, req.argc);
 *     }
 *
 * On RESP_NEED_MORE the caller keeps the unused bytes, appends what arrives later (anywhere in
 * memory: positions are kept as offsets) and calls again with the same parser. What was looked at
 * is not looked at again, so a request costs time linear in its size however it is split, and the
 * result never depends on how it was split.
 *
 * Writing replies: struct resp_out, further down.
 *
 * Threads: nothing here is shared; each object belongs to one thread at a time.
 */
#ifndef PANDO_PROTOCOL_RESP_H
#define PANDO_PROTOCOL_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum resp_status {
    RESP_OK = 0,
    RESP_NEED_MORE = -1,     /* the bytes end inside a request */
    RESP_EPROTO = -2,        /* malformed: answer resp_write_protocol_error, then close */
    RESP_EREQUEST_SIZE = -3, /* larger than limits.max_request: close without an answer */
    RESP_ENOMEM = -4,
    RESP_EOUT_LIMIT = -5, /* a reply would exceed resp_out.limit */
    RESP_ENUMBER = -6,    /* not a number in the strict sense of number.h */
};

/* A short English text for a status, for logs. */
const char *resp_status_text(int status);

/* ---- Requests ------------------------------------------------------------------------------ */

/* Bytes of the input, or of a block owned by struct resp_args. Not NUL-terminated. */
struct resp_arg {
    const char *data;
    size_t len;
};

struct resp_block;

/* Arguments of one or more requests, one after the other. All zeros is an empty one. */
struct resp_args {
    struct resp_arg *v;
    size_t n;
    size_t cap;
    struct resp_block *blocks; /* unquoted text of inline requests */
};

/* Forgets all arguments; keeps the vector for reuse unless it has grown beyond 64 Ki entries. */
void resp_args_reset(struct resp_args *args);
void resp_args_free(struct resp_args *args);

/* What clients may send. Checked when a length is declared; nothing is allocated from it. */
struct resp_limits {
    uint64_t max_bulk;    /* proto-max-bulk-len, bytes */
    uint64_t max_args;    /* arguments in one request */
    uint64_t max_request; /* client-query-buffer-limit: bytes of one request with its framing */
    bool authenticated;   /* false: at most 10 arguments of at most 16 KiB (multibulk only) */
};

#define RESP_MAX_INLINE          65536u     /* longest inline request, and header line */
#define RESP_UNAUTH_MAX_ARGS     10u        /* before authentication */
#define RESP_UNAUTH_MAX_BULK     16384u     /* before authentication */
#define RESP_DEFAULT_MAX_BULK    536870912u /* 512 MiB */
#define RESP_DEFAULT_MAX_ARGS    1048576u   /* redis-server 7.0 itself stops at 2^31 - 1 */
#define RESP_DEFAULT_MAX_REQUEST (1u << 30)

/* Fills in the defaults above, authenticated = true. */
void resp_limits_init(struct resp_limits *limits);

/* How far a connection's current request has been understood. Fields are private. */
struct resp_parser {
    uint64_t pos;  /* offset, from the request's first byte, of what has not been understood */
    uint64_t bulk; /* length of the bulk at pos if have_bulk */
    uint64_t scan; /* bytes from pos on that hold no line end */
    uint32_t args_left;
    uint32_t argc; /* declared by the multibulk header; 0 if that has not been read */
    bool have_bulk;
    bool nul_in_line;
    uint8_t error;
    char error_char;
};

struct resp_request {
    size_t first; /* index of the command's name in args->v */
    size_t argc;  /* at least 1 */
};

/*
 * Takes one request from buf[0..len) and appends its arguments to args.
 *
 * RESP_OK: req says where the arguments are (an index: args->v may move when more is appended);
 * used is the offset just behind the request. The slices point into buf and live as long as it
 * does. Empty requests (blank lines, "*0", "*-1") are skipped, as Redis does. RESP_NEED_MORE: bytes
 * before used are done with; keep those from used on and call again when there are more than
 * before. args is unchanged. RESP_EPROTO, RESP_EREQUEST_SIZE: the connection cannot go on; used is
 * where the request began. RESP_ENOMEM: nothing was taken; the call may be repeated.
 *
 * limits may differ from call to call. A connection that is not authenticated yet must execute each
 * request before it parses the next, since AUTH changes the limits that hold for it.
 */
int resp_parse(struct resp_parser *p, const struct resp_limits *limits, const char *buf, size_t len,
               struct resp_args *args, struct resp_request *req, size_t *used);

/* Back to the initial state (a reused connection). */
void resp_parser_reset(struct resp_parser *p);

/*
 * After RESP_NEED_MORE: calling resp_parse with fewer bytes than this (counted from the leftover's
 * first byte) would only give RESP_NEED_MORE again. At least 1. The peer chose it: a hint for when
 * to look again, never a size to allocate.
 */
uint64_t resp_parser_need(const struct resp_parser *p);

/*
 * After RESP_EPROTO: the text without the error code, as redis-server words it, e.g.
 * "Protocol error: expected '$', got 'x'". Written to buf NUL-terminated; returns its length.
 */
#define RESP_ERROR_TEXT_MAX 64
size_t resp_parser_error(const struct resp_parser *p, char buf[RESP_ERROR_TEXT_MAX]);

/*
 * Splits a line into arguments by the rules of inline requests (also those of redis.conf): blanks
 * separate, a NUL ends the line; "..." with \n \r \t \b \a \xHH \c, '...' with \' ; a closing quote
 * must be followed by a blank or the end. Appends to args; returns 0, RESP_EPROTO for unbalanced
 * quotes, RESP_ENOMEM (in both cases args->n is as before). The slices point into line or into
 * args' blocks.
 */
int resp_split_line(const char *line, size_t len, struct resp_args *args);

/* ---- Replies ------------------------------------------------------------------------------- */

/*
 * An append-only buffer of replies, reused from reply to reply. Writers return nothing: the first
 * failure (memory, limit) is kept in status, later writes do nothing, and whoever sends the buffer
 * asks once. What was written before a failure may end inside a reply: resp_out_truncate cuts it.
 */
struct resp_out {
    char *buf;
    size_t len;
    size_t cap;   /* bytes allocated */
    size_t end;   /* bytes usable: min(cap, limit) */
    size_t limit; /* most bytes that may be held */
    int status;   /* 0, RESP_ENOMEM or RESP_EOUT_LIMIT */
    int version;  /* 2 or 3; may be changed at any time (HELLO) */
};

/* version 2, no limit, nothing allocated. */
void resp_out_init(struct resp_out *out);
void resp_out_free(struct resp_out *out);

/* Empties the buffer and the status, for a connection that speaks version; SIZE_MAX: no limit. */
void resp_out_begin(struct resp_out *out, int version, size_t limit);

/* Gives memory beyond keep bytes back; for a buffer that a huge reply has passed through. */
void resp_out_shrink(struct resp_out *out, size_t keep);

/* Cuts back to len bytes (at most out->len) and clears the status: takes half a reply back. */
void resp_out_truncate(struct resp_out *out, size_t len);

/* Bytes that may still be written before the limit. */
size_t resp_out_room(const struct resp_out *out);

/* What is written is shown as RESP2 | RESP3 where they differ. */
void resp_write_ok(struct resp_out *out); /* +OK */
/* +text; CR and LF become spaces. */
void resp_write_simple(struct resp_out *out, const char *text);
void resp_write_simple_n(struct resp_out *out, const char *text, size_t len);
/* :value */
void resp_write_int(struct resp_out *out, int64_t value);
/* $len data */
void resp_write_bulk(struct resp_out *out, const char *data, size_t len);
void resp_write_bulk_str(struct resp_out *out, const char *text);
void resp_write_bulk_int(struct resp_out *out, int64_t value);
void resp_write_null(struct resp_out *out);             /* $-1 | _ */
void resp_write_null_array(struct resp_out *out);       /* *-1 | _ */
void resp_write_bool(struct resp_out *out, bool value); /* :1 or :0 | #t or #f */
/* bulk | ,value (as number_from_double) */
void resp_write_double(struct resp_out *out, double value);
/* bulk | (digits */
void resp_write_bignum(struct resp_out *out, const char *digits, size_t len);
/* bulk | =len ext:text; ext has three characters, "txt" or "mkd" */
void resp_write_verbatim(struct resp_out *out, const char *ext, const char *text, size_t len);

/*
 * An error. A text that begins with '-' brings its own code ("-NOAUTH ..."), any other gets the
 * code ERR. CR and LF at either end are cut, inside they become spaces: no text can break the
 * framing.
 */
void resp_write_error(struct resp_out *out, const char *text);
void resp_write_error_n(struct resp_out *out, const char *text, size_t len);
/* Texts longer than 1,023 bytes are cut. */
void resp_write_errorf(struct resp_out *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void resp_write_protocol_error(struct resp_out *out, const struct resp_parser *p);

/* Headers; the caller writes the n elements (map: n pairs). RESP2 knows arrays only. */
void resp_write_array(struct resp_out *out, uint64_t n); /* *n */
void resp_write_map(struct resp_out *out, uint64_t n);   /* *2n | %n */
void resp_write_set(struct resp_out *out, uint64_t n);   /* *n | ~n */
void resp_write_push(struct resp_out *out, uint64_t n);  /* *n | >n */

/*
 * An aggregate whose length is known only behind its elements: mark = resp_defer(out), elements,
 * resp_defer_array(out, mark, n). May be nested, closed inside out. Closing moves the elements by
 * the few bytes by which the header differs from "*n\r\n"; none for up to nine elements.
 */
size_t resp_defer(struct resp_out *out);
void resp_defer_array(struct resp_out *out, size_t mark, uint64_t n);
void resp_defer_map(struct resp_out *out, size_t mark, uint64_t n);
void resp_defer_set(struct resp_out *out, size_t mark, uint64_t n);

/*
 * A bulk that the caller fills in: returns where its len bytes belong (until the next write), with
 * header and CRLF in place; NULL after a failure.
 */
char *resp_write_bulk_space(struct resp_out *out, size_t len);

/* Bytes that are RESP already (a stored reply). */
void resp_write_raw(struct resp_out *out, const char *data, size_t len);
/* The same, filled in by the caller: where the len bytes belong (until the next write); NULL after
 * a failure. */
char *resp_write_raw_space(struct resp_out *out, size_t len);

#endif
