/*
 * server_state: the state of the server for its operators: GET /v1/server and GET /v1/log.
 *
 * Runs on the reactor thread of a front. Both calls are for callers that may see all topics.
 */
#ifndef TARRY_MONITOR_SERVER_STATE_H
#define TARRY_MONITOR_SERVER_STATE_H

#include "http/state.h"

/* Writes the members of GET /v1/server, without braces: `"version":…,…`. Lists as many tokens as
 * fit into `tokens_bytes`, and counts all. */
void monitor_server_state_write(struct buffer *out, struct http_front *front, size_t tokens_bytes);

#endif
