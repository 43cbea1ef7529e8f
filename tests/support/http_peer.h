/*
 * http_peer: an endpoint for callbacks whose behaviour, mostly bad, depends on the request's path.
 *
 * Threads of its own, one a connection. http_peer_stop ends them all at any point.
 */
#ifndef TARRY_TESTS_HTTP_PEER_H
#define TARRY_TESTS_HTTP_PEER_H

#include <stddef.h>
#include <stdint.h>

struct http_peer;

struct http_peer *http_peer_start(void);
void http_peer_stop(struct http_peer *peer);

uint16_t http_peer_port(const struct http_peer *peer);
/* Returns a port that accepts connections and sends nothing: a TLS handshake that stalls. */
uint16_t http_peer_mute_port(const struct http_peer *peer);
/* Returns a port without a listener. */
uint16_t http_peer_dead_port(const struct http_peer *peer);

/* Requests that came whole for a path, and connections so far. */
int http_peer_requests(struct http_peer *peer, const char *path);
int http_peer_connections(struct http_peer *peer);
/* The last whole request for a path, head and body, with a NUL behind. */
size_t http_peer_last(struct http_peer *peer, const char *path, char *into, size_t bytes);

#endif
