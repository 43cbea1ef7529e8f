/* seed: the source of randomness of a test. Printed, and repeated with TARRY_TEST_SEED. */
#ifndef TARRY_TESTS_SEED_H
#define TARRY_TESTS_SEED_H

#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static inline struct random seed_random(const char *test)
{
    const char *given = getenv("TARRY_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : random_u64();

    printf("%s: TARRY_TEST_SEED=%" PRIu64 "\n", test, seed);
    fflush(stdout);
    return (struct random){.state = seed};
}

#endif
