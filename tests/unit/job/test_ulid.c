/* Ids made by the server. */
#include "job/ulid.h"

#include "job/job.h"
#include "unit/claim.h"

#include <string.h>

#define NOW_MS INT64_C(1469918176385) /* the specification's own example: 01ARYZ6S41 */

CLAIM(a_ulid_begins_with_its_time)
{
    struct ulid ulid;
    char text[ULID_BYTES];

    ulid_init(&ulid, 1);
    ulid_write(&ulid, NOW_MS, text);
    assert_memory_equal(text, "01ARYZ6S41", 10);
    ulid_write(&ulid, (INT64_C(1) << 48) - 1, text);
    assert_memory_equal(text, "7ZZZZZZZZZ", 10);
}

CLAIM(a_ulid_ends_with_its_chance)
{
    struct ulid ulid;
    char text[ULID_BYTES];

    ulid_init(&ulid, 1);
    ulid.ms = (uint64_t)NOW_MS;
    ulid.chance_high = 0;
    ulid.chance_low = 30;
    ulid_write(&ulid, NOW_MS, text);
    assert_memory_equal(text + 10, "000000000000000Z", 16);
    ulid_write(&ulid, NOW_MS, text);
    assert_memory_equal(text + 10, "0000000000000010", 16);
}

CLAIM(ulids_rise_whatever_the_clock_does)
{
    static const int64_t clock_ms[] = {0,      0,      -5,         1, 1,         1,
                                       NOW_MS, NOW_MS, NOW_MS - 1, 3, NOW_MS + 1};
    char last[ULID_BYTES] = {0}, text[ULID_BYTES];
    struct ulid ulid;

    ulid_init(&ulid, 7);
    for (size_t i = 0; i < sizeof clock_ms / sizeof clock_ms[0]; i++)
        for (int again = 0; again < 1000; again++) {
            ulid_write(&ulid, clock_ms[i], text);
            assert_true(memcmp(last, text, ULID_BYTES) < 0);
            assert_true(job_id_is_valid(slice_make(text, ULID_BYTES)));
            memcpy(last, text, ULID_BYTES);
        }
}

CLAIM(ulids_rise_when_chance_overflows)
{
    struct ulid ulid;
    char before[ULID_BYTES], carried[ULID_BYTES], after[ULID_BYTES];

    ulid_init(&ulid, 7);
    ulid_write(&ulid, NOW_MS, before);
    ulid.chance_high = 5;
    ulid.chance_low = UINT64_MAX - 1;
    ulid_write(&ulid, NOW_MS, before);
    ulid_write(&ulid, NOW_MS, carried);
    assert_true(memcmp(before, carried, ULID_BYTES) < 0);
    assert_int_equal(ulid.chance_high, 6);

    ulid.chance_high = UINT16_MAX;
    ulid.chance_low = UINT64_MAX - 1;
    ulid_write(&ulid, NOW_MS, before);
    assert_memory_equal(before + 10, "ZZZZZZZZZZZZZZZZ", 16);
    ulid_write(&ulid, NOW_MS, after);
    assert_true(memcmp(before, after, ULID_BYTES) < 0);
    assert_memory_equal(after, "01ARYZ6S42", 10);
}

CLAIM(the_same_seed_makes_the_same_ulids)
{
    struct ulid a, b, other;
    char text_a[ULID_BYTES], text_b[ULID_BYTES], text_other[ULID_BYTES];

    ulid_init(&a, 42);
    ulid_init(&b, 42);
    ulid_init(&other, 43);
    for (int64_t i = 0; i < 100; i++) {
        ulid_write(&a, NOW_MS + i / 3, text_a);
        ulid_write(&b, NOW_MS + i / 3, text_b);
        ulid_write(&other, NOW_MS + i / 3, text_other);
        assert_memory_equal(text_a, text_b, ULID_BYTES);
        assert_memory_not_equal(text_a, text_other, ULID_BYTES);
    }
}

CLAIMS_MAIN(NULL, NULL)
