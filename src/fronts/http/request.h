/*
 * request: one HTTP/1 request, as slices of the bytes it came in.
 *
 * Reading is in two layers that must agree. In front, `http_message_read` splits the bytes into
 * head and body by itself and is strict (RFC 9112 without its concessions): CR LF ends a line and
 * neither stands alone, no folded lines, one length, one host; the lines of a head, of chunks and of
 * trailers are found and checked by the same functions. Then llhttp reads the head as a whole; it
 * reads no body, see decision 31. Limits are met before memory is spent.
 *
 * Pure. Slices point into the bytes given and live as long as those.
 */
#ifndef TARRY_HTTP_REQUEST_H
#define TARRY_HTTP_REQUEST_H

#include "http/fault.h"

enum {
    HTTP_LINE_BYTES_MAX = 8 * 1024,
    HTTP_HEAD_BYTES_MAX = 16 * 1024, /* with the request line */
    HTTP_HEADERS_MAX = 100,
    HTTP_CHUNK_NOTES_BYTES_MAX = 4096 /* chunk extensions and trailers of one message */
};

enum http_method {
    HTTP_METHOD_GET = 1,
    HTTP_METHOD_HEAD,
    HTTP_METHOD_PUT,
    HTTP_METHOD_POST,
    HTTP_METHOD_PATCH,
    HTTP_METHOD_DELETE,
    HTTP_METHOD_OPTIONS,
    HTTP_METHOD_OTHER
};

struct http_header {
    struct slice name, value; /* as sent; value without blanks around it */
};

struct http_request {
    enum http_method method;
    struct slice path, query;        /* as sent: percent-encoded; query without '?' */
    struct slice authority;          /* of a target in the absolute form, else empty */
    struct slice host;               /* empty: none, as HTTP/1.0 allows */
    struct slice origin, fetch_site; /* what a browser says of the page that asks */
    struct slice content_type, accept;
    struct slice authorization; /* `at` NULL: there is none */
    bool is_known;              /* that, by its line: see struct http_framing */
    struct slice body;
    uint64_t content_length;
    bool has_length, chunked;
    bool is_http_1_0, keeps_alive, expects_continue;
    bool has_tarry_headers, has_trace; /* has_trace: a traceparent */
    bool has_marks;                    /* authority, origin or fetch_site: few have */
    bool has_type, has_accept, has_origin, has_fetch_site, has_authorization;
    uint32_t header_count;
    struct http_header headers[HTTP_HEADERS_MAX];
};

/* Reads a whole head (up to and with the empty line). On false *fault says why; the connection must
 * then be closed. */
bool http_request_parse(struct slice head, struct http_request *out, struct http_fault *fault);

/* The line of a good request's Authorization, which may be known in the next one by its bytes; empty
 * where there is none, or one with blanks behind it. */
struct slice http_request_authorization_line(const struct http_request *request);

/* The value of the first field of that name; empty where there is none. */
struct slice http_request_field(const struct http_request *request, const char *lower);

/* Where the reading of a message stands; zeroed at its first byte. */
struct http_framing {
    struct slice
        known; /* what http_request_authorization_line gave for an earlier message, or empty;
                            set by the caller before each call, the same one for all of a message.
                            Where the head has this line it is not checked and parsed again */
    uint32_t known_at; /* where it has; 0: it has not */
    uint32_t known_bytes;
    uint32_t line_at, lines; /* head: start of the line, lines so far */
    uint32_t head_bytes;     /* 0: the head is not whole yet */
    size_t probed;           /* bytes in which the end of a line was looked for */
    bool chunked;
    bool is_stale; /* the request was read in an earlier call, its slices are gone */
    uint8_t chunk_state;
    uint16_t chunk_notes;
    uint64_t body_bytes_max; /* set by the caller at HTTP_STEP_HEAD */
    uint64_t length;         /* body: announced, or of the chunk under way: what is missing */
    uint64_t decoded;        /* chunked: bytes of the body so far */
};

enum http_step {
    HTTP_STEP_MORE = 1, /* needs more bytes than there are */
    HTTP_STEP_SKIP,     /* an empty line before the request: *used bytes are to be dropped */
    HTTP_STEP_HEAD,     /* the head is whole and in *request: set body_bytes_max and call again */
    HTTP_STEP_WHOLE,    /* request->body is set, the message took *used bytes */
    HTTP_STEP_REFUSED   /* *fault says why; answer and close */
};

/*
 * `bytes` start at the message's first byte. MORE: *len may have shrunk to what must be kept
 * (chunks are taken out of their wrapping in place). *request is whole at WHOLE, however often the
 * bytes have moved since its head came.
 */
enum http_step http_message_read(struct http_framing *framing, char *bytes, size_t *len,
                                 struct http_request *request, size_t *used,
                                 struct http_fault *fault);

/* True if `text` is `lower` but for upper case. */
bool http_is(struct slice text, const char *lower);
/* True if `text` begins so. */
bool http_begins(struct slice text, const char *lower);
/* True if the comma-separated list holds the token. */
bool http_list_has(struct slice list, const char *lower);

#endif
