/* Messages of the NATS protocol, and URLs of its servers. */
#include "targets/nats/connection.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>

#define TEXT(LITERAL) LITERAL, sizeof(LITERAL) - 1

static struct nats_frame frame;
static size_t used;
static const char *why;

static enum nats_read read_text(const char *text, size_t len)
{
    used = 0;
    why = "";
    return nats_frame_read(text, len, &frame, &used, &why);
}

CLAIM(a_message_is_read_with_and_without_headers)
{
    assert_int_equal(read_text(TEXT("MSG _INBOX.a.1 1 5\r\nab\r\nc\r\nPING\r\n")), NATS_FRAME);
    assert_int_equal(used, 27);
    assert_int_equal(frame.verb, NATS_MSG);
    assert_true(slice_is(frame.subject, "_INBOX.a.1"));
    assert_true(slice_is(frame.payload, "ab\r\nc"));
    assert_int_equal(frame.headers.len, 0);
    assert_int_equal(read_text(TEXT("hmsg s 1 reply 16 18\r\nNATS/1.0 503\r\n\r\nhi\r\n")),
                     NATS_FRAME);
    assert_int_equal(nats_headers_status(frame.headers), 503);
    assert_true(slice_is(frame.payload, "hi"));
}

CLAIM(every_part_of_a_message_is_not_enough)
{
    static const char text[] = "HMSG s 1 16 18\r\nNATS/1.0 503\r\n\r\nhi\r\n";
    for (size_t len = 0; len < sizeof text - 1; len++)
        assert_int_equal(read_text(text, len), NATS_MORE);
    assert_int_equal(read_text(TEXT(text)), NATS_FRAME);
}

CLAIM(an_error_is_read_without_its_quotes)
{
    assert_int_equal(read_text(TEXT("-ERR 'Authorization Violation'\r\n")), NATS_FRAME);
    assert_int_equal(frame.verb, NATS_ERROR);
    assert_true(slice_is(frame.text, "Authorization Violation"));
}

CLAIM(invalid_messages_are_rejected)
{
    static const struct {
        const char *text;
    } rows[] = {{"HTTP/1.1 400 Bad Request\r\n"},
                {"MSG s 1\r\n"},
                {"MSG s 1 r x 5\r\n"},
                {"MSG s 1 r x y 5\r\n"},
                {"MSG s 1 -1\r\n"},
                {"MSG s 1 65537\r\n"},
                {"HMSG s 1 9 8\r\n"},
                {"MSG s 1 2\r\nabc\r\n"},
                {"PING\n"},
                {"\r\n"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].text,
                   read_text(rows[i].text, strlen(rows[i].text)) == NATS_BROKEN && *why);
}

CLAIM(a_line_has_an_end_in_time)
{
    static char line[NATS_LINE_BYTES_MAX + 2];
    memset(line, 'a', sizeof line);
    assert_int_equal(read_text(line, NATS_LINE_BYTES_MAX), NATS_MORE);
    assert_int_equal(read_text(line, NATS_LINE_BYTES_MAX + 1), NATS_BROKEN);
}

CLAIM(answers_of_jetstream_are_distinguished)
{
    static const struct {
        const char *json;
        bool is_read, is_stored;
        uint32_t error;
    } rows[] = {
        {"{\"stream\":\"A\",\"seq\":1}", true, true, 0},
        {"{\"stream\":\"A\",\"seq\":7,\"duplicate\":true,\"domain\":\"hub\"}", true, true, 0},
        {"{\"error\":{\"code\":400,\"err_code\":10054,\"description\":\"x\"},\"stream\":\"A\","
         "\"seq\":1}",
         true, false, 10054},
        {"{\"stream\":\"A\",\"seq\":0}", false, false, 0},
        {"{\"seq\":1}", false, false, 0},
        {"{\"stream\":\"A\",\"seq\":1,\"error\":null}", false, false, 0},
        {"+ACK", false, false, 0},
        {"", false, false, 0},
        {"[]", false, false, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct nats_ack ack = {0};
        bool is_read = nats_ack_parse(slice_of(rows[i].json), &ack);
        CASE_HOLDS(rows[i].json, is_read == rows[i].is_read);
        CASE_HOLDS(rows[i].json, ack.is_stored == rows[i].is_stored);
        CASE_HOLDS(rows[i].json, ack.error == rows[i].error);
    }
}

CLAIM(a_header_cannot_end_its_line)
{
    struct buffer out;
    buffer_init(&out, 1000);
    nats_emit_headers_begin(&out);
    nats_emit_header(&out, slice_of("a"), slice_of("b\r\nNats-Rollup: all"));
    nats_emit_headers_end(&out);
    assert_true(slice_is(buffer_slice(&out), "NATS/1.0\r\na: b??Nats-Rollup: all\r\n\r\n"));
    buffer_clear(&out);
    nats_emit_publish(&out, slice_of("s"), slice_of("r"), slice_of("HH"), slice_of("body"));
    assert_true(slice_is(buffer_slice(&out), "HPUB s r 2 6\r\nHHbody\r\n"));
    buffer_fini(&out);
}

CLAIM(a_password_is_quoted_as_json)
{
    struct buffer out;
    buffer_init(&out, 1000);
    nats_emit_connect(&out, &(struct nats_login){.user = "a", .password = "b\"\\", .version = "1"});
    assert_non_null(memmem(out.at, out.len, TEXT(",\"user\":\"a\",\"pass\":\"b\\\"\\\\\"}\r\n")));
    buffer_fini(&out);
}

CLAIM(subjects_are_names_without_patterns)
{
    static const char *const good[] = {"a", "orders.paid", "$x", "grüße.1"};
    static const char *const bad[] = {"", ".", "a.", ".a", "a..b", "a b", "a\tb", "*", "a.>", "a*"};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        CASE_HOLDS(good[i], !nats_subject_fault(slice_of(good[i])));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CASE_HOLDS(bad[i], nats_subject_fault(slice_of(bad[i])));
}

CLAIM(a_url_lists_the_servers_of_a_cluster)
{
    struct target_places places;
    char error[TARGET_ERROR_BYTES];
    assert_true(nats_places_parse(slice_of("natss://A.b,[::1]:7/"), &places, error));
    assert_int_equal(places.count, 2);
    assert_string_equal(places.at[0].origin, "natss://a.b:4222");
    assert_string_equal(places.at[1].origin, "natss://[::1]:7");
    assert_string_equal(places.at[1].host, "::1");
    assert_true(places.at[1].is_tls);
    assert_false(nats_places_parse(slice_of("nats://a/orders"), &places, error));
    assert_string_equal(error, "a NATS server's URL has no path and no query");
    assert_false(nats_places_parse(slice_of("nats://a?x"), &places, error));
    assert_false(nats_places_parse(slice_of("stomp://a"), &places, error));
}

CLAIMS_MAIN(NULL, NULL)
