/*
 * nats_frame: parses and writes the messages of the NATS client protocol, and the answers of
 * JetStream. Pure.
 *
 * Source: https://docs.nats.io/reference/reference-protocols/nats-protocol
 *
 * A message is a line, and for MSG and HMSG headers and a payload of announced sizes. Lines of the
 * peer are limited to 64 KiB, because INFO lists the servers of a cluster, and its payloads to 64
 * KiB.
 */
#ifndef TARRY_TARGETS_NATS_FRAME_H
#define TARRY_TARGETS_NATS_FRAME_H

#include "base/buffer.h"

enum { NATS_LINE_BYTES_MAX = 64 * 1024, NATS_PAYLOAD_BYTES_MAX = 64 * 1024 };

/* ---- reading ---- */

enum nats_verb { NATS_INFO = 1, NATS_MSG, NATS_PING, NATS_PONG, NATS_OK, NATS_ERROR };

struct nats_frame {
    enum nats_verb verb;
    struct slice text;    /* INFO: its JSON. ERROR: its text, without the quotes */
    struct slice subject; /* MSG */
    struct slice headers; /* MSG: of HMSG, with its version line; else empty */
    struct slice payload; /* MSG */
};

enum nats_read {
    NATS_FRAME = 1, /* *frame is set */
    NATS_MORE,      /* incomplete */
    NATS_BROKEN     /* malformed or too large; *why is the reason */
};
/* Reads the first message in bytes[0, len). FRAME: *used bytes are consumed; the frame points into
 * them. */
enum nats_read nats_frame_read(const char *bytes, size_t len, struct nats_frame *frame,
                               size_t *used, const char **why);

/* Returns the status of headers such as "NATS/1.0 503\r\n\r\n"; 0 if they have none. */
uint32_t nats_headers_status(struct slice headers);

/* The facts of INFO. */
struct nats_server {
    uint64_t max_payload; /* headers and body of a message */
    bool has_headers, needs_tls, offers_tls;
};
/* Returns false if it is not the object that a server sends. */
bool nats_info_parse(struct slice json, struct nats_server *out);

/* The answer of JetStream to a publish. */
struct nats_ack {
    bool is_stored;           /* also if it was a duplicate of a stored message */
    uint32_t code, error;     /* if not stored: the status as in HTTP, and JetStream's number */
    struct slice description; /* of the error: a raw JSON string, or empty */
};
/* Returns false if it is not an answer of JetStream. */
bool nats_ack_parse(struct slice json, struct nats_ack *out);

/* ---- writing ---- */

struct nats_login {
    const char *user, *password; /* or NULL */
    const char *token;           /* or NULL */
    const char *version;         /* of the client */
    bool is_tls;
};
void nats_emit_connect(struct buffer *out, const struct nats_login *login);

/* Begins and ends a block of headers. */
void nats_emit_headers_begin(struct buffer *out);
void nats_emit_headers_end(struct buffer *out);
/* Appends a header; control bytes of the value become '?'. */
void nats_emit_header(struct buffer *out, struct slice name, struct slice value);
/* Appends HPUB with a block of headers and a body. */
void nats_emit_publish(struct buffer *out, struct slice subject, struct slice reply,
                       struct slice headers, struct slice body);

/* Returns NULL if a message can be published to the subject, else the reason. */
const char *nats_subject_fault(struct slice subject);

#endif
