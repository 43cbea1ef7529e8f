/*
 * tls: TLS for one connection without its socket: received bytes in, bytes to send out.
 *
 * A context is the shared configuration of connections: a certificate, the trusted CAs, the
 * versions. It may be replaced while it has sessions, which continue unchanged. A session is one
 * connection. It stores no bytes except those of an incomplete record: received bytes are read from
 * the caller's memory, and bytes to send are appended to the caller's buffer.
 *
 * TLS 1.2 and 1.3, with forward secrecy and authenticated ciphers only; no renegotiation, no
 * compression, no early data. A server issues session tickets. Their keys belong to the context,
 * are random and in memory only, so they change whenever the context is replaced.
 *
 * Several threads may use a context at the same time; one thread uses a session.
 */
#ifndef TARRY_NET_TLS_H
#define TARRY_NET_TLS_H

#include "base/buffer.h"

#include <sys/types.h>

enum { TLS_ERROR_BYTES = 512, TLS_NAME_BYTES = 256 };

struct tls_context;
struct tls_session;

enum tls_client_auth {
    TLS_CLIENT_AUTH_OFF = 0, /* clients are not asked for a certificate */
    TLS_CLIENT_AUTH_REQUEST, /* asked for; a certificate that is sent must be valid */
    TLS_CLIENT_AUTH_REQUIRE
};

/* The options of a context. Files are PEM. NULL: not set. */
struct tls_options {
    bool is_server;
    bool wants_tls_1_3;           /* no older version */
    bool offers_http2;            /* a server offers it beside HTTP/1.1 */
    const char *certificate_file; /* followed by the chain up to the root; required for a server */
    const char *key_file;         /* for that certificate; without a passphrase */
    const char *ca_file;          /* trusted CAs; NULL: for a client, the system's */
    enum tls_client_auth client_auth; /* for a server; values other than OFF require a ca_file */
};

/* ---- contexts ---- */

/* Creates a context and reads the files. Returns NULL if a file is invalid; `error` names the file
 * and the fault. */
struct tls_context *tls_context_new(const struct tls_options *options, char *error,
                                    size_t error_bytes);
/* Adds a reference. Any thread. A context begins with one reference. */
struct tls_context *tls_context_hold(struct tls_context *context);
void tls_context_release(struct tls_context *context); /* NULL is allowed */
/* Returns when the certificate expires, in seconds of Unix time; INT64_MAX if there is no
 * certificate. */
int64_t tls_context_expires_s(const struct tls_context *context);

/* ---- sessions ---- */

enum tls_state {
    TLS_HANDSHAKE = 1,
    TLS_OPEN,
    TLS_ENDED, /* the peer has closed its direction; sending still works */
    TLS_FAILED /* see tls_why; send what the last call appended all the same */
};

/* Creates a server session. Returns NULL when out of memory. */
struct tls_session *tls_session_accept(struct tls_context *context);
/* Creates a client session to the server called `name`: a host name or an address, which must be in
 * the server's certificate. Appends the first message to `out`. Returns NULL when out of memory. */
struct tls_session *tls_session_connect(struct tls_context *context, const char *name,
                                        struct buffer *out);
void tls_session_free(struct tls_session *session); /* NULL is allowed */

/* Passes received bytes to the session. The caller owns them and must keep them in place until
 * tls_read has returned 0. */
void tls_feed(struct tls_session *session, const char *bytes, size_t len);
/*
 * Decrypts up to `cap` bytes into `into`. Returns 0 if all fed bytes have been consumed, and a
 * negative value at the end, see tls_state_of. Appends to `out` what must be sent to the peer,
 * above all during the handshake.
 */
ssize_t tls_read(struct tls_session *session, char *into, size_t cap, struct buffer *out);
/* Encrypts bytes and appends the result to `out`. Returns false if the session is not open (yet) or
 * memory ran out. */
bool tls_write(struct tls_session *session, const char *bytes, size_t len, struct buffer *out);
/* Returns how many of the `plain` bytes of one tls_write the peer cannot have read, if they became
 * `cipher` bytes, of which the last `left` were not sent. A record is read whole or not at all. */
size_t tls_unread(size_t plain, size_t cipher, size_t left);
/* Appends the message that closes this direction. */
void tls_close(struct tls_session *session, struct buffer *out);

enum tls_state tls_state_of(const struct tls_session *session);
/* Returns why the session failed, for people: "the certificate is of another name". "" if it has
 * not failed. */
const char *tls_why(const struct tls_session *session);
/* Returns whether the session failed because the peer speaks plain HTTP. */
bool tls_is_plain_http(const struct tls_session *session);
/* Returns the name in the peer's certificate: its first DNS name, else its common name. "" if the
 * peer sent no certificate. Valid once the session is open. */
const char *tls_peer_name(const struct tls_session *session);
/* Returns the protocol that the handshake has chosen: "h2", "http/1.1", or empty. */
struct slice tls_protocol(const struct tls_session *session);
/* Returns the version, such as "TLSv1.3". */
const char *tls_version(const struct tls_session *session);
/* Returns whether the session was resumed with a ticket of an earlier session. */
bool tls_is_resumed(const struct tls_session *session);

#endif
