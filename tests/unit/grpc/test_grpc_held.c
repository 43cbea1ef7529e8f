/* The leases of a stream. */
#include "grpc/held.h"

#include "unit/claim.h"

#include <stdio.h>

static struct slice numbered(char text[16], int number)
{
    return slice_make(text, (size_t)snprintf(text, 16, "L%d", number));
}

static struct held filled(int count)
{
    struct held held = {0};
    char text[16];
    for (int i = 0; i < count; i++)
        assert_true(held_add(&held, numbered(text, i), (uint64_t)i * 10));
    return held;
}

CLAIM(a_settled_lease_is_removed)
{
    struct held held = filled(100);
    char text[16];
    for (int i = 99; i >= 0; i -= 2)
        held_remove(&held, numbered(text, i));
    held_remove(&held, slice_of("other"));
    assert_int_equal(held.count, 50);
    for (int i = 0; i < 50; i++)
        assert_true(slice_equals(held_text(&held.leases[i]), numbered(text, 2 * i)));
    held_fini(&held);
}

CLAIM(leases_of_jobs_that_were_not_written_are_removed)
{
    struct held held = filled(10);
    held_cut(&held, 45);
    assert_int_equal(held.count, 5);
    held_cut(&held, 0);
    assert_int_equal(held.count, 1);
    held_fini(&held);
    assert_int_equal(held.count, 0);
}

CLAIM(the_oldest_leases_are_forgotten_beyond_the_limit)
{
    struct held held = filled(HELD_MAX + 5);
    char text[16];
    assert_int_equal(held.count, HELD_MAX);
    assert_true(slice_equals(held_text(&held.leases[0]), numbered(text, 5)));
    held_fini(&held);
}

CLAIMS_MAIN(NULL, NULL)
