#include "base/trouble.h"

#include "base/clock.h"

#include "unit/cases.h"
#include "unit/claim.h"

enum { NOW_MS = 1000000 };

CLAIM(lasts_from_the_first_failure_to_the_next_success)
{
    clock_fake_start(NOW_MS, NOW_MS);
    assert_int_equal(trouble_lasts_ms(TROUBLE_MERGE), 0);
    trouble_note(TROUBLE_MERGE, 2, true);
    clock_fake_advance(5000);
    trouble_note(TROUBLE_MERGE, 2, true);
    assert_int_equal(trouble_party_lasts_ms(TROUBLE_MERGE, 2), 5001);
    assert_int_equal(trouble_party_lasts_ms(TROUBLE_MERGE, 1), 0);
    trouble_note(TROUBLE_MERGE, 1, false); /* of another party */
    assert_int_equal(trouble_lasts_ms(TROUBLE_MERGE), 5001);
    trouble_note(TROUBLE_MERGE, 2, false);
    assert_int_equal(trouble_lasts_ms(TROUBLE_MERGE), 0);
    clock_fake_end();
}

CLAIM(a_single_call_counts_for_a_minute)
{
    clock_fake_start(NOW_MS, NOW_MS);
    trouble_note_call(TROUBLE_DATABASE_CALLS, 0);
    clock_fake_advance(TROUBLE_HOLD_MS);
    assert_int_equal(trouble_lasts_ms(TROUBLE_DATABASE_CALLS), TROUBLE_HOLD_MS + 1);
    clock_fake_advance(1);
    assert_int_equal(trouble_lasts_ms(TROUBLE_DATABASE_CALLS), 0);
    trouble_note_call(TROUBLE_DATABASE_CALLS, 0);
    assert_int_equal(trouble_lasts_ms(TROUBLE_DATABASE_CALLS), 1);
    clock_fake_advance(50000);
    trouble_note_call(TROUBLE_DATABASE_CALLS, 0);
    clock_fake_advance(50000);
    assert_int_equal(trouble_lasts_ms(TROUBLE_DATABASE_CALLS), 100001);
    clock_fake_end();
}

CLAIMS_MAIN(NULL, NULL)
