/*
 * claim: a unit test that registers itself. Its name is a claim about the code.
 *
 *   CLAIM(never_fires_early)
 *   {
 *       …
 *   }
 *
 *   CLAIMS_MAIN(NULL, NULL)
 *
 * CLAIM_BETWEEN(name, setup, teardown) has its own setup and teardown, CLAIMS_MAIN those of all
 * claims of the program; NULL: no setup. Both are functions of cmocka with the parameter `state`, as the
 * claim itself. Claims run in the order of their lines.
 */
#ifndef TARRY_TESTS_CLAIM_H
#define TARRY_TESTS_CLAIM_H

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { CLAIMS_MAX = 100 }; /* of a program */

static struct CMUnitTest claims[CLAIMS_MAX];
static int claim_lines[CLAIMS_MAX];
static size_t claim_count;

/* Adds a claim before those of later lines; constructors of a file run in any order. */
static inline void claim_add(int line, struct CMUnitTest claim)
{
    size_t at = claim_count++;
    assert(at < CLAIMS_MAX);
    for (; at > 0 && claim_lines[at - 1] > line; at--) {
        claims[at] = claims[at - 1];
        claim_lines[at] = claim_lines[at - 1];
    }
    claims[at] = claim;
    claim_lines[at] = line;
}

#define CLAIM(NAME) CLAIM_BETWEEN(NAME, NULL, NULL)

#define CLAIM_BETWEEN(NAME, SETUP, TEARDOWN)                                                       \
    static void NAME(void **state);                                                                \
    __attribute__((constructor)) static void claim_##NAME(void)                                    \
    {                                                                                              \
        claim_add(__LINE__, (struct CMUnitTest){#NAME, NAME, SETUP, TEARDOWN, NULL});              \
    }                                                                                              \
    static void NAME(__attribute__((unused)) void **state)

#define CLAIMS_MAIN(SETUP, TEARDOWN)                                                               \
    int main(void)                                                                                 \
    {                                                                                              \
        return _cmocka_run_group_tests("claims", claims, claim_count, SETUP, TEARDOWN);            \
    }

#endif
