/*
 * merge_builtin.c - the operators that every store has.
 *
 * Numbers are signed, of 64 bits, little endian: a value of another length is PS_MISMATCH, an
 * operand PS_INVALID. Where there is no value, the operand becomes it.
 *
 * Threads: any; pure.
 */
#include "storage/merge.h"

/* What there is (0: nothing) and the operand as numbers. */
static int numbers(const struct ps_slice *old, struct ps_slice operand, int64_t *a, int64_t *b)
{
    *a = 0;
    if (operand.len != sizeof *b) {
        return PS_INVALID;
    }
    memcpy(b, operand.data, sizeof *b);
    if (old != NULL && old->len != sizeof *a) {
        return PS_MISMATCH;
    }
    if (old != NULL) {
        memcpy(a, old->data, sizeof *a);
    }
    return 0;
}

static int give(struct ps_merged *result, int64_t number)
{
    void *room = ps_merged_room(result, sizeof number);
    memcpy(room, &number, sizeof number); /* so little is always there */
    return 0;
}

static int add(void *arg, const struct ps_slice *old, struct ps_slice operand,
               struct ps_merged *result)
{
    int64_t a, b, sum;
    (void)arg;
    int rc = numbers(old, operand, &a, &b);
    if (rc == 0 && __builtin_add_overflow(a, b, &sum)) {
        rc = PS_OVERFLOW;
    }
    return rc == 0 ? give(result, sum) : rc;
}

static int add_saturating(void *arg, const struct ps_slice *old, struct ps_slice operand,
                          struct ps_merged *result)
{
    int64_t a, b, sum;
    (void)arg;
    int rc = numbers(old, operand, &a, &b);
    if (rc == 0 && __builtin_add_overflow(a, b, &sum)) {
        sum = b < 0 ? INT64_MIN : INT64_MAX;
    }
    return rc == 0 ? give(result, sum) : rc;
}

static int least(void *arg, const struct ps_slice *old, struct ps_slice operand,
                 struct ps_merged *result)
{
    int64_t a, b;
    (void)arg;
    int rc = numbers(old, operand, &a, &b);
    return rc == 0 ? give(result, old == NULL || b < a ? b : a) : rc;
}

static int most(void *arg, const struct ps_slice *old, struct ps_slice operand,
                struct ps_merged *result)
{
    int64_t a, b;
    (void)arg;
    int rc = numbers(old, operand, &a, &b);
    return rc == 0 ? give(result, old == NULL || b > a ? b : a) : rc;
}

static int append(void *arg, const struct ps_slice *old, struct ps_slice operand,
                  struct ps_merged *result)
{
    size_t before = old != NULL ? old->len : 0;
    (void)arg;
    if (operand.len > PS_MAX_VALUE || before > PS_MAX_VALUE - operand.len) {
        return PS_TOOBIG;
    }
    uint8_t *room = ps_merged_room(result, before + operand.len);
    if (room == NULL) {
        return PS_NOMEM;
    }
    if (before > 0) {
        memcpy(room, old->data, before);
    }
    if (operand.len > 0) {
        memcpy(room + before, operand.data, operand.len);
    }
    return 0;
}

/* As long as the longer of the two; the shorter is followed by zeros. */
static int bit_or(void *arg, const struct ps_slice *old, struct ps_slice operand,
                  struct ps_merged *result)
{
    size_t before = old != NULL ? old->len : 0;
    size_t len = before > operand.len ? before : operand.len;
    const uint8_t *bits = operand.data;
    (void)arg;
    if (len > PS_MAX_VALUE) {
        return PS_TOOBIG;
    }
    uint8_t *room = ps_merged_room(result, len);
    if (room == NULL) {
        return PS_NOMEM;
    }
    memset(room + before, 0, len - before);
    if (before > 0) {
        memcpy(room, old->data, before);
    }
    for (size_t i = 0; i < operand.len; i++) {
        room[i] |= bits[i];
    }
    return 0;
}

const struct merge_builtin merge_builtins[] = {
    {"add", add},       {"add-saturating", add_saturating},
    {"min", least},     {"max", most},
    {"append", append}, {"or", bit_or},
};
const unsigned merge_nbuiltins = sizeof merge_builtins / sizeof *merge_builtins;
