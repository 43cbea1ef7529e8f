/* The form of gRPC on the wire: timeouts, messages of errors, frames. */
#include "grpc/frame.h"
#include "grpc/status.h"
#include "grpc/timeout.h"

#include "unit/claim.h"

#include <stdio.h>
#include <string.h>

CLAIM(reads_timeouts)
{
    static const struct {
        const char *text;
        int64_t ms; /* -2: malformed */
    } rows[] = {
        {"", TIMEOUT_NONE}, {"250m", 250},      {"1S", 1000},       {"2M", 120000},
        {"1H", 3600000},    {"3000000u", 3000}, {"1u", 1},          {"1n", 1},
        {"1000001n", 2},    {"0n", 0},          {"0S", 0},          {"99999999H", 359999996400000},
        {"m", -2},          {"250", -2},        {"100000000m", -2}, {"-1m", -2},
        {"1 m", -2},        {"1ms", -2},        {"1s", -2},         {"+1m", -2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t ms = -3;
        bool is_good = timeout_parse(slice_of(rows[i].text), &ms);
        if (is_good != (rows[i].ms != -2) || (is_good && ms != rows[i].ms))
            fail_msg("'%s' gives %d, %lld", rows[i].text, is_good, (long long)ms);
    }
}

CLAIM(a_wait_ends_before_its_deadline)
{
    enum { NONE = 7, MOST = 240000 };
    assert_int_equal(timeout_wait_ms(TIMEOUT_NONE, NONE, MOST), NONE);
    assert_int_equal(timeout_wait_ms(60000, NONE, MOST), 59000);
    assert_int_equal(timeout_wait_ms(2000, NONE, MOST), 1800);
    assert_int_equal(timeout_wait_ms(100, NONE, MOST), 50);
    assert_int_equal(timeout_wait_ms(1, NONE, MOST), 0);
    assert_int_equal(timeout_wait_ms(3600000, NONE, MOST), MOST);
    assert_int_equal(timeout_wait_ms(3600000, NONE, 0), 0);
}

CLAIM(escapes_the_message_of_an_error)
{
    static const struct {
        const char *text, *escaped;
    } rows[] = {
        {"there is no job 'x'", "there is no job 'x'"},
        {"100%", "100%25"},
        {"caf\xc3\xa9", "caf%C3%A9"},
        {"a\r\nb", "a%0D%0Ab"},
        {"", ""},
    };
    struct buffer out;
    buffer_init(&out, 1000);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buffer_clear(&out);
        grpc_message_write(&out, slice_of(rows[i].text));
        assert_int_equal(out.len, strlen(rows[i].escaped));
        assert_memory_equal(out.at, rows[i].escaped, out.len);
    }
    buffer_fini(&out);
}

CLAIM(reads_frames)
{
    static const struct {
        const char *bytes;
        size_t len;
        enum frame_step step;
        size_t used;
    } rows[] = {
        {"", 0, FRAME_MORE, 0},
        {"\0\0\0\0", 4, FRAME_MORE, 0},
        {"\0\0\0\0\0", 5, FRAME_WHOLE, 5},
        {"\0\0\0\0\2ab", 7, FRAME_WHOLE, 7},
        {"\0\0\0\0\2a", 6, FRAME_MORE, 0},
        {"\0\0\0\0\2abc", 8, FRAME_WHOLE, 7},
        {"\0\0\0\0\x65", 5, FRAME_TOO_BIG, 0},
        {"\0\xff\xff\xff\xff", 5, FRAME_TOO_BIG, 0},
        {"\1", 1, FRAME_COMPRESSED, 0},
        {"\2\0\0\0\0", 5, FRAME_MALFORMED, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct slice message;
        size_t used = 0;
        assert_int_equal(frame_next(slice_make(rows[i].bytes, rows[i].len), 100, &message, &used),
                         rows[i].step);
        assert_int_equal(used, rows[i].used);
        if (rows[i].step == FRAME_WHOLE)
            assert_int_equal(message.len, used - FRAME_HEAD_BYTES);
    }
}

CLAIM(writes_a_frame_that_it_reads)
{
    struct buffer out;
    struct slice message;
    size_t used;
    char text[70000];
    memset(text, 'x', sizeof text);
    buffer_init(&out, 1 << 20);
    size_t begin = frame_begin(&out);
    buffer_append(&out, text, sizeof text);
    frame_end(&out, begin);
    assert_int_equal(frame_next(buffer_slice(&out), sizeof text, &message, &used), FRAME_WHOLE);
    assert_int_equal(message.len, sizeof text);
    assert_int_equal(used, out.len);
    buffer_fini(&out);
}

CLAIMS_MAIN(NULL, NULL)
