/*
 * stomp_frame: frames of STOMP 1.2 between bytes and fields. Pure.
 *
 * Source: https://stomp.github.io/stomp-specification-1.2.html
 *
 * A frame is a command, headers, an empty line, a body, a NUL; a line end between frames is a
 * heart-beat. Headers are escaped (\r \n \c \\), but not in CONNECT and CONNECTED. What a peer
 * sends is bounded: 16 KiB of command and headers, 64 of them, a body of 64 KiB.
 */
#ifndef TARRY_TARGETS_STOMP_FRAME_H
#define TARRY_TARGETS_STOMP_FRAME_H

#include "base/buffer.h"

enum {
    STOMP_HEAD_BYTES_MAX = 16 * 1024, /* command, headers, the empty line */
    STOMP_BODY_BYTES_MAX = 64 * 1024,
    STOMP_HEADERS_MAX = 64
};

/* ---- in ---- */

struct stomp_header {
    struct slice name, value; /* unescaped */
};

struct stomp_frame {
    struct slice command;
    struct stomp_header headers[STOMP_HEADERS_MAX];
    size_t header_count;
    struct slice body;
};

enum stomp_read {
    STOMP_FRAME = 1,  /* *frame is filled in */
    STOMP_HEART_BEAT, /* a line end between frames */
    STOMP_MORE,       /* not all of it is there yet */
    STOMP_BROKEN      /* no frame can begin so, or it passes a bound; *why says what */
};
/*
 * The first thing in bytes[0, len). FRAME and HEART_BEAT: *used bytes are done with; the bytes have
 * been changed in place (unescaped), and the frame points into them. MORE: nothing has been
 * changed; call again with the same bytes and more of them.
 */
enum stomp_read stomp_frame_read(char *bytes, size_t len, struct stomp_frame *frame, size_t *used,
                                 const char **why);

/* The first of that name, as the standard says; `at` NULL: none. */
struct slice stomp_frame_header(const struct stomp_frame *frame, const char *name);

/* "4000,10000": what the peer can send and wants to get, in ms. False: malformed. */
bool stomp_frame_heart_beat(struct slice text, int64_t *sends_ms, int64_t *wants_ms);

/* ---- out ---- */

void stomp_emit_command(struct buffer *out, const char *command);
/* `value` may hold any byte but NUL, which is left out: there is no way to write it. */
void stomp_emit_header(struct buffer *out, struct slice name, struct slice value);
/* Of CONNECT: not escaped. False: it holds what cannot be written so; nothing is appended. */
bool stomp_emit_plain_header(struct buffer *out, const char *name, struct slice value);
/* Ends the head; the body follows it, then a NUL. */
void stomp_emit_body(struct buffer *out, struct slice body);

#endif
