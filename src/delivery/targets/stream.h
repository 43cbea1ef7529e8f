/*
 * stream: a byte stream to one address, plain or with TLS, on the reactor's loop. It is independent
 * of the protocol.
 *
 * Used on the reactor's thread. `down` is called once, at the end of a loop iteration, and is the
 * last event. Events never occur inside a call or after stream_free. Unsent bytes are bounded (256
 * KiB). The owner is responsible for timeouts.
 */
#ifndef TARRY_TARGETS_STREAM_H
#define TARRY_TARGETS_STREAM_H

#include "net/reactor.h"

#include <stddef.h>
#include <sys/socket.h>

struct stream;

struct stream_events {
    void (*up)(void *ctx);                                /* connected and, with TLS, verified */
    void (*bytes)(void *ctx, const char *at, size_t len); /* valid during the callback */
    void (*room)(void *ctx);                  /* after a write that accepted too little */
    void (*down)(void *ctx, const char *why); /* text for users, without addresses */
};

/* Opens a stream. `tls_host` is the name for the certificate, or NULL for a plain stream. `ca_file`
 * is trusted in addition to the system's CAs, or NULL. Returns NULL without memory or
 * descriptors. */
struct stream *stream_new(struct reactor *reactor, const struct sockaddr *address,
                          const char *tls_host, const char *ca_file,
                          const struct stream_events *events, void *ctx);
/* Begins TLS on a plain stream that is up, as in stream_new: `up` follows once more when it is
 * verified, and nothing can be written before. Bytes that were written earlier are sent plain.
 * Returns false without memory or if the file cannot be read. */
bool stream_start_tls(struct stream *stream, const char *tls_host, const char *ca_file);
/* Writes bytes once it is up; they are sent at the end of the loop iteration. Returns the number of
 * accepted bytes; if fewer than `len`, `room` follows. */
size_t stream_write(struct stream *stream, const char *at, size_t len);
/* Frees the stream; at any time, also from its events. Accepted bytes are still offered to the
 * socket once. Accepts NULL. */
void stream_free(struct stream *stream);

#endif
