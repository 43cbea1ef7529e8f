/* short_memory: every allocation of the program fails while a flag is set, on any thread. A test that includes it is linked so that its
 * allocations come here (tests/CMakeLists.txt). */
#ifndef TARRY_TESTS_SHORT_MEMORY_H
#define TARRY_TESTS_SHORT_MEMORY_H

#include "unit/stand_before.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static atomic_bool memory_is_short;
static atomic_long allocations_refused;

static bool is_refused(void)
{
    if (!atomic_load(&memory_is_short))
        return false;
    atomic_fetch_add(&allocations_refused, 1);
    errno = ENOMEM;
    return true;
}

STANDS_BEFORE_MEMORY(is_refused())

#endif
