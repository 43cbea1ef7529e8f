#include "base/hex.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <string.h>

CLAIM(accepts_every_digit_and_nothing_else)
{
    static const char digits[] = "0123456789abcdef", large[] = "0123456789ABCDEF";
    for (int byte = -128; byte < 128; byte++) {
        const char *at = byte ? strchr(digits, byte) : NULL;
        const char *at_large = byte ? strchr(large, byte) : NULL;
        int value = at ? (int)(at - digits) : at_large ? (int)(at_large - large) : -1;
        assert_int_equal(hex_value((char)byte), value);
    }
}

CLAIM(reads_its_own_output)
{
    static const uint64_t numbers[] = {0, 1, 15, 16, 0x0123456789abcdef, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        char text[16];
        uint64_t number = 77;
        hex_emit_u64(text, numbers[i], 16);
        assert_true(hex_parse_u64(text, 16, &number) && number == numbers[i]);
    }
}

CLAIM(a_number_has_one_spelling)
{
    uint64_t number = 77;
    assert_false(hex_parse_u64("0A", 2, &number));
    assert_false(hex_parse_u64("0g", 2, &number));
    assert_false(hex_parse_u64("-1", 2, &number));
    assert_int_equal(number, 77);
}

/* One digit replaced by each of the 256 bytes, at each position of a block of eight and of a rest. */
CLAIM(one_bad_byte_is_found_at_any_position)
{
    for (size_t at = 0; at < 14; at++)
        for (int byte = 0; byte < 256; byte++) {
            char text[] = "0123456789abcd";
            uint64_t number = 77, expected = 0;
            bool good = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
            text[at] = (char)byte;
            assert_int_equal(hex_parse_u64(text, 14, &number), good);
            for (size_t i = 0; good && i < 14; i++)
                expected = expected << 4 | (uint64_t)hex_value(text[i]);
            assert_true(number == (good ? expected : 77));
        }
}

CLAIM(every_length_is_written_and_read)
{
    for (size_t digits = 1; digits <= 16; digits++) {
        char text[17], expected[17];
        uint64_t value = UINT64_C(0xfedcba9876543210) >> (64 - 4 * digits), number = 0;
        (void)snprintf(expected, sizeof expected, "%0*llx", (int)digits, (unsigned long long)value);
        hex_emit_u64(text, UINT64_C(0xfedcba9876543210) >> (64 - 4 * digits), digits);
        assert_memory_equal(text, expected, digits);
        assert_true(hex_parse_u64(text, digits, &number) && number == value);
    }
}

CLAIM(bytes_have_two_digits_each)
{
    char text[7] = "";
    hex_emit_bytes(text, "\x00\x7f\xff", 3);
    assert_string_equal(text, "007fff");
    unsigned char bytes[4] = "...";
    assert_true(hex_parse_bytes(slice_make(text, 6), bytes, 3));
    assert_memory_equal(bytes, "\x00\x7f\xff", 4);
    assert_false(hex_parse_bytes(slice_make(text, 6), bytes, 4));
    assert_false(hex_parse_bytes(slice_make(text, 6), bytes, 2));
    assert_false(hex_parse_bytes(slice_of("007fFF"), bytes, 3));
}

CLAIMS_MAIN(NULL, NULL)
