/*
 * encode.h - values that are stored compressed.
 *
 * A cell whose value is encoded says so (bit 15 of the key length, node.h). What is stored, in the
 * cell or in a run, then tells by itself what it is, whatever the tree's options say by now:
 *
 *   u8 how: 1 LZ4 block, 2 zstd frame | u32 bytes of the value | the compressed bytes
 *
 *  Z1 Only what is smaller for it by a sixteenth is stored so; all else is stored as it is.
 *  Z2 The length is believed only within PS_MAX_VALUE, if Z1 holds, and within what so many bytes
 *     can become by the rules of the format: so no file and no log makes a reader ask for memory
 * without a bound. Z3 What does not decompress to exactly that length is damage.
 *
 * Threads: encoding is the writer's; decoding anybody's, with a buffer of his own.
 */
#ifndef PANDO_STORAGE_ENCODE_H
#define PANDO_STORAGE_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/pandostore.h"

#define ENCODED_HEAD 5u

struct ps_store;
struct tree_root;
struct ps_view;

/* Memory for one decoded value, or for those of one call. Zeroed: none yet. */
struct decoded {
    uint8_t *at;
    size_t room;
    void *zstd; /* a decompression context; NULL until it is needed */
    /* ps_get_part: the value that is in the buffer */
    const void *of; /* where it is stored; NULL: none */
    uint64_t stamp, changes;
    size_t len;
};

/* What the writer compresses with. Zeroed: nothing yet. */
struct encoder {
    uint8_t *at;
    size_t room;
    void *zstd;
};

/* *encoded: what is to be stored, valid until the next call. *shrank false: the value as it is
 * (Z1), also if there is no memory to compress in. */
void value_encode(struct encoder *e, enum ps_compression how, struct ps_slice value,
                  struct ps_slice *encoded, bool *shrank);
/* Lets go of what is larger than is worth keeping. */
void encoder_trim(struct encoder *e);
void encoder_free(struct encoder *e);

/* Whether an encoded value can be one (Z2); then *len is its length when decoded. */
bool encoded_length(struct ps_slice encoded, uint64_t *len);

/* Room for so many bytes; what was there is gone. PS_NOMEM. */
int decoded_room(struct decoded *d, size_t bytes);
/* Decodes to exactly `len` bytes at `to`. PS_CORRUPT (nothing is recorded), PS_NOMEM. */
int value_decode(struct decoded *d, struct ps_slice encoded, void *to, size_t len);
/* Lets go of what is larger than is worth keeping. */
void decoded_trim(struct decoded *d);
void decoded_free(struct decoded *d);

/* A value as a tree stores it, valid until the next call; whether that is compressed. */
bool store_encode(struct ps_store *store, const struct tree_root *t, struct ps_slice value,
                  struct ps_slice *stored);
/* Replaces an encoded value, in a page or run of the store, by the decoded one in the buffer.
 * PS_CORRUPT names the place; PS_IO: it was lost meanwhile. */
int store_decode(struct ps_store *store, struct decoded *d, struct ps_slice *value);
/* Says that an encoded value is damaged. */
int encoded_damaged(struct ps_store *store, struct ps_slice encoded);

/* Of lookups: what their step answers if the value that was found is encoded. */
#define VALUE_ENCODED 1
/* The same of many lookups whose rc is VALUE_ENCODED: all values are in the view's buffer. */
void lookups_decode(struct ps_view *view, struct ps_lookup *lookups, size_t n);

#endif
