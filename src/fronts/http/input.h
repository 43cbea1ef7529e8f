/*
 * input: bytes of an incomplete request on a connection. A request that is parsed immediately is
 * not copied here: it stays in the buffer that all connections of a front read into.
 *
 * The bytes are counted in the budget of requests. Runs on the reactor thread.
 */
#ifndef TARRY_HTTP_INPUT_H
#define TARRY_HTTP_INPUT_H

#include "http/connection.h"

/* Keeps the bytes that are not parsed yet. `bytes` is the shared buffer or the connection's own.
 * Returns false if out of memory. */
bool http_input_keep(struct http_connection *connection, const char *bytes, size_t len);
/* Makes room for `cap` bytes. Returns false if out of memory, and then changes nothing. */
bool http_input_grow(struct http_connection *connection, size_t cap);
/* Returns the buffer size for the next read: growing, but not above the size of a body of known
 * length. */
size_t http_input_cap_wanted(const struct http_connection *connection);
/* The body of a request that is handled beyond its handler, and the memory that holds it. */
struct http_kept_body {
    struct slice body;
    char *bytes;
    size_t cap; /* counted in the budget */
};
/* Takes the body over from the connection of the current call, or copies it if it is in the buffer of all connections.
 * Returns false if out of memory. */
bool http_input_take_body(struct http_connection *connection, struct slice body,
                          struct http_kept_body *out);
void http_kept_body_drop(struct http_front *front, struct http_kept_body *kept);

/* Frees the memory of a request and its part of the budget. The system takes back a page at a time, so several
 * megabytes are freed in pieces, in later iterations. */
void http_input_free(struct http_front *front, char *bytes, size_t cap);

void http_input_drop_bytes(struct http_connection *connection);
/* Drops a request that is incomplete or not started. */
void http_input_drop(struct http_connection *connection);

#endif
