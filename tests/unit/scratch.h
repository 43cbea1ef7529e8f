/* scratch: the directory below which tests make their own. */
#ifndef TARRY_TESTS_SCRATCH_H
#define TARRY_TESTS_SCRATCH_H

#include <stdlib.h>
#include <string.h>

/* Returns TMPDIR, or /tmp if it is unset or longer than the tests have room for. */
static inline const char *scratch(void)
{
    const char *below = getenv("TMPDIR");

    return below && *below && strlen(below) < 32 ? below : "/tmp";
}

#endif
