/* repetitions: how often a test repeats what is of the same kind.
 *
 * `make test` sets TARRY_TEST_SHORT=1. ctest, `make check` and `make test-all` run all repetitions. */
#ifndef TARRY_TESTS_REPETITIONS_H
#define TARRY_TESTS_REPETITIONS_H

#include <stdint.h>
#include <stdlib.h>

/* Returns `in_short` in a short run, else `all`. */
static inline uint64_t repetitions(uint64_t all, uint64_t in_short)
{
    return getenv("TARRY_TEST_SHORT") ? in_short : all;
}

#endif
