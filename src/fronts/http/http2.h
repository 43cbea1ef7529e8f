/*
 * http2: HTTP/2 on a connection (RFC 9113), by libnghttp2, which sees bytes only.
 *
 * A stream is one request; its exchange, checks, limits and handler are those of HTTP/1.1. Answers
 * leave in any order. A job counts as delivered when the DATA frame that ends its answer was
 * written; if the stream is reset earlier, its jobs return to the queue without counting an
 * attempt. Server push is off, priorities are ignored.
 *
 * A request that waits, is held back or has a body in memory is counted as in HTTP/1.1. The window
 * of the connection grows only while the budget has memory. Floods of frames end the connection
 * (http2_peer.h). A build without HTTP/2 has absent/http2.c in place of this.
 *
 * Runs on the reactor thread.
 */
#ifndef TARRY_HTTP_HTTP2_H
#define TARRY_HTTP_HTTP2_H

#include "base/slice.h"

#include <stdbool.h>

struct http_connection;

#define HTTP2_PROTOCOL "h2" /* its name in a TLS handshake */

/* Returns whether this build has it. */
bool http2_is_offered(void);
/* Returns whether the received bytes begin HTTP/2; *is_short: they may, more of them will tell. */
bool http2_begins(struct slice bytes, bool *is_short);
/* Makes a new connection speak HTTP/2. Returns false if out of memory. */
bool http2_start(struct http_connection *connection);

#endif
