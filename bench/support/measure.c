/*
 * measure.c - time and processor time; the way out when something is wrong.
 */
#include "bench/support/measure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t measure_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

void measure_begin(struct measure *m)
{
    m->wall_ns = read_clock(CLOCK_MONOTONIC);
    m->cpu_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void measure_end(struct measure *m)
{
    m->wall_ns = read_clock(CLOCK_MONOTONIC) - m->wall_ns;
    m->cpu_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID) - m->cpu_ns;
}

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}
