#include "http/chunk.h"

#include "base/hex.h"
enum { CHUNK_DIGITS_MAX = 16 };

enum {
    CHUNK_SIZE_FIRST = 0, /* the first digit of a size */
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER_FIRST, /* at the start of a line after the last chunk */
    CHUNK_TRAILER,
    CHUNK_TRAILER_LF,
    CHUNK_END_LF
};

static enum http_step refuse(struct http_fault *fault, const char *what)
{
    (void)http_fault_set(fault, PROBLEM_BAD_FRAMING, 0, "malformed chunked body: %s", what);
    return HTTP_STEP_REFUSED;
}

static enum http_step too_big(const struct http_framing *framing, struct http_fault *fault)
{
    (void)http_fault_set(fault, PROBLEM_BODY_TOO_BIG, framing->body_bytes_max,
                         "the body is longer than the %llu bytes allowed here",
                         (unsigned long long)framing->body_bytes_max);
    return HTTP_STEP_REFUSED;
}

/* A digit of the size. Checked against the limit at once, so it cannot overflow. */
static bool add_digit(struct http_framing *framing, int digit)
{
    framing->length = framing->length * 16 + (uint64_t)digit;
    return framing->decoded + framing->length <= framing->body_bytes_max;
}

static bool is_note(struct http_framing *framing, char c)
{
    return (c == '\t' || (c >= 0x20 && c != 0x7f) || (c & 0x80)) &&
           ++framing->chunk_notes <= HTTP_CHUNK_NOTES_BYTES_MAX;
}

static size_t move_data(struct http_framing *framing, char *bytes, size_t len, size_t at)
{
    uint64_t here = len - at < framing->length ? len - at : framing->length;
    memmove(bytes + framing->head_bytes + framing->decoded, bytes + at, here);
    framing->decoded += here;
    framing->length -= here;
    if (framing->length == 0)
        framing->chunk_state = CHUNK_DATA_CR;
    return (size_t)here;
}

enum http_step http_chunks_read(struct http_framing *framing, char *bytes, size_t len, size_t *at,
                                struct http_fault *fault)
{
    while (*at < len) {
        if (framing->chunk_state == CHUNK_DATA) {
            *at += move_data(framing, bytes, len, *at);
            continue;
        }
        char c = bytes[(*at)++];
        int digit = hex_value(c);
        switch (framing->chunk_state) {
        case CHUNK_SIZE_FIRST:
            framing->length = 0;
            framing->chunk_digits = 1;
            if (digit < 0)
                return refuse(fault, "a chunk's size must be hexadecimal digits");
            framing->chunk_state = CHUNK_SIZE;
            if (!add_digit(framing, digit))
                return too_big(framing, fault);
            break;
        case CHUNK_SIZE:
            if (digit >= 0) {
                if (!add_digit(framing, digit))
                    return too_big(framing, fault);
                if (++framing->chunk_digits > CHUNK_DIGITS_MAX)
                    return refuse(fault, "a chunk's size has too many digits");
            } else if (c == '\r') {
                framing->chunk_state = CHUNK_SIZE_LF;
            } else if (c == ';') {
                framing->chunk_state = CHUNK_EXTENSION;
            } else {
                return refuse(fault, "a chunk's size must be hexadecimal digits");
            }
            break;
        case CHUNK_EXTENSION:
            if (c == '\r')
                framing->chunk_state = CHUNK_SIZE_LF;
            else if (!is_note(framing, c))
                return refuse(fault, "a chunk extension is malformed or too long");
            break;
        case CHUNK_SIZE_LF:
            if (c != '\n')
                return refuse(fault, "CR without LF after a chunk's size");
            framing->chunk_state = framing->length ? CHUNK_DATA : CHUNK_TRAILER_FIRST;
            break;
        case CHUNK_DATA_CR:
            if (c != '\r')
                return refuse(fault, "a chunk is longer than its size says");
            framing->chunk_state = CHUNK_DATA_LF;
            break;
        case CHUNK_DATA_LF:
            if (c != '\n')
                return refuse(fault, "CR without LF after a chunk");
            framing->chunk_state = CHUNK_SIZE_FIRST;
            break;
        case CHUNK_TRAILER_FIRST:
        case CHUNK_TRAILER:
            if (c == '\r')
                framing->chunk_state =
                    framing->chunk_state == CHUNK_TRAILER_FIRST ? CHUNK_END_LF : CHUNK_TRAILER_LF;
            else if (!is_note(framing, c))
                return refuse(fault, "a trailer is malformed or too long");
            else
                framing->chunk_state = CHUNK_TRAILER;
            break;
        case CHUNK_TRAILER_LF:
            if (c != '\n')
                return refuse(fault, "CR without LF in the trailer");
            framing->chunk_state = CHUNK_TRAILER_FIRST;
            break;
        default: /* CHUNK_END_LF */
            if (c != '\n')
                return refuse(fault, "CR without LF at the end");
            return HTTP_STEP_WHOLE;
        }
    }
    return HTTP_STEP_MORE;
}
