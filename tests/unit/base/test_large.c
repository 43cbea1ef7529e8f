#include "base/large.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool is_mapped(const void *at)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return msync((void *)((uintptr_t)at / page * page), 1, MS_ASYNC) == 0 || errno != ENOMEM;
}

CLAIM(bytes_survive_each_growth)
{
    static const size_t sizes[] = {
        1, 4096, LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + 1, 3 * LARGE_BYTES, 50 * LARGE_BYTES};
    unsigned char *at = NULL;
    size_t bytes = 0;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        at = large_grow(at, bytes, sizes[i]);
        assert_non_null(at);
        for (size_t k = 0; k < bytes; k += 997)
            assert_int_equal(at[k], (unsigned char)(k / 997));
        bytes = sizes[i];
        for (size_t k = 0; k < bytes; k += 997)
            at[k] = (unsigned char)(k / 997);
        at[bytes - 1] = at[bytes - 1]; /* the last byte belongs to it */
    }
    large_free(at, bytes);
}

CLAIM(a_failed_growth_changes_nothing)
{
    char *small = large_grow(NULL, 0, 10), *large;
    memcpy(small, "123456789", 10);
    assert_null(large_grow(small, 10, SIZE_MAX / 4));
    assert_string_equal(small, "123456789");
    large = large_grow(small, 10, 2 * LARGE_BYTES);
    assert_null(large_grow(large, 2 * LARGE_BYTES, SIZE_MAX / 4));
    assert_string_equal(large, "123456789");
    large_free(large, 2 * LARGE_BYTES);
}

CLAIM(shrinking_frees_only_the_end)
{
    char *at = large_grow(NULL, 0, 8 * LARGE_BYTES + 5);
    memset(at, 7, 8 * LARGE_BYTES + 5);
    large_shrink(at, 8 * LARGE_BYTES + 5, 2 * LARGE_BYTES);
    assert_int_equal(at[2 * LARGE_BYTES - 1], 7);
    assert_false(is_mapped(at + 4 * LARGE_BYTES));
    large_shrink(at, 2 * LARGE_BYTES, 2 * LARGE_BYTES);
    assert_true(is_mapped(at));
    large_free(at, 2 * LARGE_BYTES);
    large_free(NULL, 0);
}

CLAIMS_MAIN(NULL, NULL)
