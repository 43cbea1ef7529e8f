/* Messages of NATS: whatever a server sends, and however it is cut, is read the same and stays in
 * its bounds. */
#include "targets/nats/frame.h"

#include "frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

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

static int read_one(char *text, size_t len, size_t *used, const char **why)
{
    struct nats_frame frame;
    enum nats_read read = nats_frame_read(text, len, &frame, used, why);
    if (read != NATS_MORE && read != NATS_BROKEN)
        check_frame(&frame, text, *used);
    return (int)read;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    frames_check(&(struct frames){.more = NATS_MORE, .broken = NATS_BROKEN, .read = read_one},
                 bytes, len);
    return 0;
}
