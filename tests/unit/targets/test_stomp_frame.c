/* Frames of STOMP 1.2, and URLs of its brokers. */
#include "targets/stomp/connection.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>

#define TEXT(LITERAL) LITERAL, sizeof(LITERAL) - 1

static struct stomp_frame frame;
static char bytes[256 * 1024];
static size_t used;
static const char *why;

static enum stomp_read read_text(const char *text, size_t len)
{
    assert_true(len <= sizeof bytes);
    memcpy(bytes, text, len);
    used = 0;
    why = "";
    return stomp_frame_read(bytes, len, &frame, &used, &why);
}

CLAIM(a_frame_is_read)
{
    static const char text[] = "RECEIPT\r\nreceipt-id:a\\cb\\\\\\n\\r\nreceipt-id:late\n\nbo\0next";
    assert_int_equal(read_text(TEXT(text)), STOMP_FRAME);
    assert_int_equal(used, sizeof text - 1 - 4);
    assert_true(slice_is(frame.command, "RECEIPT"));
    assert_int_equal(frame.header_count, 2);
    assert_true(slice_is(stomp_frame_header(&frame, "receipt-id"), "a:b\\\n\r"));
    assert_true(slice_is(frame.body, "bo"));
    assert_null(stomp_frame_header(&frame, "none").at);
}

CLAIM(a_body_with_a_length_may_hold_anything)
{
    assert_int_equal(read_text(TEXT("ERROR\ncontent-length:4\n\na\0\nb\0")), STOMP_FRAME);
    assert_true(slice_equals(frame.body, slice_make("a\0\nb", 4)));
    assert_int_equal(read_text(TEXT("ERROR\ncontent-length:4\n\na\0\nbc\0")), STOMP_BROKEN);
}

CLAIM(connected_is_not_escaped)
{
    assert_int_equal(read_text(TEXT("CONNECTED\nserver:a\\b\\c\n\n\0")), STOMP_FRAME);
    assert_true(slice_is(stomp_frame_header(&frame, "server"), "a\\b\\c"));
}

CLAIM(every_part_of_a_frame_is_not_enough)
{
    static const char text[] = "ERROR\nmessage:x\\cy\ncontent-length:2\n\nab\0";
    for (size_t len = 0; len < sizeof text - 1; len++)
        assert_int_equal(read_text(text, len), STOMP_MORE);
    assert_int_equal(read_text(TEXT(text)), STOMP_FRAME);
}

CLAIM(line_ends_between_frames_are_heart_beats)
{
    assert_int_equal(read_text(TEXT("\nRECEIPT")), STOMP_HEART_BEAT);
    assert_int_equal(used, 1);
    assert_int_equal(read_text(TEXT("\r\n")), STOMP_HEART_BEAT);
    assert_int_equal(used, 2);
    assert_int_equal(read_text(TEXT("\r")), STOMP_MORE);
}

CLAIM(invalid_frames_are_rejected)
{
    static const struct {
        const char *sentence, *text;
    } cases[] = {
        {"a command is in capitals", "receipt\n\n"},
        {"HTTP is none", "HTTP/1.1 400 Bad Request\r\n\r\n"},
        {"a header has a colon", "ERROR\nmessage\n\n"},
        {"a header has a name", "ERROR\n:x\n\n"},
        {"an escape is known", "ERROR\nmessage:\\t\n\n"},
        {"an escape is whole", "ERROR\nmessage:\\\n\n"},
        {"a length is a number", "ERROR\ncontent-length:-1\n\n"},
        {"a length is bounded", "ERROR\ncontent-length:65537\n\n"},
        {"a carriage return does not stand alone", "\rERROR\n\n"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CASE_HOLDS(cases[i].sentence,
                   read_text(cases[i].text, strlen(cases[i].text)) == STOMP_BROKEN);
        CASE_HOLDS(cases[i].sentence, why[0]);
    }
}

CLAIM(a_peer_cannot_make_it_grow)
{
    static char text[STOMP_HEAD_BYTES_MAX + STOMP_BODY_BYTES_MAX + 100];
    memset(text, 'A', sizeof text);
    assert_int_equal(read_text(text, STOMP_HEAD_BYTES_MAX - 1), STOMP_MORE);
    assert_int_equal(read_text(text, STOMP_HEAD_BYTES_MAX), STOMP_BROKEN);
    memcpy(text, "ERROR\n\n", 7);
    assert_int_equal(read_text(text, 7 + STOMP_BODY_BYTES_MAX), STOMP_MORE);
    assert_int_equal(read_text(text, 7 + STOMP_BODY_BYTES_MAX + 1), STOMP_BROKEN);
    size_t len = (size_t)snprintf(text, sizeof text, "ERROR\n");
    for (int i = 0; i <= STOMP_HEADERS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "h%d:x\n", i);
    text[len++] = '\n';
    text[len++] = 0;
    assert_int_equal(read_text(text, len), STOMP_BROKEN);
}

CLAIM(a_written_catalog_is_read_again)
{
    struct buffer out;
    buffer_init(&out, 4096);
    stomp_emit_command(&out, "SEND");
    stomp_emit_header(&out, slice_of("destination"), slice_of("/queue/a:b\\c\r\nd"));
    stomp_emit_header(&out, slice_of("content-length"), slice_of("3"));
    stomp_emit_body(&out, slice_make("a\0b", 3));
    assert_int_equal(read_text(out.at, out.len), STOMP_FRAME);
    assert_int_equal(used, out.len);
    assert_true(slice_is(stomp_frame_header(&frame, "destination"), "/queue/a:b\\c\r\nd"));
    assert_true(slice_equals(frame.body, slice_make("a\0b", 3)));
    size_t before = out.len;
    assert_false(stomp_emit_plain_header(&out, "passcode", slice_of("a\nb")));
    assert_int_equal(out.len, before);
    buffer_fini(&out);
}

CLAIM(heart_beats_are_two_numbers)
{
    int64_t sends = -1, wants = -1;
    assert_true(stomp_frame_heart_beat(slice_of("0,20000"), &sends, &wants));
    assert_int_equal(sends, 0);
    assert_int_equal(wants, 20000);
    assert_false(stomp_frame_heart_beat(slice_of("1"), &sends, &wants));
    assert_false(stomp_frame_heart_beat(slice_of("1,"), &sends, &wants));
    assert_false(stomp_frame_heart_beat(slice_of("1,2,3"), &sends, &wants));
    assert_false(stomp_frame_heart_beat((struct slice){0}, &sends, &wants));
}

CLAIM(places_are_read)
{
    static const struct {
        const char *url, *host, *virtual_host, *origin;
    } cases[] = {
        {"stomp://mq", "mq", "", "stomp://mq:61613"},
        {"stomp://mq/", "mq", "", "stomp://mq:61613"},
        {"stomps://mq.example", "mq.example", "", "stomps://mq.example:61614"},
        {"stomps://mq.example.", "mq.example", "", "stomps://mq.example:61614"},
        {"stomp://mq:7000/%2F", "mq", "/", "stomp://mq:7000"},
        {"stomp://[::1]:7000/shop", "::1", "shop", "stomp://[::1]:7000"},
        {"stomp://a,b:7000/shop", "a", "shop", "stomp://a:61613"},
    };
    struct stomp_place place;
    char error[TARGET_ERROR_BYTES];
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CASE_HOLDS(cases[i].url, stomp_place_parse(slice_of(cases[i].url), &place, error));
        CASE_HOLDS(cases[i].url, !strcmp(place.at.at[0].host, cases[i].host));
        CASE_HOLDS(cases[i].url, !strcmp(place.virtual_host, cases[i].virtual_host));
        CASE_HOLDS(cases[i].url, !strcmp(place.at.at[0].origin, cases[i].origin));
    }
}

CLAIM(invalid_places_are_rejected)
{
    static const char *const cases[] = {
        "",
        "stomp:/mq",
        "http://mq",
        "stomp://",
        "stomp://:61613",
        "stomp://m:0",
        "stomp://m:65536",
        "stomp://m:x",
        "stomp://u:p@mq",
        "stomp://mq?a=b",
        "stomp://m/%0a",
        "stomp://m/%zz",
        "stomp://[::1",
        "stomp://[::1]x",
        "stomp://a b",
    };
    struct stomp_place place;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char error[TARGET_ERROR_BYTES] = "";
        CASE_HOLDS(cases[i], !stomp_place_parse(slice_of(cases[i]), &place, error));
        CASE_HOLDS(cases[i], error[0]);
    }
}

CLAIMS_MAIN(NULL, NULL)
