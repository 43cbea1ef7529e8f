/* Messages of HTTP/1: cut anywhere they read the same; nothing is read beyond what is there. The
 * first byte seeds the cuts, the rest is what comes in. */
#include "claim.h"
#include "support/http_transcript.h"

#include "base/random.h"

enum { BODY_BYTES_MAX = 2000, LINE_BYTES_MAX = HTTP_CHUNK_NOTES_BYTES_MAX + 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_request(const struct transcript *transcript)
{
    const struct http_request *request = &transcript->request;
    if (transcript->refused)
        return;
    CLAIM("headers have a limit", request->header_count <= HTTP_HEADERS_MAX);
    CLAIM("one length only", !(request->chunked && request->has_length));
    CLAIM("bodies have a limit", request->body.len <= BODY_BYTES_MAX);
}

/* Returns what was read, without the code of a refusal. A head with two faults is refused for the
 * first one that is found, and a known line is not searched for faults with the others. */
static struct slice read_by(const struct transcript *transcript)
{
    struct slice text = buffer_slice(&transcript->text);
    return transcript->refused ? slice_make(text.at, transcript->refused_at) : text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct transcript whole, cut, knowing, split;
    if (len == 0)
        return 0;
    struct random random = {.state = bytes[0]};
    struct slice text = slice_make(bytes + 1, len - 1);

    transcript_init(&whole, BODY_BYTES_MAX);
    transcript_feed(&whole, text);
    check_request(&whole);
    CLAIM("what waits has a limit",
          whole.in.len <= HTTP_HEAD_BYTES_MAX + BODY_BYTES_MAX + LINE_BYTES_MAX || whole.refused);

    transcript_init(&cut, BODY_BYTES_MAX);
    for (size_t at = 0; at < text.len;) {
        size_t piece = 1 + (size_t)random_below(&random, 1 + random_below(&random, 64));
        piece = piece < text.len - at ? piece : text.len - at;
        transcript_feed(&cut, slice_make(text.at + at, piece));
        at += piece;
    }
    CLAIM("cuts do not matter", slice_equals(buffer_slice(&whole.text), buffer_slice(&cut.text)));
    CLAIM("nor for what is refused", whole.refused == cut.refused);
    CLAIM("nor for what waits",
          whole.refused || slice_equals(buffer_slice(&whole.in), buffer_slice(&cut.in)));

    transcript_init(&knowing, BODY_BYTES_MAX);
    knowing.knows = true;
    transcript_feed(&knowing, text);
    CLAIM("nor does what is known of earlier messages",
          slice_equals(read_by(&whole), read_by(&knowing)));
    CLAIM("nor for whether one is refused", whole.refused == knowing.refused);

    transcript_init(&split, BODY_BYTES_MAX);
    split.knows = split.is_http_2 = true;
    transcript_feed(&split, text);
    CLAIM("heads of HTTP/2 read the same", slice_equals(read_by(&whole), read_by(&split)));
    CLAIM("and the same ones are refused", whole.refused == split.refused);
    transcript_fini(&split);
    transcript_fini(&whole);
    transcript_fini(&cut);
    transcript_fini(&knowing);
    return 0;
}
