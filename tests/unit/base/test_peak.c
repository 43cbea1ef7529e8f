#include "base/peak.h"

#include "unit/cases.h"

#define SECOND INT64_C(1000000)

static void returns_the_maximum_of_the_last_minute(void **state)
{
    struct peak peak = {0};
    const int64_t at = 5000 * SECOND;
    (void)state;
    assert_int_equal(peak_of_minute(&peak, at), 0);
    peak_note(&peak, 700, at);
    peak_note(&peak, 20, at + 1);
    peak_note(&peak, 300, at + 30 * SECOND);
    assert_int_equal(peak_of_minute(&peak, at + 30 * SECOND), 700);
    assert_int_equal(peak_of_minute(&peak, at + 60 * SECOND), 700);
    assert_int_equal(peak_of_minute(&peak, at + 70 * SECOND), 300);
    assert_int_equal(peak_of_minute(&peak, at + 100 * SECOND), 0);
    assert_int_equal(counter_get(&peak.greatest), 700);
}

static void a_reused_slot_starts_empty(void **state)
{
    struct peak peak = {0};
    const int64_t round = PEAK_SLOTS * (int64_t)PEAK_SLOT_US;
    (void)state;
    peak_note(&peak, 900, round);
    peak_note(&peak, 5, 2 * round);
    assert_int_equal(peak_of_minute(&peak, 2 * round), 5);
}

static void values_above_the_limit_count_as_the_limit(void **state)
{
    struct peak peak = {0};
    (void)state;
    peak_note(&peak, UINT64_MAX, SECOND);
    assert_int_equal(peak_of_minute(&peak, SECOND), UINT32_MAX);
    assert_int_equal(counter_get(&peak.greatest), UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(returns_the_maximum_of_the_last_minute),
        cmocka_unit_test(a_reused_slot_starts_empty),
        cmocka_unit_test(values_above_the_limit_count_as_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
