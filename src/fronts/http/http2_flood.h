/*
 * http2_flood: frames that cost the server work and the client nothing, counted per second.
 *
 * Three limits, each 1,000 in a second: streams that end before their answer, less one for each
 * request that was answered; PING, SETTINGS and PRIORITY frames together; DATA and CONTINUATION
 * frames without content. Pure.
 */
#ifndef TARRY_HTTP_HTTP2_FLOOD_H
#define TARRY_HTTP_HTTP2_FLOOD_H

#include <stdbool.h>
#include <stdint.h>

enum { HTTP2_FLOOD_MAX = 1000, HTTP2_FLOOD_MS = 1000 };

enum http2_flood_kind { HTTP2_FLOOD_RESET, HTTP2_FLOOD_CONTROL, HTTP2_FLOOD_EMPTY, HTTP2_FLOODS };

/* Zeroed at first. */
struct http2_flood {
    int64_t since_ms;
    uint32_t counts[HTTP2_FLOODS];
};

/* Counts a frame. Returns false if there were too many in this second. */
bool http2_flood_count(struct http2_flood *flood, enum http2_flood_kind kind, int64_t now_ms);
/* Notes a request that was answered: it makes up for one reset. */
void http2_flood_forgive(struct http2_flood *flood);

#endif
