/*
 * histogram.c - buckets of growing width.
 *
 * Invariants:
 *  1 Values below 2^PART_BITS have a bucket each; above, bucket = (exponent, next PART_BITS bits).
 *  2 The buckets follow one another without gaps: high(b) + 1 == low(b + 1).
 */
#include "bench/support/histogram.h"

#include <string.h>

#define PARTS (1u << HISTOGRAM_PART_BITS)

static unsigned bucket_of(uint64_t value)
{
    if (value < PARTS) {
        return (unsigned)value;
    }
    if (value >= UINT64_C(1) << HISTOGRAM_TOP_BIT) {
        return HISTOGRAM_BUCKETS - 1;
    }
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_PART_BITS;
    return ((shift + 1) << HISTOGRAM_PART_BITS) + (unsigned)((value >> shift) - PARTS);
}

void histogram_clear(struct histogram *h)
{
    memset(h, 0, sizeof(*h));
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->buckets[bucket_of(value)]++;
    h->count++;
    h->max = value > h->max ? value : h->max;
}

uint64_t histogram_low(unsigned bucket)
{
    if (bucket < PARTS) {
        return bucket;
    }
    unsigned shift = (bucket >> HISTOGRAM_PART_BITS) - 1;
    return (uint64_t)(PARTS + (bucket & (PARTS - 1))) << shift;
}

uint64_t histogram_high(unsigned bucket)
{
    return histogram_low(bucket + 1) - 1;
}

uint64_t histogram_quantile(const struct histogram *h, double share)
{
    uint64_t seen = 0;
    double wanted = share * (double)h->count;
    for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++) {
        seen += h->buckets[b];
        if (seen > 0 && (double)seen >= wanted) {
            uint64_t high = histogram_high(b);
            return high < h->max ? high : h->max;
        }
    }
    return h->max;
}
