/*
 * shrink.h - makes a failing stream short: leaves operations out as long as it still fails.
 */
#ifndef PANDO_TESTS_LMDB_SHRINK_H
#define PANDO_TESTS_LMDB_SHRINK_H

#include "tests/lmdb/child.h"

struct shrunk {
    struct stream stream;
    size_t *numbers; /* of its operations in the stream that it was made of */
    unsigned tries;
    bool again; /* the stream that was given failed once more */
    char assertion[ASSERTION_LEN], text[REPORT_TEXT]; /* of the short one's last failure */
};

/* The stream fails at operation number `at`. Any failure counts, not only the first one's. */
void shrink(struct shrunk *s, struct child *c, const struct stream *stream, size_t at,
            enum fault fault);
void shrunk_free(struct shrunk *s);

/* A stream of those operations of another whose numbers are given. */
int stream_select(struct stream *s, const struct stream *of, const size_t *numbers, size_t n);

/* In words, with the numbers as the option --only takes them. */
void shrunk_print(const struct shrunk *s);

#endif
