/*
 * stomp_frame: parses and writes frames of STOMP 1.2. Pure.
 *
 * Source: https://stomp.github.io/stomp-specification-1.2.html
 *
 * A frame is a command, headers, an empty line, a body, a NUL; a line end between frames is a
 * heart-beat. Headers are escaped (\r \n \c \\), except in CONNECT and CONNECTED. Frames of the
 * peer are limited to 16 KiB of command and headers, 64 headers, and a body of 64 KiB.
 */
#ifndef TARRY_TARGETS_STOMP_FRAME_H
#define TARRY_TARGETS_STOMP_FRAME_H

#include "base/buffer.h"

enum {
    STOMP_HEAD_BYTES_MAX = 16 * 1024, /* command, headers and the empty line */
    STOMP_BODY_BYTES_MAX = 64 * 1024,
    STOMP_HEADERS_MAX = 64
};

/* ---- reading ---- */

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
    STOMP_FRAME = 1,  /* *frame is set */
    STOMP_HEART_BEAT, /* a line end between frames */
    STOMP_MORE,       /* incomplete */
    STOMP_BROKEN      /* malformed or too large; *why is the reason */
};
/*
 * Reads the first item in bytes[0, len). FRAME and HEART_BEAT: *used bytes are consumed; the bytes
 * were changed in place (unescaped), and the frame points into them. MORE: nothing was changed;
 * call again with the same bytes and more of them.
 */
enum stomp_read stomp_frame_read(char *bytes, size_t len, struct stomp_frame *frame, size_t *used,
                                 const char **why);

/* Returns the first header of that name, as the standard requires; `at` is NULL if it is
 * missing. */
struct slice stomp_frame_header(const struct stomp_frame *frame, const char *name);

/* Parses "4000,10000": the intervals in ms in which the peer can send and expects to receive.
 * Returns false if malformed. */
bool stomp_frame_heart_beat(struct slice text, int64_t *sends_ms, int64_t *wants_ms);

/* ---- writing ---- */

void stomp_emit_command(struct buffer *out, const char *command);
/* Appends a header. `value` may contain any byte except NUL, which is left out because it cannot be
 * represented. */
void stomp_emit_header(struct buffer *out, struct slice name, struct slice value);
/* Appends an unescaped header of CONNECT. Returns false and appends nothing if it contains bytes
 * that cannot be written unescaped. */
bool stomp_emit_plain_header(struct buffer *out, const char *name, struct slice value);
/* Ends the head and appends the body and a NUL. */
void stomp_emit_body(struct buffer *out, struct slice body);

#endif
