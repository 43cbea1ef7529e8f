/*
 * dispatch: reads a request from the received bytes, finds its handler, and calls it or holds the
 * request back until there is room for it.
 */
#ifndef TARRY_HTTP_DISPATCH_H
#define TARRY_HTTP_DISPATCH_H

#include "http/connection.h"

enum {
    HTTP_PENDING_MAX = 256, /* exchanges of one connection */
    HTTP_ITERATION_REQUESTS =
        512, /* per iteration; above it each connection may begin HTTP_ITERATION_SHARE, */
    HTTP_ITERATION_SHARE = 8, /* so that pipelining clients do not delay those with single requests,
                               */
    HTTP_LATE_SHARE = 1       /* or HTTP_LATE_SHARE in an iteration that has lasted long */
};

enum http_dispatched {
    HTTP_DISPATCH_MORE = 1, /* the request is incomplete */
    HTTP_DISPATCH_BLANK,    /* a blank line before a request; no request yet */
    HTTP_DISPATCH_DONE,     /* handled: the answer is there or will follow */
    HTTP_DISPATCH_HELD,     /* held back: try again in the next iteration of the connection */
    HTTP_DISPATCH_REFUSED,  /* answer *fault and close */
    HTTP_DISPATCH_FAILED    /* out of memory: close the connection */
};

/* Handles one message from bytes[*at..*len) and sets *at to its end. May shorten the rest of
 * `bytes`, because chunked bodies are decoded in place. */
enum http_dispatched http_dispatch(struct http_connection *connection, char *bytes, size_t *len,
                                   size_t *at, struct http_fault *fault);

/* Handles the request of an HTTP/2 stream. The connection's input holds its text in the form of
 * HTTP/1.1: a head of `head_bytes` and the body as far as it has arrived. If not `is_whole`, only the
 * head is checked, and the result is MORE unless the request has been answered or refused. */
enum http_dispatched http_dispatch_stream(struct http_connection *connection, size_t head_bytes,
                                          bool is_whole, struct http_fault *fault);

/* Returns whether the connection has used up its share of this iteration with `begun` requests. It
 * continues at the end of the iteration. Reads the clock after the first request, and then after every fourth one. */
static inline bool http_dispatch_has_had_share(const struct http_front *front, uint32_t begun)
{
    return (begun >= HTTP_ITERATION_SHARE &&
            front->iteration_requests >= HTTP_ITERATION_REQUESTS) ||
           (begun % 4 == HTTP_LATE_SHARE && reactor_is_late(front->reactor));
}

#endif
