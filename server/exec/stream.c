/*
 * stream.c - see stream.h. Replies are `base` with values between its bytes.
 */
#include "server/exec/stream.h"

#include <stdlib.h>

struct unit_stream {
    struct resp_out base; /* the replies, with holes */
    size_t base_off;      /* of base, sent */
    size_t hole;          /* of the unit's holes, filled */
    uint64_t hole_off;    /* of the next, filled */
};

/* What the commands wrote becomes the base; pieces take its place in unit->out. */
static int begin(struct unit *unit)
{
    struct unit_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return PS_NOMEM;
    }
    stream->base = unit->out;
    resp_out_init(&unit->out);
    unit->out.version = stream->base.version;
    unit->stream = stream;
    return 0;
}

bool stream_ended(const struct unit *unit)
{
    const struct unit_stream *stream = unit->stream;
    return stream->hole == unit->holes.n && stream->base_off == stream->base.len;
}

static size_t least(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

/* The next stretch of one kind, at most `room` bytes. */
static int add_some(struct unit *unit, const struct keyspace *ks, size_t room)
{
    struct unit_stream *stream = unit->stream;
    const struct reply_hole *hole =
        stream->hole < unit->holes.n ? &unit->holes.v[stream->hole] : NULL;
    size_t end = hole != NULL ? hole->at : stream->base.len;
    if (stream->base_off < end) {
        size_t n = least(end - stream->base_off, room);
        resp_write_raw(&unit->out, stream->base.buf + stream->base_off, n);
        stream->base_off += n;
    } else if (hole != NULL) {
        size_t n = least(hole->len - stream->hole_off, room);
        char *to = resp_write_raw_space(&unit->out, n);
        int rc = to == NULL
                     ? PS_NOMEM
                     : keyspace_chunks_read(ks, ps_snapshot_view(unit->snapshot), hole->db,
                                            &hole->chunks, hole->offset + stream->hole_off, to, n);
        stream->hole_off += n;
        if (stream->hole_off == hole->len) {
            stream->hole++;
            stream->hole_off = 0;
        }
        return rc;
    }
    return unit->out.status != 0 ? PS_NOMEM : 0;
}

int stream_next(struct unit *unit, const struct keyspace *ks)
{
    int rc = unit->stream == NULL ? begin(unit) : 0;
    if (rc == 0) {
        resp_out_begin(&unit->out, unit->out.version, SIZE_MAX);
    }
    while (rc == 0 && !stream_ended(unit) && unit->out.len < STREAM_PIECE) {
        rc = add_some(unit, ks, STREAM_PIECE - unit->out.len);
    }
    return rc;
}

void stream_free(struct unit *unit)
{
    if (unit->stream != NULL) {
        resp_out_free(&unit->stream->base);
        free(unit->stream);
        unit->stream = NULL;
    }
}
