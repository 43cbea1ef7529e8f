/*
 * server_state: what a server says of itself to those who run it: GET /v1/server and GET /v1/log.
 *
 * On the reactor's thread of a front. Both are for callers that may see all topics.
 */
#ifndef TARRY_HTTP_SERVER_STATE_H
#define TARRY_HTTP_SERVER_STATE_H

#include "http/state.h"

/* The members of GET /v1/server, without braces: `"version":…,…`. Tokens are listed as far as they fit
 * into `tokens_bytes`, and counted all. */
void http_server_state_write(struct buffer *out, struct http_front *front, size_t tokens_bytes);

#endif
