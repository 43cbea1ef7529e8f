/* The buffer: grows, keeps its ceiling, and fails without losing what it holds. */
#include "base/buffer.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <inttypes.h>

CLAIM(holds_appended_bytes)
{
    struct buffer buffer;

    buffer_init(&buffer, 1000);
    buffer_append_text(&buffer, "due ");
    buffer_append(&buffer, "in ", 3);
    buffer_append_u64(&buffer, 30);
    buffer_append_byte(&buffer, ' ');
    buffer_append_slice(&buffer, slice_of("minutes, "));
    buffer_append_format(&buffer, "attempt %d of %s", 1, "16");
    assert_true(slice_is(buffer_slice(&buffer), "due in 30 minutes, attempt 1 of 16"));
    assert_false(buffer.failed);
    buffer_fini(&buffer);
}

CLAIM(never_passes_its_ceiling)
{
    struct buffer buffer;

    for (size_t bytes_max = 0; bytes_max < 300; bytes_max++) {
        buffer_init(&buffer, bytes_max);
        for (size_t i = 0; i < bytes_max; i++)
            buffer_append_byte(&buffer, 'x');
        assert_false(buffer.failed);
        buffer_append_byte(&buffer, 'y');
        assert_true(buffer.failed);
        assert_int_equal(buffer.len, bytes_max);
        assert_true(buffer.cap <= bytes_max);
        buffer_fini(&buffer);
    }
}

CLAIM(keeps_its_content_when_an_append_fails)
{
    struct buffer buffer;

    buffer_init(&buffer, 8);
    buffer_append_text(&buffer, "job-1");
    buffer_append_text(&buffer, "job-2");
    assert_true(buffer.failed);
    assert_true(slice_is(buffer_slice(&buffer), "job-1"));
    buffer_append_text(&buffer, "x");
    assert_true(slice_is(buffer_slice(&buffer), "job-1"));
    assert_null(buffer_reserve(&buffer, 1));
    buffer_clear(&buffer);
    buffer_append_text(&buffer, "job-2");
    assert_true(slice_is(buffer_slice(&buffer), "job-2"));
    buffer_fini(&buffer);
}

CLAIM(a_copy_is_in_the_buffer_even_if_the_append_grows_it)
{
    struct buffer buffer;

    buffer_init(&buffer, 200);
    for (int i = 0; i < 3; i++) {
        struct slice copy = buffer_append_copy(
            &buffer, slice_of("a text of more than sixty-four bytes, which makes the buffer grow"));
        assert_ptr_equal(copy.at + copy.len, buffer.at + buffer.len);
        assert_true(slice_is(copy, "a text of more than sixty-four bytes, which makes the buffer "
                                   "grow"));
    }
    assert_int_equal(buffer_append_copy(&buffer, slice_of("no room")).len, 0);
    buffer_fini(&buffer);
}

CLAIM(refuses_sizes_that_overflow)
{
    struct buffer buffer;

    buffer_init(&buffer, SIZE_MAX);
    buffer_append_text(&buffer, "x");
    assert_null(buffer_reserve(&buffer, SIZE_MAX));
    assert_true(buffer.failed);
    buffer_fini(&buffer);
}

CLAIM(gives_room_of_no_bytes_without_failing)
{
    struct buffer buffer;

    buffer_init(&buffer, 0);
    assert_non_null(buffer_reserve(&buffer, 0));
    buffer_append(&buffer, NULL, 0);
    buffer_append_slice(&buffer, (struct slice){0});
    assert_false(buffer.failed);
    assert_int_equal(buffer.len, 0);
    buffer_fini(&buffer);
}

CLAIM(gives_memory_back_when_shrunk)
{
    struct buffer buffer;

    buffer_init(&buffer, 1 << 20);
    assert_non_null(buffer_reserve(&buffer, 100000));
    buffer_clear_and_trim(&buffer, 4096);
    assert_int_equal(buffer.cap, 4096);
    buffer_append_text(&buffer, "x");
    buffer_clear_and_trim(&buffer, 8192);
    assert_int_equal(buffer.cap, 4096);
    assert_int_equal(buffer.len, 0);
    buffer_clear_and_trim(&buffer, 0);
    assert_int_equal(buffer.cap, 0);
    buffer_append_text(&buffer, "again");
    assert_true(slice_is(buffer_slice(&buffer), "again"));
    buffer_fini(&buffer);
}

CLAIM(formats_text_of_any_length)
{
    struct buffer buffer;
    char text[2000];

    memset(text, 'x', sizeof text);
    buffer_init(&buffer, 1 << 20);
    for (int len = 500; len < 530; len++) {
        buffer_clear(&buffer);
        buffer_append_format(&buffer, "%.*s", len, text);
        assert_true(slice_equals(buffer_slice(&buffer), slice_make(text, (size_t)len)));
    }
    buffer_fini(&buffer);
}

static void check_number(struct buffer *buffer, uint64_t value)
{
    char expected[64];

    buffer_clear(buffer);
    buffer_append_u64(buffer, value);
    buffer_append_byte(buffer, ' ');
    buffer_append_i64(buffer, (int64_t)value);
    snprintf(expected, sizeof expected, "%" PRIu64 " %" PRId64, value, (int64_t)value);
    CASE_HOLDS(expected, slice_is(buffer_slice(buffer), expected));
}

CLAIM(writes_numbers_as_printf_does)
{
    struct random random = seed_random("writes_numbers_as_printf_does");
    struct buffer buffer;

    buffer_init(&buffer, 64);
    for (uint64_t power = 1, i = 0; i < 20; i++, power *= 10) {
        check_number(&buffer, power - 1);
        check_number(&buffer, power);
        check_number(&buffer, power + 1);
    }
    check_number(&buffer, UINT64_MAX);
    check_number(&buffer, INT64_MAX);
    check_number(&buffer, (uint64_t)INT64_MAX + 1);
    for (int i = 0; i < 10000; i++)
        check_number(&buffer, random_next(&random) >> random_below(&random, 64));
    buffer_fini(&buffer);
}

CLAIMS_MAIN(NULL, NULL)
