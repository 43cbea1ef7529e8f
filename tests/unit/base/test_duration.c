#include "base/duration.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

#define DAY_MS INT64_C(86400000)
#define TEN_YEARS_MS (3653 * DAY_MS)

CLAIM(reads_common_spellings)
{
    static const struct {
        const char *text;
        int64_t ms;
        const char *sentence;
    } rows[] = {
        {"0", 0, "nothing at all"},
        {"000", 0, "nothing, however long"},
        {"0007ms", 7, "zeroes in front do not matter"},
        {"1500ms", 1500, "milliseconds"},
        {"30s", 30000, "seconds"},
        {"30m", 1800000, "minutes"},
        {"2h", 7200000, "hours"},
        {"7d", 7 * DAY_MS, "days"},
        {"2h30m", 9000000, "two units"},
        {"1d2h3m4s5ms", DAY_MS + 7384005, "all units"},
        {"1d5ms", DAY_MS + 5, "units may be left out"},
        {"90m", 5400000, "a unit may hold more than the next one takes"},
        {"0s", 0, "none of a unit"},
        {"1.5s", 1500, "a fraction"},
        {"0.5d", DAY_MS / 2, "a fraction of a day"},
        {"1h0.5m", 3630000, "a fraction in the last part"},
        {"0.0001s", 1, "part of a millisecond counts as a whole one"},
        {"1.0000s", 1000, "a fraction of zeroes adds nothing"},
        {"0.000000001d", 1, "nine digits of fraction"},
        {"0.999999999d", DAY_MS, "rounding up reaches the whole"},
        {"1.1ms", 2, "a fraction of a millisecond"},
        {"3653d", TEN_YEARS_MS, "as long as is allowed"},
        {"PT30M", 1800000, "as ISO 8601 writes minutes"},
        {"P1DT2H", DAY_MS + 7200000, "days and hours"},
        {"P1DT2H3M4S", DAY_MS + 7384000, "all of its units"},
        {"P2W", 14 * DAY_MS, "weeks"},
        {"P1W1D", 8 * DAY_MS, "weeks and days"},
        {"P7D", 7 * DAY_MS, "days alone"},
        {"PT0S", 0, "none of a unit"},
        {"PT90M", 5400000, "more than the next unit takes"},
        {"PT1.5S", 1500, "a fraction"},
        {"PT1,5S", 1500, "a fraction as ISO prefers it"},
        {"P0.5D", DAY_MS / 2, "a fraction of a day"},
        {"PT1H0.5M", 3630000, "a fraction in the last part"},
        {"PT0.0001S", 1, "rounded up too"},
        {"P3653D", TEN_YEARS_MS, "as long as is allowed"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t ms = -1;
        CASE_HOLDS(rows[i].sentence, duration_parse(slice_of(rows[i].text), TEN_YEARS_MS, &ms));
        CASE_HOLDS(rows[i].sentence, ms == rows[i].ms);
    }
}

CLAIM(refuses_everything_else)
{
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"", "nothing"},
        {"s", "a unit without a number"},
        {"-1s", "a sign"},
        {"+1s", "a sign"},
        {" 1s", "a blank in front"},
        {"1s ", "a blank behind"},
        {"1 s", "a blank between"},
        {"1m2h", "units in rising order"},
        {"1s1s", "a unit twice"},
        {"1h30", "a number without a unit after one with"},
        {"1.5h30m", "a fraction before the last part"},
        {"1.5", "a fraction of a bare number: of what?"},
        {".5s", "a fraction without its whole"},
        {"1.s", "a point without a fraction"},
        {"1..5s", "two points"},
        {"0.0000000001d", "ten digits of fraction"},
        {"1w", "a unit there is not"},
        {"1M", "a unit in capitals"},
        {"1msec", "a unit with something behind it"},
        {"1e3s", "an exponent"},
        {"0x10", "hexadecimal"},
        {"3653d1ms", "a millisecond too long"},
        {"3654d", "a day too long"},
        {"250", "a number without a unit: seconds or milliseconds?"},
        {"9223372036854775808", "a number beyond 63 bits"},
        {"106751991168d", "days that overflow"},
        {"99999999999999999999999999s", "digits without end"},
        {"P", "ISO without anything"},
        {"PT", "a T without a time"},
        {"P1DT", "a T with nothing behind it"},
        {"P1M", "a month, which has no length"},
        {"P1Y", "a year, which has no length"},
        {"P1H", "hours before the T"},
        {"PT1D", "days behind it"},
        {"PT1W", "weeks behind it"},
        {"PT1M2H", "units in rising order"},
        {"PT1S1S", "a unit twice"},
        {"P1D1W", "days before weeks"},
        {"PT1.5H30M", "a fraction before the last part"},
        {"P0.5DT1H", "a fraction before the T"},
        {"PT1.S", "a point without a fraction"},
        {"PT.5S", "a fraction without its whole"},
        {"PT30", "a number without its unit"},
        {"PTM", "a unit without a number"},
        {"pt30m", "small letters"},
        {"-PT30M", "a sign"},
        {"P-1D", "a sign within"},
        {"PT1ST1S", "two Ts"},
        {"P1D T1H", "a blank"},
        {"PT30m", "a small unit"},
        {"P3653DT0.001S", "a millisecond too long"},
        {"P99999999999999999999D", "digits without end"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t ms = -1;
        CASE_HOLDS(rows[i].sentence, !duration_parse(slice_of(rows[i].text), TEN_YEARS_MS, &ms));
        CASE_HOLDS(rows[i].sentence, ms == -1);
    }
}

CLAIM(only_a_bare_number_lacks_its_unit)
{
    static const struct {
        const char *text;
        bool lacks;
    } rows[] = {{"30", true},           {"1", true},
                {"007", true},          {"0", false},
                {"000", false},         {"", false},
                {"30s", false},         {"1.5", false},
                {"soon", false},        {"PT30M", false},
                {"fixed:10", true},     {"exp:1..10m", true},
                {"exp:1s..10", true},   {"list:1s,10", true},
                {"list:10s,1m", false}, {"list:1s,10,1m", true},
                {"exp:1s..10m", false}, {"fixed:0", false},
                {"none", false}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].text, duration_lacks_unit(slice_of(rows[i].text)) == rows[i].lacks);
}

CLAIM(keeps_to_any_limit_exactly)
{
    struct random random = seed_random("keeps_to_any_limit_exactly");
    static const char *const texts[] = {"5ms",    "1s",    "1.001s", "PT1.001S",
                                        "P1DT1S", "1m1ms", "1d",     "9223372036854775807ms"};

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        int64_t ms = 0, again = 0;
        assert_true(duration_parse(slice_of(texts[i]), INT64_MAX, &ms));
        CASE_HOLDS(texts[i], duration_parse(slice_of(texts[i]), ms, &again) && again == ms);
        CASE_HOLDS(texts[i], !duration_parse(slice_of(texts[i]), ms - 1, &again));
        int64_t less = (int64_t)random_below(&random, (uint64_t)ms);
        CASE_HOLDS(texts[i], !duration_parse(slice_of(texts[i]), less, &again));
    }
}

CLAIM(writes_the_larger_units_first)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {{0, "0"},           {1, "1ms"},           {999, "999ms"},   {1500, "1500ms"},
                {30000, "30s"},     {61500, "1m1500ms"},  {90000, "1m30s"}, {9000000, "2h30m"},
                {7 * DAY_MS, "7d"}, {DAY_MS + 1, "1d1ms"}};
    struct buffer out;

    buffer_init(&out, 100);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        buffer_clear(&out);
        duration_emit(&out, rows[i].ms);
        CASE_HOLDS(rows[i].text, slice_is(buffer_slice(&out), rows[i].text));
    }
    buffer_fini(&out);
}

CLAIM(reads_its_own_output)
{
    struct random random = seed_random("reads_its_own_output");
    struct buffer out;

    buffer_init(&out, 100);
    for (int i = 0; i < 100000; i++) {
        int64_t ms = (int64_t)(random_next(&random) >> (1 + random_below(&random, 63)));
        if (random_below(&random, 2))
            ms -= ms % 1000;
        int64_t again = -1;
        buffer_clear(&out);
        duration_emit(&out, ms);
        assert_true(duration_parse(buffer_slice(&out), INT64_MAX, &again));
        assert_int_equal(again, ms);
    }
    buffer_fini(&out);
}

CLAIMS_MAIN(NULL, NULL)
