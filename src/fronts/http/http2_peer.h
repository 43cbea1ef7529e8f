/*
 * http2_peer: protects a connection against a hostile peer. Pure.
 *
 * Floods: frames that cost the server work and the client nothing are counted per second. Three
 * limits, each 1,000 in a second: streams that end before their answer, less one for each request
 * that was answered; PING, SETTINGS and PRIORITY frames together; DATA and CONTINUATION frames
 * without content.
 *
 * Closed streams: the last streams of a connection that ended, so that late frames on them can be
 * distinguished from wrong ones. libnghttp2 could keep its closed streams for this, at 60 KiB for
 * each busy connection.
 */
#ifndef TARRY_HTTP_HTTP2_PEER_H
#define TARRY_HTTP_HTTP2_PEER_H

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

enum { HTTP2_CLOSED_KEPT = 64 };

/* The last streams, in a ring. Zeroed at first. */
struct http2_closed {
    int32_t ids[HTTP2_CLOSED_KEPT];
    uint32_t count;
};

void http2_closed_add(struct http2_closed *closed, int32_t id);
bool http2_closed_has(const struct http2_closed *closed, int32_t id);

#endif
