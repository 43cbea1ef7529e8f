/*
 * dispatch: reads a request from the received bytes, finds its handler, and calls it or holds the
 * request back until there is room for it.
 */
#ifndef TARRY_HTTP_DISPATCH_H
#define TARRY_HTTP_DISPATCH_H

#include "http/connection.h"

enum { HTTP_PENDING_MAX = 256 /* exchanges of one connection */ };

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

#endif
