#include "base/peak.h"

#include "unit/cases.h"
#include "unit/claim.h"

#define SECOND INT64_C(1000000)

CLAIM(returns_the_maximum_of_the_last_minute)
{
    struct peak peak = {0};
    const int64_t at = 5000 * SECOND;
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

CLAIM(a_reused_slot_starts_empty)
{
    struct peak peak = {0};
    const int64_t round = PEAK_SLOTS * (int64_t)PEAK_SLOT_US;
    peak_note(&peak, 900, round);
    peak_note(&peak, 5, 2 * round);
    assert_int_equal(peak_of_minute(&peak, 2 * round), 5);
}

CLAIM(values_above_the_limit_count_as_the_limit)
{
    struct peak peak = {0};
    peak_note(&peak, UINT64_MAX, SECOND);
    assert_int_equal(peak_of_minute(&peak, SECOND), UINT32_MAX);
    assert_int_equal(counter_get(&peak.greatest), UINT32_MAX);
}

CLAIMS_MAIN(NULL, NULL)
