/*
 * tls: TLS of one connection without its socket: bytes that came in, bytes that are to go out.
 *
 * A context is what connections have in common: a certificate, who is believed, which versions. It
 * may be replaced while there are sessions of it: these go on as they began. A session is one
 * connection. It keeps no bytes but those of a record that is not whole yet: what came is read from
 * the caller's memory, and what is to be sent is appended to the caller's buffer.
 *
 * TLS 1.2 and 1.3, forward secrecy and authenticated ciphers only; no renegotiation, no compression,
 * no early data. A server hands out session tickets; their keys are the context's own, made at random
 * and in memory only, so they change whenever the context is replaced.
 *
 * A context may be used by several threads at once, a session by one.
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
    TLS_CLIENT_AUTH_REQUEST, /* asked for; one that is shown must be good */
    TLS_CLIENT_AUTH_REQUIRE
};

/* Files are PEM. NULL: none. */
struct tls_options {
    bool is_server;
    bool wants_tls_1_3;           /* nothing older */
    const char *certificate_file; /* and those up to the root, behind it; a server's is needed */
    const char *key_file;         /* of that certificate; without a passphrase */
    const char *ca_file;          /* who is believed; NULL: of a client, whom the system believes */
    enum tls_client_auth client_auth; /* of a server; other than OFF wants a ca_file */
};

/* ---- contexts ---- */

/* Reads the files. NULL: `error` says which, and what is wrong with it. */
struct tls_context *tls_context_new(const struct tls_options *options, char *error,
                                    size_t error_bytes);
/* Any thread. It begins with one holder. */
struct tls_context *tls_context_hold(struct tls_context *context);
void tls_context_release(struct tls_context *context); /* NULL is fine */
/* When the certificate ends, in seconds of Unix time; INT64_MAX where there is none. */
int64_t tls_context_expires_s(const struct tls_context *context);

/* ---- sessions ---- */

enum tls_state {
    TLS_HANDSHAKE = 1,
    TLS_OPEN,
    TLS_ENDED, /* the peer said that no more comes; what is written still goes */
    TLS_FAILED /* see tls_why; what the last call appended is still worth sending */
};

/* A server's. NULL: out of memory. */
struct tls_session *tls_session_accept(struct tls_context *context);
/* A client's, to the server called `name`: a host name or an address, which must be in the server's
 * certificate. What it says first is appended to `out`. NULL: out of memory. */
struct tls_session *tls_session_connect(struct tls_context *context, const char *name,
                                        struct buffer *out);
void tls_session_free(struct tls_session *session); /* NULL is fine */

/* Bytes that came. They are the caller's, and stay where they are until tls_read has returned 0. */
void tls_feed(struct tls_session *session, const char *bytes, size_t len);
/*
 * What they say, up to `cap` bytes into `into`. 0: no more for now, all that was fed has been taken.
 * Negative: there will be no more, see tls_state_of. What the peer is to be told meanwhile, in the
 * handshake above all, is appended to `out`.
 */
ssize_t tls_read(struct tls_session *session, char *into, size_t cap, struct buffer *out);
/* Appends to `out` what is to be sent so that the peer reads these bytes. False: the session is not
 * open (yet), or memory ran out. */
bool tls_write(struct tls_session *session, const char *bytes, size_t len, struct buffer *out);
/* `plain` bytes that one tls_write took became `cipher` ones, of which the last `left` were not sent:
 * how many of the plain ones can the peer not have read? A record is read whole or not at all. */
size_t tls_unread(size_t plain, size_t cipher, size_t left);
/* Tells the peer that no more comes. */
void tls_close(struct tls_session *session, struct buffer *out);

enum tls_state tls_state_of(const struct tls_session *session);
/* Why it failed, for people: "the certificate is of another name". "" where it did not. */
const char *tls_why(const struct tls_session *session);
/* It failed since the peer speaks plain HTTP. */
bool tls_is_plain_http(const struct tls_session *session);
/* The name in the peer's certificate: its first DNS name, else its common name. "" where it showed
 * none. Once the session is open. */
const char *tls_peer_name(const struct tls_session *session);
/* "TLSv1.3". */
const char *tls_version(const struct tls_session *session);
/* Did it go on from an earlier session's ticket? */
bool tls_is_resumed(const struct tls_session *session);

#endif
