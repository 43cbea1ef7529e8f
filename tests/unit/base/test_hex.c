#include "base/hex.h"

#include "unit/cases.h"

#include <string.h>

static void knows_every_digit_and_nothing_else(void **state)
{
    static const char digits[] = "0123456789abcdef", large[] = "0123456789ABCDEF";
    (void)state;
    for (int byte = -128; byte < 128; byte++) {
        const char *at = byte ? strchr(digits, byte) : NULL;
        const char *at_large = byte ? strchr(large, byte) : NULL;
        int value = at ? (int)(at - digits) : at_large ? (int)(at_large - large) : -1;
        assert_int_equal(hex_value((char)byte), value);
    }
}

static void what_is_written_is_read(void **state)
{
    static const uint64_t numbers[] = {0, 1, 15, 16, 0x0123456789abcdef, UINT64_MAX};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        char text[16];
        uint64_t number = 77;
        hex_emit_u64(text, numbers[i], 16);
        assert_true(hex_parse_u64(text, 16, &number) && number == numbers[i]);
    }
}

static void a_number_has_one_spelling(void **state)
{
    uint64_t number = 77;
    (void)state;
    assert_false(hex_parse_u64("0A", 2, &number));
    assert_false(hex_parse_u64("0g", 2, &number));
    assert_false(hex_parse_u64("-1", 2, &number));
    assert_int_equal(number, 77);
}

static void bytes_have_two_digits_each(void **state)
{
    char text[7] = "";
    (void)state;
    hex_emit_bytes(text, "\x00\x7f\xff", 3);
    assert_string_equal(text, "007fff");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_every_digit_and_nothing_else),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_number_has_one_spelling),
        cmocka_unit_test(bytes_have_two_digits_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
