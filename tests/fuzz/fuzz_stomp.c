/* Frames of STOMP: whatever a broker sends, and however it is cut, is read the same, stays in its
 * bounds, and what is read can be written and read again. */
#include "targets/stomp/frame.h"

#include "frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void write_frame(const struct stomp_frame *frame, struct buffer *out)
{
    char command[STOMP_HEAD_BYTES_MAX];
    snprintf(command, sizeof command, "%.*s", (int)frame->command.len, frame->command.at);
    stomp_emit_command(out, command);
    for (size_t i = 0; i < frame->header_count; i++)
        stomp_emit_header(out, frame->headers[i].name, frame->headers[i].value);
    stomp_emit_body(out, frame->body);
}

/* Headers with a NUL cannot be written; CONNECTED is not escaped. */
static bool can_be_written(const struct stomp_frame *frame)
{
    if (slice_is(frame->command, "CONNECTED") || slice_is(frame->command, "CONNECT"))
        return false;
    for (size_t i = 0; i < frame->header_count; i++)
        if (memchr(frame->headers[i].name.at, 0, frame->headers[i].name.len) ||
            (frame->headers[i].value.len &&
             memchr(frame->headers[i].value.at, 0, frame->headers[i].value.len)))
            return false;
    return frame->header_count == 0 || stomp_frame_header(frame, "content-length").at ||
           !frame->body.len || !memchr(frame->body.at, 0, frame->body.len);
}

static void check_again(const struct stomp_frame *frame)
{
    struct stomp_frame again;
    struct buffer out;
    size_t used = 0;
    const char *why = NULL;
    buffer_init(&out, 1 << 20);
    write_frame(frame, &out);
    enum stomp_read read = stomp_frame_read(out.at, out.len, &again, &used, &why);
    /* Escapes take room: what just fitted may not fit again. */
    if (read != STOMP_BROKEN) {
        CLAIM("what is written can be read", read == STOMP_FRAME && used == out.len);
        CLAIM("the same command", slice_equals(frame->command, again.command));
        CLAIM("the same body", slice_equals(frame->body, again.body));
        CLAIM("as many headers", frame->header_count == again.header_count);
        for (size_t i = 0; i < frame->header_count; i++)
            CLAIM("the same headers",
                  slice_equals(frame->headers[i].name, again.headers[i].name) &&
                      slice_equals(frame->headers[i].value, again.headers[i].value));
    } else {
        CLAIM("only a long one cannot be read again", out.len > STOMP_HEAD_BYTES_MAX / 2);
    }
    buffer_fini(&out);
}

static void check_frame(const struct stomp_frame *frame, const char *at, size_t used)
{
    CLAIM("there is a command", frame->command.len > 0 && lies_in(frame->command, at, used));
    CLAIM("headers are bounded", frame->header_count <= STOMP_HEADERS_MAX);
    CLAIM("a body is bounded",
          frame->body.len <= STOMP_BODY_BYTES_MAX && lies_in(frame->body, at, used));
    for (size_t i = 0; i < frame->header_count; i++)
        CLAIM("headers lie in the frame", lies_in(frame->headers[i].name, at, used) &&
                                              lies_in(frame->headers[i].value, at, used));
    if (can_be_written(frame))
        check_again(frame);
}

static int read_one(char *text, size_t len, size_t *used, const char **why)
{
    static struct stomp_frame frame;
    enum stomp_read read = stomp_frame_read(text, len, &frame, used, why);
    if (read == STOMP_FRAME)
        check_frame(&frame, text, *used);
    return (int)read;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    frames_check(&(struct frames){.more = STOMP_MORE, .broken = STOMP_BROKEN, .read = read_one},
                 bytes, len);
    return 0;
}
