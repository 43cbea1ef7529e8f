/* claim: what must hold for every input, in every build. */
#ifndef TARRY_TESTS_CLAIM_H
#define TARRY_TESTS_CLAIM_H

#include <stdio.h>
#include <stdlib.h>

#define CLAIM(SENTENCE, CONDITION)                                                                 \
    do {                                                                                           \
        if (!(CONDITION)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s: %s\n", __FILE__, __LINE__, (SENTENCE),      \
                    #CONDITION);                                                                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
