/*
 * histogram.h - counts of durations in buckets whose width grows with the value, as HdrHistogram's:
 * every power of two is cut into 128 equal parts, so a value is known to better than 1 %.
 *
 * Values are nanoseconds up to about 18 minutes; longer ones count as that.
 */
#ifndef PANDO_BENCH_HISTOGRAM_H
#define PANDO_BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_PART_BITS 7u
#define HISTOGRAM_TOP_BIT   40u
#define HISTOGRAM_BUCKETS   ((HISTOGRAM_TOP_BIT - HISTOGRAM_PART_BITS + 1u) << HISTOGRAM_PART_BITS)

struct histogram {
    uint64_t count, max;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_clear(struct histogram *h);
void histogram_add(struct histogram *h, uint64_t value);
/* The value that `share` (0..1) of all counted ones do not exceed: its bucket's upper end. */
uint64_t histogram_quantile(const struct histogram *h, double share);
/* The smallest and largest value that counts in a bucket. */
uint64_t histogram_low(unsigned bucket);
uint64_t histogram_high(unsigned bucket);

#endif
