/*
 * http2_closed: which streams of a connection ended lately, and by whom, so that frames on them can
 * be distinguished from late ones. libnghttp2 could keep its closed streams for this, at 60 KiB for each
 * busy connection. Pure.
 */
#ifndef TARRY_HTTP_HTTP2_CLOSED_H
#define TARRY_HTTP_HTTP2_CLOSED_H

#include <stdbool.h>
#include <stdint.h>

enum { HTTP2_CLOSED_KEPT = 64 };

/* The last streams, in a ring. Zeroed at first. */
struct http2_closed {
    int32_t ids[HTTP2_CLOSED_KEPT];
    uint32_t count;
};

void http2_closed_add(struct http2_closed *closed, int32_t id);
bool http2_closed_has(const struct http2_closed *closed, int32_t id);

#endif
