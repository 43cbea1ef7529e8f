/* cases: tables of cases. Each row has a sentence that describes it; a failing row is
 * named by it. */
#ifndef TARRY_TESTS_CASES_H
#define TARRY_TESTS_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT_OF(TABLE) (sizeof(TABLE) / sizeof(TABLE)[0])

#define CASE_HOLDS(SENTENCE, CONDITION)                                                            \
    do {                                                                                           \
        if (!(CONDITION))                                                                          \
            fail_msg("%s: %s", (SENTENCE), #CONDITION);                                            \
    } while (0)

#endif
