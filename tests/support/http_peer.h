/*
 * http_peer: an endpoint for callbacks that behaves as the request's path says, mostly badly.
 *
 * Threads of its own, one a connection. http_peer_stop ends them all, whatever they are at.
 */
#ifndef TARRY_TESTS_HTTP_PEER_H
#define TARRY_TESTS_HTTP_PEER_H

#include <stddef.h>
#include <stdint.h>

struct http_peer;

struct http_peer *http_peer_start(void);
void http_peer_stop(struct http_peer *peer);

uint16_t http_peer_port(const struct http_peer *peer);
/* Takes connections and says nothing there: a TLS handshake that stalls. */
uint16_t http_peer_mute_port(const struct http_peer *peer);
/* Nobody listens there. */
uint16_t http_peer_dead_port(const struct http_peer *peer);

/* Requests that came whole for a path, and connections so far. */
int http_peer_requests(struct http_peer *peer, const char *path);
int http_peer_connections(struct http_peer *peer);
/* The last whole request for a path, head and body, with a NUL behind. */
size_t http_peer_last(struct http_peer *peer, const char *path, char *into, size_t bytes);

#endif
