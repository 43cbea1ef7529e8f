/* measure: the duration of something, and a line that prints it. */
#ifndef TARRY_BENCH_MEASURE_H
#define TARRY_BENCH_MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

static inline int64_t measure_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void measure_print(const char *what, size_t count, int64_t since_ns)
{
    double each_ns = (double)(measure_ns() - since_ns) / (double)count;

    printf("%-36s %10zu  %8.1f ns each  %9.2f million/s\n", what, count, each_ns, 1e3 / each_ns);
}

#endif
