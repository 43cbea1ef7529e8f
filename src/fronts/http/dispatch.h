/*
 * dispatch: a request begins: read off the bytes that came, led to its handler, carried out now or
 * held back until there is room for it.
 */
#ifndef TARRY_HTTP_DISPATCH_H
#define TARRY_HTTP_DISPATCH_H

#include "http/connection.h"

enum { HTTP_PENDING_MAX = 256 /* exchanges of one connection */ };

enum http_dispatched {
    HTTP_DISPATCH_MORE = 1, /* needs more bytes than there are */
    HTTP_DISPATCH_BLANK,    /* a blank line before a request: nothing yet */
    HTTP_DISPATCH_DONE,     /* carried out: its answer comes, or is there */
    HTTP_DISPATCH_HELD,     /* has to wait: ask again when the connection has its turn */
    HTTP_DISPATCH_REFUSED,  /* answer *fault and close */
    HTTP_DISPATCH_FAILED    /* no memory: cut it */
};

/* One message from bytes[*at..*len); *at moves behind it. What is left over of `bytes` may be less
 * than before: chunks are taken out of their wrapping in place. */
enum http_dispatched http_dispatch(struct http_connection *connection, char *bytes, size_t *len,
                                   size_t *at, struct http_fault *fault);

#endif
