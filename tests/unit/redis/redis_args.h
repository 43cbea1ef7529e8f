/* redis_args: reads the arguments of a call of Redis again. */
#ifndef TARRY_TESTS_REDIS_ARGS_H
#define TARRY_TESTS_REDIS_ARGS_H

#include "base/slice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* The next of Redis' protocol's "$length\r\ntext\r\n". */
static inline struct slice next_arg(struct slice *rest)
{
    char *end;
    size_t bytes;
    struct slice arg;

    assert_true(rest->len > 5 && rest->at[0] == '$');
    bytes = strtoul(rest->at + 1, &end, 10);
    assert_memory_equal(end, "\r\n", 2);
    arg = slice_make(end + 2, bytes);
    assert_memory_equal(arg.at + bytes, "\r\n", 2);
    rest->len -= (size_t)(arg.at + bytes + 2 - rest->at);
    rest->at = arg.at + bytes + 2;
    return arg;
}

#endif
