/* Messages of NATS: whatever a server sends, and however it is cut, is read the same and stays in
 * its bounds. */
#include "targets/nats/frame.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static bool lies_in(struct slice section, const char *at, size_t len)
{
    return section.len == 0 || (section.at >= at && section.at + section.len <= at + len);
}

static void check_frame(const struct nats_frame *frame, const char *at, size_t used)
{
    struct nats_ack ack;
    struct nats_server server;
    CLAIM("texts lie in the message",
          lies_in(frame->text, at, used) && lies_in(frame->subject, at, used) &&
              lies_in(frame->headers, at, used) && lies_in(frame->payload, at, used));
    CLAIM("a payload is bounded",
          frame->headers.len + frame->payload.len <= NATS_PAYLOAD_BYTES_MAX);
    CLAIM("a status has three digits", nats_headers_status(frame->headers) < 1000);
    (void)nats_info_parse(frame->text, &server);
    if (nats_ack_parse(frame->payload, &ack))
        CLAIM("what is stored has no error", !ack.is_stored || (!ack.error && !ack.code));
}

/* Reads all messages of the text, with `step` bytes coming at a time. Returns how far it was
 * understood. */
static size_t read_all(const uint8_t *bytes, size_t len, size_t step, enum nats_read *last)
{
    char *text = malloc(len + 1);
    size_t at = 0, here = step < len ? step : len;
    if (!text)
        abort();
    if (len)
        memcpy(text, bytes, len);
    for (;;) {
        struct nats_frame frame;
        const char *why = NULL;
        size_t used = 0;
        *last = nats_frame_read(text + at, here - at, &frame, &used, &why);
        if (*last == NATS_BROKEN) {
            CLAIM("what cannot be read is explained", why && *why);
            break;
        }
        if (*last == NATS_MORE && here == len)
            break;
        if (*last == NATS_MORE) {
            here = here + step < len ? here + step : len;
            continue;
        }
        CLAIM("something was used, no more than there is", used > 0 && used <= here - at);
        check_frame(&frame, text + at, used);
        at += used;
    }
    free(text);
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    enum nats_read whole, cut;
    size_t once = read_all(bytes, len, len ? len : 1, &whole);
    size_t again = read_all(bytes, len, len > 4096 ? 4001 : 1, &cut);
    CLAIM("cut anywhere it is understood as far", once == again);
    CLAIM("and ends the same", whole == cut);
    return 0;
}
