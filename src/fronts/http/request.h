/*
 * request: one HTTP/1 request, as slices of the received bytes.
 *
 * Two layers read a request and must agree. First, `http_message_read` splits the bytes into head
 * and body. It is strict (RFC 9112 without its concessions): lines end with CR LF and contain
 * neither alone, lines are not folded, there is one length and one host. The same functions find
 * and check the lines of heads, chunks and trailers. Second, llhttp parses the whole head; it reads
 * no body, see decision 31. Lines that were written from the fields of HTTP/2 are split at their
 * ends and colons instead: nghttp2 has split them once. Limits are checked before memory is used.
 *
 * Pure. Slices point into the given bytes and are valid as long as those.
 */
#ifndef TARRY_HTTP_REQUEST_H
#define TARRY_HTTP_REQUEST_H

#include "http/fault.h"

enum {
    HTTP_LINE_BYTES_MAX = 8 * 1024,
    HTTP_HEAD_BYTES_MAX = 16 * 1024, /* including the request line */
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
    struct slice name, value; /* as sent; the value without surrounding blanks */
};

struct http_request {
    enum http_method method;
    struct slice path, query; /* as sent: percent-encoded; query without '?' */
    struct slice authority;   /* of a target in absolute form, else empty */
    struct slice host;        /* empty if missing, which HTTP/1.0 allows */
    struct slice origin,
        fetch_site; /* what a browser reports about the page that makes the request */
    struct slice content_type, accept;
    struct slice authorization; /* `at` NULL: missing */
    bool is_known;              /* authorization has the known line, see struct http_framing */
    struct slice body;
    uint64_t content_length;
    bool has_length, chunked;
    bool is_http_1_0, is_http_2, keeps_alive, expects_continue;
    bool has_tarry_headers, has_trace; /* has_trace: a traceparent */
    bool has_marks;                    /* rare fields: authority, origin or fetch_site */
    bool has_type, has_accept, has_origin, has_fetch_site, has_authorization;
    uint32_t header_count;
    struct http_header headers[HTTP_HEADERS_MAX];
};

/* Parses a whole head, including the empty line. On false, *fault describes the problem and the
 * connection must be closed. */
bool http_request_parse(struct slice head, struct http_request *out, struct http_fault *fault);

/* Returns the Authorization line of a parsed request, to be compared with the bytes of the next
 * one. Empty if it is missing, or if blanks follow it. */
struct slice http_request_authorization_line(const struct http_request *request);

/* Returns the value of the first field of that name, or an empty slice. */
struct slice http_request_field(const struct http_request *request, const char *lower);

/* The progress of reading a message; zeroed at its first byte. */
struct http_framing {
    /* Result of http_request_authorization_line for an earlier message, or empty. Set by the caller
     * before each call, unchanged during a message. If the head contains this line, the line is not
     * checked and parsed again. */
    struct slice known;
    uint32_t known_at; /* offset of that line; 0: not found */
    uint32_t known_bytes;
    uint32_t line_at, lines; /* head: start of the current line, lines so far */
    uint32_t head_bytes;     /* 0: the head is incomplete */
    size_t probed;           /* bytes already searched for the end of a line */
    bool is_http_2; /* set by the caller: the lines were written from the fields of HTTP/2 */
    bool chunked;
    bool is_stale; /* the request was parsed in an earlier call; its slices are invalid */
    uint8_t chunk_state;
    uint16_t chunk_notes;
    uint64_t body_bytes_max; /* set by the caller at HTTP_STEP_HEAD */
    uint64_t length;         /* body: its length, or the missing bytes of the current chunk */
    uint64_t decoded;        /* chunked: bytes of the body so far */
};

enum http_step {
    HTTP_STEP_MORE = 1, /* the message is incomplete */
    HTTP_STEP_SKIP,     /* an empty line before the request: drop *used bytes */
    HTTP_STEP_HEAD,   /* the head is complete and in *request: set body_bytes_max and call again */
    HTTP_STEP_WHOLE,  /* request->body is set; the message had *used bytes */
    HTTP_STEP_REFUSED /* *fault describes the problem; answer and close */
};

/* Reads a message from `bytes`, which start at its first byte. At MORE, *len may have shrunk to the
 * bytes to be kept, since chunked bodies are decoded in place. At WHOLE, *request is valid even if
 * the bytes have moved since the head was read. */
enum http_step http_message_read(struct http_framing *framing, char *bytes, size_t *len,
                                 struct http_request *request, size_t *used,
                                 struct http_fault *fault);

/* Returns whether `text` equals `lower` except for upper case. */
bool http_is(struct slice text, const char *lower);
/* Returns whether `text` begins with `lower`, except for upper case. */
bool http_begins(struct slice text, const char *lower);
/* Returns whether the comma-separated list contains the token. */
bool http_list_has(struct slice list, const char *lower);

#endif
