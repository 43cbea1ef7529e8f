/*
 * channel: TLS on a connection: decrypts what is received and encrypts what is sent.
 *
 * An idle channel holds no buffer. Ciphertext is read into a buffer of the front and decrypted into
 * the buffer that plain connections read into. Answers are encrypted at the end of a loop iteration
 * into a buffer lent by the front. The session is created when the first bytes arrive, so a silent
 * client costs no session. Runs on the reactor thread.
 */
#ifndef TARRY_HTTP_CHANNEL_H
#define TARRY_HTTP_CHANNEL_H

#include "http/state.h"

enum {
    HTTP_SEALED_READ_BYTES = 96 * 1024, /* maximum size of one read of ciphertext */
    HTTP_RECORD_BYTES = 17 * 1024       /* maximum part of a record that a session buffers */
};

struct http_channel {
    struct tls_session *session; /* NULL until the first bytes arrive */
    struct buffer sealed;        /* ciphertext to be written */
    bool is_ended;               /* close_notify has been sent to the peer */
};

enum http_opened {
    HTTP_OPENED = 1,   /* more may follow */
    HTTP_OPENED_END,   /* the peer has ended its side */
    HTTP_OPENED_PLAIN, /* the client speaks plain HTTP, not TLS */
    HTTP_OPENED_BAD    /* fatal: the encrypted output holds the alert for the peer */
};

/* Creates a channel. Returns NULL if out of memory. */
struct http_channel *http_channel_new(void);
void http_channel_free(struct http_channel *channel, struct http_front *front);

/* Returns whether the handshake is complete. */
bool http_channel_is_open(const struct http_channel *channel);

/* Returns why the handshake failed, in words. */
const char *http_channel_why(const struct http_channel *channel);

/* Returns the name in the client's certificate, or an empty slice without one. `channel` may be
 * NULL. */
struct slice http_channel_certificate(const struct http_channel *channel);

/* Returns whether the handshake has chosen this protocol. `channel` may be NULL. */
bool http_channel_chose(const struct http_channel *channel, const char *protocol);

/* Decrypts bytes into `into`, which has room for `len` and HTTP_RECORD_BYTES, and sets *got to the
 * plain length. Encrypts replies of the TLS layer into `sealed`. */
enum http_opened http_channel_open(struct http_channel *channel, struct http_front *front,
                                   const char *bytes, size_t len, char *into, size_t *got);

/* Encrypts all of `out` and releases its memory. Returns false if out of memory or before the end
 * of the handshake. */
bool http_channel_seal(struct http_channel *channel, struct http_front *front, struct buffer *out);

/* Prepares the end of this side. Returns true if there are bytes to be written now. */
bool http_channel_end(struct http_channel *channel, struct http_front *front);

#endif
