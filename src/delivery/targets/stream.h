/*
 * stream: bytes to and from one address, plain or by TLS, on the reactor's loop. STOMP goes by it; it
 * knows no protocol.
 *
 * One thread, the reactor's. `down` comes once, at the end of a turn, and is the last; no event
 * comes inside a call, none after stream_free. Unsent bytes are bounded (256 KiB). The time a
 * connection may take is the owner's to keep.
 */
#ifndef TARRY_TARGETS_STREAM_H
#define TARRY_TARGETS_STREAM_H

#include "net/reactor.h"

#include <stddef.h>
#include <sys/socket.h>

struct stream;

struct stream_events {
    void (*up)(void *ctx);                                /* connected; TLS: and verified */
    void (*bytes)(void *ctx, const char *at, size_t len); /* valid during the callback */
    void (*room)(void *ctx);                              /* after a write that took too little */
    void (*down)(void *ctx, const char *why);             /* for people, without addresses */
};

/* `tls_host`: the name its certificate must be for, or NULL: plain. `ca_file`: trusted beside the
 * system's, or NULL. NULL: out of memory or descriptors. */
struct stream *stream_new(struct reactor *reactor, const struct sockaddr *address,
                          const char *tls_host, const char *ca_file,
                          const struct stream_events *events, void *ctx);
/* Once up. How many bytes were taken; fewer than `len`: `room` follows. Sent at the turn's end. */
size_t stream_write(struct stream *stream, const char *at, size_t len);
/* Any time, also from its events. What a write took is still offered to the socket once. NULL is
 * fine. */
void stream_free(struct stream *stream);

#endif
