#include "unit/cases.h"

#include "base/frequency.h"

static void reads_its_own_output(void **state)
{
    static const struct {
        const char *text, *shown; /* NULL: invalid */
    } rows[] = {
        {"1000/s", "1000/s"},
        {"90/m", "90/m"},
        {"1/h", "1/h"},
        {"7", "7/s"},
        {"0/s", NULL},
        {"", NULL},
        {"/s", NULL},
        {"5/d", NULL},
        {"5/", NULL},
        {"-5/s", NULL},
        {"5 /s", NULL},
        {"1000000001", NULL},
        {"1000000000/s", "1000000000/s"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct frequency read = {0};
        struct buffer shown;
        assert_int_equal(frequency_parse(slice_of(rows[i].text), &read), rows[i].shown != NULL);
        assert_true(frequency_is_valid(read));
        if (!rows[i].shown)
            continue;
        buffer_init(&shown, 64);
        frequency_emit(&shown, read);
        assert_true(slice_is(buffer_slice(&shown), rows[i].shown));
        buffer_fini(&shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_its_own_output)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
