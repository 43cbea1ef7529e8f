#include "http/request.h"

#include "base/random.h"
#include "support/http_transcript.h"
#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define PUT "PUT /x HTTP/1.1\r\nHost: a\r\n"

enum { BODY_BYTES_MAX = 1000 };

static const char *seen(struct transcript *transcript, const char *bytes, size_t len)
{
    transcript_init(transcript, BODY_BYTES_MAX);
    transcript_feed(transcript, slice_make(bytes, len));
    buffer_append_byte(&transcript->text, 0);
    return transcript->text.at;
}

/* The same bytes in two pieces are the same requests, or the same refusal, wherever they are cut. */
static void expect_same_at_every_cut(const char *sentence, struct slice bytes)
{
    struct transcript whole, cut;
    const char *text = seen(&whole, bytes.at, bytes.len);
    for (size_t first = 0; first <= bytes.len; first++) {
        transcript_init(&cut, BODY_BYTES_MAX);
        transcript_feed(&cut, slice_make(bytes.at, first));
        transcript_feed(&cut, slice_make(bytes.at + first, bytes.len - first));
        buffer_append_byte(&cut.text, 0);
        CASE_HOLDS(sentence, strcmp(cut.text.at, text) == 0);
        transcript_fini(&cut);
    }
    transcript_fini(&whole);
}

/* The same bytes are the same requests, or are refused after the same ones, if their heads are read as those of HTTP/2. */
static void expect_same_over_http_2(const char *sentence, struct slice bytes)
{
    struct transcript one, other;
    (void)seen(&one, bytes.at, bytes.len);
    transcript_init(&other, BODY_BYTES_MAX);
    other.is_http_2 = true;
    transcript_feed(&other, bytes);
    buffer_append_byte(&other.text, 0);
    size_t len = one.refused ? one.refused_at : one.text.len;
    CASE_HOLDS(sentence, one.refused == other.refused);
    CASE_HOLDS(sentence, len == (other.refused ? other.refused_at : other.text.len));
    CASE_HOLDS(sentence, memcmp(one.text.at, other.text.at, len) == 0);
    transcript_fini(&one);
    transcript_fini(&other);
}

/* A request behind these bytes is the next one, or is never read: no byte of it becomes part of
 * theirs, nor one of theirs part of it. */
static void expect_next(const char *sentence, struct slice bytes, bool is_read)
{
    static const char next[] = "GET /next HTTP/1.1\r\nHost: b\r\n\r\n",
                      seen_so[] = "\n1 /next?\nHost=b\n\n";
    struct transcript transcript;
    struct buffer both;
    buffer_init(&both, 1 << 20);
    buffer_append_slice(&both, bytes);
    buffer_append_text(&both, next);
    const char *text = seen(&transcript, both.at, both.len);
    size_t len = transcript.text.len - 1, tail = sizeof seen_so - 1;
    bool is_last = len >= tail && memcmp(text + len - tail, seen_so, tail) == 0;
    CASE_HOLDS(sentence, is_last == is_read);
    CASE_HOLDS(sentence, is_read || !strstr(text, "/next"));
    transcript_fini(&transcript);
    buffer_fini(&both);
}

/* ---- what is refused, and as what ---- */

CLAIM(framing_is_strict)
{
    static const struct {
        const char *sentence, *bytes, *code;
    } rows[] = {
        {"a plain request", GET "\r\n", NULL},
        {"an empty line before it", "\r\n" GET "\r\n", NULL},
        {"HTTP/1.0 needs no Host", "GET / HTTP/1.0\r\n\r\n", NULL},
        {"no Host", "GET / HTTP/1.1\r\n\r\n", "bad_framing"},
        {"Host twice", GET "Host: b\r\n\r\n", "bad_framing"},
        {"bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", "bad_framing"},
        {"bare LF after a header", "GET / HTTP/1.1\r\nHost: a\n\r\n", "bad_framing"},
        {"bare LF as the empty line", GET "\n", "bad_framing"},
        {"bare CR in a value", GET "X: a\rb\r\n\r\n", "bad_framing"},
        {"CR CR LF", GET "X: a\r\r\n\r\n", "bad_framing"},
        {"a bare LF alone in front", "\n" GET "\r\n", "bad_framing"},
        {"a folded header", GET "X: a\r\n b\r\n\r\n", "bad_framing"},
        {"a header folded with a tab", GET "X: a\r\n\tb\r\n\r\n", "bad_framing"},
        {"a fold before the first header", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", "bad_framing"},
        {"a blank before the colon", GET "X : a\r\n\r\n", "bad_framing"},
        {"no colon", GET "X\r\n\r\n", "bad_framing"},
        {"no name", GET ": a\r\n\r\n", "bad_framing"},
        {"a name that is no token", GET "X(: a\r\n\r\n", "bad_framing"},
        {"a control byte in a value", GET "X: a\001b\r\n\r\n", "bad_framing"},
        {"DEL in a value", GET "X: a\177b\r\n\r\n", "bad_framing"},
        {"bytes above ASCII in a value pass", GET "X: a\xc3\xa9\r\n\r\n", NULL},
        {"bytes above ASCII in the target", "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n",
         "bad_framing"},
        {"two blanks in the request line", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "bad_framing"},
        {"a tab in the request line", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "bad_framing"},
        {"no version", "GET /\r\nHost: a\r\n\r\n", "bad_framing"},
        {"an unknown method is the path's to refuse", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", NULL},
        {"so is one of other protocols", "DESCRIBE / HTTP/1.1\r\nHost: a\r\n\r\n", NULL},
        {"so is QUERY", "QUERY / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", NULL},
        {"a method that is no word", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n", "bad_framing"},
        {"an answer in place of a request", "HTTP/1.1 200 OK\r\nHost: a\r\n\r\n", "bad_framing"},
        {"no method", " / HTTP/1.1\r\nHost: a\r\n\r\n", "bad_framing"},
        {"HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "version_unknown"},
        {"HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", "version_unknown"},
        {"HTTP/0.9", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", "version_unknown"},
        {"HTTP/1.11", "GET / HTTP/1.11\r\nHost: a\r\n\r\n", "version_unknown"},
        {"http/1.1", "GET / http/1.1\r\nHost: a\r\n\r\n", "bad_request"},
        {"RTSP", "GET / RTSP/1.0\r\nHost: a\r\n\r\n", "bad_request"},
        {"RTSP with its own method", "SETUP / RTSP/1.0\r\nHost: a\r\n\r\n", "bad_request"},
        {"ICE", "SOURCE / ICE/1.0\r\nHost: a\r\n\r\n", "bad_request"},
        {"HEAD with a body", "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
         "bad_request"},
        {"HEAD in chunks", "HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
         "bad_request"},
        {"HEAD with a body of nothing", "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
         NULL},
        {"a target with a user", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", "bad_request"},
        {"a target without a host", "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", "bad_request"},
        {"a fragment in the path", "GET /a#/x HTTP/1.1\r\nHost: a\r\n\r\n", "bad_request"},
        {"a fragment in the query", "GET /a?b#c HTTP/1.1\r\nHost: a\r\n\r\n", "bad_request"},
        {"an empty fragment", "GET /a# HTTP/1.1\r\nHost: a\r\n\r\n", "bad_request"},
        {"a fragment behind a host", "GET http://a#/x HTTP/1.1\r\nHost: a\r\n\r\n", "bad_request"},
        {"an empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "bad_request"},
        {"a Host of blanks", "GET / HTTP/1.1\r\nHost:  \t\r\n\r\n", "bad_request"},
        {"an empty Host in HTTP/1.0", "GET / HTTP/1.0\r\nHost:\r\n\r\n", "bad_request"},
        {"an empty Host beside a target with one", "GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n",
         "bad_request"},
        {"no body", PUT "\r\n", NULL},
        {"a body", PUT "Content-Length: 3\r\n\r\nabc", NULL},
        {"a length of 0", PUT "Content-Length: 0\r\n\r\n", NULL},
        {"leading zeroes in a length", PUT "Content-Length: 003\r\n\r\nabc", NULL},
        {"no length and chunked",
         PUT "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "bad_framing"},
        {"length and chunked", PUT "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
         "bad_framing"},
        {"chunked and length",
         PUT "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "bad_framing"},
        {"the same length twice", PUT "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
         "bad_framing"},
        {"a list of lengths", PUT "Content-Length: 3, 3\r\n\r\nabc", "bad_framing"},
        {"a signed length", PUT "Content-Length: +3\r\n\r\nabc", "bad_framing"},
        {"a negative length", PUT "Content-Length: -3\r\n\r\nabc", "bad_framing"},
        {"a hexadecimal length", PUT "Content-Length: 0x3\r\n\r\nabc", "bad_framing"},
        {"an empty length", PUT "Content-Length:\r\n\r\nabc", "bad_framing"},
        {"a length with a blank in it", PUT "Content-Length: 1 2\r\n\r\nabc", "bad_framing"},
        {"a length of 19 digits", PUT "Content-Length: 1000000000000000000\r\n\r\n", "bad_framing"},
        {"a length beyond 64 bits", PUT "Content-Length: 99999999999999999999\r\n\r\n",
         "bad_framing"},
        {"a length above the limit", PUT "Content-Length: 1001\r\n\r\n", "body_too_big"},
        {"another coding", PUT "Transfer-Encoding: gzip\r\n\r\n", "transfer_coding_unknown"},
        {"a coding before chunked", PUT "Transfer-Encoding: gzip, chunked\r\n\r\n",
         "transfer_coding_unknown"},
        {"chunked twice", PUT "Transfer-Encoding: chunked, chunked\r\n\r\n", "bad_framing"},
        {"xchunked", PUT "Transfer-Encoding: xchunked\r\n\r\n", "transfer_coding_unknown"},
        {"chunked in HTTP/1.0", "PUT /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "bad_framing"},
        {"100-continue", PUT "Expect: 100-continue\r\nContent-Length: 1\r\n\r\na", NULL},
        {"another expectation", PUT "Expect: 200-ok\r\n\r\n", "expectation_unknown"},
        {"an encoded body", PUT "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\na",
         "coding_unknown"},
        {"Content-Type twice", PUT "Content-Type: a/b\r\nContent-Type: a/b\r\n\r\n", "bad_request"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct transcript transcript;
        const char *text = seen(&transcript, rows[i].bytes, strlen(rows[i].bytes));
        const char *refused = strstr(text, "refused ");
        bool right = rows[i].code
                         ? refused && strncmp(refused + 8, rows[i].code, strlen(rows[i].code)) == 0
                         : !refused && transcript.text.len > 1;
        CASE_HOLDS(rows[i].sentence, right);
        CASE_HOLDS(rows[i].sentence, refused || transcript.in.len == 0);
        transcript_fini(&transcript);
        expect_same_at_every_cut(rows[i].sentence, slice_of(rows[i].bytes));
        expect_same_over_http_2(rows[i].sentence, slice_of(rows[i].bytes));
        expect_next(rows[i].sentence, slice_of(rows[i].bytes), !rows[i].code);
    }
}

/* Long enough for several words of eight bytes, and a rest. */
CLAIM(a_control_byte_is_refused_at_every_place)
{
    static const char request[] =
        "GET /v1/topics/a-topic HTTP/1.1\r\nHost: a.server.of.tests\r\n\r\n";
    static const unsigned char bad[] = {0, 1, '\n', 0x1f, 0x7f};
    char bytes[sizeof request];
    for (size_t i = 0; i < sizeof request - 5; i++)
        for (size_t j = 0; j < sizeof bad; j++) {
            memcpy(bytes, request, sizeof request);
            if (bytes[i] == '\r' || bytes[i] == '\n')
                continue;
            bytes[i] = (char)bad[j];
            expect_next("a control byte", slice_make(bytes, sizeof request - 1), false);
        }
    /* Bytes above ASCII are allowed in a value only. */
    memcpy(bytes, request, sizeof request);
    bytes[9] = (char)0x80;
    expect_next("a byte above ASCII in a target", slice_make(bytes, sizeof request - 1), false);
    memcpy(bytes, request, sizeof request);
    bytes[sizeof request - 8] = (char)0xff;
    expect_next("a byte above ASCII in a value", slice_make(bytes, sizeof request - 1), true);
}

CLAIM(names_are_read_in_any_case)
{
    static const char *const good[] = {
        "POST /v1/topics/a/jobs HTTP/1.1\r\nhOST: a\r\nCONTENT-lengtH: 3\r\n\r\nabc",
        "POST /v1/topics/a/jobs HTTP/1.1\r\nHost: a\r\nTRANSFER-ENCODING: "
        "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        expect_next(good[i], slice_of(good[i]), true);
    /* These differ from a known name in the bit of the case, and are other names. */
    expect_next("no host", slice_of("GET / HTTP/1.1\r\nHos_: a\r\n\r\n"), false);
}

CLAIM(a_NUL_is_refused)
{
    static const char bytes[] = GET "X: a\0b\r\n\r\n";
    struct transcript transcript;
    assert_non_null(strstr(seen(&transcript, bytes, sizeof bytes - 1), "refused bad_framing"));
    transcript_fini(&transcript);
}

/* ---- chunks ---- */

#define CHUNKED PUT "Transfer-Encoding: chunked\r\n\r\n"

CLAIM(chunks_are_taken_apart)
{
    static const struct {
        const char *sentence, *bytes, *body, *code; /* one of both */
    } rows[] = {
        {"no chunk", "0\r\n\r\n", "", NULL},
        {"one", "3\r\nabc\r\n0\r\n\r\n", "abc", NULL},
        {"two", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "abcde", NULL},
        {"a size with zeroes in front", "0003\r\nabc\r\n000\r\n\r\n", "abc", NULL},
        {"hexadecimal sizes in both cases", "A\r\n0123456789\r\nb\r\n0123456789a\r\n0\r\n\r\n",
         "01234567890123456789a", NULL},
        {"an extension", "3;a=b\r\nabc\r\n0;c\r\n\r\n", "abc", NULL},
        {"a trailer", "3\r\nabc\r\n0\r\nX: y\r\n\r\n", "abc", NULL},
        {"CR LF as data", "2\r\n\r\n\r\n0\r\n\r\n", "\r\n", NULL},
        {"no size", "\r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"a size that is no number", "x\r\n", NULL, "bad_framing"},
        {"a signed size", "+3\r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"0x", "0x3\r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"a blank after the size", "3 \r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"bare LF after the size", "3\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"bare LF after the data", "3\r\nabc\n0\r\n\r\n", NULL, "bad_framing"},
        {"bare LF in an extension", "3;a\nb\r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"bare CR in an extension", "3;a\rb\r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"data longer than its size", "2\r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"bare LF at the end", "0\r\n\n", NULL, "bad_framing"},
        {"bare LF after a trailer", "0\r\nX: y\n\r\n", NULL, "bad_framing"},
        {"17 digits", "00000000000000003\r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"a size beyond the limit", "3e9\r\n", NULL, "body_too_big"},
        {"a size beyond 64 bits", "fffffffffffffffff\r\n", NULL, "body_too_big"},
        {"an extension behind a blank", "3; a\r\nabc\r\n0\r\n\r\n", "abc", NULL},
        {"an empty extension", "3;\r\nabc\r\n0\r\n\r\n", "abc", NULL},
        {"a quoted extension", "3;a=\"x;y\"\r\nabc\r\n0\r\n\r\n", "abc", NULL},
        {"an extension above ASCII", "3;\xc3\xa9\r\nabc\r\n0\r\n\r\n", "abc", NULL},
        {"a length in the trailer", "0\r\nContent-Length: 5\r\n\r\n", "", NULL},
        {"a coding in the trailer", "0\r\nTransfer-Encoding: chunked\r\n\r\n", "", NULL},
        {"16 digits", "0000000000000003\r\nabc\r\n0\r\n\r\n", "abc", NULL},
        {"a blank before the size", " 3\r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"a tab after the size", "3\t\r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"CR CR after the size", "3\r\rabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"CR CR LF after the size", "3\r\r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"bare CR after the size", "3\rabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"CR CR after the data", "3\r\nabc\r\r0\r\n\r\n", NULL, "bad_framing"},
        {"nothing after the data", "3\r\nabc0\r\n\r\n", NULL, "bad_framing"},
        {"data shorter than its size", "4\r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"LF alone ends an extension", "3;a\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"a control byte in an extension", "3;a\001\r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"DEL in an extension", "3;a\177\r\nabc\r\n0\r\n\r\n", NULL, "bad_framing"},
        {"bare CR at the end", "0\r\n\rX\r\n", NULL, "bad_framing"},
        {"LF alone after the last size", "0\n\r\n", NULL, "bad_framing"},
        {"CR CR LF after a trailer", "0\r\nX: y\r\r\n\r\n", NULL, "bad_framing"},
        {"a trailer that is no header", "0\r\nX\r\n\r\n", NULL, "bad_framing"},
        {"a blank before its colon", "0\r\nX : y\r\n\r\n", NULL, "bad_framing"},
        {"a blank before a trailer", "0\r\n X: y\r\n\r\n", NULL, "bad_framing"},
        {"a folded trailer", "0\r\nX: y\r\n z\r\n\r\n", NULL, "bad_framing"},
        {"a control byte in a trailer", "0\r\nX: a\001b\r\n\r\n", NULL, "bad_framing"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct transcript transcript;
        char bytes[300];
        int len = snprintf(bytes, sizeof bytes, CHUNKED "%s", rows[i].bytes);
        expect_same_at_every_cut(rows[i].sentence, slice_make(bytes, (size_t)len));
        expect_same_over_http_2(rows[i].sentence, slice_make(bytes, (size_t)len));
        expect_next(rows[i].sentence, slice_make(bytes, (size_t)len), !rows[i].code);
        const char *text = seen(&transcript, bytes, (size_t)len);
        if (rows[i].code) {
            CASE_HOLDS(rows[i].sentence, strstr(text, rows[i].code) != NULL);
        } else {
            CASE_HOLDS(rows[i].sentence, strstr(text, "refused") == NULL);
            size_t body_len = strlen(rows[i].body) + 2; /* with the end of its line, and a NUL */
            CASE_HOLDS(rows[i].sentence, memcmp(text + transcript.text.len - body_len, rows[i].body,
                                                body_len - 2) == 0);
        }
        transcript_fini(&transcript);
    }
}

/* ---- limits: at the limit, and one above ---- */

static void expect_limit(const char *sentence, struct buffer *bytes, const char *code)
{
    struct transcript transcript;
    const char *text = seen(&transcript, bytes->at, bytes->len);
    CASE_HOLDS(sentence, code ? strstr(text, code) != NULL : strstr(text, "refused") == NULL);
    transcript_fini(&transcript);
    buffer_clear(bytes);
}

static void fill(struct buffer *bytes, size_t upto)
{
    while (bytes->len < upto)
        buffer_append_byte(bytes, 'x');
}

CLAIM(limits_hold)
{
    struct buffer bytes;
    buffer_init(&bytes, 1 << 20);
    for (size_t above = 0; above < 2; above++) {
        static const char version[] = " HTTP/1.1\r\n";
        buffer_append_text(&bytes, "GET /");
        fill(&bytes, HTTP_LINE_BYTES_MAX + above - (sizeof version - 1));
        buffer_append_text(&bytes, version);
        buffer_append_text(&bytes, "Host: a\r\n\r\n");
        expect_limit("the request line", &bytes, above ? "target_too_long" : NULL);

        buffer_append_text(&bytes, GET "X: ");
        fill(&bytes, HTTP_HEAD_BYTES_MAX + above - 4);
        buffer_append_text(&bytes, "\r\n\r\n");
        expect_limit("the head", &bytes, above ? "header_too_big" : NULL);

        buffer_append_text(&bytes, GET);
        for (size_t i = 1; i < HTTP_HEADERS_MAX + above; i++)
            buffer_append_text(&bytes, "X: y\r\n");
        buffer_append_text(&bytes, "\r\n");
        expect_limit("the headers", &bytes, above ? "header_too_big" : NULL);

        buffer_append_format(&bytes, PUT "Content-Length: %zu\r\n\r\n", BODY_BYTES_MAX + above);
        fill(&bytes, bytes.len + BODY_BYTES_MAX + above);
        expect_limit("the body", &bytes, above ? "body_too_big" : NULL);
    }
    /* Chunks count together, and so do their notes. */
    for (size_t above = 0; above < 2; above++) {
        buffer_append_text(&bytes, CHUNKED "3e7\r\n");
        fill(&bytes, bytes.len + BODY_BYTES_MAX - 1);
        buffer_append_format(&bytes, "\r\n%zu\r\n%s\r\n0\r\n\r\n", 1 + above, above ? "xx" : "x");
        expect_limit("the chunks", &bytes, above ? "body_too_big" : NULL);

        buffer_append_text(&bytes, CHUNKED "1;");
        fill(&bytes, bytes.len + HTTP_CHUNK_NOTES_BYTES_MAX - 10);
        buffer_append_format(&bytes, "\r\nx\r\n1;xxxxx\r\nx\r\n0\r\nX:%s\r\n\r\n",
                             above ? "yyyy" : "yyy");
        expect_limit("the notes", &bytes, above ? "bad_framing" : NULL);
    }
    /* An endless line is refused before its end has come. */
    static const char *const endless[] = {CHUNKED "1;", CHUNKED "0\r\nX:"};
    for (size_t i = 0; i < COUNT_OF(endless); i++) {
        buffer_append_text(&bytes, endless[i]);
        fill(&bytes, bytes.len + HTTP_CHUNK_NOTES_BYTES_MAX + 20);
        expect_limit("a note without end", &bytes, "bad_framing");
    }
    buffer_append_text(&bytes, CHUNKED);
    for (size_t i = 0; i < HTTP_CHUNK_NOTES_BYTES_MAX + 20; i++)
        buffer_append_byte(&bytes, '0');
    expect_limit("a size without end", &bytes, "bad_framing");
    buffer_append_text(&bytes, "GET /");
    fill(&bytes, HTTP_LINE_BYTES_MAX + 1);
    expect_limit("a line without end", &bytes, "target_too_long");
    buffer_append_text(&bytes, GET "X: ");
    fill(&bytes, HTTP_HEAD_BYTES_MAX + 1);
    expect_limit("a header without end", &bytes, "header_too_big");
    buffer_fini(&bytes);
}

/* ---- what is read ---- */

CLAIM(targets_are_split)
{
    static const struct {
        const char *sentence, *target, *path, *query, *authority;
    } rows[] = {
        {"a path", "/a/b", "/a/b", "", ""},
        {"a query", "/a?b=c&d", "/a", "b=c&d", ""},
        {"an empty query", "/a?", "/a", "", ""},
        {"a question mark in the query", "/a?b?c", "/a", "b?c", ""},
        {"the absolute form", "http://host:1/a?b", "/a", "b", "host:1"},
        {"the absolute form of another scheme's", "HTTPS://host/a?b", "/a", "b", "host"},
        {"the absolute form without a path", "http://host", "/", "", "host"},
        {"the absolute form with a query only", "http://host?x=1", "/", "x=1", "host"},
        {"a slash in such a query begins no path", "http://host?x=/a", "/", "x=/a", "host"},
        {"escapes stay", "/a%2Fb?c%3Dd", "/a%2Fb", "c%3Dd", ""},
    };
    struct http_request request;
    struct http_fault fault;
    char head[300];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int len = snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", rows[i].target);
        CASE_HOLDS(rows[i].sentence,
                   http_request_parse(slice_make(head, (size_t)len), &request, &fault));
        CASE_HOLDS(rows[i].sentence, slice_is(request.path, rows[i].path));
        CASE_HOLDS(rows[i].sentence, slice_is(request.query, rows[i].query));
        CASE_HOLDS(rows[i].sentence, slice_is(request.authority, rows[i].authority));
    }
}

CLAIM(an_invalid_target_is_named)
{
    static const char *const rows[] = {"foo",         "!",           "http:/x",
                                       "localhost:1", "http://a<b/", "http://a\"b/"};
    struct http_request request;
    struct http_fault fault;
    char head[300], named[100];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int len = snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", rows[i]);
        (void)snprintf(named, sizeof named, "the target is '%s' but must be a path", rows[i]);
        CASE_HOLDS(rows[i], !http_request_parse(slice_make(head, (size_t)len), &request, &fault));
        CASE_HOLDS(rows[i], fault.problem == PROBLEM_BAD_REQUEST);
        CASE_HOLDS(rows[i], strstr(fault.detail, named) == fault.detail);
    }
}

CLAIM(connections_are_kept_or_not)
{
    static const struct {
        const char *sentence, *head;
        bool keeps;
    } rows[] = {
        {"1.1 keeps", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"1.1 close requested", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false},
        {"in any case", "GET / HTTP/1.1\r\nHost: a\r\ncOnnection: CLOSE\r\n\r\n", false},
        {"in a list", "GET / HTTP/1.1\r\nHost: a\r\nConnection: te, close\r\n\r\n", false},
        {"1.0 closes", "GET / HTTP/1.0\r\n\r\n", false},
        {"1.0 keep-alive requested", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
        {"both: close wins",
         "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", false},
    };
    struct http_request request;
    struct http_fault fault;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CASE_HOLDS(rows[i].sentence, http_request_parse(slice_of(rows[i].head), &request, &fault));
        CASE_HOLDS(rows[i].sentence, request.keeps_alive == rows[i].keeps);
    }
}

CLAIM(values_have_no_blanks_around)
{
    struct http_request request;
    struct http_fault fault;
    assert_true(http_request_parse(slice_of(GET "Content-Type: \t a/b \t \r\nX:y\r\nE:\r\n\r\n"),
                                   &request, &fault));
    assert_true(slice_is(request.content_type, "a/b"));
    assert_int_equal(request.header_count, 4);
    assert_true(slice_is(request.headers[2].value, "y"));
    assert_int_equal(request.headers[3].value.len, 0);
}

/* ---- a line that is known ---- */

#define LINE "Authorization: Bearer tarry_abcdefghijklmnop\r\n"
#define KNOWN "GET /one HTTP/1.1\r\n" LINE "Host: a\r\n\r\n"

/* A second message, if the first one had the line, and after an unrelated one. */
CLAIM(a_repeated_line_changes_nothing)
{
    static const char *const rows[] = {
        KNOWN,
        "GET /two HTTP/1.1\r\nHost: a\r\n" LINE "\r\n",
        "GET /two HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /two HTTP/1.1\r\nHost: a\r\n" LINE "Content-Length: 5\r\n\r\nhello",
        "POST /two HTTP/1.1\r\n" LINE
        "Transfer-Encoding: chunked\r\nHost: a\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "POST /two HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" LINE "\r\n",
        "GET /two HTTP/1.1\r\nHost: a\r\n" LINE LINE "\r\n",
        "GET /two HTTP/1.1\r\nHost: a\r\n" LINE "Authorization: Basic x\r\n\r\n",
        "GET /two HTTP/1.1\r\nHost: a\r\nAuthorization: Basic x\r\n" LINE "\r\n",
        "GET /two HTTP/1.1\r\nHost: a\r\n" LINE " folded\r\n\r\n",
        "GET /two HTTP/1.1\r\nHost: a\r\n" LINE "\tfolded\r\n\r\n",
        "GET /two HTTP/1.1\r\nHost: a\r\nX: y\r" LINE "\r\n",
        "GET /two HTTP/1.1\r\nHost: a\r\nX" LINE "\r\n",
        "GET /two HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer tarry_abcdefghijklmnoq\r\n\r\n",
        "GET /two HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer tarry_abcdefghijklmnopq\r\n\r\n",
        "GET /two HTTP/1.1\r\nHost: a\r\nauthorization:Bearer tarry_abcdefghijklmnop \r\n\r\n",
        LINE "\r\n",
        "\r\n" LINE "Host: a\r\n\r\n",
        "QUERY /two HTTP/1.1\r\nHost: a\r\n" LINE "\r\n",
        "X-Y /two HTTP/1.1\r\n" LINE "Host: a\r\n\r\n",
        "GET /two HTTP/1.1\r\n" LINE "\r\n",
        "GET /two HTTP/1.1\r\n" LINE "\r",
        "GET /two HTTP/3.1\r\n" LINE "\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t cut = 0; cut <= strlen(rows[i]); cut++) {
            struct transcript plain, knowing;
            char text[2 * sizeof KNOWN + 512];
            int len = snprintf(text, sizeof text, "%s%s%s", KNOWN, rows[i], KNOWN);
            size_t first = sizeof KNOWN - 1 + cut;
            transcript_init(&plain, BODY_BYTES_MAX);
            transcript_feed(&plain, slice_make(text, (size_t)len));
            transcript_init(&knowing, BODY_BYTES_MAX);
            knowing.knows = true;
            transcript_feed(&knowing, slice_make(text, first));
            transcript_feed(&knowing, slice_make(text + first, (size_t)len - first));
            CASE_HOLDS(rows[i],
                       slice_equals(buffer_slice(&plain.text), buffer_slice(&knowing.text)));
            transcript_fini(&plain);
            transcript_fini(&knowing);
        }
}

CLAIM(a_repeated_line_is_recognised)
{
    struct http_framing framing = {0};
    struct http_request request;
    struct http_fault fault;
    char text[] = KNOWN;
    size_t len = sizeof text - 1, used;
    framing.known = slice_of(LINE);
    assert_int_equal(http_message_read(&framing, text, &len, &request, &used, &fault),
                     HTTP_STEP_HEAD);
    assert_true(request.is_known &&
                slice_is(request.authorization, "Bearer tarry_abcdefghijklmnop"));
    assert_int_equal(request.header_count, 1);
    struct slice line = http_request_authorization_line(&request);
    assert_true(slice_is(line, LINE));
    framing = (struct http_framing){.known = slice_of("Authorization: Bearer tarry_other\r\n")};
    assert_int_equal(http_message_read(&framing, text, &len, &request, &used, &fault),
                     HTTP_STEP_HEAD);
    assert_true(!request.is_known && request.header_count == 2);
    assert_true(slice_is(http_request_authorization_line(&request), LINE));
}

/* ---- cut anywhere ---- */

static const char stream[] =
    "\r\nPUT /v1/topics/t/jobs/1?delay=3s HTTP/1.1\r\nHost: a\r\nTarry-Meta-A: b\r\n"
    "Content-Length: 5\r\n\r\nhello"
    "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
    "POST /v1/jobs HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: "
    "chunked\r\n\r\n"
    "4\r\nab\r\n\r\n1;x\r\nc\r\n0\r\nT: u\r\n\r\n"
    "POST /y HTTP/1.0\r\nContent-Length: 0\r\n\r\n"
    "GET /z HTTP/1.1\r\nHost: a\r\nX : bad\r\n\r\nGET /never HTTP/1.1\r\nHost: a\r\n\r\n";

CLAIM(cuts_do_not_matter)
{
    struct transcript whole, cut;
    size_t len = sizeof stream - 1;
    const char *text = seen(&whole, stream, len);
    assert_non_null(strstr(text, "refused bad_framing"));
    assert_null(strstr(text, "never"));
    for (size_t first = 0; first <= len; first++) {
        transcript_init(&cut, BODY_BYTES_MAX);
        transcript_feed(&cut, slice_make(stream, first));
        transcript_feed(&cut, slice_make(stream + first, len - first));
        buffer_append_byte(&cut.text, 0);
        assert_string_equal(cut.text.at, text);
        transcript_fini(&cut);
    }
    transcript_fini(&whole);
}

CLAIM(a_request_may_arrive_in_many_pieces)
{
    struct random random = seed_random("a_request_may_arrive_in_many_pieces");
    struct transcript whole, cut;
    size_t len = sizeof stream - 1;
    const char *text = seen(&whole, stream, len);
    for (int run = 0; run < 300; run++) {
        transcript_init(&cut, BODY_BYTES_MAX);
        for (size_t at = 0; at < len;) {
            size_t piece = 1 + (size_t)random_below(&random, 1 + random_below(&random, 40));
            piece = piece < len - at ? piece : len - at;
            transcript_feed(&cut, slice_make(stream + at, piece));
            at += piece;
        }
        buffer_append_byte(&cut.text, 0);
        assert_string_equal(cut.text.at, text);
        transcript_fini(&cut);
    }
    transcript_fini(&whole);
}

CLAIMS_MAIN(NULL, NULL)
