/* scratch: the directories that tests make and remove. */
#ifndef TARRY_TESTS_SCRATCH_H
#define TARRY_TESTS_SCRATCH_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCRATCH_BYTES = 64, SCRATCH_PATH_BYTES = SCRATCH_BYTES + 32 };

/* The directory of a program whose claims share one. */
static char scratch_root[SCRATCH_BYTES];

/* Returns TMPDIR, or /tmp if it is unset or longer than the tests have room for. */
static inline const char *scratch(void)
{
    const char *below = getenv("TMPDIR");

    return below && *below && strlen(below) < 32 ? below : "/tmp";
}

/* Makes a directory and writes its path. */
static inline bool scratch_make(char path[SCRATCH_BYTES])
{
    snprintf(path, SCRATCH_BYTES, "%s/tarry-test-XXXXXX", scratch());
    return mkdtemp(path) != NULL;
}

/* Removes a directory with all below it. Returns 0 on success. */
static inline int scratch_remove(const char *path)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    return system(command);
}

/* Setup and teardown of a program: CLAIMS_MAIN(scratch_setup, scratch_teardown). */
static inline int scratch_setup(void **state)
{
    (void)state;
    return scratch_make(scratch_root) ? 0 : -1;
}

static inline int scratch_teardown(void **state)
{
    (void)state;
    return scratch_remove(scratch_root);
}

#endif
