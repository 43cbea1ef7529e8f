/* Frames of STOMP: whatever a broker sends, and however it is cut, is read the same, stays in its
 * bounds, and what is read can be written and read again. */
#include "targets/stomp/frame.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static bool lies_in(struct slice section, const char *at, size_t len)
{
    return section.at >= at && section.at + section.len <= at + len;
}

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

/* Reads all frames of the text, with `step` bytes coming at a time; returns how far it was understood. */
static size_t read_all(const uint8_t *bytes, size_t len, size_t step, enum stomp_read *last)
{
    static struct stomp_frame frame;
    char *text = malloc(len + 1);
    size_t at = 0, here = step < len ? step : len;
    if (!text)
        abort();
    if (len)
        memcpy(text, bytes, len);
    for (;;) {
        const char *why = NULL;
        size_t used = 0;
        *last = stomp_frame_read(text + at, here - at, &frame, &used, &why);
        if (*last == STOMP_BROKEN) {
            CLAIM("what cannot be read is explained", why && *why);
            break;
        }
        if (*last == STOMP_MORE && here == len)
            break;
        if (*last == STOMP_MORE) {
            here = here + step < len ? here + step : len;
            continue;
        }
        CLAIM("something was used, no more than there is", used > 0 && used <= here - at);
        if (*last == STOMP_FRAME)
            check_frame(&frame, text + at, used);
        at += used;
    }
    free(text);
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    enum stomp_read whole, cut;
    size_t once = read_all(bytes, len, len ? len : 1, &whole);
    size_t again = read_all(bytes, len, len > 4096 ? 4001 : 1, &cut);
    CLAIM("cut anywhere it is understood as far", once == again);
    CLAIM("and ends the same", whole == cut);
    return 0;
}
